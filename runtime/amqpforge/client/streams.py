"""Messages that are never held whole: written piece by piece, and read as they come in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final

from amqpforge.engine.delivery import IncomingDelivery, OutgoingDelivery
from amqpforge.errors import AmqpforgeError, ConnectionLost, LocalError
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import (
    Data,
    IncomingDeliveryState,
    OutgoingDeliveryState,
    encode_message,
)
from amqpforge_protocol.amqp_1_0 import Message as Sections

from .data import DataReader
from .delivery import Delivery
from .outcomes import Outcome, checked
from .sent import Sent
from .waiting import DEFAULT, Timeout, fresh, wait_for

if TYPE_CHECKING:
    from .receiver import Receiver
    from .sender import Sender
    from .transactions import Transaction

__all__ = ["MessageAborted", "OutgoingStream", "StreamedDelivery"]

_MOST_WAITING: Final = 262_144
"""Octets that a stream holds for the engine before a write has to wait."""
_NO_DATA: Final = Data(b"").encode()


class MessageAborted(AmqpforgeError):
    """The sender has broken a message off: nothing of it counts."""


class OutgoingStream:
    """A message that is being sent; see :meth:`.sender.Sender.stream`.

    If the block ends with an exception, the message is aborted: the receiver throws away what it has got.

    Attributes:
        outcome: what became of the message, once the block is through; None if it was sent settled.
    """

    def __init__(
        self,
        sender: Sender,
        head: Message | None,
        size: int | None,
        settled: bool | None,
        transaction: Transaction | None,
        timeout: float | None,
    ) -> None:
        self._sender = sender
        self._head = head
        self._size = size
        self._left = size
        self._settled = settled
        self._transaction = transaction
        self._timeout = timeout
        self._sent: Sent | None = None
        self._moved: asyncio.Future[None] | None = None
        self._has_body = False
        self.outcome: Outcome = None

    async def __aenter__(self) -> OutgoingStream:
        sender = self._sender
        sender._check()
        start = self._start()
        state = None if self._transaction is None else self._transaction._enlist(sender)
        delivery = sender._end.start_message(tag=sender._new_tag(), settled=self._settled, state=state)
        sender._messages += 1
        self._sent = Sent(delivery, self)
        sender._note(self._sent)
        self._write(start)
        return self

    def _start(self) -> bytes:
        """What stands in front of the data.

        Raises:
            EncodeError: the head has a value that AMQP has no type for.
            LocalError: no section of data is that large.
        """
        octets = b""
        if self._head is not None:
            head = self._head.sections
            octets = encode_message(
                Sections(
                    header=head.header,
                    delivery_annotations=head.delivery_annotations,
                    message_annotations=head.message_annotations,
                    properties=head.properties,
                    application_properties=head.application_properties,
                    body=[Data(b"")],
                )
            ).removesuffix(_NO_DATA)
        return octets if self._size is None else octets + _data_header(self._size)

    async def write(self, octets: bytes) -> None:
        """Send a piece of the data; waits as long as too much is not out.

        Raises:
            LocalError: this is more than the size that was told.
            OperationTimedOut: credit, or room, did not come in time.
            ConnectionLost: the connection was lost, and the receiver does not resume the message.
            AmqpforgeError: the link is over.
        """
        if self._left is None:
            self._has_body = True
            self._write(Data(bytes(octets)).encode())
        else:
            if len(octets) > self._left:
                raise LocalError(f"the data has {self._size} octets, and more are written")
            self._left -= len(octets)
            self._write(bytes(octets))
        if self._sent is not None:
            doing = "writing a piece of a message"
            await self._until(self._sent, lambda delivery: delivery.unsent <= _MOST_WAITING, doing)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sent = self._sent
        if sent is None:
            return
        if error is not None:
            self._abort(sent)
            return
        try:
            await self._finish(sent)
        except BaseException:
            self._abort(sent)
            raise
        if isinstance(sent.result, AmqpforgeError):
            raise fresh(sent.result)
        self.outcome = checked(sent.result)

    # --- for the sender -----------------------------------------------------------------------------------

    def _told(self, sent: Sent) -> None:
        """It is known what became of the message."""
        self._look()

    def _look(self) -> None:
        """Output has gone out."""
        if self._moved is not None and not self._moved.done():
            self._moved.set_result(None)

    @property
    def _is_watching(self) -> bool:
        """Whether :meth:`_look` is to be called when output has gone out."""
        return self._moved is not None

    # --- inside -----------------------------------------------------------------------------------------

    def _write(self, octets: bytes) -> None:
        if self._sent is None:
            raise LocalError("a stream is written inside of its block")
        if octets and not self._sent.is_told:
            self._sent.delivery.write(octets)
            self._sender._octets += len(octets)
            self._sender._connection._wake()

    async def _finish(self, sent: Sent) -> None:
        if self._left:
            raise LocalError(f"the data has {self._size} octets, and {self._left} of them are missing")
        if not sent.is_told:
            if not self._has_body and self._size is None:
                self._write(_NO_DATA)
            sent.delivery.finish()
            self._sender._connection._wake()
        if sent.settled:
            await self._until(
                sent, lambda delivery: delivery.progress is OutgoingDeliveryState.SENT, "sending a message"
            )
            self._sender._forget(sent)
        else:
            await self._until(sent, lambda _: False, "waiting for the outcome of a message")

    async def _until(self, sent: Sent, is_reached: Callable[[OutgoingDelivery], bool], doing: str) -> None:
        """Wait until the delivery has come so far, or it is known what became of it.

        Raises:
            AmqpforgeError: what became of it is an error; or the time is up.
        """
        sender = self._sender
        try:
            while not sent.is_told and not is_reached(sent.delivery):
                self._moved = sender._loop.create_future()
                sender._connection._watch(self)
                await wait_for(self._moved, self._timeout, doing)
        finally:
            self._moved = None
        if isinstance(sent.result, AmqpforgeError):
            raise fresh(sent.result)

    def _abort(self, sent: Sent) -> None:
        self._sender._forget(sent)
        delivery = sent.delivery
        if not sent.is_told and delivery.progress is not OutgoingDeliveryState.SENT:
            try:
                delivery.abort()
            except LocalError:
                return  # The link is over, and with it the message.
            self._sender._connection._wake()


def _data_header(size: int) -> bytes:
    """What stands in front of the octets of a data section.

    Raises:
        LocalError: no section is that large.
    """
    if not 0 <= size < 1 << 32:
        raise LocalError(f"a data section has 0 to {(1 << 32) - 1} octets, not {size}")
    return _NO_DATA[:3] + b"\xb0" + size.to_bytes(4, "big")


class StreamedDelivery(Delivery):
    """A message that is read as it comes in, on a receiver made with ``stream=True``.

    Read it by :meth:`data` or by :meth:`octets`, once. What is not read holds the sender back, and nobody
    else: such a receiver has a session of its own.
    """

    __slots__ = ("_changed", "_is_dropped", "_is_lost", "_reader", "_seen")

    def __init__(self, receiver: Receiver, delivery: IncomingDelivery) -> None:
        super().__init__(receiver, delivery)
        self._reader = DataReader()
        self._changed: asyncio.Future[None] | None = None
        self._is_dropped = False
        self._is_lost = False
        self._seen = 0

    @property
    def message(self) -> Message:
        """What is known of the message without its body; complete once :meth:`head` has returned."""
        return self._reader.head

    async def head(self, *, timeout: Timeout = DEFAULT) -> Message:
        """What stands in front of the body: a message without one.

        Raises:
            OperationTimedOut: it did not come in time.
            MessageAborted, ConnectionLost, DecodeError: the message does not come to its end, or is none.
        """
        while not self._reader.is_head_whole and await self._more(timeout):
            pass
        return self._reader.head

    async def data(self, *, timeout: Timeout = DEFAULT) -> AsyncIterator[bytes]:
        """The octets of the data sections, in pieces as they come.

        Args:
            timeout: seconds for each piece.

        Raises:
            LocalError: the body is not made of data sections; use :meth:`octets`.
            OperationTimedOut: a piece did not come in time.
            MessageAborted, ConnectionLost, DecodeError: the message does not come to its end, or is none.
        """
        while True:
            piece = self._reader.take()
            if piece:
                yield piece
            elif not await self._more(timeout):
                return

    async def octets(self, *, timeout: Timeout = DEFAULT) -> AsyncIterator[bytes]:
        """The encoded message, in pieces as they come.

        Raises:
            OperationTimedOut: a piece did not come in time.
            MessageAborted, ConnectionLost: the message does not come to its end.
        """
        while True:
            piece = self._read()
            if piece:
                yield piece
            elif not await self._wait(timeout):
                return

    # --- for the receiver -------------------------------------------------------------------------------

    def _came(self) -> int:
        """More of it came in; returns how many octets that were."""
        size = self._delivery.size
        more, self._seen = size - self._seen, size
        if self._is_dropped:
            self._delivery.read()
        self._told()
        return more

    def _told(self) -> None:
        """Something has changed about it."""
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    @property
    def _is_whole(self) -> bool:
        """Whether nothing more of it comes."""
        return self._delivery.is_complete or self._delivery.progress is IncomingDeliveryState.ABORTED

    @property
    def _can_be_resumed(self) -> bool:
        """Whether the sender may go on with it on another connection: not with what it has sent settled."""
        return not self._delivery.remote_settled

    def _lose(self) -> None:
        """The rest of it does not come."""
        self._is_lost = True
        self._told()

    def _drop_rest(self) -> None:
        """The application has decided: what is not read is not wanted."""
        self._is_dropped = True
        self._delivery.read()

    # --- inside -----------------------------------------------------------------------------------------

    def _read(self) -> bytes:
        octets = self._delivery.read()
        if octets:
            self._receiver._connection._wake()
        return octets

    async def _more(self, timeout: Timeout) -> bool:
        """Read on; returns False at the end of the message."""
        octets = self._read()
        if octets:
            self._reader.feed(octets)
            return True
        if await self._wait(timeout):
            return True
        self._reader.end()
        return False

    async def _wait(self, timeout: Timeout) -> bool:
        """Wait for octets; returns False at the end of the message."""
        delivery, receiver = self._delivery, self._receiver
        while not delivery.parts:
            if delivery.progress is IncomingDeliveryState.ABORTED:
                raise MessageAborted(f"the sender has broken off the message {self.tag.hex()}")
            if delivery.is_complete:
                return False
            receiver._check()
            if self._is_lost:
                raise ConnectionLost("the rest of the message does not come: the connection was lost")
            if self._is_dropped:
                raise LocalError("the message has its outcome: the rest of it was dropped")
            self._changed = receiver._loop.create_future()
            limit = receiver._connection._limit(timeout)
            await wait_for(self._changed, limit, f"receiving a piece of a message over {receiver!r}")
        return True
