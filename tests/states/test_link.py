"""The link machine: attaching, resuming, refusing, detaching, closing, failing and being stolen (2.6)."""

from __future__ import annotations

import pytest

from amqpforge_protocol.amqp_1_0.states import LinkEvent as E
from amqpforge_protocol.amqp_1_0.states import LinkState as S
from tests.states.walk import IGNORED, LINK, LOCAL

ERRANT = "amqp:session:errant-link"
UNATTACHED = "amqp:session:unattached-handle"
IN_USE = "amqp:session:handle-in-use"

ATTACHED = [E.SEND_ATTACH, E.RECEIVE_ATTACH]
ANSWERED = [E.RECEIVE_ATTACH, E.SEND_ATTACH]
FAILED = [*ATTACHED, E.SEND_DETACH_ERROR, E.RECEIVE_DETACH]
DETACHES = (E.SEND_DETACH, E.SEND_DETACH_ERROR, E.SEND_CLOSE)
HAPPENS_TO = (E.RECEIVE_DETACH, E.RECEIVE_DETACH_ERROR, E.RECEIVE_CLOSE)


@pytest.mark.spec("T-LINK-009")
def test_attached_half_attached_and_detached() -> None:
    assert LINK.walk() is S.DETACHED
    assert LINK.walk(E.SEND_ATTACH) is S.ATTACH_SENT
    assert LINK.walk(E.RECEIVE_ATTACH) is S.ATTACH_RCVD
    assert LINK.walk(*ATTACHED) is LINK.walk(*ANSWERED) is S.ATTACHED
    assert LINK.walk(*ATTACHED, E.SEND_DETACH) is S.DETACH_SENT
    assert LINK.walk(*ATTACHED, E.RECEIVE_DETACH) is S.DETACH_RCVD


@pytest.mark.spec("T-DETACH-002")
def test_a_link_is_detached_when_both_ends_have_said_so() -> None:
    assert LINK.walk(*ATTACHED, E.SEND_DETACH, E.RECEIVE_DETACH) is S.DETACHED
    assert LINK.walk(*ATTACHED, E.RECEIVE_DETACH, E.SEND_DETACH) is S.DETACHED
    assert (
        LINK.walk(*ATTACHED, E.SEND_DETACH, E.RECEIVE_DETACH, E.SEND_ATTACH, E.RECEIVE_ATTACH) is S.ATTACHED
    )


def test_a_pipelined_reattach_is_held_until_our_detach_is_out() -> None:
    for event in (E.RECEIVE_ATTACH, E.RECEIVE_RESUME):
        assert LINK.answer(S.DETACH_RCVD, event) is S.DETACH_RCVD
        assert LINK.guards[S.DETACH_RCVD, event] == ("held-until-detached",)
        path = [*ATTACHED, E.RECEIVE_DETACH, event, E.SEND_DETACH, event, E.SEND_ATTACH]
        assert LINK.walk(*path) is S.ATTACHED


@pytest.mark.spec("T-LINK-015", "T-LINK-016")
def test_a_refused_link_is_closed_with_nothing_in_between() -> None:
    state = LINK.walk(E.RECEIVE_ATTACH, E.SEND_REFUSAL)
    assert LINK.legal(state, "SEND") == {E.SEND_CLOSE}
    assert LINK.answers(state, "SEND") == {LOCAL, S.CLOSE_SENT}
    assert LINK.walk(E.RECEIVE_ATTACH, E.SEND_REFUSAL, E.SEND_CLOSE, E.RECEIVE_CLOSE) is S.CLOSED
    # The answer comes first: before it there is nothing to detach with.
    assert {LINK.answer(S.ATTACH_RCVD, event) for event in DETACHES} == {LOCAL}


def test_a_refusal_is_not_held_against_what_was_under_way() -> None:
    assert LINK.answer(S.REFUSED, E.RECEIVE_FRAME) == IGNORED
    assert LINK.answer(S.CLOSE_SENT, E.RECEIVE_FRAME) == IGNORED


def test_a_null_remote_terminus_is_a_guard() -> None:
    assert LINK.guards[S.ATTACH_SENT, E.RECEIVE_ATTACH] == ("remote-terminus",)


@pytest.mark.parametrize("event", HAPPENS_TO)
def test_a_pipelined_detach_is_held_until_our_attach_is_out(event: E) -> None:
    assert LINK.answer(S.ATTACH_RCVD, event) is S.ATTACH_RCVD
    assert LINK.guards[S.ATTACH_RCVD, event] == ("held-until-attached",)
    assert LINK.walk(E.RECEIVE_ATTACH, event, E.SEND_ATTACH, event) in (
        S.DETACH_RCVD,
        S.ERROR_RCVD,
        S.CLOSE_RCVD,
    )


