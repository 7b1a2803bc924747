"""Annotations that nobody here knows: ignored, or refused by a receiver that knows all it may meet."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.client import Message, Reconnect, connect
from amqpforge.errors import LinkDetached, LocalError
from amqpforge.testing import ScriptedNode
from amqpforge_protocol.amqp_1_0 import Attach, Detach, Symbol, Target, TerminusExpiryPolicy, Transfer, ULong

from .loops import in_loop

SECTIONS = ("delivery_annotations", "message_annotations", "footer")
KNOWN = ("x-opt-here", "x-known", ULong(3))


def annotated(key: Any, *sections: str) -> Message:
    """A message with one annotation in each of some sections."""
    message = Message("annotated")
    for section in sections:
        setattr(message.sections, section, {key if isinstance(key, int) else Symbol(key): 1})
    return message


@pytest.mark.spec("M-ANNOT-010")
@pytest.mark.parametrize("known", [None, (), KNOWN])
@in_loop
async def test_a_key_made_to_be_ignored_is_ignored(known: tuple[str | int, ...] | None) -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.put("q", annotated("x-opt-what-is-it", *SECTIONS))
        async with connection.receiver("q", known_annotations=known) as receiver:
            delivery = await receiver.receive()
            assert delivery.message.body == "annotated"
            assert delivery.message.annotations == {"x-opt-what-is-it": 1}


@pytest.mark.spec("M-ANNOT-011", "M-ANNOT-012")
@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("key", ["foo", "x-foo", ULong(7), "x-option"])
@in_loop
async def test_another_key_detaches_a_receiver_that_is_strict(key: Any, section: str) -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.put("q", "good")
        node.put("q", annotated(key, section))
        node.put("q", "behind it")
        receiver = await connection.receiver("q", known_annotations=KNOWN)
        assert (await receiver.receive()).message.body == "good"
        with pytest.raises(LinkDetached, match=str(key)) as caught:
            await receiver.receive()
        assert caught.value.condition == "amqp:not-implemented"
        await node.wait_for(lambda: node.received(Detach))
        [detach] = node.received(Detach)
        assert detach.error is not None
        assert (detach.error.condition, detach.closed) == ("amqp:not-implemented", True)
        await node.wait_for(lambda: len(node.messages("q")) == 2)
        async with connection.receiver("q") as lenient:  # The connection goes on, and so does its session.
            assert (await lenient.receive()).message.body == "annotated"


@pytest.mark.parametrize("key", ["x-known", ULong(3)])
@in_loop
async def test_a_strict_receiver_takes_what_it_knows(key: Any) -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.put("q", annotated(key, *SECTIONS))
        async with connection.receiver("q", known_annotations=KNOWN) as receiver:
            assert (await receiver.receive()).message.body == "annotated"


@in_loop
async def test_a_terminus_that_is_to_be_kept_is_not_closed_over_an_annotation() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.put("q", annotated("foo", "message_annotations"))
        policy = TerminusExpiryPolicy.NEVER
        receiver = await connection.receiver("q", known_annotations=(), expiry_policy=policy)
        with pytest.raises(LinkDetached):
            await receiver.receive()
        await node.wait_for(lambda: node.received(Detach))
        assert [detach.closed for detach in node.received(Detach)] == [False]


@pytest.mark.parametrize("policy", [TerminusExpiryPolicy.SESSION_END, TerminusExpiryPolicy.NEVER])
@in_loop
async def test_a_strict_receiver_stays_strict_when_the_connection_is_lost(
    policy: TerminusExpiryPolicy,
) -> None:
    async with ScriptedNode() as node:
        node.put("q", "good")
        node.put("q", annotated("foo", "message_annotations"))
        node.put("q", "behind it")
        async with connect(node.url, reconnect=Reconnect(first_delay=0.001)) as connection:
            receiver = await connection.receiver("q", known_annotations=(), expiry_policy=policy)
            await node.wait_for(lambda: len(node.sent(Transfer)) == 3)
            node.connections[0].cut()
            await node.wait_for(lambda: node.accepted == 2 and len(node.sent(Attach)) == 2)
            await receiver.wait_attached()
            assert (await receiver.receive()).message.body == "good"
            with pytest.raises(LinkDetached, match="foo"):
                await receiver.receive()


@in_loop
async def test_a_strict_receiver_leaves_octets_that_are_no_message_to_the_application() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        node.put("q", Message.from_octets(b"\x00\x53\x77"))
        node.put("q", Message.from_octets(b"anything", 1 << 8))
        async with connection.receiver("q", known_annotations=()) as receiver:
            assert (await receiver.receive()).payload == b"\x00\x53\x77"
            assert (await receiver.receive()).message.raw == b"anything"


@in_loop
async def test_a_stream_is_not_strict() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        with pytest.raises(LocalError, match="known_annotations"):
            connection.receiver("q", known_annotations=(), stream=True)


@pytest.mark.spec("M-ANNOT-002")
@in_loop
async def test_a_delivery_annotation_that_nobody_knows_changes_nothing() -> None:
    payloads: list[bytes] = []
    states: list[Any] = []
    async with ScriptedNode() as node, connect(node.url) as connection:
        for annotations in (None, {"x-opt-copy-me-to": "elsewhere"}):
            async with connection.sender("q") as sender:
                states.append(await sender.send(Message("m", delivery_annotations=annotations)))
            states.append((list(node.queues), len(node.queue("q"))))
            async with connection.receiver("q") as receiver:
                delivery = await receiver.receive()
                payloads.append(delivery.payload)
                states.append(delivery.message)
    assert states[:3] == states[3:]
    assert payloads[0] == payloads[1]


@pytest.mark.spec("M-ANNOT-003")
@pytest.mark.parametrize("where", ["link", "node", "nowhere"])
@in_loop
async def test_what_a_peer_supports_is_learned_when_the_link_is_attached(where: str) -> None:
    def offer(seen: Any) -> Attach:
        attach: Attach = seen.performative
        if where == "link":
            attach.offered_capabilities = [Symbol("my:tracing")]
        elif where == "node" and isinstance(attach.target, Target):
            attach.target.capabilities = [Symbol("my:tracing")]
        return attach

    async with ScriptedNode() as node, connect(node.url) as connection:
        node.script.before(Attach).replace(offer)
        async with connection.sender("q", capabilities=["my:tracing"]) as sender:
            message = Message("m")
            if "my:tracing" in sender.remote_capabilities:
                message.delivery_annotations["x-opt-trace"] = "4711"
            await sender.send(message)
        [arrived] = node.messages("q")
        assert len(arrived.delivery_annotations) == (where != "nowhere")
