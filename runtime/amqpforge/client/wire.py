"""One transport of a connection, from the first octet to its loss, and where its events go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from amqpforge.engine.connection import Connection as ConnectionEnd
from amqpforge.engine.events import (
    Attached,
    Begun,
    Closed,
    Deliveries,
    Detached,
    Ended,
    FlowReceived,
    Opened,
    Partial,
    Updates,
)
from amqpforge.engine.layers import LayerFailed
from amqpforge.errors import (
    AmqpforgeError,
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionLost,
    NegotiationFailed,
)
from amqpforge_protocol.amqp_1_0 import AmqpError, Error, LinkState

from .dialing import dial
from .waiting import fresh

if TYPE_CHECKING:
    from amqpforge.engine.container import Container
    from amqpforge.sasl import Credentials
    from amqpforge.transport import Driver
    from amqpforge.url import Url

    from .options import Options
    from .sessions import Sessions

__all__ = ["Wire"]

_log = logging.getLogger("amqpforge.connection")


class Wire:
    """A connection of the engine on a transport.

    Attributes:
        url: where it goes.
        engine: the connection.
        driver: what carries its octets; None before there is a transport.
        closed: called once it is over, with the reason: None if both ends have closed it without an error.
        error: the reason.
        ended: done then.
    """

    def __init__(self, url: Url, options: Options, container: Container, sessions: Sessions) -> None:
        self.url = url
        self.engine = ConnectionEnd(options.settings(url), container)
        self.driver: Driver | None = None
        self.error: AmqpforgeError | None = None
        self.closed: Callable[[AmqpforgeError | None], None] = _ignore
        loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self._options = options
        self._sessions = sessions
        self._handlers: dict[type, Callable[[Any], None]] = {
            Opened: self._on_opened,
            Closed: self._on_closed,
            LayerFailed: self._on_layer_failed,
            Begun: sessions.on_begun,
            Ended: sessions.on_ended,
            Attached: _on_attached,
            Detached: _on_detached,
            FlowReceived: _on_flow,
            Partial: _on_partial,
        }

    async def open(self, credentials: Credentials | None, *, is_known: bool = False) -> None:
        """Connect, and exchange opens.

        Args:
            credentials: for the SASL layer; None: without one.
            is_known: the same has worked before: who just drops the transport is a server that is going or
                coming, or something in front of it, and does not mean that it will never work.

        Raises:
            AmqpforgeError: why there is no connection.
        """
        engine = self.engine
        engine.open()
        try:
            self.driver = driver = await dial(
                self.url, self._options, engine, self._report, credentials=credentials
            )
            engine.notify = driver.wake
            await self._opened
            if self.ended.done():  # It was closed with the same octets that opened it.
                raise fresh(self.error or ConnectionClosed("the peer closed the connection"))
        except BaseException as error:
            self.abort()
            was_dropped = self.driver is not None and self.driver.was_dropped
            if is_known and was_dropped and isinstance(error, NegotiationFailed | AuthenticationFailed):
                raise ConnectionLost(f"{self.url} dropped the transport: {error}") from error
            raise

    def abort(self) -> None:
        """Drop the transport."""
        if self.driver is not None:
            self.driver.abort()

    def wake(self) -> None:
        """There may be something to send."""
        if self.driver is not None:
            self.driver.wake()

    # --- what the engine tells --------------------------------------------------------------------------

    def _report(self, events: Sequence[Any]) -> None:
        for event in events:
            kind = type(event)
            if kind is Updates:
                if event.link.context is not None:
                    event.link.context._on_updates(event.deliveries)
            elif kind is Deliveries:
                if event.link.context is not None:
                    event.link.context._on_deliveries(event.deliveries)
            else:
                handler = self._handlers.get(kind)
                if handler is not None:
                    handler(event)

    def _on_opened(self, event: Opened) -> None:
        _log.debug("%s is open: the container %r", self.url, event.open.container_id)
        if not self._opened.done():
            self._opened.set_result(None)

    def _on_closed(self, event: Closed) -> None:
        error: AmqpforgeError | None = event.error
        if error is None and event.by_peer:
            error = ConnectionClosed("the peer closed the connection")
        self._over(error)

    def _on_layer_failed(self, event: LayerFailed) -> None:
        self._over(event.error)

    def _over(self, error: AmqpforgeError | None) -> None:
        cause = self.driver.error if self.driver is not None else None
        if isinstance(error, ConnectionLost) and isinstance(cause, ConnectionClosed):
            error, cause = cause, None  # What is below the engine knows better why the transport ended.
        if error is not None and error.__cause__ is None and cause is not None:
            error.__cause__ = cause
        self.error = self.error or error
        if not self._opened.done():
            self._opened.set_exception(fresh(error or ConnectionClosed("the connection was closed")))
            self._opened.exception()
        if not self.ended.done():
            self.ended.set_result(None)
            self.closed(error)


def _on_attached(event: Attached) -> None:
    link = event.link
    if link.context is not None:
        link.context._on_attached(event)
    elif link.state is LinkState.ATTACH_RCVD:
        text = "this container takes no links: it is a client"
        link.refuse(Error(condition=AmqpError.NOT_ALLOWED, description=text))


def _on_detached(event: Detached) -> None:
    if event.link.context is not None:
        event.link.context._on_detached(event)


def _on_flow(event: FlowReceived) -> None:
    if event.link.context is not None:
        event.link.context._on_flow(event)


def _on_partial(event: Partial) -> None:
    if event.delivery.link.context is not None:
        event.delivery.link.context._on_partial(event.delivery)


def _ignore(error: AmqpforgeError | None) -> None:
    """Nobody has asked."""
