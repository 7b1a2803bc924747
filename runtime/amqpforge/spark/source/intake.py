"""Taking messages from the peer into the spool, over one connection after the other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from amqpforge.errors import AmqpforgeError, ConnectionLost, LinkDetached
from amqpforge.spark.patience import Patience

from .confirmations import LAST_WORDS, Confirmations
from .emptying import empty
from .links import OnceReceiver, UnsuitablePeer, attach, confirms, find_addresses, new_name
from .progress import Progress
from .recovery import Suspects, settle_spooled
from .segment import SpoolError
from .sieve import Sieve
from .spool import Link
from .tasks import end_tasks, undisturbed
from .writer import Writer

if TYPE_CHECKING:
    from amqpforge.client.connection import Connection

    from .options import ReadOptions
    from .share import Limit
    from .spool import Spool

__all__ = ["Intake", "ReceivingFailed"]

_LOOKS: Final = 0.02
"""Seconds between looks at whether all that came is in the spool."""
_TELLS: Final = 3
"""Connections in a row that may be lost while the peer is told what is in the spool."""
_SURE: Final = 10_000
"""Messages that come after a loss before no more of the spool are expected to come again, at least."""
_log = logging.getLogger("amqpforge.spark")


class ReceivingFailed(AmqpforgeError):
    """Messages cannot be received any more; those in the spool are safe, the others are with the peer."""


class Intake:
    """Receives from the first connection to the last, in one event loop.

    Attributes:
        progress: what was done so far.
        error: why it has ended; None: it goes on, or was ended from here.
        is_exhausted: where it was to take what there is, or a limit is set: it is through.
        is_dry: it was through because the peer had no more.
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
        self._limit = limit
        self._doubts = doubts
        self._untold = 0
        self._suspects = Suspects(max(_SURE, 2 * options.credit * options.receivers))
        self._sieve = Sieve(options, spool, self._suspects, self.progress)
        self._receivers: list[OnceReceiver] = []
        self._writer: Writer | None = None
        self._patience = Patience(
            options.connection.start_timeout, "receive", final=(SpoolError, UnsuitablePeer)
        )

    @property
    def is_held_up(self) -> bool:
        """Whether messages wait for room in the spool, which a commit of Spark would make."""
        writer = self._writer
        return writer is not None and writer.is_held_up

    @property
    def unsettled(self) -> int:
        """Messages that were received, and that the peer has not been seen to settle."""
        return sum(len(receiver.end.unsettled) for receiver in self._receivers)

    @property
    def window(self) -> int:
        """Messages that have to come after a loss before none of the spool are expected again."""
        return self._suspects.window

    @property
    def doubts(self) -> int:
        """Messages that have to come before none of the spool are expected again; 0: none are."""
        return self._suspects.left

    async def run(self) -> None:
        """Receive until it is cancelled, there is no more, or it is of no use to go on; ``error`` says
        which.
        """
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

    async def _pause(self, error: AmqpforgeError) -> None:
        """Wait before the next attempt.

        Raises:
            AmqpforgeError: it is of no use to try again, or the time for that is up.
        """
        pause = self._patience.pause(error)
        _log.warning("receiving again in %.1f s: %s", pause, error)
        await asyncio.sleep(pause)

    # --- a connection ---------------------------------------------------------------------------------------

    async def _use_connection(self) -> None:
        """Receive over a connection until it is lost, or there is no more.

        Raises:
            AmqpforgeError: why it is over.
        """
        options, spool = self._options, self._spool
        self._writer = None  # What it has not written was not settled: it comes again.
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
            await self._attach(connection, names)
            await self._receive_over(connection, names)

    def _left(self) -> Limit | None:
        """What may still be taken; None: there is no limit."""
        limit, progress = self._limit, self.progress
        return None if limit is None else limit.without(progress.rows, progress.octets)

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

    async def _attach(self, connection: Connection, names: list[Link]) -> None:
        """Attach all links."""
        receivers = self._receivers = []
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

    async def _receive_over(self, connection: Connection, names: list[Link]) -> None:
        """Receive over the links until one of them is over, or there is no more.

        Raises:
            AmqpforgeError: why it is over.
        """
        options, spool, receivers = self._options, self._spool, self._receivers
        confirmations = Confirmations(connection, receivers, spool, consumes=options.consumes)
        writer = Writer(options, spool, receivers, confirmations, self.progress, self._notify)
        self._writer = writer
        work = [
            *(self._receive(receiver, link, writer) for receiver, link in zip(receivers, names, strict=True)),
            writer.run(),
            confirmations.watch(),
        ]
        if self._once:
            work.append(self._exhaust(connection, receivers, writer))
        tasks: list[asyncio.Task[None]] = [asyncio.ensure_future(one) for one in work]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await undisturbed(asyncio.ensure_future(self._finish(connection, tasks, confirmations)))
        errors = [one.exception() for one in tasks if not one.cancelled()]
        for error in sorted(filter(None, errors), key=lambda one: not isinstance(one, SpoolError)):
            raise error
        if not self.is_exhausted:
            raise next((one.error for one in receivers if one.error), LinkDetached("a link was closed"))

    async def _receive(self, receiver: OnceReceiver, link: Link, writer: Writer) -> None:
        """Gather what comes over a link: all that is there at a time."""
        while True:
            await receiver._arrival(None)
            wanted = self._sieve.wanted(receiver, link.address, receiver.take())
            if wanted:
                writer.add(link, wanted)

    async def _exhaust(self, connection: Connection, receivers: list[OnceReceiver], writer: Writer) -> None:
        """Take what the peer has now; with a limit, as far as that goes."""
        self.is_dry = await empty(connection, receivers)
        while not writer.is_idle or any(one._ready_deliveries for one in receivers):
            await asyncio.sleep(_LOOKS)
        self.is_exhausted = True

    async def _finish(
        self, connection: Connection, tasks: list[asyncio.Task[None]], confirmations: Confirmations
    ) -> None:
        """What comes at the end of a connection: what is in the spool is accepted, all else goes back."""
        await end_tasks(tasks)
        await confirmations.finish()
        await self._give_back(connection)

    async def _give_back(self, connection: Connection) -> None:
        """Close the links, so that the peer has back at once what is not settled."""
        if not connection.is_connected:
            return
        closing = [receiver.close(timeout=LAST_WORDS) for receiver in self._receivers]
        await asyncio.gather(*closing, return_exceptions=True)
        if self._options.consumes:
            with suppress(AmqpforgeError):  # A connection that is lost has not told that they are closed.
                await connection.round_trip(timeout=LAST_WORDS)
                await asyncio.to_thread(self._spool.note_links, [])


def _nobody() -> None:
    """Nobody wants to know."""
