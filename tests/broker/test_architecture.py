"""The model of the general architecture, as clients of a whole broker meet it over sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import amqpforge
from amqpforge.broker.broker import Broker
from amqpforge.broker.config import BrokerConfig, ListenerConfig, VirtualHostConfig
from amqpforge.broker.errors import NotFound, PreconditionFailed, ResourceLocked
from amqpforge.broker.exchanges import Binding, Destination
from amqpforge.broker.host import VirtualHost
from amqpforge.broker.settings import ExchangeSettings, QueueSettings
from amqpforge.errors import ConnectionClosed, LinkDetached, NotAccepted
from amqpforge_protocol.amqp_1_0 import AmqpError, Released
from tests.client.loops import in_loop


@asynccontextmanager
async def a_broker(**config: Any) -> AsyncIterator[Broker]:
    async with Broker(BrokerConfig(listeners=(ListenerConfig(port=0),), **config)) as broker:
        yield broker


def host(broker: Broker) -> VirtualHost:
    return broker.hosts["/"]


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something is so; the test's own limit ends it."""
    while not condition():
        await asyncio.sleep(0)


async def bodies(connection: amqpforge.Connection, address: str, count: int) -> list[Any]:
    """The bodies of the next messages of a queue, which are accepted."""
    async with connection.receiver(address, credit=count) as receiver:
        found = []
        for _ in range(count):
            delivery = await receiver.receive(timeout=5)
            delivery.accept()
            found.append(delivery.message.body)
        return found


@in_loop
@pytest.mark.spec("A-VHOST-001", "A-VHOST-002")
async def test_virtual_hosts_have_queues_and_exchanges_of_their_own() -> None:
    hosts = {"a": VirtualHostConfig(), "b": VirtualHostConfig()}
    async with a_broker(virtual_hosts=hosts) as broker:
        broker.hosts["a"].declare_queue("q")
        with pytest.raises(NotFound):
            broker.hosts["b"].declare_queue("q", passive=True)
        for name in hosts:
            for exchange in ("amq.direct", "amq.topic"):
                assert broker.hosts[name].declare_exchange(exchange, passive=True).name == exchange


@in_loop
@pytest.mark.spec("A-VHOST-003", "A-VHOST-004")
async def test_open_names_the_virtual_host_and_an_unknown_one_is_refused() -> None:
    async with a_broker(virtual_hosts={"a": VirtualHostConfig()}) as broker:
        broker.hosts["a"].declare_queue("q")
        async with (
            amqpforge.connect(broker.url, hostname="vhost:a") as connection,
            connection.sender("q") as sender,
        ):
            await sender.send("here")
        assert broker.hosts["a"].queue("q").ready == 1
        with pytest.raises(ConnectionClosed) as caught:
            async with amqpforge.connect(broker.url, hostname="vhost:nowhere"):
                pass
        assert caught.value.error is not None
        assert caught.value.error.condition == AmqpError.NOT_FOUND
        assert "nowhere" in (caught.value.error.description or "")


@pytest.mark.spec("A-QUEUE-003")
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("name", ["chosen", None])
@in_loop
async def test_ownership_lifetime_and_naming_mix_freely(
    private: bool, durable: bool, name: str | None
) -> None:
    async with a_broker() as broker:
        queue = host(broker).declare_queue(name, QueueSettings(private=private, durable=durable))
        assert queue.name == name or (name is None and queue.name)
        async with amqpforge.connect(broker.url) as connection:
            first = await connection.receiver(queue.name)
            if private:
                with pytest.raises(LinkDetached) as caught:
                    await connection.receiver(queue.name)
                assert caught.value.error is not None
                assert caught.value.error.condition == AmqpError.RESOURCE_LOCKED
            else:
                await connection.receiver(queue.name)
            sender = await connection.sender(queue.name)
            await sender.send("message")
            assert first is not None
            assert host(broker).queue(queue.name).settings.durable is durable


@in_loop
@pytest.mark.spec("A-QUEUE-006")
async def test_a_queue_without_a_name_gets_one_that_is_its_own() -> None:
    async with a_broker() as broker:
        names = {host(broker).declare_queue(None).name, host(broker).declare_queue("").name}
        assert len(names) == 2
        assert all(names)
        assert names <= set(host(broker).queues)


