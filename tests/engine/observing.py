"""An observer under test: told what two ends say, frame by frame or in octets between two engines."""

from __future__ import annotations

from typing import Any, TypeVar

from amqpforge.engine.observations import (
    Direction,
    Observation,
    ObserverLimits,
    Owed,
    Rule,
    Unknown,
    Violation,
)
from amqpforge.engine.observer import Observer
from amqpforge_protocol.amqp_1_0 import (
    Attach,
    Begin,
    Detach,
    Disposition,
    Flow,
    FrameReader,
    Open,
    ProtocolHeader,
    Role,
    Source,
    Target,
    Transfer,
    decode_frame,
    decode_protocol_header,
    encode_frame,
)

O = TypeVar("O")  # noqa: E741
NO_LIMIT = 1 << 31


class Overheard:
    """What an observer was told, and has told.

    Attributes:
        observer: the observer.
        told: its observations, in order.
        now: the time of the next item, in seconds, which only the test moves.
    """

    def __init__(self, limits: ObserverLimits | None = None) -> None:
        self.told: list[Observation] = []
        self.observer = Observer(self.told.append, limits or ObserverLimits())
        self.now: float | None = 0.0

    # --- what is told

    def of(self, kind: type[O]) -> list[O]:
        """The observations of one kind so far."""
        return [told for told in self.told if isinstance(told, kind)]

    @property
    def violations(self) -> list[tuple[str, Rule]]:
        """Who broke which rule, so far."""
        return [(found.end, found.rule) for found in self.of(Violation)]

    @property
    def unknown(self) -> list[tuple[str, str]]:
        """What is unknown of whom, so far."""
        return [(found.end, found.text) for found in self.of(Unknown)]

    @property
    def owed(self) -> list[Owed]:
        """What the ends owe each other."""
        return self.observer.owed()

    # --- what happens

    def client(self, *items: Any, channel: int = 0) -> Overheard:
        """The client sends headers, performatives (a pair: with a payload; None: an empty frame)."""
        return self._send("c2s", items, channel)

    def server(self, *items: Any, channel: int = 0) -> Overheard:
        """As :meth:`client`, for the server."""
        return self._send("s2c", items, channel)

    def _send(self, direction: Direction, items: tuple[Any, ...], channel: int) -> Overheard:
        for item in items:
            if isinstance(item, ProtocolHeader):
                self.observer.header(item, direction, self.now)
                continue
            performative, payload = item if isinstance(item, tuple) else (item, b"")
            if performative is None:
                self.observer.frame(channel, None, 0, 8, direction, self.now)
                continue
            if performative.XML_NAME.startswith("sasl"):
                self.observer.sasl_frame(performative, len(performative.encode()) + 8, direction, self.now)
                continue
            size = len(encode_frame(performative, channel, payload))
            self.observer.frame(channel, performative, len(payload), size, direction, self.now)
        return self

    def opened(self, client: dict[str, Any] | None = None, server: dict[str, Any] | None = None) -> Overheard:
        """Headers and opens go both ways; the dictionaries are fields of the opens."""
        self.client(ProtocolHeader(), Open(**{"container_id": "c", **(client or {})}))
        return self.server(ProtocolHeader(), Open(**{"container_id": "s", **(server or {})}))

    def begun(
        self, *, client: int = 0, server: int = 0, windows: tuple[int, int] = (100, 100), **begin: Any
    ) -> Overheard:
        """The client begins a session; the numbers are the channels and the incoming-windows of the two ends.
        The keywords are fields of both begins.
        """
        self.client(a_begin(incoming_window=windows[0], **begin), channel=client)
        return self.server(
            a_begin(remote_channel=client, incoming_window=windows[1], **begin), channel=server
        )

    def attached(self, name: str = "out", *, handles: tuple[int, int] = (0, 0), **attach: Any) -> Overheard:
        """The client attaches a sender; the numbers are the handles of client and server. The keywords are
        fields of both attaches.
        """
        self.client(an_attach(name, handles[0], Role.SENDER, **attach))
        return self.server(an_attach(name, handles[1], Role.RECEIVER, **attach))

    def granted(
        self, credit: int, *, handle: int = 0, count: int | None = 0, seen: int | None = 0, **flow: Any
    ) -> Overheard:
        """The server gives credit, from a delivery-count, having seen so many transfers."""
        return self.server(
            a_flow(handle=handle, link_credit=credit, delivery_count=count, next_incoming_id=seen, **flow)
        )

    def ready(self, credit: int = 10, **begin: Any) -> Overheard:
        """A connection, a session, a link from the client to the server, and credit."""
        return self.opened().begun(**begin).attached().granted(credit)


def a_begin(**fields: Any) -> Begin:
    """A begin; windows of 100."""
    return Begin(**{"next_outgoing_id": 0, "incoming_window": 100, "outgoing_window": 100, **fields})


def an_attach(name: str, handle: int, role: Role, **fields: Any) -> Attach:
    """An attach between a source and a target named q."""
    count = 0 if role is Role.SENDER else None
    return Attach(
        **{
            "name": name,
            "handle": handle,
            "role": role,
            "source": Source(address="q"),
            "target": Target(address="q"),
            "initial_delivery_count": count,
            **fields,
        }
    )


def a_detach(**fields: Any) -> Detach:
    """A detach of handle 0."""
    return Detach(**{"handle": 0, **fields})


def a_flow(**fields: Any) -> Flow:
    """A flow of an end that has sent no transfer; windows of 100."""
    return Flow(
        **{
            "next_incoming_id": 0,
            "incoming_window": 100,
            "next_outgoing_id": 0,
            "outgoing_window": 100,
            **fields,
        }
    )


def a_transfer(id: int | None, *, handle: int = 0, **fields: Any) -> tuple[Transfer, bytes]:
    """A transfer of five octets, with a tag made of its delivery-id."""
    tag = None if id is None else b"%d" % id
    return Transfer(**{"handle": handle, "delivery_id": id, "delivery_tag": tag, **fields}), b"hello"


def settles(
    first: int,
    last: int | None = None,
    *,
    state: Any = None,
    role: Role = Role.RECEIVER,
    settled: bool = True,
) -> Disposition:
    """A disposition, of the receiver unless said otherwise."""
    return Disposition(role=role, first=first, last=last, settled=settled, state=state)  # type: ignore[arg-type]


class Tap:
    """Cuts what passes between two engines into items for an observer."""

    def __init__(self, overheard: Overheard) -> None:
        self._overheard = overheard
        self._readers: dict[Direction, FrameReader] = {
            "c2s": FrameReader(NO_LIMIT),
            "s2c": FrameReader(NO_LIMIT),
        }

    def feed(self, direction: Direction, octets: bytes) -> None:
        """The next octets of a direction pass the capture point."""
        observer, now = self._overheard.observer, self._overheard.now
        for item in self._readers[direction].feed(octets):
            if item.startswith(b"AMQP"):
                observer.header(decode_protocol_header(item)[0], direction, now)
                continue
            frame, size = decode_frame(item)
            if frame.channel is None:
                observer.sasl_frame(frame.performative, size, direction, now)
            else:
                observer.frame(frame.channel, frame.performative, len(frame.payload), size, direction, now)
