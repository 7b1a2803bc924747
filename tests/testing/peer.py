"""A client for the tests of the test node: an engine on an asyncio transport, driven step by step."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, Self, TypeVar, cast

from amqpforge.engine.connection import Connection
from amqpforge.engine.container import Container
from amqpforge.engine.delivery import IncomingDelivery, OutgoingDelivery
from amqpforge.engine.events import Attached, Deliveries, FlowReceived
from amqpforge.engine.layers import ClientSecurity, ClientStack
from amqpforge.engine.link import Link
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.engine.session import Session
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.message import Message
from amqpforge.sasl import Credentials
from amqpforge.testing.stand import Stand
from amqpforge_protocol.amqp_1_0 import Accepted, AnyAddress, Rejected, Source, Target, encode_frame

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE = 30.0
"""Seconds until a test gives up; none takes near as long."""


class SkewedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock a test can put forward."""

    skew = 0.0

    def time(self) -> float:
        return super().time() + self.skew


def advance(seconds: float) -> None:
    """Let time pass in the event loop of the test; what is due by then happens at the next turn."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SkewedLoop)
    loop.skew += seconds


def asynchronous(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that runs in an event loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=SkewedLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


class Peer(asyncio.Protocol):
    """A client. All that it is told is in ``events``; messages are in ``inbox``, by link name."""

    def __init__(
        self,
        node: Stand[Any],
        *,
        container: Container | None = None,
        settings: ConnectionSettings | None = None,
        credentials: Credentials | None = None,
        header_tls: ssl.SSLContext | None = None,
    ) -> None:
        self.node = node
        self.container = container or Container("client")
        self.engine = Connection(settings or ConnectionSettings(hostname="localhost"), self.container)
        self.stack = ClientStack(
            self.engine,
            ClientSecurity(credentials=credentials, tls="header" if header_tls else None),
            is_private=True,
        )
        self.session: Session = self.engine.session()
        self.events: list[Any] = []
        self.inbox: dict[str, list[IncomingDelivery]] = {}
        self.octets = bytearray()
        self.is_lost = False
        self.has_eof = False
        self._header_tls = header_tls
        self._tls_task: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[asyncio.Future[Any], Callable[[], Any]] = {}

    # --- its life ------------------------------------------------------------------------------------------

    async def connect(self, context: ssl.SSLContext | None = None) -> Self:
        """Connect, without a word of AMQP."""
        await asyncio.get_running_loop().create_connection(
            lambda: self,
            "127.0.0.1",
            self.node.port,
            ssl=context,
            server_hostname="localhost" if context else None,
        )
        return self

    async def open(self, context: ssl.SSLContext | None = None) -> Self:
        """Connect, open the connection and begin a session."""
        await self.connect(context)
        self.engine.open()
        self.session.begin()
        self.pump()
        await self.until(lambda: self.session.remote is not None)
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.drop()

    async def close(self) -> None:
        """Close the connection, and wait until it is over."""
        self.engine.close()
        self.pump()
        await self.until(lambda: self.is_lost or self.engine.is_over)

    async def drop(self) -> None:
        """Drop the transport, and wait until the node has noticed."""
        if self._transport is not None:
            self._transport.abort()
        await self.until(lambda: self.is_lost)

    async def until(self, predicate: Callable[[], R]) -> R:
        """Wait for something to come true."""
        value = predicate()
        if value:
            return value
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting[future] = predicate
        try:
            async with asyncio.timeout(PATIENCE):
                return await future
        finally:
            del self._waiting[future]

    # --- links ---------------------------------------------------------------------------------------------

    def told(self, kind: type[R]) -> list[R]:
        """The events of one kind so far."""
        return [event for event in self.events if type(event) is kind]

    async def attach(self, link: R) -> R:
        """Attach a link and wait for the answer."""
        assert isinstance(link, Link)
        seen = len(self.told(Attached))
        self.session.attach(link)
        self.pump()
        await self.until(lambda: len(self.told(Attached)) > seen)
        return link

    async def sender(self, address: AnyAddress | None = "q", name: str = "out", **options: Any) -> Sender:
        """A sender to an address."""
        outcomes = [Accepted.SYMBOL, Rejected.SYMBOL]
        fields: dict[str, Any] = {
            "source": Source(outcomes=outcomes),
            "target": Target(address=address),
            **options,
        }
        return await self.attach(Sender(name, **fields))

    async def receiver(
        self, address: AnyAddress | None = "q", name: str = "in", *, credit: int = 0, **options: Any
    ) -> Receiver:
        """A receiver from an address, with credit."""
        fields: dict[str, Any] = {"source": Source(address=address), "target": Target(), **options}
        receiver = await self.attach(Receiver(name, **fields))
        if credit:
            receiver.flow(credit)
            self.pump()
        return receiver

    async def send(self, sender: Sender, *messages: Message | str | bytes, **options: Any) -> list[Any]:
        """Send messages; returns their outcomes, None where there is none."""
        sent: list[OutgoingDelivery] = []
        for message in messages:
            whole = message if isinstance(message, Message) else Message(message)
            sent.append(sender.send(whole.encode(), **options))
        self.pump()
        await self.until(lambda: all(delivery.settled for delivery in sent) and not sender.queue)
        return [delivery.remote_state for delivery in sent]

    async def receive(self, receiver: Receiver, count: int = 1) -> list[IncomingDelivery]:
        """Wait for messages, and take them."""
        inbox = self.inbox.setdefault(receiver.name, [])
        await self.until(lambda: len(inbox) >= count)
        taken, inbox[:] = inbox[:count], inbox[count:]
        return taken

    async def settle(self, delivery: IncomingDelivery, state: Any) -> None:
        """Settle a delivery, and wait until the node has seen that and what follows from it."""
        delivery.settle(state)
        await self.echo(delivery.link)

    async def echo(self, receiver: Receiver) -> None:
        """Ask for the node's flow state, and wait for it: what the node had to send before has come then."""
        seen = self._flows(receiver)
        receiver.flow(echo=True)
        self.pump()
        await self.until(lambda: self._flows(receiver) > seen)

    def write(self, *frames: Any) -> None:
        """Write frames past the engine, on channel 0."""
        assert self._transport is not None
        self._transport.write(b"".join(encode_frame(frame) for frame in frames))

    def _flows(self, receiver: Receiver) -> int:
        return sum(1 for event in self.told(FlowReceived) if event.link is receiver)

    # --- the transport -------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Write what is to be written."""
        if self.is_lost:
            return
        transport = self._transport
        while octets := self.stack.data_to_send(asyncio.get_running_loop().time()):
            if transport is not None and not transport.is_closing():
                transport.write(octets)
        self._note()
        if self.stack.work is not None:
            self.stack.resume(self.stack.work.run(), asyncio.get_running_loop().time())
            self.pump()

    def _note(self) -> None:
        for event in self.stack.events():
            self.events.append(event)
            if isinstance(event, Deliveries):
                self.inbox.setdefault(event.link.name, []).extend(event.deliveries)
        for future, predicate in list(self._waiting.items()):
            if not future.done() and (value := predicate()):
                future.set_result(value)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.octets += data
        self.stack.receive(data, asyncio.get_running_loop().time())
        self.pump()
        if self.stack.wants_tls and self._header_tls is not None:
            self._tls_task = asyncio.ensure_future(self._start_tls(self._header_tls))

    async def _start_tls(self, context: ssl.SSLContext) -> None:
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        self.stack.octets_for_tls()
        transport = await loop.start_tls(self._transport, self, context, server_hostname="localhost")
        assert transport is not None
        self._transport = transport
        self.stack.tls_established()
        self.pump()

    def eof_received(self) -> bool:
        self.has_eof = True
        self.stack.end_of_input(asyncio.get_running_loop().time())
        self.pump()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self.stack.end_of_input(asyncio.get_running_loop().time())
        self.engine.lose()
        self._note()


def bodies(deliveries: list[IncomingDelivery]) -> list[Any]:
    """The bodies of messages."""
    return [Message.from_octets(delivery.payload).body for delivery in deliveries]


def message_of(delivery: IncomingDelivery) -> Message:
    """The message of a delivery."""
    return Message.from_octets(delivery.payload)
