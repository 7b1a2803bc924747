"""Putting messages into the spool, a segment at a time: write, sync, and only then accept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from amqpforge.engine.dispositions import decide
from amqpforge_protocol.amqp_1_0 import Accepted

from .gathering import Gathered, Gathering
from .tasks import undisturbed

if TYPE_CHECKING:
    from amqpforge.engine.delivery import IncomingDelivery
    from amqpforge.engine.receiver import Receiver as ReceiverEnd

    from .confirmations import Confirmations
    from .links import OnceReceiver
    from .options import ReadOptions
    from .progress import Progress
    from .spool import Link, Spool

__all__ = ["Writer"]

_LINGER: Final = 0.1
"""Seconds that a message waits for others to share its segment."""
_MOST_ROWS: Final = 5000
_MOST_OCTETS: Final = 8 << 20
_LOOKS: Final = 0.02
"""Seconds between looks at whether the spool has room again."""
_ACCEPTED: Final = Accepted()


class Writer:
    """Writes what comes over one connection.

    Attributes:
        is_held_up: messages wait for room in the spool, which a commit of Spark would make.
    """

    def __init__(
        self,
        options: ReadOptions,
        spool: Spool,
        receivers: Sequence[OnceReceiver],
        confirmations: Confirmations,
        progress: Progress,
        notify: Callable[[], None],
    ) -> None:
        """Make one; it writes in :meth:`run`.

        Args:
            options: how large a segment and the spool may be.
            spool: where to write.
            receivers: what the messages come over.
            confirmations: are told what was accepted.
            progress: counts what is written.
            notify: is called when there is a new segment.
        """
        self.is_held_up = False
        self._spool = spool
        self._receivers = receivers
        self._confirmations = confirmations
        self._progress = progress
        self._notify = notify
        self._credit = options.credit
        self._spool_octets = options.spool_octets
        most_rows = min(_MOST_ROWS, options.max_rows or _MOST_ROWS)
        self._enough = max(min(most_rows, options.credit * options.receivers // 4), 1)
        self._gathered = Gathered(most_rows, min(_MOST_OCTETS, options.max_octets or _MOST_OCTETS))
        self._some = asyncio.Event()
        self._full = asyncio.Event()
        self._is_writing = False

    @property
    def is_idle(self) -> bool:
        """Whether all that was added is in the spool."""
        return not (self._gathered or self._is_writing)

    def add(self, link: Link, deliveries: Sequence[IncomingDelivery]) -> None:
        """Have messages written that came just now over a link; at least one."""
        self._gathered.add(link, deliveries)
        self._some.set()
        self._note_full()

    def _note_full(self) -> None:
        """See whether there is enough for a segment, so that nobody waits for more."""
        if self._gathered.has(self._enough):
            self._full.set()
        else:
            self._full.clear()

    async def run(self) -> None:
        """Write what is gathered, and accept it then.

        Raises:
            SpoolError: the spool does not take it.
        """
        while True:
            await self._some.wait()
            if not self._full.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LINGER):  # wait_for can lose a cancellation.
                        await self._full.wait()
            while self._spool.backlog[2] >= self._spool_octets:
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
        spool, progress = self._spool, self._progress

        def publish() -> int:
            segment = spool.publish(gathering.rows.batch(), gathering.octets)
            progress.rows += segment.rows
            progress.octets += segment.octets
            return segment.number

        writing = asyncio.get_running_loop().run_in_executor(None, publish)
        try:
            await undisturbed(writing)
        finally:
            if writing.exception() is None:
                self._accept(gathering.deliveries)
                self._confirmations.add(writing.result(), gathering.deliveries)

    def _accept(self, deliveries: list[IncomingDelivery]) -> None:
        """Accept messages, those aside that were sent settled; and have the peer send as many more."""
        decide(deliveries, _ACCEPTED)
        _make_room([receiver.end for receiver in self._receivers], deliveries, self._credit)
        for receiver in self._receivers:
            receiver._connection._wake()


def _make_room(ends: Iterable[ReceiverEnd], deliveries: Iterable[IncomingDelivery], credit: int) -> None:
    """Let messages that are accepted no longer count against the credit of their links, although the peer has
    yet to settle them; as far as it does so within twice the credit.
    """
    prompt = dict.fromkeys(end for end in ends if len(end.unsettled) <= 2 * credit)
    for delivery in deliveries:
        link = delivery.link
        if delivery.is_held and link in prompt:
            delivery.is_held = False
            link.held -= 1
    for end in prompt:
        end.top_up()
