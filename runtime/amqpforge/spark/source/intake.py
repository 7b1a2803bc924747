"""Taking messages from the peer into the spool: receive, write, sync, and only then accept."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from amqpforge.client import Delivery, Reconnect
from amqpforge.client.reconnecting import is_final
from amqpforge.engine.headers import HeaderRefused
from amqpforge.errors import AmqpforgeError, EndpointClosed, LinkDetached
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import AmqpError, DecodeError, Header, decode_value

from .links import OnceReceiver, attach, available, confirms, drain, find_addresses, new_name
from .recovery import Suspects, settle_spooled
from .segment import Rows, SpoolError
from .spool import Link

if TYPE_CHECKING:
    from amqpforge.client.connection import Connection

    from .options import ReadOptions
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
_SURE: Final = 10_000
"""Messages that come after a loss before no more of the spool are expected to come again, at least."""
_HEADER: Final = b"\x00\x53\x70"
"""What the header of a message begins with, as everybody encodes it."""
_log = logging.getLogger("amqpforge.spark")


class ReceivingFailed(AmqpforgeError):
    """Messages cannot be received any more; those in the spool are safe, the others are with the peer."""


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
    deliveries: list[Delivery]

    def is_settled(self) -> bool:
        """Whether all are settled; the last ones are the last to be."""
        return all(delivery.settled for delivery in reversed(self.deliveries))


@dataclass(slots=True)
class _Gathering:
    """Messages that are not in the spool yet."""

    rows: Rows = field(default_factory=Rows)
    deliveries: list[Delivery] = field(default_factory=list)
    octets: int = 0


class Intake:
    """Receives from the first connection to the last, in one event loop.

    Attributes:
        progress: what was done so far.
        error: why it has ended; None: it goes on, or was ended from here.
        is_exhausted: where it was to take what there is: it has.
    """

    def __init__(
        self, options: ReadOptions, spool: Spool, *, once: bool, notify: Callable[[], None] | None = None
    ) -> None:
        """Make one; it does nothing before :meth:`run`.

        Args:
            options: what to receive.
            spool: where to keep it.
            once: end when the peer has no more.
            notify: is called, in the thread of the event loop, when there is a new segment, and at the end.
        """
        self._options = options
        self._spool = spool
        self._once = once
        self._notify = notify or _nobody
        self.progress = Progress()
        self.error: AmqpforgeError | None = None
        self.is_exhausted = False
        self._most_rows = min(_MOST_ROWS, options.max_rows or _MOST_ROWS)
        self._most_octets = min(_MOST_OCTETS, options.max_octets or _MOST_OCTETS)
        self._enough = max(min(self._most_rows, options.credit * options.receivers // 2), 1)
        self._suspects = Suspects(max(_SURE, 2 * options.credit * options.receivers))
        self._receivers: list[OnceReceiver] = []
        self._gathered: deque[_Gathering] = deque()
        self._some = asyncio.Event()
        self._full = asyncio.Event()
        self._pending: deque[_Pending] = deque()
        self._is_writing = False
        self._trying_since: float | None = None
        self._pauses: Iterator[float] = iter(())

    @property
    def unsettled(self) -> int:
        """Messages that were received, and that the peer has not been seen to settle."""
        return sum(receiver.end.held for receiver in self._receivers)

    async def run(self) -> None:
        """Receive until it is cancelled, there is no more, or it is of no use to go on; ``error`` says
        which.
        """
        self._trying_since = time.monotonic()
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
        if (
            isinstance(error, SpoolError)
            or (is_final(error) and not _is_silence(error))
            or _is_refusal(error)
        ):
            raise error
        now = time.monotonic()
        if self._trying_since is None:
            self._trying_since = now
            self._pauses = iter(())
        limit = self._options.connection.start_timeout
        pause = next(self._pauses, None)
        if pause is None:
            self._pauses = Reconnect(first_delay=0.1, max_delay=5.0)._delays()
            pause = next(self._pauses)
        if now + pause - self._trying_since > limit:
            raise ReceivingFailed(
                f"there was no way to receive for {limit:g} s, which the option 'startTimeout' sets: {error}"
            ) from error
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
        self._is_writing = False
        self._some.clear()
        self._full.clear()
        if options.consumes and (spool.links or spool.unconfirmed):
            await self._recover()
        async with options.connection.open(container_id=f"amqpforge-spark-{spool.id}") as connection:
            self.progress.connections += 1
            addresses = await find_addresses(connection, options.addresses)
            names = [
                Link(new_name(address), address) for address in addresses for _ in range(options.receivers)
            ]
            if options.consumes:
                await asyncio.to_thread(spool.note_links, [*spool.links, *names])
            await self._receive_over(connection, names)

    async def _recover(self) -> None:
        """Tell the peer what is in the spool, on a connection that whatever comes of that may end."""
        spool, options = self._spool, self._options
        if spool.links:
            async with options.connection.open(container_id=f"amqpforge-spark-{spool.id}") as connection:
                self.progress.resumed += await settle_spooled(connection, options, spool)
            await asyncio.to_thread(spool.note_links, [])
        await asyncio.to_thread(self._suspects.load, spool, spool.unconfirmed)

    async def _receive_over(self, connection: Connection, names: list[Link]) -> None:
        receivers: list[OnceReceiver] = []
        self._receivers = receivers
        for link in names:
            receivers.append(
                await attach(connection, self._options, link.address, link.name, credit=self._options.credit)
            )
        self._trying_since = None
        work = [
            *(self._receive(receiver, link) for receiver, link in zip(receivers, names, strict=True)),
            self._write(),
            self._watch(connection),
        ]
        tasks = [asyncio.ensure_future(one) for one in work]
        if self._once:
            tasks.append(asyncio.ensure_future(self._exhaust(connection, receivers)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            await self._confirm_last(connection)
            await self._give_back(connection)
        errors = [one for one in results if isinstance(one, Exception)]
        for error in sorted(errors, key=lambda one: not isinstance(one, SpoolError)):
            raise error
        if not self.is_exhausted:
            raise next((one.error for one in receivers if one.error), LinkDetached("a link was closed"))

    # --- messages -------------------------------------------------------------------------------------------

    async def _receive(self, receiver: OnceReceiver, link: Link) -> None:
        """Gather what comes over a link."""
        address, rejects = link.address, self._options.rejects_undecodable
        async for delivery in receiver:
            incoming = delivery._delivery
            payload, message_format = incoming.payload, incoming.message_format
            if self._suspects and self._is_known(address, payload, message_format):
                self.progress.duplicates += 1
                delivery.accept()
                continue
            if rejects and (problem := undecodable(payload, message_format)) is not None:
                self.progress.rejected += 1
                delivery.reject(AmqpError.DECODE_ERROR, problem)
                continue
            if payload[:3] == _HEADER and was_delivered(payload):
                self.progress.redelivered += 1
            gathering = self._room_for(len(payload))
            rows = gathering.rows
            now = time.time_ns() // 1000
            rows.append(address, link.name, incoming.tag, now, message_format, payload)
            gathering.deliveries.append(delivery)
            gathering.octets += len(payload)
            self._some.set()
            if not self._full.is_set():
                self._note_full()

    def _note_full(self) -> None:
        """See whether there is enough for a segment, so that nobody waits for more."""
        gathered = self._gathered
        if len(gathered) > 1 or (gathered and len(gathered[0].rows) >= self._enough):
            self._full.set()
        else:
            self._full.clear()

    def _is_known(self, address: str, payload: bytes, message_format: int) -> bool:
        """Whether a message is in the spool already."""
        known = self._suspects.knows(address, payload, message_format)
        for number in self._suspects.cleared():
            self._spool.confirm(number)
        return known

    def _room_for(self, octets: int) -> _Gathering:
        """The segment to be that a message of so many octets goes into."""
        if self._gathered:
            last = self._gathered[-1]
            if len(last.rows) < self._most_rows and last.octets + octets <= self._most_octets:
                return last
        self._gathered.append(_Gathering())
        return self._gathered[-1]

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
                await asyncio.sleep(_LOOKS)
            gathering = self._gathered.popleft()
            self._is_writing = True
            if not self._gathered:
                self._some.clear()
            self._note_full()
            await self._publish(gathering)
            self._is_writing = False
            self._notify()

    async def _publish(self, gathering: _Gathering) -> None:
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
            number = await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait([writing])
            if writing.exception() is None:
                self._accept(writing.result(), gathering.deliveries)
            raise
        self._accept(number, gathering.deliveries)

    def _accept(self, number: int, deliveries: list[Delivery]) -> None:
        """Accept the messages of a segment."""
        for delivery in deliveries:
            delivery.accept()
        self._pending.append(_Pending(number, deliveries))

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
        """Take what the peer has now: until it tells that a node is empty, or as many messages as it said."""
        for receiver in receivers:
            most = await available(connection, receiver)
            while most is None or receiver._messages < most:
                if receiver.end.link_credit:
                    if await drain(connection, receiver):
                        break
                    receiver.resume()
                await asyncio.sleep(_LOOKS)
        while self._gathered or self._is_writing or any(one._ready_deliveries for one in receivers):
            await asyncio.sleep(_LOOKS)
        self.is_exhausted = True


def was_delivered(payload: bytes) -> bool:
    """Whether the header, with which a message begins, counts an attempt to deliver it that failed."""
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


def _is_silence(error: AmqpforgeError) -> bool:
    """Whether the peer has answered with nothing that is AMQP, as one does that is just ending."""
    return isinstance(error, HeaderRefused) and error.received is None


def _is_refusal(error: AmqpforgeError) -> bool:
    """Whether the peer has said what is wrong with what we ask for."""
    return isinstance(error, EndpointClosed) and error.condition in _REFUSALS


_REFUSALS: Final = frozenset(
    (
        AmqpError.NOT_FOUND,
        AmqpError.NOT_ALLOWED,
        AmqpError.UNAUTHORIZED_ACCESS,
        AmqpError.INVALID_FIELD,
        AmqpError.NOT_IMPLEMENTED,
        AmqpError.RESOURCE_DELETED,
        AmqpError.PRECONDITION_FAILED,
    )
)


def _nobody() -> None:
    """Nobody wants to know."""
