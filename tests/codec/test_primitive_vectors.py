"""Every value that another implementation encoded comes out as exactly that value, and goes back in its
shortest form.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from amqpforge_protocol.amqp_1_0 import Array, Map, decode_value, encode_value
from tests.codec.sameness import same
from tests.codec.vectors import FOLDER, Vector, build, primitives

NAMES = sorted(primitives())
ZERO_WIDTH = {0x40, 0x41, 0x42, 0x43, 0x44, 0x45}


def test_the_vectors_are_all_there() -> None:
    counts = json.loads((FOLDER / "primitives-counts.json").read_text())
    found = Counter(vector.encoder.partition(" (")[0] for rows in primitives().values() for vector in rows)
    assert sum(found.values()) == 1576
    assert sum(counts.values()) == 1576


@pytest.mark.parametrize("name", NAMES)
def test_every_encoding_of_a_value_decodes_to_it(name: str) -> None:
    for vector in primitives()[name]:
        value, behind = decode_value(vector.octets)
        assert behind == len(vector.octets), vector.encoder
        assert same(value, build(vector.typed)), f"{vector.encoder}: {value!r}"
        assert decode_value(b"\xff" + vector.octets + b"\xff", 1)[1] == behind + 1


@pytest.mark.parametrize("name", NAMES)
def test_a_value_is_encoded_in_a_form_that_others_use_or_that_decodes_to_it(name: str) -> None:
    rows = primitives()[name]
    value = build(rows[0].typed)
    octets = encode_value(value)
    if octets not in {vector.octets for vector in rows}:
        again, behind = decode_value(octets)
        assert behind == len(octets)
        assert same(again, value)


@pytest.mark.parametrize("name", NAMES)
def test_no_other_implementation_needs_fewer_octets(name: str) -> None:
    rows = primitives()[name]
    shortest = min((vector for vector in rows), key=lambda vector: len(vector.octets))
    if not has_elements_without_octets(shortest):
        assert len(encode_value(build(shortest.typed))) <= len(shortest.octets)


def has_elements_without_octets(vector: Vector) -> bool:
    """Whether a vector is an array whose elements take no octets, such as three times true.

    We give such elements an octet each (but for null, which has no other form), so that the count which a
    receiver sees is backed by octets.
    """
    octets = vector.octets
    if octets[0] not in (0xE0, 0xF0):
        return False
    return octets[3 if octets[0] == 0xE0 else 9] in ZERO_WIDTH - {0x40}


def test_only_a_few_vectors_are_arrays_of_elements_without_octets() -> None:
    names = {name for name, rows in primitives().items() if any(map(has_elements_without_octets, rows))}
    assert names == {
        "array-bool-all-false",
        "array-bool-all-true",
        "array-list-all-empty",
        "array-uint-all-0",
        "array-ulong-all-0",
    }


def test_the_bits_of_floats_are_kept_but_for_the_signal_of_a_nan() -> None:
    for rows in primitives().values():
        for vector in rows:
            if vector.typed["type"] in ("float", "double"):
                octets = encode_value(decode_value(vector.octets)[0])
                assert octets[1:].hex() == vector.typed["value"][2:]


@pytest.mark.parametrize("payload", [0x7FC00000, 0xFFC00000, 0x7FC00001, 0x7FFFFFFF, 0x7FDEAD00])
def test_the_payload_of_a_quiet_nan_is_kept_in_32_bits(payload: int) -> None:
    octets = b"\x72" + struct.pack(">I", payload)
    assert encode_value(decode_value(octets)[0]) == octets


@pytest.mark.parametrize("payload", [0x7FF8000000000001, 0xFFF8000000000000, 0x7FFFFFFFFFFFFFFF])
def test_the_payload_of_a_nan_is_kept_in_64_bits(payload: int) -> None:
    octets = b"\x82" + struct.pack(">Q", payload)
    assert encode_value(decode_value(octets)[0]) == octets


def test_decimals_are_exact_to_the_bit() -> None:
    rows = [rows[0] for rows in primitives().values() if rows[0].typed["type"].startswith("decimal")]
    assert len(rows) >= 10
    for vector in rows:
        value = decode_value(vector.octets)[0]
        assert isinstance(value, Decimal)
        assert encode_value(value) == vector.octets


@pytest.mark.parametrize("name", NAMES)
def test_a_map_is_a_dict_unless_a_dict_cannot_hold_it(name: str) -> None:
    vector = primitives()[name][0]
    value = decode_value(vector.octets)[0]
    if vector.typed["type"] == "map":
        assert isinstance(value, dict if _fits_a_dict(build(vector.typed)) else Map)


def _fits_a_dict(entries: Map) -> bool:
    try:
        plain = dict(entries.items())
    except TypeError:
        return False
    return len(plain) == len(entries) and not any(isinstance(key, float | Decimal) for key in plain)


# ---- the files of Apache Qpid Proton's interoperability tests, read in place ----


def interop(material: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(
        (material / "traffic" / "vectors" / "qpid-proton-interop" / "values.json").read_text()
    )
    return rows


def test_the_files_that_implementations_exchange_to_test_each_other(material: Path) -> None:
    rows = interop(material)
    assert len(rows) == 9
    for row in rows:
        octets = bytes.fromhex(row["hex"])
        pos = 0
        for typed in row["values"]:
            value, pos = decode_value(octets, pos)
            assert same(value, build(typed)) or hasattr(type(value), "DESCRIPTOR"), row["file"]
            again, behind = decode_value(encode_value(value))
            assert same(again, value)
            assert behind == len(encode_value(value))
        assert pos == len(octets) == row["bytes"]


def test_elements_of_arrays_are_of_their_free_standing_type() -> None:
    for rows in primitives().values():
        value = decode_value(rows[0].octets)[0]
        if isinstance(value, Array) and value.items and value.descriptor is None and value.element != "array":
            assert all(type(item) is type(value[0]) or value.element == "map" for item in value)
