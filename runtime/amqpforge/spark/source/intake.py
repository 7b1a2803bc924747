"""Taking messages from the peer into the spool: receive, write, sync, and only then accept."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from amqpforge.client import Delivery
from amqpforge.errors import AmqpforgeError, ConnectionLost, LinkDetached
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    DecodeError,
    Header,
    ReceiverSettleMode,
    decode_value,
)

from .gathering import Gathered, Gathering
from .links import OnceReceiver, attach, available, confirms, drain, find_addresses, new_name
from .patience import Patience, ReceivingFailed
from .recovery import Suspects, settle_spooled
from .segment import SpoolError
from .spool import Link
from .tasks import end_tasks, undisturbed

if TYPE_CHECKING:
    from amqpforge.client.connection import Connection
    from amqpforge.engine.delivery import IncomingDelivery
    from amqpforge.engine.receiver import Receiver as ReceiverEnd

    from .options import ReadOptions
    from .share import Limit
    from .spool import Spool

__all__ = ["Intake", "Progress", "ReceivingFailed"]

_LINGER: Final = 0.1
"""Seconds that a message waits for others to share its segment."""
_MOST_ROWS: Final = 5000
_MOST_OCTETS: Final = 8 << 20
_LOOKS: Final = 0.02
"""Seconds between looks at what the peer has confirmed, or at whether the spool has room again."""
_LAST_WORDS: Final = 2.0
"""Seconds that the peer has at the end to confirm what is accepted."""
_ROUND: Final = 10.0
"""Seconds after which no more is taken where there is a limit: some nodes are never empty."""
_TELLS: Final = 3
"""Connections in a row that may be lost while the peer is told what is in the spool."""
_SURE: Final = 10_000
"""Messages that come after a loss before no more of the spool are expected to come again, at least."""
_HEADER: Final = b"\x00\x53\x70"
"""What the header of a message begins with, as everybody encodes it."""
_ACCEPTED: Final = Accepted()
_FIRST: Final = ReceiverSettleMode.FIRST
_log = logging.getLogger("amqpforge.spark")


@dataclass(slots=True)
class Progress:
    """What was done so far, in numbers that go on counting.

    Attributes:
        rows: messages that went into the spool.
        octets: their octets.
        rejected: messages that could not be decoded and were rejected.
        redelivered: messages that the peer has flagged as delivered before.
        duplicates: messages that were in the spool already, and were dropped.
        resumed: messages of the spool that the peer settled when their link was attached again.
        connections: how often there was a connection.
    """

    rows: int = 0
    octets: int = 0
    rejected: int = 0
    redelivered: int = 0
    duplicates: int = 0
    resumed: int = 0
    connections: int = 0


@dataclass(slots=True)
class _Pending:
    """Messages that were accepted, and that the peer has yet to confirm; ``number`` is that of their
    segment.
    """

    number: int
    deliveries: list[IncomingDelivery]

    def is_settled(self) -> bool:
        """Whether all are settled; the last ones are the last to be."""
        return all(delivery.settled for delivery in reversed(self.deliveries))


class Intake:
    """Receives from the first connection to the last, in one event loop.

    Attributes:
        progress: what was done so far.
        error: why it has ended; None: it goes on, or was ended from here.
        is_exhausted: where it was to take what there is, or a limit is set: it is through.
        is_dry: it was through because the peer had no more.
        is_held_up: messages wait for room in the spool, which a commit of Spark would make.
    """

    def __init__(
        self,
        options: ReadOptions,
        spool: Spool,
        *,
        once: bool,
        notify: Callable[[], None] | None = None,
        limit: Limit | None = None,
        doubts: int | None = None,
    ) -> None:
        """Make one; it does nothing before :meth:`run`.

        Args:
            options: what to receive.
            spool: where to keep it.
            once: end when the peer has no more.
            notify: is called, in the thread of the event loop, when there is a new segment, and at the end.
            limit: what is taken at most, over one link and within some seconds; None: there is no limit.
            doubts: messages that have to come before none of what the peer has not confirmed are expected
                again; None: as many as after a loss.
        """
        self._options = options
        self._spool = spool
        self._once = once
        self._notify = notify or _nobody
        self.progress = Progress()
        self.error: AmqpforgeError | None = None
        self.is_exhausted = False
        self.is_dry = False
        self.is_held_up = False
        self._limit = limit
        self._doubts = doubts
        self._untold = 0
        self._most_rows = min(_MOST_ROWS, options.max_rows or _MOST_ROWS)
        self._most_octets = min(_MOST_OCTETS, options.max_octets or _MOST_OCTETS)
        self._enough = max(min(self._most_rows, options.credit * options.receivers // 4), 1)
        self._suspects = Suspects(max(_SURE, 2 * options.credit * options.receivers))
        self._receivers: list[OnceReceiver] = []
        self._gathered = Gathered(self._most_rows, self._most_octets)
        self._some = asyncio.Event()
        self._full = asyncio.Event()
        self._pending: deque[_Pending] = deque()
        self._is_writing = False
        self._patience = Patience(options.connection.start_timeout)

    @property
    def unsettled(self) -> int:
        """Messages that were received, and that the peer has not been seen to settle."""
        return sum(len(receiver.end.unsettled) for receiver in self._receivers)

    async def run(self) -> None:
        """Receive until it is cancelled, there is no more, or it is of no use to go on; ``error`` says
        which.
        """
        self._patience = Patience(self._options.connection.start_timeout)
        try:
            while True:
                try:
                    await self._use_connection()
                except AmqpforgeError as error:
                    if not self.is_exhausted:
                        await self._pause(error)
                if self.is_exhausted:
                    break
        except AmqpforgeError as error:
            self.error = error
            _log.error("receiving has ended: %s", error)
        except Exception as error:
            _log.exception("receiving has failed")
            self.error = ReceivingFailed(f"receiving failed: {type(error).__name__}: {error}")
            self.error.__cause__ = error
        finally:
            self._notify()

    # --- connections ----------------------------------------------------------------------------------------

    async def _pause(self, error: AmqpforgeError) -> None:
        """Wait before the next attempt.

        Raises:
            AmqpforgeError: it is of no use to try again, or the time for that is up.
        """
        pause = self._patience.pause(error)
        _log.warning("receiving again in %.1f s: %s", pause, error)
        await asyncio.sleep(pause)

    async def _use_connection(self) -> None:
        """Receive over a connection until it is lost, or there is no more.

        Raises:
            AmqpforgeError: why it is over.
        """
        options, spool = self._options, self._spool
        self._gathered.clear()  # It was not settled: it comes again.
        self._pending.clear()
        self._is_writing = self.is_held_up = False
        self._some.clear()
        self._full.clear()
        if options.consumes and (spool.links or spool.unconfirmed):
            await self._recover()
        if self._limit is not None and not self._left():
            self.is_exhausted = True
            return
        async with options.connection.open(container_id=f"amqpforge-spark-{spool.id}") as connection:
            self.progress.connections += 1
            addresses = await find_addresses(connection, options.addresses)
            names = [
                Link(new_name(address), address) for address in addresses for _ in range(options.receivers)
            ]
            if options.consumes:
                await asyncio.to_thread(spool.note_links, [*spool.links, *names])
            await self._receive_over(connection, names)

    def _left(self) -> Limit | None:
        """What may still be taken; None: there is no limit."""
        limit, progress = self._limit, self.progress
        return None if limit is None else limit.without(progress.rows, progress.octets)

    @property
    def doubts(self) -> int:
        """Messages that have to come before none of the spool are expected again; 0: none are."""
        return self._suspects.left

    async def _recover(self) -> None:
        """Tell the peer what is in the spool, on a connection that whatever comes of that may end."""
        spool, options = self._spool, self._options
        if spool.links:
            async with options.connection.open(container_id=f"amqpforge-spark-{spool.id}") as connection:
                await self._tell(connection)
            await asyncio.to_thread(spool.note_links, [])
        await asyncio.to_thread(self._suspects.load, spool, spool.unconfirmed, self._doubts)
        self._doubts = None

    async def _tell(self, connection: Connection) -> None:
        """Tell the peer over the links that are lost; those of a peer that will not hear it are given up.

        Raises:
            ConnectionLost: the connection was lost meanwhile, and may be made again for that.
        """
        try:
            self.progress.resumed += await settle_spooled(connection, self._options, self._spool)
        except SpoolError:
            raise
        except AmqpforgeError as error:
            self._untold += 1
            if self._untold < _TELLS:
                raise ConnectionLost(f"while the peer was told what is in the spool: {error}") from error
            _log.warning("the peer ends connections over which it is told what is in the spool: %s", error)
        self._untold = 0

    async def _receive_over(self, connection: Connection, names: list[Link]) -> None:
        receivers: list[OnceReceiver] = []
        self._receivers = receivers
        options, limit = self._options, self._left()
        for link in names:
            asks = all(map(confirms, receivers))
            receivers.append(
                await attach(
                    connection,
                    options,
                    link.address,
                    link.name,
                    credit=options.credit,
                    limit=limit,
                    asks=asks,
                )
            )
        self._patience.renew()
        work = [
            *(self._receive(receiver, link) for receiver, link in zip(receivers, names, strict=True)),
            self._write(),
            self._watch(connection),
        ]
        tasks: list[asyncio.Task[None]] = [asyncio.ensure_future(one) for one in work]
        if self._once:
            tasks.append(asyncio.ensure_future(self._exhaust(connection, receivers)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await undisturbed(asyncio.ensure_future(self._finish(connection, tasks)))
        errors = [one.exception() for one in tasks if not one.cancelled()]
        for error in sorted(filter(None, errors), key=lambda one: not isinstance(one, SpoolError)):
            raise error
        if not self.is_exhausted:
            raise next((one.error for one in receivers if one.error), LinkDetached("a link was closed"))

    async def _finish(self, connection: Connection, tasks: list[asyncio.Task[None]]) -> None:
        """What comes at the end of a connection: what is in the spool is accepted, all else goes back."""
        await end_tasks(tasks)
        await self._confirm_last(connection)
        await self._give_back(connection)

    # --- messages -------------------------------------------------------------------------------------------

    async def _receive(self, receiver: OnceReceiver, link: Link) -> None:
        """Gather what comes over a link: all that is there at a time."""
        while True:
            await receiver._arrival(None)
            taken = _taken(receiver)
            if self._suspects or self._options.rejects_undecodable:
                taken = [one for one in taken if self._is_wanted(receiver, link, one)]
            self.progress.redelivered += sum(was_delivered(one.payload) for one in taken)
            if taken:
                self._gathered.add(link, taken)
                self._some.set()
                self._note_full()

    def _is_wanted(self, receiver: OnceReceiver, link: Link, incoming: IncomingDelivery) -> bool:
        """Whether a message is to go into the spool; if not, it gets its outcome."""
        payload, message_format = incoming.payload, incoming.message_format
        if self._suspects and self._is_known(link.address, payload, message_format):
            self.progress.duplicates += 1
            Delivery(receiver, incoming).accept()
            return False
        problem = undecodable(payload, message_format) if self._options.rejects_undecodable else None
        if problem is not None:
            self.progress.rejected += 1
            Delivery(receiver, incoming).reject(AmqpError.DECODE_ERROR, problem)
        return problem is None

    def _note_full(self) -> None:
        """See whether there is enough for a segment, so that nobody waits for more."""
        if self._gathered.has(self._enough):
            self._full.set()
        else:
            self._full.clear()

    def _is_known(self, address: str, payload: bytes, message_format: int) -> bool:
        """Whether a message is in the spool already."""
        known = self._suspects.knows(address, payload, message_format)
        for number in self._suspects.cleared():
            self._spool.confirm(number)
        return known

    async def _write(self) -> None:
        """Put what is gathered into the spool, a segment at a time, and accept it then.

        Raises:
            SpoolError: the spool does not take it.
        """
        while True:
            await self._some.wait()
            if not self._full.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LINGER):  # wait_for can lose a cancellation.
                        await self._full.wait()
            while self._spool.backlog[2] >= self._options.spool_octets:
                self.is_held_up = True
                await asyncio.sleep(_LOOKS)
            self.is_held_up = False
            gathering = self._gathered.take()
            self._is_writing = True
            if not self._gathered:
                self._some.clear()
            self._note_full()
            await self._publish(gathering)
            self._is_writing = False
            self._notify()

    async def _publish(self, gathering: Gathering) -> None:
        """Have messages in the spool, and accept them; whatever becomes of this task, both are done when it
        is over.

        Raises:
            SpoolError: the spool does not take them.
        """
        spool = self._spool

        def publish() -> int:
            segment = spool.publish(gathering.rows.batch(), gathering.octets)
            self.progress.rows += segment.rows
            self.progress.octets += segment.octets
            return segment.number

        writing = asyncio.get_running_loop().run_in_executor(None, publish)
        try:
            await undisturbed(writing)
        finally:
            if writing.exception() is None:
                self._accept(gathering.deliveries)
                self._pending.append(_Pending(writing.result(), gathering.deliveries))

    def _accept(self, deliveries: list[IncomingDelivery]) -> None:
        """Accept messages, those aside that were sent settled; and have the peer send as many more."""
        for delivery in deliveries:
            if not delivery.settled:
                is_last_word = delivery.remote_settled or delivery.rcv_settle_mode is _FIRST
                delivery.update(_ACCEPTED, settled=is_last_word)
        for receiver in self._receivers:
            _make_room(receiver.end, deliveries, self._options.credit)
            receiver._connection._wake()

    # --- confirmations --------------------------------------------------------------------------------------

    async def _watch(self, connection: Connection) -> None:
        """See what the peer confirms."""
        while True:
            await asyncio.sleep(_LOOKS)
            if self._pending:
                await self._look(connection)
            elif not connection.is_connected:
                return

    async def _look(self, connection: Connection) -> None:
        """Confirm the segments whose messages the peer has settled."""
        if not self._options.consumes or all(map(confirms, self._receivers)):
            settled = takewhile(_Pending.is_settled, self._pending)
            count = sum(1 for _ in settled)
        else:
            # The peer has no way to say so; what it answers later shows that it has read what came before.
            count = len(self._pending)
            await connection.round_trip()
        if count:
            for _ in range(count):
                self._spool.confirm(self._pending.popleft().number)
            await asyncio.to_thread(self._spool.note_settled)

    async def _confirm_last(self, connection: Connection) -> None:
        """At the end: give the peer a moment to confirm what was accepted."""
        deadline = time.monotonic() + _LAST_WORDS
        try:
            while self._pending and connection.is_connected and time.monotonic() < deadline:
                await self._look(connection)
                await asyncio.sleep(_LOOKS)
        except AmqpforgeError as error:
            _log.info("the last messages are not confirmed: %s", error)

    async def _give_back(self, connection: Connection) -> None:
        """At the end: close the links, so that the peer has back at once what is not settled."""
        if not connection.is_connected:
            return
        closing = [receiver.close(timeout=_LAST_WORDS) for receiver in self._receivers]
        await asyncio.gather(*closing, return_exceptions=True)
        if self._options.consumes:
            with suppress(AmqpforgeError):  # A connection that is lost has not told that they are closed.
                await connection.round_trip(timeout=_LAST_WORDS)
                await asyncio.to_thread(self._spool.note_links, [])

    async def _exhaust(self, connection: Connection, receivers: list[OnceReceiver]) -> None:
        """Take what the peer has now: until it tells that a node is empty, or as many messages as it said;
        with a limit, as far as that goes.
        """
        shares = [one.share for one in receivers if one.share is not None]
        with suppress(TimeoutError):
            async with asyncio.timeout(_ROUND if shares else None):
                for receiver in receivers:
                    await self._empty(connection, receiver)
                self.is_dry = not any(share.is_full for share in shares)
        for share in shares:
            share.is_full = True
        while self._gathered or self._is_writing or any(one._ready_deliveries for one in receivers):
            await asyncio.sleep(_LOOKS)
        self.is_exhausted = True

    async def _empty(self, connection: Connection, receiver: OnceReceiver) -> None:
        """Take what there is for one link."""
        share = receiver.share
        most = await available(connection, receiver)
        while (most is None or receiver._messages < most) and not (share is not None and share.is_full):
            if receiver.end.link_credit:
                if await drain(connection, receiver):
                    return
                receiver.resume()
            await asyncio.sleep(_LOOKS)


def _taken(receiver: OnceReceiver) -> list[IncomingDelivery]:
    """All messages that wait at a receiver, taken from it."""
    taken = receiver._take_all()
    receiver._handed_over += len(taken)
    for delivery in taken:
        receiver._own(delivery)
    return taken


def _make_room(end: ReceiverEnd, deliveries: Iterable[IncomingDelivery], credit: int) -> None:
    """Let messages that are accepted no longer count against the credit, although the peer has yet to settle
    them; as far as it does so within twice the credit.
    """
    if len(end.unsettled) > 2 * credit:
        return
    for delivery in deliveries:
        if delivery.is_held and delivery.link is end:
            delivery.is_held = False
            end.held -= 1
    end.top_up()


def was_delivered(payload: bytes) -> bool:
    """Whether a message begins with a header that counts an attempt to deliver it that failed."""
    if payload[:3] != _HEADER:
        return False
    try:
        header, _ = decode_value(payload)
    except DecodeError:
        return False
    return isinstance(header, Header) and header.delivery_count > 0


def undecodable(payload: bytes, message_format: int) -> str | None:
    """Why the octets of a message cannot be decoded; None: they can."""
    message = Message.from_octets(payload, message_format)
    if message.raw is not None:
        return f"the message format {message_format} is not known"
    try:
        message.sections  # noqa: B018  It decodes all of them.
    except DecodeError as error:
        return str(error)
    return None


def _nobody() -> None:
    """Nobody wants to know."""
