"""The work that one delivery takes does not depend on what else there is: calls are counted, not timed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge_protocol.amqp_1_0 import Accepted
from tests.engine.joined import BODY, Joined, a_sender

MANY = 10_000
ROOM = ConnectionSettings(session=SessionSettings(incoming_window=1 << 20, next_delivery_id=1000))


def calls(work: Callable[[], object]) -> int:
    """How many functions, of Python or not, some work calls."""
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def quietly(joined: Joined) -> None:
    """Carry octets to and fro, and settle what comes, with no more calls than that takes."""
    for _ in range(3):
        for giver, taker in ((joined.client, joined.server), (joined.server, joined.client)):
            octets = giver.data_to_send(0.0)
            if octets:
                taker.receive(octets, 0.0)
            for event in taker.events():
                if type(event) is events.Deliveries:
                    for delivery in event.deliveries:
                        delivery.settle(Accepted())


def linked(count: int) -> tuple[Joined, list[Sender], list[Receiver]]:
    """So many links on one session, each with credit."""
    joined = Joined(ROOM, ROOM)
    session = joined.open()
    links = [a_sender(str(number)) for number in range(count)]
    for link in links:
        session.attach(link)
    joined.run()
    receivers = [joined.peer_of(link) for link in links]
    for receiver in receivers:
        receiver.flow(1 << 20)
    joined.run()
    return joined, links, receivers


def a_delivery(joined: Joined, link: Sender) -> int:
    """The calls that one delivery takes: sent, received, settled at both ends."""

    def work() -> None:
        link.send(BODY)
        quietly(joined)

    work()
    counted = calls(work)
    assert not link.queue
    return counted


def test_the_work_of_a_delivery_does_not_depend_on_how_many_links_there_are() -> None:
    alone, links, _ = linked(1)
    crowded, many, _ = linked(MANY)
    assert len(many) == MANY
    assert a_delivery(crowded, many[0]) == a_delivery(alone, links[0])


def test_the_work_of_a_delivery_does_not_depend_on_how_many_are_unsettled() -> None:
    counted = []
    for waiting in (1, MANY):
        joined, links, receivers = linked(1)
        link = links[0]
        for _ in range(waiting):
            link.send(BODY)
        joined.run()
        assert len(link.unsettled) == len(receivers[0].unsettled) == waiting
        counted.append(a_delivery(joined, link))
        assert len(link.unsettled) == waiting
    assert counted[0] == counted[1]


def test_the_work_of_a_delivery_does_not_depend_on_how_many_links_are_stalled() -> None:
    """Links without credit, with messages in their queues, are not looked at."""
    counted = []
    for stalled in (0, 1000):
        joined, links, receivers = linked(1 + stalled)
        for receiver in receivers[1:]:
            receiver.flow(0)
        joined.run()
        for link in links[1:]:
            link.send(BODY)
            link.start_message()
        joined.run()
        counted.append(a_delivery(joined, links[0]))
        assert all(len(link.queue) == 2 for link in links[1:])
    assert counted[0] == counted[1]


def test_a_disposition_of_the_widest_range_takes_no_more_than_what_is_unsettled() -> None:
    counted = []
    for last in (1, 0x7000_0000):
        joined, links, receivers = linked(1)
        for _ in range(2):
            links[0].send(BODY)
        joined.run()
        session = receivers[0].session
        assert session is not None
        session.dispose(receivers[0].role, 1000, 1000 + last, Accepted(), True)
        octets = joined.server.data_to_send(0.0)
        counted.append(calls(lambda: joined.client.receive(octets, 0.0)))  # noqa: B023
        assert links[0].unsettled == {}
    assert counted[1] < 2 * counted[0]


@pytest.mark.parametrize("waiting", [1, 1000])
def test_the_work_of_a_session_whose_window_opens(waiting: int) -> None:
    """Each sender that waits gets its turn, and costs as much as its deliveries do."""
    joined = Joined(ROOM, ConnectionSettings(session=SessionSettings(incoming_window=1)))
    session = joined.open()
    links = [a_sender(str(number)) for number in range(waiting)]
    for link in links:
        session.attach(link)
    joined.run()
    for link in links:
        joined.peer_of(link).flow(5)
    joined.run()
    for link in links:
        link.send(BODY)
    for _ in range(2 * waiting + 2):
        quietly(joined)
    assert [len(link.queue) for link in links] == [0] * waiting
    assert session.stalled == {}


def test_resuming_many_deliveries_takes_work_in_proportion() -> None:
    counted = []
    for waiting in (100, 1000):
        joined, links, receivers = linked(1)
        for _ in range(waiting):
            links[0].send(BODY)
        joined.client.data_to_send(0.0)
        joined.client.lose()
        joined.server.lose()
        again = Joined(ROOM, ROOM, containers=(joined.client.container, joined.server.container))
        again.open().attach(links[0])

        def work() -> None:
            again.run()  # noqa: B023
            receivers[0].flow(1 << 20)  # noqa: B023
            again.run()  # noqa: B023

        counted.append(calls(work))
        assert len(receivers[0].unsettled) == waiting
    assert counted[1] < 11 * counted[0]
