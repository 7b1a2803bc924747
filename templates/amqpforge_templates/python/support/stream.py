"""Streams of octets cut into items, each as large as its first octets say: what all frame readers share."""

from __future__ import annotations

from .errors import DecodeError


class ItemReader:
    """Cuts a stream of octets, however it is chunked, into items; a subclass says how large each is.

    Attributes:
        max_frame_size: the largest item that is a frame, in octets; may be raised or lowered between calls.
            No more than one such frame is ever held back.
        offset: octets of the stream that were handed out so far.
    """

    __slots__ = ("_held", "_least", "max_frame_size", "offset")

    def __init__(self, max_frame_size: int, least: int) -> None:
        """``least``: octets that must be there before the size of an item is asked for, at least 1."""
        self.max_frame_size = max_frame_size
        self.offset = 0
        self._held = bytearray()
        self._least = least

    @property
    def pending(self) -> int:
        """Octets held back because their item is not complete."""
        return len(self._held)

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """Take the next octets of the stream; return the items they complete, in order.

        Raises:
            DecodeError: the next item is malformed or larger than ``max_frame_size``; the offset counts from
                the start of the stream, which cannot be read on. Items before it are returned first: the call
                after raises.
        """
        items: list[bytes] = []
        held, pos, least = self._held, 0, self._least
        octets: bytes | bytearray = held
        if held or type(data) is not bytes:
            held += data
        else:
            octets = data  # What comes whole is not copied twice.
        end = len(octets)
        while end - pos >= least:
            try:
                size = self._item_size(octets, pos)
            except DecodeError:
                if items:
                    break
                if octets is not held:
                    held += octets
                raise
            if end - pos < size:
                break
            items.append(bytes(octets[pos : pos + size]))
            pos += size
            self.offset += size
        if octets is held:
            del held[:pos]
        else:
            held += octets[pos:]
        return items

    def _item_size(self, held: bytes | bytearray, pos: int) -> int:
        """Octets of the item at ``pos``, which is ``offset`` in the stream; it need not be complete.

        Raises:
            DecodeError: what is there of the item is malformed, or it is too large.
        """
        raise NotImplementedError

    def _bounded(self, size: int) -> int:
        """The size of a frame, after a check that it is within ``max_frame_size``.

        Raises:
            DecodeError: it is larger.
        """
        if size > self.max_frame_size:
            reason = f"a frame of {size} octets exceeds the maximum of {self.max_frame_size}"
            raise DecodeError(reason, offset=self.offset)
        return size
