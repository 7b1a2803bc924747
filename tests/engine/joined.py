"""Two ways to drive an engine without sockets: against a scripted peer, and joined to another engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from amqpforge.engine import events
from amqpforge.engine.connection import Connection
from amqpforge.engine.container import Container
from amqpforge.engine.link import Link
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.engine.session import Session
from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge_protocol.amqp_1_0 import (
    Attach,
    Begin,
    FrameReader,
    LinkState,
    Open,
    ProtocolHeader,
    Role,
    Source,
    Target,
    decode_frame,
    encode_frame,
)

E = TypeVar("E")

HEADER = ProtocolHeader().encode()
NO_LIMIT = 1 << 31
BODY = b"\x00\x53\x77\xa1\x05hello"
"""A message: an amqp-value of one string."""


class Scripted:
    """An engine, and the peer that the test plays: frames go in as performatives, and come out as such.

    Attributes:
        engine: the engine under test.
        now: the time, in seconds, which only the test moves.
        events: what the engine has told, in order.
        sent: the frames that the engine has written, in order, empty ones included.
        headers: the protocol headers that it has written.
    """

    def __init__(
        self,
        settings: ConnectionSettings | None = None,
        *,
        is_server: bool = False,
        container: Container | None = None,
    ) -> None:
        self.engine = Connection(
            settings or ConnectionSettings(), container or Container("ours"), is_server=is_server
        )
        self.now = 0.0
        self.events: list[Any] = []
        self.sent: list[Any] = []
        self.headers: list[bytes] = []
        self._reader = FrameReader(NO_LIMIT)

    def feed(self, *frames: Any, channel: int = 0) -> list[Any]:
        """Let frames of the peer come in at once; returns the frames that the engine writes in answer.

        A frame is octets, as they are; a performative; or a pair of a transfer and its payload.
        """
        octets = b""
        for frame in frames:
            if isinstance(frame, bytes):
                octets += frame
            elif isinstance(frame, tuple):
                octets += encode_frame(frame[0], channel, frame[1])
            else:
                octets += encode_frame(frame, channel)
        self.engine.receive(octets, self.now)
        return self.flush()

    def flush(self) -> list[Any]:
        """Collect events and output; returns the frames that are new."""
        octets = self.engine.data_to_send(self.now)  # The clock may bring events, too.
        self.events += self.engine.events()
        written = []
        for item in self._reader.feed(octets):
            if item.startswith(b"AMQP"):
                self.headers.append(item)
            else:
                written.append(decode_frame(item)[0])
        self.sent += written
        return written

    def told(self, kind: type[E]) -> list[E]:
        """The events of one kind so far."""
        return [event for event in self.events if type(event) is kind]

    def written(self, kind: type[E]) -> list[E]:
        """The performatives of one kind that the engine has written so far."""
        return [frame.performative for frame in self.sent if type(frame.performative) is kind]

    def opened(self, **open: Any) -> Scripted:
        """Exchange headers and opens; the keywords are fields of the peer's open."""
        if self.engine.is_server:
            self.feed(HEADER, Open(**{"container_id": "peer", **open}))
            self.engine.open()
        else:
            self.engine.open()
            self.feed(HEADER, Open(**{"container_id": "peer", **open}))
        self.flush()
        return self

    def begun(self, settings: SessionSettings | None = None, *, channel: int = 0, **begin: Any) -> Session:
        """Begin a session, which the peer answers on ``channel``; the keywords are fields of its begin."""
        session = self.engine.session(settings)
        session.begin()
        fields = {
            "remote_channel": session.channel,
            "next_outgoing_id": 0,
            "incoming_window": 1000,
            "outgoing_window": 1000,
            **begin,
        }
        self.feed(Begin(**fields), channel=channel)
        return session

    def attached(
        self, session: Session, link: Link, *, handle: int = 0, channel: int = 0, **attach: Any
    ) -> Any:
        """Attach a link, which the peer answers with ``handle``; the keywords are fields of its attach."""
        session.attach(link)
        is_sender = link.role is Role.SENDER
        fields: dict[str, Any] = {
            "name": link.name,
            "handle": handle,
            "role": Role.RECEIVER if is_sender else Role.SENDER,
            "source": link.source,
            "target": link.target,
            "initial_delivery_count": None if is_sender else 0,
            **attach,
        }
        self.feed(Attach(**fields), channel=channel)
        return link


