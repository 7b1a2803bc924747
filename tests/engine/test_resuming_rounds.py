"""What is unsettled may not fit into an attach: then it is resumed in several rounds (section 2.6.13)."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.sender import Sender
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    Attach,
    Detach,
    End,
    Error,
    LinkState,
    Received,
    ReceiverSettleMode,
    Rejected,
    Role,
    Source,
    Target,
    Transfer,
)
from tests.engine.joined import BODY, Joined, Scripted, a_receiver, a_sender
from tests.engine.linked import (
    Severed,
    a_detach,
    attach,
    condition,
    delivered,
    disposition,
    flow,
    frames,
    kinds,
    scripted,
    transfer,
)

SMALL = ConnectionSettings(max_frame_size=512)
WHOLE = Received(section_number=1, section_offset=0)
FLOW = flow(0, link_credit=50, delivery_count=0)


def held_back(count: int, **told: Any) -> tuple[Scripted, Sender]:
    """A sender with so many unsettled deliveries, attached to a peer that tells an incomplete map."""
    peer, session = scripted()
    link = a_sender("n")
    for number in range(count):
        link.restore(b"%d" % number, BODY)
    session.attach(link)
    peer.flush()
    peer.sent.clear()
    peer.feed(attach("n", 0, Role.RECEIVER, incomplete_unsettled=True, **told), FLOW)
    return peer, link


@pytest.mark.spec("T-RESUME-024")
def test_a_map_that_does_not_fit_is_told_in_part() -> None:
    peer, session = scripted(open={"max_frame_size": 512})
    link = a_sender("n")
    for number in range(1000):
        link.restore(b"%d" % number, BODY)
    session.attach(link)
    frame = peer.flush()[0]
    assert frame.performative.incomplete_unsettled
    assert 0 < len(frame.performative.unsettled) < 1000
    assert len(frame.performative.encode()) + 8 <= 512


@pytest.mark.spec("T-RESUME-015", "T-RESUME-017", "T-RESUME-028", "T-RESUME-027")
def test_first_what_the_receiver_told_is_resumed() -> None:
    peer, link = held_back(5, unsettled={b"1": WHOLE, b"3": Accepted()})
    new = link.send(BODY, tag=b"new")
    assert [(one.delivery_tag, one.resume) for one in peer.written(Transfer)] == [(b"1", True), (b"3", True)]
    assert [link.unsettled[tag].settled for tag in (b"0", b"2", b"4")] == [False] * 3
    assert new.progress.name == "NOT_SENT"
    peer.feed(FLOW)
    assert len(peer.written(Transfer)) == 2


@pytest.mark.spec("T-RESUME-016")
def test_when_that_is_settled_the_link_is_resumed_afresh() -> None:
    peer, link = held_back(5, unsettled={b"1": WHOLE, b"3": Accepted()})
    new = link.send(BODY, tag=b"new")
    number = link.unsettled[b"1"].id
    assert number is not None
    peer.sent.clear()
    peer.feed(disposition(Role.RECEIVER, number, state=Accepted(), settled=True))
    assert peer.written(Detach) == [a_detach(handle=0)]
    peer.feed(a_detach(handle=0))
    told = peer.written(Attach)[0]
    assert told.unsettled == {b"0": None, b"2": None, b"4": None}
    assert peer.told(events.Detached) == []  # The application is not concerned.
    peer.sent.clear()
    peer.feed(
        attach("n", 0, Role.RECEIVER, unsettled={b"4": WHOLE}), flow(0, link_credit=50, delivery_count=2)
    )
    assert [(one.delivery_tag, one.resume) for one in peer.written(Transfer)] == [
        (b"4", True),
        (b"0", False),
        (b"2", False),
        (b"new", False),
    ]
    assert new.progress.name == "SENT"


@pytest.mark.spec("T-RESUME-029")
def test_a_receiver_that_told_a_part_takes_nothing_new() -> None:
    peer, session = scripted(open={"max_frame_size": 512})
    link = a_receiver("n")
    for number in range(100):
        link.restore(b"%d" % number, BODY, state=Accepted())
    session.attach(link)
    peer.feed(attach("n", 0, unsettled={}))
    link.flow(5)
    assert peer.written(Attach)[0].incomplete_unsettled
    peer.feed((transfer(0, b"new"), BODY))
    assert condition(peer.written(Detach)[0]) == "amqp:not-allowed"
    assert delivered(peer) == []


@pytest.mark.spec("T-RESUME-027")
def test_a_receiver_settles_nothing_that_an_incomplete_map_lacks() -> None:
    peer, session = scripted()
    link = a_receiver("n")
    for tag in (b"1", b"2"):
        link.restore(tag, BODY, state=Accepted())
    session.attach(link)
    peer.feed(attach("n", 0, unsettled={b"1": None}, incomplete_unsettled=True))
    assert [one.remote_settled for one in link.unsettled.values()] == [False, False]
    peer.feed(a_detach(handle=0))
    assert kinds(peer.sent[-2:]) == ["Detach", "Attach"]
    peer.feed(attach("n", 0, unsettled={b"1": None}))
    assert list(link.unsettled) == [b"1"]


@pytest.mark.parametrize("lost", [0, 37, 200])
@pytest.mark.parametrize("mode", list(ReceiverSettleMode))
def test_many_deliveries_are_resumed_in_rounds(lost: int, mode: ReceiverSettleMode) -> None:
    """Between two engines whose frames are small: all is settled in the end, and nothing comes twice."""
    severed = Severed(SMALL)
    link, receiver = severed.sender(credit=500, rcv_settle_mode=mode)
    sent = [link.send(BODY) for _ in range(200)]
    severed.carry_frames(200 - lost)
    for delivery in list(severed.came):
        delivery.update(Accepted())
    severed.joined.server.data_to_send(0.0)
    severed.cut()
    receiver.prefetch = 20

    def settle(engine: Any, event: Any) -> None:
        severed._note(engine, event)
        if isinstance(event, events.Deliveries):
            for one in event.deliveries:
                one.update(Accepted(), settled=mode is ReceiverSettleMode.FIRST)

    severed.resume()
    severed.joined.on_event = settle
    severed.session.attach(link)
    new = link.send(BODY)
    severed.joined.run()
    assert all(one.settled and one.state == Accepted() for one in [*sent, new])
    assert (link.unsettled, receiver.unsettled) == ({}, {})
    assert len({one.tag for one in severed.came}) == len(severed.came) == 201
    if lost < 200:
        assert len(frames(severed.joined, severed.joined.client, Attach)) > 1
    assert severed.joined.told(severed.joined.client, events.Detached) == []
    assert link.is_attached


def test_a_receiver_that_resumes_first_goes_through_the_rounds_too() -> None:
    joined = Joined(SMALL, SMALL)
    session = joined.open()
    link = a_receiver("n", prefetch=300, rcv_settle_mode=ReceiverSettleMode.SECOND)
    session.attach(link)
    joined.run()
    sender = joined.peer_of(link)
    for _ in range(100):
        sender.send(BODY)
    joined.run()
    came = [one for event in joined.told(joined.client, events.Deliveries) for one in event.deliveries]
    assert len(came) == 100
    for delivery in came:
        delivery.update(Accepted())
    joined.client.lose()
    joined.server.lose()
    again = Joined(SMALL, SMALL, containers=(joined.client.container, joined.server.container))
    again.open().attach(link)
    again.run()
    assert (link.unsettled, sender.unsettled) == ({}, {})
    assert link.is_attached
    assert again.told(again.client, events.Deliveries) == []


def test_two_ends_that_know_nothing_of_each_other_give_up() -> None:
    """Both maps are incomplete, and no tag is known: another round would be the same."""
    severed = Severed(SMALL)
    link, receiver = a_sender("n"), a_receiver("n")
    for number in range(100):
        link.restore(b"ours %d" % number, BODY)
        receiver.restore(b"theirs %d" % number, BODY, state=Accepted())
    severed.session.attach(link)
    severed.joined.server.sessions[0].attach(receiver)
    severed.joined.run()
    detach = frames(severed.joined, severed.joined.client, Detach)[0].performative
    assert (condition(detach), detach.closed) == ("amqp:frame-size-too-small", False)
    gone = severed.joined.told(severed.joined.server, events.Detached)[0]
    assert gone.error is not None
    assert gone.error.condition == AmqpError.FRAME_SIZE_TOO_SMALL.value
    assert len(link.unsettled) == len(receiver.unsettled) == 100
    assert severed.joined.told(severed.joined.client, events.Ended) == []


def test_a_peer_that_never_tells_all_does_not_keep_us_busy() -> None:
    peer, link = held_back(3, unsettled={b"unknown": WHOLE})
    for _ in range(10):
        peer.feed(a_detach(handle=0))
        peer.feed(attach("n", 0, Role.RECEIVER, unsettled={b"unknown": WHOLE}, incomplete_unsettled=True))
        if peer.engine.error is not None or link.state is LinkState.FAILED:
            break
    told = peer.written(Detach)
    assert [condition(one) for one in told] in (
        [None, "amqp:frame-size-too-small"],
        ["amqp:frame-size-too-small"],
    )
    assert len(link.unsettled) == 3


@pytest.mark.spec("T-RESUME-023")
def test_not_even_one_delivery_fits() -> None:
    """The application may end the session for that; where we resume by ourselves, we do."""
    large = Source(address="s" * 430)
    peer, session = scripted(open={"max_frame_size": 512})
    link = Sender("n", source=large, target=Target())
    link.restore(b"1" * 32, BODY)
    with pytest.raises(LocalError, match="leaves no room"):
        session.attach(link)
    assert peer.flush() == []
    session.end(Error(condition=AmqpError.FRAME_SIZE_TOO_SMALL))
    assert condition(peer.flush()[0].performative) == "amqp:frame-size-too-small"
    again, session = scripted(open={"max_frame_size": 512})
    short = Sender("n", source=Source(address="s" * 400), target=Target())
    short.restore(b"1", BODY)
    short.restore(b"2" * 32, BODY)
    session.attach(short)
    again.flush()
    short.source = large
    again.feed(
        attach("n", 0, Role.RECEIVER, unsettled={b"1": Accepted()}, incomplete_unsettled=True, source=None),
        flow(0, link_credit=5, delivery_count=0),
        a_detach(handle=0),
    )
    assert condition(again.written(End)[0]) == "amqp:frame-size-too-small"
    assert list(short.unsettled) == [b"2" * 32]


def test_a_detach_of_the_application_ends_the_rounds() -> None:
    peer, link = held_back(3, unsettled={b"1": WHOLE})
    link.detach()
    peer.feed(a_detach(handle=0))
    assert link.state is LinkState.DETACHED
    assert len(peer.told(events.Detached)) == 1
    peer.attached(next(iter(peer.engine.sessions.values())), link)
    assert peer.written(Attach)[-1].unsettled == {b"0": None, b"1": None, b"2": None}


def test_a_lost_connection_ends_a_round() -> None:
    peer, link = held_back(3, unsettled={b"1": Accepted()})
    assert link.state is LinkState.DETACH_SENT
    peer.engine.lose()
    again = Scripted(container=peer.engine.container).opened()
    session = again.begun()
    session.attach(link)
    assert again.flush()[0].performative.unsettled == {b"0": None, b"2": None}
    again.feed(attach("n", 0, Role.RECEIVER, unsettled={}), FLOW)
    assert [one.delivery_tag for one in again.written(Transfer)] == [b"0", b"2"]
    again.feed(a_detach(handle=0))
    assert len(again.told(events.Detached)) == 1


def test_an_entry_that_never_fits_is_left_out() -> None:
    peer, session = scripted(open={"max_frame_size": 512})
    link = a_receiver("n")
    link.restore(b"big", BODY, state=Rejected(error=Error(condition="x:y", description="z" * 600)))
    link.restore(b"small", BODY, state=Accepted())
    session.attach(link)
    told = peer.flush()[0].performative
    assert (told.unsettled, told.incomplete_unsettled) == ({b"small": Accepted()}, True)


def test_a_peer_that_attaches_again_without_a_map_settles_nothing_by_that() -> None:
    """It never left the session, so it has nothing to tell: what was not resumed is compared anew."""
    peer, session = scripted()
    link = a_sender("n")
    link.restore(b"1", BODY)
    session.attach(link)
    link.detach()
    peer.feed(attach("n", 0, Role.RECEIVER, unsettled={b"1": WHOLE}), a_detach(handle=0))
    assert link.state is LinkState.DETACHED
    peer.sent.clear()
    peer.feed(attach("n", 0, Role.RECEIVER))
    link.attach()
    peer.flush()
    assert peer.written(Attach)[0].unsettled == {b"1": None}
    assert kinds(peer.sent) == ["Attach", "Detach"]
    peer.feed(a_detach(handle=0), attach("n", 0, Role.RECEIVER, unsettled={b"1": WHOLE}), FLOW)
    assert [(one.delivery_tag, one.resume) for one in peer.written(Transfer)] == [(b"1", True)]
