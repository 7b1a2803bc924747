"""A broker that runs, over real sockets: its start, its stop, its ports, its users, and what it logs."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

import amqpforge
from amqpforge import blocking
from amqpforge.broker.access import PasswordFile, make_credentials
from amqpforge.broker.broker import Broker
from amqpforge.broker.config import (
    DEFAULT_VHOST,
    BrokerConfig,
    Grace,
    ListenerConfig,
    Start,
    TlsFiles,
    VirtualHostConfig,
)
from amqpforge.broker.errors import PreconditionFailed, StoreError
from amqpforge.broker.limits import BrokerLimits
from amqpforge.broker.settings import QueueSettings
from amqpforge.broker.store import Done, Unit
from amqpforge.broker.store.memory import MemoryStore
from amqpforge.errors import (
    AuthenticationFailed,
    ConnectionClosed,
    LinkDetached,
    LocalError,
    NegotiationFailed,
)
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpConnectionError,
    AmqpError,
    Open,
    ProtocolHeader,
    ProtocolId,
    Seconds,
    TerminusDurability,
    TerminusExpiryPolicy,
    encode_frame,
)
from amqpforge_protocol.amqp_1_0 import Source as SourceTerminus
from tests.interop import certificates

SECONDS = 20.0
PATIENT = Grace(shutdown=3600.0)
UNHURRIED = BrokerLimits(handshake_timeout=3600.0)
ORDERS = {"orders": QueueSettings(durable=True)}
HEADERS = {one: ProtocolHeader(one).encode() for one in ProtocolId}


def asynchronous(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test, within a time that nothing in it should need."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(SECONDS):
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return run


def configured(*listeners: ListenerConfig, **more: Any) -> BrokerConfig:
    """A broker on free ports, with the queue ``orders``."""
    more.setdefault("virtual_hosts", {DEFAULT_VHOST: VirtualHostConfig(queues=ORDERS)})
    return BrokerConfig(listeners=listeners or (ListenerConfig(port=0),), **more)


def stored(path: Path, **more: Any) -> BrokerConfig:
    return configured(store=f"sqlite:{path}", **more)


def durable(body: object) -> amqpforge.Message:
    return amqpforge.Message(body, durable=True)


async def bodies(url: str, address: str, count: int) -> list[object]:
    """The first messages of a queue."""
    async with amqpforge.connect(url) as connection, connection.receiver(address) as receiver:
        return [(await receiver.receive(timeout=SECONDS)).message.body for _ in range(count)]


@asynccontextmanager
async def raw(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection of TCP, and nothing else."""
    parsed = amqpforge.parse_url(url)
    reader, writer = await asyncio.open_connection(parsed.host, parsed.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def eventually(condition: Callable[[], bool]) -> None:
    """Let the loop go on until something is so; the test's own time bounds it."""
    while not condition():
        await asyncio.sleep(0.001)


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("amqpforge.broker")]


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> certificates.Certificates:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


def trusting(tls: certificates.Certificates, *, shows_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.authority)
    if shows_certificate:
        context.load_cert_chain(tls.client, tls.client_key)
    return context


# --- start and stop ----------------------------------------------------------------------------------------


@asynchronous
async def test_without_a_configuration_it_is_in_memory_on_a_free_port_of_this_machine() -> None:
    async with Broker() as broker, Broker() as other:
        assert broker.url.startswith("amqp://127.0.0.1:")
        assert broker.url != other.url
        assert (broker.store, broker.config.users) == ("memory", None)
        assert repr(broker) == f"<Broker at {broker.url}, running>"
        async with (
            amqpforge.connect(broker.url) as connection,
            connection.receiver("/exchanges/amq.topic/order.*") as receiver,
            connection.sender("/exchanges/amq.topic") as sender,
        ):
            await sender.send(amqpforge.Message("tea", subject="order.placed"))
            assert (await receiver.receive()).message.body == "tea"


