"""The script of the test node: rules for frames, gates, and what a test can do to a connection by hand."""

from __future__ import annotations

import asyncio
from types import NoneType
from typing import Any

import pytest

from amqpforge.engine.sender import Sender
from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge.errors import ConnectionLost, LocalError, NegotiationFailed, OperationTimedOut
from amqpforge.message import Message
from amqpforge.testing import Rule, ScriptedNode, SeenFrame
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpConnectionError,
    AmqpError,
    Attach,
    Begin,
    Close,
    DeliveryNumber,
    DeliveryTag,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Handle,
    LinkError,
    LinkState,
    Open,
    ProtocolHeader,
    Rejected,
    Role,
    SequenceNo,
    Source,
    Symbol,
    Target,
    Transfer,
    TransferNumber,
    UShort,
)

from .peer import Peer, advance, asynchronous, bodies

NOT_NOW = "x:not-now"


def a_sender(name: str = "out") -> Sender:
    """A link to the queue q that is not attached yet."""
    return Sender(name, source=Source(), target=Target(address="q"))


def condition(error: Any) -> str | None:
    """The condition of an error that an endpoint ended with."""
    return None if error is None else error.condition


# ---- refusing and redirecting ----


@asynchronous
async def test_links_are_refused_by_rule() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        rule = node.script.on(Attach, name="bad").refuse(NOT_NOW, "come back later")
        good, bad = await peer.sender(name="good"), await peer.sender(name="bad")
        await peer.until(lambda: bad.error)
        assert condition(bad.error) == NOT_NOW
        assert bad.error is not None
        assert "come back later" in str(bad.error)
        assert await peer.send(good, "m") == [Accepted()]
        assert (rule.met, rule.acted) == (1, 1)
        rule.cancel()
        assert (await peer.receiver(name="bad")).is_attached


@asynchronous
async def test_sessions_and_connections_are_refused_by_rule() -> None:
    async with ScriptedNode() as node:
        node.script.on(Begin).refuse(NOT_NOW)
        peer = await Peer(node).open()
        await peer.until(lambda: peer.session.error)
        assert condition(peer.session.error) == NOT_NOW
        await peer.drop()
        node.script.clear()
        node.script.on(Open).refuse(AmqpError.UNAUTHORIZED_ACCESS)
        peer = await Peer(node).connect()
        peer.engine.open()
        peer.pump()
        await peer.until(lambda: peer.is_lost)
        assert condition(peer.engine.error) == AmqpError.UNAUTHORIZED_ACCESS
        assert [type(one) for one in (*node.sent(Open), *node.sent(Close))][-2:] == [Open, Close]


@asynchronous
async def test_redirects_say_where_to_go() -> None:
    async with ScriptedNode() as node, ScriptedNode() as other:
        node.script.on(Attach).redirect(other.port, address="elsewhere")
        node.script.on(Open, skip=1).redirect(other.port, hostname="other.example")
        peer = await Peer(node).open()
        sender = await peer.sender()
        await peer.until(lambda: sender.error)
        assert sender.error is not None
        assert sender.error.error is not None
        assert sender.error.condition == LinkError.REDIRECT
        assert sender.error.error.info == {
            Symbol("hostname"): "127.0.0.1",
            Symbol("network-host"): "127.0.0.1",
            Symbol("port"): UShort(other.port),
            Symbol("address"): "elsewhere",
        }
        second = await Peer(node).connect()
        second.engine.open()
        second.pump()
        await second.until(lambda: second.engine.error)
        assert second.engine.error is not None
        assert second.engine.error.error is not None
        assert second.engine.error.condition == AmqpConnectionError.REDIRECT
        assert (second.engine.error.error.info or {})[Symbol("hostname")] == "other.example"
        await peer.drop()
        await second.drop()


@asynchronous
async def test_a_message_is_refused() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        node.script.on(Transfer, times=1).refuse(NOT_NOW)
        sender = await peer.sender()
        refused, accepted = await peer.send(sender, "a", "b")
        assert (refused, accepted) == (Rejected(error=Error(condition=Symbol(NOT_NOW))), Accepted())
        assert [message.body for message in node.messages("q")] == ["b"]
        assert node.queue("q").arrived == 1


def test_what_cannot_be_refused() -> None:
    node = ScriptedNode()
    for rule in (node.script.on(Flow), node.script.on(object), node.script.before(Attach)):
        with pytest.raises(LocalError, match="only an open, a begin, an attach or a transfer"):
            rule.refuse(NOT_NOW)
    with pytest.raises(LocalError, match="only a connection or a link"):
        node.script.on(Begin).redirect(1)


# ---- silence ----


