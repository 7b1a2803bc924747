"""Rows as messages: columns back to the objects that the codecs of the protocol write."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.types as kinds_of
from pyspark.sql.types import StructType

from amqpforge.notation import from_json
from amqpforge_protocol._support.containers import Map
from amqpforge_protocol._support.errors import EncodeError
from amqpforge_protocol._support.wrappers import Symbol

from .arrow import Array, Batch, Schema, arrow_type
from .body import BODY
from .envelope import ENVELOPE
from .tagged import TAGGED
from .values import is_value_type, moments_of, values_of

__all__ = ["BodyReader", "MapReader", "Reader", "StructReader", "check_schema", "encode_rows"]

_UNREAD = frozenset(("_corrupt", *[field.name for field in ENVELOPE]))
_BODY = [field.name for field in BODY]
_TAGGED = arrow_type(TAGGED)
_SAME: tuple[Callable[[Any], bool], ...] = (
    kinds_of.is_boolean,
    kinds_of.is_integer,
    kinds_of.is_floating,
    lambda kind: kinds_of.is_string(kind) or kinds_of.is_large_string(kind),
    lambda kind: kinds_of.is_binary(kind) or kinds_of.is_large_binary(kind),
    kinds_of.is_timestamp,
    kinds_of.is_decimal,
)


class Reader(Protocol):
    """Reads the column of one section."""

    def check(self, name: str, kind: Any) -> None:
        """See whether a column of an Arrow type can be read. Raises EncodeError."""
        raise NotImplementedError

    def setter(self, array: Array, name: str, message: Any) -> Callable[[int], None]:
        """What sets the section ``name`` of ``message`` to that of a row.

        Raises:
            EncodeError: a value is not one of its type.
        """
        raise NotImplementedError


def _refuse(name: str, kind: Any, expected: str) -> EncodeError:
    return EncodeError(f"the column {name} is of the type {kind}; expected {expected}")


def _check_field(name: str, kind: Any, expected: Any) -> None:
    if expected.equals(_TAGGED):
        if not is_value_type(kind):
            raise _refuse(name, kind, "a tagged struct, or a plain type")
    elif not (kinds_of.is_null(kind) or any(fits(kind) and fits(expected) for fits in _SAME)):
        raise _refuse(name, kind, str(expected))


def _read_field(array: Array, expected: Any) -> list[Any]:
    if expected.equals(_TAGGED):
        return values_of(array)
    if kinds_of.is_timestamp(expected) and kinds_of.is_timestamp(array.type):
        return moments_of(array)
    try:
        values: list[Any] = array.cast(expected).to_pylist()
    except pa.ArrowInvalid as error:
        raise EncodeError(f"a value is not one of the type {expected}: {error}") from error
    return values


class StructReader:
    """Reads a section that has fields; fields that are missing or null have their defaults."""

    def __init__(self, section: Any, spark: StructType) -> None:
        self._section = section
        self._kinds = {field.name: arrow_type(field.dataType) for field in spark.fields}

    def check(self, name: str, kind: Any) -> None:
        """See whether a column of an Arrow type can be read. Raises EncodeError."""
        if not kinds_of.is_struct(kind):
            raise _refuse(name, kind, f"a struct of any of {', '.join(self._kinds)}")
        for field in kind:
            if field.name not in self._kinds:
                raise EncodeError(f"{name} has no field {field.name}; it has {', '.join(self._kinds)}")
            _check_field(f"{name}.{field.name}", field.type, self._kinds[field.name])

    def setter(self, array: Array, name: str, message: Any) -> Callable[[int], None]:
        """What sets the section of the message to that of a row.

        One section serves all rows: each field that is not null everywhere is set anew.
        """
        section = self._section()
        fields: list[tuple[str, list[Any]]] = []
        for field, column in zip(array.type, array.flatten(), strict=True):
            if column.null_count < len(column):
                default = getattr(section, field.name)
                values = _read_field(column, self._kinds[field.name])
                if column.null_count and default is not None:
                    values = [default if value is None else value for value in values]
                fields.append((field.name, values))
        valid = array.is_valid().to_pylist()

        def set_section(row: int) -> None:
            if valid[row]:
                for attribute, values in fields:
                    setattr(section, attribute, values[row])
                setattr(message, name, section)
            else:
                setattr(message, name, None)

        return set_section


class MapReader:
    """Reads a section that is a map from text."""

    def __init__(self, key: type[str]) -> None:
        self._key = key

    def check(self, name: str, kind: Any) -> None:
        """See whether a column of an Arrow type can be read. Raises EncodeError."""
        if not (
            kinds_of.is_map(kind) and is_value_type(kind.item_type) and not kinds_of.is_null(kind.key_type)
        ):
            raise _refuse(name, kind, "a map from text to tagged structs, or to a plain type")
        _check_field(f"the keys of {name}", kind.key_type, pa.string())

    def setter(self, array: Array, name: str, message: Any) -> Callable[[int], None]:
        """What sets the section of the message to that of a row; a null is an empty map."""
        rows = self._maps(array)

        def set_section(row: int) -> None:
            setattr(message, name, rows[row])

        return set_section

    def _maps(self, array: Array) -> list[dict[Any, Any]]:
        offsets = array.offsets.to_pylist()
        first, last = offsets[0], offsets[-1]
        keys: list[Any] = array.keys.slice(first, last - first).to_pylist()
        if self._key is Symbol:
            symbols = {key: Symbol(key) for key in {*keys}}
            keys = [symbols[key] for key in keys]
        entries = zip(keys, values_of(array.items.slice(first, last - first)), strict=True)
        sizes = [stop - start for start, stop in pairwise(offsets)]
        rows = [dict(islice(entries, size)) for size in sizes]
        if sum(map(len, rows)) != len(keys):
            row = next(row for row, size in enumerate(sizes) if len(rows[row]) != size)
            raise EncodeError(f"row {row}: a map has the same key twice")
        if array.null_count:
            rows = [
                row if valid else {} for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)
            ]
        return rows


class BodyReader:
    """Reads the columns of a body."""

    def __init__(self, data: Any, sequence: Any, single: Any) -> None:
        """``data``, ``sequence`` and ``single`` are the classes of the sections of a body."""
        self._data, self._sequence, self._single = data, sequence, single
        self._kinds = (data.XML_NAME, sequence.XML_NAME, single.XML_NAME)

    def check(self, schema: Schema) -> None:
        """See whether columns of these types can be read. Raises EncodeError."""
        kinds = {name: schema.field(name).type for name in _BODY if name in schema.names}
        if not kinds.keys() - {"body_kind", "body_sizes"}:
            raise EncodeError("no column has a body; there may be body, body_value and body_sequence")
        for name, kind in kinds.items():
            if name == "body" and (kinds_of.is_string(kind) or kinds_of.is_large_string(kind)):
                continue
            if name == "body_sizes":
                expected = kinds_of.is_list(kind) and kinds_of.is_integer(kind.value_type)
            elif name == "body_sequence":
                expected = kinds_of.is_list(kind) and kinds_of.is_list(kind.value_type)
                expected = expected and is_value_type(kind.value_type.value_type)
            else:
                _check_field(
                    name, kind, arrow_type(next(field.dataType for field in BODY if field.name == name))
                )
                continue
            if not expected:
                raise _refuse(
                    name, kind, "a list of numbers" if name == "body_sizes" else "a list of lists of values"
                )

    def read(self, batch: Batch) -> list[Any]:
        """The body of each row, or None.

        Raises:
            EncodeError: a row has two bodies, or not the one that its ``body_kind`` names.
        """
        columns = {name: batch.column(name) for name in _BODY if name in batch.schema.names}
        filled = {name: column for name, column in columns.items() if column.null_count < len(column)}
        nothing: list[Any] = [None] * batch.num_rows
        kinds = filled["body_kind"].to_pylist() if "body_kind" in filled else nothing
        octets = filled["body"].to_pylist() if "body" in filled else nothing
        sizes = filled["body_sizes"].to_pylist() if "body_sizes" in filled else nothing
        values = values_of(filled["body_value"]) if "body_value" in filled else nothing
        lists = _nested_values(filled["body_sequence"]) if "body_sequence" in filled else nothing
        told = filled["body_value"].is_valid().to_pylist() if "body_value" in filled else nothing
        is_octets = filled.keys() <= {"body", "body_kind"} and {*map(type, octets)} == {bytes}
        if is_octets and {*kinds} <= {None, self._kinds[0]}:
            return [[self._data(content)] for content in octets]
        rows = zip(kinds, octets, sizes, values, lists, told, strict=True)
        bodies: list[Any] = []
        for row, (kind, content, size, value, sequence, is_told) in enumerate(rows):
            try:
                bodies.append(self._body(kind, content, size, value, sequence, bool(is_told)))
            except EncodeError as error:
                raise EncodeError(f"row {row}: {error}") from error
        return bodies

    def _body(
        self, kind: str | None, content: Any, sizes: Any, value: Any, sequence: Any, is_told: bool
    ) -> Any:
        data, sequences, single = self._kinds
        if (content is not None) + (sequence is not None) + is_told > 1:
            raise EncodeError("has more than one of body, body_value and body_sequence")
        found: str | None = None
        body: Any = None
        if isinstance(content, str):
            found, body = single, self._single(content)
        elif content is not None:
            found, body = data, [self._data(part) for part in _cut(content, sizes)]
        elif sequence is not None:
            found, body = sequences, [self._sequence(items) for items in sequence]
        elif is_told or kind == single:
            found, body = single, self._single(value)
        if kind is not None and kind != found:
            raise EncodeError(f"has no body of the kind {kind}; there are {', '.join(self._kinds)}")
        return body


def _cut(content: bytes, sizes: Sequence[int] | None) -> list[bytes]:
    if sizes is None:
        return [content]
    if sum(sizes) != len(content) or not sizes or min(sizes) < 0:
        raise EncodeError(f"has a body of {len(content)} octets, and body_sizes that add up to {sum(sizes)}")
    parts: list[bytes] = []
    at = 0
    for size in sizes:
        parts.append(content[at : at + size])
        at += size
    return parts


def _nested_values(array: Array) -> list[Any]:
    """Lists of lists of values; a null is None."""
    inner = array.flatten()
    values = values_of(inner.flatten())
    inner_lists: list[list[Any]] = []
    at = 0
    for size in inner.value_lengths().to_pylist():
        inner_lists.append(values[at : at + (size or 0)])
        at += size or 0
    rows: list[Any] = []
    at = 0
    for size in array.value_lengths().to_pylist():
        rows.append(None if size is None else inner_lists[at : at + size])
        at += size or 0
    return rows


def check_schema(schema: Schema, columns: Mapping[str, Reader], bodies: BodyReader) -> None:
    """See whether rows of a schema can become messages. Raises EncodeError."""
    known = {*columns, *_BODY, "_rest", *_UNREAD}
    for field in schema:
        if field.name not in known:
            raise EncodeError(f"a message has no column {field.name}; it has {', '.join(sorted(known))}")
        if schema.names.count(field.name) > 1:
            raise EncodeError(f"there are several columns {field.name}")
        if field.name in columns and not kinds_of.is_null(field.type):
            columns[field.name].check(field.name, field.type)
    if "_rest" in schema.names:
        _check_field("_rest", schema.field("_rest").type, pa.string())
    bodies.check(schema)


def encode_rows(
    batch: Batch,
    message: Any,
    columns: Mapping[str, Reader],
    bodies: BodyReader,
    encode: Callable[[Any], bytes],
) -> list[bytes]:
    """The octets of each row of a batch, which is set in ``message``, one row after the other.

    Raises:
        EncodeError: a value does not fit its section, or a row is no message; the reason names the row.
    """
    setters: list[Callable[[int], None]] = []
    for name, reader in columns.items():
        index = batch.schema.get_field_index(name)
        if index < 0 or batch.column(index).null_count == batch.num_rows:
            continue
        try:
            setters.append(reader.setter(batch.column(index), name, message))
        except EncodeError as error:
            raise EncodeError(f"{error.reason} (column {name})") from error
    rests = _rests(batch)
    octets: list[bytes] = []
    for row, body in enumerate(bodies.read(batch)):
        for set_section in setters:
            set_section(row)
        message.body = body
        try:
            octets.append(
                encode(message) if row not in rests else _encode_restored(message, rests[row], encode)
            )
        except EncodeError as error:
            raise EncodeError(f"row {row}: {error}") from error
    return octets


def _rests(batch: Batch) -> dict[int, str]:
    index = batch.schema.get_field_index("_rest")
    if index < 0 or batch.column(index).null_count == batch.num_rows:
        return {}
    return {row: text for row, text in enumerate(batch.column(index).to_pylist()) if text is not None}


def _encode_restored(message: Any, text: str, encode: Callable[[Any], bytes]) -> bytes:
    """The octets of a message with what fitted no column put back into its sections, for this once."""
    before: list[tuple[Any, str, Any]] = []
    try:
        for path, notation in json.loads(text).items():
            name, _, field = path.partition(".")
            section = getattr(message, name)
            if field:
                holder, attribute, value = section, field, from_json(notation)
            else:
                entries = [(from_json(key), from_json(item)) for key, item in notation]
                holder, attribute, value = message, name, _joined(section, entries)
            before.append((holder, attribute, getattr(holder, attribute)))
            setattr(holder, attribute, value)
        return encode(message)
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, EncodeError):
            raise
        raise EncodeError(f"_rest is not what a message left: {error}") from error
    finally:
        for holder, attribute, value in reversed(before):
            setattr(holder, attribute, value)


def _joined(section: Mapping[Any, Any], entries: list[tuple[Any, Any]]) -> Any:
    """The entries of a map and further ones, whose keys a dict may merge."""
    whole = Map([*section.items(), *entries])
    if len(whole) != len(section) + len(entries):
        raise EncodeError("_rest has a key that its section has too")
    return whole
