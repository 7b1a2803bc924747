"""Transactions, for threads."""

from __future__ import annotations

from amqpforge import client
from amqpforge_protocol.amqp_1_0 import AnyTxnId

from .twin import Ending

__all__ = ["Transaction"]


class Transaction(Ending[client.Transaction]):
    """Work that takes effect together or not at all: see ``Connection.transaction``.

    What belongs to it says so: ``sender.send(message, transaction=transaction)`` and
    ``delivery.accept(transaction=transaction)``. At the end of the block it is committed, or rolled back if
    the block ends with an exception. Lost with its connection, it is rolled back, and committing it fails.
    """

    @property
    def id(self) -> AnyTxnId:
        """The name that the coordinator gave it.

        Raises:
            LocalError: it is not begun, or over.
        """
        return self._twin.id

    def commit(self) -> None:
        """Carry out what belongs to the transaction, and end it; the block does so by itself.

        Raises:
            TransactionFailed: the coordinator has rolled it back.
            LinkDetached, ConnectionClosed: the connection to the coordinator is lost, and so is the
                transaction, unless it was lost just now.
        """
        self._thread.run(self._twin.commit)

    def rollback(self) -> None:
        """Undo what belongs to the transaction, and end it.

        Raises:
            AmqpforgeError: the coordinator could not be told; it will roll it back by itself.
        """
        self._thread.run(self._twin.rollback)
