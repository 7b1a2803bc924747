"""Links over which the broker sends: from a queue to a client."""

from __future__ import annotations

import logging
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final

from amqpforge.broker.errors import BrokerError, StoreError
from amqpforge.broker.logs import Event
from amqpforge.broker.queues import ACCEPTED, REJECTED, RELEASED, Consumer, Outcome, modified
from amqpforge.engine.delivery import is_terminal
from amqpforge.engine.dispositions import settle
from amqpforge.engine.sender import Sender
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    DecodeError,
    EncodeError,
    Modified,
    OutgoingDeliveryState,
    Rejected,
    Released,
    Source,
    StdDistMode,
    TransactionalState,
    TransactionId,
)

from .acquisition import TransactionalFlow
from .form import depart, merged, opened
from .links import BrokerLink

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from amqpforge.broker.core import Told
    from amqpforge.broker.queues import Condition, Entry, Queue
    from amqpforge.engine.delivery import OutgoingDelivery
    from amqpforge.engine.link import Link
    from amqpforge_protocol.amqp_1_0.archetypes import AnyOutcome

    from .head import Head
    from .nodes import Node
    from .transactions import OpenTransaction

__all__ = ["Outgoing"]

_log = logging.getLogger("amqpforge.broker.amqp_1_0")

_RELEASED: Final = Released()
_ACCEPTED: Final = Accepted()
_NOT_SENT: Final = OutgoingDeliveryState.NOT_SENT
_TOO_LARGE: Final = modified(undeliverable_here=True)
_LOOKS: Final = 500
"""Messages that a queue has dealt with for sure, when it has left off to go on a moment later."""


