"""Bounds on what one decoding call may cost, whatever a peer claims, and how much it forgives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for one decoding call.

    Attributes:
        depth: how deep compound and described values may nest (at least 0; beyond about 200 the
            interpreter's own recursion limit is nearer).
        elements: how many elements all lists, maps and arrays of the call may hold together, those of zero
            width included. A map entry counts as two; an object that no octet backs, such as an empty list
            in an array, as eight.
        strict: refuse also the four faults that shipping peers are known for and that leave no doubt about
            what is meant: string keys in a map that wants symbols, an empty array without the constructor
            of its elements, sections of a message out of order, and a message without a body.

    Sizes need no bound of their own: each is compared with the octets that remain before anything is
    allocated.
    """

    depth: int = 64
    elements: int = 1_000_000
    strict: bool = False


DEFAULT_LIMITS = Limits()
