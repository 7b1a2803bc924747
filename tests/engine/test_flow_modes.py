"""What a receiver does with credit and drain: get one message, or wait for it for a while, or be told of all,
or stop (sections 2.6.7 to 2.6.10). And credit that the engine gives by itself.
"""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.receiver import Receiver
from amqpforge_protocol.amqp_1_0 import Accepted, Detach, Flow, Role, Transfer
from tests.engine.joined import BODY, Joined, Scripted, a_receiver
from tests.engine.linked import delivered, disposition, flow, kinds, receiving, sending, transfer


def told(peer: Scripted) -> list[tuple[int | None, int | None, bool]]:
    """Count, credit and drain of the flows that go out now."""
    frames = [frame.performative for frame in peer.flush()]
    return [(one.delivery_count, one.link_credit, one.drain) for one in frames if type(one) is Flow]


@pytest.mark.spec("T-FLOW-011")
def test_draining_sends_what_is_there_and_uses_up_the_rest() -> None:
    peer, link = sending()
    link.send(BODY)
    link.send(BODY)
    written = peer.feed(flow(0, delivery_count=0, link_credit=5, drain=True))
    assert kinds(written) == ["Transfer", "Transfer", "Flow"]
    answer = written[2].performative
    assert (answer.delivery_count, answer.link_credit, answer.drain) == (5, 0, True)


@pytest.mark.spec("T-FLOW-016", "T-FLOW-040")
def test_draining_with_nothing_available() -> None:
    peer, _ = sending()
    written = peer.feed(flow(0, delivery_count=0, link_credit=10, drain=True, echo=True))
    assert kinds(written) == ["Flow"]  # Which is the echo too.
    answer = written[0].performative
    assert (answer.delivery_count, answer.link_credit, answer.drain, answer.available) == (10, 0, True, 0)


@pytest.mark.spec("T-FLOW-012")
def test_drain_is_what_the_receiver_said_last() -> None:
    peer, link = sending()
    for drain in (True, False, True):
        peer.feed(flow(0, delivery_count=0, link_credit=0, drain=drain))
        assert link.flow_state.drain is drain
        link.flow()
        assert told(peer) == [(0, 0, drain)]


def test_draining_when_the_queue_uses_all_credit() -> None:
    peer, link = sending()
    for _ in range(5):
        link.send(BODY)
    written = peer.feed(flow(0, delivery_count=0, link_credit=3, drain=True))
    assert kinds(written) == ["Transfer"] * 3
    assert link.link_credit == 0


def test_an_application_with_a_backlog_drains_when_it_has_sent_it() -> None:
    peer, link = sending()
    link.backlog = lambda: 2
    assert peer.feed(flow(0, delivery_count=0, link_credit=5, drain=True)) == []
    link.send(BODY)
    link.backlog = lambda: 1
    link.send(BODY)
    assert kinds(peer.flush()) == ["Transfer", "Transfer"]
    link.backlog = lambda: 0
    link.drained()
    assert told(peer) == [(5, 0, True)]


def test_an_application_that_drains_by_itself() -> None:
    peer, link = sending()
    link.auto_drain = False
    assert peer.feed(flow(0, delivery_count=0, link_credit=5, drain=True)) == []
    link.send(BODY)
    assert kinds(peer.flush()) == ["Transfer"]
    link.drained()
    assert told(peer) == [(5, 0, True)]


def test_a_message_that_is_begun_does_not_hold_up_draining() -> None:
    peer, link = sending(1)
    stream = link.start_message()
    stream.write(b"half")
    peer.flush()
    peer.feed(flow(0, delivery_count=0, link_credit=5, drain=True))
    assert (link.flow_state.delivery_count, link.link_credit) == (5, 0)
    stream.finish()
    assert kinds(peer.flush()) == ["Transfer"]


@pytest.mark.spec("T-FLOW-022")
def test_receiver_modes() -> None:
    peer, link = receiving()
    link.flow(1)  # Synchronous get.
    assert told(peer) == [(0, 1, False)]
    link.flow(1)  # Timed get: and, when time is up:
    link.flow(drain=True)
    assert told(peer) == [(0, 1, False), (0, 1, True)]
    peer.feed(flow(0, delivery_count=1, link_credit=0, drain=True))
    link.flow(7)  # Asynchronous notification.
    assert told(peer) == [(1, 7, False)]
    link.flow(0)  # Stop.
    assert told(peer) == [(1, 0, False)]


def test_credit_taken_back_while_the_sender_drains_leaves_both_at_nothing() -> None:
    joined = Joined()
    session = joined.open()
    link = a_receiver()
    session.attach(link)
    joined.run()
    link.flow(1, drain=True)
    link.flow(0)
    joined.run()
    link.flow()
    joined.run()
    sender = joined.peer_of(link)
    assert (link.flow_state.link_credit, sender.flow_state.link_credit) == (0, 0)
    assert link.flow_state.delivery_count == sender.flow_state.delivery_count == 1


@pytest.mark.spec("T-FLOW-023")
def test_synchronous_get() -> None:
    peer, link = receiving()
    link.flow(1)
    assert told(peer) == [(0, 1, False)]
    assert delivered(peer) == []
    peer.feed((transfer(0), BODY))
    assert [one.payload for one in delivered(peer)] == [BODY]
    assert link.link_credit == 0


@pytest.mark.spec("T-FLOW-024", "T-FLOW-025")
@pytest.mark.parametrize("comes", [True, False])
def test_synchronous_get_with_timeout(comes: bool) -> None:
    peer, link = receiving()
    link.flow(1)
    link.flow(drain=True)
    assert told(peer) == [(0, 1, False), (0, 1, True)]
    assert link.link_credit == 1  # Neither is known yet.
    if comes:
        peer.feed((transfer(0), BODY))
    else:
        peer.feed(flow(0, delivery_count=1, link_credit=0, drain=True))
    assert link.link_credit == 0
    assert len(delivered(peer)) == comes
    assert link.flow_state.delivery_count == 1