@pytest.mark.parametrize("event", DETACHES)
def test_our_detach_waits_for_the_partners_attach(event: E) -> None:
    assert LINK.answer(S.ATTACH_SENT, event) == LOCAL
    assert "waits" in LINK.reasons[S.ATTACH_SENT][event]


@pytest.mark.spec("T-DETACH-012", "T-DETACH-013")
def test_a_close_is_answered_by_a_close() -> None:
    assert LINK.walk(*ATTACHED, E.SEND_CLOSE) is S.CLOSE_SENT
    assert LINK.walk(*ATTACHED, E.SEND_CLOSE, E.RECEIVE_CLOSE) is S.CLOSED
    state = LINK.walk(*ATTACHED, E.RECEIVE_CLOSE)
    assert LINK.legal(state, "SEND") == {E.SEND_CLOSE}
    assert LINK.answer(state, E.SEND_CLOSE) is S.CLOSED


@pytest.mark.spec("T-DETACH-014")
def test_a_plain_detach_that_meets_a_close_attaches_again_to_close() -> None:
    plain = [*ATTACHED, E.SEND_DETACH, E.RECEIVE_CLOSE]
    assert LINK.walk(*plain) is S.CLOSE_OWED
    assert LINK.legal(S.CLOSE_OWED, "SEND") == {E.SEND_ATTACH}
    assert LINK.legal(LINK.walk(*plain, E.SEND_ATTACH), "SEND") == {E.SEND_CLOSE}
    assert LINK.walk(*plain, E.SEND_ATTACH, E.SEND_CLOSE) is S.CLOSED


@pytest.mark.spec("T-DETACH-014")
def test_a_close_that_meets_a_plain_detach_waits_for_the_close() -> None:
    closing = [*ATTACHED, E.SEND_CLOSE, E.RECEIVE_DETACH]
    assert LINK.walk(*closing) is S.CLOSE_CROSSED
    assert LINK.walk(*ATTACHED, E.RECEIVE_DETACH, E.SEND_CLOSE) is S.CLOSE_CROSSED
    assert LINK.answers(S.CLOSE_CROSSED, "SEND") == {LOCAL}
    assert LINK.walk(*closing, E.RECEIVE_ATTACH, E.RECEIVE_CLOSE) is S.CLOSED


def test_after_an_error_detach_nothing_but_a_detach_may_come_in() -> None:
    state = LINK.walk(*ATTACHED, E.SEND_DETACH_ERROR)
    assert state is S.DISCARDING
    for event in LINK.events_of("RECEIVE"):
        if event not in HAPPENS_TO:
            assert LINK.answer(state, event) == ERRANT
    assert LINK.answers(state, "SEND") == {LOCAL}


@pytest.mark.spec("T-DETACH-010")
@pytest.mark.parametrize(
    "path",
    [
        FAILED,
        [*ATTACHED, E.RECEIVE_DETACH, E.SEND_DETACH_ERROR],
        [*ATTACHED, E.RECEIVE_DETACH_ERROR, E.SEND_DETACH],
        [*ATTACHED, E.SEND_DETACH, E.RECEIVE_DETACH_ERROR],
    ],
)
def test_after_an_error_a_link_is_resumed_and_never_just_attached(path: list[E]) -> None:
    state = LINK.walk(*path)
    assert LINK.answer(state, E.SEND_ATTACH) == LOCAL
    assert LINK.legal(state, "SEND") == {E.SEND_RESUME}
    assert LINK.walk(*path, E.SEND_RESUME, E.RECEIVE_RESUME) is S.ATTACHED
    assert LINK.walk(*path, E.RECEIVE_RESUME, E.SEND_RESUME) is S.ATTACHED


@pytest.mark.spec("T-DETACH-011")
def test_a_pipelined_reattach_to_a_failed_endpoint_ends_the_session() -> None:
    crossed = [*ATTACHED, E.SEND_DETACH_ERROR, E.RECEIVE_DETACH]
    assert LINK.answer(LINK.walk(*crossed), E.RECEIVE_ATTACH) == ERRANT
    answered = [*ATTACHED, E.RECEIVE_DETACH, E.SEND_DETACH_ERROR]
    assert LINK.answer(LINK.walk(*answered), E.RECEIVE_ATTACH) == ERRANT


