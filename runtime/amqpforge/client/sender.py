"""The sending end of a link, as applications use it."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from amqpforge.engine.delivery import OutgoingDelivery
from amqpforge.engine.sender import Sender as SenderEnd
from amqpforge.errors import AmqpforgeError, ConnectionLost, OperationTimedOut
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AnyAddress,
    Modified,
    OutgoingDeliveryState,
    Rejected,
    Released,
    Target,
    TransactionalState,
    Value,
)

from .batch import Batch
from .counters import SenderCounters
from .link import Link
from .outcomes import Outcome, checked, is_decided, outcome_of
from .sent import Sent, Waiter
from .streams import OutgoingStream
from .termini import outlives_session
from .waiting import DEFAULT, Timeout, fresh, wait_for

if TYPE_CHECKING:
    from .connection import Connection
    from .transactions import Transaction

__all__ = ["Sendable", "Sender"]

Sendable: TypeAlias = Message | Value
"""A message, or what becomes the body of one."""

_NOT_SENT: Final = OutgoingDeliveryState.NOT_SENT
_SENT: Final = OutgoingDeliveryState.SENT


_NOTHING: Final[deque[Sent]] = deque(maxlen=0)
"""What all senders share that have sent nothing settled: a deque takes much of the memory of a link."""
_NONE_PENDING: Final[dict[Sent, None]] = {}
"""What all senders share that have sent nothing yet; nothing is ever put into it."""


class Sender(Link[SenderEnd]):
    """Sends messages to a node.

    A message waits until the receiver gives credit, and for a connection if there is none just now. It is
    sent at least once: when the connection is lost before its outcome is known, it is resumed on the next
    one, or sent again if the receiver does not know it.
    """

    __slots__ = (
        "_asked_mode",
        "_asked_target",
        "_empty",
        "_messages",
        "_next_tag",
        "_octets",
        "_outcomes",
        "_pending",
        "_unsent",
    )

    def __init__(self, connection: Connection, end: SenderEnd) -> None:
        """Use ``Connection.sender``."""
        super().__init__(connection, end)
        self._asked_target, self._asked_mode = end.target, end.rcv_settle_mode  # The peer may choose others.
        self._next_tag = 0
        self._pending = _NONE_PENDING
        self._unsent = _NOTHING  # Sent settled: done as soon as they are out.
        self._empty: asyncio.Future[None] | None = None
        self._messages = 0
        self._octets = 0
        self._outcomes: Counter[type] | None = None

    # --- what applications see --------------------------------------------------------------------------

    @property
    def address(self) -> AnyAddress | None:
        """The address of the node: as the peer tells it, for a dynamic one too; None for a link without."""
        target = self._end.target
        return target.address if isinstance(target, Target) else None

    @property
    def credit(self) -> int:
        """Messages that can be sent just now without waiting."""
        return self._end.link_credit

    @property
    def max_message_size(self) -> int | None:
        """Octets that a message may have; None: as many as it likes."""
        remote = self._end.remote
        return (remote.max_message_size or None) if remote is not None else None

    @property
    def counters(self) -> SenderCounters:
        """What went over the link so far."""
        outcomes: Counter[type] = self._outcomes or Counter()
        return SenderCounters(
            messages=self._messages,
            octets=self._octets,
            accepted=outcomes[Accepted],
            rejected=outcomes[Rejected],
            released=outcomes[Released],
            modified=outcomes[Modified],
            queued=len(self._end.queue),
            unsettled=len(self._end.unsettled),
            credit=self._end.link_credit,
            reattached=self._reattached,
        )

    async def send(
        self,
        message: Sendable,
        *,
        settled: bool | None = None,
        transaction: Transaction | None = None,
        check: bool = True,
        timeout: Timeout = DEFAULT,
    ) -> Outcome:
        """Send a message, and wait for its outcome.

        Cancelled, or out of time, a message of which nothing is sent is taken back; what is under way goes
        on, and its outcome is dropped.

        Args:
            message: a message, or its body.
            settled: send it settled, and wait only until it is out; None: as snd-settle-mode says, else
                unsettled.
            transaction: the transaction that it belongs to.
            check: raise an error for another outcome than accepted.
            timeout: seconds.

        Returns:
            The outcome; None for a message that is sent settled.

        Raises:
            NotAccepted: the outcome is rejected, released or modified.
            OperationTimedOut: credit, or the outcome, did not come in time.
            LinkDetached, ConnectionClosed: the link or the connection is over.
            LocalError: the message is too large for the receiver, or the link is closed.
        """
        future: asyncio.Future[Outcome] = self._loop.create_future()
        sent = self._enqueue(message, settled, transaction, future)
        try:
            outcome = await wait_for(future, self._connection._limit(timeout), f"sending over {self!r}")
        except (asyncio.CancelledError, OperationTimedOut):
            self._withdraw(sent)
            raise
        return checked(outcome) if check else outcome

    def post(
        self,
        message: Sendable,
        *,
        settled: bool | None = None,
        transaction: Transaction | None = None,
    ) -> asyncio.Future[Outcome]:
        """Put a message on its way without waiting: a future of the outcome, accepted or not.

        As many are held as are posted: whoever posts faster than the receiver takes has to look at
        ``counters.queued``, or to use :meth:`send_many`. Cancelling the future does not take the message
        back.

        Raises:
            AmqpforgeError: the link is over, or the message is too large for the receiver.
        """
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self._enqueue(message, settled, transaction, future)
        return future

    def send_many(
        self,
        messages: Iterable[Sendable] | AsyncIterable[Sendable],
        *,
        window: int = 500,
        settled: bool | None = None,
        transaction: Transaction | None = None,
        check: bool = True,
        timeout: Timeout = DEFAULT,
    ) -> Batch:
        """Send messages one behind the other, with at most ``window`` whose outcome is not known.

        ``await`` it for the list of outcomes, in order; or iterate with ``async for``, which yields them one
        by one and holds none.

        Args:
            messages: an iterable or asynchronous iterable, endless if you like; taken from as there is room.
            window: messages under way.
            settled: as for :meth:`send`.
            transaction: as for :meth:`send`.
            check: if awaited, raise an error once all outcomes are known and one is not accepted. Iterating
                shows each outcome as it is.
            timeout: seconds without any progress.

        Raises:
            NotAccepted: awaited, with ``check``: the first outcome that is not accepted.
            AmqpforgeError: as :meth:`send`; what is under way goes on, and the rest is not sent.
        """
        return Batch(self, messages, window, settled, transaction, check, self._connection._limit(timeout))

    def stream(
        self,
        head: Message | None = None,
        *,
        size: int | None = None,
        settled: bool | None = None,
        transaction: Transaction | None = None,
        timeout: Timeout = DEFAULT,
    ) -> OutgoingStream:
        """Send a message of data sections that is never held whole.

        ::

            async with sender.stream(Message(subject="film")) as stream:
                while piece := file.read(65536):
                    await stream.write(piece)
            stream.outcome

        Args:
            head: what stands in front of the data: its header, annotations and properties; its body is not
                sent.
            size: octets of the data, if that is known: they are one section then, which every peer
                understands; else each piece is one, and some peers take in only the first.
            settled: as for :meth:`send`.
            transaction: as for :meth:`send`.
            timeout: seconds that each write, and the outcome, may take.
        """
        limit = self._connection._limit(timeout)
        return OutgoingStream(self, head, size, settled, transaction, limit)

    async def flush(self, *, timeout: Timeout = DEFAULT) -> None:
        """Wait until all that was sent or posted has its outcome.

        Raises:
            OperationTimedOut: some have none yet.
            AmqpforgeError: the link is over.
        """
        if not self._pending:
            return
        if self._empty is None or self._empty.done():
            self._empty = self._loop.create_future()
        doing = f"waiting for the outcome of {len(self._pending)} messages on {self!r}"
        await wait_for(asyncio.shield(self._empty), self._connection._limit(timeout), doing)

    # --- deliveries ---------------------------------------------------------------------------------------

    def _enqueue(
        self,
        message: Sendable,
        settled: bool | None,
        transaction: Transaction | None,
        waiter: Waiter,
    ) -> Sent:
        """Give a message to the engine; the waiter is told what became of it."""
        if self._error is not None or self._is_closing:
            self._check()
        if type(message) is not Message and not isinstance(message, Message):
            message = Message(message)
        payload = message.encode()
        state = None if transaction is None else transaction._enlist(self)
        delivery = self._end.send(
            payload,
            tag=self._new_tag(),
            settled=settled,
            state=state,
            message_format=message.message_format,
        )
        self._messages += 1
        self._octets += len(payload)
        sent = Sent(delivery, waiter)
        self._note(sent)
        self._connection._wake()
        return sent

    def _new_tag(self) -> bytes:
        tag = self._next_tag
        self._next_tag = tag + 1
        return tag.to_bytes(8, "big")

    def _note(self, sent: Sent) -> None:
        """A message is on its way."""
        if self._pending is _NONE_PENDING:
            self._pending = {}
        self._pending[sent] = None
        if sent.settled and sent.delivery.payload is not None:
            if self._unsent is _NOTHING:
                self._unsent = deque()
            self._unsent.append(sent)
            self._look()
            self._connection._watch(self)

    def _withdraw(self, sent: Sent) -> None:
        """Nobody waits for a message any more: take it back if nothing of it is out."""
        if sent in self._pending:
            del self._pending[sent]
            delivery = sent.delivery
            delivery.context = None
            if delivery.progress is _NOT_SENT and not delivery.resuming:
                delivery.abort()
            self._note_empty()

    def _forget(self, sent: Sent) -> None:
        """Nobody wants to know any more what becomes of a message."""
        if sent in self._pending:
            del self._pending[sent]
            sent.delivery.context = None
            self._note_empty()

    def _look(self) -> None:
        """See which of the messages that are sent settled are out by now."""
        unsent = self._unsent
        while unsent:
            sent = unsent[0]
            if sent in self._pending and sent.delivery.progress is not _SENT:
                return
            unsent.popleft()
            if sent in self._pending:
                self._done(sent, None, None)

    @property
    def _is_watching(self) -> bool:
        """Whether :meth:`_look` is to be called when output has gone out."""
        return bool(self._unsent)

    def _on_updates(self, deliveries: list[OutgoingDelivery]) -> None:
        """The receiver has told of deliveries."""
        for delivery in deliveries:
            sent: Sent | None = delivery.context
            if sent is None:
                continue
            state = delivery.remote_state
            if type(state) is Accepted:
                self._done(sent, state, None)
            elif is_decided(delivery):
                try:
                    outcome = outcome_of(delivery)
                except AmqpforgeError as error:
                    self._done(sent, None, error)
                else:
                    if type(state) is TransactionalState and not delivery.settled:
                        delivery.settle(state)
                    self._done(sent, outcome, None)

    def _done(self, sent: Sent, outcome: Outcome, error: AmqpforgeError | None) -> None:
        del self._pending[sent]
        sent.delivery.context = None
        if outcome is not None:
            if self._outcomes is None:
                self._outcomes = Counter()
            self._outcomes[type(outcome)] += 1
        sent.tell(outcome, error)
        if self._empty is not None:
            self._note_empty()

    def _note_empty(self) -> None:
        if self._empty is not None and not self._pending and not self._empty.done():
            self._empty.set_result(None)

    # --- the link ---------------------------------------------------------------------------------------

    async def _finish_work(self) -> None:
        if self._pending and self.is_open:
            await self.flush()

    def _survives(self, end: SenderEnd) -> bool:
        return outlives_session(end.target)

    def _make_end(self, lost: SenderEnd) -> SenderEnd:
        return SenderEnd(
            lost.name,
            source=lost.source,
            target=self._asked_target,
            snd_settle_mode=lost.snd_settle_mode,
            rcv_settle_mode=self._asked_mode,
            desired_capabilities=lost.desired_capabilities,
            properties=lost.properties,
        )

    def _repeat(self, end: SenderEnd) -> None:
        # What was under way goes out again, as new deliveries: at least once is what is promised.
        self._look()
        pending = list(self._pending)
        self._pending.clear()
        self._unsent.clear()
        for sent in pending:
            lost = sent.delivery
            lost.context = None
            try:
                if not sent.can_be_repeated:
                    raise ConnectionLost("the message was under way when the connection was lost")
                sent.delivery = self._end.send(
                    lost.payload or b"",
                    tag=self._new_tag(),
                    settled=sent.settled,
                    message_format=lost.message_format,
                )
            except AmqpforgeError as error:
                sent.tell(None, error)
            else:
                sent.delivery.context = sent
                self._note(sent)
        self._note_empty()

    def _abandon(self, error: AmqpforgeError) -> None:
        pending, self._pending = self._pending, _NONE_PENDING
        self._unsent.clear()
        for sent in pending:
            sent.delivery.context = None
            sent.tell(None, fresh(error))
        if self._empty is not None and not self._empty.done():
            self._empty.set_exception(fresh(error))
            self._empty.exception()
