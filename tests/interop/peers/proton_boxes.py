"""What goes through one link of a Proton client, as the scenarios look at it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.interop.peers.proton_messages import (
    DECLARED,
    TERMINAL,
    TRANSACTIONAL,
    attached,
    describe,
    give,
    outcome_of,
)
from tests.interop.peers.proton_wire import proton


class Inbox:
    """What arrives on one receiver, how it is answered, and how far the credit reaches."""

    def __init__(self, link: Any, count: int, credit: int, answer: Mapping[str, Any], second: bool) -> None:
        self.link = link
        self.messages: list[Any] = []
        self.settled: list[bool] = []
        self.resettled = 0
        self.unsettled = 0
        self.deliveries: list[Any] = []
        self._count = count
        self._window = credit
        self._granted = 0
        self._answer = answer
        self._second = second
        self._parts: list[bytes] | None = None

    @property
    def parts(self) -> int:
        """In how many parts the messages were read."""
        return len(self._parts or ())

    def read_in_parts(self) -> None:
        """Read messages while they come in."""
        self._parts = []

    def take_part(self, delivery: Any) -> bool:
        """Something of a delivery can be read; returns whether all of it is there, for :meth:`take`."""
        if self._parts is None:
            return not delivery.partial
        self._parts.append(self.link.recv(delivery.pending))
        return not delivery.partial

    def grant(self) -> None:
        """Fill the credit up, but never ask for more than was wanted."""
        more = min(self._window - self.link.credit, self._count - self._granted)
        if more > 0:
            self.link.flow(more)
            self._granted += more

    def take(self, delivery: Any) -> None:
        """Read a complete delivery and answer it."""
        octets = self.link.recv(delivery.pending) if self._parts is None else b"".join(self._parts)
        self.link.advance()
        message = proton.Message()
        message.decode(octets)
        self.messages.append(message)
        self.settled.append(bool(delivery.settled))
        self.deliveries.append(delivery)
        if delivery.settled:
            delivery.settle()
        elif self._answer["name"] != "none":
            give(delivery, self._answer)
            if self._second:
                self.unsettled += 1
            else:
                delivery.settle()
        self.grant()

    def settle(self, delivery: Any) -> None:
        """The sender has settled what we had answered."""
        delivery.settle()
        self.resettled += 1
        self.unsettled -= 1

    def result(self) -> dict[str, object]:
        return {
            "messages": self.described(),
            "attached": attached(self.link),
            "resettled": self.resettled,
            "credit": self.link.credit,
        }

    def described(self) -> list[dict[str, object]]:
        return [describe(*each) for each in zip(self.messages, self.settled, strict=True)]


class Outbox:
    """What was sent on one link, and what became of it."""

    def __init__(self) -> None:
        self.outcomes: list[dict[str, object]] = []
        self.pending = 0

    def sent(self, delivery: Any, settled: bool) -> None:
        delivery.place = len(self.outcomes)
        self.outcomes.append({"name": None, "settled": settled})
        if settled:
            delivery.settle()
        else:
            self.pending += 1

    def told(self, delivery: Any) -> None:
        """The receiver told something of a delivery; a terminal outcome settles it."""
        if delivery.settled or int(delivery.remote_state) in TERMINAL | {TRANSACTIONAL}:
            self.outcomes[delivery.place] = outcome_of(delivery)
            if int(delivery.remote_state) == DECLARED:
                self.outcomes[delivery.place]["transaction"] = bytes(delivery.remote.data[0])
            delivery.settle()
            self.pending -= 1


class Many:
    """Links that live their lives by themselves: attached, one message, closed."""

    def __init__(self) -> None:
        self.opened = 0
        self.accepted = 0
        self.closed = 0
        self.error: dict[str, object] | None = None
        """The first one that came with a detach."""
