"""All generated tables: complete, consistent, reachable, and saying what the definitions say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import cast

import pytest

import amqpforge_spec
from amqpforge_generator.load import load_dialect
from amqpforge_generator.model import Machine
from amqpforge_protocol.amqp_1_0 import states
from tests.states.walk import CONNECTION, INCOMING_DELIVERY, LINK, MESSAGE, OUTGOING_DELIVERY, SESSION, Walk

AnyWalk = Walk[IntEnum, IntEnum]

MACHINES = cast(
    "dict[str, AnyWalk]",
    {
        "connection": CONNECTION,
        "session": SESSION,
        "link": LINK,
        "outgoing-delivery": OUTGOING_DELIVERY,
        "incoming-delivery": INCOMING_DELIVERY,
        "message": MESSAGE,
    },
)
PAIRS = {
    "connection": 14 * 17,
    "session": 7 * 8,
    "link": 16 * 16,
    "outgoing-delivery": 4 * 5,
    "incoming-delivery": 4 * 5,
    "message": 3 * 11,
}
each_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES.keys())


def pairs(machine: AnyWalk) -> Iterator[tuple[IntEnum, IntEnum, int]]:
    for state, row in zip(machine.states, machine.transitions, strict=True):
        for event, number in zip(machine.events, row, strict=True):
            yield state, event, number


@pytest.mark.parametrize("name", PAIRS)
def test_every_pair_has_an_answer(name: str) -> None:
    machine = MACHINES[name]
    answers = [number for _, _, number in pairs(machine)]
    assert len(answers) == PAIRS[name]
    assert set(answers) <= {*machine.states, states.IGNORED, states.LOCAL_ERROR, states.PEER_ERROR}


def test_pairs_in_all() -> None:
    assert sum(len(row) for machine in MACHINES.values() for row in machine.transitions) == 623


@each_machine
def test_every_state_is_reached_by_a_walk(machine: AnyWalk) -> None:
    paths = machine.paths()
    assert set(paths) == set(machine.states)
    for state, path in paths.items():
        assert machine.walk(*path) is state


@each_machine
def test_conditions_go_with_errors_of_the_peer(machine: AnyWalk, data: Path) -> None:
    known = conditions(data)
    for state, event, number in pairs(machine):
        condition = machine.conditions[state][event]
        assert (condition is not None) == (number == states.PEER_ERROR), (state, event)
        assert condition is None or condition in known, (state, event)


def conditions(data: Path) -> set[str]:
    """The error conditions of the transport part, from the facts and not from the definitions."""
    facts = json.loads((data / "amqp10-facts.json").read_text("utf-8"))
    types = [
        type_ for type_ in facts["transport"]["types"] if "error-condition" in str(type_.get("provides"))
    ]
    assert len(types) == 4
    return {choice["value"] for type_ in types for choice in type_["choices"]}


@each_machine
def test_whatever_is_refused_or_dropped_has_a_reason(machine: AnyWalk) -> None:
    for state, event, number in pairs(machine):
        assert number >= 0 or machine.reasons[state][event], (state, event)


@each_machine
def test_guards_are_on_legal_pairs(machine: AnyWalk) -> None:
    for (state, event), guards in machine.guards.items():
        assert machine.transitions[state][event] >= 0
        assert guards
        assert len(set(guards)) == len(guards)


@each_machine
def test_what_is_held_changes_nothing(machine: AnyWalk) -> None:
    for (state, event), guards in machine.guards.items():
        if any(guard.startswith("held-until-") for guard in guards):
            assert machine.transitions[state][event] == state


@each_machine
def test_blame_falls_on_whoever_acted(machine: AnyWalk) -> None:
    for state, event, number in pairs(machine):
        if event.name.startswith("SEND_"):
            assert number >= 0 or number == states.LOCAL_ERROR, (state, event)
        if number == states.PEER_ERROR:
            assert event.name.startswith("RECEIVE_"), (state, event)


def test_receiving_is_a_local_error_only_where_the_event_was_named_wrongly() -> None:
    found = {
        (state.name, event.name)
        for machine in MACHINES.values()
        for state, event, number in pairs(machine)
        if event.name.startswith("RECEIVE_") and number == states.LOCAL_ERROR
    }
    assert found == {
        ("START", "RECEIVE_OTHER_HEADER"),
        ("CLOSED", "RECEIVE_ATTACH"),
        ("CLOSED", "RECEIVE_RESUME"),
    }


@pytest.fixture(scope="module")
def defined() -> dict[str, Machine]:
    """The machines as the definitions have them."""
    dialect = load_dialect(amqpforge_spec.dialect_folder("amqp_1_0"))
    return {machine.name.xml: machine for machine in dialect.machines}


def test_the_machines_are_those_of_the_definitions(defined: dict[str, Machine]) -> None:
    assert list(defined) == list(MACHINES)


@pytest.mark.parametrize("name", MACHINES)
def test_the_tables_say_what_the_definitions_say(name: str, defined: dict[str, Machine]) -> None:
    machine, table = defined[name], MACHINES[name]
    assert [state.name.upper for state in machine.states] == [state.name for state in table.states]
    assert [event.name.upper for event in machine.events] == [event.name for event in table.events]
    assert machine.initial.name.upper == table.initial.name
    codes = {"ignored": states.IGNORED, "local-error": states.LOCAL_ERROR, "peer-error": states.PEER_ERROR}
    for state, event, number in pairs(table):
        cell = machine.rows[state][event]
        assert number == (cell.target.index if cell.target is not None else codes[cell.result])
        assert table.conditions[state][event] == cell.condition
        assert table.reasons[state][event] == cell.reason
        assert table.guards.get((state, event), ()) == tuple(guard.name.xml for guard in cell.guards)


def test_every_event_has_the_direction_of_its_name(defined: dict[str, Machine]) -> None:
    for machine in defined.values():
        for event in machine.events:
            word = event.name.words[0]
            assert event.direction == (word if word in ("send", "receive") else "local"), event.name


def test_public_names_are_all_there_and_sorted() -> None:
    assert {"IGNORED", "LOCAL_ERROR", "PEER_ERROR", "ConnectionState", "LINK_GUARDS"} <= set(states.__all__)
    assert len(states.__all__) == 3 + 7 * len(MACHINES)
    assert all(hasattr(states, name) for name in states.__all__)
    constants = [name for name in states.__all__ if name.isupper()]
    assert list(states.__all__) == [*sorted(constants), *sorted(set(states.__all__) - set(constants))]
