"""Carries octets between a socket and the engine of one connection, and calls the engine when time is up.

There is one call of ``write`` for all that was asked for in one turn of the event loop, and one timer for the
connection.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, cast

from amqpforge.engine.sasl_layer import SaslClient
from amqpforge.errors import AmqpforgeError, NegotiationFailed
from amqpforge.sasl import Computed, ServerReply, Work

if TYPE_CHECKING:
    from amqpforge.client.tap import Tap
    from amqpforge.engine.connection import Connection
    from amqpforge.engine.layers import Stack

__all__ = ["Driver", "is_loopback", "peer_name"]

_HIGH_WATER: Final = 262_144
_MOST_ANSWERS: Final = 1 << 20
"""Octets that wait while the transport takes none: messages end far below it, answers may be any number."""
_PATIENCE: Final = 5.0
"""Seconds that a peer has to take what is written, once the connection is over."""

_log = logging.getLogger("amqpforge.transport")


class Driver(asyncio.Protocol):
    """The protocol of asyncio around a stack of layers with a connection on top.

    Attributes:
        octets_received: octets that came in so far.
        lost: done when the transport is gone.
        error: what the transport broke with; None if it just ended.
        was_dropped: whether it was the end of the transport, and nothing that the peer said, that ended what
            the layers had to negotiate.
        flushed: called after the engine was asked for its output: what waited may be on its way now.
    """

    def __init__(
        self,
        stack: Stack[Connection],
        report: Callable[[Sequence[Any]], None],
        *,
        tls: tuple[ssl.SSLContext, str | None] | None = None,
        tap: Tap | None = None,
    ) -> None:
        """Drive an engine.

        Args:
            stack: the layers, and the connection.
            report: takes what the engine tells, in batches.
            tls: the context and the name of the server, for TLS that a protocol header asks for; None for the
                name: this is the server.
            tap: sees all octets, as they are inside TLS.
        """
        self._stack = stack
        self._engine = stack.connection
        self._report = report
        self._tls = tls
        self._tap = tap
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._layer: asyncio.Task[None] | None = None
        self._is_awake = False
        self._is_blocked = False
        self._is_lost = False
        self._is_ending = False
        self._is_securing = False
        self._early = bytearray()  # What came behind the end of the handshake, ahead of our hearing of that.
        self._reads = True
        self.octets_received = 0
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self.error: BaseException | None = None
        self.was_dropped = False
        self.flushed: Callable[[], None] = _nothing

    # --- what the connection asks for -------------------------------------------------------------------

    @property
    def mechanism(self) -> str | None:
        """The SASL mechanism in use; None without one."""
        return self._stack.sasl.mechanism if self._stack.sasl is not None else None

    @property
    def offered_mechanisms(self) -> tuple[str, ...]:
        """The SASL mechanisms that the peer offers; none without SASL."""
        sasl = self._stack.sasl
        return sasl.offered if isinstance(sasl, SaslClient) else ()

    @property
    def tls_version(self) -> str | None:
        """The version of TLS in use, such as ``TLSv1.3``; None without TLS."""
        inside = self._transport.get_extra_info("ssl_object") if self._transport is not None else None
        return inside.version() if inside is not None else None

    def wake(self) -> None:
        """There may be something to send: it goes out at the end of this turn of the loop."""
        if not self._is_awake:
            self._is_awake = True
            self._loop.call_soon(self._flush)

    def abort(self) -> None:
        """Drop the transport; what waits is not written."""
        if self._layer is not None:
            self._layer.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()

    # --- what asyncio tells -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)
        if is_loopback(transport):
            self._stack.is_private = True
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._tap is not None:
            self._tap.received(data)
        self.octets_received += len(data)
        if self._is_securing:
            self._early += data
            return
        self._stack.receive(data, self._now())
        self._after_input()

    def eof_received(self) -> bool:
        self._end_input()
        self._flush()
        return False  # Of what is written by now nothing is lost; then the transport closes.

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_lost:
            return
        if exc is not None:
            _log.debug("the transport is lost: %s", exc)
            self.error = self.error or exc
        self._is_lost = True
        self._transport = None
        self._end_input()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._tap is not None:
            self._tap.ended()
        if not self.lost.done():
            self.lost.set_result(None)

    def pause_writing(self) -> None:
        self._is_blocked = True

    def resume_writing(self) -> None:
        self._is_blocked = False
        self.wake()

    # --- turns ------------------------------------------------------------------------------------------

    def _end_input(self) -> None:
        stack = self._stack
        is_blameless = stack.error is None and not isinstance(self.error, ssl.SSLError | AmqpforgeError)
        stack.end_of_input(self._now())
        self.was_dropped = self.was_dropped or (is_blameless and stack.error is not None)
        self._after_input()

    def _after_input(self) -> None:
        stack = self._stack
        happened = stack.events()
        if happened:
            self._report(happened)
        if stack.work is not None or stack.wants_tls:
            self._negotiate()
        self._read_or_wait()
        if not self._is_awake:
            self._is_awake = True
            self._loop.call_soon(self._flush)

    def _read_or_wait(self) -> None:
        """Read on, but not as long as input has to wait, or answers pile up that the peer does not read."""
        is_behind = self._is_blocked and self._engine.output.size >= _MOST_ANSWERS
        reads = self._stack.wants_input and not is_behind
        if self._reads is not reads and self._transport is not None:
            self._reads = reads
            if reads:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _flush(self) -> None:
        self._is_awake = False
        transport = self._transport
        if transport is not None:
            try:
                self._write_out(transport)
            except Exception as error:  # A fault of ours must not leave a connection that never moves again.
                _log.exception("the engine failed")
                self.error = error
                transport.abort()

    def _write_out(self, transport: asyncio.Transport) -> None:
        stack = self._stack
        if not self._is_blocked:
            octets = stack.data_to_send(self._now())
            if octets:
                if self._tap is not None:
                    self._tap.sent(octets)
                transport.write(octets)
            happened = stack.events()
            if happened:
                self._report(happened)
            self.flushed()
            if self._engine.ready and not self._is_blocked:
                self.wake()
        self._read_or_wait()
        if stack.is_over or stack.error is not None:
            self._end(transport)
        else:
            self._arm()

    def _end(self, transport: asyncio.Transport) -> None:
        """Close the transport behind what is written, and drop it if the peer does not take that."""
        if not self._is_ending:
            self._is_ending = True
            transport.close()
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(_PATIENCE, transport.abort)

    def _arm(self) -> None:
        """See that the engine is called at its deadline; an earlier call does no harm."""
        deadline = self._stack.next_deadline()
        if deadline is None:
            return
        timer = self._timer
        if timer is not None:
            if timer.when() <= deadline:
                return
            timer.cancel()
        self._timer = self._loop.call_at(deadline, self._on_deadline)

    def _on_deadline(self) -> None:
        self._timer = None
        blocked, self._is_blocked = self._is_blocked, False  # What the clock asks for is little.
        self._flush()
        self._is_blocked = self._is_blocked or blocked

    # --- layers -----------------------------------------------------------------------------------------

    def _negotiate(self) -> None:
        """Do what a layer asks for outside of the event loop's thread, or of the transport."""
        if self._layer is not None:
            return
        work = self._stack.work
        self._layer = self._loop.create_task(self._start_tls() if work is None else self._compute(work))
        self._layer.add_done_callback(self._negotiated)

    def _negotiated(self, task: asyncio.Task[None]) -> None:
        self._layer = None
        error = None if task.cancelled() else task.exception()
        if error is None and not task.cancelled():
            self._after_input()
            return
        self.error = self.error or error
        self.abort()
        # As long as hands are shaken for TLS nobody tells that the transport is lost.
        self._loop.call_soon(self.connection_lost, None)

    async def _compute(self, work: Work[bytes] | Work[ServerReply]) -> None:
        """PBKDF2 and the like take too long for the loop."""
        computed: Computed = await self._loop.run_in_executor(None, work.run)
        self._stack.resume(computed, self._now())

    async def secure(self, context: ssl.SSLContext, name: str | None, first: bytes) -> str | None:
        """Go on with TLS on the transport; for those to override whose transport has a way of its own.

        Args:
            context: for TLS.
            name: that of the server; None: this is the server.
            first: octets of TLS that have come by now.

        Returns:
            The common name in the peer's certificate; None without one.

        Raises:
            NegotiationFailed: the transport was lost, or octets have come too early.
            OSError: TLS cannot be agreed on.
        """
        if first:
            raise NegotiationFailed("the peer sent octets of TLS ahead of our answer")
        transport, secured = self._transport, None
        self._is_securing = True
        try:
            if transport is not None:
                secured = await self._loop.start_tls(
                    transport, self, context, server_hostname=name, server_side=name is None
                )
        finally:
            self._is_securing = False
        if secured is None:
            raise NegotiationFailed("the transport was lost where TLS was to begin")
        self._transport = secured
        return peer_name(secured)

    async def _start_tls(self) -> None:
        stack, transport = self._stack, self._transport
        if self._tls is None or transport is None:
            raise NegotiationFailed("TLS was asked for without a context for it")
        octets = stack.data_to_send(self._now())
        if octets:
            transport.write(octets)
        context, name = self._tls
        stack.tls_established(await self.secure(context, name, stack.octets_for_tls()))
        early, self._early = self._early, bytearray()
        stack.receive(early, self._now())


def peer_name(transport: asyncio.BaseTransport) -> str | None:
    """The common name in the certificate that the peer has shown; None without one, or without TLS."""
    certificate = transport.get_extra_info("peercert") or {}
    for part in certificate.get("subject", ()):
        for entry in part:
            if entry[0] == "commonName":
                return str(entry[1])
    return None


def is_loopback(transport: asyncio.BaseTransport) -> bool:
    """Whether the other end of a transport is on this machine."""
    peer = transport.get_extra_info("peername")
    if not isinstance(peer, tuple):
        return True  # A socket of the file system.
    try:
        return ip_address(str(peer[0]).partition("%")[0]).is_loopback
    except ValueError:
        return False


def _nothing() -> None:
    """Nobody waits."""
