"""A segment of the spool: messages as they came, and what is known of them, as one Arrow record batch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from amqpforge.errors import AmqpforgeError

if TYPE_CHECKING:
    from .storage import Storage

__all__ = [
    "SCHEMA",
    "MissingSegment",
    "Rows",
    "Segment",
    "SpoolError",
    "decode_segments",
    "encode_segment",
    "is_whole",
    "read_segment",
]

SCHEMA: Final = pa.schema(
    [
        pa.field("address", pa.string()),
        pa.field("link", pa.string()),
        pa.field("delivery_tag", pa.binary()),
        pa.field("received_at", pa.timestamp("us", tz="UTC")),
        pa.field("message_format", pa.int64()),
        pa.field("payload", pa.binary()),
    ]
)
"""The columns of a segment. ``payload`` has the octets of the whole message."""

_NAME: Final = re.compile(r"(\d{12})-(\d+)-(\d+)\.arrow(.*)", re.ASCII)
_ROWS: Final = 10_000
"""Rows that are decoded at once, at most."""
_OCTETS: Final = 16 << 20
"""Octets of them at most, but for what is in one segment."""


class SpoolError(AmqpforgeError):
    """The spool cannot do what it is there for. No message is lost: what is not in it was not settled."""


class MissingSegment(SpoolError):
    """A segment is not there."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment as its name tells it.

    Attributes:
        number: its place, from 0.
        rows: how many messages it has.
        octets: how many octets they have.
        mark: that of the storage when it was written.
    """

    number: int
    rows: int
    octets: int
    mark: str = ""

    @classmethod
    def named(cls, name: str) -> Segment | None:
        """The segment whose file has this name; None: that is no segment."""
        match = _NAME.fullmatch(name)
        return match and cls(int(match[1]), int(match[2]), int(match[3]), match[4])

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.number:012d}-{self.rows}-{self.octets}.arrow{self.mark}"


@dataclass(slots=True)
class Rows:
    """Rows on their way into a segment, a list for each column; ``received`` is microseconds since 1970."""

    addresses: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    tags: list[bytes] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    formats: list[int] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.payloads)

    def append(
        self, address: str, link: str, tag: bytes, received: int, message_format: int, payload: bytes
    ) -> None:
        """Add a message."""
        self.addresses.append(address)
        self.links.append(link)
        self.tags.append(tag)
        self.received.append(received)
        self.formats.append(message_format)
        self.payloads.append(payload)

    def batch(self) -> pa.RecordBatch:
        """The rows as a record batch of :data:`SCHEMA`."""
        columns = (self.addresses, self.links, self.tags, self.received, self.formats, self.payloads)
        arrays = [pa.array(values, one.type) for values, one in zip(columns, SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def encode_segment(batch: pa.RecordBatch) -> pa.Buffer:
    """The octets of a segment file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def read_segment(storage: Storage, name: str) -> pa.RecordBatch:
    """What the segment of a name holds.

    Raises:
        MissingSegment: it is not there.
        SpoolError: it cannot be read or is damaged.
    """
    try:
        with storage.open(name) as source:
            reader = pa.ipc.open_file(source)
            batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
    except FileNotFoundError:
        raise MissingSegment(
            f"the segment {storage.place(name)} is not there: the spool has to be on storage that the driver "
            "and all executors reach at the same place, and nobody else may delete from it"
        ) from None
    except (OSError, pa.ArrowException) as error:
        raise SpoolError(f"the segment {storage.place(name)} cannot be read: {error}") from error
    if len(batches) != 1 or not batches[0].schema.equals(SCHEMA):
        raise SpoolError(f"the segment {storage.place(name)} has not the columns of a segment")
    return batches[0]


def is_whole(storage: Storage, name: str) -> bool:
    """Whether a segment has its end, which is written last.

    Raises:
        OSError: it cannot be read.
    """
    with storage.open(name) as source:
        try:
            return bool(pa.ipc.open_file(source).num_record_batches)
        except pa.ArrowInvalid:
            return False


def decode_segments(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """These columns of the messages of segments, those of small ones together: it is decoding many at once
    that is fast. Octets that are no message become a row that says so.
    """
    from amqpforge_spark.amqp_1_0 import decode_messages

    for batch in _gathered(batches):
        yield decode_messages(batch).select(columns)


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that are decoded at once."""
    held: list[pa.RecordBatch] = []
    rows = octets = 0
    for batch in _pieces(batches):
        if held and (rows + batch.num_rows > _ROWS or octets + batch.nbytes > _OCTETS):
            yield pa.concat_batches(held)
            held, rows, octets = [], 0, 0
        held.append(batch)
        rows += batch.num_rows
        octets += batch.nbytes
    if held:
        yield pa.concat_batches(held)


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS):
            yield batch.slice(start, _ROWS)
