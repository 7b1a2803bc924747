"""Octets written out as text: plain hexadecimal digits, or the layout of the usual dump tools.

Plain digits may be grouped with blanks, line ends, colons or commas, prefixed with 0x, and commented with #.
Of a dump, the offset in front (ended by a colon, or followed by a column of text between bars) and the text
behind are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from amqpforge.capture.errors import CaptureError
from amqpforge.capture.source import CHUNK, Read

__all__ = ["is_hex_text", "unhex"]

_LONGEST_LINE = 64 * 1024 * 1024

_COLON_DUMP = re.compile(rb"[0-9A-Fa-f]{4,16}:[ \t]+((?:[0-9A-Fa-f]{2,16} ?)+)(?:[ \t].*)?")
_BARS_DUMP = re.compile(rb"[0-9A-Fa-f]{8,16}[ \t]+((?:[0-9A-Fa-f]{2}[ \t]+)*)\|.*\|")
_BARS_DUMP_END = re.compile(rb"[0-9A-Fa-f]{8,16}")
_PREFIX = re.compile(rb"(?<![0-9A-Fa-f])0[xX]")
_SEPARATORS = b" \t\r\n\x0b\x0c:,"
_DIGITS = frozenset(b"0123456789abcdefABCDEF")


class _Layout:
    """Takes lines apart; remembers whether they are a dump with bars, which ends with a line of an offset
    alone.
    """

    __slots__ = ("_bars",)

    def __init__(self) -> None:
        self._bars = False

    def digits(self, line: bytes) -> bytes | None:
        """The hexadecimal digits of a line, or None if it is not text of this kind."""
        line = line.rstrip()
        if match := _COLON_DUMP.fullmatch(line):
            found = match[1]
        elif match := _BARS_DUMP.fullmatch(line):
            self._bars = True
            found = match[1]
        elif self._bars and _BARS_DUMP_END.fullmatch(line):
            found = b""
        else:
            found = _PREFIX.sub(b"", line.partition(b"#")[0])
        found = found.translate(None, _SEPARATORS)
        return found if _DIGITS.issuperset(found) else None


def is_hex_text(head: bytes) -> bool:
    """Whether these first octets of an input are text of this kind; they may end inside a line."""
    lines = head.split(b"\n")
    if len(lines) > 1:
        lines.pop()  # it may be cut
    layout = _Layout()
    found = [layout.digits(line) for line in lines]
    return None not in found and any(found)


def unhex(read: Read) -> Read:
    """A reader of the octets that the text in `read` stands for.

    Raises CaptureError, naming the line, for anything that is not a digit, and for an odd number of digits at
    the end.
    """
    pieces = _octets(read)

    def read_octets(limit: int) -> bytes:
        del limit  # a piece is never longer than what one chunk of text stands for
        return next(pieces, b"")

    return read_octets


def _octets(read: Read) -> Iterator[bytes]:
    digits = b""
    number = 0
    layout = _Layout()
    for number, line in enumerate(_lines(read), 1):
        found = layout.digits(line)
        if found is None:
            raise CaptureError(f"line {number} is not hexadecimal text")
        digits += found
        even = len(digits) & ~1
        if even:
            yield bytes.fromhex(digits[:even].decode("ascii"))
            digits = digits[even:]
    if digits:
        raise CaptureError(f"line {number} ends with half an octet")


def _lines(read: Read) -> Iterator[bytes]:
    rest = b""
    while piece := read(CHUNK):
        lines = (rest + piece).split(b"\n")
        rest = lines.pop()
        if len(rest) > _LONGEST_LINE:
            raise CaptureError(f"a line of more than {_LONGEST_LINE} characters of hexadecimal text")
        yield from lines
    if rest:
        yield rest
