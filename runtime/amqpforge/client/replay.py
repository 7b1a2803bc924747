"""A recorded connection, played again through the engine: one end is the engine's, the other the recording's.

What the recorded end did is done again, frame by frame, and what its peer said comes in as it did. An engine
that still behaves as it did then writes the same frames; only a message that was written piece by piece may
be cut into other transfers, because it is given whole now.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from amqpforge.capture.reader import CaptureReader
from amqpforge.capture.record import Header, Record
from amqpforge.engine.connection import Connection
from amqpforge.engine.container import Container
from amqpforge.engine.delivery import OutgoingDelivery
from amqpforge.engine.events import Attached, Begun, Event
from amqpforge.engine.link import Link
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.engine.session import Session
from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    FrameReader,
    LinkState,
    Open,
    ProtocolHeader,
    ProtocolId,
    Role,
    Symbol,
    Transfer,
    decode_frame,
)

__all__ = ["Replayed", "replay"]

_LARGEST: Final = 1 << 28
_pack_header = struct.Struct(">IBBH").pack


@dataclass(slots=True)
class Replayed:
    """What came of a replay.

    Attributes:
        recorded: the frames that the end wrote when it was recorded, as ``(channel, performative)``.
        written: those that the engine has written now.
        events: what the engine has told, in order.
        engine: the engine, as it is at the end.
    """

    engine: Connection
    recorded: list[tuple[int, Any]] = field(default_factory=list)
    written: list[tuple[int, Any]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def of(self, kind: type) -> tuple[list[Any], list[Any]]:
        """The performatives of one class: as recorded, and as written now."""
        return (
            [performative for _, performative in self.recorded if type(performative) is kind],
            [performative for _, performative in self.written if type(performative) is kind],
        )


def replay(
    path: str | os.PathLike[str], *, stream: int = 0, end: Literal["client", "server"] = "client"
) -> Replayed:
    """Play one connection of a capture again.

    Args:
        path: the capture: what ``record`` of ``connect`` has written, or any that has whole connections.
        stream: which one, from 0.
        end: whose part the engine plays.

    Raises:
        LocalError: the capture has no such connection, or none of AMQP 1.0 without TLS; or the engine does
            not allow for what was recorded.
        CaptureError: the file is no capture.
        OSError: it cannot be read.
    """
    own = "c2s" if end == "client" else "s2c"
    with Path(path).open("rb") as file:
        reader = CaptureReader(file.read, remark=_ignore, streams=[stream])
        records = [record for record in reader.records() if record.kind not in ("sasl", "error")]
    opens = [record.value for record in records if record.direction == own and type(record.value) is Open]
    if not opens:
        raise LocalError(f"{os.fspath(path)} has no connection {stream} that was opened in AMQP 1.0")
    messages = _messages(record for record in records if record.direction == own)
    player = _Player(opens[0], _begins(records, own), messages, is_server=end == "server")
    for record in records:
        if record.direction == own:
            player.act(record)
        else:
            player.hear(record)
    return player.result


def _begins(records: Iterable[Record], own: str) -> SessionSettings:
    """The settings of sessions: those of the first one that the end began."""
    for record in records:
        if record.direction == own and type(record.value) is Begin:
            begin = record.value
            return SessionSettings(
                incoming_window=begin.incoming_window,
                outgoing_window=begin.outgoing_window,
                handle_max=begin.handle_max,
                next_outgoing_id=begin.next_outgoing_id,
            )
    return SessionSettings()


@dataclass(slots=True)
class _Message:
    """A message that the end has sent.

    Attributes:
        payload: its octets.
        is_whole: whether all of it was sent; else it was broken off.
        delivery: the engine's delivery of one that is broken off.
    """

    payload: bytearray = field(default_factory=bytearray)
    is_whole: bool = False
    delivery: OutgoingDelivery | None = None


def _messages(records: Iterable[Record]) -> dict[int, _Message]:
    """The messages in the transfers of an end, by the identity of the record where each begins, or ends by
    an abort.
    """
    found: dict[int, _Message] = {}
    open: dict[tuple[int | None, int], _Message] = {}
    for record in records:
        transfer = record.value
        if type(transfer) is not Transfer:
            continue
        key = record.channel, transfer.handle
        message = open.get(key)
        if message is None:
            message = open[key] = found[id(record)] = _Message()
        message.payload += record.octets[len(record.octets) - record.payload_bytes :]
        if transfer.aborted:
            found[id(record)] = message
        if transfer.aborted or not transfer.more:
            message.is_whole = not transfer.aborted
            del open[key]
    return found


class _Player:
    """Does again what one end has done."""

    def __init__(
        self, open: Open, session: SessionSettings, messages: dict[int, _Message], *, is_server: bool
    ) -> None:
        settings = ConnectionSettings(
            hostname=open.hostname,
            max_frame_size=open.max_frame_size,
            channel_max=open.channel_max,
            idle_time_out=None if open.idle_time_out is None else open.idle_time_out / 500,
            offered_capabilities=tuple(map(Symbol, open.offered_capabilities or ())),
            desired_capabilities=tuple(map(Symbol, open.desired_capabilities or ())),
            properties=open.properties or {},
            session=session,
            auto_answer=False,
        )
        engine = Connection(settings, Container(open.container_id), is_server=is_server)
        self.result = Replayed(engine)
        self._engine = engine
        self._reader = FrameReader(_LARGEST)
        self._has_header = False
        self._sessions: dict[int, Session] = {}
        self._begun: dict[int, Session] = {}  # By the peer, on its channel.
        self._asked: dict[tuple[str, Role], Link] = {}
        self._links: dict[tuple[int, int], Link] = {}
        self._messages = messages

    def hear(self, record: Record) -> None:
        """The peer's frame comes in."""
        octets = _octets(record)
        if octets:
            self._engine.receive(octets, _now(record))
            self._collect(record)

    def act(self, record: Record) -> None:
        """The end's own frame is written, by doing what leads to it.

        Raises:
            LocalError: the engine does not allow for it.
        """
        if isinstance(record.value, Header):
            if record.value.protocol_id == ProtocolId.AMQP and not self._has_header:
                self._has_header = True
                self._engine.send_header()
        elif record.kind == "amqp":
            channel = record.channel or 0
            self.result.recorded.append((channel, record.value))
            self._do(record, channel, record.value)
        self._collect(record)

    def _collect(self, record: Record) -> None:
        for event in self._engine.events():
            self.result.events.append(event)
            if isinstance(event, Begun) and event.session.is_remote:
                self._begun[event.session.remote_channel or 0] = event.session
            elif isinstance(event, Attached):
                self._asked[event.link.name, event.link.role] = event.link
        for item in self._reader.feed(self._engine.data_to_send(_now(record))):
            if not item.startswith(b"AMQP"):
                frame = decode_frame(item)[0]
                if frame.performative is not None:
                    self.result.written.append((frame.channel or 0, frame.performative))

    def _do(self, record: Record, channel: int, performative: Any) -> None:
        kind = type(performative)
        if kind is Open:
            self._engine.open()
        elif kind is Close:
            self._engine.close(performative.error)
        elif kind is Begin:
            self._begin(channel, performative)
        elif kind is End:
            self._session(channel).end(performative.error)
        elif kind is Attach:
            self._attach(channel, performative)
        elif kind is Detach:
            link = self._link(channel, performative.handle)
            if link.state is not LinkState.CLOSE_SENT:  # A refusal has closed already.
                link.detach(performative.error, closed=performative.closed)
        elif kind is Flow:
            self._flow(channel, performative)
        elif kind is Transfer:
            if performative.aborted:
                self._abort(self._messages.get(id(record)))
            else:
                self._transfer(channel, performative, self._messages.get(id(record)))
        elif kind is Disposition:
            self._dispose(channel, performative)

    def _begin(self, channel: int, begin: Begin) -> None:
        if begin.remote_channel is None:
            session = self._engine.session()
        else:
            session = self._begun[begin.remote_channel]
        self._sessions[channel] = session
        session.begin()

    def _attach(self, channel: int, attach: Attach) -> None:
        link = self._asked.get((attach.name, attach.role))
        if link is not None and link.state is LinkState.ATTACH_RCVD:
            terminus = attach.source if attach.role is Role.SENDER else attach.target
            link.rcv_settle_mode, link.snd_settle_mode = attach.rcv_settle_mode, attach.snd_settle_mode
            if terminus is None:
                raise LocalError(f"the link {attach.name!r} was refused: a refusal cannot be replayed")
            link.attach(source=attach.source, target=attach.target)
        else:
            link = _new_link(attach)
            self._session(channel).attach(link)
        if isinstance(link, Sender):
            link.auto_drain = False
        self._links[channel, attach.handle] = link

    def _flow(self, channel: int, flow: Flow) -> None:
        if flow.handle is None:
            return  # The engine tells its windows by itself.
        link = self._link(channel, flow.handle)
        if isinstance(link, Receiver):
            link.flow(flow.link_credit, drain=flow.drain, echo=flow.echo)
        elif isinstance(link, Sender) and flow.drain and not flow.link_credit:
            link.drained()  # What else a sender tells of its flow state it tells by itself.

    def _transfer(self, channel: int, transfer: Transfer, message: _Message | None) -> None:
        if message is None:
            return  # It goes on with one that the engine has got whole.
        link = self._link(channel, transfer.handle)
        if not isinstance(link, Sender):
            raise LocalError(f"a transfer was recorded on {link!r}, which receives")
        options: dict[str, Any] = {
            "tag": transfer.delivery_tag,
            "settled": bool(transfer.settled),
            "state": transfer.state,
            "message_format": transfer.message_format or 0,
            "rcv_settle_mode": transfer.rcv_settle_mode,
            "batchable": transfer.batchable,
        }
        if message.is_whole:
            link.send(bytes(message.payload), **options)
        else:
            message.delivery = link.start_message(**options)
            message.delivery.write(bytes(message.payload))

    def _abort(self, message: _Message | None) -> None:
        if message is not None and message.delivery is not None:
            message.delivery.abort()

    def _dispose(self, channel: int, disposition: Disposition) -> None:
        session = self._session(channel)
        known: dict[int, Any] = session.incoming if disposition.role is Role.RECEIVER else session.outgoing
        last = disposition.first if disposition.last is None else disposition.last
        span = (last - disposition.first) & 0xFFFF_FFFF
        for number in list(known):
            if (number - disposition.first) & 0xFFFF_FFFF <= span:
                known[number].update(disposition.state, settled=disposition.settled)

    def _session(self, channel: int) -> Session:
        session = self._sessions.get(channel)
        if session is None:
            raise LocalError(f"a frame was recorded on channel {channel}, where no session was begun")
        return session

    def _link(self, channel: int, handle: int) -> Link:
        link = self._links.get((channel, handle))
        if link is None:
            raise LocalError(f"a frame was recorded for handle {handle}, which no link has")
        return link


def _new_link(attach: Attach) -> Link:
    kind = Sender if attach.role is Role.SENDER else Receiver
    link: Link = kind(
        attach.name,
        source=attach.source,
        target=attach.target,
        snd_settle_mode=attach.snd_settle_mode,
        rcv_settle_mode=attach.rcv_settle_mode,
        max_message_size=attach.max_message_size,
        offered_capabilities=tuple(attach.offered_capabilities or ()),
        desired_capabilities=tuple(attach.desired_capabilities or ()),
        properties=attach.properties,
        auto_settle=False,
    )
    return link


def _octets(record: Record) -> bytes:
    """A record as it was on the wire; empty for a header of a layer below."""
    if isinstance(record.value, Header):
        header = ProtocolHeader(*record.value)
        return header.encode() if header.protocol_id == ProtocolId.AMQP else b""
    return _pack_header(len(record.octets) + 8, 2, 0, record.channel or 0) + record.octets


def _now(record: Record) -> float:
    return (record.time or 0) / 1e9


def _ignore(remark: str) -> None:
    """What is odd about a capture as a whole does no harm here."""
