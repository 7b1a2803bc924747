"""AMQP values as JSON and back: the notation of `amqpforge decode --json` and `amqpforge encode`.

JSON's own null, boolean and string stand for AMQP's. Every other value is an object that names its type:

- `{"type": "uint", "value": 7}`: ubyte, ushort, uint, byte, short and int are numbers; ulong, long and
timestamp (milliseconds since the epoch) are decimal strings, because many JSON readers lose digits; - float,
double and the decimals are `"0x"` and their bit pattern, so that NaN, -0.0 and infinities are exact; - char
is the number of its code point, uuid its usual text, binary its octets in hexadecimal, symbol a string; -
list is an array of typed values, map an array of `[key, value]` pairs in the order of the wire, both typed; -
array is `{"element": type name, "descriptor": typed value or null, "items": [typed values]}`; - described is
`{"descriptor": typed value, "value": typed value}`; - a composite is `{"type": "source", "fields": {...}}`
with the names of the specification, nulls left out, and a described restricted type such as amqp-value is
`{"type": "amqp-value", "value": typed value}`.

Inside such an object everything is typed, null, booleans and strings included. The fields of a composite have
their types from the definitions, and are written more simply there: integers up to 2^53 as numbers, symbols
as strings, choices as their wire value, a field of several values as an array.

Where plain JSON is read, an integer is a long, another number a double, and an array a list.

The sections of a message are an array of such values, `{"type": "header", "fields": {...}}` and
`{"type": "data", "value": typed value}`, in the order of the wire.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, get_args

import amqpforge_protocol.amqp_1_0 as amqp
from amqpforge_protocol.amqp_1_0 import Array, Char, Described, FieldInfo, Map, Symbol, Timestamp

__all__ = [
    "Composite",
    "NotationError",
    "as_sent",
    "composite",
    "fields_to_json",
    "from_json",
    "is_composite",
    "sections_from_json",
    "sections_to_json",
    "to_json",
]

Json = Any
"""What the json module reads and writes."""

_EXACT = 1 << 53  # integers up to here survive readers that hold numbers as doubles
_SMALL_INTEGERS: dict[str, type[int]] = {
    "ubyte": amqp.UByte,
    "ushort": amqp.UShort,
    "uint": amqp.UInt,
    "byte": amqp.Byte,
    "short": amqp.Short,
    "int": amqp.Int,
}
_LARGE_INTEGERS: dict[str, type[int]] = {"ulong": amqp.ULong, "long": int, "timestamp": Timestamp}
_BIT_PATTERNS = {"float": (0x72, 4), "double": (0x82, 8), "decimal32": (0x74, 4), "decimal64": (0x84, 8)}
_BIT_PATTERNS["decimal128"] = (0x94, 16)
_TYPE_NAMES: dict[type, str] = {
    bool: "boolean",
    **{kind: name for name, kind in _SMALL_INTEGERS.items()},
    **{kind: name for name, kind in _LARGE_INTEGERS.items()},
    float: "double",
    amqp.Float: "float",
    Decimal: "decimal128",
    amqp.Decimal32: "decimal32",
    amqp.Decimal64: "decimal64",
    Char: "char",
    uuid.UUID: "uuid",
    bytes: "binary",
    str: "string",
    Symbol: "symbol",
    list: "list",
    dict: "map",
    Map: "map",
    Array: "array",
    Described: "described",
}

_SECTIONS: tuple[Any, ...] = get_args(amqp.AnySection)


class NotationError(ValueError):
    """JSON that stands for no AMQP value."""


class Composite(NamedTuple):
    """A composite value as a name and its fields in order; values may be of this class again."""

    name: str
    fields: list[tuple[FieldInfo, object]]


def is_composite(value: object) -> bool:
    """Whether a value is an instance of a generated composite class."""
    kind: Any = type(value)
    return _has_fields(kind)


def composite(value: Any) -> Composite:
    """The fields of a generated composite that are not None."""
    present = ((info, getattr(value, info.attribute)) for info in type(value).FIELDS)
    return Composite(type(value).XML_NAME, [(info, held) for info, held in present if held is not None])


def as_sent(value: Any, data: bytes) -> Composite:
    """The fields of a generated composite that `data`, the octets it was decoded from, has: no nulls, no
    defaults.
    """
    return _sent(value, data, 0)


def to_json(value: object) -> Json:
    """A value in the notation, as it stands on its own: null, booleans and strings are JSON's."""
    return value if value is None or type(value) in (bool, str) else _typed(value)


def fields_to_json(fields: list[tuple[FieldInfo, object]]) -> dict[str, Json]:
    """The fields of a composite in the notation."""
    return {info.name: _field(info, value) for info, value in fields}


def sections_to_json(octets: bytes) -> list[Json]:
    """The sections of an encoded message in the notation, as they stand there.

    Raises DecodeError if the octets are not one value after the other.
    """
    sections: list[Json] = []
    position = 0
    while position < len(octets):
        section, behind = amqp.decode_value(octets, position)
        is_list = is_composite(section)
        sections.append(to_json(as_sent(section, octets[position:behind]) if is_list else section))
        position = behind
    return sections


