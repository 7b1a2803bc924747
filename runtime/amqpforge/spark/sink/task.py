"""What a task does with its partition: connect, send, wait, and commit if it is a transaction."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain

from amqpforge import blocking
from amqpforge.errors import AmqpforgeError, ConnectionClosed
from amqpforge.spark.patience import Patience

from .errors import WriteFailed
from .options import SinkOptions
from .sending import Partition, Row

__all__ = ["write_partition"]


def write_partition(options: SinkOptions, number: int, rows: Iterable[Row]) -> tuple[int, int, int]:
    """Send the rows of a partition and wait until each is accepted. An empty one needs no connection.

    Returns:
        How many messages were accepted, their octets, and how many were dead-lettered.

    Raises:
        WriteFailed: not all of them were, or this is not known; or there is no connection, or no coordinator.
    """
    coming: Iterator[Row] = iter(rows)
    first = next(coming, None)
    if first is None:
        return 0, 0, 0
    with _connected(options, number) as connection, ExitStack() as committing:
        transaction = None
        if options.transactional:
            transaction = _begun(committing, connection, options, number)
        partition = Partition(number, connection, options, transaction)
        partition.send(chain((first,), coming))
        try:
            committing.close()
        except AmqpforgeError as error:
            raise WriteFailed(f"its transaction is not committed: {error}", number) from error
    return partition.rows, partition.octets, partition.dead_lettered


def _connected(options: SinkOptions, number: int) -> blocking.Connection:
    """A connection. A peer that is absent may come back within ``startTimeout``, now and later."""
    limit = options.connection.start_timeout
    patience = Patience(limit, "connect")
    try:
        while True:
            try:
                return options.connection.open_blocking(
                    timeout=options.timeout,
                    # Work that was rolled back cannot go on over another connection.
                    reconnect=None if options.transactional else blocking.Reconnect(give_up_after=limit),
                )
            except AmqpforgeError as error:
                time.sleep(patience.pause(error))
    except AmqpforgeError as error:
        raise WriteFailed(f"there is no connection: {error}", number) from error


def _begun(
    committing: ExitStack, connection: blocking.Connection, options: SinkOptions, number: int
) -> blocking.Transaction:
    """A transaction that is committed at the end, or rolled back if that is an error."""
    try:
        return committing.enter_context(connection.transaction(timeout=options.timeout))
    except AmqpforgeError as error:
        what = "breaks off" if isinstance(error, ConnectionClosed) else "begins none"
        text = (
            f"transactional=true needs a peer that has transactions; asked for one, this one {what}: {error}"
        )
        raise WriteFailed(text, number) from error
