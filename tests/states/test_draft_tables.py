"""All tables of the early 1.0 draft: complete, reachable, blaming the right side, and rendered as defined."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from amqpforge_generator.model import Cell
from amqpforge_protocol.amqp_1_0_draft import states
from tests.states.drawn import MACHINES, Drawn

PAIRS = {"connection": 12 * 16, "session": 6 * 8, "transfer": 5 * 14}
each_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES.keys())


def test_the_states_are_those_of_the_facts(data: Path) -> None:
    facts = json.loads((data / "amqp-1-0-draft-facts.json").read_text("utf-8"))["states"]
    assert {name: list(machine.states) for name, machine in MACHINES.items()} == facts


@pytest.mark.parametrize("name", PAIRS)
def test_every_pair_has_an_answer(name: str) -> None:
    machine = MACHINES[name]
    assert len(machine.cells) == PAIRS[name] == len(machine.states) * len(machine.events)
    for (state, _), cell in machine.cells.items():
        assert (cell.target is not None) == (cell.result == "next"), state


@each_machine
def test_every_state_is_reached(machine: Drawn) -> None:
    assert machine.reached(machine.machine.initial.name.xml) == set(machine.states)


@each_machine
def test_every_answer_has_a_reason(machine: Drawn) -> None:
    assert [pair for pair, cell in machine.cells.items() if not cell.reason] == []


@each_machine
def test_blame_falls_on_whoever_acted(machine: Drawn) -> None:
    sends, receives = machine.events_of("send"), machine.events_of("receive")
    for (state, event), cell in machine.cells.items():
        if event in sends:
            assert cell.result in ("next", "local-error"), (state, event)
        if cell.result == "peer-error":
            assert event in receives, (state, event)


def test_receiving_is_a_local_error_only_where_the_event_was_named_wrongly() -> None:
    found = {
        (state, event)
        for machine in MACHINES.values()
        for (state, event), cell in machine.cells.items()
        if event in machine.events_of("receive") and cell.result == "local-error"
    }
    assert found == {("START", "receive-other-header")}


@each_machine
def test_what_is_held_changes_nothing(machine: Drawn) -> None:
    for (state, event), cell in machine.cells.items():
        if any(guard.startswith("held-until-") for guard in machine.guards(state, event)):
            assert machine.answer(state, event) == state
            assert cell.target is not None


@each_machine
def test_every_event_has_the_direction_of_its_name(machine: Drawn) -> None:
    for event in machine.machine.events:
        word = event.name.words[0]
        assert event.direction == (word if word in ("send", "receive") else "local"), event.name


def test_errors_are_reported_with_codes_that_their_level_can_carry() -> None:
    conditions = {
        name: {cell.condition for cell in machine.cells.values() if cell.condition is not None}
        for name, machine in MACHINES.items()
    }
    assert conditions == {
        "connection": {"close-code:framing-error"},
        "session": {"error-code:command-invalid", "error-code:illegal-state"},
        "transfer": set(),
    }


@pytest.mark.parametrize("name", MACHINES)
def test_the_rendered_tables_say_what_the_definitions_say(name: str) -> None:
    machine, upper = MACHINES[name].machine, name.upper()
    codes = {"ignored": states.IGNORED, "local-error": states.LOCAL_ERROR, "peer-error": states.PEER_ERROR}

    def number(cell: Cell) -> int:
        return cell.target.index if cell.target is not None else int(codes[cell.result])

    def table(value: Callable[[Cell], object]) -> tuple[tuple[object, ...], ...]:
        return tuple(tuple(value(cell) for cell in row) for row in machine.rows)

    assert getattr(states, f"{upper}_TRANSITIONS") == table(number)
    assert getattr(states, f"{upper}_CONDITIONS") == table(lambda cell: cell.condition)
    assert getattr(states, f"{upper}_REASONS") == table(lambda cell: cell.reason)
    guards = {
        (state.index, event.index): tuple(guard.name.xml for guard in cell.guards)
        for state, row in zip(machine.states, machine.rows, strict=True)
        for event, cell in zip(machine.events, row, strict=True)
        if cell.guards
    }
    assert getattr(states, f"{upper}_GUARDS") == guards
    assert getattr(states, f"{upper}_INITIAL").name == machine.initial.name.upper
    for kind, items in (("State", machine.states), ("Event", machine.events)):
        members = getattr(states, f"{machine.name.camel}{kind}")
        assert [member.name for member in members] == [item.name.upper for item in items]
