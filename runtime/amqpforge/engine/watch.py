"""What a connection does by the clock: empty frames, and giving up on a silent peer (section 2.4.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqpforge_protocol.amqp_1_0 import ConnectionEvent, ConnectionState

from .idle import IdleClock, Timer

if TYPE_CHECKING:
    from .connection import Connection

__all__ = ["Watch"]

_SEND_EMPTY: Final = ConnectionEvent.SEND_EMPTY
_AWAITS_US: Final = frozenset((ConnectionState.HDR_RCVD, ConnectionState.OPEN_RCVD, ConnectionState.END))


class Watch:
    """The clock of one connection, looked at whenever there may be something to write.

    Attributes:
        idle: silence both ways.
        timer: runs while the answer to a close, or the end of the input, is awaited; nothing else counts
            then.
    """

    __slots__ = ("_connection", "idle", "timer")

    def __init__(self, connection: Connection) -> None:
        settings = connection.settings
        self._connection = connection
        self.idle = IdleClock(settings.idle_time_out, settings.assumed_idle_time_out)
        self.timer = Timer()

    def deadline(self) -> float | None:
        """When to look next even if nothing happens; None: never."""
        if self.timer.is_running:
            return self.timer.deadline
        deadlines = (
            self.idle.output_deadline() if self._may_write_empty else None,
            self.idle.input_deadline() if self._awaits_input else None,
        )
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def look(self, now: float) -> None:
        """Do what is due."""
        self.idle.look(now)
        if not self.timer.is_running:
            self._look_at_silence(now)
        if self.timer.is_due(now):
            self._connection.ending.time_is_up()

    def _look_at_silence(self, now: float) -> None:
        connection, idle = self._connection, self.idle
        if not self._awaits_input:
            idle.last_input = now
        elif idle.has_expired(now):
            connection.ending.expire(idle.threshold or 0)
            return
        if idle.remote is None or not self._may_write_empty:
            return
        if connection.state is ConnectionState.OPENED and idle.has_overrun(now):
            connection.ending.overrun()
        elif idle.is_output_due(now) and not connection.output.size:
            connection.output.add_empty()

    @property
    def _may_write_empty(self) -> bool:
        return self._connection.row[_SEND_EMPTY] >= 0

    @property
    def _awaits_input(self) -> bool:
        """Whether it is the peer's turn, so that its silence counts."""
        return self._connection.state not in _AWAITS_US and self._connection.wants_input
