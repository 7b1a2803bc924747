"""Where the sections of a message are, found by their sizes alone (section 3.2)."""

from __future__ import annotations

from typing import Final

from amqpforge_protocol.amqp_1_0 import (
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Data,
    DecodeError,
    DeliveryAnnotations,
    Footer,
    Header,
    MessageAnnotations,
    Properties,
    Symbol,
    ULong,
)
from amqpforge_protocol.amqp_1_0.types import FORM_WIDTHS, read_descriptor

__all__ = [
    "APPLICATION_PROPERTIES",
    "HEADER",
    "MESSAGE_ANNOTATIONS",
    "PROPERTIES",
    "Place",
    "fields_of",
    "sections_of",
]

HEADER: Final[int] = Header.DESCRIPTOR
MESSAGE_ANNOTATIONS: Final[int] = MessageAnnotations.DESCRIPTOR
PROPERTIES: Final[int] = Properties.DESCRIPTOR
APPLICATION_PROPERTIES: Final[int] = ApplicationProperties.DESCRIPTOR

Place = tuple[int, int, int, int]
"""The descriptor of a section, where it begins, where its value does, and where it ends."""

_FIRST_WITH_SIZE: Final = 0xA0
_LISTS: Final = frozenset((0x45, 0xC0, 0xD0))
_MAPS: Final = frozenset((0xC1, 0xD1))
_OCTETS: Final = frozenset((0xA0, 0xB0))
_SHORT: Final = frozenset((0xA0, 0xC0, 0xC1))
"""Constructors of those whose size is one octet."""
_ANYTHING: Final = frozenset((0x00, *FORM_WIDTHS))
_BODY_RANK: Final = 5
_KINDS: Final = (
    (Header, 0, _LISTS),
    (DeliveryAnnotations, 1, _MAPS),
    (MessageAnnotations, 2, _MAPS),
    (Properties, 3, _LISTS),
    (ApplicationProperties, 4, _MAPS),
    (Data, _BODY_RANK, _OCTETS),
    (AmqpSequence, _BODY_RANK, _LISTS),
    (AmqpValue, _BODY_RANK, _ANYTHING),
    (Footer, 6, _MAPS),
)
_ORDER: Final = {int(kind.DESCRIPTOR): (rank, constructors) for kind, rank, constructors in _KINDS}
_BY_SYMBOL: Final = {kind.SYMBOL: int(kind.DESCRIPTOR) for kind, _, _ in _KINDS}
_REPEATED: Final = frozenset((int(Data.DESCRIPTOR), int(AmqpSequence.DESCRIPTOR)))


def sections_of(octets: bytes) -> list[Place]:
    """The sections of a message, none of them decoded.

    Raises:
        DecodeError: the octets are not sections, or these are not in their order.
    """
    found: list[Place] = []
    pos, size, last, last_rank = 0, len(octets), -1, -1
    try:
        while pos < size:
            start = pos
            if octets[pos : pos + 2] == b"\x00\x53":
                code, pos = octets[pos + 2], pos + 3
            else:
                code, pos = _unusual(octets, pos)
            known = _ORDER.get(code)
            if known is None:
                raise DecodeError("is not known", type="section", offset=start)
            rank, constructors = known
            if rank <= last_rank and not (code == last and code in _REPEATED):
                raise DecodeError("is repeated or out of order", type="section", offset=start)
            constructor = octets[pos]
            if constructor not in constructors:
                raise DecodeError(
                    f"has a value of the wrong type, 0x{constructor:02x}", type="section", offset=pos
                )
            if constructor in _SHORT:
                end = pos + 2 + octets[pos + 1]
            else:
                end = _behind(octets, pos)
            if end > size:
                break
            found.append((code, start, pos, end))
            pos, last, last_rank = end, code, rank
        else:
            return found
    except IndexError:
        pass
    raise DecodeError("the octets end within it", type="section", offset=size)


def _unusual(octets: bytes, pos: int) -> tuple[int, int]:
    """The descriptor of a section that is not in its short form, and where the value begins."""
    if octets[pos] != 0x00:
        raise DecodeError(
            "a message consists of sections, which are described values", type="message", offset=pos
        )
    try:
        descriptor, value = read_descriptor(octets, pos + 1, [8, 1, False])
    except ValueError as error:
        raise DecodeError("has a malformed descriptor", type="section", offset=pos + 1) from error
    if type(descriptor) is ULong:
        return int(descriptor), value
    return _BY_SYMBOL.get(descriptor, -1) if type(descriptor) is Symbol else -1, value


def _behind(octets: bytes, pos: int) -> int:
    """The offset behind the value at ``pos``, which may be beyond the octets."""
    wanted = 1
    while wanted:
        code = octets[pos]
        pos += 1
        if code == 0x00:  # a descriptor, and what it describes
            wanted += 1
            continue
        width = FORM_WIDTHS.get(code)
        if width is None:
            raise DecodeError(f"no type has the constructor 0x{code:02x}", type="section", offset=pos - 1)
        behind = pos + width
        if code >= _FIRST_WITH_SIZE:
            behind += int.from_bytes(octets[pos:behind], "big")
        pos = behind
        wanted -= 1
    return pos


def fields_of(octets: bytes, pos: int) -> tuple[int, int]:
    """Where the first field of the list at ``pos`` is, and how many fields it has."""
    code = octets[pos]
    if code == 0xC0:
        return pos + 3, octets[pos + 2]
    if code == 0xD0:
        return pos + 9, int.from_bytes(octets[pos + 5 : pos + 9], "big")
    return pos + 1, 0
