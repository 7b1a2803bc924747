"""The columns of observations: what happened on the connections of a capture, one row each.

``kind`` says which of the structs a row has; all others are null.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from amqpforge_spark._support.arrow import arrow_type

__all__ = ["COMMON", "KINDS", "OBSERVATION", "Observations"]

_ROWS: Final = 10_000
_TIME = TimestampType()
_TEXT = StringType()
_COUNT = LongType()


def _struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


COMMON: Final = _struct(
    file=_TEXT, stream=_COUNT, time=_TIME, packet=_COUNT, direction=_TEXT, offset=_COUNT, frame=_COUNT
)
"""Of which connection; the frame with which it happened: when, its packet, its direction and offset, and its
number among the frames of the connection, both directions together, from 1, headers and errors included.
"""

_LINK = {"sender": _TEXT, "channel": IntegerType(), "link": _TEXT, "source": _TEXT, "target": _TEXT}
"""Whose end sends ("client", "server"); the channel of its frames; name and addresses of the link."""

KINDS: Final[dict[str, StructType]] = {
    "connection": _struct(
        client=_TEXT,
        server=_TEXT,
        client_container=_TEXT,
        server_container=_TEXT,
        mechanism=_TEXT,
        began=_TIME,
        ended=_TIME,
        client_frames=_COUNT,
        server_frames=_COUNT,
        client_octets=_COUNT,
        server_octets=_COUNT,
        client_closed=BooleanType(),
        server_closed=BooleanType(),
        sessions=_COUNT,
        links=_COUNT,
        deliveries=_COUNT,
        unsettled=_COUNT,
        violations=_COUNT,
        most_unsettled=_COUNT,
        most_unsettled_at=_TIME,
        redeliveries=_COUNT,
    ),
    "session": _struct(
        client_channel=IntegerType(),
        server_channel=IntegerType(),
        began=_TIME,
        ended=_TIME,
        client_transfers=_COUNT,
        server_transfers=_COUNT,
        client_octets=_COUNT,
        server_octets=_COUNT,
        condition=_TEXT,
        description=_TEXT,
    ),
    "link": _struct(
        **_LINK,
        began=_TIME,
        ended=_TIME,
        deliveries=_COUNT,
        octets=_COUNT,
        outcomes=MapType(_TEXT, _COUNT),
        unsettled=_COUNT,
        most_unsettled=_COUNT,
        most_unsettled_at=_TIME,
        refused=BooleanType(),
        condition=_TEXT,
        description=_TEXT,
    ),
    "delivery": _struct(
        **_LINK,
        delivery_id=_COUNT,
        delivery_tag=BinaryType(),
        began=_TIME,
        settled=_TIME,
        seconds=DoubleType(),
        transfers=_COUNT,
        octets=_COUNT,
        outcome=_TEXT,
        is_settled=BooleanType(),
    ),
    "redelivery": _struct(
        **_LINK,
        delivery_id=_COUNT,
        delivery_tag=BinaryType(),
        delivery_count=_COUNT,
        resumed=BooleanType(),
    ),
    "credit": _struct(**_LINK, before=_COUNT, credit=_COUNT, drain=BooleanType()),
    "starvation": _struct(**_LINK, began=_TIME, ended=_TIME, seconds=DoubleType(), sent_after=DoubleType()),
    "stall": _struct(
        sender=_TEXT,
        channel=IntegerType(),
        began=_TIME,
        ended=_TIME,
        seconds=DoubleType(),
        sent_after=DoubleType(),
    ),
    "violation": _struct(
        end=_TEXT, rule=_TEXT, condition=_TEXT, text=_TEXT, channel=IntegerType(), name=_TEXT
    ),
    "unknown": _struct(end=_TEXT, text=_TEXT),
    "owed": _struct(end=_TEXT, channel=IntegerType(), text=_TEXT),
}
"""The structs, by kind."""

OBSERVATION: Final = StructType(
    [
        *COMMON.fields,
        StructField("kind", StringType()),
        *[StructField(name, kind) for name, kind in KINDS.items()],
    ]
)
"""A row of observations."""

_ARROW: Final = pa.schema(list(arrow_type(OBSERVATION)))
_TYPES: Final = {name: list(arrow_type(kind)) for name, kind in KINDS.items()}
_COMMON: Final = list(arrow_type(COMMON))


class Observations:
    """Observations as columns: a row is a tuple of its common values, and one of the fields of its kind."""

    __slots__ = ("_rows", "count")

    def __init__(self) -> None:
        self._rows: dict[str, tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]] = {
            kind: ([], []) for kind in KINDS
        }
        self.count = 0

    def add(self, kind: str, common: tuple[Any, ...], fields: tuple[Any, ...]) -> None:
        """One more; times are in microseconds since 1970."""
        commons, rows = self._rows[kind]
        commons.append(common)
        rows.append(fields)
        self.count += 1

    @property
    def is_full(self) -> bool:
        """Whether there is enough for record batches."""
        return self.count >= _ROWS

    def batches(self) -> Iterator[Any]:
        """What was added, one record batch a kind; there is nothing left then."""
        self.count = 0
        for kind, (commons, rows) in self._rows.items():
            if not rows:
                continue
            count = len(rows)
            struct = pa.StructArray.from_arrays(_arrays(_TYPES[kind], rows), fields=_TYPES[kind])
            structs = [
                struct if field.name == kind else pa.nulls(count, field.type)
                for field in list(_ARROW)[len(_COMMON) + 1 :]
            ]
            arrays = [*_arrays(_COMMON, commons), pa.repeat(pa.scalar(kind), count), *structs]
            commons.clear()
            rows.clear()
            yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def _arrays(fields: list[Any], rows: list[tuple[Any, ...]]) -> list[Any]:
    columns = zip(*rows, strict=True)
    return [pa.array(values, field.type) for field, values in zip(fields, columns, strict=True)]
