"""What the general architecture asks of connections and channels, of the engine alone."""

from __future__ import annotations

import pytest

from amqpforge.engine import events
from amqpforge.engine.settings import ConnectionSettings
from amqpforge_protocol.amqp_1_0 import (
    AmqpError,
    Close,
    ConnectionState,
    End,
    Error,
    LinkState,
    SessionState,
)
from tests.engine.joined import BODY, Joined, Scripted, a_receiver, a_sender
from tests.engine.linked import a_transfer


@pytest.mark.spec("A-CLIENT-003")
def test_one_object_manages_opening_sessions_contents_and_errors() -> None:
    """Driven by frames of a script: its states, and what it tells and writes at each step."""
    peer = Scripted()
    states = [peer.engine.state]
    peer.opened()
    states.append(peer.engine.state)
    assert len(peer.told(events.Opened)) == 1
    session = peer.begun()
    assert session.state is SessionState.MAPPED
    link = peer.attached(session, a_receiver("in"))
    assert link.state is LinkState.ATTACHED
    link.flow(1)
    peer.feed((a_transfer(handle=0, delivery_id=0, delivery_tag=b"t", message_format=0), BODY))
    assert peer.told(events.Deliveries)
    error = Error(condition=AmqpError.INTERNAL_ERROR, description="out of order")
    peer.feed(Close(error=error))
    states.append(peer.engine.state)
    assert states == [ConnectionState.START, ConnectionState.OPENED, ConnectionState.END]
    (closed,) = peer.told(events.Closed)
    assert closed.by_peer
    assert "out of order" in str(closed.error)
    names = [type(frame.performative).__name__ for frame in peer.sent if frame.performative is not None]
    assert names == ["Open", "Begin", "Attach", "Flow", "Close"]


@pytest.mark.spec("A-CONN-001")
def test_a_connection_carries_a_hundred_channels_through_hours_of_silence() -> None:
    settings = ConnectionSettings(idle_time_out=60.0)
    joined = Joined(settings, settings)
    sessions = [joined.open()]
    for _ in range(99):
        session = joined.client.session()
        session.begin()
        sessions.append(session)
    senders = [a_sender(f"out-{number}") for number in range(100)]
    for session, sender in zip(sessions, senders, strict=True):
        session.attach(sender)
    joined.run()
    assert {session.channel for session in sessions} == set(range(100))

    def use_each() -> None:
        before = len(joined.told(joined.server, events.Deliveries))
        for sender in senders:
            joined.peer_of(sender).flow(1)
        joined.run()
        for sender in senders:
            sender.send(BODY, settled=True)
        joined.run()
        assert len(joined.told(joined.server, events.Deliveries)) == before + 100

    use_each()
    quiet = len(joined.octets)
    for _ in range(240):
        joined.now += 30.0
        joined.run()
    assert len(joined.octets) > quiet  # Empty frames.
    assert joined.client.state is joined.server.state is ConnectionState.OPENED
    use_each()


@pytest.mark.spec("A-CHAN-001", "A-CHAN-003")
@pytest.mark.parametrize("by_peer", [True, False])
def test_the_end_of_a_channel_disturbs_no_other(by_peer: bool) -> None:
    """The first one ends with an error while the second one takes messages, and misses none."""
    peer = Scripted().opened()
    first, second = peer.begun(channel=0), peer.begun(channel=1)
    peer.attached(first, a_receiver("one"))
    link = peer.attached(second, a_receiver("two"), channel=1)
    link.flow(10)

    def deliver(number: int) -> None:
        transfer = a_transfer(handle=0, delivery_id=number, delivery_tag=b"%d" % number, message_format=0)
        peer.feed((transfer, BODY), channel=1)

    for number in range(5):
        deliver(number)
    error = Error(condition=AmqpError.NOT_ALLOWED)
    if by_peer:
        peer.feed(End(error=error), channel=0)
    else:
        first.end(error)
        peer.flush()
        peer.feed(End(), channel=0)
    assert len(peer.written(End)) == 1  # The answer, or what is answered.
    assert first.state is SessionState.UNMAPPED
    for number in range(5, 10):
        deliver(number)
    came = [delivery.tag for event in peer.told(events.Deliveries) for delivery in event.deliveries]
    assert came == [b"%d" % number for number in range(10)]
    assert second.state is SessionState.MAPPED
    third = peer.begun(channel=0)
    assert third.state is SessionState.MAPPED
    assert peer.engine.state is ConnectionState.OPENED