@asynchronous
async def test_a_broker_runs_once() -> None:
    broker = Broker()
    with pytest.raises(LocalError, match="does not run: enter it first"):
        _ = broker.url
    async with broker:
        with pytest.raises(LocalError, match="started before: make another one"):
            await broker.start()
    assert "not running" in repr(broker)
    with pytest.raises(LocalError, match="does not run"):
        _ = broker.url
    with pytest.raises(LocalError, match="started before"):
        await broker.start()
    await broker.stop()


@asynchronous
async def test_clients_are_told_why_their_connection_ends() -> None:
    async with Broker() as broker, amqpforge.connect(broker.url, reconnect=None) as connection:
        receiver = await connection.receiver(None)
        waiting = asyncio.create_task(receiver.receive(timeout=None))
        await asyncio.sleep(0)
        await broker.stop("for a new kernel")
        with pytest.raises(ConnectionClosed) as raised:
            await waiting
    assert raised.value.condition == AmqpConnectionError.CONNECTION_FORCED
    assert "for a new kernel" in str(raised.value)


@asynchronous
async def test_what_was_accepted_when_it_was_stopped_is_there_again_in_order(tmp_path: Path) -> None:
    config = stored(tmp_path / "store")
    async with Broker(config) as broker, amqpforge.connect(broker.url, reconnect=None) as connection:
        sender = await connection.sender("orders")
        posted = [sender.post(durable(number)) for number in range(500)]
        await posted[20]
        await broker.stop()
        told = await asyncio.gather(*posted, return_exceptions=True)
    accepted = [number for number, outcome in enumerate(told) if isinstance(outcome, Accepted)]
    assert accepted[:21] == list(range(21))
    async with Broker(config) as broker:
        found = await bodies(broker.url, "orders", len(accepted))
        queue = broker.hosts[DEFAULT_VHOST].queues["orders"]
        await eventually(lambda: queue.unacknowledged == 0)
        assert found + [None] * queue.ready == [*accepted, *[None] * queue.ready]


class HeldStore(MemoryStore):
    """Takes its time with what it is to keep, once it is told to."""

    is_holding = False

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Done] = []

    @property
    def is_durable(self) -> bool:
        return True

    def commit(self, unit: Unit, done: Done) -> None:
        if self.is_holding:
            self.held.append(done)
        else:
            done(None)

    def go_on(self) -> None:
        self.is_holding = False
        for done in self.held:
            done(None)


@asynchronous
async def test_what_has_come_is_answered_before_connections_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = HeldStore()
    monkeypatch.setattr("amqpforge.broker.broker.new_store", lambda _: store)
    async with (
        Broker(configured(grace=PATIENT)) as broker,
        amqpforge.connect(broker.url, reconnect=None) as connection,
    ):
        sender = await connection.sender("orders")
        store.is_holding = True
        posted = sender.post(durable("tea"))
        await eventually(lambda: bool(store.held))
        stopping = asyncio.create_task(broker.stop())
        await eventually(lambda: len(store.held) > 1)
        assert not posted.done()
        store.go_on()
        assert isinstance(await posted, Accepted)
        await stopping


@asynchronous
async def test_what_is_not_durable_goes_with_the_broker(tmp_path: Path) -> None:
    config = stored(
        tmp_path / "store",
        virtual_hosts={DEFAULT_VHOST: VirtualHostConfig(queues={**ORDERS, "fleeting": QueueSettings()})},
    )
    async with Broker(config) as broker, amqpforge.connect(broker.url) as connection:
        for address in ("orders", "fleeting"):
            async with connection.sender(address) as sender:
                await sender.send(amqpforge.Message("not durable"))
                await sender.send(durable("durable"))
    async with Broker(config) as broker:
        queues = broker.hosts[DEFAULT_VHOST].queues
        assert {name: queue.ready for name, queue in queues.items()} == {"orders": 1, "fleeting": 0}
        assert await bodies(broker.url, "orders", 1) == ["durable"]


