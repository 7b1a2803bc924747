"""What an observer says of transfers, credit, windows and settlement."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine.observations import Rule, Violation
from amqpforge.engine.observed_delivery import ObservedDelivery
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    ReceiverSettleMode,
    Rejected,
    Released,
    Role,
    SenderSettleMode,
    TransactionalState,
)
from tests.engine.observing import Overheard, a_detach, a_flow, a_transfer, an_attach, settles

LAST = 0xFFFF_FFFF


# ---- credit


def test_credit_overrun() -> None:
    heard = Overheard().ready(credit=2).client(a_transfer(0), a_transfer(1))
    assert heard.violations == []
    heard.client(a_transfer(2))
    (found,) = heard.of(Violation)
    assert (found.end, found.rule, found.condition) == (
        "client",
        Rule.CREDIT,
        "amqp:link:transfer-limit-exceeded",
    )


def test_without_a_flow_there_is_no_credit() -> None:
    heard = Overheard().opened().begun().attached().client(a_transfer(0))
    assert heard.violations == [("client", Rule.CREDIT)]


def test_a_message_of_many_frames_costs_one_credit() -> None:
    heard = Overheard().ready(credit=1)
    heard.client(a_transfer(0, more=True), a_transfer(None, more=True), a_transfer(0))
    assert (heard.violations, heard.observer.notes.deliveries) == ([], 1)


def test_credit_that_is_given_while_transfers_are_on_the_way() -> None:
    heard = Overheard().ready(credit=3).client(a_transfer(0), a_transfer(1), a_transfer(2))
    heard.granted(2, count=1, seen=1)
    heard.client()
    assert heard.violations == []
    heard.client(a_transfer(3))
    assert heard.violations == [("client", Rule.CREDIT)], "one and two is three, and three are sent"


def test_credit_that_is_taken_back_may_still_be_used() -> None:
    heard = Overheard().ready(credit=3).granted(0)
    heard.client(a_transfer(0), a_transfer(1), a_transfer(2))
    assert heard.violations == []
    heard.client(a_transfer(3))
    assert heard.violations == [("client", Rule.CREDIT)]


def test_credit_that_comes_ahead_of_the_attach_of_the_sender() -> None:
    heard = Overheard().opened().begun().server(an_attach("in", 0, Role.RECEIVER))
    heard.server(a_flow(handle=0, link_credit=2), a_flow(handle=0, link_credit=0))
    heard.client(an_attach("in", 0, Role.SENDER, initial_delivery_count=LAST), a_transfer(0), a_transfer(1))
    assert heard.violations == []
    heard.client(a_transfer(2))
    assert heard.violations == [("client", Rule.CREDIT)]


def test_credit_is_gone_when_the_sender_attaches_again() -> None:
    heard = Overheard().ready(credit=5).client(a_detach()).server(a_detach()).attached()
    heard.client(a_transfer(0))
    assert heard.violations == [("client", Rule.CREDIT)]


def test_drained_credit_is_used_up() -> None:
    heard = Overheard().ready(credit=0).granted(5, drain=True)
    heard.client(a_flow(handle=0, delivery_count=5, link_credit=0), a_transfer(0))
    assert heard.violations == [("client", Rule.CREDIT)]


@pytest.mark.parametrize("count", [LAST, 6])
def test_a_delivery_count_that_does_not_follow(count: int) -> None:
    heard = Overheard().ready(credit=5).client(a_flow(handle=0, delivery_count=count))
    assert heard.violations == [("client", Rule.FLOW)]


def test_a_receiver_that_has_received_what_was_not_sent() -> None:
    heard = Overheard().ready(credit=5).client(a_transfer(0)).granted(5, count=2, seen=1)
    assert heard.violations == [("server", Rule.FLOW)]


def test_a_flow_of_a_sender_has_a_delivery_count() -> None:
    heard = Overheard().ready().client(a_flow(handle=0, delivery_count=None))
    assert heard.violations == [("client", Rule.FIELD)]


def test_credit_across_the_end_of_the_numbers() -> None:
    heard = Overheard().opened().begun(next_outgoing_id=LAST - 1)
    heard.attached(initial_delivery_count=LAST - 1).server(
        a_flow(
            handle=0,
            link_credit=4,
            delivery_count=LAST - 1,
            next_incoming_id=LAST - 1,
            next_outgoing_id=LAST - 1,
        )
    )
    heard.client(a_transfer(LAST - 1), a_transfer(LAST), a_transfer(0), a_transfer(1))
    heard.server(
        a_flow(handle=0, link_credit=1, delivery_count=2, next_incoming_id=2, next_outgoing_id=LAST - 1),
        settles(LAST - 1, 1),
    )
    heard.client(a_transfer(2))
    assert (heard.violations, heard.observer.notes.outcomes) == ([], {"none": 4})
    heard.client(a_transfer(3))
    assert heard.violations == [("client", Rule.CREDIT)]


# ---- windows


def test_window_overrun() -> None:
    heard = Overheard().ready(windows=(100, 2), credit=50)
    heard.server(a_flow(incoming_window=2))
    assert heard.violations == []
    heard.client(*(a_transfer(number) for number in range(2)))
    # Both the begin and the flow of `ready` allowed no more than a hundred, and that counts.
    heard.client(*(a_transfer(number) for number in range(2, 50)))
    assert heard.violations == []


def test_window_overrun_by_the_window_of_the_begin() -> None:
    heard = Overheard().opened().begun(windows=(100, 2)).attached()
    heard.server(a_flow(handle=0, link_credit=50, incoming_window=2))
    heard.client(a_transfer(0), a_transfer(1))
    assert heard.violations == []
    heard.client(a_transfer(2))
    (found,) = heard.of(Violation)
    assert (found.end, found.rule, found.condition) == (
        "client",
        Rule.WINDOW,
        "amqp:session:window-violation",
    )
    heard.server(a_flow(incoming_window=2, next_incoming_id=3))
    heard.client(a_transfer(3), a_transfer(4))
    assert len(heard.violations) == 1
    heard.client(a_transfer(5))
    assert len(heard.violations) == 2


def test_each_frame_counts_against_the_window() -> None:
    heard = Overheard().opened().begun(windows=(100, 2)).attached()
    heard.server(a_flow(handle=0, link_credit=50, incoming_window=2))
    heard.client(a_transfer(0, more=True), a_transfer(None, more=True), a_transfer(None))
    assert heard.violations == [("client", Rule.WINDOW)]


def test_a_window_that_was_made_smaller_counts_as_it_was() -> None:
    heard = Overheard().opened().begun(windows=(100, 3)).attached()
    heard.server(a_flow(handle=0, link_credit=50, incoming_window=1))
    heard.client(a_transfer(0), a_transfer(1), a_transfer(2))
    assert heard.violations == []
    heard.client(a_transfer(3))
    assert heard.violations == [("client", Rule.WINDOW)]


@pytest.mark.parametrize("told", [0, 2])
def test_a_flow_tells_how_many_transfers_were_sent(told: int) -> None:
    heard = Overheard().ready().client(a_transfer(0), a_flow(next_outgoing_id=told))
    assert heard.violations == [("client", Rule.FLOW)]


def test_a_flow_cannot_have_seen_what_was_not_sent() -> None:
    heard = Overheard().ready().client(a_transfer(0)).server(a_flow(next_incoming_id=2))
    assert heard.violations == [("server", Rule.FLOW)]


def test_a_flow_without_a_handle_says_nothing_of_a_link() -> None:
    heard = Overheard().ready()
    heard.client(a_flow(delivery_count=0), a_flow(link_credit=0), a_flow(available=0), a_flow(drain=True))
    assert heard.violations == [("client", Rule.FIELD)] * 4


# ---- deliveries


def test_delivery_ids_have_no_gaps() -> None:
    heard = Overheard().ready().client(a_transfer(4), a_transfer(5))
    assert heard.violations == [], "the first one is as the sender likes"
    heard.client(a_transfer(7), a_transfer(8), a_transfer(8, delivery_tag=b"another"))
    (found, other) = heard.of(Violation)
    assert (found.rule, found.text) == (Rule.DELIVERY_ID, "delivery-id 7 comes where 6 is due")
    assert other.text == "delivery-id 8 comes where 9 is due"


def test_links_share_the_delivery_ids_of_their_session() -> None:
    heard = Overheard().ready().attached("second", handles=(1, 1)).granted(5, handle=1)
    heard.client(a_transfer(0, more=True), a_transfer(1, handle=1), a_transfer(None), a_transfer(2, handle=1))
    assert (heard.violations, heard.observer.notes.deliveries) == ([], 3)


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"delivery_id": None}, Rule.FIELD),
        ({"delivery_tag": None}, Rule.FIELD),
        ({"delivery_tag": b"0"}, Rule.DELIVERY_TAG),
    ],
)
def test_the_first_transfer_of_a_delivery(fields: dict[str, Any], rule: Rule) -> None:
    heard = Overheard().ready().client(a_transfer(0)).client(a_transfer(1, **fields))
    assert heard.violations == [("client", rule)]


def test_a_tag_is_free_once_its_delivery_is_settled() -> None:
    heard = Overheard().ready().client(a_transfer(0)).server(settles(0))
    heard.client(a_transfer(1, delivery_tag=b"0"), a_transfer(2, delivery_tag=b"2", settled=True))
    heard.client(a_transfer(3, delivery_tag=b"2"))
    assert heard.violations == []
    heard.client(a_detach()).server(a_detach()).attached().granted(1, seen=4)
    heard.client(a_transfer(4, delivery_tag=b"2"))
    assert heard.violations == [], "what was unsettled may have been settled with the attach"


@pytest.mark.parametrize("fields", [{"delivery_id": 1}, {"delivery_tag": b"other"}])
def test_the_transfers_of_a_delivery_agree(fields: dict[str, Any]) -> None:
    heard = Overheard().ready().client(a_transfer(0, more=True), a_transfer(None, **fields))
    assert heard.violations == [("client", Rule.TRANSFER)]


def test_a_message_that_is_too_large_is_told_once() -> None:
    heard = Overheard().opened().begun().client(an_attach("out", 0, Role.SENDER))
    heard.server(an_attach("out", 0, Role.RECEIVER, max_message_size=12)).granted(5)
    heard.client(
        a_transfer(0, more=True), a_transfer(None, more=True), a_transfer(None, more=True), a_transfer(None)
    )
    (found,) = heard.of(Violation)
    assert (found.rule, found.condition) == (Rule.MESSAGE_SIZE, "amqp:link:message-size-exceeded")


def test_a_smaller_limit_that_comes_with_another_attach() -> None:
    heard = Overheard().ready()
    heard.server(a_detach(), an_attach("out", 0, Role.RECEIVER, max_message_size=3))
    heard.client(a_transfer(0), a_detach(), an_attach("out", 0, Role.SENDER))
    assert heard.violations == []
    heard.granted(1, seen=1).client(a_transfer(1))
    assert heard.violations == [("client", Rule.MESSAGE_SIZE)]


def test_aborted() -> None:
    heard = Overheard().ready().client(a_transfer(0, more=True), a_transfer(None, aborted=True, more=True))
    heard.client(a_transfer(1))
    notes = heard.observer.notes
    assert (heard.violations, notes.outcomes, notes.unsettled) == ([], {"aborted": 1}, 1)


def test_an_end_without_a_source_sends_nothing() -> None:
    heard = Overheard().opened().begun().attached(source=None).granted(1).client(a_transfer(0))
    assert heard.violations == [("client", Rule.TERMINUS)]


# ---- settlement


def test_what_is_told_of_a_delivery() -> None:
    heard = Overheard().ready()
    heard.now = 1.0
    heard.client(a_transfer(0, more=True), a_transfer(None))
    heard.now = 1.5
    heard.server(settles(0, state=Accepted()))
    (delivery,) = heard.of(ObservedDelivery)
    assert (delivery.id, delivery.tag, delivery.octets, delivery.frames) == (0, b"0", 10, 2)
    assert (delivery.outcome, delivery.began, delivery.settled) == ("accepted", 1.0, 1.5)
    assert (delivery.link.name, delivery.link.outcomes, delivery.link.octets) == ("out", {"accepted": 1}, 10)


def test_outcomes_are_counted_once() -> None:
    heard = Overheard().ready().client(*(a_transfer(number) for number in range(6)))
    heard.server(
        settles(0, 1, state=Accepted()), settles(1, 2, state=Rejected()), settles(0, 2, state=Released())
    )
    heard.server(settles(3, state=Released(), settled=False))
    heard.client(settles(3, 4, role=Role.SENDER))
    notes = heard.observer.notes
    assert notes.outcomes == {"accepted": 2, "rejected": 1, "released": 1, "none": 1}
    assert (notes.unsettled, notes.live_deliveries, heard.violations) == (1, 1, [])


def test_settled_by_the_sender_from_the_start() -> None:
    heard = Overheard().ready().client(a_transfer(0, settled=True), a_transfer(1, more=True, settled=True))
    assert heard.observer.notes.outcomes == {"pre-settled": 1}
    heard.client(a_transfer(None))
    assert heard.observer.notes.outcomes == {"pre-settled": 2}
    assert heard.observer.notes.timed == 0


def test_settled_with_the_last_transfer() -> None:
    heard = Overheard().ready().client(a_transfer(0, more=True), a_transfer(None, settled=True))
    assert (heard.observer.notes.outcomes, heard.observer.notes.live_deliveries) == ({"pre-settled": 1}, 0)


def test_the_outcome_of_a_transaction() -> None:
    heard = Overheard().ready().client(a_transfer(0, state=TransactionalState(txn_id=b"t")), a_transfer(1))
    heard.server(settles(1, state=TransactionalState(txn_id=b"t", outcome=Accepted())), settles(0))
    assert heard.observer.notes.outcomes == {"accepted": 1, "transactional-state": 1}


def test_dispositions_may_come_after_the_detach() -> None:
    heard = Overheard().ready().client(a_transfer(0), a_detach()).server(a_detach(), settles(0))
    assert (heard.violations, heard.observer.notes.outcomes) == ([], {"none": 1})


def test_dispositions_of_what_is_settled_already_are_nothing() -> None:
    heard = Overheard().ready().client(a_transfer(0)).server(settles(0), settles(0, 0))
    assert (heard.violations, heard.observer.notes.outcomes) == ([], {"none": 1})


@pytest.mark.parametrize(("first", "last"), [(1, 1), (0, 1), (1, None), (0, 0x7000_0000)])
def test_a_disposition_of_what_was_not_sent(first: int, last: int | None) -> None:
    heard = Overheard().ready().client(a_transfer(0)).server(settles(first, last))
    assert heard.violations == [("server", Rule.DISPOSITION)]


def test_a_sender_settles_only_what_it_has_sent() -> None:
    heard = Overheard().ready().client(settles(0, role=Role.SENDER))
    assert heard.violations == [("client", Rule.DISPOSITION)]


def test_a_disposition_that_ends_before_it_begins() -> None:
    heard = Overheard().ready().client(a_transfer(0), a_transfer(1)).server(settles(1, 0))
    assert (heard.violations, heard.observer.notes.unsettled) == ([("server", Rule.DISPOSITION)], 2)


@pytest.mark.parametrize(
    ("mode", "transfers", "is_legal"),
    [
        (SenderSettleMode.SETTLED, [{"settled": True}], True),
        (SenderSettleMode.SETTLED, [{"more": True}, {"settled": True}], True),
        (SenderSettleMode.SETTLED, [{"more": True, "settled": True}, {}], True),
        (SenderSettleMode.SETTLED, [{"more": True}, {"aborted": True}], True),
        (SenderSettleMode.SETTLED, [{}], False),
        (SenderSettleMode.SETTLED, [{"more": True}, {}], False),
        (SenderSettleMode.UNSETTLED, [{}], True),
        (SenderSettleMode.UNSETTLED, [{"settled": True}], False),
        (SenderSettleMode.MIXED, [{"settled": True}], True),
        (SenderSettleMode.MIXED, [{}], True),
    ],
)
def test_a_sender_settles_as_its_attach_said(
    mode: SenderSettleMode, transfers: list[dict[str, Any]], is_legal: bool
) -> None:
    heard = Overheard().opened().begun().attached(snd_settle_mode=mode).granted(5)
    for number, fields in enumerate(transfers):
        heard.client(a_transfer(None if number else 0, **fields))
    assert heard.violations == ([] if is_legal else [("client", Rule.SETTLE_MODE)])


def test_a_receiver_in_mode_second_settles_after_the_sender() -> None:
    second = ReceiverSettleMode.SECOND
    heard = Overheard().opened().begun().attached(rcv_settle_mode=second).granted(5)
    heard.client(a_transfer(0), a_transfer(1), a_transfer(2, rcv_settle_mode=ReceiverSettleMode.FIRST))
    heard.server(settles(0, state=Accepted(), settled=False)).client(settles(0, role=Role.SENDER))
    heard.server(settles(0, state=Accepted()), settles(2, state=Accepted()))
    assert heard.violations == []
    heard.server(settles(1, state=Accepted()))
    assert heard.violations == [("server", Rule.SETTLE_MODE)]
    assert heard.observer.notes.outcomes == {"accepted": 3}


def test_a_receiver_in_mode_second_settles_what_is_resumed_with_its_outcome() -> None:
    second = ReceiverSettleMode.SECOND
    heard = Overheard().opened().begun().attached(rcv_settle_mode=second).granted(5)
    heard.client(a_transfer(0, resume=True, state=Accepted()), a_transfer(1, resume=True))
    heard.server(settles(0, state=Accepted()))
    assert heard.violations == []
    heard.server(settles(1, state=Accepted()))
    assert heard.violations == [("server", Rule.SETTLE_MODE)]


def test_attached_again_amid_a_delivery_a_sender_goes_on_or_begins_another() -> None:
    for following, count in ((a_transfer(None), 1), (a_transfer(1), 2)):
        heard = Overheard().ready().client(a_transfer(0, more=True), a_detach()).server(a_detach())
        heard.attached().granted(1, seen=1).client(following)
        assert (heard.violations, heard.observer.notes.deliveries) == ([], count)
