"""The one exception of the capture reader."""

from __future__ import annotations

__all__ = ["CaptureError"]


class CaptureError(Exception):
    """The input cannot be read (any further) as a capture.

    `offset` is the position in the (decompressed) input, in octets, where reading stopped, or None.
    """

    def __init__(self, reason: str, offset: int | None = None) -> None:
        self.reason = reason
        self.offset = offset
        super().__init__(reason if offset is None else f"{reason} (at octet {offset})")
