"""Links are resumed after their session or connection is lost (sections 2.6.3 and 2.6.13)."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.container import Container
from amqpforge.engine.sender import Sender
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    Attach,
    Detach,
    Disposition,
    End,
    Error,
    LinkState,
    Map,
    Modified,
    Received,
    ReceiverSettleMode,
    Rejected,
    Released,
    Role,
    Source,
    Target,
    Transfer,
)
from tests.engine.joined import BODY, Joined, a_receiver, a_sender
from tests.engine.linked import (
    Severed,
    X,
    Y,
    a_detach,
    a_transfer,
    attach,
    condition,
    delivered,
    disposition,
    flow,
    frames,
    receiving,
    scripted,
    transfer,
)

SECOND = ReceiverSettleMode.SECOND
STATES = [None, Received(section_number=0, section_offset=3), Accepted(), Rejected(), Released(), Modified()]


def sent(severed: Severed, kind: type[Any]) -> list[Any]:
    """What the client has written on the connection at hand, as performatives."""
    return [one.performative for one in frames(severed.joined, severed.joined.client, kind)]


@pytest.mark.spec("T-RESUME-001")
def test_a_terminus_outlives_its_session() -> None:
    severed = Severed()
    link, receiver = severed.sender(rcv_settle_mode=SECOND)
    link.send(BODY, tag=b"1")
    severed.joined.run()
    severed.session.end()
    severed.joined.run()
    assert (link.state, receiver.state) == (LinkState.SUSPENDED, LinkState.SUSPENDED)
    assert list(link.unsettled) == list(receiver.unsettled) == [b"1"]
    assert link.unsettled[b"1"].id is None
    severed.session = severed.joined.client.session()
    severed.session.begin()
    severed.session.attach(link)
    severed.joined.run()
    assert (link.state, receiver.state) == (LinkState.ATTACHED, LinkState.ATTACHED)


@pytest.mark.spec("T-RESUME-002")
def test_a_fresh_engine_resumes_from_a_saved_map() -> None:
    """All that a process has to keep are tags, states and messages."""
    severed = Severed()
    link, receiver = severed.sender(rcv_settle_mode=SECOND)
    link.send(BODY, tag=b"1")
    severed.joined.run()
    severed.came[0].update(Accepted())
    saved = {b"1": BODY, b"2": b"\x00\x53\x77\x41"}
    severed.cut()
    severed.containers = (Container("client"), severed.containers[1])
    fresh = a_sender("n", rcv_settle_mode=SECOND)
    for tag, payload in saved.items():
        fresh.restore(tag, payload)
    severed.resume(fresh)
    assert (fresh.state, fresh.handle) == (LinkState.ATTACHED, 0)
    receiver.flow(5)
    severed.joined.run()
    assert [one.tag for one in severed.came] == [b"1", b"2"]
    assert (list(fresh.unsettled), list(receiver.unsettled)) == ([b"2"], [b"2"])
    assert fresh.unsettled[b"2"].id is not None


def test_a_fresh_receiver_resumes_from_what_it_has_saved() -> None:
    joined = Joined()
    session = joined.open()
    link = a_receiver("n", rcv_settle_mode=SECOND)
    session.attach(link)
    joined.run()
    sender = joined.peer_of(link)
    link.flow(5)
    joined.run()
    first, second = sender.send(BODY, tag=b"1"), sender.send(BODY + BODY, tag=b"2")
    joined.run()
    joined.client.lose()
    joined.server.lose()
    again = Joined(containers=(Container("client"), joined.server.container))
    fresh = a_receiver("n", rcv_settle_mode=SECOND)
    whole = fresh.restore(b"1", BODY, state=Accepted())
    part = fresh.restore(b"2", (BODY + BODY)[:9], is_complete=False)
    again.open().attach(fresh)
    again.run()
    fresh.flow(5)
    again.run()
    assert (first.settled, whole.settled) == (True, True)
    assert part.payload == BODY + BODY
    assert not second.settled
    for wrong in (b"1" * 40, b"2"):
        with pytest.raises(LocalError):
            fresh.restore(wrong, b"")


def test_deliveries_of_one_endpoint_are_given_to_another() -> None:
    severed = Severed()
    link, receiver = severed.sender(rcv_settle_mode=SECOND)
    link.send(BODY, tag=b"1")
    severed.joined.run()
    severed.cut()
    heir = a_sender("n", unsettled=link.unsettled.values(), rcv_settle_mode=SECOND)
    severed.resume(heir)
    assert sent(severed, Attach)[0].unsettled == {b"1": None}
    assert list(receiver.unsettled) == [b"1"]
    with pytest.raises(LocalError, match="attached"):
        heir.restore(b"3", BODY)


@pytest.mark.spec("T-RESUME-003", "T-RESUME-010")
def test_the_attach_that_resumes_tells_all_that_is_unsettled() -> None:
    severed = Severed()
    link, receiver = severed.sender(rcv_settle_mode=SECOND, auto_settle=False)
    for tag in (b"1", b"2", b"3"):
        link.send(BODY, tag=tag)
    severed.joined.run()
    severed.came[1].update(Accepted())
    severed.came[2].update(Rejected())
    link.unsettled[b"3"].update(Released())
    severed.cut()
    severed.resume(link)
    assert sent(severed, Attach)[0].unsettled == {b"1": None, b"2": None, b"3": Released()}
    answer = frames(severed.joined, severed.joined.server, Attach)[0].performative
    end = Received(section_number=1, section_offset=0)
    assert answer.unsettled == {b"1": end, b"2": Accepted(), b"3": Rejected()}
    assert receiver.is_attached


@pytest.mark.spec("T-RESUME-004")
def test_resuming_a_link() -> None:
    severed = Severed()
    link, _ = severed.sender(source=X, target=Y)
    severed.cut()
    severed.resume(link)
    for engine in (severed.joined.client, severed.joined.server):
        told = frames(severed.joined, engine, Attach)[0].performative
        assert (told.name, told.source, told.target, told.unsettled) == ("n", X, Y, {})
    assert (link.state, link.source, link.target) == (LinkState.ATTACHED, X, Y)


@pytest.mark.spec("T-RESUME-005", "T-RESUME-006", "T-RESUME-007")
@pytest.mark.parametrize("likes", [True, False])
def test_resuming_an_altered_link(likes: bool) -> None:
    a, b, c = Source(address="a"), Target(address="b"), Target(address="c")
    severed = Severed()
    link, receiver = severed.sender(source=a, target=b)
    severed.cut()
    receiver.target = c
    severed.resume(link)
    assert (link.source, link.target) == (a, c)
    assert (receiver.source, receiver.target) == (a, c)
    if likes:
        receiver.flow(1)
        severed.joined.run()
        link.send(BODY)
    else:
        link.detach(Error(condition=AmqpError.PRECONDITION_FAILED))
    severed.joined.run()
    assert len(severed.came) == likes
    assert link.is_attached is likes


@pytest.mark.spec("T-RESUME-008")
def test_after_an_error_a_link_is_resumed_even_with_nothing_unsettled() -> None:
    peer, session = scripted()
    link = peer.attached(session, a_sender("n"))
    peer.feed(a_detach(handle=0, error=Error(condition=AmqpError.INTERNAL_ERROR)))
    peer.attached(session, link)
    assert [one.unsettled for one in peer.written(Attach)] == [None, {}]


@pytest.mark.spec("T-RESUME-009", "T-RESUME-013")
def test_what_the_sender_does_not_tell_it_has_settled() -> None:
    severed = Severed()
    link, receiver = severed.sender(rcv_settle_mode=SECOND)
    for tag in (b"1", b"2"):
        link.send(BODY, tag=tag)
    severed.joined.run()
    severed.came[0].update(Accepted())
    severed.joined.carry(severed.joined.server, severed.joined.client)
    assert b"2" in link.unsettled
    link.unsettled[b"2"].settle()
    severed.joined.client.data_to_send(0.0)  # Both settlements are lost.
    severed.cut()
    severed.resume(link)
    assert (severed.came[0].settled, severed.came[0].remote_settled) == (True, True)
    assert (severed.came[1].settled, severed.came[1].remote_settled) == (
        False,
        True,
    )  # It has no outcome yet.
    assert list(receiver.unsettled) == [b"2"]
    news = [
        one
        for event in severed.joined.told(severed.joined.server, events.Updates)
        for one in event.deliveries
    ]
    assert news == severed.came
    severed.came[1].settle()
    assert receiver.unsettled == {}


@pytest.mark.spec("T-RESUME-011", "T-RESUME-022")
@pytest.mark.parametrize("resends", [True, False])
def test_what_only_the_sender_has_is_sent_again_or_given_up(resends: bool) -> None:
    severed = Severed()
    link, receiver = severed.sender()
    link.resends = resends
    delivery = link.send(BODY, tag=b"1")
    severed.joined.client.data_to_send(0.0)
    severed.cut()
    severed.resume(link)
    receiver.flow(1)
    severed.joined.run()
    assert [one.tag for one in severed.came] == ([b"1"] if resends else [])
    assert [one.resume for one in sent(severed, Transfer)] == ([False] if resends else [])
    assert (delivery.is_lost, delivery.settled) == (not resends, not resends)
    news = severed.joined.told(severed.joined.client, events.Updates)
    assert [event.deliveries for event in news] == ([] if resends else [[delivery]])


@pytest.mark.spec("T-RESUME-012")
def test_what_only_the_receiver_has_is_ignored() -> None:
    peer, session = scripted()
    link = a_sender("n")
    link.restore(b"1", BODY)
    session.attach(link)
    unknown = Received(section_number=0, section_offset=1)
    peer.feed(attach("n", 0, Role.RECEIVER, unsettled={b"x": unknown, b"1": unknown}), flow(0, link_credit=9))
    assert [one.delivery_tag for one in peer.written(Transfer)] == [b"1"]
    assert peer.written(Disposition) == []


@pytest.mark.spec("T-RESUME-014", "T-RESUME-018")
def test_what_both_ends_have_is_resumed() -> None:
    severed = Severed()
    link, receiver = severed.sender()
    link.send(BODY, tag=b"1")
    severed.joined.run()
    severed.cut()
    severed.resume(link)
    receiver.flow(1)
    severed.joined.run()
    assert [(one.delivery_tag, one.resume) for one in sent(severed, Transfer)] == [(b"1", True)]
    assert len(severed.came) == 1
    severed.came[0].settle(Accepted())
    severed.joined.run()
    assert (link.unsettled, receiver.unsettled) == ({}, {})


@pytest.mark.spec("T-RESUME-019", "T-RESUME-033")
@pytest.mark.parametrize("outcome", [Accepted(), Rejected(), Released(), Modified()])
def test_data_that_is_not_needed_is_not_sent(outcome: Any) -> None:
    peer, session = scripted()
    link = a_sender("n")
    delivery = link.restore(b"1", BODY)
    session.attach(link)
    written = peer.feed(attach("n", 0, Role.RECEIVER, unsettled={b"1": outcome}), flow(0, link_credit=9))
    assert [frame.payload for frame in written if type(frame.performative) is Transfer] == [b""]
    told = peer.written(Transfer)[0]
    assert (told.resume, told.state, told.settled, told.more) == (True, outcome, True, False)
    assert (delivery.settled, delivery.remote_state, link.unsettled) == (True, outcome, {})
    assert peer.told(events.Updates)[0].deliveries == [delivery]
    other, receiver_session = scripted()
    receiver = a_receiver("n")
    came = receiver.restore(b"1", BODY, state=outcome)
    receiver_session.attach(receiver)
    other.feed(attach("n", 0, unsettled={b"1": None}))
    receiver.flow(1)
    other.feed((transfer(0, b"1", resume=True, state=outcome, settled=True), b""))
    assert (came.settled, receiver.unsettled, delivered(other)) == (True, {}, [])


@pytest.mark.spec("T-RESUME-020")
def test_old_delivery_ids_mean_nothing() -> None:
    severed = Severed()
    link, receiver = severed.sender(auto_settle=False)
    filler = link.send(BODY, tag=b"0")
    link.send(BODY, tag=b"1")
    severed.joined.run()
    filler.settle()
    severed.joined.run()
    assert link.unsettled[b"1"].id == 1
    severed.cut()
    assert link.unsettled[b"1"].id is None
    severed.resume(link)
    receiver.flow(1)
    severed.joined.run()
    assert link.unsettled[b"1"].id == 0
    peer, session = scripted()  # And so on the same session.
    sender: Sender = peer.attached(session, a_sender("n", auto_settle=False))
    peer.feed(flow(0, link_credit=1, delivery_count=0))
    delivery = sender.send(BODY)
    peer.flush()
    peer.feed(a_detach(handle=0, error=Error(condition=AmqpError.INTERNAL_ERROR)))
    session.attach(sender)
    peer.feed(attach("n", 0, Role.RECEIVER, unsettled={delivery.tag: None}))
    peer.feed(disposition(Role.RECEIVER, 0, state=Accepted(), settled=True))
    assert (delivery.id, delivery.remote_state, delivery.remote_settled) == (None, None, False)
    peer.feed(flow(0, link_credit=1, delivery_count=1))
    assert delivery.id == 1


@pytest.mark.spec("T-RESUME-021")
@pytest.mark.parametrize("ours", [None, Accepted(), Released()])
@pytest.mark.parametrize("theirs", STATES)
def test_states_are_compared(ours: Any, theirs: Any) -> None:
    """Whatever the two states are: at the end neither has anything unsettled, and one outcome holds."""
    severed = Severed()
    link = a_sender("n")
    outgoing = link.restore(b"1", BODY, state=ours)
    container = Container("server")
    severed.containers = (Container("client"), container)
    receiver = a_receiver("n")
    incoming = receiver.restore(b"1", BODY, state=theirs)
    container.keep("client", receiver)
    receiver.state = LinkState.SUSPENDED
    receiver._keeper, receiver._peer = container, "client"
    severed.resume(link)
    receiver.flow(5)
    severed.joined.run()
    if not incoming.settled:
        assert ours is None
        incoming.settle(Accepted())
        severed.joined.run()
    assert (link.unsettled, receiver.unsettled) == ({}, {})
    assert (outgoing.settled, incoming.settled) == (True, True)
    if theirs in STATES[2:] and ours is None:
        assert outgoing.state == incoming.state == theirs
    elif theirs in STATES[2:]:
        assert outgoing.state == incoming.state == ours
    assert severed.came == []


@pytest.mark.spec("T-RESUME-025")
@pytest.mark.parametrize(
    "wrong", [Map(((None, None),)), {"text": None}, {b"1": "accepted"}, {b"1" * 33: None}]
)
@pytest.mark.parametrize("role", [Role.SENDER, Role.RECEIVER])
def test_a_map_that_is_none_ends_the_session(wrong: Any, role: Role) -> None:
    peer, session = scripted()
    good = peer.attached(session, a_sender("good"), handle=3)
    peer.feed(attach("n", 0, role, unsettled=wrong))
    told = peer.written(End)
    assert [condition(one) for one in told] == ["amqp:invalid-field"]
    assert good.state is LinkState.SUSPENDED
    assert [event.link for event in peer.told(events.Attached)] == [good]


@pytest.mark.spec("T-RESUME-030")
@pytest.mark.parametrize("more", [True, False])
def test_a_resumed_delivery_that_is_not_known_is_ignored(more: bool) -> None:
    peer, link = receiving(5)
    peer.feed((transfer(0, b"x", resume=True, more=more), BODY))
    if more:
        peer.feed((a_transfer(handle=0, more=True), b"1"), (a_transfer(handle=0), b"2"))
    peer.feed((transfer(1, b"y"), BODY))
    assert [one.tag for one in delivered(peer)] == [b"y"]
    assert (list(link.unsettled), peer.written(Detach), link.link_credit) == ([b"y"], [], 3)


@pytest.mark.spec("T-RESUME-031")
def test_only_what_is_unsettled_is_resumed() -> None:
    severed = Severed()
    link, _ = severed.sender()
    link.send(BODY, tag=b"1").settle()
    severed.cut()
    severed.resume(link)
    assert sent(severed, Attach)[0].unsettled == {}
    assert sent(severed, Transfer) == []
    with pytest.raises(LocalError):
        link.restore(b"1", BODY)


@pytest.mark.spec("T-RESUME-032")
@pytest.mark.parametrize("repeats", [True, False])
def test_the_first_transfer_of_a_resumed_delivery_says_so(repeats: bool) -> None:
    peer, session = scripted(open={"max_frame_size": 512})
    link = a_sender("n")
    link.restore(b"1", BODY + bytes(1200))
    session.attach(link)
    peer.feed(attach("n", 0, Role.RECEIVER, unsettled={b"1": None}), flow(0, link_credit=1))
    told = peer.written(Transfer)
    assert [(one.resume, one.delivery_tag) for one in told] == [(True, b"1"), (False, None), (False, None)]
    other, receiver_session = scripted()
    receiver = a_receiver("n")
    came = receiver.restore(b"1", b"\x00", is_complete=False)
    receiver_session.attach(receiver)
    other.feed(attach("n", 0, unsettled={b"1": None}))
    receiver.flow(1)
    other.feed(
        (transfer(9, b"1", resume=True, more=True), b"\x00\x53"),
        (a_transfer(handle=0, more=True, resume=repeats), b"\x77"),
        (a_transfer(handle=0, resume=repeats), b"\x41"),
    )
    assert (came.payload, came.id, came.resumed) == (b"\x00\x53\x77\x41", 9, True)
    assert delivered(other) == [came]


@pytest.mark.spec("T-XFER-047", "T-XFER-055")
def test_how_a_delivery_is_settled_is_told_anew() -> None:
    severed = Severed()
    link, receiver = severed.sender(rcv_settle_mode=SECOND)
    link.send(BODY, tag=b"1", rcv_settle_mode=ReceiverSettleMode.FIRST, batchable=True)
    severed.joined.run()
    came = severed.came[0]
    assert (came.rcv_settle_mode, came.batchable) == (ReceiverSettleMode.FIRST, True)
    severed.cut()
    severed.resume(link)
    receiver.flow(1)
    severed.joined.run()
    assert (came.rcv_settle_mode, came.batchable, came.resumed) == (SECOND, False, True)
    told = sent(severed, Transfer)[0]
    assert (told.rcv_settle_mode, told.batchable) == (None, False)
