"""What the Proton engine leaves to its user: a socket, a clock, and somebody to hand the events to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from time import monotonic
from typing import Any

from tests.interop.peers.playing import Fault

__all__ = ["Fault", "Wire", "proton"]

#: The stack has types of its own, but only where it is installed: no checker may depend on them.
proton: Any = import_module("proton")


class Wire(asyncio.Protocol):
    """One connection. Engine events go to ``handler``, to its methods called ``on_...``.

    After each round of events ``after_events`` is called; :attr:`is_over` tells that the socket is gone.
    """

    def __init__(
        self, connection: Any, engine: Any, handler: object, after_events: Callable[[Wire], None]
    ) -> None:
        self.connection = connection
        self.engine = engine
        self.octets_in = 0
        self.octets_out = 0
        self.is_over = False
        self._is_finished = False
        self._handler = handler
        self._after_events = after_events
        self._pipe: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._events = proton.Collector()
        connection.collect(self._events)
        engine.bind(connection)

    def abort(self) -> None:
        """Give the socket up."""
        if self._pipe is not None:
            self._pipe.abort()

    def pump(self) -> None:
        """Hand out events and write octets until there are no more of either."""
        if self._pipe is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        deadline = self.engine.tick(monotonic())
        self._dispatch()
        while self._write():
            self._dispatch()
        if deadline and not self.is_over:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, deadline - monotonic()), self.pump)
        self._after_events(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._pipe = transport
        self.pump()

    def data_received(self, data: bytes) -> None:
        self.octets_in += len(data)
        rest = memoryview(data)
        while rest:
            room = self.engine.capacity()
            if room < 0:  # the engine has stopped reading
                break
            if room:
                self.engine.push(bytes(rest[:room]))
                rest = rest[room:]
            self.pump()
        self.pump()

    def eof_received(self) -> None:
        self.engine.close_tail()
        self.pump()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        self.engine.close_tail()
        self.engine.close_head()
        self.pump()

    def _dispatch(self) -> None:
        while (event := self._events.peek()) is not None:
            event.dispatch(self._handler)
            self._events.pop()

    def _write(self) -> bool:
        """Write what the engine has; say whether it had anything."""
        assert self._pipe is not None
        size = self.engine.pending()
        if size > 0:
            octets = self.engine.peek(size)
            if not self.is_over:
                self._pipe.write(octets)
            self.octets_out += size
            self.engine.pop(size)
        elif size < 0 and not self._is_finished:
            self._is_finished = True
            self._pipe.write_eof()  # what the other end still has to say is read
        return bool(size > 0)
