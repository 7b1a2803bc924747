"""One settlement for many deliveries that were sent: what it comes to, and in how many frames."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from amqpforge.engine.delivery import OutgoingDelivery
from amqpforge.engine.dispositions import settle
from amqpforge.engine.sender import Sender
from amqpforge.engine.settings import SessionSettings
from amqpforge_protocol.amqp_1_0 import Accepted, Disposition, Error, Modified, Rejected, Released, Role
from tests.engine.joined import BODY, Scripted, a_sender
from tests.engine.linked import a_disposition, flow, scripted

LARGE = Rejected(error=Error(condition="x:y", description="z" * 600))


def sent(count: int, *, first: int = 0, links: int = 1) -> tuple[Scripted, list[OutgoingDelivery]]:
    """Deliveries that are sent and not settled, as many on each of some links."""
    peer, session = scripted(session=SessionSettings(next_delivery_id=first), open={"max_frame_size": 512})
    deliveries = []
    for handle in range(links):
        link: Sender = peer.attached(session, a_sender(str(handle), auto_settle=False), handle=handle)
        peer.feed(flow(handle, link_credit=count, delivery_count=0))
        deliveries += [link.send(BODY) for _ in range(count)]
    peer.flush()
    return peer, deliveries


def told(peer: Scripted) -> list[Any]:
    """The dispositions that go out now."""
    return [one.performative for one in peer.flush() if type(one.performative) is Disposition]


def says(first: int, last: int | None = None, **fields: Any) -> Disposition:
    return a_disposition(role=Role.SENDER, first=first, last=last, **fields)


def test_neighbours_go_in_one_frame_and_are_forgotten() -> None:
    peer, deliveries = sent(5)
    settle(deliveries, Accepted())
    assert told(peer) == [says(0, 4, state=Accepted(), settled=True)]
    assert [(one.state, one.settled) for one in deliveries] == [(Accepted(), True)] * 5
    link = deliveries[0].link
    assert link.session is not None
    assert (link.unsettled, link.session.outgoing) == ({}, {})


def test_a_range_goes_on_behind_the_highest_id() -> None:
    peer, deliveries = sent(4, first=0xFFFF_FFFE)
    settle(deliveries, Released())
    assert told(peer) == [says(0xFFFF_FFFE, 1, state=Released(), settled=True)]


def test_those_between_are_left_out() -> None:
    peer, deliveries = sent(6)
    settle([*deliveries[:2], *deliveries[3:5]], Accepted())
    assert told(peer) == [
        says(0, 1, state=Accepted(), settled=True),
        says(3, 4, state=Accepted(), settled=True),
    ]
    assert [one.settled for one in deliveries] == [True, True, False, True, True, False]


def test_one_frame_tells_of_several_links() -> None:
    peer, deliveries = sent(2, links=2)
    settle(deliveries, Accepted())
    assert told(peer) == [says(0, 3, state=Accepted(), settled=True)]
    assert not any(one.link.unsettled for one in deliveries)


def test_an_outcome_that_is_too_large_for_a_frame_is_not_told() -> None:
    peer, deliveries = sent(2)
    settle(deliveries, LARGE)
    assert told(peer) == [says(0, 1, settled=True)]


def test_without_a_session_nobody_is_told() -> None:
    peer, deliveries = sent(2)
    peer.engine.end_of_input(0.0)
    assert [one.id for one in deliveries] == [None, None]
    settle(deliveries, Accepted())
    assert [(one.state, one.settled) for one in deliveries] == [(Accepted(), True)] * 2


@pytest.mark.parametrize("outcome", [Accepted(), Released(), Modified(delivery_failed=True), LARGE])
def test_it_comes_to_what_update_does(outcome: Any) -> None:
    """Whatever became of each delivery before, and if there is one behind it that waits to be sent."""
    for before in product(("sent", "accepted", "released", "settled", "behind"), repeat=3):
        peers = []
        for is_at_once in (True, False):
            peer, deliveries = sent(3)
            for delivery, what in zip(tuple(deliveries), before, strict=True):
                if what in ("accepted", "released"):
                    delivery.update(Accepted() if what == "accepted" else Released())
                elif what == "settled":
                    delivery.settle(Released())
                elif what == "behind":
                    deliveries.append(delivery.link.send(BODY))  # There is no credit for it.
            peer.flush()
            if is_at_once:
                settle(deliveries, outcome)
            else:
                for delivery in deliveries:
                    if not delivery.settled:
                        can_tell = delivery.state is None and delivery.link.can_tell(outcome)
                        delivery.update(outcome if can_tell else None, settled=True)
            peer.feed(flow(0, link_credit=9, delivery_count=3))
            frames = [frame.performative for frame in peer.sent]
            peers.append((frames, [(one.state, one.settled, one.progress) for one in deliveries]))
        assert peers[0] == peers[1], before