class Outgoing(BrokerLink, Consumer):
    """The source of a link to a client: a consumer of a queue.

    At most one message waits in the engine for windows or the transport; the others stay in the queue, for
    whoever has room. So a client that never reads holds back nothing but what it has been sent.

    Attributes:
        sender: its endpoint.
        queue: where its messages come from.
        source: what it is, as the broker has told it.
    """

    def __init__(
        self,
        head: Head,
        sender: Sender,
        node: Node | None,
        source: Source,
        queue: Queue,
        condition: Condition | None,
    ) -> None:
        """``condition``: says which messages pass its filters; None: all do."""
        super().__init__(head, sender, node)
        self.sender = sender
        self.queue = queue
        self.source = source
        self._condition = condition
        self._copies = source.distribution_mode == StdDistMode.COPY
        self._deliveries: dict[Entry, OutgoingDelivery] = {}
        self._most_unsettled = head.broker.limits.unsettled_per_link
        self._flow = _with_transactions(sender)
        self._acquires_in: OpenTransaction | None = None
        sender.backlog = self._waiting
        sender.auto_drain = False
        sender.auto_settle = False  # An outcome is settled once it is safe.
        sender.resends = True

    @property
    def settings(self) -> Source:
        return self.source

    def _waiting(self) -> int:
        return self.queue.ready

    def adopt(self, head: Head, link: Link) -> None:
        self.detached()
        super().adopt(head, link)
        if isinstance(link, Sender):
            self.sender = link
            self._flow = _with_transactions(link)
            self._flow.restart()
            self._acquires_in = None

    def attached(self) -> None:
        if self._knows_transaction():  # Credit that came ahead of our attach may be meant for one.
            self.queue.wake(self)

    def detached(self) -> None:
        self.head.stalled.pop(self, None)

    # --- what the queue asks -------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return f"{self.head.peer}/{self.sender.name}"

    @property
    def owner(self) -> object:
        return self.head

    @property
    def selector(self) -> Condition | None:
        return self._condition

    @property
    def is_browser(self) -> bool:
        return self._copies

    @property
    def has_credit(self) -> bool:
        sender = self.sender
        if not sender.is_open or sender.flow_state.link_credit <= 0:
            return False
        if sender.queue or len(self._deliveries) >= self._most_unsettled:
            self.head.stalled[self] = None
            return False
        return True

    def deliver(self, entry: Entry) -> None:
        try:
            message_format, octets = self._octets(entry)
        except StoreError as error:
            if not self._copies:
                self._tell_queue((entry,), RELEASED)
            self.close(AmqpError.INTERNAL_ERROR, str(error))
            return
        except DecodeError as error:
            self._refuse_damaged(entry, error)
            return
        sender = self.sender
        remote = sender.remote
        most = remote.max_message_size if remote is not None else None
        if most and len(octets) > most:
            if not self._copies:
                self._tell_queue((entry,), _TOO_LARGE)
            return
        transaction = self._acquires_in
        if transaction is not None and not self._copies:
            self._acquire(transaction, entry, octets, message_format)
            return
        delivery = sender.send(octets, message_format=message_format)
        if not delivery.settled:
            delivery.context = entry
            self._deliveries[entry] = delivery
        elif not self._copies:  # Sent settled: whatever becomes of it, it is not sent again.
            self._tell_queue((entry,), ACCEPTED)
        self.head.stir()

    def _refuse_damaged(self, entry: Entry, error: DecodeError) -> None:
        """The store has other octets than a message: nobody can have them, and they must hold up nobody."""
        text = "a message that the store has is damaged, and cannot be delivered"
        _log.error(Event(text, queue=self.queue.name, message=entry.message.id, reason=error))
        if not self._copies:
            self._tell_queue((entry,), REJECTED)

    def _octets(self, entry: Entry) -> tuple[int, bytes]:
        """What goes out of a message, and in which format.

        Raises:
            DecodeError: it has to be changed on its way out, and is none.
            StoreError: it cannot be read.
        """
        message = entry.message
        payload = message.payload
        if payload is None:
            payload = self.actor.host.core.bodies.payload(message, self.queue.following(entry))
        if payload[:1] == b"\x01":
            return opened(payload)
        expires_at = entry.expires_at
        if (
            expires_at is None
            and not entry.was_acquired
            and not entry.delivery_count
            and entry.annotations is None
        ):
            return 0, payload
        return 0, depart(
            payload,
            failures=entry.delivery_count,
            annotations=entry.annotations,
            life=None if expires_at is None else expires_at - self.actor.host.clock.now(),
            was_acquired=entry.was_acquired,
        )

    def withdraw(self, entry: Entry) -> None:
        delivery = self._deliveries.pop(entry, None)
        if delivery is None:
            return
        delivery.context = None
        if delivery.progress is OutgoingDeliveryState.SENT:
            self._settle((delivery,), _RELEASED)
        elif not delivery.settled:
            delivery.abort()
        self.head.stir()

    def cancel(self) -> None:
        self.close(AmqpError.RESOURCE_DELETED, f"the queue {self.queue.name!r:.80} was deleted")

    # --- what the client tells -----------------------------------------------------------------------------

    def on_credit(self) -> None:
        """The client's flow is in: send, and use up what a drain leaves over."""
        if not self._knows_transaction():
            return
        self.queue.wake(self)
        self._drain()

    def _knows_transaction(self) -> bool:
        """Note the transaction that the client acquires in, if it does; one that is not there closes the
        link, and returns False.
        """
        id = self._flow.txn_id
        if id is None:
            return True
        transaction = self._acquires_in = self.head.transactions.find(id)
        if transaction is None:
            self.head.transactions.refuse(self, id)
            return False
        transaction.acquirers[self] = None
        return True

    def go_on(self) -> None:
        """There may be room again for what the queue has."""
        self.queue.wake(self)
        self._drain()

    def _drain(self, rounds: int | None = None) -> None:
        """Use up the credit of a client that drains, once the queue has nothing for it. A long queue looks
        for that in several rounds, each a moment after the other.
        """
        sender, queue = self.sender, self.queue
        if not sender.flow_state.drain or not sender.link_credit or not sender.is_open or sender.queue:
            return
        if rounds is None:
            rounds = (queue.ready + queue.unacknowledged) // _LOOKS
        if rounds and queue.ready:
            clock = self.actor.host.clock
            clock.call_at(clock.now(), partial(self._drain, rounds - 1))
            return
        sender.drained()
        self.head.stir()

    def on_updates(self, deliveries: list[OutgoingDelivery]) -> None:
        """The client has told the state of deliveries, or settled them. Nearly all of them it has accepted,
        many in a row: these are concluded together.
        """
        was_full = len(self._deliveries) >= self._most_unsettled
        for are_accepted, row in groupby(deliveries, _is_accepted):
            if are_accepted:
                self._conclude({delivery.context: delivery for delivery in row}, _ACCEPTED, ACCEPTED)
            else:
                for delivery in row:
                    self._on_update(delivery)
        if was_full:
            self.queue.wake(self)

    def _on_update(self, delivery: OutgoingDelivery) -> None:
        entry: Entry | None = delivery.context
        state = delivery.remote_state
        if entry is None:
            if delivery.remote_settled and not delivery.settled:  # An outcome was told before.
                self.sender.settle(delivery)
        elif type(state) is TransactionalState and not is_terminal(delivery.state):
            self._enlist(delivery, entry, state)
        elif delivery.remote_settled or delivery.settled or is_terminal(state):
            outcome = self._outcome(delivery)
            self._conclude({entry: delivery}, outcome, self._said(entry, outcome))

    def _conclude(
        self, deliveries: dict[Entry, OutgoingDelivery], outcome: AnyOutcome, said: Outcome
    ) -> None:
        """Deliveries have their outcome, all the same; ``said``: as the queue knows it."""
        waiting: list[OutgoingDelivery] = []
        for entry, delivery in deliveries.items():
            delivery.context = None
            del self._deliveries[entry]
            if not (delivery.settled or delivery.remote_settled):
                waiting.append(delivery)
            elif not delivery.settled:
                self.sender.settle(delivery)
        if self._copies:
            self._settle(waiting, outcome)
        else:
            self._tell_queue(deliveries, said, partial(self._safe, waiting, outcome) if waiting else None)
        if self.node is not None:
            self.node.look()

    def _tell_queue(
        self,
        entries: Iterable[Entry],
        outcome: Outcome,
        told: Told | None = None,
        transaction: OpenTransaction | None = None,
    ) -> None:
        work = None if transaction is None else transaction.work
        self.actor.settle(self.queue, entries, self, outcome, told, work)

    def _safe(
        self, deliveries: list[OutgoingDelivery], outcome: AnyOutcome, refused: BrokerError | None
    ) -> None:
        """An outcome that the client waits for is safe; what cannot be made safe stays unsettled."""
        if refused is None:
            self._settle(deliveries, outcome)
            self.head.stir()

    def _settle(self, deliveries: Sequence[OutgoingDelivery], outcome: AnyOutcome) -> None:
        """Tell the client that deliveries are settled; one that waits to be sent anew is not sent."""
        for delivery in deliveries:
            if delivery.progress is _NOT_SENT and not delivery.settled:
                delivery.abort()
        settle(deliveries, outcome)

    def _outcome(self, delivery: OutgoingDelivery, *, at_end: bool = False) -> AnyOutcome:
        """The outcome of a delivery; without one the source's default applies, also when the source goes
        (section 3.5.3).
        """
        for state in (delivery.state, delivery.remote_state):
            if is_terminal(state) and state is not None:
                return state  # type: ignore[return-value]
        default = self.source.default_outcome
        if default is not None:
            return default
        return _RELEASED if at_end or delivery.is_lost else _ACCEPTED

    def _said(self, entry: Entry, outcome: AnyOutcome) -> Outcome:
        """An outcome as the queue knows it."""
        if isinstance(outcome, Accepted):
            return ACCEPTED
        if isinstance(outcome, Released):
            return RELEASED
        if isinstance(outcome, Rejected):
            return REJECTED
        if not isinstance(outcome, Modified):
            return RELEASED
        annotations = None
        if outcome.message_annotations:
            try:
                annotations = merged(entry.annotations, outcome.message_annotations)
            except EncodeError:  # What it asks for cannot be told to anybody: the rest of it counts.
                annotations = None
        return modified(
            delivery_failed=bool(outcome.delivery_failed),
            undeliverable_here=bool(outcome.undeliverable_here),
            annotations=annotations,
        )

    # --- in transactions -----------------------------------------------------------------------------------

    def _enlist(self, delivery: OutgoingDelivery, entry: Entry, state: TransactionalState) -> None:
        """The outcome is part of a transaction: it holds once that is committed (section 4.4.2)."""
        transactions = self.head.transactions
        transaction = transactions.find(state.txn_id)
        if transaction is None:
            transactions.refuse(self, state.txn_id)
            return
        outcome = state.outcome or self._outcome(delivery)
        delivery.context = None
        del self._deliveries[entry]
        if not self._copies:
            said = self._said(entry, outcome)
            self._tell_queue((entry,), said, None, transaction)
        self._note(transaction, delivery, entry, outcome)

    def _note(
        self,
        transaction: OpenTransaction,
        delivery: OutgoingDelivery,
        entry: Entry,
        outcome: AnyOutcome,
    ) -> None:
        transaction.settled.append((self, delivery, entry, outcome))

    def _acquire(
        self, transaction: OpenTransaction, entry: Entry, octets: bytes, message_format: int
    ) -> None:
        """Send a message that is acquired in a transaction (section 4.4.3)."""
        state = TransactionalState(txn_id=TransactionId(transaction.id))
        delivery = self.sender.send(octets, message_format=message_format, state=state)
        if delivery.settled:
            self._tell_queue((entry,), ACCEPTED, None, transaction)
            self._note(transaction, delivery, entry, _ACCEPTED)
        else:
            delivery.context = entry
            self._deliveries[entry] = delivery
        transaction.acquired.append((self, delivery, entry))
        self.head.stir()

    def discharged(self, transaction: OpenTransaction) -> None:
        """A transaction is over; credit that is left holds outside of any."""
        if self._acquires_in is transaction:
            self._acquires_in = self._flow.txn_id = None

    def give_back(self, delivery: OutgoingDelivery, entry: Entry) -> None:
        """The transaction that a message was acquired in is undone."""
        if self._deliveries.get(entry) is delivery:
            self.withdraw(entry)
            self._tell_queue((entry,), RELEASED)

    def retired(self, delivery: OutgoingDelivery, outcome: AnyOutcome) -> None:
        """The transaction that an outcome is part of is committed."""
        if delivery.remote_settled and not delivery.settled:
            self.sender.settle(delivery)
        self._settle((delivery,), outcome)

    def restored(self, delivery: OutgoingDelivery, entry: Entry) -> None:
        """The transaction that an outcome is part of is undone: the client has the message still, unless it
        has settled the delivery.
        """
        if delivery.remote_settled or delivery.settled or self.is_gone or entry.holder is not self:
            if delivery.remote_settled and not delivery.settled:
                self.sender.settle(delivery)
            if not self._copies:
                self._tell_queue((entry,), RELEASED)
            self._settle((delivery,), _RELEASED)
        else:
            delivery.remote_state = None
            delivery.context = entry
            self._deliveries[entry] = delivery

    def destroyed(self) -> None:
        deliveries, self._deliveries = self._deliveries, {}
        self.queue.detach(self)
        for entry, delivery in deliveries.items():
            delivery.context = None
            if not self._copies:
                said = self._said(entry, self._outcome(delivery, at_end=True))
                self._tell_queue((entry,), said)


def _is_accepted(delivery: OutgoingDelivery) -> bool:
    """Whether the client has accepted a delivery that had no outcome."""
    is_open = delivery.context is not None and delivery.state is None
    return is_open and type(delivery.remote_state) is Accepted


def _with_transactions(sender: Sender) -> TransactionalFlow:
    """Have a sender note which transaction its receiver acquires in."""
    flow = sender.flow_state = TransactionalFlow(sender.flow_state)
    return flow
