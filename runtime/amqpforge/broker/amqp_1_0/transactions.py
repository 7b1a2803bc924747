"""The transactions that the clients of a connection have open (section 4)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Final

from amqpforge.broker.errors import BrokerError, NotFound
from amqpforge.broker.limits import Quota
from amqpforge_protocol.amqp_1_0 import TransactionError

if TYPE_CHECKING:
    from amqpforge.broker.clock import Timer
    from amqpforge.broker.queues import Entry
    from amqpforge.broker.transaction import Transaction
    from amqpforge.engine.delivery import OutgoingDelivery
    from amqpforge_protocol.amqp_1_0.archetypes import AnyOutcome

    from .head import Head
    from .links import BrokerLink
    from .outgoing import Outgoing

__all__ = ["OpenTransaction", "Transactions"]

_MOST_PIECES: Final = 100_000


class OpenTransaction:
    """One that is declared and not discharged.

    Attributes:
        id: by which the client knows it; no other transaction of the connection has had it.
        work: what is done in it.
        settled: deliveries whose outcome is part of it, and the outcomes.
        acquirers: links that acquire messages in it.
        acquired: deliveries of messages that were acquired in it.
        pieces: how many messages and outcomes are part of it.
        octets: how much of messages.
        timer: ends it if the client takes too long; None: it may take any time.
    """

    __slots__ = ("acquired", "acquirers", "id", "octets", "pieces", "settled", "timer", "work")

    def __init__(self, id: bytes, work: Transaction) -> None:
        self.id = id
        self.work = work
        self.settled: list[tuple[Outgoing, OutgoingDelivery, Entry, AnyOutcome]] = []
        self.acquirers: dict[Outgoing, None] = {}
        self.acquired: list[tuple[Outgoing, OutgoingDelivery, Entry]] = []
        self.pieces = Quota("work in one transaction", _MOST_PIECES)
        self.octets = 0
        self.timer: Timer | None = None


class Transactions:
    """The transactions of one connection, on any of its sessions.

    Attributes:
        open: those that are declared and not discharged, by id.
    """

    def __init__(self, head: Head) -> None:
        self._head = head
        self._numbers = count(1)
        limits = head.broker.limits
        self._quota = Quota("transactions_per_connection", limits.transactions_per_connection)
        self._octets = Quota("memory, a quarter of it for each connection", limits.memory // 4)
        self._expired: dict[bytes, None] = {}
        self.open: dict[bytes, OpenTransaction] = {}

    def find(self, id: object) -> OpenTransaction | None:
        """The transaction of that id; None if there is none, or none any more."""
        return self.open.get(bytes(id)) if isinstance(id, bytes) else None

    def declare(self) -> OpenTransaction:
        """Begin one.

        Raises:
            LimitExceeded: too many are open.
        """
        self._quota.take()
        id = b"txn-%d" % next(self._numbers)
        opened = self.open[id] = OpenTransaction(id, self._head.working.transaction())
        patience = self._head.service.transaction_timeout
        if patience is not None:
            clock = self._head.working.host.clock
            opened.timer = clock.call_at(clock.now() + patience, lambda: self._expire(opened))
        return opened

    def charge(self, transaction: OpenTransaction, size: int) -> None:
        """A piece of work is added, which keeps so many octets in memory.

        Raises:
            LimitExceeded: all that is open on the connection would be too much.
        """
        transaction.pieces.take()
        self._octets.take(size)
        transaction.octets += size

    def commit(self, transaction: OpenTransaction, done: Callable[[BrokerError | None], None]) -> None:
        """Make all of it true, or nothing; ``done`` gets the reason in that case."""
        self._end(transaction)

        def ended(refused: BrokerError | None) -> None:
            if refused is None:
                for outgoing, delivery, _, outcome in transaction.settled:
                    outgoing.retired(delivery, outcome)
            else:
                _undo(transaction)
            done(refused)
            self._head.stir()

        transaction.work.commit(ended)

    def roll_back(self, transaction: OpenTransaction) -> None:
        """Undo all of it."""
        self._end(transaction)
        transaction.work.rollback()
        _undo(transaction)

    def is_expired(self, id: object) -> bool:
        """Whether a transaction was ended because it took too long; true once, when its client asks."""
        return isinstance(id, bytes) and self._expired.pop(bytes(id), 0) is None

    def refuse(self, link: BrokerLink, id: object) -> None:
        """A link names a transaction that is not there: it is closed (section 4.4)."""
        if self.is_expired(id):
            text = f"the transaction {id!r:.80} has taken too long and is rolled back"
            link.close(TransactionError.TRANSACTION_TIMEOUT, text)
        else:
            link.close(TransactionError.UNKNOWN_ID, str(unknown(id)))

    def _expire(self, transaction: OpenTransaction) -> None:
        transaction.timer = None
        if len(self._expired) >= self._quota.limit:
            del self._expired[next(iter(self._expired))]
        self._expired[transaction.id] = None
        self.roll_back(transaction)
        self._head.stir()

    def _end(self, transaction: OpenTransaction) -> None:
        del self.open[transaction.id]
        self._quota.give_back()
        self._octets.give_back(transaction.octets)
        if transaction.timer is not None:
            transaction.timer.cancel()
        for outgoing in transaction.acquirers:
            outgoing.discharged(transaction)


def _undo(transaction: OpenTransaction) -> None:
    """Clients have again what they had before, and what was acquired is free."""
    for outgoing, delivery, entry, _ in transaction.settled:
        outgoing.restored(delivery, entry)
    for outgoing, delivery, entry in transaction.acquired:
        outgoing.give_back(delivery, entry)


def unknown(id: object) -> NotFound:
    """What is wrong with the id of a transaction."""
    return NotFound(f"no transaction {id!r:.80} is open here")