@asynchronous
async def test_what_is_dropped_is_never_answered() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        sender = await peer.sender()
        for kind in (Attach, Detach, End, Close):
            rule: Rule[Any] = node.script.on(kind)
            rule.drop()
        peer.session.attach(a_sender("never"))
        sender.close()
        peer.pump()
        await node.wait_for(lambda: len(node.received(Attach)) == 2 and node.received(Detach))
        peer.session.end()
        peer.engine.close()
        peer.pump()
        await node.wait_for(lambda: node.received(Close))
        assert node.received(End)
        assert len(node.sent(Attach)) == 1
        assert not node.sent(Detach)
        assert not node.sent(End)
        assert not node.sent(Close)
        assert node.connections[0].links


@asynchronous
async def test_flows_that_are_dropped_give_no_credit() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        rule = node.script.on(Flow).drop()
        node.put("q", "m")
        receiver = await peer.receiver(credit=5)
        await node.wait_for(lambda: node.received(Flow))
        rule.cancel()
        assert not peer.inbox.get("in")
        await peer.echo(receiver)  # tells the credit again
        assert bodies(await peer.receive(receiver)) == ["m"]


@asynchronous
async def test_a_node_that_gives_no_credit() -> None:
    async with ScriptedNode(credit=0) as node, Peer(node) as peer:
        sender = await peer.sender()
        sender.send(b"")
        sender.flow(echo=True)
        peer.pump()
        await node.wait_for(lambda: node.received(Flow))
        assert not node.received(Transfer)
        assert sender.link_credit == 0


@asynchronous
async def test_reading_stops_and_goes_on() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        sender = await peer.sender()
        (connection,) = node.connections
        connection.stop_reading()
        read = connection.wire.octets_read
        delivery = sender.send(Message("m").encode())
        peer.pump()
        node.put("other", 1)
        await asyncio.sleep(0)
        assert connection.wire.octets_read == read
        assert not node.messages("q")
        connection.go_on_reading()
        await peer.until(lambda: delivery.settled)
        node.script.on(Transfer).stop_reading()
        await peer.send(sender, "last")
        sender.send(Message("never").encode())
        peer.pump()
        await asyncio.sleep(0)
        assert [message.body for message in node.messages("q")] == ["m", "last"]


# ---- late, and out of order ----


@asynchronous
async def test_an_answer_that_is_late() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        gate = node.script.on(Attach).hold()
        peer.session.attach(a_sender())
        peer.pump()
        await node.wait_for(lambda: gate.held)
        peer.session.end()
        peer.pump()
        assert [type(seen.performative) for seen in gate.held] == [Attach]
        assert not node.sent(Attach)
        gate.open()
        await node.wait_for(lambda: node.sent(End))
        kinds = [type(seen.performative) for seen in node.frames if seen.is_sent]
        assert kinds[-3:] == [Attach, Flow, End]


@asynchronous
async def test_outcomes_out_of_order() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        gate = node.script.before(Disposition).hold()
        sender = await peer.sender()
        first = sender.send(Message("first").encode())
        peer.pump()
        await node.wait_for(lambda: len(gate.held) == 1)
        second = sender.send(Message("second").encode())
        peer.pump()
        await node.wait_for(lambda: len(gate.held) == 2)
        assert len(node.queue("q")) == 2
        assert gate.let(1).performative == node.sent(Disposition)[1]
        await peer.until(lambda: second.settled)
        assert not first.settled
        gate.open()
        await peer.until(lambda: first.settled)
        assert await peer.send(sender, "third") == [Accepted()]
        gate.close()
        sender.send(Message("fourth").encode())
        peer.pump()
        await node.wait_for(lambda: gate.held)
        with pytest.raises(LocalError, match="no frame 1 is held"):
            gate.let(1)


@asynchronous
async def test_one_gate_for_several_rules() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        gate = node.script.on(Transfer).hold()
        assert node.script.before(Disposition).hold(gate) is gate
        sender = await peer.sender()
        delivery = sender.send(Message("m").encode())
        peer.pump()
        await node.wait_for(lambda: gate.held)
        gate.let()
        await node.wait_for(lambda: [seen for seen in gate.held if seen.is_sent])
        assert not delivery.settled
        gate.open()
        await peer.until(lambda: delivery.settled)


# ---- wrong ----


@asynchronous
async def test_a_closing_detach_that_is_answered_by_a_plain_one() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        node.script.before(Detach, closed=True).replace(lambda seen: Detach(handle=seen.performative.handle))
        sender = await peer.sender()
        sender.close()
        peer.pump()
        await node.wait_for(lambda: node.sent(Detach))
        await peer.until(lambda: sender.remote_handle is None)
        assert sender.state is not LinkState.CLOSED


