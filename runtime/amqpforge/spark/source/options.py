"""The options of reading with ``format("amqp")``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from amqpforge.spark.connecting import CONNECTION_OPTIONS, ConnectionOptions
from amqpforge.spark.options import OptionError, OptionReader

from .columns import columns_of
from .location import check_location

__all__ = ["BATCH_OPTIONS", "STREAM_OPTIONS", "ReadOptions"]

_SHARED: Final = (
    *CONNECTION_OPTIONS,
    "address",
    "columns",
    "credit",
    "filter",
    "mode",
    "receivers",
    "spoolLocation",
    "spoolMaxBytes",
    "undecodable",
)
STREAM_OPTIONS: Final = (*_SHARED, "maxRowsPerBatch", "maxBytesPerBatch", "receiveOn")
"""The names of the options of ``spark.readStream``."""
BATCH_OPTIONS: Final = _SHARED
"""The names of the options of ``spark.read``."""

_MOST_RECEIVERS: Final = 64
_MOST_CREDIT: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How AMQP is read.

    Attributes:
        connection: where to connect and as whom.
        addresses: nodes, and patterns of names of queues with ``*`` or ``?``.
        columns: the names of those of a message that rows have, in their order.
        consumes: whether messages are taken from their nodes; else they are copied.
        selector: which messages are wanted, as JMS has it; None: all.
        credit: messages that may be under way on a link.
        receivers: links to each address.
        on_executors: whether tasks receive; else the process of the query does.
        max_rows: rows of a micro-batch at most; None: no limit.
        max_octets: octets of the messages of a micro-batch at most; None: no limit.
        spool: where messages are kept, the path of a folder or a URI; None: there is none.
        spool_octets: octets of messages that the spool may hold before no more are taken.
        rejects_undecodable: whether a message that cannot be decoded is rejected; else it becomes a row that
            says so.
    """

    connection: ConnectionOptions
    addresses: tuple[str, ...]
    columns: tuple[str, ...]
    consumes: bool = True
    selector: str | None = None
    credit: int = 5000
    receivers: int = 1
    on_executors: bool = False
    max_rows: int | None = None
    max_octets: int | None = None
    spool: str | None = None
    spool_octets: int = 1 << 30
    rejects_undecodable: bool = False

    @classmethod
    def for_stream(cls, options: Mapping[str, str]) -> ReadOptions:
        """Take the options of a stream.

        Raises:
            OptionError: one is not known, missing or wrong.
        """
        reader = OptionReader(options, STREAM_OPTIONS, purpose="reading a stream")
        reader.required(
            "spoolLocation",
            "the folder that keeps messages until Spark has committed them, one for each query",
        )
        made = cls._read(reader, default_mode="consume")
        if reader.choice("receiveOn", ("driver", "executors"), "driver") == "driver":
            return made
        if not made.consumes:
            raise OptionError(
                "receiveOn", "is driver where messages are copied: each task would copy all of them again"
            )
        return replace(made, on_executors=True)

    @classmethod
    def for_batch(cls, options: Mapping[str, str]) -> ReadOptions:
        """Take the options of a batch.

        Raises:
            OptionError: one is not known, missing or wrong.
        """
        for name in ("maxRowsPerBatch", "maxBytesPerBatch"):
            if name.lower() in {given.lower() for given in options}:
                raise OptionError(name, "is for spark.readStream: a batch reads all there is")
        if "receiveon" in {given.lower() for given in options}:
            raise OptionError(
                "receiveOn", "is for spark.readStream: a batch that browses does so in its tasks"
            )
        reader = OptionReader(options, BATCH_OPTIONS, purpose="reading a batch")
        made = cls._read(reader, default_mode="browse")
        if made.consumes and made.spool is None:
            raise OptionError(
                "mode",
                "consume takes messages for good, so a batch needs the option 'spoolLocation' to keep them "
                "in",
            )
        if not made.consumes and made.spool is not None:
            raise OptionError("spoolLocation", "has no use in a batch that browses")
        return made

    @classmethod
    def _read(cls, reader: OptionReader, *, default_mode: str) -> ReadOptions:
        consumes = reader.choice("mode", ("consume", "browse"), default_mode) == "consume"
        receivers = reader.count("receivers", 1, most=_MOST_RECEIVERS) or 1
        if receivers > 1 and not consumes:
            raise OptionError("receivers", "is 1 where messages are copied: each link would copy all of them")
        undecodable = reader.choice("undecodable", ("keep", "reject"), "keep")
        if undecodable == "reject" and not consumes:
            raise OptionError("undecodable", "is keep where messages are copied: there is nothing to reject")
        location = reader.text("spoolLocation")
        return cls(
            connection=ConnectionOptions.read(reader),
            addresses=_addresses(reader.required("address", "the node to read, or several with commas")),
            columns=columns_of(reader),
            consumes=consumes,
            selector=reader.text("filter"),
            credit=reader.count("credit", 5000, most=_MOST_CREDIT) or 5000,
            receivers=receivers,
            max_rows=reader.count("maxRowsPerBatch", None),
            max_octets=reader.octets("maxBytesPerBatch", None),
            spool=None if location is None else check_location(location),
            spool_octets=reader.octets("spoolMaxBytes", 1 << 30) or 1 << 30,
            rejects_undecodable=undecodable == "reject",
        )

    def without_password(self) -> ReadOptions:
        """The same for those who do not connect."""
        return replace(self, connection=self.connection.without_password())


def _addresses(text: str) -> tuple[str, ...]:
    """Addresses with commas between them, or a JSON list for those that have a comma themselves."""
    given: object = [part.strip() for part in text.split(",")]
    if text.startswith("["):
        try:
            given = json.loads(text)
        except ValueError:
            raise OptionError("address", "begins like a JSON list and is none") from None
    if not isinstance(given, list) or not given or not all(isinstance(one, str) and one for one in given):
        raise OptionError(
            "address", "is a name, several with commas, or a JSON list of strings; none is empty"
        )
    return tuple(dict.fromkeys(given))
