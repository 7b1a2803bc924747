"""The transport under a connection of a stand: TLS, counted octets, cuts, and reading that stops."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol, cast

from .tls import TlsLayer

__all__ = ["Wire", "WireUser"]


class WireUser(Protocol):
    """Who is told what happens on a wire."""

    def on_connected(self) -> None:
        """The transport is there; with TLS from its start the handshake comes first."""
        ...

    def on_ready(self, peer_name: str | None) -> None:
        """Octets can go both ways now; ``peer_name`` is that of the client's certificate."""
        ...

    def on_octets(self, octets: bytes) -> None:
        """Octets of the client."""
        ...

    def on_input_end(self) -> None:
        """No more of them follow."""
        ...

    def on_paused(self) -> None:
        """The client reads slowly: nothing more is to be written for now."""
        ...

    def on_writable(self) -> None:
        """What was held back because the client reads slowly can be written."""
        ...

    def on_lost(self, error: Exception | None) -> None:
        """The transport is gone."""
        ...

    def on_failure(self, error: Exception) -> None:
        """One of these methods has raised this."""
        ...

    def take_cut(self, *, is_written: bool, start: int, size: int) -> int | None:
        """How many of the octets from ``start`` on may pass before the connection is to be cut; None: all."""
        ...


class Wire(asyncio.Protocol):
    """One transport. Octets are counted, and cut, as the application has them: inside TLS if there is any.

    Attributes:
        octets_read: octets that came in so far.
        octets_written: octets that were written so far.
        is_open: whether the transport is there.
        is_mute: whether nothing is written any more, because the transport is cut, or about to be.
        is_cut: whether nothing that came in counts any more either.
        transport: what the octets go over; None before it is there.
        is_stopped: whether reading was stopped on purpose.
    """

    def __init__(self, user: WireUser, context: ssl.SSLContext | None) -> None:
        """``context``: there is TLS from the start."""
        self.octets_read = 0
        self.octets_written = 0
        self.is_open = False
        self.is_mute = False
        self.is_cut = False
        self.is_stopped = False
        self._user = user
        self._tls = None if context is None else TlsLayer(context)
        self.transport: asyncio.Transport | None = None
        self._error: Exception | None = None

    # --- what its user does --------------------------------------------------------------------------------

    def write(self, octets: bytes) -> None:
        """Write octets, up to where the connection is to be cut."""
        if self.is_mute or not octets:
            return
        room = self._user.take_cut(is_written=True, start=self.octets_written, size=len(octets))
        if room is not None:
            octets = octets[:room]
        self.octets_written += len(octets)
        self._write(octets if self._tls is None else self._tls.send(octets))
        if room is not None:
            self.cut()

    def cut(self) -> None:
        """Cut the transport; what was written until now still goes out."""
        self.is_mute = self.is_cut = True
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()

    def abandon(self) -> None:
        """Drop the transport, with what waits to be written."""
        self.is_mute = self.is_cut = True
        if self.transport is not None:
            self.transport.abort()

    def end(self) -> None:
        """End the transport in order: TLS first, if there is any."""
        if self._tls is not None and not self.is_mute:
            self._write(self._tls.end())
        self.cut()

    def set_reading(self, wants: bool) -> None:
        """Read on, unless that was stopped on purpose, or pause."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if transport.is_reading() and (self.is_stopped or not wants):
            transport.pause_reading()
        elif wants and not self.is_stopped and not transport.is_reading():
            transport.resume_reading()

    def start_tls(self, context: ssl.SSLContext, first: bytes) -> None:
        """Go on with TLS, which begins with the octets ``first``."""
        self._tls = TlsLayer(context)
        self.octets_read -= len(first)
        if first:
            self._receive(first)

    # --- what asyncio calls --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.is_open = True
        self.guard(self._begin)

    def data_received(self, data: bytes) -> None:
        self.guard(lambda: self._receive(data))

    def eof_received(self) -> bool:
        if not self.is_cut:
            self.guard(self._user.on_input_end)
        # The other direction may still be needed; where asyncio does TLS it has none.
        return self.transport is not None and self.transport.get_extra_info("ssl_object") is None

    def pause_writing(self) -> None:
        self.guard(self._user.on_paused)

    def resume_writing(self) -> None:
        self.guard(self._user.on_writable)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self.is_mute = self.is_cut = True
        self.guard(lambda: self._user.on_lost(exc or self._error))

    # --- within --------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._user.on_connected()
        if self._tls is None:
            self._user.on_ready(None)
        for is_written in (False, True):
            if self._user.take_cut(is_written=is_written, start=0, size=0) is not None:
                self.cut()

    def _receive(self, data: bytes) -> None:
        if self.is_cut:
            return
        plain = data if self._tls is None else self._decrypt(self._tls, data)
        room = self._user.take_cut(is_written=False, start=self.octets_read, size=len(plain))
        if room is not None:
            plain = plain[:room]
            self.is_mute = True
        self.octets_read += len(plain)
        if plain:
            self._user.on_octets(plain)
        if room is not None:
            self.cut()
        elif self._tls is not None and self._tls.is_ended:
            self._user.on_input_end()

    def _decrypt(self, tls: TlsLayer, data: bytes) -> bytes:
        was_established = tls.is_established
        try:
            plain = tls.receive(data)
        except ssl.SSLError as error:
            self._write(tls.to_send())
            self._error = error
            self.cut()
            return b""
        self._write(tls.to_send())
        if tls.is_established and not was_established:
            self._user.on_ready(tls.peer_name)
        return plain

    def _write(self, octets: bytes) -> None:
        if octets and self.transport is not None and not self.transport.is_closing():
            self.transport.write(octets)

    def guard(self, function: Callable[[], None]) -> None:
        """Call a function; what it raises ends the transport, and is told."""
        try:
            function()
        except Exception as error:
            self._user.on_failure(error)
            self.cut()