def sections_from_json(notation: Json) -> bytes:
    """The octets of the sections that `sections_to_json` wrote, each in its shortest form.

    Raises NotationError if a part of it stands for no section.
    """
    if not isinstance(notation, list):
        raise NotationError("the sections of a message are an array")
    octets: list[bytes] = []
    for index, part in enumerate(notation):
        try:
            section = from_json(part)
            if type(section) not in _SECTIONS:
                names = ", ".join([kind.XML_NAME for kind in _SECTIONS])
                raise NotationError(f"not a section of a message; those are {names}")
            octets.append(amqp.encode_value(section))
        except (NotationError, amqp.EncodeError) as error:
            raise NotationError(f"section {index}: {error}") from error
    return b"".join(octets)


def from_json(notation: Json) -> object:
    """The value that `notation` stands for, to be given to `encode_value`.

    Raises NotationError if it stands for none.
    """
    try:
        return _value(notation)
    except (TypeError, ValueError, KeyError, IndexError, OverflowError, RecursionError) as error:
        if isinstance(error, NotationError):
            raise
        raise NotationError(f"not a value: {str(error) or type(error).__name__}") from error


# ---- values to JSON ----


def _field(info: FieldInfo, value: object) -> Json:
    """The value of a field; its type need not be written where the definitions tell it."""
    if value is None or info.type == "*":
        return to_json(value)
    if info.multiple and isinstance(value, list):
        return [_simple(info.primitive, item) for item in value]
    return _simple(info.primitive, value)


def _simple(primitive: str, value: object) -> Json:
    if isinstance(value, Enum):
        value = value.value
    if primitive == "symbol" and isinstance(value, str):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool | Timestamp):
        return int(value) if abs(value) <= _EXACT else {"type": primitive, "value": str(int(value))}
    return to_json(value)


def _typed(value: Any) -> Json:
    if value is None:
        return {"type": "null", "value": None}
    if isinstance(value, Composite):
        return {"type": value.name, "fields": fields_to_json(value.fields)}
    if is_composite(value):
        return _typed(composite(value))
    if isinstance(value, Enum):
        return _typed(value.value)
    name = _type_name(value)
    if name is not None:
        return {"type": name, "value": _WRITERS.get(name, _as_it_is)(value)}
    if hasattr(type(value), "XML_NAME"):
        return {"type": type(value).XML_NAME, "value": _typed(value.value)}
    raise NotationError(f"no AMQP type for {type(value).__name__}")


def _type_name(value: object) -> str | None:
    for kind in type(value).__mro__:
        if kind in _TYPE_NAMES:
            return _TYPE_NAMES[kind]
    return None


def _as_it_is(value: Any) -> Json:
    return value


def _write_bits(value: Any) -> Json:
    return "0x" + amqp.encode_value(value)[1:].hex()


def _write_array(value: Any) -> Json:
    descriptor = None if value.descriptor is None else _typed(value.descriptor)
    items = [_typed(item) for item in value.items]
    return {"element": value.element, "descriptor": descriptor, "items": items}


_WRITERS: dict[str, Callable[[Any], Json]] = {
    **dict.fromkeys(_SMALL_INTEGERS, int),
    **dict.fromkeys(_LARGE_INTEGERS, lambda value: str(int(value))),
    **dict.fromkeys(_BIT_PATTERNS, _write_bits),
    "char": ord,
    "uuid": str,
    "symbol": str,
    "binary": lambda value: value.hex(),
    "list": lambda value: [_typed(item) for item in value],
    "map": lambda value: [[_typed(key), _typed(item)] for key, item in value.items()],
    "array": _write_array,
    "described": lambda value: {"descriptor": _typed(value.descriptor), "value": _typed(value.value)},
}


# ---- JSON to values ----


def _value(notation: Json) -> Any:
    if isinstance(notation, list):
        return [_value(item) for item in notation]
    if not isinstance(notation, dict):
        return notation
    name = notation.get("type")
    if not isinstance(name, str):
        raise NotationError('an object needs "type", such as {"type": "uint", "value": 7}')
    generated = _generated().get(name)
    expected = "fields" if generated is not None and _has_fields(generated) else "value"
    strangers = sorted(set(notation) - {"type", expected})
    if strangers or (expected not in notation and name != "null"):
        problem = f"no {strangers[0]!r}" if strangers else "it"
        raise NotationError(
            f'a value of type {name} has "type" and "{expected}", and {problem} is '
            + ("allowed" if strangers else "incomplete")
        )
    content = notation.get(expected)
    if generated is not None:
        return _construct(name, generated, content)
    reader = _READERS.get(name)
    if reader is None:
        raise NotationError(f"there is no type {name!r}")
    try:
        return reader(content)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        if isinstance(error, NotationError):
            raise
        raise NotationError(f"not a value of type {name}: {content!r}") from error


