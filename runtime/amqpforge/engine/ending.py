"""How a connection ends: what the peer is told about it, and what the application (section 2.4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqpforge.errors import ConnectionClosed, ConnectionLost, LocalError, ProtocolViolation
from amqpforge_protocol.amqp_1_0 import (
    AmqpError,
    Close,
    ConnectionEvent,
    ConnectionState,
    DecodeError,
    EncodeError,
    Error,
)
from amqpforge_protocol.amqp_1_0.states import IGNORED

from .events import Closed
from .tables import as_error

if TYPE_CHECKING:
    from .connection import Connection

__all__ = ["Ending"]


class Ending:
    """The end of one connection.

    Attributes:
        error: why the connection is over; None while it is not, or if it was closed without an error.
        is_told: whether the application knows that nothing more comes in.
        is_draining: whether what the peer sends is only read to be thrown away, after headers that differ.
    """

    __slots__ = ("_close_was_clean", "_connection", "error", "is_draining", "is_told")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.error: ConnectionClosed | None = None
        self.is_told = False
        self.is_draining = False
        self._close_was_clean = True

    # --- what the peer does ---

    def on_our_close(self, error: Error | None) -> None:
        """Our close is out: the peer's is awaited, unless it came first."""
        connection = self._connection
        self._close_was_clean = error is None
        if connection.state is ConnectionState.END:
            self.over(None, by_peer=True)
        else:
            connection.watch.timer.start(connection.settings.close_time_out)

    def discard_after_error(self) -> None:
        """The peer's open came behind our close: after an error all else but its close is thrown away."""
        if not self._close_was_clean:
            self._connection.enter(ConnectionState.DISCARDING)

    def on_close(self, close: Close) -> None:
        """The peer's close is in.

        Raises:
            ProtocolViolation: it must not come now.
        """
        connection = self._connection
        connection.step(ConnectionEvent.RECEIVE_CLOSE)
        if self.error is None and close.error is not None:
            self.error = ConnectionClosed("the peer closed the connection", close.error)
        if connection.state is ConnectionState.END:
            self.over(None, by_peer=False)
        elif connection.settings.auto_answer:
            connection.close()
        else:
            self._report(by_peer=True)

    def on_malformed(self, error: DecodeError) -> None:
        """Octets came in that begin no frame: nothing that follows can be read."""
        try:
            self._connection.take(ConnectionEvent.RECEIVE_MALFORMED)
        except ProtocolViolation as fault:
            self.fail(ProtocolViolation(fault.condition, str(error)))

    def on_end_of_input(self) -> None:
        """Nothing more comes in, and all that came is read."""
        connection = self._connection
        if connection.row[ConnectionEvent.RECEIVE_END] == IGNORED:
            return
        text = "the transport ended without a close"
        if not connection.opening.has_header:
            text = "the peer ended the transport without a protocol header"
        self.over(ConnectionLost(text), by_peer=True)

    # --- what goes wrong ---

    def fail(self, fault: ProtocolViolation) -> None:
        """Close because of what the peer is, or does."""
        told = as_error(fault)
        error = ConnectionClosed("the peer broke the protocol", told)
        error.__cause__ = fault
        self._close_for(error, told)

    def fail_ourselves(self, cause: Exception) -> None:
        """Close because what has to be answered cannot be; if nothing can be written, nobody waits for it."""
        if self._connection.output_closed:
            return
        told = as_error(ProtocolViolation(AmqpError.INTERNAL_ERROR, str(cause)))
        error = ConnectionClosed("the connection cannot go on", told)
        error.__cause__ = cause
        self._close_for(error, told)

    def expire(self, threshold: float) -> None:
        """The peer was silent for ``threshold`` seconds: say so, and wait no longer than that again."""
        error = ConnectionLost(f"nothing came in for {threshold} s")
        if not self._connection.opening.has_header:
            self.over(error, by_peer=True)
            return
        self._close_for(error, _limit_exceeded(str(error)), by_peer=True)
        self._connection.watch.timer.start(threshold)

    def overrun(self) -> None:
        """We were silent for longer than the peer bears."""
        told = _limit_exceeded("we were silent for longer than the idle-time-out of the peer allows")
        self._close_for(ConnectionClosed("the connection was not kept alive", told), told)

    def mismatch(self, error: ConnectionClosed) -> None:
        """The headers differ: nothing more is written, and what comes in is thrown away until it ends."""
        connection = self._connection
        self.over(error, by_peer=True)
        self.is_draining = not connection.input_ended
        if self.is_draining:
            connection.watch.timer.start(connection.settings.close_time_out)

    def time_is_up(self) -> None:
        """What was awaited, the answer to our close or the end of the input, has not come in time."""
        self.is_draining = False
        self.over(ConnectionLost("the peer did not answer the close in time"), by_peer=True)

    def _close_for(self, error: ConnectionClosed, told: Error, *, by_peer: bool = False) -> None:
        """Close and tell the peer why; where no close may be sent any more, drop the transport."""
        connection = self._connection
        try:
            connection.opening.ensure_open()  # A close cannot be the first frame.
        except (LocalError, EncodeError):
            if connection.state is ConnectionState.END:  # Its header is one that we do not speak.
                return
        if connection.row[ConnectionEvent.SEND_CLOSE_ERROR] < 0:
            self.over(error, by_peer=by_peer)
            return
        self.error = self.error or error
        connection.close(told)
        connection.lose_sessions()
        self._report(by_peer=by_peer)

    # --- over ---

    def over(self, error: ConnectionClosed | None, *, by_peer: bool) -> None:
        """The transport is gone, or not to be used any more."""
        self.error = self.error or error
        self._connection.stop()
        self._report(by_peer=by_peer)

    def _report(self, *, by_peer: bool) -> None:
        if not self.is_told:
            self.is_told = True
            self._connection.tell(Closed(self.error, by_peer))


def _limit_exceeded(description: str) -> Error:
    return Error(condition=AmqpError.RESOURCE_LIMIT_EXCEEDED, description=description)
