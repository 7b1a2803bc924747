"""What was accepted, and the peer has yet to settle: once it has, it does not send those messages again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from amqpforge.errors import AmqpforgeError

from .links import confirms

if TYPE_CHECKING:
    from amqpforge.client.connection import Connection
    from amqpforge.engine.delivery import IncomingDelivery

    from .links import OnceReceiver
    from .spool import Spool

__all__ = ["LAST_WORDS", "Confirmations"]

LAST_WORDS: Final = 2.0
"""Seconds that the peer has at the end of a connection to confirm what is accepted, and to close a link."""
_LOOKS: Final = 0.02
"""Seconds between looks at what the peer has settled."""
_log = logging.getLogger("amqpforge.spark")


@dataclass(slots=True)
class _Accepted:
    """The messages of a segment that were accepted; ``number`` is that of the segment."""

    number: int
    deliveries: Sequence[IncomingDelivery]

    def is_settled(self) -> bool:
        """Whether all are settled; the last ones are the last to be."""
        return all(delivery.settled for delivery in reversed(self.deliveries))


class Confirmations:
    """The segments whose messages were accepted over a connection, until the peer has confirmed that."""

    def __init__(
        self, connection: Connection, receivers: Sequence[OnceReceiver], spool: Spool, *, consumes: bool
    ) -> None:
        """Make one.

        Args:
            connection: over which the messages came.
            receivers: its links.
            spool: what is told which segments are confirmed.
            consumes: whether messages are taken from their nodes; copies need no confirmation.
        """
        self._connection = connection
        self._spool = spool
        self._is_told = not consumes or all(map(confirms, receivers))
        self._pending: deque[_Accepted] = deque()

    def add(self, number: int, deliveries: Sequence[IncomingDelivery]) -> None:
        """The messages of a segment were accepted."""
        self._pending.append(_Accepted(number, deliveries))

    async def watch(self) -> None:
        """See what the peer confirms, until the connection is lost.

        Raises:
            AmqpforgeError: the connection is lost while the peer is asked.
        """
        while True:
            await asyncio.sleep(_LOOKS)
            if self._pending:
                await self._look()
            elif not self._connection.is_connected:
                return

    async def finish(self) -> None:
        """At the end: give the peer a moment to confirm what was accepted."""
        deadline = time.monotonic() + LAST_WORDS
        try:
            while self._pending and self._connection.is_connected and time.monotonic() < deadline:
                await self._look()
                await asyncio.sleep(_LOOKS)
        except AmqpforgeError as error:
            _log.info("the last messages are not confirmed: %s", error)

    async def _look(self) -> None:
        """Confirm the segments whose messages the peer has settled."""
        if self._is_told:
            count = sum(1 for _ in takewhile(_Accepted.is_settled, self._pending))
        else:
            # The peer has no way to say so; what it answers later shows that it has read what came before.
            count = len(self._pending)
            await self._connection.round_trip()
        if count:
            for _ in range(count):
                self._spool.confirm(self._pending.popleft().number)
            await asyncio.to_thread(self._spool.note_settled)
