"""Octets with look-ahead, from any readable: the only buffer between a file and the packet readers.

A reader is a function `read(limit) -> bytes` that gives at most `limit` octets and b"" at the end; `follow`
and `gunzip` wrap one reader into another. Memory is bounded by the largest piece a caller asks for plus one
chunk.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from amqpforge.capture.errors import CaptureError

__all__ = ["CHUNK", "Read", "Remark", "Source", "follow", "gunzip", "is_gzip"]

CHUNK = 256 * 1024
"""Octets asked for at a time."""

Read = Callable[[int], bytes]
Remark = Callable[[str], None]
"""Receives a sentence about something odd that did not stop the reading."""

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 31  # zlib: the largest window, with a gzip header and trailer


class Source:
    """A window of octets over a reader.

    Callers parse `data` in place with a position of their own, and call `more` when they need octets beyond
    its end; that keeps the per-packet cost at a few struct calls. `start` is the offset of `data[0]` in the
    input.
    """

    __slots__ = ("_read", "data", "start")

    def __init__(self, read: Read) -> None:
        self._read = read
        self.data = b""
        self.start = 0

    def more(self, position: int, wanted: int) -> bool:
        """Drop what precedes `position` and read on until `wanted` octets are there.

        Afterwards the old `position` is index 0. False if the input ends before; what there is stays in
        `data`.
        """
        pieces = [self.data[position:]]
        held = len(pieces[0])
        self.start += position
        while held < wanted:
            piece = self._read(CHUNK)
            if not piece:
                break
            pieces.append(piece)
            held += len(piece)
        self.data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return held >= wanted

    def peek(self, wanted: int) -> bytes:
        """At most `wanted` octets from the start of the window, fewer only at the end of the input."""
        if len(self.data) < wanted:
            self.more(0, wanted)
        return self.data[:wanted]

    def read(self, limit: int) -> bytes:
        """The reader for who wants a plain flow of octets: the window first, then what follows it."""
        if not self.data:
            piece = self._read(limit)
            self.start += len(piece)
            return piece
        piece, self.data = self.data[:limit], self.data[limit:]
        self.start += len(piece)
        return piece


def follow(read: Read, wait: Callable[[], bool]) -> Read:
    """A reader that at the end calls `wait` and tries again, until `wait` says False."""

    def read_or_wait(limit: int) -> bytes:
        while not (piece := read(limit)):
            if not wait():
                break
        return piece

    return read_or_wait


def is_gzip(head: bytes) -> bool:
    """Whether these first octets open a gzip member (RFC 1952 section 2.3.1)."""
    return head.startswith(_GZIP_MAGIC)


def gunzip(read: Read, remark: Remark) -> Read:
    """A reader of what the gzip members in `read` hold (RFC 1952), a bounded piece at a time.

    An input that ends inside a member, or goes on with something else after one, is remarked on, not refused:
    what was there is delivered. Raises CaptureError where the compressed octets are damaged.
    """
    return _Gunzip(read, remark).read


class _Gunzip:
    __slots__ = ("_compressed", "_done", "_member", "_read", "_remark")

    def __init__(self, read: Read, remark: Remark) -> None:
        self._read = read
        self._remark = remark
        self._member = zlib.decompressobj(_GZIP_WINDOW)
        self._compressed = b""
        self._done = False

    def read(self, limit: int) -> bytes:
        while not self._done:
            if self._member.eof and not self._next_member():
                break
            if not self._compressed:
                self._compressed = self._read(CHUNK)
                if not self._compressed:
                    self._done = True
                    self._remark("the gzip data ends before its end mark: what was there is read")
                    break
            try:
                piece = self._member.decompress(self._compressed, limit)
            except zlib.error as error:
                raise CaptureError(f"damaged gzip data: {error}") from error
            self._compressed = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if piece:
                return piece
        return b""

    def _next_member(self) -> bool:
        """Go on after a finished member; padding with zeros between members is legal in practice."""
        while True:
            self._compressed = self._compressed.lstrip(b"\x00")
            if len(self._compressed) >= len(_GZIP_MAGIC):
                break
            piece = self._read(CHUNK)
            if not piece:
                break
            self._compressed += piece
        if is_gzip(self._compressed):
            self._member = zlib.decompressobj(_GZIP_WINDOW)
            return True
        if self._compressed:
            self._remark("what follows the gzip data is not gzip: ignored")
        self._done = True
        return False
