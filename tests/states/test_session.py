"""The session machine against the list of states and their transitions (2.5.5)."""

from __future__ import annotations

import pytest

from amqpforge_protocol.amqp_1_0.states import SessionEvent as E
from amqpforge_protocol.amqp_1_0.states import SessionState as S
from tests.states.walk import IGNORED, LOCAL, SESSION

ILLEGAL = "amqp:illegal-state"
ENDS = {E.SEND_END, E.SEND_END_ERROR}

UNMAPPED: list[E] = []
BEGIN_SENT = [E.SEND_BEGIN]
BEGIN_RCVD = [E.RECEIVE_BEGIN]
MAPPED = [E.SEND_BEGIN, E.RECEIVE_BEGIN]
END_SENT = [*MAPPED, E.SEND_END]
END_RCVD = [*MAPPED, E.RECEIVE_END]
DISCARDING = [*MAPPED, E.SEND_END_ERROR]


def row(identifier: str, path: list[E], event: E, expected: S) -> object:
    return pytest.param(path, event, expected, marks=pytest.mark.spec(identifier), id=identifier)


@pytest.mark.parametrize(
    ("path", "event", "expected"),
    [
        row("T-SESS-024", UNMAPPED, E.SEND_BEGIN, S.BEGIN_SENT),
        row("T-SESS-025", UNMAPPED, E.RECEIVE_BEGIN, S.BEGIN_RCVD),
        row("T-SESS-026", BEGIN_SENT, E.RECEIVE_BEGIN, S.MAPPED),
        row("T-SESS-027", BEGIN_RCVD, E.SEND_BEGIN, S.MAPPED),
        row("T-SESS-028", MAPPED, E.SEND_END_ERROR, S.DISCARDING),
        row("T-SESS-029", MAPPED, E.SEND_END, S.END_SENT),
        row("T-SESS-030", MAPPED, E.RECEIVE_END, S.END_RCVD),
        row("T-SESS-031", DISCARDING, E.RECEIVE_END, S.UNMAPPED),
        row("T-SESS-032", END_SENT, E.RECEIVE_END, S.UNMAPPED),
        row("T-SESS-033", END_RCVD, E.SEND_END, S.UNMAPPED),
    ],
)
def test_the_diagram(path: list[E], event: E, expected: S) -> None:
    assert SESSION.walk(*path, event) is expected


def legal(identifier: str, path: list[E], sends: set[E], receives: set[E]) -> object:
    return pytest.param(path, sends, receives, marks=pytest.mark.spec(identifier), id=identifier)


@pytest.mark.parametrize(
    ("path", "sends", "receives"),
    [
        legal("T-SESS-017", UNMAPPED, {E.SEND_BEGIN}, {E.RECEIVE_BEGIN}),
        legal("T-SESS-018", BEGIN_SENT, {E.SEND_FRAME}, {E.RECEIVE_BEGIN}),
        legal("T-SESS-019", BEGIN_RCVD, {E.SEND_BEGIN}, {E.RECEIVE_FRAME, E.RECEIVE_END}),
        legal("T-SESS-020", MAPPED, {E.SEND_FRAME, *ENDS}, {E.RECEIVE_FRAME, E.RECEIVE_END}),
        legal("T-SESS-021", END_SENT, set(), {E.RECEIVE_FRAME, E.RECEIVE_END}),
        legal("T-SESS-022", END_RCVD, {E.SEND_FRAME, *ENDS}, set()),
    ],
)
def test_what_a_state_may_send_and_receive(path: list[E], sends: set[E], receives: set[E]) -> None:
    state = SESSION.walk(*path)
    assert SESSION.legal(state, "SEND") == sends
    assert SESSION.legal(state, "RECEIVE") == receives
    for event in SESSION.events_of("SEND"):
        assert event in sends or SESSION.answer(state, event) == LOCAL
    for event in SESSION.events_of("RECEIVE"):
        assert event in receives or SESSION.answer(state, event) == ILLEGAL


@pytest.mark.spec("T-SESS-015", "T-SESS-023")
def test_after_an_end_with_an_error_input_is_dropped_until_the_peers_end() -> None:
    state = SESSION.walk(*DISCARDING)
    assert SESSION.answer(state, E.RECEIVE_FRAME) == IGNORED
    assert SESSION.answer(state, E.RECEIVE_BEGIN) == IGNORED
    assert SESSION.answer(state, E.RECEIVE_END) is S.UNMAPPED
    assert SESSION.answers(state, "SEND") == {LOCAL}


@pytest.mark.spec("T-SESS-013")
def test_crossing_ends_answer_each_other() -> None:
    assert SESSION.walk(*MAPPED, E.SEND_END, E.RECEIVE_END) is S.UNMAPPED
    assert SESSION.answer(S.UNMAPPED, E.SEND_END) == LOCAL


@pytest.mark.spec("T-SESS-010")
@pytest.mark.parametrize("state", S)
def test_a_session_ceases_with_its_connection(state: S) -> None:
    expected = IGNORED if state is S.UNMAPPED else S.UNMAPPED
    assert SESSION.answer(state, E.CONNECTION_LOST) == expected


@pytest.mark.spec("T-SESS-022")
def test_the_answer_to_an_end_may_carry_an_error() -> None:
    assert SESSION.walk(*END_RCVD, E.SEND_FRAME, E.SEND_END_ERROR) is S.UNMAPPED


def test_an_end_before_our_begin_is_held() -> None:
    assert SESSION.walk(*BEGIN_RCVD, E.RECEIVE_END) is S.BEGIN_RCVD
    assert SESSION.guards[S.BEGIN_RCVD, E.RECEIVE_END] == ("held-until-begin",)
    assert SESSION.walk(*BEGIN_RCVD, E.RECEIVE_END, E.SEND_BEGIN, E.RECEIVE_END) is S.END_RCVD


def test_our_end_waits_for_the_peers_begin() -> None:
    assert {SESSION.answer(S.BEGIN_SENT, event) for event in ENDS} == {LOCAL}
    assert "waits" in SESSION.reasons[S.BEGIN_SENT][E.SEND_END]


def test_a_begin_that_names_another_channel_is_not_ours() -> None:
    assert SESSION.guards[S.BEGIN_SENT, E.RECEIVE_BEGIN] == ("names-our-channel",)


@pytest.mark.parametrize("path", [BEGIN_RCVD, MAPPED, END_SENT])
def test_a_second_begin_is_refused(path: list[E]) -> None:
    assert SESSION.answer(SESSION.walk(*path), E.RECEIVE_BEGIN) == ILLEGAL
