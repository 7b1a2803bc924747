"""Who may connect: how many at once, and how soon after logins from the same address have failed."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from .errors import LimitExceeded
from .limits import LoginBrake
from .logs import Event

if TYPE_CHECKING:
    from .limits import Usage

__all__ = ["Admission", "Guest"]

_log = logging.getLogger("amqpforge.broker")


class Guest:
    """A client that has connected, from then until his transport is gone.

    Attributes:
        transport: his transport, below TLS.
        host: the address that he comes from.
        address: that with his port, for logs.
        is_open: whether his connection is open.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.host, self.address = _addresses(transport)
        self.is_open = False


class Admission:
    """Lets clients in, and counts them until they leave."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._brake = LoginBrake()
        self._inside: dict[Guest, None] = {}
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def patience(self) -> float:
        """Seconds that a client has for everything before its connection is open."""
        return self._usage.limits.handshake_timeout

    def arrive(self, transport: asyncio.Transport) -> tuple[Guest, float] | None:
        """A client has connected: with the seconds to wait before he is listened to; None: he has to go."""
        guest = Guest(transport)
        try:
            self._usage.connections.take()
        except LimitExceeded as error:
            _log.warning(Event("client turned away", peer=guest.address, reason=error))
            return None
        self._inside[guest] = None
        self._empty.clear()
        return guest, self._brake.delay(guest.host, asyncio.get_running_loop().time())

    def login_failed(self, guest: Guest) -> None:
        """Somebody has not shown who he is."""
        self._brake.failed(guest.host, asyncio.get_running_loop().time())

    def leave(self, guest: Guest) -> None:
        """A transport is gone; does nothing a second time."""
        if guest in self._inside:
            del self._inside[guest]
            self._usage.connections.give_back()
        if not self._inside:
            self._empty.set()

    def cut(self, *, spare_open: bool = False) -> None:
        """Drop all transports at once; or only those on which no connection is open yet."""
        for guest in list(self._inside):
            if not (spare_open and guest.is_open):
                guest.transport.abort()

    async def wait_until_empty(self) -> None:
        """Wait until all have left."""
        await self._empty.wait()


def _addresses(transport: asyncio.Transport) -> tuple[str, str]:
    """The address at the other end of a transport; and the same with the port."""
    peer = transport.get_extra_info("peername")
    if not isinstance(peer, tuple) or len(peer) < 2:
        return "local", "local"
    host = str(peer[0])
    return host, f"[{host}]:{peer[1]}" if ":" in host else f"{host}:{peer[1]}"
