"""A thing to decode and to encode, as octets and as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Composite:
    """A described list inside another: its descriptor code, and the fields that it carries by name."""

    code: int
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to decode, to encode, or both.

    The octets are put together by hand, so that no stack under test has made them. The values are plain
    Python, each field that the octets carry by its name in the specification; a stack's result counts only if
    it holds them all.

    Attributes:
        name: what it is called in tables; no two cases of the benchmark share it.
        octets: its encoding.
        values: the fields it carries, by their names in the specification; sections of a message likewise.
        kind: what the targets go by, such as ``performative`` or ``message``.
    """

    name: str
    octets: bytes
    values: dict[str, Any]
    kind: str

    @property
    def payload(self) -> bytes | None:
        """What follows the performative, if anything may."""
        return self.values.get("payload")

    def values_of(self, octets: bytes) -> dict[str, Any]:
        """What octets that have to be those of the case stand for: its values, or none of them."""
        return self.values if octets == self.octets else {"octets": octets.hex()}
