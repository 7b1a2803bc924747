"""What shipping encoders emit although it is not allowed: refused or tolerated, row by row."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from amqpforge_protocol.amqp_1_0 import DecodeError, Limits, decode_value, encode_value
from tests.codec.sameness import same
from tests.codec.vectors import build, nonconforming

TABLE = Path(__file__).with_name("nonconforming.toml")


def key(row: dict[str, Any]) -> tuple[str, str]:
    return row["name"], row["encoder"]


def table() -> dict[tuple[str, str], dict[str, str]]:
    return {key(row): row for row in tomllib.loads(TABLE.read_text(encoding="utf-8"))["row"]}


def test_every_row_has_its_entry_and_every_entry_its_row() -> None:
    rows = [key(row) for row in nonconforming()]
    assert len(set(rows)) == len(rows) == 81
    assert set(table()) == set(rows)


@pytest.mark.parametrize("row", [pytest.param(row, id=" ".join(key(row))) for row in nonconforming()])
def test_row(row: dict[str, Any]) -> None:
    entry = table()[key(row)]
    octets = bytes.fromhex(row["hex"])
    if "refused" in entry:
        with pytest.raises(DecodeError) as caught:
            decode_value(octets)
        assert str(caught.value) == entry["refused"]
        return
    value, behind = decode_value(octets)
    assert behind == len(octets)
    assert same(value, build(json.loads(entry["tolerated"])))
    with pytest.raises(DecodeError) as caught:
        decode_value(octets, limits=Limits(strict=True))
    assert str(caught.value) == entry["strict"]


def test_nothing_tolerated_is_emitted_by_us() -> None:
    for row in nonconforming():
        entry = table()[key(row)]
        if "tolerated" in entry:
            octets = encode_value(build(json.loads(entry["tolerated"])))
            assert octets != bytes.fromhex(row["hex"])
            decode_value(octets, limits=Limits(strict=True))


def test_a_tolerated_value_holds_what_its_encoder_was_asked_to_write() -> None:
    """Only the element type of an empty array, which is not on the wire, is lost."""
    for row in nonconforming():
        entry = table()[key(row)]
        if "tolerated" not in entry:
            continue
        meant, read = row["intended_value"], json.loads(entry["tolerated"])["value"]
        if row["type"] == "array":
            assert meant["items"] == read["items"] == []
        else:
            assert [one for one in read if one != _empty("null")] == [
                one for one in meant if one["type"] != "array" or one["value"]["items"]
            ]


def _empty(element: str) -> dict[str, Any]:
    return {"type": "array", "value": {"element": element, "descriptor": None, "items": []}}
