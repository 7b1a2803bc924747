"""A port that the broker listens on: who connects says with the first octets which dialect he speaks."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from amqpforge.errors import LocalError

from .config import ListenerConfig, Start
from .logs import Event

if TYPE_CHECKING:
    import ssl

    from .admission import Admission, Guest

__all__ = ["Doorman", "Head", "Port"]

_HEADER_SIZE: Final = 8
_BACKLOG: Final = 1024
_log = logging.getLogger("amqpforge.broker")


class Port:
    """A port that is listened on.

    Attributes:
        config: how it was set up.
        context: what TLS needs; None: there is no TLS.
        host: the address that it is bound to.
        number: its number.
    """

    def __init__(self, config: ListenerConfig) -> None:
        """Load the files that TLS needs.

        Raises:
            LocalError: one of them cannot be used.
        """
        self.config = config
        self.context: ssl.SSLContext | None = None if config.tls is None else config.tls.context()
        self.host = config.host
        self.number = config.port
        self._server: asyncio.Server | None = None

    @property
    def tls_by_header(self) -> Literal["offered", "required"] | None:
        """Whether a protocol header may, or has to, ask for TLS; None: it cannot."""
        tls = self.config.tls
        if tls is None or tls.start is Start.AT_ONCE:
            return None
        return "offered" if tls.start is Start.OFFERED else "required"

    @property
    def url(self) -> str:
        """Where to connect to."""
        scheme = "amqp" if self.context is None or self.tls_by_header is not None else "amqps"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.number}"

    async def listen(self, doorman: Callable[[], asyncio.Protocol]) -> None:
        """Begin to listen.

        Raises:
            LocalError: the port is taken, or the address is not one of this machine.
        """
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(doorman, self.host, self.number, backlog=_BACKLOG)
        except OSError as error:
            raise LocalError(f"cannot listen at {self.url}: {_trouble(error)}") from error
        self.host, self.number = self._server.sockets[0].getsockname()[:2]

    async def close(self) -> None:
        """Listen no longer; connections that are there stay."""
        if self._server is not None:
            self._server.close()
            self._server = None


def _trouble(error: OSError) -> str:
    """What is wrong with an address, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return "the port is taken: stop what has it, or choose another one"
    if error.errno == errno.EACCES:
        return "this user may not have the port: choose one above 1023"
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return "the host is no address of this machine"
    return str(error.strerror or error)


Head: TypeAlias = "Callable[[Port, asyncio.Transport, Guest], asyncio.Protocol]"
"""Makes what serves one connection in one dialect; it gets the transport, and what the client has sent."""


class Doorman(asyncio.Protocol):
    """Meets a client: waits for its protocol header, and leaves the connection to the head of that dialect.

    Where TLS comes first, that is his work too: a client is counted, and its time runs, from the beginning.
    A header of no dialect that is known is left to the first head, which answers with its own.
    """

    def __init__(self, admission: Admission, heads: Mapping[bytes, Head], port: Port) -> None:
        """``heads``: by the protocol header that asks for each."""
        self._admission = admission
        self._heads = heads
        self._port = port
        self._guest: Guest | None = None
        self._transport: asyncio.Transport | None = None
        self._securing: asyncio.Task[None] | None = None
        self._first = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        raw = cast("asyncio.Transport", transport)
        arrival = self._admission.arrive(raw)
        if arrival is None:
            raw.abort()
            return
        self._guest, delay = arrival
        raw.pause_reading()
        if delay > 0:
            self._timer = asyncio.get_running_loop().call_later(delay, self._begin, self._guest)
        else:
            self._begin(self._guest)

    def _begin(self, guest: Guest) -> None:
        raw, context = guest.transport, self._port.context
        if raw.is_closing():
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._admission.patience, self._lose_patience, guest)
        if context is None or self._port.tls_by_header is not None:
            self._transport = raw
            raw.resume_reading()
        else:
            self._securing = loop.create_task(self._secure(guest, context))

    async def _secure(self, guest: Guest, context: ssl.SSLContext) -> None:
        """Shake hands; what comes in meanwhile waits."""
        if guest.transport.is_closing():
            return
        secured, reason = None, "the client has gone"
        try:
            secured = await asyncio.get_running_loop().start_tls(
                guest.transport, self, context, server_side=True
            )
        except OSError as error:
            reason = str(getattr(error, "reason", None) or error) or type(error).__name__
        if secured is None:  # As long as hands are shaken nobody tells that the transport is lost.
            _log.info(Event("TLS failed", peer=guest.address, reason=reason))
            self.connection_lost(None)
            return
        self._transport = secured
        if self._first:
            self._look()

    def _lose_patience(self, guest: Guest) -> None:
        _log.info(Event("client was silent", peer=guest.address))
        guest.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._first += data
        self._look()

    def _look(self) -> None:
        """See whether it is known what the client speaks."""
        if len(self._first) >= _HEADER_SIZE or not b"AMQP".startswith(bytes(self._first[:4])):
            self._hand_over()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._guest is not None:
            self._admission.leave(self._guest)

    def _hand_over(self) -> None:
        transport, guest = self._transport, self._guest
        if transport is None or guest is None or transport.is_closing():
            return
        if self._timer is not None:
            self._timer.cancel()
        header = bytes(self._first[:_HEADER_SIZE])
        head = self._heads.get(header) or next(iter(self._heads.values()))
        protocol = head(self._port, transport, guest)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(bytes(self._first))
