"""Positions in a message, as section and octet, to and from octets of the whole payload (section 3.4.1)."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from amqpforge_protocol.amqp_1_0 import DEFAULT_LIMITS, DecodeError, Limits, Received
from amqpforge_protocol.amqp_1_0.types import FORM_WIDTHS

__all__ = ["Sections"]

_FIRST_WITH_SIZE = 0xA0
"""From this constructor up values begin with their size; below it their width is fixed (section 1.2)."""


class Sections:
    """Where the sections of one message begin.

    The octets may come in pieces of any length, cut anywhere. They are passed over by the widths and sizes
    that values begin with: nothing is decoded and none of them is kept, so that positions are known of a
    message that is no longer at hand.

    Attributes:
        size: the octets that came so far.
    """

    __slots__ = ("_cut", "_limits", "_next", "_starts", "_values", "size")

    def __init__(self, octets: bytes = b"", *, limits: Limits = DEFAULT_LIMITS) -> None:
        """``limits`` bound the number of sections, ``elements``, and the nesting of descriptors, ``depth``.

        Raises:
            DecodeError: as :meth:`feed`.
        """
        self.size = 0
        self._limits = limits
        self._starts: array[int] = array("Q")
        self._next = 0  # where the constructor of the next value is, or will be
        self._values = 0  # how many values the section at hand still lacks
        self._cut = b""  # a constructor whose size has not come whole
        self.feed(octets)

    def __len__(self) -> int:
        """How many sections have begun."""
        return len(self._starts)

    @property
    def is_whole(self) -> bool:
        """Whether the octets so far end where a section ends, or where the first one begins."""
        return self._values == 0 and self._next == self.size

    def feed(self, octets: bytes) -> None:
        """Pass over the next octets of the message.

        Raises:
            DecodeError: they are not sections, or exceed a limit; ``offset`` counts from the start of the
                message. The object is of no more use then.
        """
        data = self._cut + octets if self._cut else octets
        base = self.size - len(self._cut)
        self.size += len(octets)
        self._cut = b""
        position = self._next - base
        while position < len(data):
            behind = self._pass(data, position, base)
            if not behind:
                self._cut = data[position:]
                break
            position = behind
        self._next = base + position

    def _pass(self, data: bytes, position: int, base: int) -> int:
        """Pass over a value, or a described one's 0x00: the offset behind, 0 if its size is cut short."""
        if self._values == 0:
            self._begin(data[position], base + position)
        code = data[position]
        if code == 0x00:  # two values follow that count as one: a descriptor and what it describes
            self._values += 1
            if self._values > self._limits.depth + 1:
                raise _wrong(
                    f"has more than {self._limits.depth} descriptors within each other", base + position
                )
            return position + 1
        width = FORM_WIDTHS.get(code)
        if width is None:
            raise _wrong(f"no type has the constructor 0x{code:02x}", base + position)
        behind = position + 1 + width
        if code >= _FIRST_WITH_SIZE:
            if behind > len(data):
                return 0
            behind += int.from_bytes(data[position + 1 : behind], "big")
        self._values -= 1
        return behind

    def _begin(self, code: int, offset: int) -> None:
        if code != 0x00:
            raise _wrong(f"begins with 0x{code:02x}; a section is a described value, 0x00", offset)
        if len(self._starts) == self._limits.elements:
            raise _wrong(f"the message has more than {self._limits.elements} sections", offset)
        self._starts.append(offset)
        self._values = 1

    def position(self, offset: int) -> Received:
        """The position of the octet at ``offset``, 0 to ``size``.

        Behind the last octet of a section that is octet 0 of the next one, whether it has begun or not.

        Raises:
            ValueError: the offset is out of this range.
        """
        if not 0 <= offset <= self.size:
            raise ValueError(f"octet {offset} is not among the {self.size} octets of the message")
        if offset == self.size and self.is_whole:
            return Received(section_number=len(self._starts), section_offset=0)
        number = bisect_right(self._starts, offset) - 1
        return Received(section_number=number, section_offset=offset - self._starts[number])

    def offset(self, position: Received) -> int | None:
        """The octets in front of a position; None if it lies beyond what has come, or beyond its section.

        Both names of a boundary are understood: the end of a section, and octet 0 of the next one.
        """
        number, starts = position.section_number, self._starts
        if number >= len(starts):
            is_end = number == len(starts) and position.section_offset == 0 and self.is_whole
            return self.size if is_end else None
        end = starts[number + 1] if number + 1 < len(starts) else self.size
        offset = starts[number] + position.section_offset
        return offset if offset <= end else None


def _wrong(reason: str, offset: int) -> DecodeError:
    return DecodeError(reason, type="section", offset=offset)
