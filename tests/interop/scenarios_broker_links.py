"""Clients made of ours, Proton and rhea with our broker: links and what they lead to."""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections.abc import Callable, Iterable
from functools import partial

import pytest

from amqpforge import Message, connect
from tests.interop.caller import Caller, Ground, configured
from tests.interop.results import Answer, PeerError, Received
from tests.interop.results import Message as Spec
from tests.interop.scenarios import CALLERS, Played, differs, scenario


def ids(messages: Iterable[Received]) -> list[object]:
    """The ids of what a client has received."""
    return [each.properties["message_id"] for each in messages]


@scenario("the broker refuses the link", *CALLERS)
async def refused(stage: Caller) -> Played:
    async with stage.ground() as ground:
        queue = ground.queue("known")
        attempts: list[Callable[[], object]] = [
            partial(stage.client.send, "/queues/unknown"),
            partial(stage.client.receive, "/queues/unknown"),
        ]
        for attempt in attempts:
            with pytest.raises(PeerError) as error:
                await to_thread(attempt)
            assert (error.value.where, error.value.condition) == ("link", "amqp:not-found")
            assert "there is no queue 'unknown'" in str(error.value.description)
        with pytest.raises(PeerError) as error:
            await to_thread(stage.client.send, "/nowhere/at/all")
        assert error.value.condition == "amqp:invalid-field"
        await to_thread(stage.client.send, queue)
        await ground.holds(queue, 1)
    return None


@scenario("the queue is deleted", *CALLERS)
async def deleted(stage: Caller) -> Played:
    async with stage.ground() as ground:
        queue, other = ground.queue("deleted"), ground.queue("other")
        receiving = asyncio.ensure_future(to_thread(stage.client.receive, queue))
        await ground.until(lambda: ground.host.queue(queue).consumer_count)
        ground.host.delete_queue(queue)
        with pytest.raises(PeerError) as error:
            await receiving
        assert (error.value.where, error.value.condition) == ("link", "amqp:resource-deleted")
        await to_thread(stage.client.send, other)
    return None


@scenario("a link's name used again", *CALLERS)
async def name_again(stage: Caller) -> Played:
    async with stage.ground() as ground:
        queue = ground.queue("again")
        for _ in range(3):
            await to_thread(stage.client.send, queue, name="a name")
            receipt = await to_thread(stage.client.receive, queue, name="a name")
            assert ids(receipt.messages) == ["m-0"]
        await ground.holds(queue, 0)
    return None


@scenario("one name, both directions", *CALLERS)
async def one_name(stage: Caller) -> Played:
    async with stage.ground() as ground:
        queue = ground.queue("both")
        if stage.kind == "rhea":
            with pytest.raises(PeerError, match="the detach of link a name"):
                await to_thread(stage.client.both, queue, "a name", seconds=2)
            await ground.holds(queue, 0)  # Both links have worked by then.
            return differs("takes the two for one when they are closed, and waits for ever")
        received = await to_thread(stage.client.both, queue, "a name")
        assert received.properties["message_id"] == "m-0"
    return None


@scenario("1,000 links", *CALLERS)
async def thousand_links(stage: Caller) -> Played:
    async with stage.ground() as ground:
        queue = ground.queue("links")
        links = await to_thread(stage.client.links, queue, 1000)
        assert (links.opened, links.accepted, links.closed, links.error) == (1000, 1000, 1000, None)
        await ground.holds(queue, 1000)
        assert [len(head.links) for head in ground.heads] == [0]
    return None


@scenario("detached, and attached again", *CALLERS)
async def detached(stage: Caller) -> Played:
    async with stage.ground() as ground:
        queue = ground.queue("detached")
        await ground.put_series(queue, 2)
        client = stage.client
        receipt = await to_thread(client.receive, queue, name="comes back", subscription=True, leave="detach")
        assert ids(receipt.messages) == ["m-0"]
        [known] = ground.heads[0].links
        receipt = await to_thread(client.receive, queue, name="comes back", subscription=True)
        assert ids(receipt.messages) == ["m-1"]
        assert known.is_gone
        await to_thread(client.send, queue, name="comes back", leave="detach")
        await to_thread(client.send, queue, name="comes back")
        await ground.holds(queue, 2)
    return None


