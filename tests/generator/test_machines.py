"""State machines from XML to a total table: every gap and contradiction is found, with file and line."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from lxml import etree

import amqpforge_spec
from amqpforge_generator.machines import error_conditions
from amqpforge_generator.model import Machine
from amqpforge_generator.names import SpecText
from amqpforge_generator.render import make_environment
from amqpforge_generator.target import load_target
from amqpforge_templates import target_folder
from tests.generator.inline import PRIMITIVES, load, load_only, problems_of, section

NAMESPACE = 'xmlns="https://amqpforge.org/schema/states" xmlns:f="https://amqpforge.org/schema/extensions"'

FILE = f'<states {NAMESPACE} name="states" label="Machines">'

ERRORS = section(
    '<type name="fault" class="restricted" source="symbol" provides="error-condition">',
    '<choice name="not-allowed" value="amqp:not-allowed"/>',
    '<choice name="broken" value="amqp:broken"/>',
    "</type>",
    '<type name="other" class="restricted" source="symbol"><choice name="no" value="zzz"/></type>',
    '<type name="body" class="composite" source="list" provides="frame">',
    '<descriptor name="t:body:list" code="0x00000000:0x00000001"/>',
    '<field name="why" type="symbol" requires="error-condition"/></type>',
)

#: Errors with numbers in place of symbols, as the control/command grammar has them.
CODES = """\
<amqp xmlns="https://amqpforge.org/schema/control-command" name="codes">
<type name="uint16" code="0x12" category="fixed" width="2" holds="unsigned"/>
<domain name="close-code" type="uint16"><choice name="framing-error" value="501"/></domain>
<domain name="handle" type="uint16"/>
</amqp>
"""

DOOR = """\
<state name="SHUT" label="shut"/>
<state name="WIDE_OPEN" label="open"><doc><p>Quite</p><p>open.</p></doc></state>
<event name="send-push" direction="send" label="we push"/>
<event name="receive-pull" direction="receive" label="they pull" f:ref="9.9"/>
<event name="fall" direction="local" label="it falls"/>
<guard name="unlocked"><doc><p>Nobody has locked it.</p></doc></guard>
<transition from="SHUT" on="send-push" to="WIDE_OPEN" guards="unlocked"/>
<transition from="SHUT" on="receive-pull" error="peer" condition="amqp:not-allowed" reason="It sticks."/>
<transition from="WIDE_OPEN" on="receive-pull" to="SHUT" reason="As they like."/>
<transition from="*" on="send-push" error="local" default="true" reason="It is open."/>
<transition from="WIDE_OPEN" on="fall" stay="true"/>
<transition from="SHUT" on="fall" ignore="true" reason="It leans."/>
"""


def machine_file(
    body: str = DOOR, attributes: str = 'name="door" initial="SHUT" label="A door" f:ref="1.2"'
) -> str:
    """A file of one machine; the first line of its body is line 3."""
    return f"{FILE}\n<machine {attributes}>\n{body}</machine>\n</states>"


def door(folder: Path, body: str = DOOR) -> Machine:
    (machine,) = load(folder, errors=ERRORS, states=machine_file(body)).machines
    return machine


def wrong(folder: Path, states: str) -> list[str]:
    """The problems of a dialect with this file of machines, without the folder in front."""
    found = problems_of(folder, types=PRIMITIVES, errors=ERRORS, states=states)
    return [problem.removeprefix("tiny/states.xml:") for problem in found]


def changed(folder: Path, old: str, new: str) -> list[str]:
    """The problems of the door with one word of it changed."""
    assert DOOR.count(old) == 1
    return wrong(folder, machine_file(DOOR.replace(old, new)))


def answers(machine: Machine) -> list[tuple[str, str, str, str | None]]:
    """State, event, result (the name of the next state, if any) and condition of each pair."""
    return [
        (
            state.name.xml,
            event.name.xml,
            cell.target.name.xml if cell.target is not None else cell.result,
            cell.condition,
        )
        for state, row in zip(machine.states, machine.rows, strict=True)
        for event, cell in zip(machine.events, row, strict=True)
    ]


def test_rows_become_a_total_table(tmp_path: Path) -> None:
    assert answers(door(tmp_path)) == [
        ("SHUT", "send-push", "WIDE_OPEN", None),
        ("SHUT", "receive-pull", "peer-error", "amqp:not-allowed"),
        ("SHUT", "fall", "ignored", None),
        ("WIDE_OPEN", "send-push", "local-error", None),
        ("WIDE_OPEN", "receive-pull", "SHUT", None),
        ("WIDE_OPEN", "fall", "WIDE_OPEN", None),
    ]


def test_names_words_and_guards_are_kept(tmp_path: Path) -> None:
    machine = door(tmp_path)
    assert machine.name.xml == "door"
    assert machine.initial is machine.states[0]
    assert [state.name.upper for state in machine.states] == ["SHUT", "WIDE_OPEN"]
    assert [event.direction for event in machine.events] == ["send", "receive", "local"]
    assert [event.index for event in machine.events] == [0, 1, 2]
    assert machine.states[1].doc.paragraphs == ("Quite", "open.")
    assert machine.states[1].doc.reference == "1.2"
    assert machine.events[1].doc.reference == "9.9"
    assert [guard.name.xml for guard in machine.rows[0][0].guards] == ["unlocked"]
    assert machine.rows[1][1].reason == "As they like."
    assert str(machine.rows[1][1].at) == "tiny/states.xml:11"


def test_free_text_stays_marked(tmp_path: Path) -> None:
    cell = door(tmp_path).rows[0][1]
    assert isinstance(cell.condition, SpecText)
    assert isinstance(cell.reason, SpecText)


def test_a_machine_is_read_beside_other_definitions(tmp_path: Path) -> None:
    dialect = load(tmp_path, errors=ERRORS, states=machine_file())
    assert dialect.grammar == "amqp-1.0"
    assert [len(module.machines) for module in dialect.modules] == [0, 0, 1]
    assert error_conditions(dialect.types) == {"amqp:not-allowed", "amqp:broken"}


def test_numbered_errors_are_conditions_where_no_type_has_symbols_for_them(tmp_path: Path) -> None:
    body = DOOR.replace("amqp:not-allowed", "close-code:framing-error")
    dialect = load_only(tmp_path, codes=CODES, states=machine_file(body))
    assert error_conditions(dialect.types) == {"close-code:framing-error"}
    assert dialect.machines[0].rows[0][1].condition == "close-code:framing-error"


@pytest.mark.parametrize("condition", ["close-code:framing-eror", "framing-error", "handle:framing-error"])
def test_a_numbered_error_is_told_by_its_domain_and_name(condition: str, tmp_path: Path) -> None:
    body = DOOR.replace("amqp:not-allowed", condition)
    assert problems_of(tmp_path, codes=CODES, states=machine_file(body)) == [
        f"tiny/states.xml:10: error condition '{condition}' is not defined by any type; "
        "did you mean 'close-code:framing-error'?"
    ]


def test_symbols_for_errors_leave_no_room_for_numbered_ones(tmp_path: Path) -> None:
    numbered = section(
        '<type name="code" class="restricted" source="uint"><choice name="no" value="1"/></type>',
        name="codes",
    )
    body = DOOR.replace("amqp:not-allowed", "code:no")
    found = problems_of(tmp_path, types=PRIMITIVES, errors=ERRORS, codes=numbered, states=machine_file(body))
    assert found == ["tiny/states.xml:10: error condition 'code:no' is not defined by any type"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            '<transition from="WIDE_OPEN" on="fall" stay="true"/>\n',
            "",
            ["4: state 'WIDE_OPEN' gives no answer to 'fall'"],
            id="a pair without an answer",
        ),
        pytest.param(
            'from="WIDE_OPEN" on="fall"',
            'from="WIDE_OPEN" on="fall receive-pull"',
            ["13: state 'WIDE_OPEN' on 'receive-pull' is answered already at tiny/states.xml:11"],
            id="a pair with two answers",
        ),
        pytest.param(
            'on="send-push" error="local"',
            'on="receive-pull" error="local"',
            [
                "12: this default covers nothing: other rows give every pair of it",
                "4: state 'WIDE_OPEN' gives no answer to 'send-push'",
            ],
            id="a default that covers nothing",
        ),
        pytest.param(
            'on="fall" ignore="true"',
            'on="send-push" ignore="true" default="true"',
            [
                "14: this default covers nothing: other rows give every pair of it",
                "3: state 'SHUT' gives no answer to 'fall'",
            ],
            id="a default under a row of its own",
        ),
        pytest.param(
            '<transition from="SHUT" on="fall" ignore="true"',
            '<transition from="WIDE_OPEN" on="send-push" ignore="true" default="true"',
            [
                "14: state 'WIDE_OPEN' on 'send-push' is answered already at tiny/states.xml:12",
                "3: state 'SHUT' gives no answer to 'fall'",
            ],
            id="two defaults for one pair",
        ),
        pytest.param(
            'to="WIDE_OPEN"',
            'to="WIDEOPEN"',
            ["9: machine 'door' has no state 'WIDEOPEN'; did you mean 'WIDE_OPEN'?"],
            id="an unknown next state",
        ),
        pytest.param(
            'from="WIDE_OPEN" on="fall"',
            'from="WIDE_OPN" on="fall"',
            ["13: machine 'door' has no state 'WIDE_OPN'; did you mean 'WIDE_OPEN'?"],
            id="an unknown state",
        ),
        pytest.param(
            'from="SHUT" on="receive-pull"',
            'from="SHUT" on="recieve-pull"',
            ["10: machine 'door' has no event 'recieve-pull'; did you mean 'receive-pull'?"],
            id="an unknown event",
        ),
        pytest.param(
            'guards="unlocked"',
            'guards="unlockd"',
            [
                "8: guard 'unlocked' is named by no transition",
                "9: machine 'door' has no guard 'unlockd'; did you mean 'unlocked'?",
            ],
            id="an unknown guard",
        ),
        pytest.param(
            "amqp:not-allowed",
            "amqp:not-allowd",
            [
                "10: error condition 'amqp:not-allowd' is not defined by any type; "
                "did you mean 'amqp:not-allowed'?"
            ],
            id="an unknown condition",
        ),
        pytest.param(
            "amqp:not-allowed",
            "zzz",
            ["10: error condition 'zzz' is not defined by any type"],
            id="a choice that is no condition",
        ),
        pytest.param(
            ' guards="unlocked"',
            "",
            ["8: guard 'unlocked' is named by no transition"],
            id="an unused guard",
        ),
        pytest.param(
            'on="send-push" to="WIDE_OPEN" guards="unlocked"',
            'on="send-push" stay="true" guards="unlocked"',
            ["4: state 'WIDE_OPEN' cannot be reached from 'SHUT'"],
            id="a state out of reach",
        ),
        pytest.param(
            'from="SHUT" on="fall"',
            'from="SHUT" on="fall fall"',
            ["14: event 'fall' is listed twice"],
            id="an event listed twice",
        ),
        pytest.param(
            '<state name="WIDE_OPEN"',
            '<state name="shut" label="again"/><state name="WIDE_OPEN"',
            ["4: state 'shut' has the name of state 'SHUT' at tiny/states.xml:3"],
            id="two names that only letters tell apart",
        ),
        pytest.param(
            'name="fall" direction="local"',
            'name="fall" direction="loca"',
            ["7: direction 'loca' is not one of send, receive, local; did you mean 'local'?"],
            id="an unknown direction",
        ),
        pytest.param(
            '<state name="SHUT" label="shut"/>',
            '<state name="SHUT"/>',
            ["3: state 'SHUT' has neither a label nor a doc"],
            id="a state without words",
        ),
        pytest.param(
            ' stay="true"',
            ' stay="true" to="SHUT"',
            ["13: a transition gives one result: to, stay, ignore or error; here to and stay"],
            id="two results",
        ),
        pytest.param(
            ' stay="true"',
            "",
            ["13: a transition gives one result: to, stay, ignore or error; here none"],
            id="no result",
        ),
        pytest.param(
            ' stay="true"',
            ' stay="yes"',
            ["13: stay is 'yes'; it can be 'true' or left out"],
            id="a flag that is not true",
        ),
        pytest.param(
            'error="peer"',
            'error="pear"',
            [
                "10: a condition goes with error='peer' alone",
                "10: error is 'pear'; it can be 'local' or 'peer'",
            ],
            id="an unknown blame",
        ),
        pytest.param(
            ' condition="amqp:not-allowed"',
            "",
            ["10: an error of the peer needs the condition that reports it"],
            id="an error of the peer without a condition",
        ),
        pytest.param(
            ' reason="It leans."',
            "",
            ["14: a transition with 'ignore' needs a reason"],
            id="an answer without a reason",
        ),
        pytest.param(
            'error="local"',
            'error="local" guards="unlocked"',
            ["12: guards go with a next state alone (to or stay)"],
            id="a guard on an error",
        ),
        pytest.param(
            ' guards="unlocked"',
            ' gards="unlocked"',
            [
                "8: guard 'unlocked' is named by no transition",
                "9: attribute 'gards' is not known on <transition>; did you mean 'guards'?",
            ],
            id="an unknown attribute",
        ),
    ],
)
def test_every_problem_has_a_place(old: str, new: str, expected: list[str], tmp_path: Path) -> None:
    assert sorted(changed(tmp_path, old, new)) == sorted(expected)


def test_problems_of_a_machine_come_in_one_run(tmp_path: Path) -> None:
    body = DOOR.replace('to="WIDE_OPEN"', 'to="AJAR"').replace("amqp:not-allowed", "amqp:brokn")
    assert wrong(tmp_path, machine_file(body)) == [
        "9: machine 'door' has no state 'AJAR'",
        "10: error condition 'amqp:brokn' is not defined by any type; did you mean 'amqp:broken'?",
    ]


def test_an_unused_event_is_a_problem_though_all_events_are_answered(tmp_path: Path) -> None:
    body = DOOR.replace(
        '<guard name="un', '<event name="ring" direction="local" label="it rings"/><guard name="un'
    )
    body = body.replace('from="*" on="send-push"', 'from="*" on="*"')
    assert wrong(tmp_path, machine_file(body)) == ["8: event 'ring' is named by no transition"]


def test_an_unknown_initial_state_is_a_problem(tmp_path: Path) -> None:
    found = wrong(tmp_path, machine_file(attributes='name="door" initial="SHUTT" label="A door"'))
    assert found == ["2: machine 'door' has no state 'SHUTT'; did you mean 'SHUT'?"]


def test_two_machines_of_one_name_are_a_problem(tmp_path: Path) -> None:
    one = f'<machine name="door" initial="SHUT" label="A door">\n{DOOR}</machine>\n'
    other = one.replace('name="door"', 'name="Door"')
    found = wrong(tmp_path, f"{FILE}\n{one}{other}</states>")
    assert found == ["16: machine 'Door' has the name of machine 'door' at tiny/states.xml:2"]


@pytest.fixture(scope="module")
def schema() -> etree.RelaxNG:
    return etree.RelaxNG(etree.parse(amqpforge_spec.schema("states")))


def test_the_schema_accepts_our_machines(schema: etree.RelaxNG) -> None:
    schema.validate(etree.parse(amqpforge_spec.dialect_folder("amqp_1_0") / "states.xml"))
    assert [f"{error.line}: {error.message}" for error in schema.error_log] == []


def test_the_schema_accepts_the_door(schema: etree.RelaxNG) -> None:
    assert schema.validate(etree.fromstring(machine_file()))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(' stay="true"', ' stay="true" to="SHUT"', id="two results"),
        pytest.param(' stay="true"', "", id="no result"),
        pytest.param(' stay="true"', ' stay="false"', id="a flag that is not true"),
        pytest.param(' condition="amqp:not-allowed"', "", id="an error of the peer without a condition"),
        pytest.param('error="local"', 'error="local" guards="unlocked"', id="a guard on an error"),
        pytest.param(' reason="It leans."', ' reason=" "', id="an empty reason"),
        pytest.param('direction="local"', 'direction="both"', id="an unknown direction"),
        pytest.param('<state name="SHUT" label="shut"/>', '<state name="SHUT"/>', id="a state without words"),
        pytest.param('from="SHUT" on="fall"', 'from="SHUT" on=""', id="a transition on nothing"),
    ],
)
def test_the_schema_refuses(old: str, new: str, schema: etree.RelaxNG) -> None:
    assert DOOR.count(old) == 1
    assert not schema.validate(etree.fromstring(machine_file(DOOR.replace(old, new))))


def test_the_python_module_holds_hostile_words_as_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = '"""\\ {{ x }} # \u202e'
    body = DOOR.replace("It sticks.", words.replace('"', "&quot;")).replace(
        "shut", words.replace('"', "&quot;")
    )
    dialect = load(tmp_path, errors=ERRORS, states=machine_file(body))
    environment = make_environment(load_target(target_folder("python")))
    (tmp_path / "rendered_door.py").write_text(
        environment.get_template("states.py.j2").render(dialect=dialect), encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    rendered = importlib.import_module("rendered_door")
    assert rendered.DOOR_TRANSITIONS == ((1, -3, -1), (-2, 0, 1))
    assert rendered.DOOR_CONDITIONS == ((None, "amqp:not-allowed", None), (None, None, None))
    assert rendered.DOOR_REASONS[0] == ("", words, "It leans.")
    assert rendered.DOOR_GUARDS == {(0, 0): ("unlocked",)}
    assert rendered.DOOR_INITIAL is rendered.DoorState.SHUT
    assert [event.name for event in rendered.DoorEvent] == ["SEND_PUSH", "RECEIVE_PULL", "FALL"]