def test_after_the_partners_error_all_it_takes_is_a_detach() -> None:
    state = LINK.walk(*ATTACHED, E.RECEIVE_DETACH_ERROR)
    assert LINK.legal(state, "SEND") == set(DETACHES)
    assert LINK.walk(*ATTACHED, E.RECEIVE_DETACH_ERROR, E.SEND_CLOSE) is S.CLOSED


def test_an_error_settles_a_crossing_close() -> None:
    assert LINK.walk(*ATTACHED, E.SEND_DETACH_ERROR, E.RECEIVE_CLOSE) is S.CLOSED
    assert LINK.walk(*ATTACHED, E.SEND_CLOSE, E.RECEIVE_DETACH_ERROR) is S.CLOSED


def test_a_stolen_link_is_closed_where_it_was() -> None:
    assert LINK.walk(*ATTACHED, E.STEAL) is S.CLOSE_SENT
    assert LINK.walk(*ATTACHED, E.STEAL, E.RECEIVE_CLOSE) is S.CLOSED
    assert LINK.guards[S.ATTACHED, E.STEAL] == ("closing-follows",)


def test_a_stolen_link_without_handles_says_nothing() -> None:
    for state in (S.DETACHED, S.FAILED, S.SUSPENDED):
        assert LINK.answer(state, E.STEAL) is S.CLOSED
        assert (state, E.STEAL) not in LINK.guards


def test_a_link_under_way_is_stolen_once_it_has_arrived() -> None:
    for state in (S.ATTACH_SENT, S.ATTACH_RCVD):
        assert LINK.answer(state, E.STEAL) is state
        assert LINK.guards[state, E.STEAL] == ("held-until-attached",)
    for state in (S.DETACH_SENT, S.DISCARDING):
        assert LINK.answer(state, E.STEAL) is state
        assert LINK.guards[state, E.STEAL] == ("held-until-detached",)


def test_a_lost_session_suspends_what_was_not_being_closed() -> None:
    closing = {S.REFUSED, S.CLOSE_SENT, S.CLOSE_RCVD, S.CLOSE_CROSSED, S.CLOSE_OWED}
    for state in set(S) - {S.SUSPENDED, S.CLOSED}:
        assert LINK.answer(state, E.SESSION_LOST) is (S.CLOSED if state in closing else S.SUSPENDED)
    assert LINK.walk(*ATTACHED, E.SESSION_LOST, E.SEND_RESUME, E.RECEIVE_RESUME) is S.ATTACHED
    assert LINK.walk(*ATTACHED, E.SESSION_LOST, E.RECEIVE_ATTACH, E.SEND_RESUME) is S.ATTACHED


def test_only_an_idle_terminus_expires() -> None:
    idle = {S.DETACHED, S.FAILED, S.SUSPENDED}
    assert {state for state in S if LINK.answer(state, E.EXPIRE) is S.CLOSED} == idle
    assert LINK.answer(S.ATTACHED, E.EXPIRE) == LOCAL


def test_unsettled_state_is_told_when_there_is_some() -> None:
    assert LINK.guards[S.DETACHED, E.SEND_RESUME] == ("new-endpoint",)
    assert LINK.guards[S.ATTACH_RCVD, E.SEND_ATTACH] == ("nothing-unsettled-to-tell",)


@pytest.mark.parametrize("state", S)
def test_traffic_follows_the_handles(state: S) -> None:
    sends = {S.ATTACH_SENT, S.ATTACHED, S.DETACH_RCVD}
    receives = {S.ATTACH_RCVD, S.ATTACHED, S.DETACH_SENT}
    assert LINK.answer(state, E.SEND_FRAME) == (state if state in sends else LOCAL)
    answer = LINK.answer(state, E.RECEIVE_FRAME)
    if state in receives:
        assert answer is state
    else:
        assert answer in (
            {IGNORED, ERRANT} if state in (S.REFUSED, S.CLOSE_SENT, S.DISCARDING) else {UNATTACHED}
        )


@pytest.mark.parametrize(
    "state", [S.ATTACH_RCVD, S.ATTACHED, S.REFUSED, S.DETACH_SENT, S.CLOSE_SENT, S.CLOSE_RCVD]
)
def test_an_attach_needs_a_free_handle(state: S) -> None:
    assert {LINK.answer(state, event) for event in (E.RECEIVE_ATTACH, E.RECEIVE_RESUME)} == {IN_USE}


def test_a_closed_endpoint_stays_closed() -> None:
    assert not [event for event in E if LINK.transitions[S.CLOSED][event] >= 0]