@asynchronous
async def test_given_frames_are_sent_before_or_instead() -> None:
    windows = Flow(
        next_incoming_id=TransferNumber(SequenceNo(0)),
        incoming_window=7,
        next_outgoing_id=TransferNumber(SequenceNo(0)),
        outgoing_window=7,
    )
    async with ScriptedNode(credit=0) as node, Peer(node) as peer:
        node.script.on(Attach).send(windows)
        await peer.sender()
        assert peer.session.windows.remote_incoming_window == 7
        node.script.clear()
        wrong = Detach(handle=Handle(4000))
        node.script.on(Attach).send(wrong).drop()
        peer.session.attach(a_sender("other"))
        peer.pump()
        await peer.until(lambda: peer.session.error)
        assert condition(peer.session.error) == "amqp:session:unattached-handle"


@asynchronous
async def test_a_message_that_nobody_asked_for() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        receiver = await peer.receiver()
        transfer = Transfer(
            handle=Handle(0), delivery_id=DeliveryNumber(SequenceNo(0)), delivery_tag=DeliveryTag(b"t")
        )
        node.connections[0].send((transfer, Message("m").encode()))
        await peer.until(lambda: receiver.error)
        assert condition(receiver.error) == LinkError.TRANSFER_LIMIT_EXCEEDED


@asynchronous
async def test_another_protocol_on_the_port() -> None:
    async with ScriptedNode() as node:
        node.script.on(ProtocolHeader).send(b"AMQP\x00\x00\x09\x01").cut()
        peer = await Peer(node).connect()
        peer.engine.open()
        peer.pump()
        await peer.until(lambda: peer.is_lost)
        assert isinstance(peer.engine.error, NegotiationFailed)
        assert "0-9-1" in str(peer.engine.error)


@asynchronous
async def test_garbage_in_the_midst() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        node.script.on(Attach).replace(lambda seen: []).send(b"\x00\x00\x00\x03garbage")
        peer.session.attach(a_sender())
        peer.pump()
        await peer.until(lambda: peer.engine.error)
        assert condition(peer.engine.error) == AmqpConnectionError.FRAMING_ERROR


@asynchronous
async def test_what_a_client_sends_can_be_changed_on_its_way() -> None:
    def rename(seen: SeenFrame[Attach]) -> Attach:
        attach = seen.performative
        attach.target.address = "elsewhere"  # type: ignore[union-attr]
        return attach

    async with ScriptedNode() as node, Peer(node) as peer:
        node.script.on(Attach, role=Role.SENDER).replace(rename)
        sender = await peer.sender("q")
        await peer.send(sender, "m")
        assert node.queues == ["elsewhere"]


# ---- errors at a moment ----


@asynchronous
async def test_endpoints_that_go_at_a_moment() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        node.script.on(Transfer, skip=2, times=1).detach(NOT_NOW, "enough")
        sender = await peer.sender()
        await peer.send(sender, "a", "b", "c")
        await peer.until(lambda: sender.error)
        assert condition(sender.error) == NOT_NOW
        assert len(node.queue("q")) == 3
        node.script.on(Attach, name="two").end(Error(condition=Symbol(NOT_NOW)))
        two = await peer.sender(name="two")
        await peer.until(lambda: peer.session.error)
        assert condition(peer.session.error) == NOT_NOW
        assert two.session is None
    async with ScriptedNode() as node, Peer(node) as peer:
        node.script.on(Transfer).close(AmqpError.INTERNAL_ERROR)
        sender = await peer.sender()
        delivery = sender.send(Message("m").encode())
        peer.pump()
        await peer.until(lambda: peer.engine.error)
        assert condition(peer.engine.error) == AmqpError.INTERNAL_ERROR
        assert delivery.settled  # The outcome went out before the close.


@asynchronous
async def test_endpoints_that_go_when_the_node_has_sent_something() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        node.put("q", "m")
        node.script.before(Transfer).detach(closed=True)
        receiver = await peer.receiver(credit=1)
        await peer.until(lambda: receiver.state is LinkState.CLOSED)
        node.script.before(Attach).end()
        await peer.sender()
        await peer.until(lambda: peer.session.channel is None)
        assert peer.session.error is None


@asynchronous
async def test_endpoints_that_go_by_hand() -> None:
    error = Error(condition=Symbol(NOT_NOW))
    async with ScriptedNode() as node, Peer(node) as peer:
        (connection,) = node.connections
        sender, receiver = await peer.sender(), await peer.receiver()
        with pytest.raises(LocalError, match="no link 'nothing'"):
            connection.detach("nothing")
        connection.detach("out", error, closed=True)
        await peer.until(lambda: sender.state is LinkState.CLOSED)
        assert condition(sender.error) == NOT_NOW
        connection.end(error=error)
        await peer.until(lambda: peer.session.error)
        assert receiver.state is LinkState.SUSPENDED
        connection.close(error)
        await peer.until(lambda: peer.is_lost)
        assert condition(peer.engine.error) == NOT_NOW
        connection.close(error)  # It is over: there is nothing to do.
        await node.wait_for(lambda: not node.connections)


