"""A Proton container that listens, with a queue in memory for each address that anybody names.

It keeps messages as the octets they came in. It settles what it receives as the link's mode says: at once,
or, in mode ``second``, when the sender has settled. It answers dynamic sources, copies (browses), drains, and
takes a null target address as the anonymous relay. It ignores filters, and says so by not repeating them.
Its coordinator of transactions is its own, see ``proton_coordinator``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import count as numbers
from typing import Any

from tests.interop.peers.proton_coordinator import Coordinator
from tests.interop.peers.proton_messages import (
    TERMINAL,
    TRANSACTIONAL,
    build,
    describe,
    give,
    opened,
)
from tests.interop.peers.proton_queue import Outlet, Queue
from tests.interop.peers.proton_wire import Fault, Wire, proton

HOST = "127.0.0.1"
WINDOW = 100


class Server:
    """One listening socket, any number of connections."""

    def __init__(self) -> None:
        self.waits_for = "nothing yet"
        self._wires: list[Wire] = []
        self._queues: dict[str, Queue] = {}
        self._changed = asyncio.Event()
        self._serials = numbers()
        self._coordinator = Coordinator()
        self._listener: asyncio.Server | None = None

    # --- scenarios ----------------------------------------------------------------------------------------

    async def listen(
        self,
        *,
        scheme: str,
        tls: Mapping[str, str] | None,
        asks_certificate: bool,
        users: Mapping[str, str] | None,
        idle_time_out: int | None,
        max_frame_size: int | None,
    ) -> dict[str, int]:
        if scheme not in ("amqp", "amqps"):
            raise Fault("unsupported", None, f"Proton does not listen for {scheme}: URLs")
        if users is not None:
            raise Fault("unsupported", None, "a Proton server checks passwords through Cyrus SASL only")

        def accept() -> Wire:
            engine = proton.Transport(proton.Transport.SERVER)
            engine.sasl().allowed_mechs("EXTERNAL" if asks_certificate else "ANONYMOUS")
            engine.require_auth(asks_certificate)
            if idle_time_out is not None:
                engine.idle_timeout = idle_time_out / 1000
            if max_frame_size is not None:
                engine.max_frame_size = max_frame_size
            wire = Wire(proton.Connection(), engine, self, self._after_events)
            if tls is not None:
                proton.SSL(engine, _server_domain(tls, asks_certificate))
            self._wires.append(wire)
            return wire

        self._listener = await asyncio.get_running_loop().create_server(accept, HOST, 0)
        return {"port": self._listener.sockets[0].getsockname()[1]}

    async def clients(self) -> list[dict[str, object]]:
        is_open = proton.Endpoint.REMOTE_ACTIVE
        return [opened(wire.connection) for wire in self._wires if wire.connection.state & is_open]

    async def put(self, *, address: str, count: int, message: Mapping[str, Any]) -> None:
        queue = self._queue(address)
        for number in range(count):
            queue.store(bytes(build(message, number).encode()), False)
        self._pump()

    async def depth(self, *, address: str) -> int:
        return len(self._queue(address).messages)

    async def take(self, *, address: str, count: int) -> list[dict[str, object]]:
        queue = self._queue(address)
        await self._until(lambda: len(queue.messages) >= count, f"{count} messages at {address}")
        taken = [queue.messages.popleft() for _ in range(count)]
        return [describe(stored.message(), stored.settled) for stored in taken]

    async def answer(self, *, address: str, answer: Mapping[str, Any]) -> None:
        self._queue(address).answer = answer

    async def refuse(self, *, address: str, condition: str, description: str) -> None:
        self._queue(address).refusal = proton.Condition(condition, description)

    async def echo(self, *, address: str) -> None:
        self._queue(address).is_echo = True

    async def told(self, *, address: str, count: int) -> list[Mapping[str, object]]:
        queue = self._queue(address)
        await self._until(lambda: len(queue.told) >= count, f"{count} outcomes at {address}")
        return queue.told

    async def settle(self, *, address: str) -> None:
        queue = self._queue(address)
        await self._until(lambda: not queue.unsettled, f"the settlement of all at {address}")

    async def detach(self, *, address: str, condition: str, description: str) -> None:
        links = self._links_at(address)
        for link in links:
            link.condition = proton.Condition(condition, description)
            link.close()
        self._pump()
        await self._until(lambda: all(link.is_gone for link in links), "the detach of the clients")

    async def end(self, *, address: str, condition: str, description: str) -> None:
        links = self._links_at(address)
        for link in links:
            link.session.condition = proton.Condition(condition, description)
            link.session.close()
        self._pump()
        await self._until(lambda: all(link.is_gone for link in links), "the end of the clients' sessions")

    async def disconnect(self, *, condition: str, description: str) -> None:
        for wire in self._wires:
            wire.connection.condition = proton.Condition(condition, description)
            wire.connection.close()
        self._pump()
        await self._until(lambda: not self._wires, "the close of the clients")

    # --- events -------------------------------------------------------------------------------------------

    def on_connection_remote_open(self, event: Any) -> None:
        event.connection.container = "proton-server"
        event.connection.open()

    def on_connection_remote_close(self, event: Any) -> None:
        event.connection.close()

    def on_session_remote_open(self, event: Any) -> None:
        event.session.open()

    def on_session_remote_close(self, event: Any) -> None:
        for link in _links_of(event.connection, lambda link: link.session == event.session):
            self._forget(link)
        event.session.close()

    def on_link_remote_open(self, event: Any) -> None:
        link = event.link
        link.is_gone = False
        queue = self._open_sender(link) if link.is_sender else self._open_receiver(link)
        if isinstance(queue, Queue):
            link.queue = queue
        else:
            link.condition = queue
        link.snd_settle_mode = link.remote_snd_settle_mode
        link.rcv_settle_mode = link.remote_rcv_settle_mode
        link.open()
        if link.condition is not None:
            link.close()
        elif link.is_receiver:
            link.flow(WINDOW)

    def on_link_flow(self, event: Any) -> None:
        if event.link.is_sender and hasattr(event.link, "queue"):
            event.link.queue.flush()

    def on_link_remote_close(self, event: Any) -> None:
        self._forget(event.link)
        event.link.close()

    def on_link_remote_detach(self, event: Any) -> None:
        self._forget(event.link)
        event.link.detach()

    def on_delivery(self, event: Any) -> None:
        delivery, link = event.delivery, event.link
        if link.is_sender:
            if int(delivery.remote_state) == TRANSACTIONAL:
                self._coordinator.retire(link.queue, link.outlet, delivery)
            elif delivery.settled or int(delivery.remote_state) in TERMINAL:
                link.queue.finish(link.outlet, delivery)
                link.queue.flush()
        elif delivery.aborted:
            delivery.settle()
        elif delivery.readable and not delivery.partial:
            self._receive(link, delivery)
        elif delivery.updated and delivery.settled and hasattr(delivery, "queue"):
            delivery.queue.unsettled -= 1
            delivery.settle()

    # --- what they need -----------------------------------------------------------------------------------

    def _open_sender(self, link: Any) -> Any:
        """Answer a client that receives; returns the queue, or why there is none."""
        source = link.remote_source
        address = f"dynamic-{next(self._serials)}" if source.dynamic else source.address
        if address is None:
            return proton.Condition("amqp:invalid-field", "a source needs an address here")
        queue = self._queue(address)
        if queue.refusal is not None:
            return queue.refusal
        link.source.address = address
        link.source.dynamic = source.dynamic
        link.source.distribution_mode = source.distribution_mode
        link.target.copy(link.remote_target)
        link.outlet = Outlet(link, source.distribution_mode == proton.Terminus.DIST_MODE_COPY)
        queue.outlets.append(link.outlet)
        return queue

    def _open_receiver(self, link: Any) -> Any:
        """Answer a client that sends; returns the queue, or why there is none. A coordinator needs none."""
        target = link.remote_target
        if target.type == proton.Terminus.COORDINATOR:
            self._coordinator.attach(link)
            return None
        address = f"dynamic-{next(self._serials)}" if target.dynamic else target.address
        queue = self._queue(address or "")
        if queue.refusal is not None:
            return queue.refusal
        link.target.copy(target)
        link.target.address = address
        link.source.copy(link.remote_source)
        return queue

    def _receive(self, link: Any, delivery: Any) -> None:
        octets = bytes(link.recv(delivery.pending))
        link.advance()
        link.flow(1)
        message = proton.Message()
        message.decode(octets)
        if hasattr(link, "declared"):
            self._coordinator.control(link, delivery, message)
            self._pump_soon()
            return
        queue = link.queue if link.queue.address else self._queue(message.address)
        if int(delivery.remote_state) == TRANSACTIONAL:
            self._coordinator.post(delivery, lambda: self._keep(queue, message, octets, False))
            delivery.settle()
            return
        is_settled = bool(delivery.settled)
        name = queue.answer["name"]
        if is_settled:
            delivery.settle()
        elif name != "none":
            give(delivery, queue.answer)
            if link.rcv_settle_mode == proton.Link.RCV_FIRST:
                delivery.settle()
        if not is_settled and (name == "none" or link.rcv_settle_mode != proton.Link.RCV_FIRST):
            delivery.queue = queue
            queue.unsettled += 1
        if is_settled or name == "accepted":
            self._keep(queue, message, octets, is_settled)

    def _keep(self, queue: Queue, message: Any, octets: bytes, is_settled: bool) -> None:
        if queue.is_echo:
            message.address, message.correlation_id = message.reply_to, message.correlation_id or message.id
            queue = self._queue(message.reply_to)
            octets = bytes(message.encode())
        queue.store(octets, is_settled)
        self._pump_soon()

    def _pump_soon(self) -> None:
        """From inside the events of one connection, which is pumped already."""
        asyncio.get_running_loop().call_soon(self._pump)

    def _links_at(self, address: str) -> list[Any]:
        queue = self._queue(address)
        return [
            link for wire in self._wires for link in _links(wire) if getattr(link, "queue", None) is queue
        ]

    def _queue(self, address: str) -> Queue:
        if address not in self._queues:
            self._queues[address] = Queue(address, self._serials.__next__)
        return self._queues[address]

    def _forget(self, link: Any) -> None:
        link.is_gone = True
        if hasattr(link, "declared"):
            self._coordinator.forget(link)
            self._pump_soon()
        elif hasattr(link, "outlet"):
            link.queue.drop(link.outlet)
            link.queue.flush()

    def _after_events(self, wire: Wire) -> None:
        if wire.is_over and wire in self._wires:
            self._wires.remove(wire)
            for link in _links(wire):
                self._forget(link)
        self._changed.set()

    def _pump(self) -> None:
        for queue in self._queues.values():
            queue.flush()
        for wire in list(self._wires):
            wire.pump()

    async def _until(self, done: Callable[[], object], waits_for: str) -> None:
        self.waits_for = waits_for
        while not done():
            self._changed.clear()
            await self._changed.wait()


def _links(wire: Wire) -> list[Any]:
    return _links_of(wire.connection, lambda _: True)


def _links_of(connection: Any, wanted: Callable[[Any], object]) -> list[Any]:
    """The links on a connection that clients attached, did not detach, and that are ``wanted``."""
    found = []
    link = connection.link_head(0)
    while link is not None:
        if not getattr(link, "is_gone", True) and wanted(link):
            found.append(link)
        link = link.next(0)
    return found


def _server_domain(tls: Mapping[str, str], asks_certificate: bool) -> Any:
    domain = proton.SSLDomain(proton.SSLDomain.MODE_SERVER)
    domain.set_credentials(tls["certificate"], tls["key"], None)
    if asks_certificate:
        domain.set_trusted_ca_db(tls["authority"])
        domain.set_peer_authentication(proton.SSLDomain.VERIFY_PEER, tls["authority"])
    return domain