@asynchronous
async def test_a_durable_subscription_gets_what_came_while_its_client_was_away(tmp_path: Path) -> None:
    config = stored(tmp_path / "store")
    source = SourceTerminus(
        address="/exchanges/amq.topic/news.#",
        durable=TerminusDurability.UNSETTLED_STATE,
        expiry_policy=TerminusExpiryPolicy.NEVER,
    )
    async with Broker(config) as broker:
        connection = await amqpforge.connect(broker.url, container_id="reader", reconnect=None)
        receiver = await connection.receiver(source, name="news", credit=0)
        assert receiver.address == source.address
    async with (
        Broker(config) as broker,
        amqpforge.connect(broker.url) as connection,
        connection.sender("/exchanges/amq.topic/news.today") as sender,
    ):
        assert isinstance(await sender.send(durable("rain")), Accepted)
    async with (
        Broker(config) as broker,
        amqpforge.connect(broker.url, container_id="reader") as connection,
        connection.receiver(source, name="news") as receiver,
    ):
        assert (await receiver.receive(timeout=SECONDS)).message.body == "rain"


@asynchronous
async def test_a_store_in_memory_accepts_durable_messages_too() -> None:
    async with (
        Broker(configured(store="memory")) as broker,
        amqpforge.connect(broker.url) as connection,
        connection.sender("orders") as sender,
    ):
        assert isinstance(await sender.send(durable("tea")), Accepted)


@asynchronous
async def test_two_brokers_cannot_have_one_store(tmp_path: Path) -> None:
    config = stored(tmp_path / "store")
    async with Broker(config):
        with pytest.raises(StoreError, match="in use by another broker; stop that one"):
            await Broker(config).start()
    async with Broker(config) as broker:
        assert broker.url


@asynchronous
async def test_a_foreign_store_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    file.write_bytes(b"dear diary" * 100)
    with pytest.raises(StoreError, match=r"notes\.db: not a store of this broker; name another file"):
        await Broker(stored(file)).start()
    assert file.read_bytes() == b"dear diary" * 100


def test_what_is_no_store_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LocalError, match="a store is memory, or sqlite: and the name of a file, not 'disk'"):
        Broker(configured(store="disk"))
    assert not list(tmp_path.iterdir())


