"""What codecs of method arguments and content properties share: property flags, and the precise error when
the straight-line code gives up.
"""

from __future__ import annotations

import struct
from typing import NoReturn

from .composite import FieldInfo
from .errors import DecodeError
from .fields import raise_read_error


def raise_arguments_error(
    error: Exception,
    new: object,
    type_name: str,
    infos: tuple[FieldInfo, ...],
    widths: tuple[int, ...],
    data: bytes,
    pos: int,
) -> NoReturn:
    """Raise the DecodeError for arguments that could not be read.

    Args:
        error: what the decoder raised.
        new: the object whose slots the decoder was setting, in the order of ``infos``.
        type_name: the specification's name of the type.
        infos: its fields.
        widths: the octets of each field that is read together with its neighbours (0 for a bit that shares
            the octet of the bit before it); -1 for a field that is read by itself.
        data: the octets.
        pos: where the decoder stood, as :func:`raise_read_error` wants it; for fields that are read together,
            where the first of them starts.
    """
    missing = [
        (info, width) for info, width in zip(infos, widths, strict=True) if not hasattr(new, info.attribute)
    ]
    field = error.field if isinstance(error, DecodeError) and error.type == type_name else None
    if field is None and pos > len(data):
        cut = len(infos) - len(missing) - (not isinstance(error, UnicodeError))
        field = infos[cut].name
    elif field is None and isinstance(error, struct.error):
        for info, width in missing:
            pos += max(width, 0)
            if width < 0 or pos > len(data):
                field = info.name
                break
    if field is not None and (pos > len(data) or isinstance(error, struct.error)):
        raise DecodeError("the data ends inside it", type=type_name, field=field, offset=len(data)) from error
    raise_read_error(error, new, type_name, infos, data, pos)


def raise_properties_error(
    error: Exception,
    new: object,
    type_name: str,
    infos: tuple[FieldInfo, ...],
    data: bytes,
    start: int,
    pos: int,
) -> NoReturn:
    """Raise the DecodeError for content properties that could not be read.

    Args:
        error: what the decoder raised.
        new: the object whose slots the decoder was setting; None is a property that was not read.
        type_name: the specification's name of the type.
        infos: the properties, bits among them.
        data: the octets.
        start: where the property flags start.
        pos: where the decoder stood, as :func:`raise_read_error` wants it.
    """
    try:
        flags, _ = read_flags(data, start, len(infos), type_name)
    except IndexError:
        raise DecodeError("the data ends inside its flags", type=type_name, offset=len(data)) from error
    present = tuple([info for index, info in enumerate(infos) if has_flag(flags, index)])
    for info in present:
        if getattr(new, info.attribute, None) is None and hasattr(new, info.attribute):
            delattr(new, info.attribute)
    raise_read_error(error, new, type_name, present, data, pos)


def has_flag(flags: bytes, index: int) -> bool:
    """Whether the flag of a property is set, by the property's place in its class.

    The flags of 15 properties share a word of two octets, the first from the highest bit; the lowest bit says
    that another word follows.
    """
    word, place = divmod(index, 15)
    octet, bit = divmod(place, 8)
    return bool(flags[2 * word + octet] & 0x80 >> bit)


def read_flags(data: bytes, pos: int, count: int, type_name: str) -> tuple[bytes, int]:
    """The property flags at ``pos`` of a class with ``count`` properties, and the offset behind them.

    There are as many words as so many properties need, at least one; those that are absent are 0.

    Raises:
        DecodeError: there is a flag without a property, or a word behind those that the properties need.
        IndexError: the data ends inside the flags.
    """
    words = max(1, -(-count // 15))
    flags = b""
    while True:
        has_more = data[pos + 1] & 1
        flags += data[pos : pos + 2]
        pos += 2
        if not has_more:
            break
        if len(flags) == 2 * words:
            reason = f"has flags for more than its {count} properties"
            raise DecodeError(reason, type=type_name, offset=pos - 1)
    flags = flags.ljust(2 * words, b"\0")
    for index in range(count, 15 * words):
        if has_flag(flags, index):
            reason = f"has a flag for property {index + 1} of {count}"
            raise DecodeError(reason, type=type_name, offset=pos - 1)
    return flags, pos


def flags_octets(flags: int) -> bytes:
    """The words of property flags, from a number with the first word in its lowest 16 bits, and so on."""
    words = [flags >> shift & 0xFFFE for shift in range(0, max(flags.bit_length(), 1), 16)]
    chained = [word | 1 for word in words[:-1]] + words[-1:]
    return b"".join([word.to_bytes(2, "big") for word in chained])
