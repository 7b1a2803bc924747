"""The sign that input has to wait."""

from __future__ import annotations

__all__ = ["Held"]


class Held(Exception):
    """A frame is legal but early: it is kept, with all behind it, until a step of our own is done."""
