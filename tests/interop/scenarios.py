"""What the table of ``docs/interop.md`` is made of: scenarios, peers, and what came of playing them.

A scenario is an asynchronous function that plays its part against one peer, and asserts what has to hold. It
returns None if everything works; or a :class:`Verdict` if the peer refuses, or does something else, with what
the peer answers. It fails if our side misbehaves.
"""

from __future__ import annotations

import ssl
from asyncio import to_thread
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar

from amqpforge import (
    Connection,
    ConnectionClosed,
    LinkDetached,
    NegotiationFailed,
    SessionEnded,
    connect,
)
from amqpforge.client import Opening
from amqpforge.errors import describe
from amqpforge.testing import ScriptedNode
from tests.interop.certificates import Certificates
from tests.interop.handles import ForeignClient, ForeignServer
from tests.interop.rabbitmq import PASSWORD, USER, Broker
from tests.interop.results import PeerError
from tests.interop.stacks import Kind

SECONDS: Final = 5.0
"""What each step of our client may take."""

RABBITMQ: Final = "RabbitMQ"
PEERS: Final = (RABBITMQ, "Proton serves", "rhea serves", "Proton calls", "rhea calls")
SERVERS: Final[dict[str, Kind]] = {"Proton serves": "proton", "rhea serves": "rhea"}
CLIENTS: Final[dict[str, Kind]] = {"Proton calls": "proton", "rhea calls": "rhea"}

ROWS: Final = {
    "Connections": (
        "no SASL layer",
        "ANONYMOUS",
        "PLAIN",
        "PLAIN with a wrong password",
        "SCRAM-SHA-256",
        "EXTERNAL, by the client's certificate",
        "TLS from the first octet",
        "TLS by protocol header",
        "WebSocket",
        "virtual host",
        "frames of 512 octets",
        "heartbeats over idle",
        "the peer closes the connection",
        "back after a lost connection",
    ),
    "Sessions and links": (
        "the peer ends the session",
        "the peer refuses the link",
        "the peer closes the link",
        "a link's name used again",
        "one name, both directions",
        "1,000 links",
        "dynamic source",
        "dynamic target",
        "request and reply",
        "null target address",
        "copy instead of move",
        "selector",
    ),
    "Deliveries": (
        "sender unsettled, receiver first",
        "sender settled, receiver first",
        "sender mixed, receiver first",
        "sender unsettled, receiver second",
        "sender settled, receiver second",
        "sender mixed, receiver second",
        "accepted",
        "rejected, with an error",
        "released",
        "modified",
        "10 MiB both ways",
        "300 messages, credit 7",
        "drain",
        "transaction committed",
        "transaction rolled back",
    ),
    "Messages": (
        "body: data",
        "body: several data sections",
        "body: string",
        "body: list",
        "body: map",
        "body: sequence",
        "body: several sequences",
        "header",
        "properties",
        "application properties",
        "message annotations",
        "delivery annotations",
        "footer",
    ),
}

OURS: Final = "our client"
CALLERS: Final[dict[str, Kind]] = {OURS: "ours", "Proton": "proton", "rhea": "rhea"}
"""The clients of our broker."""
FOREIGN: Final = ("Proton", "rhea")

BROKER_ROWS: Final = {
    "Our broker: connections": (
        "no SASL layer",
        "ANONYMOUS",
        "PLAIN",
        "PLAIN with a wrong password",
        "SCRAM-SHA-256",
        "EXTERNAL, by the client's certificate",
        "TLS from the first octet",
        "TLS by protocol header",
        "WebSocket",
        "virtual host",
        "user without permission",
        "frames of 512 octets",
        "heartbeats over idle",
        "100 connections",
        "the broker stops, and is back",
    ),
    "Our broker: links": (
        "the broker refuses the link",
        "the queue is deleted",
        "a link's name used again",
        "one name, both directions",
        "1,000 links",
        "detached, and attached again",
        "a link that is stolen",
        "dynamic source",
        "dynamic target",
        "lifetime policies",
        "request and reply",
        "null target address",
        "requests to manage",
        "exchanges",
        "copy instead of move",
        "selector",
        "a selector that is none",
        "durable subscription",
        "durable subscription and a restart",
    ),
    "Our broker: deliveries": (
        *ROWS["Deliveries"][:10],
        "delivery limit and dead letters",
        "cut off with unsettled deliveries",
        "unsettled deliveries resumed",
        "a message for no queue",
        "a queue that is full",
        "10 MiB both ways",
        "32 MiB, piece by piece",
        "a message that is too large",
        "300 messages, credit 7",
        "drain",
        "priorities",
        "time to live",
        "transaction committed",
        "transaction rolled back",
        "transaction cut off",
    ),
    "Our broker: messages": ROWS["Messages"],
}

