"""How a connection comes about: the protocol headers, the opens, and what waits for them (sections 2.2, 2.4.1
and 2.4.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqpforge.errors import LocalError, ProtocolViolation
from amqpforge_protocol.amqp_1_0 import (
    MIN_MAX_FRAME_SIZE,
    AmqpError,
    Begin,
    ConnectionEvent,
    ConnectionState,
    Open,
)
from amqpforge_protocol.amqp_1_0.states import CONNECTION_TRANSITIONS, IGNORED

from .agreement import our_open
from .events import Opened
from .negotiation import Negotiation

if TYPE_CHECKING:
    from .connection import Connection

__all__ = ["UNOPENED", "Opening"]

UNOPENED = frozenset(
    state for state in ConnectionState if CONNECTION_TRANSITIONS[state][ConnectionEvent.SEND_OPEN] >= 0
) | {ConnectionState.START, ConnectionState.HDR_RCVD}
"""The states in which our open is still to come."""


class Opening:
    """The beginning of one connection.

    Attributes:
        waiting: frames, and their channels, that no peer has to take before its open is known.
    """

    __slots__ = ("_connection", "_negotiation", "waiting")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._negotiation = Negotiation(connection.settings.versions, is_server=connection.is_server)
        self.waiting: list[tuple[int, Any]] = []

    @property
    def has_header(self) -> bool:
        """Whether the peer's protocol header is in."""
        return self._negotiation.received is not None

    # --- headers ---

    def send_header(self) -> None:
        """Send the protocol header.

        Raises:
            LocalError: it is sent already.
        """
        connection = self._connection
        event, header = self._negotiation.choose()
        connection.step(event)
        self._negotiation.sent = header
        connection.output.add(header.encode())
        if event is ConnectionEvent.SEND_OTHER_HEADER:
            connection.ending.mismatch(self._negotiation.failure())

    def take_header(self, data: bytes | bytearray | memoryview) -> bytes:
        """Look for the peer's protocol header; returns what follows it."""
        connection = self._connection
        event, rest = self._negotiation.read(data)
        if event is None:
            return b""
        connection.step(event)
        if connection.state is ConnectionState.END:
            connection.ending.mismatch(self._negotiation.failure())
        elif self._negotiation.sent is None and (connection.settings.auto_answer or not self.has_header):
            self.send_header()
        return rest

    # --- opens ---

    def send_open(self) -> None:
        """Send open, and the protocol header ahead of it if it is not out.

        Raises:
            LocalError: it is sent already, the connection is over, or the open is larger than the peer takes.
            EncodeError: what it is to tell cannot be encoded.
        """
        connection = self._connection
        idle = connection.watch.idle
        body = our_open(connection.settings, connection.container.id, idle.announced).encode()
        connection.require_fit(len(body), Open.XML_NAME)
        if self._negotiation.sent is None:
            self.send_header()
        connection.step(ConnectionEvent.SEND_OPEN)
        connection.output.add_frame(0, body)
        idle.last_input = None  # From now on the peer can know how silent it may be.

    def ensure_open(self) -> None:
        """Send open, if the peer's header is in and our open is not out: it has to be the first frame.

        Raises:
            LocalError: it cannot be sent.
            EncodeError: it cannot be encoded.
        """
        if self.has_header and self._connection.state in UNOPENED:
            self.send_open()

    def on_open(self, open: Open) -> None:
        """The peer's open is in.

        Raises:
            ProtocolViolation: it must not come now, or has an illegal value.
        """
        connection = self._connection
        was_piped = connection.state is ConnectionState.CLOSE_PIPE
        if connection.row[ConnectionEvent.RECEIVE_OPEN] == IGNORED:
            return
        connection.step(ConnectionEvent.RECEIVE_OPEN)
        if was_piped:
            connection.ending.discard_after_error()
        connection.remote = open
        if open.max_frame_size < MIN_MAX_FRAME_SIZE:
            raise ProtocolViolation(
                AmqpError.INVALID_FIELD,
                f"a max-frame-size of {open.max_frame_size} is below the least, {MIN_MAX_FRAME_SIZE}",
            )
        connection.peer_max_frame_size = min(open.max_frame_size, connection.settings.max_frame_size)
        if not connection.ending.is_told:
            connection.tell(Opened(open))
        self.agree()

    def agree(self) -> None:
        """Once both opens are exchanged: see that they agree, and let go what waited for that."""
        connection = self._connection
        remote = connection.remote
        if remote is None or connection.state is not ConnectionState.OPENED:
            return
        connection.watch.idle.keep(remote.idle_time_out)
        missing = connection.agreement.missing_capabilities
        if remote.idle_time_out and remote.idle_time_out < connection.settings.least_idle_time_out * 1000:
            text = f"the idle-time-out of {remote.idle_time_out} ms is too short to be kept"
            connection.ending.fail(ProtocolViolation(AmqpError.NOT_ALLOWED, text))
        elif missing:
            text = f"the peer does not offer {', '.join(missing)}"
            connection.ending.fail(ProtocolViolation(AmqpError.NOT_IMPLEMENTED, text))
        self._let_go()

    def _let_go(self) -> None:
        """Write the frames that waited; a session of which one is beyond the peer's limits is given up."""
        connection = self._connection
        waiting, self.waiting = self.waiting, []
        most = connection.channel_max
        lost: set[int] = set()
        for channel, performative in waiting:
            session = connection.sessions.get(channel)
            if session is None or channel in lost:
                continue
            try:
                if channel > most:
                    raise LocalError(f"channel {channel} is beyond the channel-max of both ends, {most}")
                connection.write(channel, performative)
            except LocalError as error:
                lost.add(channel)
                session.give_up(error, is_begun=type(performative) is not Begin)
