"""What goes over a connection, for people to see: a trace of its frames, and a recording of its octets.

Both show the octets as they are inside TLS, and neither shows a secret: what SASL frames carry is replaced.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from amqpforge_protocol.amqp_1_0 import (
    DecodeError,
    FrameReader,
    FrameType,
    SaslChallenge,
    SaslInit,
    SaslOutcome,
    SaslResponse,
    decode_frame,
    encode_frame,
)

if TYPE_CHECKING:
    from amqpforge.url import Url

__all__ = ["TRACE_VARIABLE", "Sink", "Tap", "redacted", "trace_to_stderr"]

TRACE_VARIABLE: Final = "AMQPFORGE_TRACE"
"""The environment variable; with ``frm`` among its values each frame is written to standard error."""

Direction = Literal["c2s", "s2c"]

_SECRET: Final = b"(secret)"
_LARGEST: Final = 1 << 28
"""Octets of a frame; what begins with a larger size is none."""
_TYPE_AT: Final = 5  # in the header of a frame (section 2.3.1)

_frames = logging.getLogger("amqpforge.frames")
_numbers = count()


class Sink(Protocol):
    """Takes the octets of a connection, secrets taken out, in order."""

    def octets(self, direction: Direction, time_ns: int, octets: bytes) -> None:
        """Whole headers and frames went in a direction at a time, in nanoseconds since 1970."""

    def close(self) -> None:
        """The connection is over."""


class Tap:
    """Hands what goes over one connection of a client to those who want to see it."""

    def __init__(self, sinks: Iterable[Sink]) -> None:
        self._sinks = list(sinks)
        self._sent = _Redaction()
        self._received = _Redaction()

    @classmethod
    def wanted(cls, record: Path | None, url: Url) -> Tap | None:
        """A tap, if anybody wants to see a connection to ``url``.

        Raises:
            OSError: the recording cannot be written.
        """
        sinks: list[Sink] = []
        if "frm" in os.environ.get(TRACE_VARIABLE, "").split(","):
            trace_to_stderr()
        if _frames.isEnabledFor(logging.DEBUG):
            sinks.append(_Trace(next(_numbers), _frames.debug))
        if record is not None:
            from .recording import Recording

            sinks.append(Recording.append_to(record, url.port))
        return cls(sinks) if sinks else None

    def sent(self, octets: bytes) -> None:
        """Octets go out."""
        self._pass("c2s", self._sent.feed(octets))

    def received(self, octets: bytes) -> None:
        """Octets came in."""
        self._pass("s2c", self._received.feed(octets))

    def ended(self) -> None:
        """The connection is over."""
        for sink in self._sinks:
            sink.close()
        self._sinks.clear()

    def _pass(self, direction: Direction, octets: bytes) -> None:
        if octets:
            now = time.time_ns()
            for sink in self._sinks:
                sink.octets(direction, now, octets)


class _Redaction:
    """Takes the secrets out of one direction; from octets that are no frames on all goes through as it is."""

    def __init__(self) -> None:
        self._reader: FrameReader | None = FrameReader(_LARGEST)
        self._held = bytearray()

    def feed(self, octets: bytes) -> bytes:
        reader, held = self._reader, self._held
        if reader is None:
            return octets
        held += octets
        parts: list[bytes] = []
        try:
            for item in reader.feed(octets):
                del held[: len(item)]
                parts.append(redacted(item))
            reader.feed(b"")  # What follows a malformed frame is told only now.
        except DecodeError:
            self._reader = None
            parts.append(bytes(held))
            held.clear()
        return b"".join(parts)


def redacted(item: bytes) -> bytes:
    """A protocol header or a frame; if it is a SASL frame, without what it carries."""
    if item.startswith(b"AMQP") or item[_TYPE_AT] != FrameType.SASL:
        return item
    try:
        performative: Any = decode_frame(item)[0].performative
    except DecodeError:
        return b""
    if isinstance(performative, SaslInit) and performative.initial_response is not None:
        performative.initial_response = _SECRET
    elif isinstance(performative, SaslChallenge):
        performative.challenge = _SECRET
    elif isinstance(performative, SaslResponse):
        performative.response = _SECRET
    elif isinstance(performative, SaslOutcome) and performative.additional_data is not None:
        performative.additional_data = _SECRET
    return encode_frame(performative)


class _Trace:
    """Frames as the lines of ``amqpforge decode``."""

    def __init__(self, number: int, show: Callable[[str, object], None]) -> None:
        from amqpforge.capture.conversation import Conversation

        self._conversation = Conversation(number, beginning=True)
        self._offsets: dict[Direction, int] = {"c2s": 0, "s2c": 0}
        self._show = show

    def octets(self, direction: Direction, time_ns: int, octets: bytes) -> None:
        from amqpforge.capture.text import line

        offset = self._offsets[direction]
        self._offsets[direction] = offset + len(octets)
        for record in self._conversation.data(direction, offset, time_ns, octets):
            self._show("%s", line(record))

    def close(self) -> None:
        """Nothing is left behind."""


@cache
def trace_to_stderr() -> None:
    """Write each frame of all connections to standard error from now on."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    _frames.addHandler(handler)
    _frames.setLevel(logging.DEBUG)
    _frames.propagate = False
