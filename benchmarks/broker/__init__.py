"""Brokers: messages a second from a publisher to a consumer, and what much of everything costs ours."""

from __future__ import annotations

from typing import Final

__all__ = ["QUEUE"]

QUEUE: Final = "bench"
"""The queue that messages go through."""