@pytest.mark.spec("T-FLOW-024")
@pytest.mark.parametrize("comes", [True, False])
def test_a_timed_get_between_two_engines(comes: bool) -> None:
    joined = Joined()
    session = joined.open()
    link = a_receiver()
    session.attach(link)
    joined.run()
    sender = joined.peer_of(link)
    link.flow(1)
    joined.run()
    if comes:
        sender.send(BODY)  # It crosses the drain.
    link.flow(drain=True)
    joined.run()
    assert (link.link_credit, sender.link_credit) == (0, 0)
    assert len(joined.told(joined.client, events.Deliveries)) == comes
    assert len(joined.told(joined.client, events.FlowReceived)) == (not comes)


@pytest.mark.spec("T-FLOW-026")
def test_asynchronous_notification() -> None:
    peer, _ = receiving(mode={"prefetch": 10})
    for id in range(6):
        peer.feed((transfer(id, settled=True), BODY))
        assert told(peer) == []
    for delivery in delivered(peer)[:5]:
        delivery.settle()
    assert told(peer) == [(6, 9, False)]
    delivered(peer)[5].settle()
    assert told(peer) == []


@pytest.mark.spec("T-FLOW-027")
def test_credit_that_crosses_a_message_is_not_given_twice() -> None:
    joined = Joined()
    session = joined.open()
    link = a_receiver()
    session.attach(link)
    joined.run()
    sender = joined.peer_of(link)
    link.flow(5)
    joined.run()
    sender.send(BODY)
    sender.send(BODY)
    link.flow(5)  # It does not know of the two that are on their way.
    joined.run()
    assert sender.link_credit == link.link_credit == 3


@pytest.mark.spec("T-FLOW-030")
def test_stopping_a_link() -> None:
    joined = Joined()
    session = joined.open()
    link = a_receiver()
    session.attach(link)
    joined.run()
    sender = joined.peer_of(link)
    link.flow(5)
    joined.run()
    sender.send(BODY)
    link.flow(0, echo=True)
    joined.carry(joined.server, joined.client)
    assert len(joined.told(joined.client, events.Deliveries)) == 1  # It was on its way.
    assert joined.told(joined.client, events.FlowReceived) == []
    joined.carry(joined.client, joined.server)
    sender.send(BODY)
    joined.run()
    assert len(joined.told(joined.client, events.FlowReceived)) == 1
    assert len(joined.told(joined.client, events.Deliveries)) == 1
    assert sender.link_credit == 0


# --- prefetch


def outstanding(link: Receiver) -> int:
    return link.held + link.link_credit


def test_what_is_held_and_what_is_granted_never_exceed_the_window() -> None:
    peer, link = receiving(mode={"prefetch": 8})
    next_id = 0
    for round in range(40):
        for _ in range(min(link.link_credit, round % 5 + 1)):
            peer.feed((transfer(next_id, settled=next_id % 3 == 0), BODY))
            next_id += 1
            assert outstanding(link) <= 8
        for delivery in [one for one in delivered(peer) if not one.settled][: round % 4]:
            delivery.settle(Accepted())
            peer.flush()
            assert outstanding(link) <= 8
    assert next_id > 40


@pytest.mark.parametrize("settled", [True, False])
def test_a_delivery_counts_until_it_is_settled_here(settled: bool) -> None:
    peer, link = receiving(mode={"prefetch": 2})
    peer.feed((transfer(0, settled=settled), BODY), (transfer(1, settled=settled), BODY))
    assert (link.held, link.link_credit) == (2, 0)
    delivered(peer)[0].settle()
    peer.flush()
    assert (link.held, link.link_credit) == (1, 1)


def test_no_credit_is_given_while_the_sender_drains() -> None:
    peer, link = receiving(mode={"prefetch": 2})
    link.flow(drain=True)
    assert told(peer) == [(0, 2, True)]
    peer.feed((transfer(0, settled=True), BODY), flow(0, delivery_count=2, link_credit=0, drain=True))
    delivered(peer)[0].settle()
    assert told(peer) == []
    assert link.link_credit == 0
    link.flow(drain=False)
    link.grant()
    assert link.link_credit == 2


def test_credit_is_given_in_one_flow_for_many_deliveries() -> None:
    peer, _ = receiving(mode={"prefetch": 100})
    peer.feed(*[(transfer(id), BODY) for id in range(100)])
    for delivery in delivered(peer):
        delivery.settle(Accepted())
    assert kinds(peer.flush()) == ["Disposition", "Flow"]


@pytest.mark.parametrize("how", ["aborted", "unknown"])
def test_credit_used_for_nothing_is_given_again(how: str) -> None:
    peer, link = receiving(mode={"prefetch": 4})
    for id in range(20):
        fields: dict[str, Any] = {"aborted": True} if how == "aborted" else {"resume": True}
        peer.feed((transfer(id, **fields), BODY))
        assert outstanding(link) <= 4
    peer.feed((transfer(20), BODY))
    assert len(delivered(peer)) == 1


def test_tags_of_settled_deliveries_are_free_again() -> None:
    peer, link = sending(10)
    for _ in range(2):
        link.send(BODY, tag=b"t")
        peer.feed(disposition(Role.RECEIVER, link.unsettled[b"t"].id or 0, state=Accepted(), settled=True))
    assert [frame.delivery_tag for frame in peer.written(Transfer)] == [b"t", b"t"]
    assert peer.written(Detach) == []
