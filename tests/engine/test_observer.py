"""What an observer says of the states of two ends: connection, sessions, links."""

from __future__ import annotations

import pytest

from amqpforge.engine.observations import ConnectionNews, LinkNews, Rule, SessionNews, Violation
from amqpforge_protocol.amqp_1_0 import (
    Close,
    End,
    Error,
    Open,
    ProtocolHeader,
    Role,
    SaslChallenge,
    SaslCode,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Symbol,
)
from tests.engine.observing import Overheard, a_begin, a_detach, a_flow, a_transfer, an_attach, settles

HEADER = ProtocolHeader()
SASL = ProtocolHeader(protocol_id=3)
ERROR = Error(condition=Symbol("test:wrong"), description="as you see")


def an_open(**fields: object) -> Open:
    return Open(**{"container_id": "x", **fields})  # type: ignore[arg-type]


# ---- a whole conversation


def test_a_conversation_without_fault() -> None:
    heard = Overheard().ready()
    heard.now = 1.0
    heard.client(a_transfer(0), a_transfer(1))
    heard.now = 3.0
    heard.server(settles(0, 1)).client(a_detach(closed=True)).server(a_detach(closed=True))
    heard.client(End()).server(End()).client(Close()).server(Close())
    notes = heard.observer.notes
    assert (heard.violations, heard.unknown, heard.owed) == ([], [], [])
    assert (notes.sessions, notes.links, notes.deliveries, notes.unsettled) == (1, 1, 2, 0)
    assert notes.outcomes == {"none": 2}
    assert (notes.settle_time, notes.timed, notes.slowest) == (4.0, 2, 2.0)
    assert (notes.live_sessions, notes.live_links, notes.live_deliveries) == (0, 0, 0)
    assert [(news.what, news.end) for news in heard.of(ConnectionNews)] == [
        ("opened", "client"),
        ("opened", "server"),
        ("closed", "client"),
        ("closed", "server"),
    ]
    assert [news.what for news in heard.of(SessionNews)] == ["begun", "ended"]
    assert [news.what for news in heard.of(LinkNews)] == ["attached", "detached"]
    assert (heard.observer.client.frames, heard.observer.server.frames) == (8, 8)


def test_reasons_are_told() -> None:
    heard = Overheard().ready()
    heard.server(a_detach(closed=True, error=ERROR)).client(a_detach(closed=True))
    heard.client(End(error=ERROR)).server(End(), Close(error=ERROR)).client(Close())
    assert heard.violations == []
    link, session, closed = heard.of(LinkNews)[-1], heard.of(SessionNews)[-1], heard.of(ConnectionNews)[-2]
    assert [str(news.reason) for news in (link, session, closed)] == ["test:wrong: as you see"] * 3
    assert (link.what, session.what, closed.what, closed.end) == ("detached", "ended", "closed", "server")


def test_a_violation_names_the_end_the_rule_the_condition_the_frame_and_the_time() -> None:
    heard = Overheard().opened()
    heard.now = 7.5
    heard.client(an_open())
    (found,) = heard.of(Violation)
    assert (found.end, found.rule, found.condition) == ("client", Rule.STATE, "amqp:not-allowed")
    assert (found.frame, found.time, found.channel) == (5, 7.5, None)
    assert found.text.startswith("connection in state OPENED: send open: ")


# ---- the connection


@pytest.mark.parametrize("late", [an_open(), Close(), a_begin(), a_flow(), None])
def test_nothing_follows_a_close(late: object) -> None:
    heard = Overheard().ready().client(Close())
    heard.client(late)
    assert heard.violations == [("client", Rule.STATE)]
    heard.server(Close()).client(late)
    assert heard.violations == [("client", Rule.STATE)] * 2


def test_frames_of_the_other_end_may_still_come_after_a_close_until_its_own() -> None:
    heard = Overheard().ready().client(Close())
    heard.server(settles(0, 0), a_flow(), None, End(), Close())
    assert heard.violations == [("server", Rule.DISPOSITION)], "only what has nothing to do with the close"


