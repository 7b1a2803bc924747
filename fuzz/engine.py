"""Whatever a peer sends, in whatever pieces, an engine takes it without an exception and writes legal frames.

Legal: a protocol header, then whole frames that can be decoded, within the peer's limit, open first and
nothing behind close. It asks to be called at no time that is past; and once the input has ended the
connection is over, unless the application owes an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from amqpforge.engine import events
from amqpforge.engine.connection import Connection
from amqpforge.engine.container import Container
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    FrameReader,
    Limits,
    LinkState,
    Open,
    ProtocolHeader,
    Role,
    Source,
    Target,
    Transfer,
    decode_frame,
    encode_frame,
)
from fuzz.invariants import Check

__all__ = ["BEGUN", "CHECKS", "HAS_LINKS", "HEADER", "MESSAGE", "check_connection", "seeds"]

IS_SERVER, BY_HAND, HAS_LINKS, STREAMS = 1, 2, 4, 8
PIECES = (1 << 30, 1, 7, 64)
"""How long the pieces are in which the octets come in; the two bits above the four choose."""

HEADER = ProtocolHeader().encode()
MESSAGE = b"\x00\x53\x77\xa1\x05hello"
LARGEST_FRAME = 4096
IDLE = 10.0
_NO_LIMIT = 1 << 31
_REFUSED: Any = Error(condition="amqp:not-found")


@dataclass
class Driven:
    """An engine, and an application that answers what it is told: it attaches every second link, refuses the
    others, grants credit, settles, and sends what it may.
    """

    engine: Connection
    told: list[events.Event] = field(default_factory=list)
    frames: list[Any] = field(default_factory=list)
    reader: FrameReader = field(default_factory=lambda: FrameReader(_NO_LIMIT))
    now: float = 0.0

    def turn(self) -> None:
        """Let the application do what it does, and look at what the engine writes."""
        for _ in range(3):
            told = self.engine.events()
            for event in told:
                with suppress(LocalError):
                    self._answer(event)
            self.told += told
            self._look(self.engine.data_to_send(self.now))
            deadline = self.engine.next_deadline()
            assert deadline is None or deadline > self.now

    def _answer(self, event: events.Event) -> None:
        if isinstance(event, events.Opened) and self.engine.is_server:
            self.engine.open()
        elif isinstance(event, events.Begun) and event.session.is_remote:
            event.session.begin()
        elif isinstance(event, events.Attached) and event.link.state is LinkState.ATTACH_RCVD:
            if len(event.link.name) % 2:
                event.link.refuse(_REFUSED)
            else:
                event.link.attach()
                if isinstance(event.link, Receiver):
                    event.link.flow(3)
        elif isinstance(event, events.Credit):
            event.link.send(MESSAGE * 300)
        elif isinstance(event, events.Deliveries):
            for delivery in event.deliveries:
                delivery.settle(Accepted())
        elif isinstance(event, events.Partial):
            event.delivery.read()
        elif isinstance(event, events.Ended):
            event.session.end()
        elif isinstance(event, events.Detached):
            event.link.detach()
        elif isinstance(event, events.Closed):
            self.engine.close()

    def _look(self, octets: bytes) -> None:
        for item in self.reader.feed(octets):
            if item.startswith(b"AMQP"):
                assert not self.frames
                continue
            frame, end = decode_frame(item)
            assert end == len(item)
            assert len(item) <= self.engine.peer_max_frame_size
            last = self.frames[-1].performative if self.frames else None
            assert isinstance(frame.performative, Open) is (not self.frames)
            assert not isinstance(last, Close)
            self.frames.append(frame)
        assert self.reader.pending == 0


def check_connection(data: bytes) -> None:
    """The first octet says what engine it is, and in what pieces the others come to it."""
    if not data:
        return
    flags, octets = data[0], data[1:]
    driven = Driven(_engine(flags))
    size = PIECES[(flags >> 4) % len(PIECES)]
    if flags & HAS_LINKS:
        _feed(driven, BEGUN[driven.engine.is_server], 1 << 30)
    _feed(driven, octets, size)
    driven.engine.end_of_input(driven.now)
    driven.turn()
    if not driven.engine.is_over:  # The application has left something unanswered, as it may.
        assert not driven.engine.wants_input
        driven.engine.lose()
        driven.turn()
    assert driven.engine.is_over
    assert driven.engine.next_deadline() is None
    assert driven.engine.sessions == {}
    assert sum(isinstance(event, events.Closed) for event in driven.told) == 1


def _engine(flags: int) -> Connection:
    settings = ConnectionSettings(
        max_frame_size=LARGEST_FRAME,
        channel_max=3,
        idle_time_out=IDLE,
        auto_answer=not flags & BY_HAND,
        limits=Limits(elements=10_000),
        session=SessionSettings(incoming_window=8, handle_max=3),
    )
    is_server = bool(flags & IS_SERVER)
    engine = Connection(settings, Container("ours"), is_server=is_server)
    if is_server and flags & BY_HAND:
        engine.send_header()
    if not is_server:
        engine.open()
        session = engine.session()
        session.begin()
        if flags & HAS_LINKS:
            session.attach(Sender("out", source=Source(), target=Target(address="q")))
            streams = bool(flags & STREAMS)
            session.attach(Receiver("in", source=Source(address="q"), target=Target(), streams=streams))
    return engine


def _feed(driven: Driven, octets: bytes, size: int) -> None:
    driven.turn()
    for start in range(0, len(octets), size):
        driven.engine.receive(octets[start : start + size], driven.now)
        driven.turn()
        driven.now += 0.001


# ---- what the peer says to begin with ----


def _frames(*performatives: Any) -> bytes:
    return b"".join(
        encode_frame(one[0], 0, one[1]) if isinstance(one, tuple) else encode_frame(one)
        for one in performatives
    )


def _attach(name: str, handle: int, role: Role) -> Any:
    fields: Any = {"initial_delivery_count": None if role is Role.RECEIVER else 7}
    number: Any = handle
    return Attach(name=name, handle=number, role=role, source=Source(), target=Target(), **fields)


def _opening(*, is_server: bool) -> list[Any]:
    numbers: Any = {"next_outgoing_id": 5, "incoming_window": 9, "outgoing_window": 9}
    answers: Any = {} if is_server else {"remote_channel": 0}
    return [Open(container_id="theirs"), Begin(**answers, **numbers)]


def _with_links(*, is_server: bool) -> list[Any]:
    names = ("to", "from") if is_server else ("in", "out")
    credit: Any = {"handle": 1, "delivery_count": 0, "link_credit": 3}
    windows: Any = {"incoming_window": 9, "next_outgoing_id": 5, "outgoing_window": 9}
    return [
        *_opening(is_server=is_server),
        _attach(names[0], 0, Role.SENDER),
        _attach(names[1], 1, Role.RECEIVER),
        Flow(**windows, **credit),
    ]


BEGUN = {is_server: HEADER + _frames(*_with_links(is_server=is_server)) for is_server in (False, True)}
"""What brings an engine to the state with links, by whether it is a server."""


def seeds() -> Iterator[bytes]:
    """Conversations that an engine takes part in to their end, for every kind of engine."""
    numbers: Any = {"handle": 0, "delivery_id": 0, "delivery_tag": b"x"}
    more: Any = {"handle": 0, "more": True}
    zero: Any = {"handle": 0}
    one: Any = {"handle": 1}
    told: Any = {"role": Role.RECEIVER, "first": 0, "last": 2, "settled": True, "state": Accepted()}
    traffic = _frames(
        (Transfer(**numbers), MESSAGE),
        Disposition(**told),
        (Transfer(**{**numbers, **more, "delivery_id": 1, "delivery_tag": b"y"}), MESSAGE),
        (Transfer(**zero), MESSAGE),
        Detach(**zero),
        _attach("again", 0, Role.SENDER),
        Detach(**one, closed=True),
        End(),
        Close(),
    )
    for flags in range(64):
        is_server = bool(flags & IS_SERVER)
        if flags & HAS_LINKS:
            yield bytes((flags,)) + traffic
        else:
            yield bytes((flags,)) + HEADER + _frames(*_opening(is_server=is_server), End(), Close())
            yield bytes((flags,)) + BEGUN[is_server] + traffic


CHECKS: dict[str, Check] = {"connection": check_connection}
"""The checks by name."""
