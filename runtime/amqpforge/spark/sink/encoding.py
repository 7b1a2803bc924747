"""Rows in Arrow batches become encoded messages, with ids where they have none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute

from amqpforge_protocol.amqp_1_0 import EncodeError
from amqpforge_spark.amqp_1_0 import MESSAGE_SCHEMA, encode_messages

from .columns import BODIES, FLAT, SECTIONS
from .errors import WriteFailed
from .identity import row_id, sealed
from .sending import Row

__all__ = ["RowEncoder"]

pc: Any = pyarrow.compute  # Its functions come to be when it is imported: no checker sees them.

_AT_ONCE: Final = 2000
"""Rows that are encoded at a time; what was encoded before them is on its way meanwhile."""
_GROUPED: Final = 10_000
"""The same for rows with many addresses, which are grouped: each group ends with a wait."""
_MOST_OCTETS: Final = 8 << 20
"""Octets of rows, in Arrow, that are encoded at a time, unless one row has more."""
_TAGGED: Final = MESSAGE_SCHEMA.field("body_value").type


class RowEncoder:
    """Encodes the rows of one partition, in their order.

    Attributes:
        row: how many rows were encoded so far.
    """

    def __init__(self, partition: int, *, address: str | None, id_prefix: str | None) -> None:
        """Describe the messages.

        Args:
            partition: its number, for errors.
            address: where all messages go; None: each row says it.
            id_prefix: what the ids of messages without one begin with; None: they stay without.
        """
        self._partition = partition
        self._address = address
        self._id_prefix = id_prefix
        self.row = 0

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
        """The messages of batches, encoded as they are asked for.

        Rows with many addresses come grouped by them, a piece of a batch at a time: those of one address stay
        in their order.

        Raises:
            WriteFailed: a row is no message.
        """
        most = _GROUPED if self._address is None else _AT_ONCE
        for batch in batches:
            for piece in _pieces(batch, most):
                yield from self._encoded(piece)
                self.row += piece.num_rows

    def _encoded(self, batch: pa.RecordBatch) -> Iterator[Row]:
        first = self.row
        self._check(batch)
        ids: list[str] | None = None
        if self._id_prefix is not None:
            ids = [row_id(self._id_prefix, first + row) for row in range(batch.num_rows)]
        table, is_given = _sections(batch, ids)
        octets = self._messages(table)
        if ids is not None:
            octets = [
                one if has_own else sealed(one, id)
                for one, id, has_own in zip(octets, ids, is_given, strict=True)
            ]
        if self._address is not None:
            address = self._address
            return (Row(first + row, address, one) for row, one in enumerate(octets))
        return self._addressed(batch, octets)

    def _addressed(self, batch: pa.RecordBatch, octets: list[bytes]) -> Iterator[Row]:
        addresses: list[str | None] = batch.column("address").to_pylist()
        groups: dict[str, list[int]] = {}
        for row, address in enumerate(addresses):
            if not address:
                raise self._failed("it has no address, and there is no option address", row)
            groups.setdefault(address, []).append(row)
        first = self.row
        return (
            Row(first + row, address, octets[row]) for address, members in groups.items() for row in members
        )

    def _messages(self, table: pa.RecordBatch) -> list[bytes]:
        try:
            return encode_messages(table)
        except EncodeError as error:
            raise self._blamed(table, error) from error

    def _blamed(self, table: pa.RecordBatch, error: EncodeError) -> WriteFailed:
        """The first row that is no message, found by trying each: it is the only one that matters now."""
        for row in range(table.num_rows):
            try:
                encode_messages(table.slice(row, 1))
            except EncodeError as own:
                return self._failed(f"it is no message: {str(own).removeprefix('row 0: ')}", row)
        return self._failed(f"one of {table.num_rows} rows from here on is no message: {error}", 0)

    def _check(self, batch: pa.RecordBatch) -> None:
        """See that no row is what could not be decoded, or could not be told in columns.

        Raises:
            WriteFailed: one is.
        """
        names = batch.schema.names
        if "_corrupt" in names:
            corrupt = batch.column("_corrupt")
            if corrupt.null_count < batch.num_rows:
                row = pc.index(corrupt.is_valid(), True).as_py()
                raise self._failed("it holds octets that are no message (_corrupt): leave such rows out", row)
        if "message_format" in names:
            other = pc.fill_null(pc.not_equal(batch.column("message_format"), 0), False)
            row = pc.index(other, True).as_py()
            if row >= 0:
                raise self._failed("its message_format is not 0: it cannot be encoded from columns", row)

    def _failed(self, what: str, row: int) -> WriteFailed:
        return WriteFailed(what, self._partition, self.row + row)


def _pieces(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """A batch in parts of so many rows, and about so many octets, at most; one row at least."""
    each = max(batch.nbytes // max(batch.num_rows, 1), 1)
    step = max(min(most, _MOST_OCTETS // each), 1)
    for first in range(0, batch.num_rows, step):
        yield batch.slice(first, step)


# --- columns to sections ---------------------------------------------------------------------------------


def _sections(batch: pa.RecordBatch, ids: list[str] | None) -> tuple[pa.RecordBatch, list[bool]]:
    """The columns of a batch as those that the encoder takes, with ids where there are none.

    Returns:
        The columns; and for each row whether it has a message-id of its own (nothing without ``ids``).
    """
    columns: dict[str, pa.Array] = {}
    parts: dict[str, dict[str, pa.Array]] = {"header": {}, "properties": {}}
    valid: dict[str, pa.Array] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in parts and not pa.types.is_null(column.type):
            names = [field.name for field in column.type]
            parts[name] |= zip(names, column.flatten(), strict=True)
            valid[name] = column.is_valid()
        elif name in FLAT:
            parts[FLAT[name]][name] = column
        elif name in SECTIONS:
            columns[name] = column
    _fill_bodies(columns, batch.num_rows)
    is_given: list[bool] = []
    if ids is not None:
        parts["properties"]["message_id"], is_given = _with_ids(parts["properties"].get("message_id"), ids)
        valid.pop("properties", None)
    for section, fields in parts.items():
        if fields:
            columns[section] = _struct(fields, valid.get(section))
    return pa.RecordBatch.from_pydict(columns), is_given


def _fill_bodies(columns: dict[str, pa.Array], rows: int) -> None:
    """Have the body of a row that has none be the value null: each message has a body."""
    absent = pa.array([True] * rows)
    for name in BODIES:
        column = columns.get(name)
        if column is not None:
            if not column.null_count:
                return
            absent = pc.and_(absent, column.is_null())
    made = pc.if_else(absent, pa.scalar("amqp-value"), pa.scalar(None, pa.string()))
    given = columns.get("body_kind")
    is_told = given is not None and not pa.types.is_null(given.type)
    columns["body_kind"] = pc.coalesce(given, made) if is_told else made


def _struct(fields: dict[str, pa.Array], valid: pa.Array | None) -> pa.Array:
    """A section out of its fields.

    Args:
        fields: by their names, one or more.
        valid: which rows have the section; None: those where a field has a value.
    """
    columns = list(fields.values())
    absent = columns[0].is_null() if valid is None else pc.invert(valid)
    if valid is None:
        for column in columns[1:]:
            absent = pc.and_(absent, column.is_null())
    return pa.StructArray.from_arrays(columns, names=list(fields), mask=absent)


def _with_ids(given: pa.Array | None, ids: list[str]) -> tuple[pa.Array, list[bool]]:
    """The message-ids of rows, and which of them were given."""
    made = pa.array(ids, pa.string())
    if given is None or pa.types.is_null(given.type):
        return made, [False] * len(ids)
    if pa.types.is_struct(given.type):
        kinds = pc.struct_field(given, "kind")
        lacks = pc.fill_null(pc.equal(kinds, "null"), True)
    else:
        lacks = given.is_null()
    is_given: list[bool] = pc.invert(lacks).to_pylist()
    if given.type == pa.string():
        return pc.coalesce(given, made), is_given
    if not any(is_given):
        return made, is_given
    if all(is_given):
        return given, is_given
    return pc.if_else(lacks, _tagged(made), _tagged(given)), is_given


def _tagged(column: pa.Array) -> pa.Array:
    """A column of what a message-id may be as one of values of any type."""
    kind = column.type
    if pa.types.is_struct(kind):
        return column.cast(_TAGGED)
    if pa.types.is_decimal(kind):
        name, family = "ulong", "decimal"
    else:
        name = family = "binary" if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else "string"
    fields: Any = _TAGGED
    rows = len(column)
    parts: list[pa.Array] = []
    for field in fields:
        if field.name == "kind":
            parts.append(pa.array([name] * rows))
        else:
            parts.append(column.cast(field.type) if field.name == family else pa.nulls(rows, field.type))
    return pa.StructArray.from_arrays(parts, fields=list(fields), mask=column.is_null())