@scenario("a link that is stolen", *CALLERS)
async def stolen(stage: Caller) -> Played:
    async with stage.ground(container_id="shared") as ground:
        queue = ground.queue("stolen")
        receiving = asyncio.ensure_future(to_thread(stage.client.receive, queue, name="mine"))
        await ground.until(lambda: ground.host.queue(queue).consumer_count)
        async with (
            connect(ground.broker.url, container_id="shared", reconnect=None) as thief,
            thief.receiver(queue, name="mine") as receiver,
        ):
            with pytest.raises(PeerError) as error:
                await receiving
            assert (error.value.where, error.value.condition) == ("link", "amqp:link:stolen")
            await ground.put_series(queue, 1)
            assert (await receiver.receive()).message.message_id == "m-0"
    return None


# --- nodes that are made for links --------------------------------------------------------------------------


@scenario("dynamic source", *CALLERS)
async def dynamic_source(stage: Caller) -> Played:
    async with stage.ground() as ground:
        dynamic = await to_thread(stage.client.dynamic, 3)
        assert ids(dynamic.messages) == ["m-0", "m-1", "m-2"]
        assert dynamic.address.startswith("/queues/dynamic.foreign-client.")
        await ground.until(lambda: queue_of(dynamic.address) not in ground.host.queues)
    return None


def queue_of(address: str) -> str:
    return address.removeprefix("/queues/")


@scenario("dynamic target", *CALLERS)
async def dynamic_target(stage: Caller) -> Played:
    async with stage.ground() as ground:
        sent = await to_thread(stage.client.send, None, 3, dynamic=True, leave="stay")
        address = sent.attached.target
        assert address is not None
        await ground.holds(queue_of(address), 3)
    assert queue_of(address) not in ground.host.queues
    return None


@scenario("lifetime policies", *CALLERS)
async def lifetime(stage: Caller) -> Played:
    async with stage.ground() as ground:
        for policy in ("close", "no-links", "no-messages", "no-links-or-messages"):
            made = await to_thread(stage.client.dynamic, 2, policy=f"amqp:delete-on-{policy}:list", takes=1)
            stays = policy.endswith("messages")
            queue = queue_of(made.address)
            await ground.until(lambda: (queue in ground.host.queues) is stays)  # noqa: B023
            if stays:
                await to_thread(stage.client.receive, made.address)
                await ground.until(lambda: queue not in ground.host.queues)  # noqa: B023
    return None


@scenario("request and reply", *CALLERS)
async def request(stage: Caller) -> Played:
    async with stage.ground() as ground:
        questions, services = ground.queue("questions"), ground.queue("services")
        connection = await ground.own()

        async def serve() -> None:
            async with connection.receiver(questions) as receiver, connection.sender(None) as sender:
                for _ in range(3):
                    question = (await receiver.receive()).message
                    answer = Message(question.body, to=question.reply_to, correlation_id=question.message_id)
                    await sender.send(answer)

        serving = asyncio.ensure_future(serve())
        replies = await to_thread(stage.client.request, questions, 3)
        found = [each.properties["correlation_id"] for each in replies.messages]
        assert len(found) == 3
        assert stage.kind == "ours" or found == ["m-0", "m-1", "m-2"]
        await serving

        responding = asyncio.ensure_future(to_thread(stage.client.respond, services, 3))
        async with connection.requester(services) as requester:
            answers = await asyncio.gather(*(requester.request(f"{n}") for n in range(3)))
            assert [answer.body for answer in answers] == ["0", "1", "2"]
            assert len(await responding) == 3
    return None


