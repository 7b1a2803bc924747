"""The channels of a connection: two maps that have nothing to do with each other (section 2.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqpforge.errors import LocalError

from .lowest_free import LowestFree

if TYPE_CHECKING:
    from .session import Session

__all__ = ["Channels"]


class Channels:
    """Which session has which channel. The numbers of the two directions are unrelated.

    Attributes:
        incoming: by the channel of the peer's frames, from its begin to its end.
        outgoing: by the channel of our frames, from our begin to our end.
    """

    __slots__ = ("_numbers", "incoming", "outgoing")

    def __init__(self) -> None:
        self.incoming: dict[int, Session] = {}
        self.outgoing: dict[int, Session] = {}
        self._numbers = LowestFree()

    def has_room(self, most: int) -> bool:
        """Whether an outgoing channel up to the number ``most`` is free."""
        return self._numbers.lowest <= most

    def take(self, session: Session, most: int) -> int:
        """Give a session the lowest free outgoing channel.

        Raises:
            LocalError: it is above ``most``.
        """
        if not self.has_room(most):
            raise LocalError(f"all {most + 1} channels that the channel-max of both ends allows are taken")
        channel = self._numbers.take()
        self.outgoing[channel] = session
        return channel

    def free(self, channel: int) -> None:
        """An outgoing channel that was taken is free again."""
        del self.outgoing[channel]
        self._numbers.give_back(channel)

    def empty(self) -> list[Session]:
        """Let go of all sessions, and return them: each once, by their channels."""
        sessions = list(dict.fromkeys((*self.outgoing.values(), *self.incoming.values())))
        self.outgoing.clear()
        self.incoming.clear()
        return sessions
