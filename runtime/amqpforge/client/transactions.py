"""Transactions, from the side that asks for them (section 4)."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from amqpforge.errors import AmqpforgeError, LocalError, OperationTimedOut
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpValue,
    AnyOutcome,
    AnyTxnId,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Error,
    Rejected,
    TransactionalState,
    TxnCapability,
)

from .sender import Sender
from .waiting import DEFAULT, Timeout, wait_for

if TYPE_CHECKING:
    from .connection import Connection
    from .link import Link
    from .outcomes import Outcome

__all__ = ["Controller", "Transaction", "TransactionFailed"]

_MANY_SESSIONS: Final = TxnCapability.MULTI_SSNS_PER_TXN

_log = logging.getLogger("amqpforge.link")


class TransactionFailed(AmqpforgeError):
    """A transaction was not declared, or not carried out: nothing of it counts.

    Attributes:
        error: what the coordinator told about it; None if it told nothing.
    """

    def __init__(self, what: str, error: Error | None = None) -> None:
        told = "" if error is None else f": {error.condition} {error.description or ''}".rstrip()
        super().__init__(f"{what}{told}")
        self.error = error


class Controller(Sender):
    """The link to the coordinator. The transactions that are open when it is lost are rolled back."""

    __slots__ = ()

    _recovers = False

    @property
    def capabilities(self) -> tuple[str, ...]:
        """What transactions can do here."""
        target = self._end.target
        return tuple(target.capabilities or ()) if isinstance(target, Coordinator) else ()

    async def declare(self, timeout: Timeout) -> AnyTxnId:
        """Begin a transaction.

        Raises:
            TransactionFailed: the coordinator does not begin one.
            AmqpforgeError: as ``send``.
        """
        declaring = self.post(Message(AmqpValue(Declare())), settled=False)
        limit = self._connection._limit(timeout)
        try:
            outcome = await wait_for(
                asyncio.shield(declaring), limit, f"declaring a transaction over {self!r}"
            )
        except (asyncio.CancelledError, OperationTimedOut):
            declaring.add_done_callback(self._undo)
            raise
        if isinstance(outcome, Declared):
            return outcome.txn_id
        raise TransactionFailed("the coordinator has declared no transaction", _error(outcome))

    def _undo(self, declaring: asyncio.Future[Outcome]) -> None:
        """Nobody waits for a transaction any more: if it comes yet, it is rolled back."""
        outcome = None if _failed(declaring) else declaring.result()
        if isinstance(outcome, Declared) and self.is_open:
            undoing = self.post(
                Message(AmqpValue(Discharge(txn_id=outcome.txn_id, fail=True))), settled=False
            )
            undoing.add_done_callback(_failed)

    async def discharge(self, id: AnyTxnId, *, fail: bool, timeout: Timeout) -> None:
        """End a transaction.

        Raises:
            TransactionFailed: it could not be committed.
            AmqpforgeError: as ``send``: what became of it is not known.
        """
        self._connection._tell_gathered()  # What belongs to the transaction has to be told ahead of its end.
        discharge = Message(AmqpValue(Discharge(txn_id=id, fail=fail)))
        outcome = await self.send(discharge, settled=False, check=False, timeout=timeout)
        if not isinstance(outcome, Accepted):
            raise TransactionFailed("the transaction was rolled back", _error(outcome))


class Transaction:
    """Work that takes effect together or not at all: see ``Connection.transaction``.

    What belongs to it says so: ``sender.send(message, transaction=transaction)`` and
    ``delivery.accept(transaction=transaction)``. At the end of the block it is committed, or rolled back if
    the block ends with an exception. Lost with its connection, it is rolled back, and committing it fails.
    """

    def __init__(self, connection: Connection, timeout: Timeout = DEFAULT) -> None:
        self._connection = connection
        self._timeout = timeout
        self._controller: Controller | None = None
        self._id: AnyTxnId | None = None

    async def __aenter__(self) -> Transaction:
        self._controller = controller = await self._connection._controller(self._timeout)
        self._id = await controller.declare(self._timeout)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._id is None:
            return
        if error is None:
            await self.commit()
            return
        try:
            await self.rollback()
        except AmqpforgeError as failure:
            _log.warning("a transaction is left to the coordinator to roll back: %s", failure)

    @property
    def id(self) -> AnyTxnId:
        """The name that the coordinator gave it.

        Raises:
            LocalError: it is not begun, or over.
        """
        if self._id is None:
            raise LocalError("the transaction is not begun, or it is over")
        return self._id

    async def commit(self) -> None:
        """Carry out what belongs to the transaction, and end it; the block does so by itself.

        Raises:
            TransactionFailed: the coordinator has rolled it back.
            LinkDetached, ConnectionClosed: the connection to the coordinator is lost, and so is the
                transaction, unless it was lost just now.
        """
        await self._discharge(fail=False)

    async def rollback(self) -> None:
        """Undo what belongs to the transaction, and end it.

        Raises:
            AmqpforgeError: the coordinator could not be told; it will roll it back by itself.
        """
        await self._discharge(fail=True)

    async def _discharge(self, *, fail: bool) -> None:
        id, controller = self.id, self._controller
        self._id = None
        if controller is not None:
            await controller.discharge(id, fail=fail, timeout=self._timeout)

    # --- for links --------------------------------------------------------------------------------------

    def _enlist(self, link: Link[Any]) -> TransactionalState:
        """The state of a message that is sent as a part of it."""
        self._check_session(link)
        return TransactionalState(txn_id=self.id)

    def _retire(self, link: Link[Any], outcome: AnyOutcome) -> TransactionalState:
        """The state of a delivery that gets an outcome as a part of it."""
        self._check_session(link)
        return TransactionalState(txn_id=self.id, outcome=outcome)

    def _check_session(self, link: Link[Any]) -> None:
        controller = self._controller
        if controller is None or controller._home is link._home:
            return
        if _MANY_SESSIONS not in controller.capabilities:
            raise LocalError(
                f"{link!r} is on another session than the coordinator, which does not offer {_MANY_SESSIONS}"
            )


def _failed(telling: asyncio.Future[Outcome]) -> bool:
    """Whether it came to no outcome; the error, if there is one, has been seen then."""
    return telling.cancelled() or telling.exception() is not None


def _error(outcome: Outcome) -> Error | None:
    return outcome.error if isinstance(outcome, Rejected) else None