@scenario("null target address", *CALLERS)
async def relay(stage: Caller) -> Played:
    async with stage.ground() as ground:
        queue = ground.queue("relayed")
        bound, exchange = ground.queue("bound"), ground.exchange("relaying", "direct")
        ground.bind(exchange, bound, "a key")
        await to_thread(stage.client.send, None, 2, Spec(properties={"to": queue}))
        await ground.holds(queue, 2)
        await to_thread(stage.client.send, None, 1, Spec(properties={"to": f"/exchanges/{exchange}/a%20key"}))
        await ground.holds(bound, 1)
        [outcome] = (
            await to_thread(stage.client.send, None, 1, Spec(properties={"to": "/queues/nobody"}))
        ).outcomes
        assert (outcome.name, outcome.error and outcome.error.condition) == ("rejected", "amqp:not-found")
    return None


@scenario("requests to manage", *CALLERS)
async def manage(stage: Caller) -> Played:
    async with stage.ground() as ground:
        name = f"managed-{stage.kind}"

        async def ask(operation: str) -> tuple[object, Received]:
            wanted = {"operation": operation, "type": "queue", "name": name}
            question = Spec(kind="none", application_properties=wanted)
            [reply] = (await to_thread(stage.client.request, "$management", 1, question)).messages
            assert reply.properties["correlation_id"] == "m-0" or stage.kind == "ours"
            return reply.application_properties["statusCode"], reply

        assert (await ask("CREATE"))[0] == 201
        assert name in ground.host.queues
        status, reply = await ask("READ")
        assert (status, reply.body.kind) == (200, "value")
        assert isinstance(reply.body.value, dict)
        assert reply.body.value["name"] == name
        assert (await ask("DELETE"))[0] == 200
        assert name not in ground.host.queues
        assert (await ask("READ"))[0] == 404
    return None


# --- what a link receives -----------------------------------------------------------------------------------


@scenario("exchanges", *CALLERS)
async def exchanges(stage: Caller) -> Played:
    async with stage.ground() as ground:
        topic, fanout = ground.exchange("events", "topic"), ground.exchange("all", "fanout")
        europe, red = ground.queue("europe"), ground.queue("red")
        ground.bind(topic, europe, "europe.#")
        ground.bind(topic, red, "*.red")
        for queue in (europe, red):
            ground.bind(fanout, queue)
        client = stage.client
        await to_thread(client.send, f"/exchanges/{topic}/europe.red", 1, Spec(message_id="1"))
        await to_thread(
            client.send, f"/exchanges/{topic}", 1, Spec(message_id="2", properties={"subject": "asia.red"})
        )
        await to_thread(client.send, f"/exchanges/{topic}/europe.blue.dark", 1, Spec(message_id="3"))
        await to_thread(client.send, f"/exchanges/{fanout}", 1, Spec(message_id="4"))
        assert ids((await to_thread(client.receive, europe, 3)).messages) == ["1", "3", "4"]
        assert ids((await to_thread(client.receive, red, 3)).messages) == ["1", "2", "4"]

        receiving = asyncio.ensure_future(to_thread(client.receive, f"/exchanges/{topic}/asia.*", 1))
        await ground.until(lambda: subscriptions(ground))
        async with (await ground.own()).sender(f"/exchanges/{topic}/asia.green") as sender:
            await sender.send(Message("x", message_id="5"))
        assert ids((await receiving).messages) == ["5"]
        await ground.until(lambda: not subscriptions(ground))
    return None


def subscriptions(ground: Ground) -> list[str]:
    """The queues that subscriptions have and that somebody uses."""
    queues = ground.host.queues.values()
    return [each.name for each in queues if each.name.startswith("subscription.") and each.consumer_count]


@scenario("copy instead of move", *CALLERS)
async def copy(stage: Caller) -> Played:
    async with stage.ground() as ground:
        queue = ground.queue("copied")
        await ground.put_series(queue, 3)
        for answer in (Answer("accepted"), Answer("rejected")):
            receipt = await to_thread(stage.client.receive, queue, 3, copy=True, answer=answer)
            assert ids(receipt.messages) == ["m-0", "m-1", "m-2"]
        await ground.holds(queue, 3)
        assert ids((await to_thread(stage.client.receive, queue, 3)).messages) == ["m-0", "m-1", "m-2"]
        await ground.holds(queue, 0)
    return None


