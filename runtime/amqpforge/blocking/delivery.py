"""A message that came in, for threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from amqpforge import client
from amqpforge.client import DEFAULT, Timeout
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import Accepted, AnyOutcome, Released

from .twin import Blocking

if TYPE_CHECKING:
    from .io_thread import IoThread
    from .receiver import Receiver
    from .transactions import Transaction

__all__ = ["Delivery", "StreamedDelivery"]

_ACCEPTED: Final = Accepted()
_RELEASED: Final = Released()


class Delivery(Blocking[client.Delivery]):
    """A message, and what is to become of it: :class:`amqpforge.client.Delivery` for threads.

    :meth:`accept` and :meth:`release` do not wait, unless they are part of a transaction or the second that
    is said about it.
    """

    __slots__ = ("_is_decided", "_receiver")

    def __init__(self, thread: IoThread, twin: client.Delivery, receiver: Receiver) -> None:
        """Receivers make them."""
        super().__init__(thread, twin)
        self._receiver = receiver
        self._is_decided = False  # Or soon will be, in the I/O thread.

    @property
    def message(self) -> Message:
        """The message; it is decoded when its parts are looked at."""
        return self._twin.message

    @property
    def payload(self) -> bytes:
        """The octets of the message, as they came."""
        return self._twin.payload

    @property
    def receiver(self) -> Receiver:
        """The receiver that it came in on."""
        return self._receiver

    @property
    def tag(self) -> bytes:
        """The delivery-tag, which the sender chose."""
        return self._twin.tag

    @property
    def settled(self) -> bool:
        """Whether this end has settled it, or never had to."""
        return self._thread.call(lambda: self._twin.settled)

    @property
    def outcome(self) -> AnyOutcome | None:
        """What it was given from here, or by the sender; None while it has no outcome."""
        return self._thread.call(lambda: self._twin.outcome)

    @property
    def is_resumed(self) -> bool:
        """Whether the sender took it up again on another connection, so that its outcome still counts."""
        return self._twin.is_resumed

    def accept(self, *, transaction: Transaction | None = None) -> None:
        """It is dealt with.

        Raises:
            LocalError: it has another outcome already.
        """
        part = None if transaction is None else transaction._twin
        self._decide(lambda: self._twin.accept(transaction=part), None if part else _ACCEPTED)

    def reject(
        self,
        condition: str | None = None,
        description: str | None = None,
        *,
        info: Mapping[str, Any] | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """It is invalid, and can never be dealt with.

        Args:
            condition: why, e.g. ``amqp:decode-error``; None: nothing is said, or with a description
                ``amqp:not-allowed``.
            description: why, for people.
            info: more about it.
            transaction: the transaction that this belongs to.

        Raises:
            LocalError: it has another outcome already, or too much is told for a frame.
        """
        part = None if transaction is None else transaction._twin
        self._decide(lambda: self._twin.reject(condition, description, info=info, transaction=part))

    def release(self, *, transaction: Transaction | None = None) -> None:
        """It was not and will not be dealt with: it may go to any receiver, this one too.

        Raises:
            LocalError: it has another outcome already.
        """
        part = None if transaction is None else transaction._twin
        self._decide(lambda: self._twin.release(transaction=part), None if part else _RELEASED)

    def modify(
        self,
        *,
        delivery_failed: bool | None = None,
        undeliverable_here: bool | None = None,
        annotations: Mapping[str, Any] | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """It was not dealt with, and is to be changed at its node before it is delivered again.

        Args:
            delivery_failed: count it as an attempt that failed.
            undeliverable_here: do not send it here again.
            annotations: message annotations to add or replace.
            transaction: the transaction that this belongs to.

        Raises:
            LocalError: it has another outcome already, or too much is told for a frame.
        """
        part = None if transaction is None else transaction._twin
        self._decide(
            lambda: self._twin.modify(
                delivery_failed=delivery_failed,
                undeliverable_here=undeliverable_here,
                annotations=annotations,
                transaction=part,
            )
        )

    @property
    def _is_undecided(self) -> bool:
        """Whether nobody has said yet what becomes of it."""
        return not self._is_decided and self._twin._is_undecided

    def _decide(self, decide: Callable[[], None], simple: AnyOutcome | None = None) -> None:
        """Say what becomes of it; does not wait for ``simple`` outcomes, where nothing can be wrong."""
        thread, receiver = self._thread, self._receiver
        thread.check()
        with receiver._lock:
            waits = simple is None or self._is_decided or not receiver._twin._takes(simple)
            self._is_decided = self._is_decided or not waits
        if waits:
            thread.call(decide)
        else:
            thread.submit(decide)


class StreamedDelivery(Delivery):
    """A message that is read as it comes in: :class:`amqpforge.client.StreamedDelivery` for threads.

    Read it by :meth:`data` or by :meth:`octets`, once. What is not read holds the sender back, and nobody
    else: such a receiver has a session of its own.
    """

    __slots__ = ("_stream",)

    def __init__(self, thread: IoThread, twin: client.StreamedDelivery, receiver: Receiver) -> None:
        """Receivers make them."""
        super().__init__(thread, twin, receiver)
        self._stream = twin

    def head(self, *, timeout: Timeout = DEFAULT) -> Message:
        """What stands in front of the body: a message without one.

        Raises:
            OperationTimedOut: it did not come in time.
            MessageAborted, ConnectionLost, DecodeError: the message does not come to its end, or is none.
        """
        return self._thread.run(lambda: self._stream.head(timeout=timeout))

    def data(self, *, timeout: Timeout = DEFAULT) -> Iterator[bytes]:
        """The octets of the data sections, in pieces as they come.

        Args:
            timeout: seconds for each piece.

        Raises:
            LocalError: the body is not made of data sections; use :meth:`octets`.
            OperationTimedOut: a piece did not come in time.
            MessageAborted, ConnectionLost, DecodeError: the message does not come to its end, or is none.
        """
        while piece := self._thread.run(lambda: _first(self._stream.data(timeout=timeout))):
            yield piece

    def octets(self, *, timeout: Timeout = DEFAULT) -> Iterator[bytes]:
        """The encoded message, in pieces as they come.

        Raises:
            OperationTimedOut: a piece did not come in time.
            MessageAborted, ConnectionLost: the message does not come to its end.
        """
        while piece := self._thread.run(lambda: _first(self._stream.octets(timeout=timeout))):
            yield piece


async def _first(pieces: Any) -> bytes:
    """The next piece; empty at the end. Iterating again goes on behind it."""
    async with aclosing(pieces):
        piece: bytes = await anext(pieces, b"")
        return piece
