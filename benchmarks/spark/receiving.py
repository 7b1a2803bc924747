"""The receiver of ``format("amqp")`` without Spark: from a queue into a spool."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from amqpforge.spark.source.live import Live
from amqpforge.spark.source.options import ReadOptions
from amqpforge.spark.source.segment import decode_segments
from amqpforge_spark.amqp_1_0 import MESSAGE
from benchmarks.spark import handed_over
from benchmarks.spark.client import WrongMessagesError
from benchmarks.spark.jobs import ALWAYS


def receive(port: int, address: str, folder: str, count: int) -> dict[str, float]:
    """Take all that a queue has into a spool; the time is that from the connection until the broker has
    confirmed the last message.

    Raises:
        WrongMessagesError: the spool has not as many, or some are not confirmed.
    """
    options = ReadOptions.for_stream(
        {"url": f"amqp://127.0.0.1:{port}", "address": address, "spoolLocation": folder}
    )
    begin = perf_counter()
    live = Live(options, once=True)
    try:
        while not live.is_over:
            live.wait_beyond(live.spool.next)
        seconds = perf_counter() - begin
        live.check()
        figures = live.figures()
    finally:
        live.stop()
    if (figures["spoolRows"], figures["unsettled"]) != (count, 0):
        raise WrongMessagesError(f"of {count} messages the receiver has: {figures}")
    return {"seconds": seconds}


def record_spool(spool: str, columns: Sequence[str], file: str) -> dict[str, Any]:
    """Write the rows of a spool into a file, as record batches, with the columns that the source has where
    these are asked for; returns how many there are.
    """
    names = [*columns, *ALWAYS] if columns else MESSAGE.names
    schema = StructType([MESSAGE[name] for name in names])
    segments = (pa.ipc.open_file(path).get_batch(0) for path in sorted(Path(spool).glob("*.arrow")))
    return {"rows": handed_over.record(decode_segments(segments, schema.names), schema, file)}
