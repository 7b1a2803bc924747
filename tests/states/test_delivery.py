"""Deliveries against the fragmentation diagrams (2.6.14), messages at a node against figure 3.1 (3.3)."""

from __future__ import annotations

import pytest

from amqpforge_protocol.amqp_1_0.states import IncomingDeliveryEvent as Incoming
from amqpforge_protocol.amqp_1_0.states import IncomingDeliveryState as IncomingState
from amqpforge_protocol.amqp_1_0.states import MessageEvent as Event
from amqpforge_protocol.amqp_1_0.states import MessageState as State
from amqpforge_protocol.amqp_1_0.states import OutgoingDeliveryEvent as Outgoing
from amqpforge_protocol.amqp_1_0.states import OutgoingDeliveryState as OutgoingState
from tests.states.walk import IGNORED, INCOMING_DELIVERY, LOCAL, MESSAGE, OUTGOING_DELIVERY

OUTCOMES = (Event.ACCEPTED, Event.REJECTED, Event.RELEASED, Event.MODIFIED, Event.MODIFIED_UNDELIVERABLE_HERE)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param([Outgoing.SEND_PART], OutgoingState.SENDING, marks=pytest.mark.spec("T-XFER-022")),
        pytest.param([Outgoing.SEND_LAST], OutgoingState.SENT, marks=pytest.mark.spec("T-XFER-023")),
        pytest.param([Outgoing.SEND_PART] * 3, OutgoingState.SENDING, marks=pytest.mark.spec("T-XFER-024")),
        pytest.param(
            [Outgoing.SEND_PART, Outgoing.SEND_LAST], OutgoingState.SENT, marks=pytest.mark.spec("T-XFER-025")
        ),
        pytest.param(
            [Outgoing.SEND_PART, Outgoing.SEND_ABORT],
            OutgoingState.ABORTED,
            marks=pytest.mark.spec("T-XFER-026"),
        ),
    ],
)
def test_outgoing_diagram(path: list[Outgoing], expected: OutgoingState) -> None:
    assert OUTGOING_DELIVERY.walk(*path) is expected


@pytest.mark.spec("T-XFER-026")
def test_what_was_never_begun_is_not_aborted() -> None:
    assert OUTGOING_DELIVERY.answer(OutgoingState.NOT_SENT, Outgoing.SEND_ABORT) == LOCAL


@pytest.mark.spec("T-XFER-041")
def test_more_is_never_sent_along_with_aborted() -> None:
    assert {OUTGOING_DELIVERY.answer(state, Outgoing.SEND_PART_ABORT) for state in OutgoingState} == {LOCAL}


@pytest.mark.parametrize("state", [OutgoingState.SENT, OutgoingState.ABORTED])
def test_no_transfer_follows_the_last(state: OutgoingState) -> None:
    assert OUTGOING_DELIVERY.answers(state, "SEND") == {LOCAL}


def test_a_resumed_delivery_is_begun() -> None:
    assert (
        OUTGOING_DELIVERY.walk(Outgoing.SEND_LAST, Outgoing.RESUME, Outgoing.SEND_ABORT)
        is OutgoingState.ABORTED
    )
    assert (
        OUTGOING_DELIVERY.walk(Outgoing.SEND_PART, Outgoing.RESUME, Outgoing.SEND_LAST) is OutgoingState.SENT
    )
    assert OUTGOING_DELIVERY.answer(OutgoingState.NOT_SENT, Outgoing.RESUME) == LOCAL
    assert OUTGOING_DELIVERY.answer(OutgoingState.ABORTED, Outgoing.RESUME) == LOCAL


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(
            [Incoming.RECEIVE_PART] * 3, IncomingState.RECEIVING, marks=pytest.mark.spec("T-XFER-027")
        ),
        pytest.param([Incoming.RECEIVE_LAST], IncomingState.RECEIVED, marks=pytest.mark.spec("T-XFER-028")),
        pytest.param(
            [Incoming.RECEIVE_PART, Incoming.RECEIVE_LAST],
            IncomingState.RECEIVED,
            marks=pytest.mark.spec("T-XFER-029"),
        ),
        pytest.param(
            [Incoming.RECEIVE_PART, Incoming.RECEIVE_ABORT],
            IncomingState.ABORTED,
            marks=pytest.mark.spec("T-XFER-030"),
        ),
        pytest.param(
            [Incoming.RECEIVE_PART, Incoming.RECEIVE_PART_ABORT],
            IncomingState.ABORTED,
            marks=pytest.mark.spec("T-XFER-040"),
        ),
    ],
)
def test_incoming_diagram(path: list[Incoming], expected: IncomingState) -> None:
    assert INCOMING_DELIVERY.walk(*path) is expected


@pytest.mark.spec("T-XFER-040")
@pytest.mark.parametrize("state", IncomingState)
def test_aborted_decides_whatever_more_says(state: IncomingState) -> None:
    both = INCOMING_DELIVERY.answer(state, Incoming.RECEIVE_PART_ABORT)
    assert both == INCOMING_DELIVERY.answer(state, Incoming.RECEIVE_ABORT)
    assert both is not IncomingState.RECEIVING


def test_an_abort_that_comes_first_is_taken() -> None:
    assert INCOMING_DELIVERY.walk(Incoming.RECEIVE_ABORT) is IncomingState.ABORTED


@pytest.mark.parametrize("state", [IncomingState.RECEIVED, IncomingState.ABORTED])
def test_no_transfer_is_taken_after_the_last(state: IncomingState) -> None:
    assert INCOMING_DELIVERY.answers(state, "RECEIVE") == {"amqp:not-allowed"}


