"""What the tests of links share: frames of a peer in short, and two containers whose connections break."""

from __future__ import annotations

from typing import Any

from amqpforge.engine import events
from amqpforge.engine.connection import Connection
from amqpforge.engine.container import Container
from amqpforge.engine.delivery import IncomingDelivery
from amqpforge.engine.link import Link
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.engine.session import Session
from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge_protocol.amqp_1_0 import (
    Attach,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    FrameReader,
    Handle,
    Role,
    Source,
    Target,
    Transfer,
    decode_frame,
)
from tests.engine.joined import NO_LIMIT, Joined, Scripted, a_receiver, a_sender

X, Y = Source(address="x"), Target(address="y")


def a_detach(**fields: Any) -> Detach:
    return Detach(**fields)


def a_transfer(**fields: Any) -> Transfer:
    return Transfer(**fields)


def a_disposition(**fields: Any) -> Disposition:
    return Disposition(**fields)


def attach(name: str = "n", handle: int = 0, role: Role = Role.SENDER, **fields: Any) -> Attach:
    """An attach of the peer; as a sender it counts from 0."""
    count = 0 if role is Role.SENDER else None
    whole = {"source": X, "target": Y, "initial_delivery_count": count, **fields}
    return Attach(name=name, handle=Handle(handle), role=role, **whole)


def flow(handle: int | None = 0, **fields: Any) -> Flow:
    """A flow of the peer, whose windows are wide open."""
    windows = {
        "next_incoming_id": 0,
        "incoming_window": 10_000,
        "next_outgoing_id": 0,
        "outgoing_window": 10_000,
    }
    return Flow(**{**windows, "handle": handle, **fields})


def transfer(id: int, tag: bytes | None = None, handle: int = 0, **fields: Any) -> Transfer:
    """The first transfer of a delivery."""
    whole = {"message_format": 0, **fields}
    return a_transfer(handle=handle, delivery_id=id, delivery_tag=tag or b"%d" % id, **whole)


def disposition(role: Role, first: int, last: int | None = None, **fields: Any) -> Disposition:
    return a_disposition(role=role, first=first, last=last, **fields)


def condition(frame: Close | End | Detach) -> str | None:
    return None if frame.error is None else str(frame.error.condition)


def names(peer: Scripted) -> list[str]:
    """What the engine has written, by name."""
    return [type(frame.performative).__name__ for frame in peer.sent if frame.performative is not None]


def kinds(frames: list[Any]) -> list[str]:
    """Frames by name."""
    return [type(frame.performative).__name__ for frame in frames]


def scripted(
    settings: ConnectionSettings | None = None,
    *,
    container: Container | None = None,
    session: SessionSettings | None = None,
    open: dict[str, Any] | None = None,
    **begin: Any,
) -> tuple[Scripted, Session]:
    """A peer whose connection is open, and a session on it."""
    peer = Scripted(settings, container=container).opened(**(open or {}))
    return peer, peer.begun(session, **begin)


def sending(credit: int = 0, *, mode: dict[str, Any] | None = None, **attach: Any) -> tuple[Scripted, Sender]:
    """A sender that is attached, with credit."""
    peer, session = scripted()
    link: Sender = peer.attached(session, a_sender("n", **(mode or {})), **attach)
    if credit:
        peer.feed(flow(link_credit=credit, delivery_count=0))
    peer.sent.clear()
    return peer, link


def receiving(
    credit: int = 0, *, mode: dict[str, Any] | None = None, **attach: Any
) -> tuple[Scripted, Receiver]:
    """A receiver that is attached, and has given credit."""
    peer, session = scripted()
    link: Receiver = peer.attached(session, a_receiver("n", **(mode or {})), **attach)
    if credit:
        link.flow(credit)
        peer.flush()
    peer.sent.clear()
    return peer, link


def delivered(peer: Scripted) -> list[IncomingDelivery]:
    """The messages that the engine has handed out."""
    return [one for event in peer.told(events.Deliveries) for one in event.deliveries]


class Severed:
    """Two containers, and connections between them that are cut and made anew.

    Attributes:
        joined: the connection at hand.
        session: the client's session on it.
        came: what the server's receivers have handed out, of all connections.
    """

    def __init__(self, settings: ConnectionSettings | None = None) -> None:
        self.containers = (Container("client"), Container("server"))
        self.settings = settings
        self.came: list[IncomingDelivery] = []
        self.joined, self.session = self._connect()

    def _connect(self) -> tuple[Joined, Session]:
        joined = Joined(self.settings, self.settings, containers=self.containers, on_event=self._note)
        return joined, joined.open()

    def _note(self, engine: Connection, event: Any) -> None:
        if isinstance(event, events.Deliveries):
            self.came += event.deliveries

    def cut(self) -> None:
        """The transport breaks: what was written and not carried is lost."""
        self.joined.client.lose()
        self.joined.server.lose()
        for engine in (self.joined.client, self.joined.server):
            self.joined.react(engine)

    def carry_frames(self, count: int) -> None:
        """Carry the first frames of what the client has written; the others are lost with the connection."""
        octets = self.joined.client.data_to_send(0.0)
        for item in FrameReader(NO_LIMIT).feed(octets)[:count]:
            self.joined.server.receive(item, 0.0)
        self.joined.react(self.joined.server)

    def resume(self, *links: Link) -> Joined:
        """A new connection, on which the client's links are attached again."""
        self.joined, self.session = self._connect()
        for link in links:
            self.session.attach(link)
        self.joined.run()
        return self.joined

    def sender(self, credit: int = 100, **options: Any) -> tuple[Sender, Receiver]:
        """Both ends of a link on which the client sends."""
        link = a_sender("n", **options)
        self.session.attach(link)
        self.joined.run()
        receiver: Receiver = self.joined.peer_of(link)
        receiver.flow(credit)
        self.joined.run()
        return link, receiver


def frames(joined: Joined, engine: Connection, kind: type[Any] | None = None) -> list[Any]:
    """The frames that an engine has written, as performatives with their payload."""
    reader = FrameReader(NO_LIMIT)
    found = []
    for giver, octets in joined.octets:
        if giver is engine:
            for item in reader.feed(octets):
                if not item.startswith(b"AMQP"):
                    found.append(decode_frame(item)[0])
    return [one for one in found if kind is None or type(one.performative) is kind]
