"""The receiving end of a link, for threads."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqpforge import client
from amqpforge.client import DEFAULT, ReceiverCounters, Timeout
from amqpforge.errors import AmqpforgeError
from amqpforge_protocol.amqp_1_0 import AnyAddress

from .delivery import Delivery, StreamedDelivery
from .link import Link

if TYPE_CHECKING:
    from .connection import Connection
    from .io_thread import IoThread

__all__ = ["Receiver"]

_MOMENT: Final = 0.1
"""Seconds in which an exception that ends a loop surely has ended the block around it."""


class Receiver(Link[client.Receiver]):
    """Receives messages from a node: :class:`amqpforge.client.Receiver` for threads, of which many may use
    it.

    Take messages by ``for delivery in receiver``, or by :meth:`receive`.
    """

    __slots__ = ("_left", "_lock")

    def __init__(self, thread: IoThread, twin: client.Receiver, connection: Connection) -> None:
        super().__init__(thread, twin, connection)
        self._lock = threading.RLock()  # For what is taken, and what deliveries note about themselves.
        self._left: deque[client.Delivery] = deque()

    @property
    def address(self) -> AnyAddress | None:
        """The address of the node: as the peer tells it, for a dynamic one too."""
        return self._twin.address

    @property
    def filters(self) -> Mapping[str, Any]:
        """The filters that are really in place; a peer leaves out what it does not know."""
        return self._twin.filters

    @property
    def counters(self) -> ReceiverCounters:
        """What went over the link so far."""
        return self._thread.call(lambda: self._twin.counters)

    def receive(self, *, timeout: Timeout = DEFAULT) -> Delivery:
        """The next message. Interrupted, it loses none.

        With ``auto_accept`` the delivery is accepted as it is returned; iterate to accept it once it is dealt
        with.

        Raises:
            OperationTimedOut: none came in time.
            LinkDetached, ConnectionClosed: the link or the connection is over.
        """
        delivery = self._next(self._twin.connection._limit(timeout))
        if self._twin._auto_accept and not isinstance(delivery, StreamedDelivery) and delivery._is_undecided:
            delivery.accept()
        return delivery

    def __iter__(self) -> Deliveries:
        return Deliveries(self)

    def drain(self, *, timeout: Timeout = DEFAULT) -> int:
        """Ask the sender to use up the credit with what it has now; then there is none until :meth:`resume`.

        Returns:
            How many messages wait here.

        Raises:
            OperationTimedOut: the sender does not answer: some never do.
            ConnectionLost: the connection was lost meanwhile.
            LinkDetached: the link is over.
        """
        return self._thread.run(lambda: self._twin.drain(timeout=timeout))

    def resume(self) -> None:
        """Give credit again after :meth:`drain`."""
        self._thread.call(self._twin.resume)

    # --- taking -----------------------------------------------------------------------------------------

    def _next(self, timeout: float | None) -> Delivery:
        thread, twin = self._thread, self._twin
        thread.check()
        delivery = self._take()
        deadline = None if timeout is None else time.monotonic() + timeout
        left = timeout
        while delivery is None:
            limit = left
            thread.run(lambda: twin._arrival(limit), undo=self._pass_on)  # noqa: B023 - called at once
            delivery = self._take()
            if deadline is not None:  # Another thread may have been quicker.
                left = max(deadline - time.monotonic(), 0.0)
        return delivery

    def _take(self) -> Delivery | None:
        """The next message, if one waits here; there is no need to ask the I/O thread for each."""
        thread, twin = self._thread, self._twin
        with self._lock:
            while self._left:
                thread.submit(partial(twin._accept_left, self._left.popleft()))
            try:
                taken = twin._ready_deliveries.popleft()
            except IndexError:
                return None
            handed = twin._hand_over(taken)
        if taken.remote_settled:
            thread.submit(lambda: twin._own(taken))
        if isinstance(handed, client.StreamedDelivery):
            return StreamedDelivery(thread, handed, self)
        return Delivery(thread, handed, self)

    def _leave(self, delivery: Delivery) -> None:
        """A loop was left that had this delivery: it is accepted in a moment, or with the next one that is
        taken, unless the receiver is closed first, as the end of a block does that fails.
        """
        self._left.append(delivery._twin)
        self._thread.submit_later(_MOMENT, lambda: self._twin._accept_left(delivery._twin))

    async def _pass_on(self, _: None) -> None:
        """A thread was told of a message, and then interrupted: it is for another one."""
        self._twin._wake_waiters(1)


class Deliveries:
    """One loop over the messages of a receiver; it ends when the receiver is closed from here.

    With ``auto_accept`` a delivery that has no outcome by then is accepted when the loop asks for the next
    one, or when the loop or the block of its receiver is left without an exception.
    """

    _last: Delivery | None = None  # In the class, because __init__ may be interrupted too.

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def __del__(self) -> None:
        if self._last is not None:
            self._receiver._leave(self._last)

    def __iter__(self) -> Deliveries:
        return self

    def __next__(self) -> Delivery:
        receiver, last = self._receiver, self._last
        twin = receiver._twin
        if last is not None:
            twin._in_hand.pop(last._twin, None)
            if last._is_undecided:
                last.accept()
            self._last = None
        try:
            delivery = receiver._next(None)
        except AmqpforgeError:
            if twin._is_closing and not receiver._thread.is_foreign:
                raise StopIteration from None
            raise
        if twin._auto_accept:
            self._last = delivery
            twin._in_hand[delivery._twin] = None
        return delivery