class Joined:
    """Two engines joined in memory: a client, and a server that accepts what the client asks for.

    Attributes:
        client: the connecting end.
        server: the accepting end.
        now: the time, in seconds.
        events: what each has told, by engine.
        on_event: called for each event of either, ahead of what the server does by itself.
        octets: what has gone each way, ``(sender, octets)``.
    """

    def __init__(
        self,
        client: ConnectionSettings | None = None,
        server: ConnectionSettings | None = None,
        *,
        on_event: Callable[[Connection, Any], None] | None = None,
        containers: tuple[Container, Container] | None = None,
    ) -> None:
        ours, theirs = containers or (Container("client"), Container("server"))
        self.client = Connection(client or ConnectionSettings(), ours)
        self.server = Connection(server or ConnectionSettings(), theirs, is_server=True)
        self.now = 0.0
        self.events: dict[Connection, list[Any]] = {self.client: [], self.server: []}
        self.on_event = on_event
        self.octets: list[tuple[Connection, bytes]] = []

    def run(self, rounds: int = 1000) -> None:
        """Carry octets to and fro until both are quiet."""
        for _ in range(rounds):
            moved = [self.carry(self.client, self.server), self.carry(self.server, self.client)]
            if not any(moved):
                return
        raise AssertionError(f"the engines are not quiet after {rounds} rounds")

    def carry(self, giver: Connection, taker: Connection) -> bool:
        """Carry what one engine has written to the other; returns whether there was anything."""
        self.react(giver)
        octets = giver.data_to_send(self.now)
        if octets:
            self.octets.append((giver, octets))
            taker.receive(octets, self.now)
        self.react(giver)  # The clock may have brought events.
        self.react(taker)
        return bool(octets)

    def open(self) -> Session:
        """Open the connection and begin a session, which is returned."""
        self.client.open()
        session = self.client.session()
        session.begin()
        self.run()
        return session

    def told(self, engine: Connection, kind: type[E]) -> list[E]:
        """The events of one kind that an engine has told."""
        return [event for event in self.events[engine] if type(event) is kind]

    def peer_of(self, link: Link) -> Any:
        """The other end of a link of the client."""
        role = Role.RECEIVER if link.role is Role.SENDER else Role.SENDER
        for session in self.server.sessions.values():
            found = session.links.get((link.name, role))
            if found is not None:
                return found
        raise AssertionError(f"the server has no end of {link!r}")

    def react(self, engine: Connection) -> None:
        """Note what an engine has told; the server answers."""
        for event in engine.events():
            self.events[engine].append(event)
            if self.on_event is not None:
                self.on_event(engine, event)
            if engine is self.server:
                _accept(engine, event)


def _accept(engine: Connection, event: Any) -> None:
    if isinstance(event, events.Opened):
        engine.open()
    elif isinstance(event, events.Attached) and event.link.state is LinkState.ATTACH_RCVD:
        event.link.attach()


def a_sender(name: str = "out", **options: Any) -> Sender:
    """A sender to a node named q."""
    return Sender(name, **{"source": Source(), "target": Target(address="q"), **options})


def a_receiver(name: str = "in", **options: Any) -> Receiver:
    """A receiver from a node named q."""
    return Receiver(name, **{"source": Source(address="q"), "target": Target(), **options})


def state_of(endpoint: Any) -> Any:
    """Where an endpoint stands now. A checker of types takes a state that was asserted once to stay."""
    return endpoint.state