@in_loop
@pytest.mark.spec("A-QUEUE-007", "A-MSG-005")
async def test_what_is_durable_is_there_again_after_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'broker.db'}"
    async with a_broker(store=store) as broker:
        host(broker).declare_queue("kept", QueueSettings(durable=True))
        host(broker).declare_queue("lost")
        host(broker).declare_exchange("news", ExchangeSettings(type="topic", durable=True))
        host(broker).bind(Binding("news", Destination.queue("kept"), "a.*"))
        async with (
            amqpforge.connect(broker.url) as connection,
            connection.sender("kept") as sender,
        ):
            await sender.send(amqpforge.Message("persistent", durable=True))
            await sender.send(amqpforge.Message("transient", durable=False))
    async with a_broker(store=store) as broker:
        assert set(host(broker).queues) == {"kept"}
        async with amqpforge.connect(broker.url) as connection:
            async with connection.sender("/exchanges/news/a.b") as sender:
                await sender.send(amqpforge.Message("bound", durable=True))
            assert await bodies(connection, "kept", 2) == ["persistent", "bound"]


@in_loop
@pytest.mark.spec("A-QUEUE-010")
async def test_a_temporary_queue_goes_with_its_connection() -> None:
    async with a_broker() as broker:
        async with amqpforge.connect(broker.url) as connection:
            receiver = await connection.receiver(None)
            address = receiver.address
            assert isinstance(address, str)
            name = address.removeprefix("/queues/")
            assert len(host(broker).queues) == 1
        await until(lambda: not host(broker).queues)
        with pytest.raises(NotFound):
            host(broker).declare_queue(name, passive=True)


@in_loop
@pytest.mark.spec("A-QUEUE-011")
async def test_a_consumer_ends_with_its_link_or_with_its_connection() -> None:
    async with a_broker() as broker:
        queue = host(broker).declare_queue("q")
        async with amqpforge.connect(broker.url) as first, amqpforge.connect(broker.url) as second:
            receiver = await first.receiver("q")
            await first.receiver("q")
            await second.receiver("q")
            assert queue.consumer_count == 3
            await receiver.close()
            await until(lambda: queue.consumer_count == 2)
            await second.close()
            await until(lambda: queue.consumer_count == 1)
        await until(lambda: queue.consumer_count == 0)


@in_loop
@pytest.mark.spec("A-QUEUE-013")
async def test_a_passive_declare_only_looks() -> None:
    async with a_broker() as broker:
        known = host(broker).declare_queue("known", QueueSettings(max_length=7))
        assert host(broker).declare_queue("known", passive=True) is known
        with pytest.raises(NotFound):
            host(broker).declare_queue("unknown", passive=True)
        with pytest.raises(PreconditionFailed):
            host(broker).declare_queue("known", QueueSettings(max_length=8))
        assert set(host(broker).queues) == {"known"}


@in_loop
async def test_an_exclusive_queue_is_one_connections_alone() -> None:
    async with a_broker() as broker:
        mine, yours = object(), object()
        actor = broker.actor(None, None, mine)
        actor.declare_queue("q", QueueSettings(exclusive=True))
        with pytest.raises(ResourceLocked):
            broker.actor(None, None, yours).declare_queue("q", passive=True)
        with pytest.raises(ResourceLocked):
            broker.actor(None, None, yours).purge_queue("q")
        actor.close()
        assert not host(broker).queues


@in_loop
@pytest.mark.spec("A-BIND-002")
async def test_a_binding_is_in_force_once_it_is_made() -> None:
    async with (
        a_broker() as broker,
        amqpforge.connect(broker.url) as connection,
        connection.sender("/exchanges/amq.direct/key") as sender,
    ):
        for number in range(200):
            queue = host(broker).declare_queue(f"q{number}")
            binding = Binding("amq.direct", Destination.queue(queue.name), "key")
            host(broker).bind(binding)
            await sender.send("now")
            assert queue.ready == 1
            host(broker).unbind(binding)


@in_loop
@pytest.mark.spec("A-BIND-012", "A-BIND-016")
async def test_a_consumer_brings_the_condition_in_its_attach() -> None:
    async with a_broker() as broker:
        host(broker).declare_queue("numbers")
        async with amqpforge.connect(broker.url) as connection:
            async with connection.sender("numbers") as sender:
                for number in range(10):
                    await sender.send(amqpforge.Message(number, application_properties={"odd": number % 2}))
            found: dict[int, list[Any]] = {}
            for odd in (1, 0):
                async with connection.receiver("numbers", selector=f"odd = {odd}", credit=5) as receiver:
                    found[odd] = []
                    for _ in range(5):
                        delivery = await receiver.receive(timeout=5)
                        delivery.accept()
                        found[odd].append(delivery.message.body)
            assert found == {1: [1, 3, 5, 7, 9], 0: [0, 2, 4, 6, 8]}


