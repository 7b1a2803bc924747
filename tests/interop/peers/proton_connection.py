"""One connection of a Proton client: how it is opened, how a scenario waits on it, how links are attached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import count as numbers
from typing import Any
from urllib.parse import urlsplit

from tests.interop.peers.forms import PLAIN_MESSAGE
from tests.interop.peers.proton_boxes import Inbox, Many, Outbox
from tests.interop.peers.proton_messages import RECEIVER_MODES, SENDER_MODES, build, opened
from tests.interop.peers.proton_wire import Fault, Wire, proton

AMQP_PORT = 5672
ACCEPT = {"name": "accepted"}


class ClientConnection:
    """One connection at a time. A scenario waits by looking again after every round of events."""

    def __init__(self) -> None:
        self.waits_for = "nothing yet"
        self._wire: Wire | None = None
        self._is_closing = False
        self._changed = asyncio.Event()
        self._names = numbers(1)
        self._inboxes: dict[str, Inbox] = {}
        self._outboxes: dict[str, Outbox] = {}
        self._many: dict[str, Many] = {}

    # --- the connection -----------------------------------------------------------------------------------

    async def connect(
        self,
        *,
        url: str,
        mechanism: str | None,
        user: str | None,
        password: str | None,
        tls: Mapping[str, str] | None,
        container_id: str,
        hostname: str | None,
        idle_time_out: int | None,
        max_frame_size: int | None,
    ) -> dict[str, object]:
        parts = urlsplit(url)
        if parts.scheme not in ("amqp", "amqps"):
            raise Fault("unsupported", None, f"Proton does not connect to {parts.scheme}: URLs")
        host = parts.hostname or "localhost"
        connection = proton.Connection()
        connection.container = container_id
        connection.hostname = hostname or host
        engine = proton.Transport()
        if mechanism is not None:
            connection.user, connection.password = user, password
            engine.sasl().allow_insecure_mechs = True
            engine.sasl().allowed_mechs(mechanism)
        if idle_time_out is not None:
            engine.idle_timeout = idle_time_out / 1000
        if max_frame_size is not None:
            engine.max_frame_size = max_frame_size
        if self._wire is not None:
            self._wire.abort()
        self._is_closing = False
        self._wire = Wire(connection, engine, self, lambda _: self._changed.set())
        if tls is not None:
            self._secure(engine, tls, host)
        connection.open()
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self._live_wire, host, parts.port or AMQP_PORT)
        except OSError as error:
            raise Fault("transport", None, f"{url}: {error}") from error
        await self._until(lambda: connection.state & proton.Endpoint.REMOTE_ACTIVE, "the open of the server")
        return opened(connection)

    async def close(self) -> None:
        connection = self._live_wire.connection
        connection.close()
        self._is_closing = True
        await self._until(
            lambda: connection.state & proton.Endpoint.REMOTE_CLOSED, "the close of the server", checked=False
        )
        self._check(())
        await self._until(lambda: self._live_wire.is_over, "the end of the socket", checked=False)

    def _secure(self, engine: Any, tls: Mapping[str, str], host: str) -> None:
        domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
        domain.set_trusted_ca_db(tls["authority"])
        domain.set_peer_authentication(proton.SSLDomain.VERIFY_PEER_NAME)
        if "certificate" in tls:
            domain.set_credentials(tls["certificate"], tls["key"], None)
        proton.SSL(engine, domain).peer_hostname = host

    @property
    def _live_wire(self) -> Wire:
        if self._wire is None:
            raise Fault("transport", None, "the client is not connected")
        return self._wire

    # --- events -------------------------------------------------------------------------------------------

    def on_delivery(self, event: Any) -> None:
        delivery, link = event.delivery, event.link
        if link.is_sender:
            outbox = self._outboxes[link.name]
            if delivery.updated:
                outbox.told(delivery)
                if many := self._many.get(link.name):
                    many.accepted += outbox.outcomes[0]["name"] == "accepted"
        elif delivery.aborted:
            delivery.settle()
        elif delivery.readable and self._inboxes[link.name].take_part(delivery):
            self._inboxes[link.name].take(delivery)
        elif delivery.updated and delivery.settled:
            self._inboxes[link.name].settle(delivery)

    def on_link_remote_open(self, event: Any) -> None:
        if (many := self._many.get(event.link.name)) and not _is_refused(event.link):
            many.opened += 1

    def on_link_flow(self, event: Any) -> None:
        link = event.link
        if link.name in self._many and link.credit > 0 and not self._outboxes[link.name].outcomes:
            self._post(link, PLAIN_MESSAGE, 0, "unsettled")

    def on_link_remote_close(self, event: Any) -> None:
        if many := self._many.get(event.link.name):
            many.closed += 1
            if many.error is None and (condition := event.link.remote_condition):
                many.error = {"condition": condition.name, "description": condition.description}
        event.link.is_gone = True
        event.link.close()

    def on_link_remote_detach(self, event: Any) -> None:
        """Some peers answer a closing detach with one that does not close."""
        self.on_link_remote_close(event)

    def on_session_remote_close(self, event: Any) -> None:
        event.session.close()

    def on_connection_remote_close(self, event: Any) -> None:
        event.connection.close()

    # --- waiting ------------------------------------------------------------------------------------------

    async def _until(
        self, done: Callable[[], object], waits_for: str, *watched: Any, checked: bool = True
    ) -> None:
        """Wait until ``done()``; a fault of the connection, or of what is ``watched``, ends the scenario.

        Without being ``checked``, a closed connection is waited on until ``done()``, a lost one is the end.
        """
        self.waits_for = waits_for
        wire = self._live_wire
        while True:
            self._changed.clear()
            wire.pump()
            self._changed.clear()
            if checked:
                self._check(watched)
            if done() or (wire.is_over and not checked):
                return
            await self._changed.wait()

    def _check(self, watched: tuple[Any, ...]) -> None:
        wire = self._live_wire
        if not self._is_closing or wire.connection.remote_condition:
            _raise_if_closed("connection", wire.connection)
        for endpoint in watched:
            if not hasattr(endpoint, "credit"):
                _raise_if_closed("session", endpoint)
            elif endpoint.is_gone:
                _raise_remote("link", endpoint)
        if wire.engine.condition:
            raise Fault("transport", wire.engine.condition.name, wire.engine.condition.description)
        if wire.is_over and not self._is_closing:
            raise Fault("transport", None, "the connection was lost")

    @asynccontextmanager
    async def _session(self, leave: str = "close", window: int | None = None) -> AsyncIterator[Any]:
        """A session for one scenario; after a fault its end is not waited for. ``window``: octets of what
        may come in before somebody reads it.
        """
        session = self._live_wire.connection.session()
        if window is not None:
            session.incoming_capacity = window
        session.open()
        try:
            yield session
            if leave == "stay":
                return
            session.close()
            await self._until(lambda: session.state & proton.Endpoint.REMOTE_CLOSED, "the end of the session")
        except BaseException:
            session.close()
            self._live_wire.pump()
            raise

    async def _attach(self, link: Any) -> Any:
        """Send the attach, and wait for an attach that does not refuse."""
        link.open()
        session = link.session
        await self._until(
            lambda: link.state & proton.Endpoint.REMOTE_ACTIVE and not _is_refused(link),
            f"an attach that answers link {link.name}",
            link,
            session,
        )
        return link

    async def _leave(self, link: Any, leave: str) -> None:
        """Close a link, detach it, or leave it as it is."""
        if leave == "close":
            await self._detach(link)
        elif leave == "detach":
            link.detach()
            await self._until(lambda: link.is_gone, f"the detach of link {link.name}", link.session)

    async def _detach(self, *links: Any) -> None:
        for link in links:
            link.close()
            is_gone = partial(getattr, link, "is_gone")
            await self._until(is_gone, f"the detach of link {link.name}", link.session)

    def _sender(
        self, session: Any, address: str | None, mode: str, receiver_mode: str, name: str | None = None
    ) -> Any:
        link = session.sender(name or f"sender-{next(self._names)}")
        link.target.type = proton.Terminus.TARGET
        link.target.address = address
        link.is_gone = False
        link.snd_settle_mode = SENDER_MODES.index(mode)
        link.rcv_settle_mode = RECEIVER_MODES.index(receiver_mode)
        self._outboxes[link.name] = Outbox()
        return link

    def _receiver(
        self, session: Any, address: str | None, mode: str, receiver_mode: str, name: str | None = None
    ) -> Any:
        link = session.receiver(name or f"receiver-{next(self._names)}")
        link.source.address = address
        link.source.dynamic = address is None
        link.is_gone = False
        link.snd_settle_mode = SENDER_MODES.index(mode)
        link.rcv_settle_mode = RECEIVER_MODES.index(receiver_mode)
        return link

    def _listen(
        self, link: Any, count: int, credit: int, answer: Mapping[str, Any] = ACCEPT, second: bool = False
    ) -> Inbox:
        inbox = self._inboxes[link.name] = Inbox(link, count, credit, answer, second)
        return inbox

    def _post(self, link: Any, spec: Mapping[str, Any], number: int, mode: str) -> Any:
        return self._post_message(
            link, build(spec, number), mode == "settled" or (mode == "mixed" and number % 2 == 1)
        )

    def _post_message(self, link: Any, message: Any, settled: bool = False) -> Any:
        delivery = link.delivery(link.delivery_tag())
        link.stream(message.encode())
        link.advance()
        self._outboxes[link.name].sent(delivery, settled)
        return delivery

    async def _send_all(self, link: Any, spec: Mapping[str, Any], count: int, mode: str) -> Outbox:
        outbox = self._outboxes[link.name]
        for number in range(count):
            if link.credit <= 0:
                await self._until(lambda: link.credit > 0, f"credit for message {number}", link, link.session)
            self._post(link, spec, number, mode)
        await self._until(
            lambda: not outbox.pending and not link.queued,
            f"the outcomes of {count} messages",
            link,
            link.session,
        )
        return outbox


def _is_refused(link: Any) -> bool:
    """An attach without the terminus that we asked for comes before a detach."""
    terminus = link.remote_target if link.is_sender else link.remote_source
    return bool(terminus.type == proton.Terminus.UNSPECIFIED)


def _raise_if_closed(where: str, endpoint: Any) -> None:
    if endpoint.state & proton.Endpoint.REMOTE_CLOSED:
        _raise_remote(where, endpoint)


def _raise_remote(where: str, endpoint: Any) -> None:
    if condition := endpoint.remote_condition:
        raise Fault(where, condition.name, condition.description)
    raise Fault(where, None, "ended without an error")
