"""Gates, which hold frames until a test lets them go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from amqpforge.errors import LocalError

from .loop import in_loop
from .seen import AnySeen

if TYPE_CHECKING:
    from .stand import Stand

__all__ = ["Delay", "Gate", "Passage"]


@dataclass(slots=True)
class Passage:
    """A frame on its way through the rules.

    Attributes:
        seen: the frame.
        pieces: what goes on instead of it; at first its octets.
        gates: the gates that have to let it through.
        after: what is to be done once it is through.
        channel: that of the frame, 0 if it has none.
    """

    seen: AnySeen
    pieces: list[bytes]
    gates: list[Gate] = field(default_factory=list)
    after: list[Callable[[], None]] = field(default_factory=list)

    @property
    def channel(self) -> int:
        return self.seen.channel or 0


class Gate:
    """Holds frames until a test lets them go.

    A frame of a client holds up all that follows it on its connection: the node is late. A frame of the node
    is held alone: what the node sends later overtakes it.

    Attributes:
        is_open: whether frames pass.
    """

    def __init__(self, stand: Stand[Any]) -> None:
        self.stand = stand
        self.is_open = False
        self._held: list[tuple[AnySeen, Callable[[], None]]] = []

    @property
    def held(self) -> list[AnySeen]:
        """The frames that wait, in the order in which they came."""
        return [seen for seen, _ in list(self._held)]

    def add(self, seen: AnySeen, go: Callable[[], None]) -> None:
        """A frame has to wait; ``go`` lets it go on."""
        self._held.append((seen, go))
        self.stand.changed()

    @in_loop
    def let(self, index: int = 0) -> AnySeen:
        """Let one frame go, by its place in :attr:`held`; returns it.

        Raises:
            LocalError: no frame is at that place.
        """
        if not -len(self._held) <= index < len(self._held):
            raise LocalError(f"no frame {index} is held: there are {len(self._held)}")
        seen, go = self._held.pop(index)
        go()
        return seen

    @in_loop
    def open(self) -> None:
        """Let all frames go, in order, and hold no more."""
        self.is_open = True
        while self._held:
            self.let()

    @in_loop
    def close(self) -> None:
        """Hold frames again."""
        self.is_open = False


class Delay(Gate):
    """A gate that lets each frame go by itself after a time, in seconds."""

    def __init__(self, stand: Stand[Any], seconds: float) -> None:
        super().__init__(stand)
        self._seconds = seconds

    def add(self, seen: AnySeen, go: Callable[[], None]) -> None:
        super().add(seen, go)
        asyncio.get_running_loop().call_later(self._seconds, self._let_oldest)

    def _let_oldest(self) -> None:
        try:
            self.let()
        except Exception as error:
            self.stand.failed(error)
