"""What codecs of fields in a row share: values from a list, assertions, and the precise error when the
straight-line code gives up.

In the class/method and control/command grammars the fields of a type stand one behind the other without
constructors. Generated decoders set the slots of a new object in the order of the fields, and look at nothing
that costs time; when something does not fit, the functions here find the field by the slots, or by encoding
the values once more, one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from .composite import WRITE_FAILURES, FieldInfo, write_failure
from .errors import CodecError, DecodeError, EncodeError, shown

E = TypeVar("E")


class Choices(dict[Any, E]):
    """What the legal values of a type stand for; a value that is none of them is a CodecError."""

    def __init__(self, name: str, members: Mapping[Any, E]) -> None:
        super().__init__(members)
        self.name = name

    def __missing__(self, value: object) -> E:
        expected = ", ".join([repr(known) if isinstance(known, str) else str(known) for known in self])
        raise CodecError(f"{shown(value)} is not a {self.name}; expected {expected}")


def broken_rule(error: type[CodecError], type_name: str, field: str, rule: str, value: object) -> CodecError:
    """The ``error`` for a value that breaks what the specification asserts of its field.

    ``notnull`` asks for something to be there: a text, octets, a table or a set is not empty. A number or bit
    is always there, so nothing is checked. Patterns ask nothing of an empty text, which is null. ``length``
    is that of the Python value: characters, octets or entries.

    Args:
        error: DecodeError or EncodeError.
        type_name: the specification's name of the operation or struct.
        field: the specification's name of the field.
        rule: the assertion, such as ``"length 127"``.
        value: what is in the field.
    """
    return error(f"{shown(value)} breaks the rule {rule!r}", type=type_name, field=field)


def missized(type_name: str, start: int, end: int, stop: int) -> DecodeError:
    """The error for a type whose fields go from ``start`` to ``end``, and by its size to ``stop``."""
    reason = f"its fields take {end - start} octets, its size says {stop - start}"
    return DecodeError(reason, type=type_name, offset=min(end, stop))


def wrong_code(type_name: str, code: int, data: bytes, pos: int) -> DecodeError:
    """The error for a struct with another code than its own, or none, at ``pos``."""
    if pos + 2 > len(data):
        return DecodeError("the data ends inside its code", type=type_name, offset=len(data))
    found = int.from_bytes(data[pos : pos + 2], "big")
    return DecodeError(f"has the code 0x{found:04x}, not 0x{code:04x}", type=type_name, offset=pos)


def raise_read_error(
    error: Exception, new: object, type_name: str, infos: tuple[FieldInfo, ...], data: bytes, pos: int
) -> NoReturn:
    """Raise the DecodeError for a type whose decoder failed.

    Args:
        error: what the decoder raised.
        new: the object whose slots the decoder was setting, in the order of ``infos``.
        type_name: the specification's name of the type.
        infos: its fields.
        data: the octets.
        pos: where the decoder stood: where the first field without a value starts; behind it, if its octets
            could be cut out but are no such value; or beyond the data, if the field in front was cut short.
    """
    count = _fields_set(new, infos)
    if pos > len(data):
        field = error.field if isinstance(error, CodecError) and error.type == type_name else None
        if field is None:
            field = infos[count].name if isinstance(error, UnicodeError) else _last_cut(new, infos[:count])
        raise DecodeError("the data ends inside it", type=type_name, field=field, offset=len(data)) from error
    if isinstance(error, CodecError) and error.field is not None:
        raise _as_decode_error(error, pos) from error
    field = infos[count].name if count < len(infos) else None
    reason, offset = read_failure(error, data, pos)
    raise DecodeError(reason, type=type_name, field=field, offset=offset) from error


def _as_decode_error(error: CodecError, pos: int) -> CodecError:
    """The error of an inner type, or of an assertion, with an offset."""
    offset = pos if error.offset is None else error.offset
    return DecodeError(error.reason, type=error.type, field=error.field, offset=offset)


def _fields_set(new: object, infos: tuple[FieldInfo, ...]) -> int:
    """How many fields in a row, from the first on, have a value."""
    for index, info in enumerate(infos):
        if not hasattr(new, info.attribute):
            return index
    return len(infos)


def _last_cut(new: object, infos: tuple[FieldInfo, ...]) -> str | None:
    """The last of the fields that was read as so many octets of the data, if there are as many or not."""
    found: str | None = None
    for info in infos:
        held: object = getattr(new, info.attribute)
        if isinstance(held, (str, bytes)) and held is not info.default:
            found = info.name
    return found


def read_failure(error: Exception, data: bytes, pos: int) -> tuple[str, int]:
    """What is wrong with the value at ``pos`` that could not be read, and the offset to blame."""
    if isinstance(error, CodecError):
        reason = f"{error.type}: {error.reason}" if error.type else error.reason
        return reason, pos if error.offset is None else error.offset
    if isinstance(error, (IndexError, struct.error)):
        return "the data ends inside it", len(data)
    if isinstance(error, UnicodeDecodeError):
        return f"is not {error.encoding.upper()}", pos - len(error.object) + error.start
    return str(error) or type(error).__name__, pos


def raise_write_error(
    error: Exception,
    value: object,
    type_name: str,
    infos: tuple[FieldInfo, ...],
    encoders: Mapping[str, Callable[[Any], bytes]],
) -> NoReturn:
    """Raise the EncodeError for a value whose encoder failed: with the first field that none can encode.

    Args:
        error: what the encoder raised.
        value: the object with the fields.
        type_name: the specification's name of its type.
        infos: its fields.
        encoders: what encodes one value, by the name of its type or, failing that, its primitive.
    """
    if isinstance(error, CodecError) and error.field is not None:
        raise error
    for info in infos:
        held = getattr(value, info.attribute, None)
        if held is None and _may_be_none(value, info):
            continue
        if held is None:
            raise EncodeError("is required but None", type=type_name, field=info.name) from error
        encode = encoders[info.type] if info.type in encoders else encoders[info.primitive]
        try:
            if info.multiple and isinstance(held, (str, bytes, Mapping)):
                raise TypeError
            for item in held if info.multiple else (held,):
                encode(item)
        except WRITE_FAILURES as failure:
            kind = (
                f"a list of values of type {info.type}" if info.multiple else f"a value of type {info.type}"
            )
            reason = write_failure(failure, held, kind)
            raise EncodeError(reason, type=type_name, field=info.name) from failure
    reason = error.reason if isinstance(error, CodecError) else str(error) or type(error).__name__
    raise EncodeError(reason, type=type_name) from error


def _may_be_none(value: object, info: FieldInfo) -> bool:
    """Whether None is what an optional field without a value holds; others hold a default, as bits do."""
    members: Mapping[str, Any] = getattr(value, "__dataclass_fields__", {})
    return not info.mandatory and (info.attribute not in members or members[info.attribute].default is None)
