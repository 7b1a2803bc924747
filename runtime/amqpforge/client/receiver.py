"""The receiving end of a link, as applications use it."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from amqpforge.engine.delivery import IncomingDelivery
from amqpforge.engine.receiver import Receiver as ReceiverEnd
from amqpforge.errors import AmqpforgeError, ConnectionLost, LinkDetached
from amqpforge.message_fields import shown
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    AnyAddress,
    AnyOutcome,
    Described,
    Error,
    Modified,
    Rejected,
    Released,
    Source,
)

from .annotations import not_understood
from .counters import ReceiverCounters
from .delivery import Delivery
from .link import Link
from .streams import StreamedDelivery
from .termini import outlives_session
from .waiting import DEFAULT, Timeout, fresh, time_limit, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from amqpforge.engine.events import FlowReceived

    from .connection import Connection

__all__ = ["Receiver"]

_RELEASED: Final = Released()
_OUTCOMES: Final = frozenset(outcome.SYMBOL for outcome in (Accepted, Rejected, Released, Modified))
_NONE_READY: Final[deque[IncomingDelivery]] = deque(maxlen=0)
_NO_WAITERS: Final[deque[asyncio.Future[None]]] = deque(maxlen=0)
_NONE_IN_HAND: Final[dict[Delivery, None]] = {}
"""What all receivers share that have not needed their own yet: a deque takes more memory than the rest."""


class Receiver(Link[ReceiverEnd]):
    """Receives messages from a node.

    It gives credit by itself, so that what is under way, what waits here and what the application has not
    settled is never more than the ``credit`` that it was made with. With a credit of 0 nothing is fetched
    ahead: each :meth:`receive` asks for one message, and takes that back if it does not wait any longer.

    Take messages by ``async for delivery in receiver``, or by :meth:`receive`; any number of tasks may do so.
    """

    __slots__ = (
        "_asked_mode",
        "_asked_source",
        "_auto_accept",
        "_drained",
        "_handed_over",
        "_held_back",
        "_in_hand",
        "_is_stopped",
        "_known_annotations",
        "_messages",
        "_octets",
        "_outcomes",
        "_ready_deliveries",
        "_renewed",
        "_stale",
        "_streams",
        "_waiters",
        "_window",
    )

    def __init__(
        self,
        connection: Connection,
        end: ReceiverEnd,
        *,
        window: int,
        auto_accept: bool,
        known_annotations: Collection[str | int] | None = None,
    ) -> None:
        """Use ``Connection.receiver``.

        Args:
            connection: what it belongs to.
            end: the engine's end of the link.
            window: the credit; see above.
            auto_accept: accept what the application has taken without giving it an outcome.
            known_annotations: see ``Connection.receiver``.
        """
        super().__init__(connection, end)
        self._asked_source, self._asked_mode = end.source, end.snd_settle_mode  # The peer may choose others.
        self._window = window
        self._auto_accept = auto_accept
        self._known_annotations = known_annotations
        end.prefetch = window or None
        end.tolerance = window
        self._outcomes: frozenset[str] | None = None  # Those that the source lets us choose; None: all.
        self._renewed: Callable[[], None] = _nobody
        self._ready_deliveries = _NONE_READY
        # The first is not understood, others came behind it.
        self._held_back: list[IncomingDelivery] | None = None
        self._stale: Sequence[IncomingDelivery] = ()
        self._waiters = _NO_WAITERS
        self._drained: asyncio.Future[None] | None = None
        self._streams: dict[StreamedDelivery, None] | None = None  # Those that are not whole.
        self._in_hand = _NONE_IN_HAND
        self._is_stopped = False
        self._messages = 0
        self._octets = 0
        self._handed_over = 0

    # --- what applications see --------------------------------------------------------------------------

    @property
    def address(self) -> AnyAddress | None:
        """The address of the node: as the peer tells it, for a dynamic one too."""
        source = self._end.source
        return source.address if isinstance(source, Source) else None

    @property
    def filters(self) -> Mapping[str, Any]:
        """The filters that are really in place; a peer leaves out what it does not know."""
        remote = self._end.remote
        source = remote.source if remote is not None else None
        return (source.filter if isinstance(source, Source) else None) or {}

    @property
    def counters(self) -> ReceiverCounters:
        """What went over the link so far."""
        return ReceiverCounters(
            messages=self._messages,
            octets=self._octets,
            handed_over=self._handed_over,
            waiting=len(self._ready_deliveries),
            unsettled=len(self._end.unsettled),
            credit=self._end.link_credit,
            reattached=self._reattached,
        )

    async def receive(self, *, timeout: Timeout = DEFAULT) -> Delivery:
        """The next message. Cancelled, it loses none.

        With ``auto_accept`` the delivery is accepted as it is returned; iterate to accept it once it is dealt
        with.

        Raises:
            OperationTimedOut: none came in time.
            LinkDetached, ConnectionClosed: the link or the connection is over.
        """
        if not self._ready_deliveries:
            await self._arrival(self._connection._limit(timeout))
        delivery = self._next()
        if self._auto_accept and not self._end.streams:
            delivery._accept_undecided()
        return delivery

    def __aiter__(self) -> Deliveries:
        return Deliveries(self)

    async def drain(self, *, timeout: Timeout = DEFAULT) -> int:
        """Ask the sender to use up the credit with what it has now; then there is none until :meth:`resume`.

        Returns:
            How many messages wait here.

        Raises:
            OperationTimedOut: the sender does not answer: some never do.
            ConnectionLost: the connection was lost meanwhile.
            LinkDetached: the link is over.
        """
        self._check()
        if not self._is_attached:
            raise ConnectionLost(f"{self!r} is not attached just now: there is no credit to use up")
        self._is_stopped = True
        end = self._end
        end.prefetch = None
        if self._drained is None or self._drained.done():
            self._drained = self._loop.create_future()
            end.flow(drain=True)
            self._connection._wake()
        self._note_drained()
        await wait_for(asyncio.shield(self._drained), self._connection._limit(timeout), f"draining {self!r}")
        return len(self._ready_deliveries)

    def resume(self) -> None:
        """Give credit again after :meth:`drain`."""
        self._check()
        self._is_stopped = False
        end = self._end
        end.flow_state.drain = False
        end.prefetch = self._window or None
        if self._is_attached:
            end.grant()
            self._connection._wake()

    # --- taking -----------------------------------------------------------------------------------------

    def _next(self) -> Delivery:
        """The first of those that wait here."""
        delivery = self._ready_deliveries.popleft()
        handed = self._hand_over(delivery)
        if delivery.remote_settled:
            self._own(delivery)
        return handed

    def _hand_over(self, delivery: IncomingDelivery) -> Delivery:
        """What the application gets; changes nothing that belongs to the engine."""
        self._handed_over += 1
        if not self._end.streams:
            return Delivery(self, delivery)
        handed: Delivery = delivery.context or StreamedDelivery(self, delivery)
        return handed

    def _take_all(self) -> list[IncomingDelivery]:
        """What waits here, taken out one by one: of the blocking twin, threads take out some meanwhile."""
        taken: list[IncomingDelivery] = []
        with suppress(IndexError):
            while True:
                taken.append(self._ready_deliveries.popleft())
        taken += self._held_back or ()
        self._held_back = None
        return taken

    def _line_up(self, deliveries: Sequence[IncomingDelivery]) -> None:
        """Have deliveries wait for the application, as far as it understands their annotations."""
        if not deliveries:
            return
        known, ready = self._known_annotations, self._ready_deliveries
        if ready is _NONE_READY:
            self._in_hand = {}
            self._ready_deliveries = ready = deque()
        if known is None:
            ready.extend(deliveries)
            return
        for delivery in deliveries:
            if self._held_back is not None:
                self._held_back.append(delivery)
            elif not_understood(delivery, known):
                self._held_back = [delivery]
            else:
                ready.append(delivery)

    def _refuse(self, delivery: IncomingDelivery, known: Collection[str | int]) -> None:
        """A message asks for what the application does not understand: the link goes (section 3.2.10)."""
        text = f"annotations that are not understood: {shown(not_understood(delivery, known))}"
        error = Error(condition=AmqpError.NOT_IMPLEMENTED, description=text)
        if self._is_attached:
            # Closing gives messages back at once; but a terminus that the application wants kept is kept.
            self._end.detach(error, closed=not self._survives(self._end))
            self._connection._wake()
        self._fail(LinkDetached(f"the link {self.name!r} was detached from here", error))

    def _own(self, delivery: IncomingDelivery) -> None:
        """A message that was sent settled is the application's now, and makes room."""
        if delivery.remote_settled and delivery.is_complete and not delivery.settled:
            delivery.settle()
            self._connection._wake()

    async def _arrival(self, timeout: float | None) -> None:
        """Wait until a message is there."""
        async with time_limit(timeout, f"receiving over {self!r}"):
            while not self._ready_deliveries:
                if self._held_back and self._known_annotations is not None:
                    # Not before the application has dealt with what came ahead of it.
                    self._refuse(self._held_back[0], self._known_annotations)
                self._check()
                waiter: asyncio.Future[None] = self._loop.create_future()
                if self._waiters is _NO_WAITERS:
                    self._waiters = deque()
                self._waiters.append(waiter)
                self._pull()
                try:
                    await waiter
                except asyncio.CancelledError:
                    if waiter.done() and not waiter.cancelled():
                        self._wake_waiters(1)  # What woke us is for another one.
                    else:
                        with suppress(ValueError):  # A message that came just now has passed it over.
                            self._waiters.remove(waiter)
                        self._take_back()
                    raise

    def _pull(self) -> None:
        """Without a window: see that there is credit for everyone who waits."""
        end = self._end
        missing = len(self._waiters) - len(self._ready_deliveries)
        if not self._window and not self._is_stopped and self._is_attached and end.link_credit < missing:
            end.flow(missing)
            self._connection._wake()

    def _take_back(self) -> None:
        """Without a window: see that nobody sends what nobody waits for any more."""
        end, session = self._end, self._end.session
        wanted = len(self._waiters)
        if self._window or self._is_stopped or self._is_closing or end.link_credit <= wanted:
            return
        if end.is_open and session is not None and session.may_write:
            end.flow(wanted)
            self._connection._wake()

    def _wake_waiters(self, count: int) -> None:
        waiters = self._waiters
        while waiters and count > 0:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    # --- what the engine tells --------------------------------------------------------------------------

    def _on_deliveries(self, deliveries: list[IncomingDelivery]) -> None:
        """Whole messages came in."""
        self._messages += len(deliveries)
        octets = 0
        for delivery in deliveries:
            octets += delivery.size
        self._octets += octets
        self._line_up(deliveries)
        if self._waiters:
            self._wake_waiters(len(deliveries))
        if self._drained is not None:
            self._note_drained()

    def _on_partial(self, delivery: IncomingDelivery) -> None:
        """Octets of a message came in."""
        if self._streams is None:
            self._streams = {}
        handed: StreamedDelivery | None = delivery.context
        if handed is None:
            handed = delivery.context = StreamedDelivery(self, delivery)
            self._streams[handed] = None
            self._messages += 1
            self._line_up((delivery,))
            self._wake_waiters(1)
        self._octets += handed._came()
        if handed._is_whole:
            self._streams.pop(handed, None)
        self._connection._wake()

    def _on_updates(self, deliveries: list[IncomingDelivery]) -> None:
        """The sender has told of deliveries."""
        for delivery in deliveries:
            if delivery.remote_settled and isinstance(delivery.context, StreamedDelivery):
                self._lose_stream(delivery.context)  # If it is not whole, it never will be.

    def _on_flow(self, event: FlowReceived) -> None:
        """The sender has told its flow state."""
        self._note_drained()

    def _note_drained(self) -> None:
        if self._drained is not None and not self._drained.done() and self._end.link_credit == 0:
            self._drained.set_result(None)

    def _takes(self, outcome: AnyOutcome) -> bool:
        """Whether the source lets us choose an outcome (section 3.5.3)."""
        outcomes = self._outcomes
        return outcomes is None or isinstance(outcome, Described) or outcome.SYMBOL in outcomes

    def _is_suspended(self, delivery: IncomingDelivery) -> bool:
        """Whether a delivery waits for its link to be resumed."""
        return not self._is_attached and delivery.link is self._end and not self._is_over

    # --- the link ---------------------------------------------------------------------------------------

    def _ready(self) -> None:
        remote = self._end.remote
        source = remote.source if remote is not None else None
        named = frozenset((source.outcomes if isinstance(source, Source) else None) or _OUTCOMES)
        self._outcomes = None if named >= _OUTCOMES else named
        stale, self._stale = self._stale, ()
        waiting = [delivery for delivery in stale if not delivery.remote_settled and not delivery.settled]
        self._line_up(waiting + self._take_all())
        self._wake_waiters(len(self._ready_deliveries))
        self._pull()

    def _suspend(self, error: AmqpforgeError) -> None:
        waiting = self._take_all()
        self._stale = (*self._stale, *(one for one in waiting if not one.remote_settled))
        self._line_up([delivery for delivery in waiting if delivery.remote_settled])
        if self._drained is not None and not self._drained.done():
            lost = ConnectionLost(f"{self!r} was lost while it was drained: {error}")
            lost.__cause__ = error
            self._drained.set_exception(lost)
            self._drained.exception()
        for stream in list(self._streams or ()):
            if not stream._can_be_resumed:
                self._lose_stream(stream)

    def _lose_stream(self, stream: StreamedDelivery) -> None:
        if self._streams is not None and stream in self._streams:
            del self._streams[stream]
            stream._lose()

    def _survives(self, end: ReceiverEnd) -> bool:
        return outlives_session(end.source)

    def _make_end(self, lost: ReceiverEnd) -> ReceiverEnd:
        end = ReceiverEnd(
            lost.name,
            source=self._asked_source,
            target=lost.target,
            snd_settle_mode=self._asked_mode,
            rcv_settle_mode=lost.rcv_settle_mode,
            max_message_size=lost.max_message_size,
            desired_capabilities=lost.desired_capabilities,
            properties=lost.properties,
            streams=lost.streams,
        )
        end.tolerance = lost.tolerance
        return end

    def _repeat(self, end: ReceiverEnd) -> None:
        # The peer has forgotten what it sent: what nobody has taken yet comes again.
        waiting = self._take_all()
        self._line_up([delivery for delivery in waiting if delivery.remote_settled])
        self._end.prefetch = None if self._is_stopped else self._window or None
        for stream in list(self._streams or ()):
            self._lose_stream(stream)
        self._renewed()

    def _before_close(self) -> None:
        """Release what the application has not got, so that others get it at once."""
        self._in_hand.clear()
        self._end.prefetch = None
        for delivery in self._take_all():
            if not delivery.settled and not delivery.remote_settled and self._takes(_RELEASED):
                Delivery(self, delivery).release()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _finish_work(self) -> None:
        # The application is through with what it took by iterating, and has not said what becomes of it.
        for delivery in list(self._in_hand):
            self._accept_left(delivery)

    def _leave(self, delivery: Delivery) -> None:
        """A loop was left that had this delivery: it is accepted, unless the receiver is closed first."""
        if not self._loop.is_closed():  # The end of a loop may be noticed anywhere.
            self._loop.call_soon_threadsafe(self._accept_left, delivery)

    def _accept_left(self, delivery: Delivery) -> None:
        if delivery in self._in_hand:
            del self._in_hand[delivery]
            delivery._accept_undecided()

    def _abandon(self, error: AmqpforgeError) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
        if self._drained is not None and not self._drained.done():
            self._drained.set_exception(fresh(error))
            self._drained.exception()
        for stream in list(self._streams or ()):
            self._lose_stream(stream)


def _nobody() -> None:
    """Nobody has asked."""


class Deliveries:
    """One loop over the messages of a receiver; it ends when the receiver is closed from here.

    With ``auto_accept`` a delivery that has no outcome by then is accepted when the loop asks for the next
    one, or is left. If it is left by an exception that ends the block of the receiver, or of the connection,
    too, the delivery is not accepted, and the message comes again. Whoever handles such errors inside of that
    block has to say what becomes of the message.
    """

    __slots__ = ("_last", "_receiver")

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._last: Delivery | None = None

    def __del__(self) -> None:
        if self._last is not None:
            self._receiver._leave(self._last)

    def __aiter__(self) -> Deliveries:
        return self

    async def __anext__(self) -> Delivery:
        receiver, last = self._receiver, self._last
        if last is not None:
            receiver._in_hand.pop(last, None)
            last._accept_undecided()
            self._last = None
        if not receiver._ready_deliveries:
            try:
                await receiver._arrival(None)
            except AmqpforgeError:
                if receiver._is_closing:
                    raise StopAsyncIteration from None
                raise
        delivery = receiver._next()
        if receiver._auto_accept:
            self._last = delivery
            receiver._in_hand[delivery] = None
        return delivery
