"""Links over which the node sends: from a queue to a client."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from amqpforge.engine.delivery import is_terminal
from amqpforge.engine.sender import Sender
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    LinkState,
    Modified,
    OutgoingDeliveryState,
    Released,
    Source,
    StdDistMode,
    TransactionalState,
)

from .intake import refuse_transaction
from .nodelink import NodeLink

if TYPE_CHECKING:
    from amqpforge.engine.delivery import OutgoingDelivery
    from amqpforge.engine.link import Link
    from amqpforge.message import Message
    from amqpforge_protocol.amqp_1_0.archetypes import AnyOutcome

    from .nodeconnection import NodeConnection
    from .queue import Queue
    from .stored import StoredMessage

__all__ = ["Outlet"]


class Outlet(NodeLink):
    """The source of a link to a client.

    Attributes:
        sender: its endpoint.
        queue: where its messages come from.
        source: what it is, as the node has told it.
    """

    def __init__(
        self,
        connection: NodeConnection,
        sender: Sender,
        queue: Queue,
        source: Source,
        admits: Callable[[Message], bool] | None,
    ) -> None:
        """``admits``: says which messages pass its filters; None: all do."""
        super().__init__(connection, sender)
        self.sender = sender
        self.queue = queue
        self.source = source
        self._admits = admits
        self._copies = source.distribution_mode == StdDistMode.COPY
        self._noted: deque[StoredMessage] = deque(queue.stored() if self._copies else ())
        self._deliveries: dict[OutgoingDelivery, StoredMessage] = {}
        sender.backlog = self._waiting
        sender.auto_drain = False
        sender.resends = True

    @property
    def address(self) -> str:
        return self.queue.address

    @property
    def settings(self) -> Source:
        return self.source

    def adopt(self, connection: NodeConnection, link: Link) -> None:
        super().adopt(connection, link)
        if isinstance(link, Sender):
            self.sender = link

    def attached(self) -> None:
        self.queue.attach(self)
        self.queue.dispatch()

    def detached(self) -> None:
        self.queue.detach(self)

    # --- what the queue asks -------------------------------------------------------------------------------

    @property
    def wants(self) -> bool:
        return not self._copies and self._has_credit

    def admits(self, message: StoredMessage) -> bool:
        remote = self.sender.remote
        most = remote.max_message_size if remote is not None else None
        if message.is_barred(self) or (most and len(message.payload) > most):
            return False
        return self._admits is None or self._admits(message.message)

    def offer(self, message: StoredMessage) -> None:
        if self._copies:
            self._noted.append(message)

    def browse(self) -> None:
        while self._noted and self._has_credit:
            message = self._noted.popleft()
            if message.outcome is None and self.admits(message):
                self._send(message)

    def take(self, message: StoredMessage) -> None:
        octets_for = message.octets_for(self)
        message.acquire(self)
        self._send(message, octets_for)

    @property
    def _has_credit(self) -> bool:
        sender = self.sender
        if sender.state is not LinkState.ATTACHED or sender.session is None or sender.is_refused:
            return False
        waiting = sum(1 for one in sender.queue if one.progress is OutgoingDeliveryState.NOT_SENT)
        return sender.link_credit > waiting

    def _waiting(self) -> int:
        return self.queue.depth

    def _send(self, message: StoredMessage, octets: bytes | None = None) -> None:
        payload = message.octets_for(self) if octets is None else octets
        delivery = self.sender.send(payload, message_format=message.message_format)
        if not delivery.settled:
            self._deliveries[delivery] = message
        elif not self._copies:  # Sent settled: whatever becomes of it, it is not sent again.
            self.queue.conclude(message, Accepted(), self)
        self.connection.wake()

    # --- what the client tells -----------------------------------------------------------------------------

    def on_credit(self) -> None:
        """The client's flow is in: send, and use up what a drain leaves over."""
        self.queue.dispatch()
        sender = self.sender
        if sender.flow_state.drain and not sender.queue and sender.link_credit:
            sender.drained()

    def on_updates(self, deliveries: list[OutgoingDelivery]) -> None:
        """The client has told the state of deliveries, or settled them."""
        for delivery in deliveries:
            message = self._deliveries.get(delivery)
            if message is None:
                continue
            state = delivery.remote_state
            if isinstance(state, TransactionalState) and not is_terminal(delivery.state):
                self._enlist(delivery, message, state)
            elif delivery.settled:
                del self._deliveries[delivery]
                self._conclude(message, self._outcome(delivery, at_end=False))

    def _outcome(self, delivery: OutgoingDelivery, *, at_end: bool) -> AnyOutcome:
        """The outcome of a delivery; without one the source's default applies, also when the source goes."""
        for state in (delivery.state, delivery.remote_state):
            if is_terminal(state) and state is not None:
                return state  # type: ignore[return-value]
        default = self.source.default_outcome
        if default is not None:
            return default
        return Released() if at_end or delivery.is_lost else Accepted()

    def _conclude(self, message: StoredMessage, outcome: AnyOutcome) -> None:
        if not self._copies:
            self.queue.conclude(message, outcome, self)
        elif isinstance(outcome, Released) or (
            isinstance(outcome, Modified) and not outcome.undeliverable_here
        ):
            self._noted.appendleft(message)
            self.browse()

    def _enlist(self, delivery: OutgoingDelivery, message: StoredMessage, state: TransactionalState) -> None:
        """The outcome is part of a transaction: it holds once that is committed."""
        transaction = self.connection.node.transactions.find(state.txn_id)
        if transaction is None:
            refuse_transaction(self.link, state.txn_id)
            return
        del self._deliveries[delivery]
        outcome = state.outcome or self._outcome(delivery, at_end=False)

        def commit() -> None:
            if not delivery.settled:
                delivery.settle(outcome)
                self.connection.wake()
            self._conclude(message, outcome)

        def rollback() -> None:
            if delivery.settled or self.is_gone:
                self._conclude(message, Released())
            else:
                delivery.remote_state = None
                self._deliveries[delivery] = message

        transaction.enlist(commit, rollback)

    def destroyed(self) -> None:
        deliveries, self._deliveries = self._deliveries, {}
        for delivery, message in deliveries.items():
            self._conclude(message, self._outcome(delivery, at_end=True))
        self.connection.node.link_gone(self)
