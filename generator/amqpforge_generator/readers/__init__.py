"""Readers: one per grammar, each turning a checked element tree into a raw document."""

from __future__ import annotations
