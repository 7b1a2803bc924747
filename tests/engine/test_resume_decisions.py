"""Resuming deliveries: the fourteen tags of section 3.4.6, and what else both ends may say of one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqpforge.engine.resume import (
    ABSENT,
    Conclude,
    Continue,
    Decision,
    Incoming,
    NoAnswer,
    NoResume,
    Outgoing,
    Restate,
    ResumeAborted,
    ResumePayload,
    ResumeState,
    answer_resumed,
    decide,
)
from amqpforge.engine.sections import Sections
from amqpforge.errors import LocalError, ProtocolViolation
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AnyDeliveryState,
    Declared,
    DeliveryNumber,
    DeliveryTag,
    Described,
    Handle,
    Modified,
    Received,
    Rejected,
    Released,
    SequenceNo,
    TransactionalState,
    Transfer,
    ULong,
)
from tests.engine.resumed import END, MESSAGE, WHOLE, Remote, at, came, ended, octets_before, sent


def retried(payload: bytes = b"", **fields: Any) -> tuple[Transfer, bytes]:
    """The first transfer of a resumed delivery."""
    tag, number = DeliveryTag(b"t"), DeliveryNumber(SequenceNo(7))
    return Transfer(handle=Handle(0), delivery_id=number, delivery_tag=tag, resume=True, **fields), payload


def assembled(have: Incoming, transfer: Transfer, payload: bytes) -> bytes:
    """The message as the receiver has it after a resuming transfer of all the rest."""
    answer = answer_resumed(have, transfer, payload)
    assert isinstance(answer, Continue)
    assert answer.skip <= len(payload)
    return MESSAGE[: have.sections.size] + payload[answer.skip :]


SENDER = {
    1: sent(),
    2: sent(),
    3: sent(),
    4: sent(),
    5: sent(at(0, 200)),
    6: sent(at(1, 150)),
    7: sent(at(0, 500)),
    8: sent(at(3, 5)),
    9: sent(at(2, 0)),
    **{tag: ended(Accepted()) for tag in range(10, 15)},
}
RECEIVER = {
    2: came(at(3, 0)),
    3: Incoming(sections=WHOLE, is_finished=True, outcome=Accepted()),
    4: Incoming(),
    6: came(at(2, 0)),
    7: came(at(0, 100)),
    8: Incoming(sections=WHOLE, is_finished=True, outcome=Accepted()),
    9: Incoming(),
    11: came(at(1, 2000)),
    12: Incoming(sections=WHOLE, is_finished=True, outcome=Accepted()),
    13: Incoming(sections=WHOLE, is_finished=True, outcome=Released()),
    14: Incoming(),
}


def decision(tag: int, **rest: Any) -> Decision:
    """What the sender does with a tag of the example."""
    return decide(SENDER[tag], RECEIVER[tag].state if tag in RECEIVER else ABSENT, **rest)


# ---- The example ----


@pytest.mark.spec("M-RESUME-010")
def test_the_maps_of_the_example() -> None:
    assert {tag: delivery.state for tag, delivery in SENDER.items()} == {
        **dict.fromkeys((1, 2, 3, 4), None),
        5: at(0, 200),
        6: at(1, 150),
        7: at(0, 500),
        8: at(3, 5),
        9: at(2, 0),
        **dict.fromkeys((10, 11, 12, 13, 14), Accepted()),
    }
    assert {tag: delivery.state for tag, delivery in RECEIVER.items()} == {
        2: at(3, 0),
        **dict.fromkeys((3, 8, 12), Accepted()),
        **dict.fromkeys((4, 9, 14), None),
        6: at(2, 0),
        7: at(0, 100),
        11: at(1, 2000),
        13: Released(),
    }


@pytest.mark.spec("T-RESUME-022")
def test_tag_1_is_sent_as_a_new_delivery() -> None:
    assert decision(1) is NoResume.SEND_ANEW
    assert answer_resumed(None, *retried(MESSAGE)) is NoAnswer.IGNORE


@pytest.mark.spec("M-RESUME-015", "M-RESUME-018")
def test_tag_2_is_resumed_at_or_before_what_is_missing() -> None:
    resumed = decision(2)
    assert isinstance(resumed, ResumePayload)
    state, offset = resumed.start()
    assert (state, MESSAGE[offset:]) == (at(3, 0), MESSAGE[WHOLE.offset(at(3, 0)) :])
    assert answer_resumed(RECEIVER[2], *retried(MESSAGE[offset:], state=state)) == Continue(0)
    for start in (at(0, 0), at(0, 10), at(1, 0), at(2, 7), at(3, 0)):
        assert resumed.start(start)[1] == octets_before(start)
    for beyond in (at(3, 1), END, at(9, 0)):
        with pytest.raises(LocalError, match="only from"):
            resumed.start(beyond)


@pytest.mark.parametrize("start", [at(0, 0), at(0, 10), at(1, 0), at(2, 7), at(3, 0)])
def test_tag_2_takes_only_what_is_missing(start: Received) -> None:
    resumed = decision(2)
    assert isinstance(resumed, ResumePayload)
    state, offset = resumed.start(start)
    assert (state is None) == (offset == 0)
    assert assembled(RECEIVER[2], *retried(MESSAGE[offset:], state=state)) == MESSAGE


def test_tag_3_is_settled_with_the_outcome_of_the_receiver() -> None:
    assert decision(3) == ResumeState(Accepted(), settled=True)
    answer = answer_resumed(RECEIVER[3], *retried(state=Accepted(), settled=True))
    assert answer == Conclude(Accepted(), echo=False, undo=False)


def test_tag_3_with_another_outcome_at_the_source() -> None:
    other = decide(sent(outcome=Modified(undeliverable_here=True)), Accepted())
    assert other == ResumeState(Modified(undeliverable_here=True), settled=False)


def test_tag_4_is_resumed_from_the_first_octet() -> None:
    resumed = decision(4)
    assert isinstance(resumed, ResumePayload)
    assert resumed.start() == resumed.start(at(0, 0)) == (None, 0)
    with pytest.raises(LocalError):
        resumed.start(at(0, 1))
    for state in (None, at(0, 0)):
        assert answer_resumed(RECEIVER[4], *retried(MESSAGE, state=state)) == Continue(0)


def test_tag_5_is_sent_anew_or_reported() -> None:
    assert decision(5) is NoResume.SEND_ANEW
    assert decide(sent(at(0, 200), has_message=False), ABSENT) is NoResume.REPORT_LOSS


@pytest.mark.spec("M-RESUME-032")
def test_tag_6_is_resumed_between_both_positions() -> None:
    resumed = decision(6)
    assert isinstance(resumed, ResumePayload)
    assert resumed.start() == (at(2, 0), WHOLE.offset(at(2, 0)))
    for start in (at(1, 150), at(1, 1000), at(2, 0)):
        state, offset = resumed.start(start)
        assert state == start
        assert assembled(RECEIVER[6], *retried(MESSAGE[offset:], state=state)) == MESSAGE
    for outside in (at(1, 149), at(2, 1)):
        with pytest.raises(LocalError, match="only from"):
            resumed.start(outside)


def test_tag_7_is_aborted() -> None:
    assert decision(7) == ResumeAborted(NoResume.SEND_ANEW)
    without = sent(at(0, 500), has_message=False)
    assert decide(without, at(0, 100)) == ResumeAborted(NoResume.REPORT_LOSS)
    assert answer_resumed(RECEIVER[7], *retried(aborted=True)) is NoAnswer.DISCARD


def test_tag_8_is_settled_as_tag_3() -> None:
    assert decision(8) == decision(3)


def test_tag_9_is_aborted_as_tag_7() -> None:
    assert decision(9) == decision(7)
    assert answer_resumed(RECEIVER[9], *retried(aborted=True)) is NoAnswer.DISCARD


def test_tag_10_is_forgotten() -> None:
    assert decision(10) is NoResume.FORGET


def test_tag_11_is_aborted_for_good() -> None:
    assert decision(11) == ResumeAborted(NoResume.FORGET)
    assert answer_resumed(RECEIVER[11], *retried(aborted=True)) is NoAnswer.DISCARD


@pytest.mark.parametrize("state", [None, Accepted()])
def test_tag_12_is_settled(state: Remote) -> None:
    assert decision(12) == ResumeState(Accepted(), settled=True)
    answer = answer_resumed(RECEIVER[12], *retried(state=state, settled=True))
    assert answer == Conclude(Accepted(), echo=False, undo=False)


def test_tag_13_restates_the_outcome_of_the_source() -> None:
    assert decision(13) == ResumeState(Accepted(), settled=False)
    answer = answer_resumed(RECEIVER[13], *retried(state=Accepted()))
    assert answer == Conclude(Accepted(), echo=True, undo=True)


def test_tag_14_is_aborted_as_tag_11() -> None:
    assert decision(14) == decision(11)
    assert answer_resumed(RECEIVER[14], *retried(aborted=True)) is NoAnswer.DISCARD


# ---- The sender's decisions ----

OUTCOMES: list[AnyDeliveryState] = [Accepted(), Rejected(), Released(), Modified(), Declared(txn_id=b"1")]
"""The terminal states."""
UNDECIDED: list[Remote] = [
    None,
    at(0, 0),
    TransactionalState(txn_id=b"1", outcome=Accepted()),
    Described(ULong(1 << 40), []),
]
"""States that say nothing of the payload."""


@pytest.mark.spec("T-RESUME-021")
@pytest.mark.parametrize("remote", OUTCOMES, ids=repr)
@pytest.mark.parametrize("local", [*OUTCOMES, None, at(1, 150)], ids=repr)
def test_pairs_with_an_outcome_at_the_receiver(local: Remote, remote: AnyDeliveryState) -> None:
    if local in OUTCOMES:
        assert local is not None
        assert decide(ended(local), remote) == ResumeState(local, settled=local == remote)
    else:
        start = local if isinstance(local, Received) else at(0, 0)
        assert decide(sent(start), remote) == ResumeState(remote, settled=True)


@pytest.mark.spec("T-RESUME-021")
@pytest.mark.parametrize("remote", [*UNDECIDED, at(1, 2000), END], ids=repr)
@pytest.mark.parametrize("local", OUTCOMES, ids=repr)
def test_pairs_with_an_outcome_at_the_sender_only(local: AnyDeliveryState, remote: Remote) -> None:
    assert decide(ended(local), remote) == ResumeAborted(NoResume.FORGET)


@pytest.mark.spec("T-RESUME-021")
@pytest.mark.parametrize("remote", UNDECIDED, ids=repr)
def test_pairs_without_an_outcome(remote: Remote) -> None:
    assert decide(sent(), remote) == ResumePayload(WHOLE, 0, 0)
    assert decide(sent(at(0, 1)), remote) == ResumeAborted(NoResume.SEND_ANEW)


@pytest.mark.spec("M-RESUME-005")
@pytest.mark.parametrize("before", [at(0, 0), at(1, 2000), at(2, 4)])
def test_octets_that_are_gone_are_not_offered(before: Received) -> None:
    resumed = decide(sent(at(2, 5)), at(3, 0))
    assert isinstance(resumed, ResumePayload)
    with pytest.raises(LocalError, match=r"number=2, section_offset=5.*number=3, section_offset=0"):
        resumed.start(before)
    assert decide(sent(at(2, 5)), before) == ResumeAborted(NoResume.SEND_ANEW)


@pytest.mark.spec("M-RESUME-008")
def test_both_names_of_a_boundary_are_one_position() -> None:
    edge = octets_before(at(2, 0))
    last = edge - octets_before(at(1, 0))
    for held in (at(1, last), at(2, 0)):
        for wanted in (at(1, last), at(2, 0)):
            assert decide(sent(held), wanted) == ResumePayload(WHOLE, edge, edge)


@pytest.mark.parametrize("nowhere", [at(1, 5000), at(4, 1), at(5, 0), at(2**32 - 1, 2**64 - 1)])
def test_a_position_that_the_message_does_not_have(nowhere: Received) -> None:
    assert decide(sent(), nowhere) == ResumePayload(WHOLE, 0, 0)
    assert decide(sent(at(0, 1)), nowhere) == ResumeAborted(NoResume.SEND_ANEW)


def test_octets_that_are_no_sections_are_resumed_from_the_first() -> None:
    resumed = decide(Outgoing(), at(3, 0))
    assert isinstance(resumed, ResumePayload)
    assert resumed.start() == (None, 0)


def test_the_last_octet_has_come_but_no_outcome() -> None:
    resumed = decide(sent(), END)
    assert isinstance(resumed, ResumePayload)
    assert resumed.start() == (END, len(MESSAGE))


@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
def test_an_outcome_that_the_source_will_have_stays_its_own(outcome: AnyDeliveryState) -> None:
    assert decide(sent(outcome=outcome), Accepted()) == ResumeState(outcome, settled=outcome == Accepted())


@settings(deadline=None, derandomize=True, database=None, max_examples=200)
@given(st.data())
def test_a_message_cut_anywhere_and_resumed_from_anywhere_is_whole(data: st.DataObject) -> None:
    held = data.draw(st.integers(0, len(MESSAGE)), label="held from")
    cut = data.draw(st.integers(0, len(MESSAGE)), label="come")
    have = Incoming(sections=Sections(MESSAGE[:cut]))
    resumed = decide(Outgoing(sections=WHOLE, held_from=held), have.state)
    if cut < held:
        assert resumed == ResumeAborted(NoResume.SEND_ANEW)
        return
    assert isinstance(resumed, ResumePayload)
    begin = data.draw(st.integers(held, cut), label="resumed from")
    state, offset = resumed.start(WHOLE.position(begin))
    assert offset == begin
    assert assembled(have, *retried(MESSAGE[offset:], state=state)) == MESSAGE


# ---- The receiver's answers ----

PART = came(at(2, 5))
FINISHED = Incoming(sections=WHOLE, is_finished=True)
DECIDED = Incoming(sections=WHOLE, is_finished=True, outcome=Released())


def test_a_payload_in_several_transfers_is_skipped_as_one() -> None:
    first, rest = MESSAGE[:100], [MESSAGE[100:2000], MESSAGE[2000:]]
    answer = answer_resumed(PART, *retried(first, more=True))
    assert isinstance(answer, Continue)
    assert answer.skip == PART.sections.size
    assert answer_resumed(PART, *retried(b"", more=True)) == answer
    assert MESSAGE[: PART.sections.size] + b"".join([first, *rest])[answer.skip :] == MESSAGE


@pytest.mark.parametrize("begin", [at(2, 6), at(3, 0), END])
def test_a_gap_is_an_error(begin: Received) -> None:
    with pytest.raises(ProtocolViolation, match=r"payload begins at .* but is missing from") as gap:
        answer_resumed(PART, *retried(MESSAGE[octets_before(begin) :], state=begin))
    assert gap.value.condition == "amqp:invalid-field"


@pytest.mark.parametrize("state", UNDECIDED[:1] + UNDECIDED[2:], ids=repr)
def test_a_state_that_is_no_position_begins_at_the_first_octet(state: Remote) -> None:
    assert answer_resumed(PART, *retried(MESSAGE, state=state)) == Continue(PART.sections.size)


def test_an_outcome_that_comes_with_payload_leaves_the_payload_to_be_taken() -> None:
    assert answer_resumed(PART, *retried(MESSAGE, state=Accepted())) == Continue(PART.sections.size)
    assert answer_resumed(PART, *retried(b"", state=Accepted(), more=True)) == Continue(PART.sections.size)
    decided = answer_resumed(DECIDED, *retried(MESSAGE, state=Released()))
    assert decided == Conclude(Released(), echo=True, undo=False)


@pytest.mark.parametrize("settled", [True, False, None])
@pytest.mark.parametrize("local", [PART, FINISHED, DECIDED])
def test_an_outcome_alone_concludes(local: Incoming, settled: bool | None) -> None:
    answer = answer_resumed(local, *retried(state=Accepted(), settled=settled))
    assert answer == Conclude(Accepted(), echo=not settled, undo=local is DECIDED)


def test_a_receiver_with_an_outcome_takes_no_payload() -> None:
    assert answer_resumed(DECIDED, *retried(MESSAGE)) == Restate(Released())
    settled = answer_resumed(DECIDED, *retried(MESSAGE, settled=True))
    assert settled == Conclude(Released(), echo=False, undo=False)


@pytest.mark.parametrize("local", [PART, FINISHED])
def test_a_sender_that_settles_without_outcome_and_payload(local: Incoming) -> None:
    assert answer_resumed(local, *retried(settled=True)) == Conclude(None, echo=False, undo=False)


@pytest.mark.parametrize("local", [PART, FINISHED])
def test_payload_that_is_settled_already_is_taken_all_the_same(local: Incoming) -> None:
    assert answer_resumed(local, *retried(MESSAGE, settled=True)) == Continue(local.sections.size)


@pytest.mark.parametrize("settled", [True, False])
def test_a_message_of_which_only_the_end_was_missing(settled: bool) -> None:
    have = Incoming(sections=WHOLE)
    assert answer_resumed(have, *retried(state=END, settled=settled)) == Continue(0)


@pytest.mark.parametrize("state", [None, END])
def test_a_finished_message_needs_nothing(state: Remote) -> None:
    assert answer_resumed(FINISHED, *retried(state=state)) == Continue(0)


def test_an_unknown_tag_is_ignored_whatever_is_said_of_it() -> None:
    assert answer_resumed(None, *retried(aborted=True)) is NoAnswer.IGNORE
    assert answer_resumed(None, *retried(state=Accepted(), settled=True)) is NoAnswer.IGNORE
    assert answer_resumed(None, *retried(state=at(9, 9))) is NoAnswer.IGNORE