def test_closes_that_cross() -> None:
    heard = Overheard().ready().client(Close(error=ERROR)).server(a_flow(), Close(error=ERROR))
    assert heard.violations == []


def test_a_frame_before_open() -> None:
    heard = Overheard().client(HEADER, a_begin())
    assert heard.violations == [("client", Rule.STATE)]


def test_headers_and_opens_are_sent_once_whatever_else_is_known() -> None:
    heard = Overheard().client(HEADER, an_open(), an_open(), HEADER)
    assert heard.violations == [("client", Rule.STATE)] * 2
    heard = Overheard().client(an_open(), None, an_open())
    assert heard.violations == [("client", Rule.STATE)]


def test_everything_pipelined() -> None:
    heard = Overheard().client(HEADER, an_open(), a_begin(), an_attach("x", 0, Role.SENDER), Close())
    heard.server(HEADER, an_open(), a_begin(remote_channel=0), Close())
    assert heard.violations == []


def test_headers_that_differ_end_the_connection() -> None:
    heard = Overheard().client(HEADER, an_open()).server(ProtocolHeader(minor=9))
    assert heard.violations == []
    heard.server(an_open())
    assert heard.violations == [("server", Rule.STATE)]


def test_limits_before_and_after_the_open() -> None:
    heard = Overheard().client(HEADER, an_open()).server(HEADER)
    heard.client(a_begin(properties={"x": "y" * 600}), channel=1)
    assert heard.violations == [("client", Rule.FRAME_SIZE), ("client", Rule.CHANNEL_MAX)]
    heard.server(an_open(max_frame_size=1000, channel_max=7))
    heard.client(a_begin(properties={"x": "y" * 600}), channel=7)
    assert len(heard.violations) == 2
    heard.client(a_begin(properties={"x": "y" * 1000}), channel=8)
    assert heard.violations[2:] == [("client", Rule.FRAME_SIZE), ("client", Rule.CHANNEL_MAX)]


def test_a_transport_that_ends_without_a_close() -> None:
    heard = Overheard().ready()
    heard.observer.end_of_input("c2s", 1.0)
    heard.observer.end_of_input("s2c", 1.0)
    assert heard.violations == [("client", Rule.CLOSE)], "the server had nobody to talk to"
    assert [news.what for news in heard.of(ConnectionNews)[2:]] == ["transport ended"] * 2
    heard = Overheard().ready().client(Close()).server(Close())
    heard.observer.end_of_input("s2c", 1.0)
    assert heard.violations == []


def test_a_connection_that_was_never_opened_needs_no_close() -> None:
    heard = Overheard().client(SASL).server(SASL, SaslMechanisms(sasl_server_mechanisms=[Symbol("PLAIN")]))
    heard.client(SaslInit(mechanism=Symbol("PLAIN"))).server(SaslOutcome(code=SaslCode.AUTH))
    heard.observer.end_of_input("c2s", 1.0)
    assert heard.violations == []
    assert heard.observer.sasl is not None
    assert (heard.observer.sasl.mechanism, heard.observer.sasl.code) == ("PLAIN", SaslCode.AUTH)


@pytest.mark.parametrize(("end", "other"), [("client", "server"), ("server", "client")])
def test_silence(end: str, other: str) -> None:
    heard = Overheard().opened(**{end: {"idle_time_out": 1000}})
    getattr(heard, other)(None)
    heard.now = 1.9
    getattr(heard, end)(None)
    assert heard.violations == [], "half of the threshold is announced"
    heard.now = 2.1
    getattr(heard, end)(None)
    getattr(heard, end)(None)
    assert heard.violations == [(other, Rule.IDLE)], "once for each silence"
    getattr(heard, other)(None)
    heard.now = 4.2
    heard.observer.look(heard.now)
    assert heard.violations == [(other, Rule.IDLE)] * 2


