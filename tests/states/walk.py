"""A generated machine as the tests see it: where events lead, and what a state answers to an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

from amqpforge_protocol.amqp_1_0 import states

S = TypeVar("S", bound=IntEnum)
E = TypeVar("E", bound=IntEnum)

IGNORED = "ignored"
LOCAL = "local error"
_WORDS = {states.IGNORED: IGNORED, states.LOCAL_ERROR: LOCAL, states.PEER_ERROR: "peer error"}


@dataclass(frozen=True)
class Walk(Generic[S, E]):
    """One machine of the generated module."""

    states: type[S]
    events: type[E]
    initial: S
    transitions: tuple[tuple[int, ...], ...]
    conditions: tuple[tuple[str | None, ...], ...]
    reasons: tuple[tuple[str, ...], ...]
    guards: Mapping[tuple[int, int], tuple[str, ...]]

    def answer(self, state: S, event: E) -> S | str:
        """The next state, or the word for the result; for an error of the peer, its condition."""
        number = self.transitions[state][event]
        return self.states(number) if number >= 0 else self.conditions[state][event] or _WORDS[number]

    def walk(self, *path: E) -> S:
        """The state that a run of legal events leads to from the first state."""
        state = self.initial
        for event in path:
            number = self.transitions[state][event]
            assert number >= 0, f"{state.name} does not allow {event.name}"
            state = self.states(number)
        return state

    def legal(self, state: S, direction: str) -> set[E]:
        """The events of a direction (``SEND``, ``RECEIVE``: the start of their names) that a state allows."""
        return {event for event in self.events_of(direction) if self.transitions[state][event] >= 0}

    def answers(self, state: S, direction: str) -> set[S | str]:
        """All the answers of a state to the events of a direction."""
        return {self.answer(state, event) for event in self.events_of(direction)}

    def events_of(self, direction: str) -> list[E]:
        return [event for event in self.events if event.name.startswith(f"{direction}_")]

    def paths(self) -> dict[S, tuple[E, ...]]:
        """For every state that can be reached, a shortest run of events from the first state to it."""
        found: dict[S, tuple[E, ...]] = {self.initial: ()}
        waiting = [self.initial]
        for state in waiting:
            for event in self.events:
                number = self.transitions[state][event]
                if number >= 0 and (target := self.states(number)) not in found:
                    found[target] = (*found[state], event)
                    waiting.append(target)
        return found

    def after(self, *marks: E) -> set[S]:
        """Every state that can be current once one of the events has happened."""
        found = {self.states(row[mark]) for row in self.transitions for mark in marks if row[mark] >= 0}
        waiting = sorted(found)
        for state in waiting:
            for number in self.transitions[state]:
                if number >= 0 and self.states(number) not in found:
                    found.add(self.states(number))
                    waiting.append(self.states(number))
        return found

    def before(self, *marks: E) -> set[S]:
        """Every state that can be current while none of the events has happened yet."""
        found = {self.initial}
        waiting = [self.initial]
        for state in waiting:
            for event in self.events:
                number = self.transitions[state][event]
                if event not in marks and number >= 0 and (target := self.states(number)) not in found:
                    found.add(target)
                    waiting.append(target)
        return found


CONNECTION = Walk(
    states.ConnectionState,
    states.ConnectionEvent,
    states.CONNECTION_INITIAL,
    states.CONNECTION_TRANSITIONS,
    states.CONNECTION_CONDITIONS,
    states.CONNECTION_REASONS,
    states.CONNECTION_GUARDS,
)
SESSION = Walk(
    states.SessionState,
    states.SessionEvent,
    states.SESSION_INITIAL,
    states.SESSION_TRANSITIONS,
    states.SESSION_CONDITIONS,
    states.SESSION_REASONS,
    states.SESSION_GUARDS,
)
LINK = Walk(
    states.LinkState,
    states.LinkEvent,
    states.LINK_INITIAL,
    states.LINK_TRANSITIONS,
    states.LINK_CONDITIONS,
    states.LINK_REASONS,
    states.LINK_GUARDS,
)
OUTGOING_DELIVERY = Walk(
    states.OutgoingDeliveryState,
    states.OutgoingDeliveryEvent,
    states.OUTGOING_DELIVERY_INITIAL,
    states.OUTGOING_DELIVERY_TRANSITIONS,
    states.OUTGOING_DELIVERY_CONDITIONS,
    states.OUTGOING_DELIVERY_REASONS,
    states.OUTGOING_DELIVERY_GUARDS,
)
INCOMING_DELIVERY = Walk(
    states.IncomingDeliveryState,
    states.IncomingDeliveryEvent,
    states.INCOMING_DELIVERY_INITIAL,
    states.INCOMING_DELIVERY_TRANSITIONS,
    states.INCOMING_DELIVERY_CONDITIONS,
    states.INCOMING_DELIVERY_REASONS,
    states.INCOMING_DELIVERY_GUARDS,
)
MESSAGE = Walk(
    states.MessageState,
    states.MessageEvent,
    states.MESSAGE_INITIAL,
    states.MESSAGE_TRANSITIONS,
    states.MESSAGE_CONDITIONS,
    states.MESSAGE_REASONS,
    states.MESSAGE_GUARDS,
)
