"""The sections of a message that comes in pieces: those in front of the body whole, the data as it comes."""

from __future__ import annotations

from typing import Final

from amqpforge.errors import LocalError
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import AmqpSequence, AmqpValue, Data, DecodeError, Footer
from amqpforge_protocol.amqp_1_0.types import FORM_WIDTHS

__all__ = ["DataReader"]

_MOST_HEAD: Final = 1 << 20
"""Octets that the sections in front of the body, or the footer, may have."""
_SIZED: Final = 0xA0  # From this constructor up a value begins with its size (section 1.2).
_DATA: Final = frozenset((Data.DESCRIPTOR, Data.SYMBOL))
_OTHER: Final = frozenset(
    (AmqpValue.DESCRIPTOR, AmqpValue.SYMBOL, AmqpSequence.DESCRIPTOR, AmqpSequence.SYMBOL)
)
_FOOTER: Final = frozenset((Footer.DESCRIPTOR, Footer.SYMBOL))


class DataReader:
    """Takes the octets of one message, cut anywhere, and gives those of its data sections.

    Attributes:
        is_head_whole: whether the body, or the end, has begun.
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self._head = bytearray()
        self._data: list[bytes] = []
        self._left = 0  # octets that the data section at hand still lacks
        self._is_other = False
        self._message: Message | None = None
        self.is_head_whole = False

    @property
    def head(self) -> Message:
        """A message of the sections in front of the body, as far as they have come."""
        if self._message is None:
            message = Message.from_octets(bytes(self._head) + Data(b"").encode())
            if not self.is_head_whole:
                return message
            self._message = message
        return self._message

    def feed(self, octets: bytes) -> None:
        """Take the next octets.

        Raises:
            DecodeError: they are not sections, or those in front of the body are too large.
        """
        if self._left and not self._held:
            piece = octets[: self._left]
            self._data.append(piece)
            self._left -= len(piece)
            octets = octets[len(piece) :]
        self._held += octets
        while self._held and not self._is_other and self._advance():
            pass

    def take(self) -> bytes:
        """The data that has come since the last call.

        Raises:
            LocalError: the body is not made of data sections.
        """
        if self._is_other:
            raise LocalError("the body of the message is not made of data sections: read its octets")
        data = b"".join(self._data)
        self._data.clear()
        return data

    def end(self) -> None:
        """The message is complete.

        Raises:
            DecodeError: it ends inside a section.
        """
        self.is_head_whole = True
        if (self._held or self._left) and not self._is_other:
            raise DecodeError("the message ends inside a section", type="section")

    def _advance(self) -> bool:
        """Deal with the next section, or piece of one; returns False if more octets are needed."""
        held = self._held
        if self._left:
            piece = bytes(held[: self._left])
            del held[: len(piece)]
            self._data.append(piece)
            self._left -= len(piece)
            return True
        begun = _begin(held)
        if begun is None:
            return False
        descriptor, start, size = begun
        if descriptor in _OTHER:
            self.is_head_whole = self._is_other = True
            return False
        if descriptor in _DATA:
            self.is_head_whole = True
            del held[:start]
            self._left = size
            return True
        if start + size > _MOST_HEAD or len(self._head) + start + size > _MOST_HEAD:
            raise DecodeError(f"a section has more than {_MOST_HEAD} octets", type="section")
        if len(held) < start + size:
            return False
        if descriptor in _FOOTER:
            self.is_head_whole = True
        else:
            self._head += held[: start + size]
        del held[: start + size]
        return True


def _begin(held: bytearray) -> tuple[int | str, int, int] | None:
    """The descriptor of the section that begins here, where its content begins, and how long that is.

    None if more octets are needed.
    """
    found = _descriptor(held)
    if found is None:
        return None
    descriptor, position = found
    if position >= len(held):
        return None
    code = held[position]
    if descriptor in _OTHER:
        return descriptor, position, 0
    width = FORM_WIDTHS.get(code)
    if width is None:
        raise DecodeError(f"no section has the constructor 0x{code:02x}", type="section")
    start = position + 1 + width
    if code < _SIZED:
        return descriptor, position + 1, width
    if start > len(held):
        return None
    return descriptor, start, int.from_bytes(held[position + 1 : start], "big")


def _descriptor(held: bytearray) -> tuple[int | str, int] | None:
    """The descriptor, and the position behind it."""
    if held[0] != 0x00:
        raise DecodeError(f"a section begins with 0x00, not 0x{held[0]:02x}", type="section")
    if len(held) < 3:
        return None
    code = held[1]
    if code == 0x53:
        return held[2], 3
    if code == 0x80:
        return (int.from_bytes(held[2:10], "big"), 10) if len(held) >= 10 else None
    if code == 0xA3:
        end = 3 + held[2]
        return (held[3:end].decode("ascii", "replace"), end) if len(held) >= end else None
    raise DecodeError(f"the descriptor of a section is of the form 0x{code:02x}", type="section")
