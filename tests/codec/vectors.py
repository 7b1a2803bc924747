"""The golden vectors: octets of other implementations, and the values that they stand for.

``build`` makes our Python value of the typed notation (see tests/data/README.md) without asking the codec
under test: floats come from ``struct``, decimals from :mod:`tests.codec.bid`.
"""

from __future__ import annotations

import gzip
import json
import struct
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from amqpforge_protocol import amqp_1_0 as amqp
from amqpforge_protocol.amqp_1_0 import Array, Char, Decimal32, Decimal64, Described, Float, Map, Symbol
from tests.codec import bid

FOLDER = Path(__file__).resolve().parents[1] / "data" / "vectors"

Typed = Mapping[str, Any]
"""A value in the typed notation."""


@dataclass(frozen=True)
class Vector:
    """One encoding of a value by one implementation."""

    name: str
    typed: Typed
    octets: bytes
    encoder: str


def _read(name: str) -> list[dict[str, Any]]:
    path = FOLDER / name
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    rows: list[dict[str, Any]] = json.loads(text)
    return rows


@cache
def primitives() -> dict[str, list[Vector]]:
    """All encodings by the name of their value; rows of one name mean the same value."""
    found: defaultdict[str, list[Vector]] = defaultdict(list)
    for row in _read("primitives.json") + _read("primitives-large.json.gz"):
        typed = {"type": row["type"], "value": row["value"]}
        found[row["name"]].append(Vector(row["name"], typed, bytes.fromhex(row["hex"]), row["encoder"]))
    return dict(found)


@cache
def nonconforming() -> list[dict[str, Any]]:
    """Octets that shipping encoders emit and that the type system does not allow, or that mean something
    else.
    """
    return _read("nonconforming.json")


@cache
def frames() -> list[dict[str, Any]]:
    """Protocol headers, frames and messages with their decoding."""
    return _read("frames.json")


def of_kind(*kinds: str) -> list[Any]:
    """The rows of ``frames.json`` of some kinds, as parameters of a test."""
    return [
        pytest.param(row, id=f"{row['name']} {row['encoder']}")
        for row in frames()
        if row["decoded"]["kind"] in kinds
    ]


# ---- the typed notation to Python ----


def _from_bits(code: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        return float(struct.unpack(f">{code}", bytes.fromhex(text[2:]))[0])

    return read


def _decimal(kind: type[Decimal], digits: int) -> Callable[[str], Decimal]:
    def read(text: str) -> Decimal:
        return kind(bid.read(bytes.fromhex(text[2:]), digits))

    return read


def _array(value: Any) -> Array:
    descriptor = value["descriptor"] and build(value["descriptor"])
    return Array([build(item) for item in value["items"]], value["element"], descriptor)


def _described(value: Any) -> Any:
    return Described(build(value["descriptor"]), build(value["value"]))


_BUILDERS: dict[str, Callable[[Any], Any]] = {
    "null": lambda value: value,
    "boolean": lambda value: value,
    "ubyte": amqp.UByte,
    "ushort": amqp.UShort,
    "uint": amqp.UInt,
    "ulong": lambda value: amqp.ULong(int(value)),
    "byte": amqp.Byte,
    "short": amqp.Short,
    "int": amqp.Int,
    "long": int,
    "float": lambda value: Float(_from_bits("f")(value)),
    "double": _from_bits("d"),
    "decimal32": _decimal(Decimal32, 7),
    "decimal64": _decimal(Decimal64, 16),
    "decimal128": _decimal(Decimal, 34),
    "char": lambda value: Char(chr(value)),
    "timestamp": lambda value: amqp.Timestamp(int(value)),
    "uuid": UUID,
    "binary": bytes.fromhex,
    "string": str,
    "symbol": Symbol,
    "list": lambda value: [build(item) for item in value],
    "map": lambda value: Map([(build(key), build(item)) for key, item in value]),
    "array": _array,
    "described": _described,
}


def build(typed: Typed) -> Any:
    """The Python value of a value in the typed notation; maps are always a ``Map``."""
    if "composite" in typed:
        return build_composite(typed)
    return _BUILDERS[typed["type"]](typed["value"])


@cache
def classes() -> dict[str, Any]:
    """The generated classes of described types, by the specification's name."""
    members = [getattr(amqp, name) for name in amqp.__all__]
    return {kind.XML_NAME: kind for kind in members if isinstance(kind, type) and hasattr(kind, "XML_NAME")}


def build_composite(typed: Typed) -> Any:
    """The composite that ``{"composite": ..., "fields": ...}`` describes; fields of many values are lists."""
    kind = classes()[typed["composite"]]
    arguments: dict[str, Any] = {}
    infos = {info.name: info for info in kind.FIELDS}
    for name, value in typed["fields"].items():
        built = build(value)
        if infos[name].multiple:
            built = built.items if isinstance(built, Array) else [built]
        arguments[infos[name].attribute] = built
    return kind(**arguments)