def test_a_resumed_delivery_opens_again() -> None:
    assert (
        INCOMING_DELIVERY.walk(Incoming.RECEIVE_LAST, Incoming.RESUME, Incoming.RECEIVE_LAST)
        is IncomingState.RECEIVED
    )
    assert INCOMING_DELIVERY.answer(IncomingState.NOT_RCVD, Incoming.RESUME) == IGNORED
    assert INCOMING_DELIVERY.answer(IncomingState.ABORTED, Incoming.RESUME) == IGNORED


@pytest.mark.spec("M-NODE-002", "M-NODE-003")
def test_a_message_is_taken_by_one_link() -> None:
    assert MESSAGE.walk() is State.AVAILABLE
    assert MESSAGE.walk(Event.ACQUIRE) is State.ACQUIRED
    assert MESSAGE.answer(State.ACQUIRED, Event.ACQUIRE) == LOCAL


@pytest.mark.spec("M-NODE-004")
def test_a_copy_leaves_the_state_as_it_is() -> None:
    assert MESSAGE.walk(Event.COPY) is State.AVAILABLE
    assert MESSAGE.walk(Event.ACQUIRE, Event.COPY) is State.ACQUIRED


@pytest.mark.spec("M-NODE-005")
def test_only_settlement_moves_a_message() -> None:
    assert MESSAGE.walk(Event.ACQUIRE, Event.OUTCOME_UNSETTLED) is State.ACQUIRED
    assert MESSAGE.walk(Event.ACQUIRE, Event.OUTCOME_UNSETTLED, Event.ACCEPTED) is State.ARCHIVED


@pytest.mark.spec("M-NODE-009")
@pytest.mark.parametrize("outcome", [Event.ACCEPTED, Event.REJECTED])
def test_a_message_is_done_with(outcome: Event) -> None:
    state = MESSAGE.walk(Event.ACQUIRE, outcome)
    assert state is State.ARCHIVED
    assert not [event for event in Event if MESSAGE.transitions[state][event] >= 0]


@pytest.mark.spec("M-NODE-010")
@pytest.mark.parametrize("outcome", [Event.RELEASED, Event.MODIFIED, Event.MODIFIED_UNDELIVERABLE_HERE])
def test_a_message_is_given_back(outcome: Event) -> None:
    assert MESSAGE.walk(Event.ACQUIRE, outcome) is State.AVAILABLE
    assert MESSAGE.walk(Event.ACQUIRE, outcome, Event.ACQUIRE) is State.ACQUIRED


def test_a_message_is_barred_from_one_link_by_guards() -> None:
    guards = MESSAGE.guards[State.ACQUIRED, Event.MODIFIED_UNDELIVERABLE_HERE]
    assert guards == ("from-the-holder", "bars-the-link")
    assert MESSAGE.guards[State.AVAILABLE, Event.ACQUIRE] == ("eligible",)


@pytest.mark.spec("M-NODE-007")
def test_a_node_archives_by_itself() -> None:
    assert MESSAGE.walk(Event.EXPIRE) is State.ARCHIVED


@pytest.mark.spec("M-NODE-008")
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_what_the_node_archived_stays_archived(outcome: Event) -> None:
    assert MESSAGE.walk(Event.ACQUIRE, Event.EXPIRE) is State.ARCHIVED
    assert MESSAGE.answer(State.ARCHIVED, outcome) == IGNORED


@pytest.mark.spec("M-NODE-013")
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_outcome_of_a_copy_changes_nothing(outcome: Event) -> None:
    assert MESSAGE.answer(MESSAGE.walk(Event.COPY), outcome) == IGNORED
    # While another link holds the message the state alone cannot tell whose outcome it is.
    assert "from-the-holder" in MESSAGE.guards[State.ACQUIRED, outcome]


@pytest.mark.spec("M-OUTCOME-014")
def test_a_lock_that_runs_out_gives_the_message_back() -> None:
    path = [Event.ACQUIRE, Event.LOCK_EXPIRED]
    assert MESSAGE.walk(*path) is State.AVAILABLE
    # The receiver's word comes too late, and another link can have the message.
    assert MESSAGE.answer(MESSAGE.walk(*path), Event.ACCEPTED) == IGNORED
    assert MESSAGE.walk(*path, Event.ACQUIRE) is State.ACQUIRED


def test_a_lost_link_leaves_the_default_outcome() -> None:
    assert MESSAGE.walk(Event.ACQUIRE, Event.LINK_LOST) is State.AVAILABLE
    assert MESSAGE.guards[State.ACQUIRED, Event.LINK_LOST] == ("from-the-holder", "default-outcome")


@pytest.mark.spec("M-NODE-011")
def test_each_label_of_the_figure_is_an_arrow() -> None:
    arrows = {
        event.name: (state.name, MESSAGE.states(MESSAGE.transitions[state][event]).name)
        for state in State
        for event in (Event.ACQUIRE, *OUTCOMES[:4])
        if MESSAGE.transitions[state][event] >= 0
    }
    assert arrows == {
        "ACQUIRE": ("AVAILABLE", "ACQUIRED"),
        "ACCEPTED": ("ACQUIRED", "ARCHIVED"),
        "REJECTED": ("ACQUIRED", "ARCHIVED"),
        "RELEASED": ("ACQUIRED", "AVAILABLE"),
        "MODIFIED": ("ACQUIRED", "AVAILABLE"),
    }
