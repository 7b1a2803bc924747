"""What generated composite codecs share: field facts, and the precise error when the straight-line code
gives up.

The generated code reads and writes without keeping an account of where it is; when something does not fit,
the functions here walk the same octets or values once more, slowly, and name the field.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple, NoReturn

from .errors import BEYOND_STACK, CodecError, DecodeError, EncodeError, shown, truncated

CODEC_FAILURES = (ValueError, TypeError, IndexError, AttributeError, OverflowError, struct.error)
"""What straight-line code raises on unfit input; :class:`CodecError` and the Unicode errors are
ValueErrors.
"""

WRITE_FAILURES = (*CODEC_FAILURES, RecursionError)
"""The same for encoders: values may be nested too deep, or contain themselves."""

NULLS = tuple([b"\x40" * count for count in range(64)])
"""NULLS[n]: n null values in a row, for the fields left out before a present one."""

OCTET = tuple([bytes((value,)) for value in range(256)])
"""OCTET[n]: n as one octet."""


class FieldInfo(NamedTuple):
    """Facts about one field of a composite type.

    Attributes:
        name: the specification's name.
        attribute: the Python attribute.
        type: the specification's name of its type, ``*`` for any.
        primitive: the primitive type at the root of ``type``, ``*`` for any.
        mandatory: a null or absent value is refused.
        multiple: the value is a list, on the wire a single value or an array.
        default: what a null or absent value stands for.
        requires: the archetype that values provide, or None.
    """

    name: str
    attribute: str
    type: str
    primitive: str
    mandatory: bool = False
    multiple: bool = False
    default: Any = None
    requires: str | None = None


def skip(data: bytes, pos: int) -> int:
    """The offset just behind the value that starts at ``pos``, judged by its constructors alone.

    Raises:
        DecodeError: a constructor belongs to no category, or the data ends first.
    """
    pending = 1
    while pending:
        if pos >= len(data):
            raise truncated(data)
        code = data[pos]
        if code == 0:
            pending, pos = pending + 1, pos + 1
            continue
        category = code >> 4
        width = _SIZE_WIDTH.get(category, 0)
        if width:
            pos += 1 + width + int.from_bytes(data[pos + 1 : pos + 1 + width], "big")
        elif category in _FIXED_WIDTH:
            pos += 1 + _FIXED_WIDTH[category]
        else:
            raise DecodeError(f"no type has the constructor 0x{code:02x}", offset=pos)
        pending -= 1
    if pos > len(data):
        raise truncated(data)
    return pos


_FIXED_WIDTH = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}
_SIZE_WIDTH = {0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4}


def list_bounds(
    data: bytes, pos: int, type_name: str, infos: tuple[FieldInfo, ...], least: int
) -> tuple[int, int, int]:
    """Where the fields of the list at ``pos`` start and end, and how many there are.

    Raises:
        DecodeError: it is no list, it ends behind the data, it has more fields than ``infos`` or fewer than
            ``least``.
    """
    code = data[pos]
    if code == 0x45:
        start, end, count = pos + 1, pos + 1, 0
    elif code == 0xC0:
        start, end, count = pos + 3, pos + 2 + data[pos + 1], data[pos + 2]
    elif code == 0xD0:
        start = pos + 9
        end = pos + 5 + int.from_bytes(data[pos + 1 : pos + 5], "big")
        count = int.from_bytes(data[pos + 5 : start], "big")
    else:
        raise DecodeError(
            f"its fields are not in a list (constructor 0x{code:02x})", type=type_name, offset=pos
        )
    if end > len(data) or start > end:
        reason = f"its list claims to end at octet {end}, the data ends at {len(data)}"
        raise DecodeError(reason, type=type_name, offset=pos)
    if count > len(infos):
        reason = f"has {count} fields, at most {len(infos)} are known"
        raise DecodeError(reason, type=type_name, offset=pos)
    if count < least:
        absent = next(info for info in infos[count:] if info.mandatory)
        raise DecodeError("is mandatory but absent", type=type_name, field=absent.name, offset=end)
    return start, end, count


def too_long(value: bytes | str, most: int, type_name: str, field: str, end: int) -> DecodeError:
    """The error for a value, in front of ``end``, of more octets than its type allows."""
    reason = f"holds at most {most} octets, not {len(value)}"
    return DecodeError(reason, type=type_name, field=field, offset=end - len(value))


def _locate(
    type_name: str, infos: tuple[FieldInfo, ...], data: bytes, start: int, end: int, count: int, until: int
) -> tuple[int, int]:
    """Index and offset of the field at which a decoder that stands at ``until`` failed.

    Raises:
        DecodeError: a field before it is malformed or runs past the end of the list, so it is the one to
            blame.
    """
    at = start
    for index in range(min(count, len(infos))):
        if at >= until:
            return index, at
        name = infos[index].name
        try:
            behind = skip(data, at)
        except DecodeError as error:
            raise DecodeError(error.reason, type=type_name, field=name, offset=error.offset) from None
        if behind > end:
            raise DecodeError(f"runs past the end of its {type_name}", type=type_name, field=name, offset=at)
        if behind > until:
            return index, at
        at = behind
    return count, at


def raise_decode_error(
    error: Exception,
    type_name: str,
    infos: tuple[FieldInfo, ...],
    data: bytes,
    start: int,
    end: int,
    count: int,
    pos: int,
) -> NoReturn:
    """Raise the DecodeError for a composite whose straight-line decoder failed.

    Args:
        error: what the decoder raised.
        type_name: the specification's name of the composite.
        infos: its fields.
        data: the octets.
        start: offset of the first field.
        end: offset behind the last field, from the list's size.
        count: the list's count.
        pos: where the decoder stood: the start of the field that failed.

    An ``end`` of 0 says that not even the list's size could be read.
    """
    if isinstance(error, CodecError) and (error.field is not None or error.type == type_name):
        raise error
    if end == 0:
        raise DecodeError("the data ends before its list does", type=type_name, offset=len(data)) from error
    index, at = _locate(type_name, infos, data, start, end, count, pos)
    if index >= count:
        raise_misfit(type_name, infos, data, start, end, count)
    info = infos[index]
    reason, offset = _reason(error), at
    if info.mandatory and data[at : at + 1] == NULLS[1]:
        reason = "is mandatory but absent"
    elif isinstance(error, (IndexError, struct.error)):
        reason = f"runs past the end of its {type_name}"
    elif isinstance(error, CodecError) and error.offset is not None:
        offset = error.offset
    raise DecodeError(reason, type=type_name, field=info.name, offset=offset) from error


def raise_misfit(
    type_name: str, infos: tuple[FieldInfo, ...], data: bytes, start: int, end: int, count: int
) -> NoReturn:
    """Raise the DecodeError for a composite whose fields do not end where its list does."""
    _, at = _locate(type_name, infos, data, start, end, count, end + 1)
    reason = f"its {count} fields take {at - start} of the {end - start} octets of its list"
    raise DecodeError(reason, type=type_name, offset=at)


def raise_value_error(error: Exception, type_name: str, pos: int) -> NoReturn:
    """Raise the DecodeError for a described value, at ``pos`` behind its descriptor, that could not be
    read.
    """
    if isinstance(error, CodecError) and error.field is not None:
        raise error
    offset = error.offset if isinstance(error, CodecError) and error.offset is not None else pos
    reason = (
        "the data ends inside its value" if isinstance(error, (IndexError, struct.error)) else _reason(error)
    )
    raise DecodeError(reason, type=type_name, offset=offset) from error


def _reason(error: Exception) -> str:
    """What went wrong, preceded by the inner type it went wrong in."""
    if not isinstance(error, CodecError):
        return str(error) or type(error).__name__
    return f"{error.type}: {error.reason}" if error.type else error.reason


def write_failure(error: Exception, held: object, kind: str) -> str:
    """Why a value could not be written as what a field wants, such as ``a value of type uint``."""
    if isinstance(error, RecursionError):
        return BEYOND_STACK
    return _reason(error) if isinstance(error, CodecError) else f"{shown(held)} is not {kind}"


def raise_encode_error(
    error: Exception, value: Any, type_name: str, infos: tuple[FieldInfo, ...], count: int
) -> NoReturn:
    """Raise the EncodeError for a composite whose straight-line encoder failed after ``count`` fields.

    The field to blame is the first from ``count`` on that holds anything to write.
    """
    if isinstance(error, CodecError) and error.field is not None:
        raise error
    for info in infos[count:]:
        held = getattr(value, info.attribute, None)
        if held is None and info.mandatory:
            raise EncodeError("is mandatory but None", type=type_name, field=info.name) from error
        if info.mandatory or (held is not info.default and held != info.default):
            kind = (
                f"a list of {info.primitive} values" if info.multiple else f"a value of type {info.primitive}"
            )
            raise EncodeError(write_failure(error, held, kind), type=type_name, field=info.name) from error
    raise EncodeError(_reason(error), type=type_name) from error
