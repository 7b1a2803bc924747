"""How far an end of a captured conversation has come in a state table, although nobody saw what it saw when.

The capture point lies between the two ends. What an end has sent is known, in order; of what was sent to it,
only this: it cannot have seen a frame that passed the capture point after its own. So an end has seen *some*
prefix of what passed towards it, and never less later on than before.

An end is taken to have seen as little as explains what it sends: a frame that the table allows in the state
without anything further seen is taken so; else what is on the way is seen, one piece after the other, until
the table allows the frame. Only if nothing that can have been seen allows it, the end is to blame.

And even then not, if the table of the other end takes the frame: engines are strict in what they send, and
there are frames that a peer may well send early (a detach right behind its attach) which the tables have no
state for. The state of the other end is any that it may have had as far as the sender could know. If one of
them takes the frame, or what it does with the frame cannot be told, the machine is *adrift*: nothing is said
of it any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from amqpforge_protocol.amqp_1_0 import states

from .tables import CONNECTION, LINK, SESSION, Machine

__all__ = ["Progress", "Refusal"]

_GUARDS: Final[dict[str, Mapping[tuple[int, int], tuple[str, ...]]]] = {
    CONNECTION.name: states.CONNECTION_GUARDS,
    SESSION.name: states.SESSION_GUARDS,
    LINK.name: states.LINK_GUARDS,
}
_HELD: Final = {
    name: frozenset(
        pair for pair, guards in table.items() if any(guard.startswith("held-until") for guard in guards)
    )
    for name, table in _GUARDS.items()
}
"""What an end takes in only after it has done something itself, by machine: pairs of a state and an event."""


class Refusal(NamedTuple):
    """Why an end must not have sent a frame: for people, and as the condition for the other end to answer
    with, None if it has nothing to answer.
    """

    text: str
    condition: str | None


class _Passed(NamedTuple):
    """What one end has sent, and the other may not have seen."""

    event: IntEnum
    """What it is for the end that it comes to."""
    state: int
    """The state of its sender before."""
    coming: list[IntEnum]
    """What was on the way to its sender then, or has gone that way since."""


class Progress:
    """One state machine of one end.

    Attributes:
        state: the state as far as the end's own frames prove it; None: adrift.
    """

    __slots__ = ("_held", "_machine", "_on_the_way", "state")

    def __init__(self, machine: Machine[Any], initial: IntEnum) -> None:
        self._machine = machine
        self._held = _HELD[machine.name]
        self._on_the_way: list[_Passed] = []  # At most what one end may send without an answer: a few.
        self.state: int | None = int(initial)

    def send(self, event: IntEnum, other: Progress, received: IntEnum) -> Refusal | None:
        """The end sends a frame: ``event`` for it, ``received`` for the ``other`` end.

        Returns:
            Why it is to blame; then nothing has changed. None if it is not.
        """
        before = self.state
        if before is None or other.state is None:
            return None
        transitions, coming = self._machine.transitions, self._coming
        state, seen = before, 0
        while (target := transitions[state][event]) < 0:
            after = self._after(state, coming[seen]) if seen < len(coming) else None
            if after is None:
                return self._blame(event, other, received)
            state, seen = after, seen + 1
        self.state = target
        del self._on_the_way[:seen]
        for passed in self._on_the_way:
            passed.coming.append(received)
        other._on_the_way.append(_Passed(received, before, coming))
        return None

    @property
    def latest(self) -> int | None:
        """The state once all is seen that is on the way and can be; None: adrift."""
        return None if self.state is None else self._latest(self.state, self._coming)[0]

    def set_adrift(self) -> None:
        """Nothing can be said of the machine any more."""
        self.state = None
        self._on_the_way.clear()

    @property
    def _coming(self) -> list[IntEnum]:
        return [passed.event for passed in self._on_the_way]

    def _after(self, state: int, event: IntEnum) -> int | None:
        """The state after something came in; None if it cannot have come in yet."""
        if (state, event) in self._held:
            return None
        target = self._machine.transitions[state][event]
        if target == states.IGNORED:
            return state
        return target if target >= 0 else None

    def _latest(self, state: int, coming: list[IntEnum]) -> tuple[int, bool]:
        """The state with all seen that can be, and whether that is all that is on the way."""
        for event in coming:
            after = self._after(state, event)
            if after is None:
                return state, False
            state = after
        return state, True

    def _blame(self, event: IntEnum, other: Progress, received: IntEnum) -> Refusal | None:
        """The table of the sender refuses its frame: see what that of the receiver says."""
        machine = self._machine
        possible = [(passed.state, passed.coming) for passed in self._on_the_way]
        if other.state is not None:
            possible.append((other.state, other._coming))
        decided = [state for state, is_all in (self._latest(*each) for each in possible) if is_all]
        if self.state is None or not decided or any(machine.transitions[at][received] >= 0 for at in decided):
            self.set_adrift()
            other.set_adrift()
            return None
        state, _ = self._latest(self.state, self._coming)
        where, doing = machine.states(state).name, event.name.lower().replace("_", " ")
        condition = machine.conditions[decided[-1]][received]
        return Refusal(
            f"{machine.name} in state {where}: {doing}: {machine.reasons[state][event]}", condition
        )