@scenario("selector", *CALLERS)
async def selector(stage: Caller) -> Played:
    async with stage.ground() as ground:
        queue = ground.queue("selected")
        for number, colour in enumerate(("green", "red", "blue", "red")):
            properties = {"colour": colour, "number": number}
            await ground.put(queue, Message("x", application_properties=properties, priority=number))
        wanted = "colour = 'red' AND number BETWEEN 1 AND 3 AND JMSPriority > 0"
        receipt = await to_thread(stage.client.receive, queue, 2, selector=wanted)
        assert receipt.attached.filters == ["selector"]
        assert [each.application_properties["number"] for each in receipt.messages] == [1, 3]
        receipt = await to_thread(stage.client.receive, queue, 1, selector="colour LIKE 'b%'", copy=True)
        assert [each.application_properties["number"] for each in receipt.messages] == [2]
        await ground.holds(queue, 2)
    return None


@scenario("a selector that is none", *CALLERS)
async def no_selector(stage: Caller) -> Played:
    async with stage.ground() as ground:
        queue = ground.queue("selected")
        with pytest.raises(PeerError) as error:
            await to_thread(stage.client.receive, queue, selector="colour = = 'red'")
        assert (error.value.where, error.value.condition) == ("link", "amqp:invalid-field")
        assert "the filter 'selector'" in str(error.value.description)
        await to_thread(stage.client.send, queue)
    return None


@scenario("durable subscription", *CALLERS)
async def subscription(stage: Caller) -> Played:
    async with stage.ground(connects=False) as ground:
        exchange = ground.exchange("news", "topic", durable=True)
        address = f"/exchanges/{exchange}/news.*"
        await subscribe(stage, ground, address)
        async with (await ground.own()).sender(f"/exchanges/{exchange}/news.today") as sender:
            await sender.send_many(
                Message("x", message_id=f"m-{number}", durable=True) for number in range(3)
            )
        await come_back(stage, ground, address)
        assert not [name for name in ground.host.queues if name.startswith("subscription.")]
    return None


@scenario("durable subscription and a restart", *CALLERS)
async def subscription_over_restart(stage: Caller) -> Played:
    config = configured(store=stage.new_store())
    async with stage.ground(config, connects=False) as ground:
        exchange = ground.exchange("news", "topic", durable=True)
        address = f"/exchanges/{exchange}/news.*"
        await subscribe(stage, ground, address)
        async with (await ground.own()).sender(f"/exchanges/{exchange}/news.today") as sender:
            await sender.send_many(
                Message("x", message_id=f"m-{number}", durable=True) for number in range(3)
            )
            await sender.send(Message("x", message_id="not durable"))
    async with stage.ground(config, connects=False) as ground:
        await come_back(stage, ground, address)
        assert not [name for name in ground.host.queues if name.startswith("subscription.")]
    async with stage.ground(config) as ground:
        assert not [name for name in ground.host.queues if name.startswith("subscription.")]
    return None


async def subscribe(stage: Caller, ground: Ground, address: str) -> None:
    """Have the client subscribe, and close its connection."""
    client = stage.client
    await to_thread(client.connect, ground.relay.url, container_id="subscriber")
    await to_thread(client.receive, address, 0, name="news", subscription=True, leave="stay")
    await to_thread(client.close)
    await ground.until(lambda: not ground.heads)


async def come_back(stage: Caller, ground: Ground, address: str) -> None:
    """Have the client come back for what there is, in two steps, and end its subscription."""
    client = stage.client
    await to_thread(client.connect, ground.relay.url, container_id="subscriber")
    receipt = await to_thread(client.receive, address, 1, name="news", subscription=True, leave="stay")
    assert ids(receipt.messages) == ["m-0"]
    await to_thread(client.close)
    await to_thread(client.connect, ground.relay.url, container_id="subscriber")
    receipt = await to_thread(client.receive, address, 2, name="news", subscription=True)
    assert ids(receipt.messages) == ["m-1", "m-2"]
    await to_thread(client.close)
    await ground.until(lambda: not ground.heads)