def test_silence_after_a_close_is_in_order() -> None:
    heard = Overheard().opened(client={"idle_time_out": 1000}).client(Close())
    heard.now = 60.0
    heard.server(Close())
    assert heard.violations == []


def test_without_times_nobody_is_silent() -> None:
    heard = Overheard()
    heard.now = None
    heard.opened(client={"idle_time_out": 1})
    heard.begun().client(None).server(None)
    assert heard.violations == []


# ---- SASL


def test_sasl_steps_out_of_order() -> None:
    heard = Overheard().client(SASL).server(SASL)
    heard.client(SaslResponse(response=b"")).server(SaslChallenge(challenge=b""))
    assert heard.violations == [("client", Rule.SASL), ("server", Rule.SASL)]
    mechanisms = SaslMechanisms(sasl_server_mechanisms=[Symbol("X")])
    init = SaslInit(mechanism=Symbol("X"))
    heard.server(mechanisms, mechanisms).client(init, init)
    heard.server(SaslChallenge(challenge=b"")).client(SaslResponse(response=b""), SaslResponse(response=b""))
    heard.client(SaslOutcome(code=SaslCode.OK)).server(
        SaslOutcome(code=SaslCode.OK), SaslChallenge(challenge=b"")
    )
    assert heard.violations[2:] == [
        ("server", Rule.SASL),
        ("client", Rule.SASL),
        ("client", Rule.SASL),
        ("client", Rule.SASL),
        ("server", Rule.SASL),
    ]


def test_a_sasl_frame_has_at_most_512_octets() -> None:
    heard = Overheard().client(SASL).server(SASL)
    heard.client(SaslInit(mechanism=Symbol("X"), initial_response=b"x" * 600))
    assert heard.violations == [("client", Rule.FRAME_SIZE)]


# ---- sessions


def test_a_frame_on_a_channel_without_a_session_is_told_once() -> None:
    heard = Overheard().opened().begun()
    heard.client(a_flow(), a_flow(), channel=3)
    assert heard.violations == [("client", Rule.CHANNEL)]


def test_a_second_begin_on_a_channel() -> None:
    heard = Overheard().opened().begun().client(a_begin())
    (found,) = heard.of(Violation)
    assert (found.rule, found.condition) == (Rule.STATE, "amqp:illegal-state")


def test_an_answer_to_no_begin() -> None:
    heard = Overheard().opened().server(a_begin(remote_channel=4))
    assert heard.violations == [("server", Rule.CHANNEL)]


def test_channels_are_free_again_after_the_own_end() -> None:
    heard = Overheard().opened().begun().client(End(), a_begin())
    heard.server(a_flow(), End(), a_begin(remote_channel=0)).client(End()).server(End())
    assert heard.violations == []
    assert heard.observer.notes.sessions == 2
    assert heard.observer.notes.live_sessions == 0


def test_frames_after_the_own_end() -> None:
    heard = Overheard().ready().client(End(error=ERROR), a_transfer(0))
    assert heard.violations == [("client", Rule.CHANNEL)]


def test_ends_that_cross() -> None:
    heard = Overheard().ready().client(End(error=ERROR)).server(a_flow(), End(error=ERROR))
    assert (heard.violations, heard.observer.notes.live_sessions) == ([], 0)


def test_a_begin_and_its_end_may_be_pipelined() -> None:
    heard = Overheard().opened().client(a_begin(), End(), a_begin(), channel=0)
    heard.server(a_begin(remote_channel=0), End(), channel=0)
    heard.server(a_begin(remote_channel=0), channel=0)
    heard.client(End()).server(End())
    assert (heard.violations, heard.owed, heard.observer.notes.live_sessions) == ([], [], 0)


# ---- links