# ---- limits ----


@asynchronous
async def test_small_limits_are_offered() -> None:
    settings = ConnectionSettings(
        max_frame_size=512, channel_max=0, idle_time_out=60.0, session=SessionSettings(handle_max=1)
    )
    async with ScriptedNode(settings=settings, max_message_size=2000) as node, Peer(node) as peer:
        remote = peer.engine.remote
        assert remote is not None
        assert (remote.max_frame_size, remote.channel_max, remote.idle_time_out) == (512, 0, 30_000)
        with pytest.raises(LocalError, match="channel"):
            peer.engine.session().begin()
        sender = await peer.sender()
        await peer.send(sender, b"x" * 1500)
        assert max(len(seen.octets) for seen in node.frames) == 512
        with pytest.raises(LocalError, match="max-message-size"):
            sender.send(b"x" * 2001)
        await peer.receiver()
        with pytest.raises(LocalError, match="handle"):
            await peer.sender(name="third")


@asynchronous
async def test_a_node_whose_heart_stands_still() -> None:
    settings = ConnectionSettings(idle_time_out=10.0)  # five seconds are announced
    async with ScriptedNode() as node:
        peer = await Peer(node, settings=settings).open()
        octets = len(peer.octets)
        advance(3)
        await peer.until(lambda: len(peer.octets) > octets)
        assert node.sent(NoneType)
        rule = node.script.before(NoneType).drop()
        octets = len(peer.octets)
        advance(3)
        await node.wait_for(lambda: rule.acted)
        assert len(peer.octets) == octets
        advance(8)
        peer.pump()
        await peer.until(lambda: peer.engine.error)
        assert isinstance(peer.engine.error, ConnectionLost)
        await peer.drop()


# ---- rules ----


@asynchronous
async def test_rules_count_skip_and_end() -> None:
    seen: list[Any] = []
    async with ScriptedNode() as node, Peer(node) as peer:
        sender = await peer.sender()
        rule = node.script.on(
            Transfer, skip=1, times=2, when=lambda frame: frame.payload != Message("odd").encode()
        ).do(lambda frame: seen.append(frame.payload))
        await peer.send(sender, *"abcd", "odd")
        assert seen == [Message("b").encode(), Message("c").encode()]
        assert (rule.met, rule.acted) == (4, 2)


def test_a_rule_for_a_field_that_is_not_there() -> None:
    node = ScriptedNode()
    with pytest.raises(LocalError, match="Detach has no field 'name'"):
        node.script.on(Detach, name="x")
    with pytest.raises(LocalError, match="object has no field 'handle'"):
        node.script.on(object, handle=1)


async def meet_an_error_in_the_script(*, fails: bool) -> None:
    async with ScriptedNode() as node:
        node.script.on(Open).do(lambda seen: 1 // 0)
        peer = await Peer(node).connect()
        peer.engine.open()
        peer.pump()
        await peer.until(lambda: peer.is_lost)
        if fails:
            raise LocalError("an error of the test itself")


def test_what_a_function_of_the_test_raises_is_told() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(meet_an_error_in_the_script(fails=False))
    with pytest.raises(LocalError, match="of the test") as caught:
        asyncio.run(meet_an_error_in_the_script(fails=True))
    assert "ZeroDivisionError" in "".join(caught.value.__notes__)


# ---- waiting and looking ----


@asynchronous
async def test_waiting_has_a_deadline_and_says_what_came() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        await peer.sender()
        with pytest.raises(
            OperationTimedOut, match=r"did not happen in 0 s; .*<- Attach, -> Attach, -> Flow"
        ):
            await node.wait_for(lambda: False, timeout=0)
        with pytest.raises(ZeroDivisionError):
            await node.wait_for(lambda: 1 // len(node.received(Detach)))


@asynchronous
async def test_what_passed_can_be_looked_at() -> None:
    async with ScriptedNode(keep_frames=5) as node, Peer(node) as peer:
        sender = await peer.sender()
        await peer.send(sender, *"abcdefgh")
        assert len(node.frames) == 5
        seen = next(seen for seen in node.frames if isinstance(seen.performative, Transfer))
        assert (seen.channel, seen.is_sent) == (0, False)
        assert seen.connection is node.connections[0]
        assert seen.octets.endswith(seen.payload)
        assert Message.from_octets(seen.payload).body in "abcdefgh"
        (connection,) = node.connections
        assert (node.accepted, connection.number, connection.peer) == (1, 1, "client")
        assert [link.name for link in connection.links] == ["out"]
        assert str(node.port) in node.url
        assert node.queue("q").clear() == 8
        assert not node.messages("q")


def test_a_node_that_is_not_entered_has_no_port() -> None:
    with pytest.raises(LocalError, match="enter it first"):
        _ = ScriptedNode().url
