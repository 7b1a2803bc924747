"""Connections of clients to a stand, and what a test can do to them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final

from amqpforge.broker.amqp_1_0.incoming import answer
from amqpforge.engine.events import Attached, Begun, Closed, Deliveries, Event, Opened
from amqpforge.engine.layers import LayerFailed
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    AmqpError,
    Attach,
    Begin,
    Error,
    LinkState,
    Open,
    Rejected,
    TransactionalState,
    Transfer,
)

from .loop import in_loop
from .relay import Relay
from .seen import AnySeen, GivenFrame, encode_given

if TYPE_CHECKING:
    from amqpforge.engine.connection import Connection
    from amqpforge.engine.delivery import IncomingDelivery
    from amqpforge.engine.link import Link
    from amqpforge.engine.session import Session

    from .stand import Stand

__all__ = ["ServedConnection"]

_LONGEST: Final = 200  # characters of a description: it has to fit into the smallest frames


class ServedConnection(ABC):
    """One connection that a stand has accepted.

    Attributes:
        stand: what has accepted it.
        loop: the event loop.
        relay: what its frames pass.
        wire: the transport, with the octets counted.
        number: 1 for the first connection of the stand, and so on.
        engine: the endpoint.
        error: why the connection is over; None while it is not, or if it was closed without an error.
        sessions: the sessions on it, by the client's channel.
        refusals: what the script has said is to be refused, once the engine tells of it.
    """

    engine: Connection

    def __init__(self, stand: Stand[Any], context: SSLContext | None, max_frame_size: int) -> None:
        """``context``: for TLS from the start; None: there is none, or the transport has it already."""
        self.stand = stand
        self.loop = asyncio.get_running_loop()
        self.relay = Relay(self, context, max_frame_size)
        self.wire = self.relay.wire
        self.number = 0
        self.error: Exception | None = None
        self.sessions: dict[int, Session] = {}
        self.refusals: dict[object, Error] = {}

    def __repr__(self) -> str:
        state = "open" if self.wire.is_open else "over"
        return f"<{type(self).__name__} {self.number} from {self.peer!r}, {state}>"

    @property
    def peer(self) -> str:
        """The id of the client's container; empty before its open."""
        return self.engine.remote.container_id if self.engine.remote is not None else ""

    @property
    @abstractmethod
    def user(self) -> str | None:
        """Who the client is, as SASL has shown; None without SASL."""

    @property
    def links(self) -> list[Link]:
        """The links that are on it."""
        return [link for session in self.engine.sessions.values() for link in session.links.values()]

    # --- what a test can do --------------------------------------------------------------------------------

    @in_loop
    def send(self, *frames: GivenFrame, channel: int = 0) -> None:
        """Write frames past the endpoint, which does not know of them."""
        self.wire.write(b"".join(encode_given(frame, channel) for frame in frames))

    @in_loop
    def cut(self) -> None:
        """Cut the TCP connection."""
        self.wire.cut()

    @in_loop
    def stop_reading(self) -> None:
        """Read nothing more, until :meth:`go_on_reading`."""
        self.wire.is_stopped = True
        self.wire.set_reading(False)

    @in_loop
    def go_on_reading(self) -> None:
        """Read again."""
        self.wire.is_stopped = False
        self.relay.read_on()

    @in_loop
    def close(self, error: Error | None = None) -> None:
        """Close the connection, unless it is over or being closed."""
        if self.engine.may_write:
            self.engine.close(error)
            self.wake()

    @in_loop
    def end(self, channel: int | None = 0, error: Error | None = None, *, is_sent: bool = False) -> None:
        """End a session, unless it is over: by the client's channel, or by the stand's if ``is_sent``."""
        session = self._session(channel, is_sent=is_sent)
        if session is not None and session.may_write:
            session.end(error)
            self.wake()

    @in_loop
    def detach(self, name: str, error: Error | None = None, *, closed: bool = False) -> None:
        """Detach the links of a name.

        Raises:
            LocalError: there is none, or it is not attached.
        """
        found = [link for link in self.links if link.name == name]
        if not found:
            raise LocalError(f"no link {name!r} is on {self!r}")
        for link in found:
            link.detach(error, closed=closed)
        self.wake()

    # --- for the script ------------------------------------------------------------------------------------

    def will_refuse(self, seen: AnySeen, error: Error) -> None:
        """What a frame asks for is to be refused once the engine tells of it."""
        performative = seen.performative
        if isinstance(performative, Attach):
            self.refusals[performative.name, performative.role] = error
        elif isinstance(performative, Begin):
            self.refusals[Begin, seen.channel] = error
        elif isinstance(performative, Transfer):
            if performative.delivery_id is not None:
                self.refusals[Transfer, seen.channel, performative.delivery_id] = error
        else:
            self.refusals[Open] = error

    def detach_link_of(self, seen: AnySeen, error: Error | None, *, closed: bool) -> None:
        """Detach the link that a frame names, if it is attached."""
        session = self._session(seen.channel, is_sent=seen.is_sent)
        handle = getattr(seen.performative, "handle", None)
        for link in list(session.links.values()) if session is not None else ():
            known = link.handle if seen.is_sent else link.remote_handle
            if known == handle and link.state is LinkState.ATTACHED:
                link.detach(error, closed=closed)
                self.wake()

    def _session(self, channel: int | None, *, is_sent: bool) -> Session | None:
        if channel is None:
            return None
        return self.engine.sessions.get(channel) if is_sent else self.sessions.get(channel)

    # --- for the driver ------------------------------------------------------------------------------------

    @abstractmethod
    def new_driver(self, peer_name: str | None) -> asyncio.Protocol:
        """What drives the engine; ``peer_name``: the name in the client's certificate, None without one."""

    @abstractmethod
    def wake(self) -> None:
        """There is something to send."""

    def report(self, events: Sequence[Event | LayerFailed], take: Callable[[Sequence[Any]], object]) -> None:
        """Have what the engine tells dealt with, but for what the script refuses.

        What ``take`` raises ends the connection, and is told to the test.
        """

        def go() -> None:
            for event in events:
                if isinstance(event, LayerFailed | Closed):
                    self.error = self.error or event.error
                if isinstance(event, Begun):
                    self.sessions[event.session.remote_channel or 0] = event.session
            take([event for event in events if not self._refuse(event)] if self.refusals else events)
            self.stand.changed()

        self.wire.guard(go)

    # --- what the script refuses ---------------------------------------------------------------------------

    def _refuse(self, event: Event | LayerFailed) -> bool:
        """Refuse what an event tells of, if the script has said so; returns whether it has."""
        if isinstance(event, Opened):
            refused = self.refusals.pop(Open, None)
            if refused is not None:
                self.engine.open()
                if self.engine.may_write:
                    self.engine.close(refused)
            return refused is not None
        if isinstance(event, Begun):
            refused = self.refusals.pop((Begin, event.session.remote_channel or 0), None)
            if refused is not None and event.session.may_write:
                event.session.end(refused)
            return refused is not None
        if isinstance(event, Attached) and event.link.state is LinkState.ATTACH_RCVD:
            refused = self.refusals.pop((event.attach.name, event.attach.role), None)
            if refused is not None:
                self._refuse_link(event.link, refused)
            return refused is not None
        if isinstance(event, Deliveries):
            event.deliveries = [one for one in event.deliveries if not self._reject(one)]
            return not event.deliveries
        return False

    def _refuse_link(self, link: Link, refused: Error) -> None:
        try:
            link.refuse(refused)
        except LocalError as error:
            self.end_unanswered(link, error)

    def end_unanswered(self, link: Link, error: LocalError) -> None:
        """The client's own limits leave no way to answer its attach: end the session.

        Raises:
            LocalError: ``error``, if the session is over.
        """
        session = link.session
        if session is None or not session.may_write:
            raise error
        text = f"the attach cannot be answered: {error}"
        session.end(Error(condition=AmqpError.RESOURCE_LIMIT_EXCEEDED, description=text[:_LONGEST]))

    def _reject(self, delivery: IncomingDelivery) -> bool:
        session = delivery.link.session
        channel = session.remote_channel if session is not None else None
        refused = self.refusals.pop((Transfer, channel, delivery.id), None)
        if refused is None:
            return False
        state = delivery.remote_state
        rejected = Rejected(error=refused)
        if isinstance(state, TransactionalState):
            answer(delivery, TransactionalState(txn_id=state.txn_id, outcome=rejected))
        else:
            answer(delivery, rejected)
        return True