@asynchronous
async def test_what_contradicts_the_store_is_refused_and_the_store_is_free_again(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with Broker(stored(path)):
        pass
    other = {DEFAULT_VHOST: VirtualHostConfig(queues={"orders": QueueSettings(durable=True, max_length=1)})}
    with pytest.raises(PreconditionFailed, match="queue 'orders' is there already"):
        await Broker(stored(path, virtual_hosts=other)).start()
    async with Broker(stored(path)) as broker:
        assert list(broker.hosts[DEFAULT_VHOST].queues) == ["orders"]


@asynchronous
async def test_who_says_nothing_does_not_hold_up_the_stop() -> None:
    async with (
        Broker(configured(grace=PATIENT, limits=UNHURRIED)) as broker,
        raw(broker.url) as (reader, _),
        raw(broker.url) as (greeted, writer),
    ):
        writer.write(HEADERS[ProtocolId.AMQP])
        assert await greeted.readexactly(8) == HEADERS[ProtocolId.AMQP]
        await eventually(lambda: broker.usage.connections.used == 2)
        await broker.stop()
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
    assert broker.usage.connections.used == 0


@asynchronous
async def test_who_does_not_answer_the_close_is_cut_off_in_time(caplog: pytest.LogCaptureFixture) -> None:
    async with Broker(configured(grace=Grace(shutdown=0.05))) as broker, raw(broker.url) as (reader, writer):
        await _open_and_stay(broker, reader, writer)
        await broker.stop()
    assert "clients are cut off" in events(caplog)


@asynchronous
async def test_a_stop_that_takes_too_long_is_cut_short() -> None:
    async with Broker(configured(grace=PATIENT)) as broker, raw(broker.url) as (reader, writer):
        await _open_and_stay(broker, reader, writer)
        stopping = asyncio.create_task(broker.stop())
        assert b"amqp:connection:forced" in await reader.read(4096)
        assert not stopping.done()
        broker.cut()
        await stopping
        assert await reader.read() == b""


async def _open_and_stay(broker: Broker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Open a connection by hand, and never close it."""
    writer.write(HEADERS[ProtocolId.AMQP] + encode_frame(Open(container_id="mute")))
    assert await reader.readexactly(8) == HEADERS[ProtocolId.AMQP]
    size = int.from_bytes(await reader.readexactly(4), "big")
    assert b"amqpforge" in await reader.readexactly(size - 4)


@asynchronous
async def test_stopping_goes_on_when_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    config = stored(tmp_path / "store", grace=PATIENT)
    broker = Broker(config)
    await broker.start()
    async with raw(broker.url) as (reader, writer):
        await _open_and_stay(broker, reader, writer)
        impatient = asyncio.create_task(broker.stop())
        await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
    await broker.stop()
    async with Broker(config):
        pass


@asynchronous
async def test_nothing_happens_in_a_broker_that_has_stopped(tmp_path: Path) -> None:
    """A subscription that would expire, a message that would die: the store is closed by then."""
    faults: list[object] = []
    timers: list[asyncio.TimerHandle] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: faults.append(context))

    def call_later(delay: float, *arguments: Any) -> asyncio.TimerHandle:
        timers.append(asyncio.BaseEventLoop.call_later(loop, delay, *arguments))  # type: ignore[arg-type]
        return timers[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "call_later", call_later)
        async with Broker(stored(tmp_path / "store")) as broker:
            connection = await amqpforge.connect(broker.url, container_id="app", reconnect=None)
            source = SourceTerminus(
                address="/exchanges/amq.topic/#",
                durable=TerminusDurability.CONFIGURATION,
                expiry_policy=TerminusExpiryPolicy.CONNECTION_CLOSE,
                timeout=Seconds(3600),
            )
            await connection.receiver(source, name="news")
            async with connection.sender("orders") as sender:
                await sender.send(amqpforge.Message("old", durable=True, ttl=3600.0))
        async with Broker(stored(tmp_path / "store")) as broker:
            assert len(broker.hosts[DEFAULT_VHOST].queues) == 2
    late = [timer for timer in timers if timer.when() - loop.time() > 1000]
    assert len(late) >= 2
    for timer in late:
        if not timer.cancelled():
            timer._run()
    assert faults == []


# --- ports -------------------------------------------------------------------------------------------------


@asynchronous
async def test_a_port_that_is_taken_is_named_and_the_store_is_free_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = stored(tmp_path / "store")
        with pytest.raises(
            LocalError, match=rf"cannot listen at amqp://127\.0\.0\.1:{port}: the port is taken"
        ):
            await Broker(config.overridden(port=port)).start()
        async with Broker(config):
            pass


@asynchronous
async def test_a_host_that_is_none_of_this_machine_is_named() -> None:
    with pytest.raises(LocalError, match=r"at amqp://192\.0\.2\.1:0: the host is no address of this machine"):
        await Broker(configured(ListenerConfig(host="192.0.2.1", port=0), allow_anonymous=True)).start()


@asynchronous
async def test_ports_lead_to_the_same_queues(tls: certificates.Certificates) -> None:
    listeners = (ListenerConfig(port=0), secured(tls), secured(tls, start=Start.OFFERED))
    async with Broker(configured(*listeners)) as broker:
        plain, always, asked = (port.url for port in broker.ports)
        assert always.startswith("amqps://127.0.0.1:")
        assert asked.startswith("amqp://127.0.0.1:")
        used = [(plain, None), (always, trusting(tls)), (asked, trusting(tls)), (asked, None)]
        for url, context in used:
            async with amqpforge.connect(url, ssl=context) as connection:
                assert (connection.tls_version is not None) is (context is not None)
                async with connection.sender("orders") as sender:
                    await sender.send(durable("tea"))
        assert broker.hosts[DEFAULT_VHOST].queues["orders"].ready == len(used)


@asynchronous
async def test_a_port_may_insist_on_tls(tls: certificates.Certificates) -> None:
    async with Broker(configured(secured(tls, start=Start.REQUIRED))) as broker:
        with pytest.raises(NegotiationFailed, match="TLS"):
            await amqpforge.connect(broker.url)
        async with amqpforge.connect(broker.url, ssl=trusting(tls)) as connection:
            assert connection.tls_version


@asynchronous
async def test_a_header_of_another_protocol_is_answered_with_ours(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "amqpforge.broker")
    headers = {
        b"AMQP\x00\x00\x09\x01": ProtocolId.AMQP,
        b"AMQP\x00\x01\x01\x00": ProtocolId.AMQP,
        b"AMQP\x00\x02\x00\x00": ProtocolId.AMQP,
        b"AMQP\x01\x01\x00\x0a": ProtocolId.SASL,
        b"GET / HTTP/1.1\r\n": ProtocolId.SASL,
    }
    async with Broker(configured(limits=UNHURRIED)) as broker:
        for header, answer in headers.items():
            async with raw(broker.url) as (reader, writer):
                writer.write(header)
                assert await reader.read() == HEADERS[answer]
        told = [event for event in events(caplog) if event.startswith("connection came to nothing")]
        assert len(told) == len(headers)
        assert ["0-9-1" in told[0], "0-10" in told[-2], "HTTP" in told[-1]] == [True] * 3
        assert await bodies_through(broker) == ["tea"]


async def bodies_through(broker: Broker) -> list[object]:
    """What a message is that goes through the broker."""
    async with amqpforge.connect(broker.url) as connection, connection.receiver(None) as receiver:
        async with connection.sender(receiver.address) as sender:
            await sender.send("tea")
        return [(await receiver.receive()).message.body]


@asynchronous
async def test_a_header_may_come_octet_by_octet() -> None:
    async with Broker() as broker, raw(broker.url) as (reader, writer):
        for octet in HEADERS[ProtocolId.AMQP]:
            writer.write(bytes([octet]))
            await writer.drain()
            await asyncio.sleep(0)
        assert await reader.readexactly(8) == HEADERS[ProtocolId.AMQP]


@pytest.mark.parametrize("said", [b"", b"AMQP", HEADERS[ProtocolId.AMQP], HEADERS[ProtocolId.SASL]])
@asynchronous
async def test_who_does_not_open_a_connection_in_time_has_to_go(said: bytes) -> None:
    config = configured(limits=BrokerLimits(handshake_timeout=0.05))
    async with Broker(config) as broker, raw(broker.url) as (reader, writer):
        writer.write(said)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(10_000)
        await eventually(lambda: broker.usage.connections.used == 0)


# --- TLS ---------------------------------------------------------------------------------------------------


def secured(tls: certificates.Certificates, **more: Any) -> ListenerConfig:
    return ListenerConfig(port=0, tls=TlsFiles(certificate=tls.server, key=tls.server_key, **more))


@pytest.mark.parametrize("start", [Start.AT_ONCE, Start.OFFERED])
@asynchronous
async def test_clients_count_while_they_shake_hands(tls: certificates.Certificates, start: Start) -> None:
    limits = BrokerLimits(connections=1, handshake_timeout=3600.0)
    async with Broker(configured(secured(tls, start=start), limits=limits)) as broker:
        async with raw(broker.url) as (reader, writer):
            if start is Start.OFFERED:
                writer.write(HEADERS[ProtocolId.TLS])
                assert await reader.readexactly(8) == HEADERS[ProtocolId.TLS]
            await eventually(lambda: broker.usage.connections.used == 1)
            async with raw(broker.url) as (turned_away, _):
                with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                    await turned_away.readexactly(1)
        await eventually(lambda: broker.usage.connections.used == 0)
        async with amqpforge.connect(broker.url, ssl=trusting(tls)):
            assert broker.usage.connections.used == 1
        await eventually(lambda: broker.usage.connections.used == 0)


@pytest.mark.parametrize("start", [Start.AT_ONCE, Start.OFFERED])
@asynchronous
async def test_who_shakes_hands_for_ever_has_to_go(tls: certificates.Certificates, start: Start) -> None:
    config = configured(secured(tls, start=start), limits=BrokerLimits(handshake_timeout=0.05))
    async with Broker(config) as broker, raw(broker.url) as (reader, writer):
        if start is Start.OFFERED:
            writer.write(HEADERS[ProtocolId.TLS])
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(10_000)
        await eventually(lambda: broker.usage.connections.used == 0)


@pytest.mark.parametrize("start", [Start.AT_ONCE, Start.OFFERED])
@asynchronous
async def test_shaking_hands_does_not_hold_up_the_stop(tls: certificates.Certificates, start: Start) -> None:
    config = configured(secured(tls, start=start), grace=PATIENT, limits=UNHURRIED)
    async with Broker(config) as broker, raw(broker.url) as (reader, writer):
        if start is Start.OFFERED:
            writer.write(HEADERS[ProtocolId.TLS])
            assert await reader.readexactly(8) == HEADERS[ProtocolId.TLS]
        await eventually(lambda: broker.usage.connections.used == 1)
        await broker.stop()
    assert broker.usage.connections.used == 0


@asynchronous
async def test_what_is_no_tls_is_logged_and_forgotten(
    tls: certificates.Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "amqpforge.broker")
    async with Broker(configured(secured(tls))) as broker:
        async with raw(broker.url) as (reader, writer):
            writer.write(HEADERS[ProtocolId.AMQP] * 100)
            await reader.read()
        await eventually(lambda: broker.usage.connections.used == 0)
        with pytest.raises(NegotiationFailed, match="not trusted"):
            await amqpforge.connect(broker.url)  # It does not trust the certificate.
    assert [event for event in events(caplog) if event.startswith("TLS failed peer=127.0.0.1:")]


@asynchronous
async def test_a_certificate_is_a_login(tls: certificates.Certificates, tmp_path: Path) -> None:
    users = PasswordFile(tmp_path / "users.toml")
    users.add(make_credentials("alice", "wonderland"))
    users.change("alice", lambda user: replace(user, certificates=(certificates.CLIENT_NAME,)))
    listener = secured(tls, client_ca=tls.authority)
    async with Broker(configured(listener, users=users.path)) as broker:
        credentials = amqpforge.Credentials(external=True)
        context = trusting(tls, shows_certificate=True)
        async with amqpforge.connect(broker.url, ssl=context, credentials=credentials) as connection:
            assert connection.mechanism == "EXTERNAL"
            assert broker.usage.connections_of("alice") == 1
        with pytest.raises(AuthenticationFailed):
            await amqpforge.connect(broker.url, ssl=trusting(tls), credentials=credentials)


def test_a_certificate_that_is_missing_is_named(tmp_path: Path) -> None:
    listener = ListenerConfig(port=0, tls=TlsFiles(certificate=tmp_path / "broker.pem"))
    with pytest.raises(LocalError, match=r"the TLS certificate .*broker\.pem cannot be used: No such file"):
        Broker(configured(listener))


# --- users and virtual hosts -------------------------------------------------------------------------------


@asynchronous
async def test_users_with_passwords_and_nobody_else() -> None:
    async with Broker(passwords={"alice": "wonderland", "bob": "builder"}) as broker:
        async with amqpforge.connect(broker.url, username="alice", password="wonderland") as connection:
            assert connection.mechanism == "SCRAM-SHA-512"
            assert broker.usage.connections_of("alice") == 1
        for username, password in (("alice", "builder"), ("carol", "wonderland")):
            with pytest.raises(AuthenticationFailed):
                await amqpforge.connect(broker.url, username=username, password=password)
        with pytest.raises(AuthenticationFailed):
            await amqpforge.connect(broker.url)
        async with raw(broker.url) as (reader, writer):
            writer.write(HEADERS[ProtocolId.AMQP])
            assert await reader.read() == HEADERS[ProtocolId.SASL]


def test_users_come_from_one_place(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="leave that or passwords out"):
        Broker(configured(users=tmp_path / "users.toml"), passwords={"alice": "wonderland"})
    with pytest.raises(LocalError, match=r"everybody who reaches 0\.0\.0\.0 may do everything"):
        Broker(configured(ListenerConfig(host="0.0.0.0", port=0)))


@pytest.mark.spec("A-VHOST-001")
@asynchronous
async def test_virtual_hosts_have_nothing_in_common() -> None:
    hosts = {DEFAULT_VHOST: VirtualHostConfig(queues=ORDERS), "test": VirtualHostConfig()}
    async with (
        Broker(configured(virtual_hosts=hosts)) as broker,
        amqpforge.connect(broker.url, hostname="vhost:test") as connection,
        connection.sender("/exchanges/amq.topic"),
    ):
        with pytest.raises(LinkDetached, match="no queue 'orders' in the virtual host 'test'"):
            await connection.receiver("orders")


@asynchronous
async def test_a_virtual_host_that_is_not_there_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with Broker() as broker:
        with pytest.raises(ConnectionClosed) as raised:
            async with amqpforge.connect(broker.url, hostname="vhost:other") as connection:
                await connection.sender("orders")
    assert raised.value.condition == AmqpError.NOT_FOUND
    (event,) = (event for event in events(caplog) if event.startswith("connection refused"))
    assert "vhost=vhost:other reason=\"there is no virtual host 'other' here\"" in event


# --- without an event loop ---------------------------------------------------------------------------------


def test_a_broker_in_a_thread_of_its_own(tmp_path: Path) -> None:
    config = stored(tmp_path / "store")
    with (
        Broker(config) as broker,
        blocking.connect(broker.url) as connection,
        connection.sender("orders") as sender,
    ):
        sender.send(durable("tea"))
    assert not [thread for thread in threading.enumerate() if thread.name == "amqpforge broker"]
    with (
        Broker(config) as broker,
        blocking.connect(broker.url) as connection,
        connection.receiver("orders") as receiver,
    ):
        assert receiver.receive().message.body == "tea"


def test_a_broker_that_cannot_start_leaves_no_thread(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"something else")
    with pytest.raises(StoreError), Broker(stored(tmp_path / "store")):
        pass
    broker = Broker()
    with broker, pytest.raises(LocalError, match="started before"), broker:
        pass
    with pytest.raises(LocalError, match="started before"), broker:
        pass
    assert not [thread for thread in threading.enumerate() if thread.name == "amqpforge broker"]


# --- logs --------------------------------------------------------------------------------------------------


@asynchronous
async def test_connections_and_logins_are_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    name = 'app\nlevel=error event="gone mad"'
    async with Broker(passwords={"alice": "wonderland"}) as broker:
        for mechanism in ("SCRAM-SHA-512", "PLAIN"):
            credentials = amqpforge.Credentials(
                username="alice", password="wonderland", mechanisms=(mechanism,)
            )
            async with amqpforge.connect(broker.url, credentials=credentials, container_id=name):
                pass
            wrong = replace(credentials, password="looking-glass")
            with pytest.raises(AuthenticationFailed):
                await amqpforge.connect(broker.url, credentials=wrong)
        await eventually(lambda: broker.usage.connections.used == 0)
    told = events(caplog)
    assert [event.partition(" peer=")[0] for event in told if " peer=" in event] == [
        "connection opened",
        "connection closed",
        "login refused",
    ] * 2
    opened, refused = told[1], next(event for event in told if event.startswith("login refused"))
    quoted = r'container="app\nlevel=error event=\"gone mad\"" vhost=/ mechanism=SCRAM-SHA-512'
    assert opened.endswith(f" user=alice {quoted}")
    assert "mechanism=SCRAM-SHA-512 reason=" in refused
    whole = "\n".join(record.getMessage() for record in caplog.records)
    assert "wonderland" not in whole
    assert "looking-glass" not in whole


@asynchronous
async def test_why_a_connection_ends_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "amqpforge.broker")
    async with Broker() as broker:
        async with raw(broker.url) as (reader, writer):
            await _open_and_stay(broker, reader, writer)
            writer.write(b"\0\0\0\1\1\0\0\0")
            assert b"amqp:connection:framing-error" in await reader.read(4096)
        async with raw(broker.url) as (reader, writer):
            await _open_and_stay(broker, reader, writer)
        await eventually(lambda: broker.usage.connections.used == 0)
    closed = [event for event in events(caplog) if event.startswith("connection closed")]
    assert "amqp:connection:framing-error" in closed[0]
    assert "the transport ended without a close" in closed[1]
    assert all(" container=mute vhost=/ reason=" in event for event in closed)
