"""The way of frames between a wire and the driver of an engine, past the script of a stand."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from amqpforge.errors import NegotiationFailed

from .gate import Gate, Passage
from .seen import Cutter, look_at
from .wire import Wire

if TYPE_CHECKING:
    from .served import ServedConnection

__all__ = ["Relay"]

_LARGEST: Final = 0x7FFF_FFFF


class Relay(asyncio.Transport):
    """The transport of a driver, as far as that can tell. What the driver writes passes the script on its way
    to the wire, and so does what comes in over the wire, frame by frame.

    Attributes:
        wire: the real transport, with the octets counted.
        driver: drives the engine; None until octets can go both ways.
    """

    def __init__(
        self, connection: ServedConnection, context: ssl.SSLContext | None, max_frame_size: int
    ) -> None:
        """Wait for a transport.

        Args:
            connection: what the connection is for tests.
            context: for TLS from the start; None: there is none, or the transport has it already.
            max_frame_size: what is larger, and comes from the client, is taken for no frame.
        """
        super().__init__()
        self._connection = connection
        self._stand = connection.stand
        self._loop = asyncio.get_running_loop()
        self.wire = Wire(self, context)
        self.driver: asyncio.Protocol | None = None
        self._max_frame_size = max_frame_size
        self._cutter = Cutter(max_frame_size)
        self._sent_cutter = Cutter(_LARGEST)
        self._inbox: deque[bytes] = deque()
        self._securing: asyncio.Future[str | None] | None = None
        self._is_wanted = True
        self._is_held = False
        self._held_back = 0
        self._is_closing = False
        self._has_ended = False

    # --- what the wire tells -------------------------------------------------------------------------------

    def on_connected(self) -> None:
        self._stand.accepted_connection(self._connection)

    def on_ready(self, peer_name: str | None) -> None:
        if self.driver is None:
            self.driver = self._connection.new_driver(peer_name)
            self.driver.connection_made(self)
        elif self._securing is not None and not self._securing.done():
            self._securing.set_result(peer_name)

    def on_octets(self, octets: bytes) -> None:
        self._inbox += self._cutter.feed(octets)
        self._take_in()

    def on_input_end(self) -> None:
        if self.driver is None:
            self.wire.cut()
            return
        self._has_ended = True
        self._take_in()

    def on_paused(self) -> None:
        if self.driver is not None:
            self.driver.pause_writing()

    def on_writable(self) -> None:
        if self.driver is not None:
            self.driver.resume_writing()

    def on_lost(self, error: Exception | None) -> None:
        self._inbox.clear()
        if self._securing is not None and not self._securing.done():
            self._securing.set_exception(NegotiationFailed("the transport was lost where TLS was to begin"))
        if self.driver is not None:
            self.driver.connection_lost(error)
        self._stand.lost_connection(self._connection)

    def on_failure(self, error: Exception) -> None:
        self._stand.failed(error)

    def take_cut(self, *, is_written: bool, start: int, size: int) -> int | None:
        return self._stand.script.take_cut(is_written=is_written, start=start, size=size)

    # --- frames that come in -------------------------------------------------------------------------------

    def _take_in(self) -> None:
        """Deal with what has come, up to a frame that is held."""
        driver = self.driver
        while self._may_take and driver is not None:
            passage = self._pass(self._inbox.popleft(), is_sent=False)
            gate = _closed_gate(passage)
            if gate is None:
                self._handle(passage, driver)
            else:
                self._is_held = True
                gate.add(passage.seen, self._let_in(passage, driver))
        self.read_on()
        if self._has_ended and driver is not None and not (self._inbox or self._is_held or self.wire.is_cut):
            self._has_ended = False
            self._end_input(driver)

    @property
    def _may_take(self) -> bool:
        return bool(self._inbox) and self._is_wanted and not self._is_held and not self.wire.is_cut

    def _let_in(self, passage: Passage, driver: asyncio.Protocol) -> Callable[[], None]:
        def go() -> None:
            self._is_held = False
            if not self.wire.is_cut:
                self._handle(passage, driver)
                self._take_in()

        return go

    def _end_input(self, driver: asyncio.Protocol) -> None:
        rest = self._cutter.rest()
        if rest:
            driver.data_received(rest)
        if not driver.eof_received():
            self.close()

    def _handle(self, passage: Passage, driver: asyncio.Protocol) -> None:
        for piece in passage.pieces:
            driver.data_received(piece)
        for action in passage.after:
            action()
        self._stand.changed()

    def read_on(self) -> None:
        """Read, unless that was stopped, or what was read waits still."""
        self.wire.set_reading(not self._inbox)

    def _pass(self, octets: bytes, *, is_sent: bool) -> Passage:
        """Let a frame pass the script."""
        seen = look_at(self._connection, octets, is_sent=is_sent)
        passage = Passage(seen, [octets])
        self._stand.record(seen)
        self._stand.script.meet(passage)
        return passage

    # --- what the driver asks of its transport -------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        octets = bytes(data)
        self.wire.guard(lambda: self._write(octets))

    def _write(self, octets: bytes) -> None:
        for piece in self._sent_cutter.feed(octets):
            passage = self._pass(piece, is_sent=True)
            gate = _closed_gate(passage)
            if gate is None:
                self._send_on(passage)
            else:
                self._held_back += 1
                gate.add(passage.seen, self._let_out(passage))
        self._stand.changed()

    def _let_out(self, passage: Passage) -> Callable[[], None]:
        def go() -> None:
            self._held_back -= 1
            self._send_on(passage)
            if self._is_closing:
                self.close()

        return go

    def _send_on(self, passage: Passage) -> None:
        self.wire.write(b"".join(passage.pieces))
        for action in passage.after:
            action()

    def pause_reading(self) -> None:
        self._is_wanted = False

    def resume_reading(self) -> None:
        self._is_wanted = True
        self._loop.call_soon(self.wire.guard, self._take_in)

    def is_reading(self) -> bool:
        return self._is_wanted

    def close(self) -> None:
        """Close the wire, once all is written that the script lets through; what it holds has to be let go
        first.
        """
        self._is_closing = True
        if not self._held_back:
            self.wire.end()

    def is_closing(self) -> bool:
        return self._is_closing or self.wire.is_cut

    def can_write_eof(self) -> bool:
        return False  # The script lets out what it holds until all is closed.

    def abort(self) -> None:
        self.wire.abandon()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self.wire.transport is not None:
            self.wire.transport.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        raw = self.wire.transport
        return default if raw is None else raw.get_extra_info(name, default)

    async def secure(self, context: ssl.SSLContext, first: bytes) -> str | None:
        """Go on with TLS, which begins with the octets ``first``; returns the name in the client's
        certificate, None without one.

        Raises:
            NegotiationFailed: the transport was lost meanwhile.
        """
        self._securing = self._loop.create_future()
        first += b"".join(self._inbox) + self._cutter.rest()
        self._inbox.clear()
        self._cutter = Cutter(self._max_frame_size)
        self.read_on()
        self.wire.start_tls(context, first)
        return await self._securing


def _closed_gate(passage: Passage) -> Gate | None:
    """The first gate that does not let a frame through."""
    return next((gate for gate in passage.gates if not gate.is_open), None)