@in_loop
@pytest.mark.spec("A-MSG-001")
async def test_properties_and_content_arrive_as_they_were_sent() -> None:
    sent = amqpforge.Message(
        b"\x00\x01body",
        message_id="id",
        user_id=b"me",
        to="q",
        subject="about",
        reply_to="there",
        correlation_id="other",
        content_type="application/x-test",
        content_encoding="gzip",
        group_id="group",
        group_sequence=7,
        reply_to_group_id="back",
        application_properties={"a": 1, "b": "two"},
        durable=True,
        priority=7,
    )
    async with a_broker() as broker:
        host(broker).declare_queue("q")
        async with amqpforge.connect(broker.url) as connection:
            async with connection.sender("q") as sender:
                await sender.send(sent)
            async with connection.receiver("q") as receiver:
                delivery = await receiver.receive(timeout=5)
                got = delivery.message
                delivery.accept()
        for name in (
            "body message_id user_id to subject reply_to correlation_id content_type content_encoding "
            "group_id group_sequence reply_to_group_id application_properties durable priority"
        ).split():
            assert getattr(got, name) == getattr(sent, name), name


@in_loop
@pytest.mark.spec("A-MSG-002")
async def test_a_message_for_nobody_is_given_back() -> None:
    """The producer decides: sent settled it is dropped, sent unsettled it comes back as released."""
    async with a_broker() as broker:
        async with amqpforge.connect(broker.url) as connection:
            sender = await connection.sender("/exchanges/amq.direct/dead")
            assert isinstance(await sender.send("returned", check=False), Released)
            await sender.send("silent", settled=True)
        assert host(broker).wiring.exchanges["amq.direct"].unroutable == 2


@in_loop
@pytest.mark.spec("A-MSG-009")
async def test_every_message_goes_through_an_exchange() -> None:
    async with a_broker() as broker:
        host(broker).declare_queue("q")
        default = host(broker).wiring.exchanges[""]
        async with amqpforge.connect(broker.url) as connection:
            for address in ("q", "/queues/q"):
                before = default.incoming
                async with connection.sender(address) as sender:
                    await sender.send("message")
                assert default.incoming == before + 1


@in_loop
@pytest.mark.spec("A-MSG-010", "A-EXCH-007")
async def test_consumers_make_their_queues_or_use_prepared_ones() -> None:
    async with a_broker() as broker:
        host(broker).declare_queue("prepared")
        async with amqpforge.connect(broker.url) as connection:
            own = await connection.receiver(None)
            prepared = await connection.receiver("prepared")
            for receiver in (own, prepared):
                async with connection.sender(receiver.address) as sender:
                    await sender.send("for you")
                delivery = await receiver.receive(timeout=5)
                assert delivery.message.body == "for you"
                delivery.accept()


@in_loop
@pytest.mark.spec("A-MSG-011")
async def test_a_reply_finds_its_way_by_reply_to_alone() -> None:
    async with a_broker() as broker:
        host(broker).declare_queue("service")
        async with (
            amqpforge.connect(broker.url) as client,
            amqpforge.connect(broker.url) as service,
            service.receiver("service") as requests,
            service.sender(None) as replies,
        ):

            async def respond() -> None:
                delivery = await requests.receive(timeout=5)
                request = delivery.message
                await replies.send(
                    amqpforge.Message(
                        request.body * 2, to=request.reply_to, correlation_id=request.message_id
                    )
                )
                delivery.accept()

            answering = asyncio.create_task(respond())
            async with client.requester("service") as requester:
                reply = await requester.request(21, timeout=5)
            await answering
            assert reply.body == 42


@in_loop
@pytest.mark.spec("A-TX-001")
async def test_without_a_transaction_each_message_counts_at_once() -> None:
    async with a_broker() as broker:
        queue = host(broker).declare_queue("q")
        async with amqpforge.connect(broker.url) as connection, connection.sender("q") as sender:
            await sender.send("at once")
            assert queue.ready == 1


@in_loop
@pytest.mark.spec("A-TX-002", "A-TX-004", "A-TX-005")
async def test_work_is_held_until_the_commit_and_dropped_by_a_rollback() -> None:
    async with a_broker() as broker:
        queue = host(broker).declare_queue("q")
        async with amqpforge.connect(broker.url) as connection, connection.sender("q") as sender:
            async with connection.transaction() as transaction:
                for number in range(3):
                    await sender.send(number, transaction=transaction)
                await transaction.rollback()
            assert queue.ready == 0
            for numbers in ((3, 4), (5,)):
                async with connection.transaction() as transaction:
                    for number in numbers:
                        await sender.send(number, transaction=transaction)
                    assert queue.ready == numbers[0] - 3
            assert await bodies(connection, "q", 3) == [3, 4, 5]


@in_loop
@pytest.mark.spec("A-TX-003")
async def test_transactions_are_chosen_message_by_message() -> None:
    async with a_broker() as broker:
        queue = host(broker).declare_queue("q")
        async with amqpforge.connect(broker.url) as connection, connection.sender("q") as sender:
            async with connection.transaction() as transaction:
                await sender.send("later", transaction=transaction)
                await sender.send("now")
                assert queue.ready == 1
            assert await bodies(connection, "q", 2) == ["now", "later"]


