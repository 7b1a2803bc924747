"""What comes in behind the protocol header: octets to frames, and frames to the endpoints that they are for.

Sections 2.3 and 2.4. Frames are read one by one, in order. One that is legal but early stays, and all that is
behind it stays with it: more frames, octets that are no frame, the end of the input.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from amqpforge.errors import LocalError, ProtocolViolation
from amqpforge_protocol.amqp_1_0 import (
    AmqpConnectionError,
    AmqpError,
    Begin,
    Close,
    ConnectionEvent,
    ConnectionState,
    DecodeError,
    EncodeError,
    End,
    FrameReader,
    Open,
    SessionError,
    SessionState,
    Transfer,
    decode_performative,
)
from amqpforge_protocol.amqp_1_0.states import IGNORED

from .events import Begun
from .held import Held
from .routing import ROUTES
from .session import Session
from .tables import LinkFault, SessionFault

if TYPE_CHECKING:
    from .channels import Channels
    from .connection import Connection

__all__ = ["Input"]

_unpack_header: Final = Struct(">IBBH").unpack_from
_RECEIVE_FRAME: Final = ConnectionEvent.RECEIVE_FRAME
_OPEN_RCVD: Final = ConnectionState.OPEN_RCVD
_OWN: Final = frozenset(kind for kind, route in ROUTES.items() if route.session is None)


class Input:
    """Reads what the peer sends on one connection.

    Attributes:
        frames: frames that came in so far, empty ones included.
    """

    __slots__ = (
        "_channel_max",
        "_channels",
        "_connection",
        "_garbage",
        "_has_ended",
        "_held",
        "_is_garbled",
        "_is_reading",
        "_limits",
        "_reader",
        "frames",
    )

    def __init__(self, connection: Connection, channels: Channels) -> None:
        settings = connection.settings
        self.frames = 0
        self._connection = connection
        self._channels = channels
        self._channel_max = settings.channel_max
        self._limits = settings.limits
        self._reader = FrameReader(settings.max_frame_size)
        self._held: deque[bytes] = deque()
        self._is_reading = False
        self._is_garbled = False  # There is no telling where the next frame begins.
        self._garbage: DecodeError | None = None  # What is to be said of that, behind what is held.
        self._has_ended = False

    @property
    def is_held(self) -> bool:
        """Whether there are frames that wait for a step of ours."""
        return bool(self._held)

    def feed(self, data: bytes | bytearray | memoryview) -> bool:
        """Take octets, and read what they complete; returns whether that is a frame at least."""
        if self._is_garbled:
            return False
        items: list[bytes] = []
        reader = self._reader
        try:
            items = reader.feed(data)
            if items and reader.pending:
                reader.feed(b"")  # What follows a whole frame and is malformed is told only now.
        except DecodeError as error:
            self._is_garbled = True
            self._garbage = error
        self.frames += len(items)
        self._held.extend(items)
        self.read_on()
        return bool(items)

    def end(self) -> None:
        """Nothing more comes in."""
        self._has_ended = True
        self.read_on()

    def stop(self) -> None:
        """Forget what was not read: the connection is over."""
        self._held.clear()
        self._garbage = None

    def read_on(self) -> None:
        """Read what was held, up to what has to be held now."""
        if self._is_reading:
            return
        self._is_reading = True
        held = self._held
        try:
            while held:
                item = held.popleft()
                try:
                    try:
                        self._read(item)
                    except ProtocolViolation as fault:
                        self._blame(item, fault)
                except Held:
                    if self._is_awaited(item):
                        held.appendleft(item)
                        return
                except (LocalError, EncodeError) as error:
                    self._connection.ending.fail_ourselves(error)
            if self._garbage is not None:
                garbage, self._garbage = self._garbage, None
                self._connection.ending.on_malformed(garbage)
            if self._has_ended:
                self._connection.ending.on_end_of_input()
        finally:
            self._is_reading = False

    # --- one frame ---

    def _read(self, item: bytes) -> None:
        size, doff, frame_type, channel = _unpack_header(item)
        connection = self._connection
        target = connection.row[_RECEIVE_FRAME]
        if frame_type or channel > self._channel_max or size != len(item):
            self._check(item, frame_type, channel)
            return
        body = doff * 4
        if body == size:
            connection.take(ConnectionEvent.RECEIVE_EMPTY)
            return
        if target == IGNORED:  # Only a close counts, if anything does.
            self._discard(item, body)
            return
        performative: Any
        try:
            performative, payload = decode_performative(item, body, limits=self._limits)
        except DecodeError as error:
            self._undecodable(error)
            return
        kind = type(performative)
        if target < 0 or kind in _OWN:
            self._take_own(performative, channel)
            return
        if connection.state is _OPEN_RCVD:
            raise Held
        session = self._channels.incoming.get(channel)
        if kind is Transfer and session is not None:
            session.on_transfer(performative, item[payload:])
        elif kind is Begin:
            self._on_begin(performative, channel)
        elif session is None:
            raise ProtocolViolation(
                AmqpError.ILLEGAL_STATE,
                f"{performative.XML_NAME} came on channel {channel}, where no session is",
            )
        else:
            session.receive(performative)
            if kind is End:
                self._channels.incoming.pop(channel, None)

    def _take_own(self, performative: Any, channel: int) -> None:
        """A frame that the connection handles, or one that is too early."""
        connection = self._connection
        if type(performative) is Open:
            if channel:
                raise ProtocolViolation(AmqpError.NOT_ALLOWED, f"open came on channel {channel}, not on 0")
            if connection.state is ConnectionState.HDR_RCVD:
                raise Held
            connection.opening.on_open(performative)
        elif type(performative) is Close:
            if connection.state is ConnectionState.OPEN_RCVD:
                raise Held
            connection.ending.on_close(performative)
        else:
            connection.take(_RECEIVE_FRAME)

    def _check(self, item: bytes, frame_type: int, channel: int) -> None:
        """A frame of another type, a protocol header, or a channel beyond ours."""
        if item.startswith(b"AMQP"):
            self._connection.take(ConnectionEvent.RECEIVE_OTHER_HEADER)
        elif self._connection.row[ConnectionEvent.RECEIVE_MALFORMED] == IGNORED:
            return
        elif frame_type:
            raise ProtocolViolation(
                AmqpConnectionError.FRAMING_ERROR, f"a frame of type {frame_type} is no AMQP frame"
            )
        else:
            raise ProtocolViolation(
                AmqpConnectionError.FRAMING_ERROR,
                f"channel {channel} is beyond our channel-max of {self._channel_max}",
            )

    def _undecodable(self, error: DecodeError) -> None:
        """A whole frame came in whose body cannot be decoded."""
        try:
            self._connection.take(ConnectionEvent.RECEIVE_UNDECODABLE)
        except ProtocolViolation as fault:
            raise ProtocolViolation(fault.condition, str(error)) from error

    def _discard(self, item: bytes, body: int) -> None:
        """Throw a frame away unseen, unless it is the close that ends the waiting."""
        if self._connection.row[ConnectionEvent.RECEIVE_CLOSE] == IGNORED:
            return
        try:
            performative, _ = decode_performative(item, body, limits=self._limits)
        except DecodeError:
            return
        if type(performative) is Close:
            self._connection.ending.on_close(performative)

    def _on_begin(self, begin: Begin, channel: int) -> None:
        """Begin answers one of ours, or starts a session, if the channel is free."""
        incoming = self._channels.incoming
        connection = self._connection
        known = incoming.get(channel)
        if known is not None:
            known.receive(begin)
            return
        if begin.remote_channel is None:
            session = Session(connection, connection.settings.session, is_remote=True)
        else:
            found = self._channels.outgoing.get(begin.remote_channel)
            if found is None or found.remote_channel is not None:
                raise ProtocolViolation(
                    AmqpError.NOT_ALLOWED,
                    f"begin on channel {channel} answers {begin.remote_channel}, where none is awaited",
                )
            session = found
        session.remote_channel = channel
        incoming[channel] = session
        session.receive(begin)
        connection.tell(Begun(session, begin))
        session.after_begin()

    # --- what goes wrong ---

    def _blame(self, item: bytes, fault: ProtocolViolation) -> None:
        """Close the link, end the session or close the connection, as the fault says."""
        session = self._channels.incoming.get(_unpack_header(item)[3])
        if isinstance(fault, LinkFault):
            fault.link.fail(fault)
        elif not isinstance(fault, SessionFault) or session is None:
            self._connection.ending.fail(fault)
        elif (
            fault.condition == SessionError.HANDLE_IN_USE
        ):  # Its field says that the connection goes (2.7.3).
            self._connection.ending.fail(fault)
        else:
            session.fail(fault)

    def _is_awaited(self, item: bytes) -> bool:
        """Whether the step of ours that a frame waits for can still come; else nobody misses the frame."""
        if self._connection.output_closed:
            return False
        session = self._channels.incoming.get(_unpack_header(item)[3])
        return session is None or session.state is not SessionState.END_SENT
