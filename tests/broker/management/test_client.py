"""The Python client, against a broker that listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

import amqpforge
from amqpforge import blocking
from amqpforge.blocking.management import Management as BlockingManagement
from amqpforge.client import Connection
from amqpforge.errors import LocalError
from amqpforge.management import BindingInfo, Management, ManagementError, Step

from .managed import managed, managed_in_thread


async def used(url: str) -> AsyncIterator[tuple[Connection, Management]]:
    async with amqpforge.connect(url) as connection, Management(connection) as management:
        yield connection, management


def run(work: Any, **options: Any) -> None:
    """Run ``work(connection, management)`` on a broker of its own."""

    async def everything() -> None:
        async with managed(**options) as broker:
            async for connection, management in used(broker.url):
                await work(connection, management)

    asyncio.run(asyncio.wait_for(everything(), 30))


def test_queues() -> None:
    async def work(connection: Connection, management: Management) -> None:
        made = await management.declare_queue("orders", max_length=10, overflow="drop-oldest", expires=60)
        assert (made.name, made.max_length, made.overflow, made.expires) == (
            "orders",
            10,
            "drop-oldest",
            60.0,
        )
        found = await management.declare_queue()
        assert [queue.name for queue in await management.queues()] == ["orders", found.name]
        async with connection.sender("orders") as sender:
            await sender.send_many(["a", "b", "c"])
        queue = await management.queue("orders")
        assert (queue.messages, queue.messages_ready, queue.totals["published"]) == (3, 3, 3)
        with pytest.raises(ManagementError, match="not empty") as refused:
            await management.delete_queue("orders", if_empty=True)
        assert refused.value.status == 412
        assert await management.purge_queue("orders") == 3
        assert await management.delete_queue("orders", if_empty=True, if_unused=True) == 0
        with pytest.raises(ManagementError) as refused:
            await management.queue("orders")
        assert (refused.value.status, "'orders'" in refused.value.description) == (404, True)

    run(work)


def test_exchanges_and_bindings() -> None:
    async def work(connection: Connection, management: Management) -> None:
        await management.declare_queue("q")
        made = await management.declare_exchange("events", "topic", durable=True)
        assert (made.name, made.type, made.durable) == ("events", "topic", True)
        await management.bind("q", "events", "order.#")
        await management.bind(
            "events", "amq.headers", arguments={"x-match": "all"}, destination_type="exchange"
        )
        steps = [Step("amq.topic", "a"), Step("amq.headers", arguments={"x-match": "any", "k": 1})]
        await management.bind_chain("q", steps)
        assert (await management.exchange("events")).bindings == 1
        first, second, chained = await management.bindings()
        assert first == BindingInfo(
            source="amq.headers",
            destination="events",
            destination_type="exchange",
            key="",
            arguments={"x-match": "all"},
            steps=None,
        )
        assert (second.source, second.destination, second.key) == ("events", "q", "order.#")
        assert chained.steps == steps
        assert await management.bindings(source="events") == [second]
        assert await management.bindings(destination="q") == [second, chained]
        await management.unbind_chain("q", steps)
        await management.unbind("q", "events", "order.#")
        assert await management.bindings(destination="q") == []
        await management.unbind(
            "events", "amq.headers", arguments={"x-match": "all"}, destination_type="exchange"
        )
        await management.delete_exchange("events", if_unused=True)
        assert "events" not in [exchange.name for exchange in await management.exchanges()]

    run(work)


def test_connections_consumers_and_the_whole() -> None:
    async def work(connection: Connection, management: Management) -> None:
        await management.declare_queue("q")
        async with amqpforge.connect(connection.url, container_id="victim", reconnect=None) as victim:
            receiver = await victim.receiver("q", mode="copy", selector="a = 1")
            (consumer,) = await management.consumers("q")
            found = {one.peer: one for one in await management.connections()}
            assert consumer.connection == found["victim"].id
            assert found["victim"].address.startswith("127.0.0.1:")
            assert (consumer.queue, consumer.is_browser, consumer.has_selector) == ("q", True, True)
            await management.close_connection(found["victim"].id, "enough")
            with pytest.raises(amqpforge.EndpointClosed, match="enough"):
                await receiver.receive(timeout=10)
        overview = await management.overview()
        assert (overview.vhost.name, overview.vhost.queues, overview.broker.user) == ("/", 1, "anonymous")
        assert overview.broker.usage is not None
        assert overview.broker.usage["queues"]["used"] == 1

    run(work)


def test_lists_come_page_by_page() -> None:
    async def work(connection: Connection, management: Management) -> None:
        names = [f"q{number}" for number in range(1100)]
        await asyncio.gather(*(management.declare_queue(name) for name in names))
        assert [queue.name for queue in await management.queues()] == names

    run(work)


def test_several_of_them_share_a_connection() -> None:
    async def work(connection: Connection, management: Management) -> None:
        async with Management(connection) as second:
            await asyncio.gather(*(one.declare_queue() for one in (management, second) for _ in range(20)))
            assert len(await second.queues()) == 40
        assert len(await management.queues()) == 40

    run(work)


def test_a_user_without_rights() -> None:
    from amqpforge.broker.access import Permissions
    from amqpforge.broker.config import BrokerConfig, ListenerConfig, VirtualHostConfig

    permissions = {"anonymous": Permissions.of(read="public")}
    config = BrokerConfig(
        listeners=(ListenerConfig(port=0),),
        store="memory",
        virtual_hosts={"/": VirtualHostConfig(permissions=permissions)},
    )

    async def work(connection: Connection, management: Management) -> None:
        with pytest.raises(ManagementError, match="may not configure") as refused:
            await management.declare_queue("public")
        assert refused.value.status == 403
        assert await management.queues() == []
        assert (await management.overview()).broker.usage is None

    run(work, config=config)


class Oracle:
    """Stands for a requester; says the same to everybody."""

    def __init__(self, answer: amqpforge.Message) -> None:
        self.answer = answer

    async def request(self, message: object, *, timeout: object) -> amqpforge.Message:
        return self.answer


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ("what?", None, "no statusCode"),
        ("what?", 200, "no map"),
        ({}, 200, "no attributeNames and results"),
        ({"attributeNames": ["name"], "results": [["q"]]}, 200, "lacks the attribute 'durable'"),
        ({}, 418, "None"),
    ],
)
def test_answers_that_no_broker_gives(body: Any, status: int | None, text: str) -> None:
    properties = {} if status is None else {"statusCode": status}
    management = Management(cast("Any", None))
    management._requester = cast("Any", Oracle(amqpforge.Message(body, application_properties=properties)))
    with pytest.raises(ManagementError, match=text) as refused:
        asyncio.run(management.queues())
    assert refused.value.status == (418 if status == 418 else 500)


def test_it_has_to_be_entered() -> None:
    with pytest.raises(LocalError, match="async with"):
        asyncio.run(Management(cast("Any", None)).queues())


def test_threads_manage_too() -> None:
    with (
        managed_in_thread() as url,
        blocking.connect(url) as connection,
        BlockingManagement(connection) as management,
    ):
        assert management.declare_queue("q", max_length=3).max_length == 3
        management.declare_exchange("e", "fanout")
        management.bind("q", "e")
        steps = [Step("e"), Step("amq.topic", "a")]
        management.bind_chain("q", steps)
        assert len(management.bindings(destination="q")) == 2
        management.unbind_chain("q", steps)
        management.unbind("q", "e")
        assert management.exchange("e").bindings == 0
        assert len(management.exchanges()) == 7
        management.delete_exchange("e")
        (mine,) = management.connections()
        with pytest.raises(ManagementError, match="your own connection"):
            management.close_connection(mine.id)
        assert management.consumers() == []
        assert management.overview().vhost.queues == 1
        assert management.request("READ", "queue", "q")["messages"] == 0
        assert [queue.name for queue in management.queues()] == [management.queue("q").name]
        assert management.purge_queue("q") == management.delete_queue("q") == 0


def test_what_is_durable_is_there_after_a_restart(tmp_path: Path) -> None:
    from amqpforge.broker.config import BrokerConfig, ListenerConfig

    config = BrokerConfig(listeners=(ListenerConfig(port=0),), store=f"sqlite:{tmp_path / 'store.db'}")
    steps = [Step("amq.topic", "a.#"), Step("events", "b")]

    async def declare(connection: Connection, management: Management) -> None:
        await management.declare_queue("kept", durable=True, max_length=9)
        await management.declare_queue("lost")
        await management.declare_exchange("events", durable=True)
        await management.bind("kept", "events", "key", {"size": 3})
        await management.bind_chain("kept", steps)
        await management.declare_queue("deleted", durable=True)
        await management.delete_queue("deleted")

    async def look(connection: Connection, management: Management) -> None:
        (queue,) = await management.queues()
        assert (queue.name, queue.durable, queue.max_length) == ("kept", True, 9)
        bound, chained = await management.bindings(destination="kept")
        assert (bound.source, bound.key, bound.arguments) == ("events", "key", {"size": 3})
        assert chained.steps == steps
        assert (await management.overview()).broker.is_durable

    run(declare, config=config)
    run(look, config=config)
