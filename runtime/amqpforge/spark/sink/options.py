"""The options of writing with ``format("amqp")``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from amqpforge.spark.connecting import CONNECTION_OPTIONS, ConnectionOptions
from amqpforge.spark.options import OptionError, OptionReader

__all__ = ["BATCH_OPTIONS", "STREAM_OPTIONS", "SinkOptions"]

_SHARED: Final = (
    *CONNECTION_OPTIONS,
    "address",
    "deadLetterAddress",
    "messageId",
    "timeout",
    "transactional",
    "window",
)
BATCH_OPTIONS: Final = (*_SHARED, "writeId")
"""The names of the options of ``df.write``."""
STREAM_OPTIONS: Final = (*_SHARED, "checkpointLocation")
"""The names of the options of ``df.writeStream``; the last one is Spark's, which shows it to us."""

_MOST_WINDOW: Final = 100_000
_MOST_WRITE_ID: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """How rows are sent.

    Attributes:
        connection: where to connect and as whom.
        address: where all rows go, whatever their column ``address`` says; None: where that says.
        dead_letter_address: where rows go that are not accepted; None: they fail the task.
        makes_ids: whether a message without a message-id gets one that is the same in each attempt.
        write_id: what these ids begin with in a batch; None: something that nobody else has.
        window: messages whose outcome is not known, at most.
        timeout: seconds that each step may take, and that rows may be without any outcome.
        transactional: whether a partition is one transaction.
    """

    connection: ConnectionOptions
    address: str | None = None
    dead_letter_address: str | None = None
    makes_ids: bool = True
    write_id: str | None = None
    window: int = 1000
    timeout: float = 60.0
    transactional: bool = False

    @property
    def patience(self) -> float:
        """Seconds without any outcome, after which rows are given up: a lost connection gets its own time."""
        return self.timeout + (0.0 if self.transactional else self.connection.start_timeout)

    @classmethod
    def for_batch(cls, options: Mapping[str, str]) -> SinkOptions:
        """Take the options of a batch.

        Raises:
            OptionError: one is not known, missing or wrong.
        """
        return cls._read(OptionReader(options, BATCH_OPTIONS, purpose="writing a batch"))

    @classmethod
    def for_stream(cls, options: Mapping[str, str]) -> SinkOptions:
        """Take the options of a stream.

        Raises:
            OptionError: one is not known, missing or wrong.
        """
        return cls._read(OptionReader(options, STREAM_OPTIONS, purpose="writing a stream"))

    @classmethod
    def _read(cls, reader: OptionReader) -> SinkOptions:
        makes_ids = reader.choice("messageId", ("generate", "keep"), "generate") == "generate"
        write_id = reader.text("writeId")
        if write_id is not None and not makes_ids:
            raise OptionError("writeId", "goes with messageId=generate")
        if write_id is not None and len(write_id) > _MOST_WRITE_ID:
            raise OptionError("writeId", f"has at most {_MOST_WRITE_ID} characters, not {len(write_id)}")
        address, dead = reader.text("address"), reader.text("deadLetterAddress")
        if dead is not None and dead == address:
            raise OptionError(
                "deadLetterAddress", "is the option 'address' again: what that refuses goes elsewhere"
            )
        connection = ConnectionOptions.read(reader)
        timeout = reader.seconds("timeout", 60.0)
        return cls(
            connection=connection,
            address=address,
            dead_letter_address=dead,
            makes_ids=makes_ids,
            write_id=write_id,
            window=reader.count("window", 1000, most=_MOST_WINDOW) or 1000,
            timeout=timeout,
            transactional=reader.flag("transactional", default=False),
        )
