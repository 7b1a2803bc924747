"""The sending end of a link, for threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

from amqpforge import client
from amqpforge.client import DEFAULT, Outcome, SenderCounters, Timeout
from amqpforge.client.outcomes import checked
from amqpforge.client.sender import Sendable
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import AnyAddress

from .batch import Batch
from .link import Link
from .sending import Promise, Sending, fixed
from .streams import OutgoingStream

if TYPE_CHECKING:
    from .transactions import Transaction

__all__ = ["Sender"]


class Sender(Link[client.Sender]):
    """Sends messages to a node: :class:`amqpforge.client.Sender` for threads, of which many may use it."""

    __slots__ = ()

    @property
    def address(self) -> AnyAddress | None:
        """The address of the node: as the peer tells it, for a dynamic one too; None for a link without."""
        return self._twin.address

    @property
    def credit(self) -> int:
        """Messages that can be sent just now without waiting."""
        return self._twin.credit

    @property
    def max_message_size(self) -> int | None:
        """Octets that a message may have; None: as many as it likes."""
        return self._twin.max_message_size

    @property
    def counters(self) -> SenderCounters:
        """What went over the link so far."""
        return self._thread.call(lambda: self._twin.counters)

    def send(
        self,
        message: Sendable,
        *,
        settled: bool | None = None,
        transaction: Transaction | None = None,
        check: bool = True,
        timeout: Timeout = DEFAULT,
    ) -> Outcome:
        """Send a message, and wait for its outcome.

        Interrupted, or out of time, a message of which nothing is sent is taken back; what is under way goes
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
        thread, twin = self._thread, self._twin
        part = None if transaction is None else transaction._twin
        sending = Sending(thread, twin, fixed(message), settled, part)
        outcome = thread.wait_for(sending, twin.connection._limit(timeout), f"sending over {self!r}")
        return checked(outcome) if check else outcome

    def post(
        self,
        message: Sendable,
        *,
        settled: bool | None = None,
        transaction: Transaction | None = None,
    ) -> Future[Outcome]:
        """Put a message on its way without waiting: a future of the outcome, accepted or not.

        As many are held as are posted: whoever posts faster than the receiver takes has to look at
        ``counters.queued``, or to use :meth:`send_many`. Cancelling the future does not take the message
        back. What is called when it is done is called in the I/O thread, and must not wait.

        Raises:
            AmqpforgeError: the link is over. What else is wrong, the future tells.
        """
        thread, twin = self._thread, self._twin
        thread.check()
        twin._check()
        encoded = fixed(message)
        part = None if transaction is None else transaction._twin
        promise = Promise()
        thread.submit(lambda: promise.keep(lambda waiter: twin._enqueue(encoded, settled, part, waiter)))
        return promise

    def send_many(
        self,
        messages: Iterable[Sendable],
        *,
        window: int = 500,
        settled: bool | None = None,
        transaction: Transaction | None = None,
        check: bool = True,
        timeout: Timeout = DEFAULT,
    ) -> list[Outcome]:
        """Send messages one behind the other, with at most ``window`` whose outcome is not known, and wait
        for all outcomes; :meth:`send_each` holds none.

        Args:
            messages: taken from, in this thread, as there is room.
            window: messages under way.
            settled: as for :meth:`send`.
            transaction: as for :meth:`send`.
            check: raise an error once all outcomes are known and one is not accepted.
            timeout: seconds without any progress.

        Returns:
            The outcomes, in order.

        Raises:
            NotAccepted: with ``check``: the first outcome that is not accepted.
            AmqpforgeError: as :meth:`send`; what is under way goes on, and the rest is not sent.
        """
        batch = self._batch(window, settled, transaction, timeout, wants_each=False)
        outcomes = list(batch.run(map(fixed, messages)))
        if check:
            for outcome in outcomes:
                checked(outcome)
        return outcomes

    def send_each(
        self,
        messages: Iterable[Sendable],
        *,
        window: int = 500,
        settled: bool | None = None,
        transaction: Transaction | None = None,
        timeout: Timeout = DEFAULT,
    ) -> Iterator[Outcome]:
        """Send messages as :meth:`send_many` does, endless ones if you like, and iterate over the outcomes.

        Nothing is sent before the first one is asked for. What ``async for`` does with ``send_many``.
        """
        batch = self._batch(window, settled, transaction, timeout, wants_each=True)
        return batch.run(map(fixed, messages))

    def _batch(
        self,
        window: int,
        settled: bool | None,
        transaction: Transaction | None,
        timeout: Timeout,
        *,
        wants_each: bool,
    ) -> Batch:
        return Batch(
            self._thread,
            self._twin,
            window=window,
            settled=settled,
            transaction=None if transaction is None else transaction._twin,
            timeout=self._twin.connection._limit(timeout),
            wants_each=wants_each,
        )

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

            with sender.stream(Message(subject="film")) as stream:
                while piece := file.read(65536):
                    stream.write(piece)
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
        part = None if transaction is None else transaction._twin
        twin = self._twin.stream(head, size=size, settled=settled, transaction=part, timeout=timeout)
        return OutgoingStream(self._thread, twin)

    def flush(self, *, timeout: Timeout = DEFAULT) -> None:
        """Wait until all that was sent or posted has its outcome.

        Raises:
            OperationTimedOut: some have none yet.
            AmqpforgeError: the link is over.
        """
        self._thread.run(lambda: self._twin.flush(timeout=timeout))
