"""The way of frames between the transport of a connection and the engine, past the script of the node."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from amqpforge.engine.connection import Connection
from amqpforge.engine.events import Closed, Event
from amqpforge.engine.layers import LayerFailed, ServerStack
from amqpforge.errors import LocalError

from .gate import Gate, Passage
from .seen import AnySeen, Cutter
from .wire import Wire

if TYPE_CHECKING:
    from .node import Node

__all__ = ["Driver"]

_LARGEST: Final = 0x7FFF_FFFF


class Driver(ABC):
    """Drives the engine of one connection.

    Attributes:
        node: the node.
        loop: the event loop.
        engine: the endpoint.
        stack: the layers below it; None until the transport is ready.
        wire: the transport, with the octets counted.
        error: why the connection is over; None while it is not, or if it was closed without an error.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.loop = asyncio.get_running_loop()
        self.engine = Connection(node.settings, node.container, is_server=True)
        self.engine.notify = self.wake
        self.stack: ServerStack[Connection] | None = None
        self.wire = Wire(self, node.ssl if node.tls is None else None)
        self.error: Exception | None = None
        self._cutter = Cutter(node.settings.max_frame_size)
        self._sent_cutter = Cutter(_LARGEST)
        self._inbox: deque[bytes] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_held = False
        self._held_back = 0
        self._is_awake = False
        self._is_pumping = False
        self._is_working = False
        self._has_ended = False

    @abstractmethod
    def on_connected(self) -> None:
        """The transport is there; with TLS from its start the handshake comes first."""

    @abstractmethod
    def on_gone(self) -> None:
        """The connection is over, and all that follows from it is done."""

    @abstractmethod
    def on_event(self, event: Event) -> None:
        """Do what an event of the engine asks for."""

    # --- what the wire tells -------------------------------------------------------------------------------

    def on_ready(self, peer_name: str | None) -> None:
        if self.stack is None:
            security = self.node.security
            self.stack = ServerStack(self.engine, security, is_private=True, peer_name=peer_name)
        else:
            self.stack.tls_established(peer_name)

    def on_octets(self, octets: bytes) -> None:
        self._inbox += self._cutter.feed(octets)
        self._take_in()

    def on_input_end(self) -> None:
        stack = self.stack
        if stack is None:
            self.wire.cut()
            return
        self._take_in()
        self._has_ended = True
        if not self._inbox:
            self._end_input(stack)

    def on_writable(self) -> None:
        self._pump()

    def on_lost(self, error: Exception | None) -> None:
        self.error = self.error or error
        if self._timer is not None:
            self._timer.cancel()
        self._inbox.clear()
        if self.stack is not None:
            self.stack.end_of_input(self.loop.time())
            self._react(self.stack)
        self.engine.lose()
        for event in self.engine.events():
            self.on_event(event)
        self.on_gone()

    def on_failure(self, error: Exception) -> None:
        self.node.failed(error)

    def take_cut(self, *, is_written: bool, start: int, size: int) -> int | None:
        return self.node.script.take_cut(is_written=is_written, start=start, size=size)

    # --- frames that come in -------------------------------------------------------------------------------

    def _take_in(self) -> None:
        """Deal with what has come, up to a frame that is held."""
        while self._may_take and self.stack is not None and self.stack.wants_input:
            passage = self._pass(self._inbox.popleft(), is_sent=False)
            gate = _closed_gate(passage)
            if gate is None:
                self._handle(passage, self.stack)
            else:
                self._is_held = True
                gate.add(passage.seen, self._let_in(passage, self.stack))
        self.read_on()

    @property
    def _may_take(self) -> bool:
        return bool(self._inbox) and not self._is_held and not self.wire.is_cut

    def _let_in(self, passage: Passage, stack: ServerStack[Connection]) -> Callable[[], None]:
        def go() -> None:
            self._is_held = False
            if self.wire.is_cut:
                return
            self._handle(passage, stack)
            self._take_in()
            if self._has_ended and not self._inbox:
                self._end_input(stack)

        return go

    def _end_input(self, stack: ServerStack[Connection]) -> None:
        rest = self._cutter.rest()
        if rest:
            stack.receive(rest, self.loop.time())
        stack.end_of_input(self.loop.time())
        self._pump()

    def _handle(self, passage: Passage, stack: ServerStack[Connection]) -> None:
        for piece in passage.pieces:
            stack.receive(piece, self.loop.time())
        self._react(stack)
        for action in passage.after:
            action()
        self._pump()

    def read_on(self) -> None:
        """Read, unless that was stopped, or what was read waits still."""
        self.wire.set_reading(not self._inbox)

    @abstractmethod
    def look_at(self, octets: bytes, *, is_sent: bool) -> AnySeen:
        """What a piece of the stream is."""

    def _pass(self, octets: bytes, *, is_sent: bool) -> Passage:
        """Let a frame pass the script."""
        seen = self.look_at(octets, is_sent=is_sent)
        passage = Passage(seen, [octets])
        self.node.record(seen)
        self.node.script.meet(passage)
        return passage

    # --- what the engine tells, and writes -----------------------------------------------------------------

    def wake(self) -> None:
        """There is something to send, or will be: write it soon."""
        if not self._is_awake and self.wire.is_open:
            self._is_awake = True
            self.loop.call_soon(self._awake)

    def _awake(self) -> None:
        self._is_awake = False
        self.wire.guard(self._pump)

    def _react(self, stack: ServerStack[Connection]) -> bool:
        """Deal with what the engine tells; returns whether there was anything."""
        events = stack.events()
        for event in events:
            if isinstance(event, LayerFailed | Closed):
                self.error = self.error or event.error
            if not isinstance(event, LayerFailed):
                self.on_event(event)
        return bool(events)

    def _pump(self) -> None:
        """Write what there is to write, and see to what the engine waits for."""
        stack = self.stack
        if self._is_pumping or stack is None:
            return
        self._is_pumping = True
        try:
            while self._pump_once(stack):
                pass
        finally:
            self._is_pumping = False
        if self.wire.is_open:
            self._attend(stack)
        self.node.changed()

    def _pump_once(self, stack: ServerStack[Connection]) -> bool:
        told = self._react(stack)
        octets = stack.data_to_send(self.loop.time()) if self.wire.may_write else b""
        for piece in self._sent_cutter.feed(octets):
            passage = self._pass(piece, is_sent=True)
            gate = _closed_gate(passage)
            if gate is None:
                self._send_on(passage)
            else:
                self._held_back += 1
                gate.add(passage.seen, self._let_out(passage))
        return bool(octets) or told

    def _let_out(self, passage: Passage) -> Callable[[], None]:
        def go() -> None:
            self._held_back -= 1
            self._send_on(passage)
            self.wake()

        return go

    def _send_on(self, passage: Passage) -> None:
        self.wire.write(b"".join(passage.pieces))
        for action in passage.after:
            action()

    def _attend(self, stack: ServerStack[Connection]) -> None:
        """Begin what has to be done beside writing: computing, TLS, waiting, ending."""
        work = stack.work
        if work is not None and not self._is_working:
            self._is_working = True
            self.loop.run_in_executor(None, work.run).add_done_callback(self._computed)
        if stack.wants_tls and not self.wire.has_tls:
            self._start_tls(stack)
        if self._timer is not None:
            self._timer.cancel()
        deadline = stack.next_deadline()
        self._timer = None if deadline is None else self.loop.call_at(deadline, self._awake)
        if self._held_back:
            return
        if stack.is_over:
            self.wire.cut()
        elif stack.output_closed:
            self.wire.end_output()

    def _start_tls(self, stack: ServerStack[Connection]) -> None:
        """Both sides have asked for TLS by a protocol header."""
        if self.node.ssl is None:
            raise LocalError("TLS was asked for, and the node has no context for it")
        first = stack.octets_for_tls() + b"".join(self._inbox) + self._cutter.rest()
        self._inbox.clear()
        self._cutter = Cutter(self.node.settings.max_frame_size)
        self.wire.start_tls(self.node.ssl, first)

    def _computed(self, future: asyncio.Future[Any]) -> None:
        def go_on() -> None:
            self._is_working = False
            if self.stack is not None and self.wire.is_open:
                self.stack.resume(future.result(), self.loop.time())
                self._pump()
                self._take_in()

        self.wire.guard(go_on)


def _closed_gate(passage: Passage) -> Gate | None:
    """The first gate that does not let a frame through."""
    return next((gate for gate in passage.gates if not gate.is_open), None)
