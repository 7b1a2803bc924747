"""The life of a connection: its transports, one after the other, from the first to the last."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from amqpforge.engine.container import Container
from amqpforge.engine.headers import HeaderRefused
from amqpforge.engine.settings import SessionSettings
from amqpforge.errors import AmqpforgeError, ConnectionClosed, LocalError, OperationTimedOut
from amqpforge.url import Url
from amqpforge_protocol.amqp_1_0 import ProtocolId

from .options import Options, Reconnect
from .reconnecting import come_back, is_final
from .redirects import redirected
from .sessions import Sessions
from .waiting import DEFAULT, Timeout, fresh, time_limit
from .wire import Wire

if TYPE_CHECKING:
    from amqpforge.transport import Driver

__all__ = ["Lifeline"]

_LAST_WORDS: Final = 1.0
"""Seconds that the transport has to go once both ends have closed."""

_STEADY: Final = 10.0
"""A connection that lived for so many seconds is worth a short pause."""

_log = logging.getLogger("amqpforge.connection")


class Lifeline:
    """What makes a connection, keeps it, makes it again when it is lost, and closes it.

    :class:`.connection.Connection` is this with links on it.
    """

    def __init__(self, urls: Sequence[Url], options: Options) -> None:
        self._loop = asyncio.get_running_loop()
        self._options = options
        self._urls = list(urls)
        self._container = Container(options.container_id)
        self._sessions = Sessions(self, SessionSettings(handle_max=options.handle_max))
        self._wire: Wire | None = None
        self._wake: Callable[[], None] = _nobody  # There may be something to send: the driver has to know.
        self._parting: Driver | None = None  # What carried the connection that was lost last.
        self._watchers: dict[Any, None] = {}
        self._returning: asyncio.Task[None] | None = None
        self._error: AmqpforgeError | None = None
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._is_closing = False
        self._reconnects = 0
        self._delays: Iterator[float] | None = None
        self._up_at = 0.0
        self._past = [0, 0, 0, 0]

    # --- what applications see --------------------------------------------------------------------------

    @property
    def url(self) -> Url:
        """Where the connection goes; while there is none, where it will be tried first."""
        return self._wire.url if self._wire is not None else self._urls[0]

    @property
    def is_open(self) -> bool:
        """Whether it is of use: not closed, and not given up. It may be lost just now."""
        return not self._is_closing and not self._over.done()

    @property
    def is_connected(self) -> bool:
        """Whether there is a transport just now, and both ends are open."""
        return self._wire is not None and not self._wire.ended.done()

    @property
    def error(self) -> AmqpforgeError | None:
        """Why it is over; None while it is not, or if it was closed from here."""
        return self._error

    async def wait_closed(self) -> None:
        """Wait until the connection is over.

        Raises:
            AmqpforgeError: it was not closed from here, but given up: why.
        """
        await asyncio.shield(self._over)
        if self._error is not None:
            raise fresh(self._error)

    async def close(self, *, timeout: Timeout = DEFAULT) -> None:
        """Close the connection and all that is on it; nothing happens if it is over already.

        Messages that came in and that nobody has taken are released. Whatever the peer answers, or does not
        answer, this ends within ``timeout`` seconds.
        """
        if self._is_closing or self._over.done():
            await asyncio.shield(self._over)
            await self._part(timeout)
            return
        self._is_closing = True
        if self._returning is not None:
            self._returning.cancel()
        wire = self._wire
        for link in self._sessions.links:
            link._close_soon()
        try:
            if wire is not None and not wire.ended.done():
                wire.engine.close()
                wire.wake()
                async with time_limit(self._limit(timeout), f"closing the connection to {wire.url}"):
                    await wire.ended
            await self._part(timeout)
        except OperationTimedOut as error:
            _log.warning("%s: the peer does not answer", error)
        finally:
            if wire is not None:
                wire.abort()
            self._finish(None)

    # --- for links and sessions -------------------------------------------------------------------------

    @property
    def _recovers(self) -> bool:
        """Whether what is lost is made again."""
        return self._options.reconnect is not None and not self._is_closing

    def _limit(self, timeout: Timeout) -> float | None:
        """A time-out in seconds; None: no limit."""
        return timeout if timeout is None or isinstance(timeout, int | float) else self._options.timeout

    def _watch(self, watcher: Any) -> None:
        """Have ``_look`` of a sender, or of a stream, called when output has gone out."""
        self._watchers[watcher] = None

    def _check(self) -> None:
        if self._error is not None:
            raise fresh(self._error)
        if not self.is_open:
            raise LocalError(f"{self!r} is closed")

    async def _part(self, timeout: Timeout) -> None:
        """See the last transport off: what is written goes out, if the peer takes it in time."""
        limit = self._limit(timeout)
        lost = self._parting.lost if self._parting is not None else None
        leaving = [one for one in (lost, self._returning) if one is not None]
        try:
            if leaving:
                await asyncio.wait(leaving, timeout=_LAST_WORDS if limit is None else min(_LAST_WORDS, limit))
        finally:
            if self._parting is not None:
                self._parting.abort()

    # --- coming and going -------------------------------------------------------------------------------

    async def _establish(self, url: Url) -> None:
        """Make a transport to a URL, or where the peer there sends us, open the connection on it, and bring
        back what was there.

        Raises:
            AmqpforgeError: why there is no connection.
        """
        for _ in range(self._options.redirects):
            try:
                await self._establish_there(url)
            except ConnectionClosed as error:
                onward = redirected(url, error)
                if onward is None:
                    raise
                _log.info("%s sends us on to %s, the host %s", url, onward, onward.hostname)
                url = onward
            else:
                return
        await self._establish_there(url)

    async def _establish_there(self, url: Url) -> None:
        credentials = self._options.credentials_for(url)
        wire = Wire(url, self._options, self._container, self._sessions)
        try:
            await wire.open(credentials, is_known=self._up_at > 0)
        except HeaderRefused as refusal:
            is_anonymous = credentials.username is None and self._options.credentials is None
            received = refusal.received
            if not is_anonymous or received is None or received.protocol_id != ProtocolId.AMQP:
                raise
            # There is nothing to prove, and the peer says how it wants to be spoken to: without SASL.
            wire = Wire(url, self._options, self._container, self._sessions)
            await wire.open(None, is_known=self._up_at > 0)
        self._adopt(wire)

    def _adopt(self, wire: Wire) -> None:
        self._wire = wire
        self._up_at = self._loop.time()
        wire.closed = self._on_lost
        if wire.driver is not None:
            wire.driver.flushed = self._on_flushed
            self._wake = wire.driver.wake
        self._sessions.up(wire.engine)
        wire.wake()

    def _on_flushed(self) -> None:
        watchers = self._watchers
        if watchers:
            for watcher in list(watchers):
                watcher._look()
                if not watcher._is_watching:
                    watchers.pop(watcher, None)

    def _on_lost(self, error: AmqpforgeError | None) -> None:
        """The transport is over, or about to be."""
        reason = error or ConnectionClosed("the connection was closed")
        self._past = [past + now for past, now in zip(self._past, self._present(), strict=True)]
        wire, self._wire, self._wake = self._wire, None, _nobody
        if wire is not None:
            self._parting = wire.driver
        if self._is_closing or self._over.done():
            return
        _log.info("%s is lost: %s", wire.url if wire is not None else self, reason)
        policy = self._options.reconnect
        if policy is None or is_final(reason):
            self._finish(reason)
            return
        onward = None
        if policy.redirects and wire is not None and isinstance(reason, ConnectionClosed):
            onward = redirected(wire.url, reason)
        self._sessions.down(reason)
        self._returning = self._loop.create_task(come_back(self, policy, reason, onward))

    def _pauses(self, policy: Reconnect) -> Iterator[float]:
        """The pauses ahead of the next attempts; they go on growing if the connection did not last."""
        if self._delays is None or self._loop.time() - self._up_at > _STEADY:
            self._delays = policy._delays()
        return self._delays

    def _returned(self) -> None:
        """There is a connection again."""
        self._reconnects += 1
        self._returning = None

    def _give_up(self, error: AmqpforgeError) -> None:
        """There will be no connection any more."""
        self._returning = None
        self._finish(error)

    def _finish(self, error: AmqpforgeError | None) -> None:
        if self._over.done():
            return
        self._error = error
        self._over.set_result(None)
        self._sessions.fail(error or ConnectionClosed("the connection was closed from here"))
        self._watchers.clear()

    def _present(self) -> list[int]:
        wire = self._wire
        if wire is None:
            return [0, 0, 0, 0]
        engine = wire.engine
        octets_received = wire.driver.octets_received if wire.driver is not None else 0
        return [engine.frames_received, engine.output.frames, octets_received, engine.output.octets]


def _nobody() -> None:
    """There is no transport."""