def test_a_handle_that_is_not_attached_is_told_once() -> None:
    heard = Overheard().opened().begun()
    heard.client(a_transfer(0, handle=5), a_transfer(1, handle=5))
    (found,) = heard.of(Violation)
    assert (found.rule, found.condition) == (Rule.HANDLE, "amqp:session:unattached-handle")
    heard.server(a_detach(handle=9)).server(a_flow(handle=8, next_incoming_id=2))
    assert heard.violations[1:] == [("server", Rule.HANDLE)] * 2


def test_transfers_ahead_of_the_own_attach() -> None:
    heard = Overheard().opened().begun()
    heard.server(an_attach("in", 1, Role.RECEIVER), a_flow(handle=1, link_credit=5))
    heard.client(a_transfer(0, handle=2), an_attach("in", 2, Role.SENDER), a_transfer(1, handle=2))
    assert heard.violations == [("client", Rule.HANDLE)]


def test_a_transfer_from_the_end_that_receives() -> None:
    heard = Overheard().ready().server(a_transfer(0))
    assert heard.violations == [("server", Rule.HANDLE)]


def test_a_handle_in_use() -> None:
    heard = Overheard().ready().client(an_attach("other", 0, Role.SENDER))
    (found,) = heard.of(Violation)
    assert (found.rule, found.condition) == (Rule.HANDLE_IN_USE, "amqp:session:handle-in-use")


def test_a_handle_is_free_when_both_ends_have_detached() -> None:
    heard = Overheard().ready().client(a_detach(), an_attach("other", 0, Role.SENDER))
    assert heard.violations == [("client", Rule.HANDLE_IN_USE)]
    heard = Overheard().ready().client(a_detach()).server(a_detach())
    heard.client(an_attach("other", 0, Role.SENDER))
    assert heard.violations == []


def test_a_link_may_be_attached_again_on_its_handle_at_once() -> None:
    heard = Overheard().ready().client(a_detach(), an_attach("out", 0, Role.SENDER))
    heard.server(a_detach(), an_attach("out", 0, Role.RECEIVER)).granted(1)
    heard.client(a_transfer(0), a_detach()).server(a_detach())
    assert heard.violations == []
    heard.client(an_attach("other", 0, Role.SENDER))
    assert heard.violations == []


def test_a_handle_max_counts_once_it_is_surely_known() -> None:
    heard = Overheard().opened().begun(handle_max=1)
    heard.client(an_attach("pipelined", 2, Role.SENDER))
    assert heard.violations == [], "the begin of the other end may be on its way"
    heard.client(a_flow(), an_attach("late", 3, Role.SENDER)).server(an_attach("answer", 2, Role.SENDER))
    (first, second) = heard.of(Violation)
    assert (first.end, first.rule, first.condition) == (
        "client",
        Rule.HANDLE_MAX,
        "amqp:connection:framing-error",
    )
    assert (second.end, second.rule) == ("server", Rule.HANDLE_MAX)


def test_one_name_for_a_link_each_way() -> None:
    heard = (
        Overheard()
        .ready()
        .client(an_attach("out", 1, Role.RECEIVER))
        .server(an_attach("out", 1, Role.SENDER))
    )
    assert (heard.violations, heard.observer.notes.links) == ([], 2)


def test_a_name_that_is_attached_already() -> None:
    heard = Overheard().ready().client(an_attach("out", 1, Role.SENDER))
    (found,) = heard.of(Violation)
    assert (found.rule, found.condition) == (Rule.STATE, "amqp:session:handle-in-use")


def test_frames_may_come_until_the_own_detach() -> None:
    heard = Overheard().ready().server(a_detach(closed=True, error=ERROR))
    heard.client(a_transfer(0), a_transfer(1), a_detach(closed=True))
    assert heard.violations == []
    heard.client(a_transfer(2))
    assert heard.violations == [("client", Rule.HANDLE)]


