"""The receiver of ``format("amqp")`` without Spark: from a queue into a spool."""

from __future__ import annotations

from time import perf_counter

from amqpforge.spark.source.live import Live
from amqpforge.spark.source.options import ReadOptions
from benchmarks.spark.client import WrongMessagesError


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
