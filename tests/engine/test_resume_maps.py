"""Unsettled maps: what they say, and what follows when they are incomplete (2.6.13, 2.7.3)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqpforge.engine.resume import (
    Incoming,
    NoResume,
    Outgoing,
    ResumePayload,
    ResumeState,
    decide,
    fit_unsettled,
    plan_resumption,
    read_unsettled,
    receiver_map,
    sender_map,
    settled_by_absence,
)
from amqpforge.errors import LocalError, ProtocolViolation
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Attach,
    Described,
    Error,
    Handle,
    Map,
    Rejected,
    Released,
    Role,
    SequenceNo,
    Source,
    Target,
    ULong,
    decode_frame,
    encode_frame,
)
from tests.engine.resumed import END, WHOLE, Remote, at, came, ended, octets_before, sent


def sent_over(attach: Attach) -> Attach:
    """The attach as its receiver decodes it."""
    frame, _ = decode_frame(encode_frame(attach))
    assert isinstance(frame.performative, Attach)
    return frame.performative


# ---- What they say ----


@pytest.mark.spec("M-RESUME-011", "M-RESUME-002")
def test_the_map_of_the_sender_says_from_where_on_it_can_send() -> None:
    deliveries = {b"1": sent(), b"5": sent(at(0, 200)), b"9": sent(at(2, 0)), b"end": sent(END)}
    assert sender_map(deliveries) == {b"1": None, b"5": at(0, 200), b"9": at(2, 0), b"end": END}


@pytest.mark.spec("M-RESUME-039")
def test_an_outcome_stays_out_of_the_map_while_payload_may_be_asked_for() -> None:
    assert sent(outcome=Accepted()).state is None
    assert sent(at(1, 150), outcome=Accepted()).state == at(1, 150)
    assert sent(at(1, 150), outcome=Accepted(), may_resume=False).state == Accepted()
    resumed = decide(sent(outcome=Accepted()), at(2, 0))
    assert isinstance(resumed, ResumePayload)
    assert resumed.start() == (at(2, 0), WHOLE.offset(at(2, 0)))


@pytest.mark.spec("M-RESUME-001", "M-RESUME-025")
def test_the_map_of_the_receiver_says_what_is_missing() -> None:
    deliveries = {
        b"part": came(at(1, 17)),
        b"edge": came(at(2, 0)),
        b"nothing": Incoming(),
        b"whole": Incoming(sections=WHOLE, is_finished=True),
        b"early": Incoming(sections=came(at(1, 17)).sections, outcome=Rejected()),
    }
    assert receiver_map(deliveries) == {
        b"part": at(1, 17),
        b"edge": at(2, 0),
        b"whole": END,
        b"early": Rejected(),
    }


def test_a_delivery_that_contradicts_itself() -> None:
    with pytest.raises(ValueError, match="held_from is 0 to 0, not 1"):
        Outgoing(held_from=1)
    with pytest.raises(ValueError, match="without an outcome may be resumed"):
        Outgoing(may_resume=False)


def test_the_map_of_an_attach() -> None:
    states = {b"a": None, b"b": at(1, 2), b"": Accepted(), b"x" * 32: Described(ULong(1 << 40), [])}
    assert read_unsettled(states) == states
    assert read_unsettled(Map(states.items())) == states
    assert read_unsettled({}) == read_unsettled(None) == {}


@pytest.mark.spec("T-RESUME-025")
@pytest.mark.parametrize(
    ("unsettled", "reason"),
    [
        pytest.param({None: Accepted()}, "None is no delivery-tag", id="null"),
        pytest.param({b"x" * 33: None}, "is no delivery-tag, at most 32 octets", id="too long"),
        pytest.param({ULong(1): None}, "is no delivery-tag", id="a number"),
        pytest.param(Map([([], None)]), "is no delivery-tag", id="a list"),
        pytest.param({b"a": 5}, "5 of tag 61 is no delivery state", id="no state"),
        pytest.param({b"a": Source(address="q")}, "of tag 61 is no delivery state", id="another composite"),
    ],
)
def test_maps_that_are_refused(unsettled: Any, reason: str) -> None:
    attach = sent_over(Attach(name="l", handle=Handle(0), role=Role.SENDER, unsettled=unsettled))
    with pytest.raises(ProtocolViolation, match=reason) as refused:
        read_unsettled(attach.unsettled)
    assert refused.value.condition == "amqp:invalid-field"


# ---- A map that is too big for a frame ----


def attach_with(states: dict[bytes, Remote], name: str = "a link") -> Attach:
    return Attach(
        name=name,
        handle=Handle(3),
        role=Role.SENDER,
        source=Source(address="here"),
        target=Target(address="there"),
        unsettled=states,
        initial_delivery_count=SequenceNo(0),
    )


STATES: tuple[Remote, ...] = (
    None,
    Accepted(),
    at(3, 300),
    Rejected(error=Error(condition="x:y", description="z" * 40)),
)


def many(count: int) -> dict[bytes, Remote]:
    return {b"tag %d" % number: STATES[number % 4] for number in range(count)}


@pytest.mark.spec("T-RESUME-024")
def test_a_thousand_tags_in_a_frame_of_512_octets() -> None:
    whole = attach_with(many(1000))
    part = fit_unsettled(whole, 512)
    assert 512 - 40 < len(encode_frame(part)) <= 512
    decoded = sent_over(part)
    assert decoded.incomplete_unsettled is True
    taken = read_unsettled(decoded.unsettled)
    assert len(taken) > 10
    assert taken.items() <= many(1000).items()
    assert (part.name, part.source, part.initial_delivery_count) == ("a link", whole.source, 0)
    assert (len(whole.unsettled or {}), whole.incomplete_unsettled) == (1000, False)


@pytest.mark.parametrize("count", [0, 1, 3, 12, 40])
def test_a_map_that_just_fits_is_sent_whole(count: int) -> None:
    attach = attach_with(many(count))
    size = len(encode_frame(attach))
    assert fit_unsettled(attach, size) is attach


def test_entries_are_taken_in_order_and_long_ones_passed_over() -> None:
    long = Rejected(error=Error(condition="x:y", description="z" * 460))
    part = fit_unsettled(attach_with({b"long": long, **many(100)}), 512)
    taken = list(part.unsettled or {})
    assert b"long" not in taken
    assert taken == sorted(taken, key=lambda tag: int(tag[4:]))
    assert taken[:12] == list(many(12))


@settings(deadline=None, derandomize=True, database=None, max_examples=50)
@given(st.integers(1, 400), st.integers(512, 3000), st.integers(1, 300))
def test_no_attach_is_longer_than_allowed(count: int, most: int, name: int) -> None:
    attach = attach_with(many(count), name="n" * name)
    part = fit_unsettled(attach, most)
    assert len(encode_frame(part)) <= most
    assert part.incomplete_unsettled == (len(encode_frame(attach)) > most)
    assert part.unsettled


@pytest.mark.parametrize("states", [many(3), {b"long": Rejected(error=Error(condition="x:" + "y" * 500))}])
def test_an_attach_without_room_for_one_delivery(states: dict[bytes, Remote]) -> None:
    name = "n" * (500 if len(states) > 1 else 5)
    with pytest.raises(LocalError, match="no room for one in a frame of 512"):
        fit_unsettled(attach_with(states, name=name), 512)


# ---- Incomplete maps ----


def test_only_what_the_receiver_names_is_resumed() -> None:
    local = {b"a": sent(), b"b": ended(Accepted()), b"c": sent(), b"d": ended(Released())}
    remote: dict[bytes, Remote] = {b"a": at(1, 0), b"b": Accepted(), b"mine": None}
    plan = plan_resumption(local, remote, sent_incomplete=False, got_incomplete=True)
    assert plan.decisions == {
        b"a": ResumePayload(WHOLE, 0, octets_before(at(1, 0))),
        b"b": ResumeState(Accepted(), settled=True),
        b"c": NoResume.KEEP,
        b"d": NoResume.KEEP,
    }
    assert list(plan.decisions) == list(local)
    assert (plan.is_partial, plan.is_stuck) == (True, False)
    assert not plan.is_reduced({b"b", b"c", b"d"})
    assert plan.is_reduced({b"c", b"d"})


def test_tags_that_only_the_receiver_has_are_left_to_it() -> None:
    remote: dict[bytes, Remote] = {b"x": None, b"y": Accepted()}
    plan = plan_resumption({b"a": sent()}, remote, sent_incomplete=False, got_incomplete=False)
    assert plan.decisions == {b"a": NoResume.SEND_ANEW}
    assert (plan.is_partial, plan.is_stuck) == (False, False)


@pytest.mark.parametrize("got", [True, False])
@pytest.mark.parametrize("told", [True, False])
def test_a_plan_is_partial_if_either_map_is(told: bool, got: bool) -> None:
    for remote in ({b"a": at(1, 0)}, {b"x": at(1, 0)}):
        plan = plan_resumption({b"a": sent()}, remote, sent_incomplete=told, got_incomplete=got)
        assert plan.is_partial == (told or got)
        assert plan.is_stuck == (told and got and b"x" in remote)


def test_incomplete_maps_on_both_sides_still_resume_what_is_shared() -> None:
    remote: dict[bytes, Remote] = {b"a": None, b"x": None}
    plan = plan_resumption({b"a": sent()}, remote, sent_incomplete=True, got_incomplete=True)
    assert plan.decisions == {b"a": ResumePayload(WHOLE, 0, 0)}
    assert not plan.is_stuck


def test_absence_settles_only_in_a_complete_map() -> None:
    remote: dict[bytes, Remote] = {b"b": None, b"x": Accepted()}
    assert settled_by_absence([b"a", b"b", b"c"], remote, is_complete=True) == [b"a", b"c"]
    assert settled_by_absence([b"a", b"b", b"c"], remote, is_complete=False) == []