def test_detaches_that_cross() -> None:
    for first in (False, True):
        for second in (False, True):
            heard = Overheard().ready().client(a_detach(closed=first))
            heard.server(a_detach(closed=second))
            assert heard.violations == []


def test_a_plain_detach_may_have_crossed_a_closing_one_and_then_the_close_is_owed() -> None:
    heard = Overheard().ready().client(a_detach(closed=True)).server(a_detach())
    (owed,) = heard.owed
    assert (owed.end, owed.what) == (
        "server",
        "an attach and a closing detach, since its detach was not closing, of link 'out'",
    )
    heard.server(an_attach("out", 0, Role.RECEIVER), a_detach(closed=True))
    assert (heard.violations, heard.owed) == ([], [])


def test_who_has_to_attach_again_to_close_gets_no_answer() -> None:
    heard = Overheard().ready().server(a_detach(closed=True)).client(a_detach())
    heard.client(an_attach("out", 0, Role.SENDER), a_detach(closed=True))
    assert (heard.violations, heard.owed, heard.observer.notes.live_links) == ([], [], 0)
    heard.client(an_attach("other", 0, Role.SENDER), an_attach("out", 1, Role.SENDER))
    assert heard.violations == []


def test_the_name_of_a_link_that_the_other_end_may_still_close_can_be_taken() -> None:
    heard = Overheard().ready().client(a_detach(closed=True)).server(a_detach())
    heard.attached().granted(1).client(a_transfer(0))
    assert (heard.violations, heard.observer.notes.links) == ([], 2)


@pytest.mark.parametrize("unsettled", [None, {}])
def test_an_error_may_cross_a_detach_and_the_attach_behind_it(unsettled: dict[bytes, object] | None) -> None:
    heard = Overheard().ready().server(a_detach(error=ERROR)).client(a_detach())
    heard.client(an_attach("out", 0, Role.SENDER, unsettled=unsettled))
    assert heard.violations == [], "attaching without unsettled state is wrong, if the error was known"


def test_an_attach_and_its_detach_may_be_pipelined() -> None:
    heard = Overheard().opened().begun().client(an_attach("out", 0, Role.SENDER), a_detach(closed=True))
    heard.server(an_attach("out", 0, Role.RECEIVER), a_detach(closed=True))
    heard.client(an_attach("out", 0, Role.SENDER)).server(an_attach("out", 0, Role.RECEIVER))
    assert (heard.violations, heard.observer.notes.live_links) == ([], 1)


def test_a_refused_link() -> None:
    heard = Overheard().opened().begun().client(an_attach("out", 0, Role.SENDER))
    heard.server(an_attach("out", 0, Role.RECEIVER, target=None), a_detach(closed=True, error=ERROR))
    heard.client(a_detach(closed=True))
    assert heard.violations == []
    assert [news.link.is_refused for news in heard.of(LinkNews)] == [True, True]


def test_a_sender_tells_its_initial_delivery_count() -> None:
    heard = Overheard().opened().begun().client(an_attach("out", 0, Role.SENDER, initial_delivery_count=None))
    assert heard.violations == [("client", Rule.FIELD)]


# ---- what is owed


def test_what_the_ends_owe() -> None:
    heard = Overheard().client(HEADER, an_open()).server(HEADER)
    assert [tuple(owed) for owed in heard.owed] == [("server", None, "an open")]
    heard.server(an_open()).client(a_begin())
    assert [tuple(owed) for owed in heard.owed] == [("server", 0, "a begin")]
    heard.server(a_begin(remote_channel=0)).client(an_attach("out", 0, Role.SENDER))
    assert [tuple(owed) for owed in heard.owed] == [("server", 0, "an attach of link 'out'")]
    heard.server(an_attach("out", 0, Role.RECEIVER), a_detach(closed=True))
    assert [owed.what for owed in heard.owed] == ["a closing detach of link 'out'"]
    heard.client(a_detach(closed=True), End())
    assert [tuple(owed) for owed in heard.owed] == [("server", 0, "an end")]
    heard.client(Close())
    assert [tuple(owed) for owed in heard.owed] == [("server", None, "a close")]
    heard.server(Close())
    assert heard.owed == []