@in_loop
@pytest.mark.spec("A-TX-006", "A-TX-007")
async def test_messages_and_outcomes_are_one_unit_and_deliveries_are_not_part_of_it() -> None:
    async with a_broker() as broker:
        source, target = host(broker).declare_queue("in"), host(broker).declare_queue("out")
        async with amqpforge.connect(broker.url) as connection:
            async with connection.sender("in") as sender:
                await sender.send("job")
            sender = await connection.sender("out")
            receiver = await connection.receiver("in", auto_accept=False)
            delivery = await receiver.receive(timeout=5)
            async with connection.transaction() as transaction:
                await sender.send("result", transaction=transaction)
                delivery.accept(transaction=transaction)
                await transaction.rollback()
            assert target.ready == 0
            delivery = await receiver.receive(timeout=5)  # It was settled, so it is delivered anew.
            assert source.unacknowledged == 1
            async with connection.transaction() as transaction:
                await sender.send("result", transaction=transaction)
                delivery.accept(transaction=transaction)
            await until(lambda: not source.unacknowledged)
            assert (source.ready, target.ready) == (0, 1)


@in_loop
@pytest.mark.spec("A-ERR-001", "A-ERR-003")
async def test_a_fault_of_operation_ends_a_link_and_not_the_connection() -> None:
    async with a_broker() as broker:
        host(broker).declare_queue("q")
        async with amqpforge.connect(broker.url) as connection:
            with pytest.raises(LinkDetached) as caught:
                await connection.receiver("/queues/missing")
            assert caught.value.error is not None
            assert caught.value.error.condition == AmqpError.NOT_FOUND
            assert "missing" in (caught.value.error.description or "")
            async with connection.sender("q") as sender:
                await sender.send("goes on")
        assert host(broker).queue("q").ready == 1


@in_loop
async def test_a_full_queue_rejects_with_the_reason() -> None:
    async with a_broker() as broker:
        host(broker).declare_queue("q", QueueSettings(max_length=1))
        async with amqpforge.connect(broker.url) as connection, connection.sender("q") as sender:
            await sender.send("first")
            with pytest.raises(NotAccepted) as caught:
                await sender.send("second")
            assert "max_length" in str(caught.value)


@in_loop
@pytest.mark.spec("M-HEADER-004", "M-HEADER-005")
async def test_a_strict_broker_takes_no_durable_message_that_it_could_lose(tmp_path: Path) -> None:
    for store, is_durable in ((f"sqlite:{tmp_path / 'broker.db'}", False), ("memory", True)):
        async with a_broker(store=store, strict_durability=True) as broker:
            queue = host(broker).declare_queue("q", QueueSettings(durable=is_durable))
            async with amqpforge.connect(broker.url) as connection, connection.sender("q") as sender:
                with pytest.raises(NotAccepted) as caught:
                    await sender.send(amqpforge.Message("kept?", durable=True))
                assert "durable" in str(caught.value)
                await sender.send(amqpforge.Message("not kept", durable=False))
            assert queue.ready == 1


@in_loop
async def test_a_dead_letter_does_not_go_round_for_ever() -> None:
    async with a_broker() as broker:
        for name, other in (("a", "b"), ("b", "a")):
            settings = QueueSettings(message_ttl=0.01, dead_letter_exchange="", dead_letter_key=other)
            host(broker).declare_queue(name, settings)
        async with amqpforge.connect(broker.url) as connection, connection.sender("a") as sender:
            await sender.send("round and round")
            a, b = host(broker).queue("a"), host(broker).queue("b")
            await until(lambda: a.counters.expired == 2)
        assert (a.counters.published, b.counters.published) == (2, 1)
        assert (a.ready, b.ready) == (0, 0)


@in_loop
async def test_what_is_rejected_goes_round_as_often_as_somebody_rejects_it() -> None:
    async with a_broker() as broker:
        host(broker).declare_queue("work", QueueSettings(dead_letter_exchange="", dead_letter_key="later"))
        again = QueueSettings(message_ttl=0.01, dead_letter_exchange="", dead_letter_key="work")
        host(broker).declare_queue("later", again)
        async with amqpforge.connect(broker.url) as connection:
            async with connection.sender("work") as sender:
                await sender.send("try")
            async with connection.receiver("work", auto_accept=False) as receiver:
                for _ in range(3):
                    (await receiver.receive(timeout=5)).reject()
                delivery = await receiver.receive(timeout=5)
                assert delivery.message.body == "try"
                delivery.accept()
        assert host(broker).queue("work").counters.rejected == 3
