"""Messages of which not all is in: how much of them a connection keeps, and when it lets go of them."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.unfinished import Unfinished
from amqpforge_protocol.amqp_1_0 import AmqpError, End
from tests.engine.joined import Scripted, a_receiver
from tests.engine.linked import a_detach, a_transfer, attach, condition, delivered, receiving, transfer


def bounded(limit: int, *, links: int = 1, **options: Any) -> tuple[Scripted, list[Receiver]]:
    """A peer with links that have credit, and room for so many octets."""
    peer = Scripted().opened()
    peer.engine.unfinished = Unfinished(limit)
    session = peer.begun()
    found: list[Receiver] = []
    for handle in range(links):
        link = peer.attached(session, a_receiver(f"n{handle}", **options), handle=handle)
        link.flow(10)
        found.append(link)
    peer.flush()
    peer.sent.clear()
    return peer, found


def begin(id: int, octets: int, **fields: Any) -> tuple[Any, bytes]:
    return transfer(id, more=True, **fields), bytes(octets)


def test_what_is_kept_is_counted_until_the_message_is_whole() -> None:
    peer, _ = bounded(100)
    peer.feed(begin(0, 40), (a_transfer(handle=0, more=True), b"x" * 60))
    assert peer.engine.unfinished.octets == 100
    peer.feed((a_transfer(handle=0), b"y" * 1000))
    assert peer.engine.unfinished.octets == 0
    (delivery,) = delivered(peer)
    assert delivery.payload == bytes(40) + b"x" * 60 + b"y" * 1000


def test_beyond_the_limit_the_link_is_closed_and_others_go_on() -> None:
    peer, (_, other) = bounded(100, links=2)
    peer.feed(begin(0, 60), begin(1, 40, handle=1))
    frames = peer.feed((a_transfer(handle=0, more=True), b"x"))
    (detach,) = [frame.performative for frame in frames]
    assert detach.handle == 0
    assert detach.closed
    assert condition(detach) == AmqpError.RESOURCE_LIMIT_EXCEEDED
    assert peer.engine.unfinished.octets == 40
    peer.feed((a_transfer(handle=0, more=True), bytes(1000)))  # It was on its way.
    peer.feed((a_transfer(handle=1), bytes(10)))
    assert [one.link for one in delivered(peer)] == [other]
    assert peer.engine.unfinished.octets == 0


@pytest.mark.parametrize(
    ("ends", "is_kept"),
    [
        ([(a_transfer(handle=0, aborted=True), b"")], False),
        ([a_detach(handle=0, closed=True)], False),
        ([a_detach(handle=0), End()], True),  # As long as the session lives, it may be taken up again.
        ([End()], True),
    ],
    ids=["aborted", "closed", "detached", "ended"],
)
def test_what_is_broken_off_counts_no_longer(ends: list[Any], is_kept: bool) -> None:
    peer, (link,) = bounded(100)
    peer.feed(begin(0, 60))
    peer.feed(*ends)
    assert peer.engine.unfinished.octets == 0
    assert bool(link.unsettled) is is_kept


def test_the_loss_of_the_connection_ends_the_count() -> None:
    peer, (link,) = bounded(100)
    peer.feed(begin(0, 60))
    peer.engine.lose()
    assert peer.engine.unfinished.octets == 0
    assert link.unsettled_map
    link.forget_unfinished()
    assert not link.unsettled_map


def test_what_is_settled_already_is_counted_too() -> None:
    peer, _ = bounded(100)
    peer.feed(begin(0, 60, settled=True))
    assert peer.engine.unfinished.octets == 60
    peer.feed(a_detach(handle=0, closed=True))
    assert peer.engine.unfinished.octets == 0


def test_whole_messages_and_streams_are_not_counted() -> None:
    peer, _ = bounded(0, streams=True)
    peer.feed(begin(0, 60))
    assert len(peer.told(events.Partial)) == 1
    peer, _ = bounded(0)
    peer.feed((transfer(0), bytes(60)))
    assert len(delivered(peer)) == 1


def test_the_account_of_the_whole_has_a_say() -> None:
    told: list[int] = []

    def whole(octets: int) -> bool:
        told.append(octets)
        return octets <= 50

    account = Unfinished(1000, whole)
    assert account.take(50)
    assert not account.take(51)
    assert account.octets == 50
    account.give_back(20)
    assert account.octets == 30
    assert told == [50, 51, -20]
    assert not account.take(1001 - 30)
    assert told == [50, 51, -20]


@pytest.mark.parametrize("size", [0, 1])
def test_many_small_pieces_take_no_more_than_their_octets(size: int) -> None:
    peer, link = receiving(1)
    count = 2000
    peer.feed(begin(0, size))
    for _ in range(count - 1):
        peer.feed((a_transfer(handle=0, more=True), bytes(size)))
    (delivery,) = link.unsettled.values()
    assert len(delivery.parts) <= 1
    peer.feed((a_transfer(handle=0), b"end"))
    assert delivered(peer)[0].payload == bytes(size * count) + b"end"


def test_what_is_forgotten_comes_anew() -> None:
    peer, (link,) = bounded(100)
    peer.feed(begin(0, 60, tag=b"t"), End())
    link.forget_unfinished()
    session = peer.begun()
    session.attach(link)
    (ours,) = [frame.performative for frame in peer.flush()]
    assert ours.unsettled == {}
    peer.feed(attach("n0", unsettled={b"t": None}))
    link.flow(10)
    peer.feed((transfer(0, b"t"), b"whole"))
    assert [one.payload for one in delivered(peer)] == [b"whole"]
