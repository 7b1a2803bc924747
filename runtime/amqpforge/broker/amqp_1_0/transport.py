"""The transport of a connection in AMQP 1.0: layers of security, the engine, and the head that drives it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from amqpforge.broker.logs import Event
from amqpforge.engine.events import Closed, Opened
from amqpforge.engine.layers import LayerFailed, SaslServer, ServerSecurity, ServerStack
from amqpforge.errors import AuthenticationFailed, ConnectionClosed, NegotiationFailed
from amqpforge.transport import Driver, is_loopback, peer_name
from amqpforge_protocol.amqp_1_0 import Open

from .head import Head

if TYPE_CHECKING:
    from amqpforge.broker.admission import Guest
    from amqpforge.broker.broker import Broker
    from amqpforge.broker.listener import Port

    from .service import Service

__all__ = ["ServerDriver"]

_log = logging.getLogger("amqpforge.broker.amqp_1_0")


class ServerDriver(Driver):
    """One connection that a listener has accepted."""

    def __init__(self, service: Service, port: Port, transport: asyncio.Transport, guest: Guest) -> None:
        self._broker: Broker = service.broker
        self._guest = guest
        self._error: Exception | None = None
        self._is_misunderstood = False
        self._vhost: str | None = None
        self.head = head = Head(service, self.wake, lambda: self.user, guest.address)
        has_tls = transport.get_extra_info("ssl_object") is not None
        config = self._broker.config
        stack = ServerStack(
            head.engine,
            ServerSecurity(
                authenticator=self._broker.authenticator,
                sasl_required=self._broker.sasl_is_required,
                tls=port.tls_by_header,
                allow_insecure_plain=config.allow_insecure_plain,
            ),
            is_private=has_tls or is_loopback(transport),
            peer_name=peer_name(transport),
        )
        tls = None if port.context is None else (port.context, None)
        super().__init__(stack, self._take, tls=tls)
        self.flushed = head.go_on
        self._patience: asyncio.TimerHandle | None = None

    @property
    def user(self) -> str | None:
        """Who has logged in; None: nobody, or without SASL."""
        sasl = self._stack.sasl
        return sasl.identity if isinstance(sasl, SaslServer) else None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        patience = self._broker.limits.handshake_timeout
        self._patience = self._loop.call_later(patience, self._lose_patience)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_lost:
            return
        super().connection_lost(exc)
        self.head.over()
        self._stop_waiting()
        self._broker.admission.leave(self._guest)
        if self._guest.is_open:
            self._tell(logging.INFO, "connection closed", reason=self._error or self.error)

    def _take(self, events: Sequence[Any]) -> None:
        head = self.head
        for event in events:
            kind = type(event)
            if kind is LayerFailed:
                self._failed(event.error)
                continue
            if kind is Closed:
                self._closed(event.error)
            head.on_event(event)
            if kind is Opened:
                self._opened(event.open)

    def _opened(self, opened: Open) -> None:
        self._stop_waiting()
        actor = self.head.actor
        if actor is None:
            self._vhost = opened.hostname
            self._tell(logging.WARNING, "connection refused", reason=self.head.refused)
            return
        self._vhost = actor.host.name
        self._guest.is_open = True
        self._tell(logging.INFO, "connection opened", mechanism=self.mechanism, tls=self.tls_version)

    def _closed(self, error: ConnectionClosed | None) -> None:
        self._error = self._error or error
        if error is not None and not self._guest.is_open and self.head.refused is None:
            self._is_misunderstood = isinstance(error, NegotiationFailed)
            self._failed(error)

    def _write_out(self, transport: asyncio.Transport) -> None:
        super()._write_out(transport)
        if self._is_misunderstood and not transport.is_closing():
            # Nothing comes behind our header, and the client is to see that (section 2.2).
            self._is_misunderstood = False
            if transport.can_write_eof():
                transport.write_eof()
            else:
                transport.close()

    def _failed(self, error: Exception) -> None:
        self._stop_waiting()
        if isinstance(error, AuthenticationFailed) and not self.was_dropped:
            self._broker.admission.login_failed(self._guest)
            self._tell(logging.WARNING, "login refused", mechanism=self.mechanism, reason=error)
        else:
            self._tell(logging.INFO, "connection came to nothing", reason=error)

    def _tell(self, level: int, what: str, **fields: object) -> None:
        """Log something about the connection, with whose it is."""
        if not _log.isEnabledFor(level):
            return
        remote: Open | None = self.head.engine.remote
        _log.log(
            level,
            Event(
                what,
                peer=self._guest.address,
                user=self.user,
                container=None if remote is None else remote.container_id,
                vhost=self._vhost,
                **fields,
            ),
        )

    def _lose_patience(self) -> None:
        self._tell(logging.INFO, "connection was not opened in time")
        self.abort()

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
