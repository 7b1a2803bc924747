"""What an address of the Proton server stands for: messages as they came, and the links they leave by."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from tests.interop.peers.proton_messages import outcome_of
from tests.interop.peers.proton_wire import proton

ACCEPT = {"name": "accepted"}


class Stored:
    """A message in a queue; the serial number tells a browser which ones it has seen."""

    def __init__(self, octets: bytes, settled: bool, serial: int) -> None:
        self.octets = octets
        self.settled = settled
        self.serial = serial

    def message(self) -> Any:
        message = proton.Message()
        message.decode(self.octets)
        return message


class Outlet:
    """A sending link and what is unsettled on it."""

    def __init__(self, link: Any, copies: bool) -> None:
        self.link = link
        self.copies = copies
        self.seen = -1
        self.unsettled: dict[int, Stored] = {}


class Queue:
    """What an address stands for, and how it is told to behave."""

    def __init__(self, address: str, serials: Callable[[], int]) -> None:
        self.address = address
        self.messages: deque[Stored] = deque()
        self.outlets: deque[Outlet] = deque()
        self.answer: Mapping[str, Any] = ACCEPT
        self.refusal: Any = None
        self.is_echo = False
        self.told: list[Mapping[str, object]] = []
        self.unsettled = 0
        self._serials = serials

    def store(self, octets: bytes, settled: bool) -> None:
        self.messages.append(Stored(octets, settled, self._serials()))

    def give_back(self, stored: Stored, failed: bool) -> None:
        """A message was not taken: it goes to the head, and has failed once more if so."""
        if failed:
            message = stored.message()
            message.delivery_count += 1
            stored.octets = bytes(message.encode())
        self.messages.appendleft(stored)

    def flush(self) -> None:
        """Send what the credit of the links allows, to one after the other; then end the draining."""
        is_moving = True
        while is_moving:
            is_moving = False
            for _ in range(len(self.outlets)):
                outlet = self.outlets[0]
                self.outlets.rotate(-1)
                if outlet.link.credit > 0 and (stored := self._next_for(outlet)) is not None:
                    self._send(outlet, stored)
                    is_moving = True
        for outlet in self.outlets:
            if outlet.link.drain_mode:
                outlet.link.drained()

    def _next_for(self, outlet: Outlet) -> Stored | None:
        if not outlet.copies:
            return self.messages.popleft() if self.messages else None
        found = next((each for each in self.messages if each.serial > outlet.seen), None)
        if found is not None:
            outlet.seen = found.serial
        return found

    def _send(self, outlet: Outlet, stored: Stored) -> None:
        delivery = outlet.link.delivery(outlet.link.delivery_tag())
        delivery.number = self._serials()
        outlet.link.stream(stored.octets)
        outlet.link.advance()
        if outlet.link.snd_settle_mode == proton.Link.SND_SETTLED:
            delivery.settle()
        else:
            outlet.unsettled[delivery.number] = stored
            self.unsettled += 1

    def finish(self, outlet: Outlet, delivery: Any) -> None:
        """A receiver told what became of a delivery."""
        if (stored := outlet.unsettled.pop(delivery.number, None)) is not None:
            self.conclude(outlet, delivery, stored, outcome_of(delivery))

    def conclude(
        self, outlet: Outlet, delivery: Any, stored: Stored, outcome: Mapping[str, object] | None
    ) -> None:
        """Settle a delivery, and let its outcome have its effect; without one the message stays."""
        delivery.settle()
        self.unsettled -= 1
        if outcome is not None:
            self.told.append(outcome)
        name = outcome["name"] if outcome else None
        stays = name in ("released", None) or (
            outcome is not None and name == "modified" and not outcome["undeliverable_here"]
        )
        if stays and not outlet.copies:
            self.give_back(stored, bool(outcome and outcome["delivery_failed"]))

    def drop(self, outlet: Outlet) -> None:
        """A sending link is gone: what was unsettled on it is back in the queue, in its old order."""
        if outlet not in self.outlets:
            return
        self.outlets.remove(outlet)
        self.unsettled -= len(outlet.unsettled)
        if not outlet.copies:
            for stored in reversed(outlet.unsettled.values()):
                self.give_back(stored, False)
        outlet.unsettled.clear()