def _construct(name: str, generated: Any, content: Json) -> object:
    if not _has_fields(generated):
        return generated(_value(content))
    if not isinstance(content, dict):
        raise NotationError(f"the fields of {name} are an object")
    attributes = {info.name: info.attribute for info in generated.FIELDS}
    unknown = [field for field in content if field not in attributes]
    if unknown:
        raise NotationError(f"{name} has no field {unknown[0]!r}; it has {', '.join(attributes) or 'none'}")
    return generated(**{attributes[field]: _value(item) for field, item in content.items()})


@cache
def _has_fields(kind: Any) -> bool:
    """Whether a class is a composite; a restricted type has a value instead of fields."""
    return hasattr(kind, "FIELDS") and (bool(kind.FIELDS) or not hasattr(kind, "value"))


@cache
def _generated() -> dict[str, Any]:
    """The generated classes of described types, by the name the specification gives them."""
    members: Iterator[object] = (getattr(amqp, name) for name in amqp.__all__)
    return {kind.XML_NAME: kind for kind in members if isinstance(kind, type) and hasattr(kind, "XML_NAME")}


def _exactly(kind: type) -> Callable[[Json], Any]:
    def read(content: Json) -> Any:
        if type(content) is not kind:
            raise TypeError
        return content

    return read


def _integer(kind: type[int], *, text: bool) -> Callable[[Json], int]:
    def read(content: Json) -> int:
        if isinstance(content, bool) or not isinstance(content, int | str if text else int):
            raise TypeError
        return kind(int(content))

    return read


def _bits(constructor: int, width: int) -> Callable[[Json], Any]:
    def read(content: Json) -> Any:
        if isinstance(content, float | int) and constructor in (0x72, 0x82) and not isinstance(content, bool):
            return amqp.Float(content) if constructor == 0x72 else float(content)
        if not isinstance(content, str) or not content.startswith("0x") or len(content) != 2 * width + 2:
            raise ValueError
        octets = bytes.fromhex(content[2:])
        return amqp.decode_value(bytes((constructor,)) + octets)[0]

    return read


def _read_map(content: Json) -> object:
    pairs = [(_value(key), _value(item)) for key, item in content]
    entries = Map(pairs)
    if len(entries) != len(pairs):
        raise NotationError("a map with the same key twice")
    return entries


def _read_array(content: Json) -> object:
    descriptor = content.get("descriptor")
    items = [_value(item) for item in content["items"]]
    return Array(items, content["element"], None if descriptor is None else _value(descriptor))


def _read_null(content: Json) -> None:
    if content is not None:
        raise TypeError


_READERS: dict[str, Callable[[Json], Any]] = {
    **{name: _integer(kind, text=False) for name, kind in _SMALL_INTEGERS.items()},
    **{name: _integer(kind, text=True) for name, kind in _LARGE_INTEGERS.items()},
    **{name: _bits(*form) for name, form in _BIT_PATTERNS.items()},
    "null": _read_null,
    "boolean": _exactly(bool),
    "string": _exactly(str),
    "symbol": lambda content: Symbol(_exactly(str)(content)),
    "char": lambda content: Char(chr(content)),
    "uuid": lambda content: uuid.UUID(content),
    "binary": lambda content: bytes.fromhex(content),
    "list": lambda content: [_value(item) for item in _exactly(list)(content)],
    "map": _read_map,
    "array": _read_array,
    "described": lambda content: Described(_value(content["descriptor"]), _value(content["value"])),
}


# ---- which fields were on the wire ----

_FIXED_WIDTHS = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
_NULL, _LIST_0, _LIST_8 = 0x40, 0x45, 0xC0
_unpack_size = struct.Struct(">I").unpack_from


def _sent(value: Any, data: bytes, position: int) -> Composite:
    position = _behind(data, position + 1)  # the constructor 0x00, the descriptor
    constructor = data[position]
    if constructor == _LIST_0:
        count = 0
    elif constructor == _LIST_8:
        count, position = data[position + 2], position + 3
    else:
        count, position = _unpack_size(data, position + 5)[0], position + 9
    fields: list[tuple[FieldInfo, object]] = []
    for info in type(value).FIELDS[:count]:
        if data[position] != _NULL:
            held = getattr(value, info.attribute)
            fields.append((info, _sent(held, data, position) if is_composite(held) else held))
        position = _behind(data, position)
    return Composite(type(value).XML_NAME, fields)


def _behind(data: bytes, position: int) -> int:
    """The offset behind a value that is known to be well-formed, from its constructors alone (part 1, section
    1.2).
    """
    constructor = data[position]
    while constructor == 0:
        position = _behind(data, position + 1)
        constructor = data[position]
    category = constructor >> 4
    if category < 0xA:
        return position + 1 + _FIXED_WIDTHS[category]
    if category & 1:
        return position + 5 + int(_unpack_size(data, position + 1)[0])
    return position + 2 + data[position + 1]
