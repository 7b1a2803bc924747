"""The machines of the early 1.0 draft as they are defined, walked by the names that the definitions use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import amqpforge_spec
from amqpforge_generator.load import load_dialect
from amqpforge_generator.model import Cell, Machine

IGNORED = "ignored"
LOCAL = "local-error"


@dataclass(frozen=True)
class Drawn:
    """One machine of the definitions; states and events go by their names."""

    machine: Machine

    @cached_property
    def cells(self) -> dict[tuple[str, str], Cell]:
        """The answer to each pair of a state and an event."""
        return {
            (state, event): cell
            for state, row in zip(self.states, self.machine.rows, strict=True)
            for event, cell in zip(self.events, row, strict=True)
        }

    @cached_property
    def states(self) -> tuple[str, ...]:
        return tuple(state.name.xml for state in self.machine.states)

    @cached_property
    def events(self) -> tuple[str, ...]:
        return tuple(event.name.xml for event in self.machine.events)

    def events_of(self, direction: str) -> set[str]:
        """The names of the events that go in a direction: ``send``, ``receive`` or ``local``."""
        return {event.name.xml for event in self.machine.events if event.direction == direction}

    def answer(self, state: str, event: str) -> str:
        """The next state, or the word for the result; for an error of the peer, its condition."""
        cell = self.cells[state, event]
        return cell.target.name.xml if cell.target is not None else cell.condition or cell.result

    def answers(self, state: str, direction: str) -> set[str]:
        """All the answers of a state to the events of a direction."""
        return {self.answer(state, event) for event in self.events_of(direction)}

    def guards(self, state: str, event: str) -> tuple[str, ...]:
        """What else has to be the case for the answer to be right."""
        return tuple(guard.name.xml for guard in self.cells[state, event].guards)

    def walk(self, *path: str) -> str:
        """The state that a run of legal events leads to from the first state."""
        state = self.machine.initial.name.xml
        for event in path:
            assert self.cells[state, event].target is not None, f"{state} does not allow {event}"
            state = self.answer(state, event)
        return state

    def legal(self, state: str, direction: str) -> set[str]:
        """The events of a direction that a state allows."""
        return {event for event in self.events_of(direction) if self.cells[state, event].target is not None}

    def reached(self, *starts: str) -> set[str]:
        """Every state that some run of legal events leads to from the given ones, with these."""
        found, waiting = set(starts), list(starts)
        for state in waiting:
            for event in self.events:
                target = self.cells[state, event].target
                if target is not None and target.name.xml not in found:
                    found.add(target.name.xml)
                    waiting.append(target.name.xml)
        return found


MACHINES = {
    machine.name.xml: Drawn(machine)
    for machine in load_dialect(amqpforge_spec.dialect_folder("amqp_1_0_draft")).machines
}
CONNECTION = MACHINES["connection"]
SESSION = MACHINES["session"]
TRANSFER = MACHINES["transfer"]
