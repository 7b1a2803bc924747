"""Asking the peer what its nodes hold, over links that get no credit, from the process of the query."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from amqpforge.errors import AmqpforgeError
from amqpforge.loop_thread import LoopThread
from amqpforge.spark.patience import Patience

from .links import OnceReceiver, UnsuitablePeer, attach, find_addresses, new_name

if TYPE_CHECKING:
    from amqpforge.client.connection import Connection

    from .options import ReadOptions

__all__ = ["Probe"]

_UNTOLD: Final = (1 << 32) - 1
"""What stands for a count that the peer leaves out; no node has so many messages."""
_END: Final = 5.0
"""Seconds that closing may take."""
_log = logging.getLogger("amqpforge.spark")


class Probe:
    """Asks, and connects again when it has to.

    Attributes:
        addresses: the nodes, with the names of queues in the place of patterns, as they were when they were
            asked for first; None: they were not.
    """

    def __init__(self, options: ReadOptions, name: str) -> None:
        """Make one; it connects when it has to.

        Args:
            options: what is to be read.
            name: the container-id.
        """
        self._options = options
        self._name = name
        self._thread: LoopThread | None = None
        self._connection: Connection | None = None
        self._receivers: list[OnceReceiver] = []
        self._patience: Patience | None = None
        self._next = 0.0
        self.addresses: list[str] | None = None

    def look(self, *, waits: bool) -> dict[str, int | None] | None:
        """How many messages each node has; a peer need not tell, or tells 0 always.

        Args:
            waits: wait for a peer that is away; else None is returned, and there is an attempt only when it
                is time for one.

        Raises:
            AmqpforgeError: the peer was away for too long, or refuses.
        """
        if self._thread is None:
            self._thread = LoopThread("amqpforge spark probe")
        if self._patience is None:
            limit = self._options.connection.start_timeout
            self._patience = Patience(limit, "receive", final=(UnsuitablePeer,))
        while True:
            now = time.monotonic()
            if now < self._next:
                if not waits:
                    return None
                time.sleep(self._next - now)
            try:
                told = self._thread.submit(self._look()).result()
            except AmqpforgeError as error:
                self._thread.submit(self._disconnect()).result()
                pause = self._patience.pause(error)
                _log.warning("asking again in %.1f s: %s", pause, error)
                self._next = time.monotonic() + pause
            else:
                self._patience.renew()
                return told

    async def _look(self) -> dict[str, int | None]:
        connection = self._connection
        if connection is None or not connection.is_connected:
            connection = await self._connect()
        for receiver in self._receivers:
            receiver._check()
            receiver.end.flow(echo=True)
            receiver.end.flow_state.available = _UNTOLD
        connection._wake()
        await connection.round_trip()  # Its answer comes behind those to the flows.
        told = [receiver.end.flow_state.available for receiver in self._receivers]
        for receiver in self._receivers:
            receiver._check()
            receiver.end.flow_state.available = 0
        return {
            address: None if count == _UNTOLD else count
            for address, count in zip(self.addresses or (), told, strict=True)
        }

    async def _connect(self) -> Connection:
        await self._disconnect()
        options = self._options
        connection: Connection = await options.connection.open(container_id=self._name)
        self._connection = connection
        if self.addresses is None:
            self.addresses = await find_addresses(connection, options.addresses)
        for address in self.addresses:
            self._receivers.append(
                await attach(connection, options, address, new_name(address), credit=0, asks=False)
            )
        return connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._receivers = []
        if connection is not None:
            with suppress(AmqpforgeError, TimeoutError):
                async with asyncio.timeout(_END):
                    await connection.close()

    def stop(self) -> None:
        """Disconnect. May be called again, and at any time."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.submit(self._disconnect()).result()
            thread.end()
