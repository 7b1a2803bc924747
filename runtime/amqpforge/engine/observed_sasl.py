"""The SASL exchange between two others (section 5.3.2)."""

from __future__ import annotations

from typing import Any, Final

from amqpforge_protocol.amqp_1_0 import (
    SaslChallenge,
    SaslCode,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)

from .observations import EndName, Notebook, Rule, shortened

__all__ = ["ObservedSasl"]

_OF_SERVER: Final = frozenset((SaslMechanisms, SaslChallenge, SaslOutcome))


class ObservedSasl:
    """The steps of one exchange. What they hold is not looked at, but for the name of the mechanism.

    Attributes:
        mechanism: what the client chose; None before.
        code: how it ended; None before.
    """

    __slots__ = ("_asked", "_notes", "_offered", "_server", "code", "mechanism")

    def __init__(self, notes: Notebook) -> None:
        self._notes = notes
        self._server: EndName | None = None
        self._offered = False
        self._asked = 0  # Challenges that wait for a response.
        self.mechanism: str | None = None
        self.code: SaslCode | None = None

    def step(self, end: EndName, step: Any, *, is_judged: bool) -> None:
        """An end takes a step; ``is_judged``: all steps so far, of both ends, were seen."""
        kind = type(step)
        if self._server is None:
            other: EndName = "client" if end == "server" else "server"
            self._server = end if kind in _OF_SERVER else other
        if is_judged:
            wrong = self._wrong(end, kind)
            if wrong is not None:
                self._notes.violated(end, Rule.SASL, f"{step.XML_NAME}: {wrong}")
                return
        if kind is SaslMechanisms:
            self._offered = True
        elif kind is SaslInit:
            self.mechanism = shortened(str(step.mechanism))
        elif kind is SaslChallenge:
            self._asked += 1
        elif kind is SaslResponse:
            self._asked -= 1
        elif kind is SaslOutcome:
            self.code = step.code

    def _wrong(self, end: EndName, kind: type) -> str | None:
        """Why the end must not take a step of this kind, whatever it may have seen; None if it may."""
        if (end == self._server) is not (kind in _OF_SERVER):
            return "that is for the other end to send"
        if self.code is not None:
            return "the exchange is over"
        if kind is SaslMechanisms:
            return "the mechanisms are offered once" if self._offered else None
        if kind is SaslInit:
            return "a mechanism is chosen once" if self.mechanism is not None else None
        if kind is SaslResponse:
            return None if self._asked > 0 else "no challenge waits for a response"
        return None if self.mechanism is not None else "no mechanism is chosen yet"