Kindness = Literal["works", "refuses", "differs", "lacks", "untried"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a scenario.

    Attributes:
        kind: ``works``; the peer ``refuses`` it in order; ``differs``: the peer does something else; the
            peer's software ``lacks`` it; ``untried``: nothing was played.
        text: what the peer answers or does; empty if it works.
    """

    kind: Kindness
    text: str = ""


WORKS: Final = Verdict("works")
Played: TypeAlias = Verdict | None
Scenario: TypeAlias = Callable[[Any], Awaitable[Played]]
S = TypeVar("S")

SCENARIOS: dict[tuple[str, str], Scenario] = {}
"""The scenarios by their row and peer."""


def refuses(error: object) -> Verdict:
    """The peer refuses, with this error."""
    return Verdict("refuses", answer(error))


def differs(text: str) -> Verdict:
    """The peer does something else."""
    return Verdict("differs", text)


def lacks(error: object) -> Verdict:
    """The software of the peer cannot do it, as this error says."""
    return Verdict("lacks", answer(error))


def untried(row: str, reason: str, *peers: str) -> None:
    """Nothing is played with these peers, for a reason."""

    async def play(stage: object) -> Played:
        return Verdict("untried", reason)

    for peer in peers:
        _add(row, peer, play)


def scenario(row: str, *peers: str) -> Callable[[Callable[[S], Awaitable[Played]]], Scenario]:
    """Register a function as what is played for a row with these peers."""

    def register(play: Callable[[S], Awaitable[Played]]) -> Scenario:
        for peer in peers:
            _add(row, peer, play)
        return play

    return register


def _add(row: str, peer: str, play: Scenario) -> None:
    if (row, peer) in SCENARIOS:
        raise ValueError(f"there are two scenarios for {row!r} with {peer!r}")
    SCENARIOS[row, peer] = play


def answer(error: object) -> str:
    """What a peer answered, from the error that it led to."""
    match error:
        case SessionEnded(error=told) if told is not None:
            return f"ends the session: {describe(told)}"
        case LinkDetached(error=told) if told is not None:
            return f"refuses the link: {describe(told)}"
        case NegotiationFailed():
            return str(error)
        case ConnectionClosed(error=told) if told is not None:
            return f"closes the connection: {describe(told)}"
        case PeerError(condition=None):
            return f"{error.description}"
        case PeerError():
            return f"{error.where}: {error.condition}: {error.description}"
    return str(error)


# --- stages -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Brokered:
    """Our client, and RabbitMQ."""

    broker: Broker

    def connect(self, url: str | None = None, **options: Any) -> Opening[Connection]:
        """A connection that does not come back by itself unless that is asked for."""
        if url is None:
            options = {"username": USER, "password": PASSWORD} | options
        return connect(url or self.broker.url, **({"timeout": SECONDS, "reconnect": None} | options))

    async def declare(self, queue: str, **arguments: object) -> str:
        """Make an empty queue, and return its address."""
        return await to_thread(self.broker.declare, queue, **arguments)

    async def depth(self, queue: str) -> int:
        """How many messages are in a queue that nobody has."""
        return await to_thread(self.broker.depth, queue)


@dataclass(frozen=True, slots=True)
class Served:
    """Our client, and a foreign server that listens at ``url``."""

    kind: Kind
    server: ForeignServer
    url: str
    certificates: Certificates

    def connect(self, url: str | None = None, **options: Any) -> Opening[Connection]:
        """A connection that does not come back by itself unless that is asked for."""
        return connect(url or self.url, **({"timeout": SECONDS, "reconnect": None} | options))


@dataclass(frozen=True, slots=True)
class Calling:
    """A foreign client, and our node."""

    kind: Kind
    client: ForeignClient
    certificates: Certificates

    @asynccontextmanager
    async def node(self, **options: Any) -> AsyncIterator[ScriptedNode]:
        """A node to which the client is connected, until the end of the block closes the connection."""
        async with ScriptedNode(**options) as node:
            await to_thread(self.client.connect, node.url)
            yield node
            await to_thread(self.client.close)
            assert not node.connections


def client_tls(certificates: Certificates, *, shows_certificate: bool = False) -> ssl.SSLContext:
    """What our client needs to talk TLS with a server of these tests."""
    context = ssl.create_default_context(cafile=certificates.authority)
    if shows_certificate:
        context.load_cert_chain(certificates.client, certificates.client_key)
    return context


def server_tls(certificates: Certificates, *, asks_certificate: bool = False) -> ssl.SSLContext:
    """What our node needs to talk TLS with a client of these tests."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates.authority)
    context.load_cert_chain(certificates.server, certificates.server_key)
    if asks_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
    return context