def test_a_drain_without_an_answer_is_owed_even_when_the_transport_has_ended() -> None:
    heard = Overheard().ready(credit=0).granted(5, drain=True).client(a_transfer(0))
    asked = heard.observer.notes.frame - 1
    assert [tuple(owed) for owed in heard.owed] == [
        ("client", 0, f"a flow of link 'out', to be drained since frame {asked}")
    ]
    heard.observer.end_of_input("s2c", 1.0)
    heard.observer.end_of_input("c2s", 1.0)
    assert [owed.end for owed in heard.owed] == ["client"]
    answered = Overheard().ready(credit=0).granted(5, drain=True)
    answered.client(a_flow(handle=0, delivery_count=5, link_credit=0, drain=True))
    assert (answered.owed, answered.violations) == ([], [])


# ---- the middle


def test_from_the_middle_what_is_unknown_is_told_once() -> None:
    heard = Overheard().client(a_transfer(7, handle=2), a_transfer(8, handle=2), a_flow(handle=3), channel=3)
    heard.server(settles(7, 8), a_flow(), channel=3)
    assert heard.violations == []
    assert heard.unknown == [
        ("client", "the connection began before the capture"),
        ("client", "unknown session on channel 3"),
        ("client", "unknown link with handle 2 on channel 3"),
        ("client", "unknown link with handle 3 on channel 3"),
        ("server", "the connection began before the capture"),
        ("server", "unknown session on channel 3"),
    ]
    notes = heard.observer.notes
    assert (notes.deliveries, notes.outcomes) == (2, {"none": 2}), "counted all the same"


def test_from_the_middle_a_session_that_begins_is_judged() -> None:
    heard = Overheard().client(None).server(None)
    heard.begun(client=1, server=2)
    heard.client(a_transfer(0, handle=4), channel=1)
    assert heard.violations == [("client", Rule.HANDLE)]
    assert len(heard.unknown) == 2


def test_an_answer_to_a_begin_that_was_missed() -> None:
    heard = Overheard().client(a_flow(), channel=9).server(a_begin(remote_channel=5), channel=6)
    heard.client(a_transfer(0, handle=0), channel=5).server(settles(0), channel=6)
    assert heard.violations == []
    assert ("client", "unknown session on channel 5") in heard.unknown
    assert heard.observer.notes.outcomes == {"none": 1}


def test_after_a_gap_nobody_is_blamed_for_what_follows_from_it() -> None:
    heard = Overheard().ready()
    heard.observer.lost("c2s", 0.0)
    heard.client(a_transfer(99), a_transfer(5, handle=7), a_detach(handle=3))
    heard.server(a_flow(next_incoming_id=50), End())
    heard.observer.end_of_input("c2s", 0.0)
    assert heard.violations == []
    heard.server(Close(), Close()).client(an_open())
    assert heard.violations == [("server", Rule.STATE), ("client", Rule.STATE)], (
        "nothing missing explains these"
    )


def test_a_direction_that_was_not_captured() -> None:
    heard = Overheard().client(
        HEADER, an_open(idle_time_out=1000), a_begin(), an_attach("out", 0, Role.SENDER)
    )
    heard.client(a_transfer(0), a_transfer(1), a_flow(handle=0, delivery_count=9, next_outgoing_id=2))
    heard.client(
        a_flow(next_incoming_id=7, next_outgoing_id=2),
        settles(5, 9),
        a_detach(),
        an_attach("other", 0, Role.SENDER),
    )
    heard.now = 100.0
    heard.client(a_begin(remote_channel=4), channel=7)
    heard.observer.end_of_input("c2s", 101.0)
    assert (heard.violations, heard.owed) == ([], [])
