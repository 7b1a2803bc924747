"""Values as JSON and back."""

from __future__ import annotations

import gzip
import json
import math
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from amqpforge.notation import NotationError, as_sent, composite, fields_to_json, from_json, to_json
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpValue,
    Array,
    Attach,
    Begin,
    Char,
    Data,
    Described,
    Error,
    Float,
    Map,
    Open,
    Rejected,
    Role,
    Source,
    Symbol,
    Timestamp,
    UInt,
    ULong,
    decode_value,
    encode_value,
)

VECTORS = Path(__file__).resolve().parents[1] / "data" / "vectors"


def rows() -> list[dict[str, Any]]:
    small = json.loads((VECTORS / "primitives.json").read_text())
    large = json.loads(gzip.decompress((VECTORS / "primitives-large.json.gz").read_bytes()))
    return [*small, *large]


def as_typed(value: Any) -> Any:
    """A value in the form of the vectors, which leave nothing plain."""
    notation = to_json(value)
    if isinstance(notation, dict):
        return notation
    name = {type(None): "null", bool: "boolean", str: "string"}[type(notation)]
    return {"type": name, "value": notation}


def test_every_vector_decodes_to_the_notation_of_its_value() -> None:
    checked = 0
    for row in rows():
        value, _ = decode_value(bytes.fromhex(row["hex"]))
        assert as_typed(value) == {"type": row["type"], "value": row["value"]}, row["name"]
        checked += 1
    assert checked > 1500


def test_every_vector_is_read_back_from_its_notation() -> None:
    for row in rows():
        octets = encode_value(from_json({"type": row["type"], "value": row["value"]}))
        value, end = decode_value(octets)
        assert end == len(octets)
        assert as_typed(value) == {"type": row["type"], "value": row["value"]}, row["name"]


VALUES: list[tuple[object, Any]] = [
    (None, None),
    (True, True),
    ("text\u0000", "text\u0000"),
    (5, {"type": "long", "value": "5"}),
    (UInt(5), {"type": "uint", "value": 5}),
    (ULong(2**64 - 1), {"type": "ulong", "value": "18446744073709551615"}),
    (1.5, {"type": "double", "value": "0x3ff8000000000000"}),
    (Float(1.5), {"type": "float", "value": "0x3fc00000"}),
    (-0.0, {"type": "double", "value": "0x8000000000000000"}),
    (Symbol("s"), {"type": "symbol", "value": "s"}),
    (Char("\u20ac"), {"type": "char", "value": 0x20AC}),
    (Timestamp(-1), {"type": "timestamp", "value": "-1"}),
    (b"\x00\xff", {"type": "binary", "value": "00ff"}),
    (uuid.UUID(int=7), {"type": "uuid", "value": "00000000-0000-0000-0000-000000000007"}),
    (Decimal("0"), {"type": "decimal128", "value": "0x30400000000000000000000000000000"}),
    (
        [None, True],
        {"type": "list", "value": [{"type": "null", "value": None}, {"type": "boolean", "value": True}]},
    ),
    ({}, {"type": "map", "value": []}),
    (
        Map([(UInt(1), "a"), (ULong(1), "b")]),
        {
            "type": "map",
            "value": [
                [{"type": "uint", "value": 1}, {"type": "string", "value": "a"}],
                [{"type": "ulong", "value": "1"}, {"type": "string", "value": "b"}],
            ],
        },
    ),
    (
        Array([Symbol("a")], "symbol"),
        {
            "type": "array",
            "value": {"element": "symbol", "descriptor": None, "items": [{"type": "symbol", "value": "a"}]},
        },
    ),
    (
        Described(Symbol("x:y"), 1),
        {
            "type": "described",
            "value": {
                "descriptor": {"type": "symbol", "value": "x:y"},
                "value": {"type": "long", "value": "1"},
            },
        },
    ),
    (Accepted(), {"type": "accepted", "fields": {}}),
    (AmqpValue("x"), {"type": "amqp-value", "value": {"type": "string", "value": "x"}}),
    (Data(b"x"), {"type": "data", "value": {"type": "binary", "value": "78"}}),
]


@pytest.mark.parametrize(
    ("value", "notation"), VALUES, ids=[json.dumps(notation)[:40] for _, notation in VALUES]
)
def test_values_and_their_notation(value: object, notation: Any) -> None:
    assert to_json(value) == notation
    assert encode_value(from_json(notation)) == encode_value(value)


def test_plain_json_is_read_by_its_nature() -> None:
    assert encode_value(from_json(7)) == encode_value(7)
    assert encode_value(from_json(7.0)) == encode_value(7.0)
    assert encode_value(from_json(["a", [False]])) == encode_value(["a", [False]])
    assert encode_value(from_json({"type": "double", "value": 0.5})) == encode_value(0.5)
    assert encode_value(from_json({"type": "float", "value": 1})) == encode_value(Float(1))
    assert encode_value(from_json({"type": "ulong", "value": 3})) == encode_value(ULong(3))
    nan = from_json({"type": "double", "value": "0x7ff8000000000000"})
    assert isinstance(nan, float)
    assert math.isnan(nan)


def test_fields_are_written_simply_where_the_definitions_tell_their_type() -> None:
    attach: Any = Attach
    error = Error(condition=Symbol("amqp:not-found"), description="gone")
    value = attach(
        name="l",
        handle=0,
        role=Role.RECEIVER,
        source=Source(
            address="q", outcomes=[Symbol("amqp:accepted:list")], default_outcome=Rejected(error=error)
        ),
        max_message_size=2**63,
        desired_capabilities=[Symbol("one"), Symbol("two")],
        properties={Symbol("k"): UInt(1)},
    )
    octets = value.encode()
    fields = fields_to_json(as_sent(value, octets).fields)
    assert fields == {
        "name": "l",
        "handle": 0,
        "role": True,
        "source": {
            "type": "source",
            "fields": {
                "address": "q",
                "default-outcome": {
                    "type": "rejected",
                    "fields": {
                        "error": {
                            "type": "error",
                            "fields": {"condition": "amqp:not-found", "description": "gone"},
                        }
                    },
                },
                "outcomes": ["amqp:accepted:list"],
            },
        },
        "max-message-size": {"type": "ulong", "value": "9223372036854775808"},
        "desired-capabilities": ["one", "two"],
        "properties": {
            "type": "map",
            "value": [[{"type": "symbol", "value": "k"}, {"type": "uint", "value": 1}]],
        },
    }
    assert encode_value(from_json(json.loads(json.dumps({"type": "attach", "fields": fields})))) == octets


def test_a_default_that_was_sent_is_told_from_one_that_was_not() -> None:
    plain = b"\x00\x53\x10\xc0\x04\x01\xa1\x01c"
    spelled = b"\x00\x53\x10\xc0\x0d\x04\xa1\x01c\x40\x70\xff\xff\xff\xff\x60\xff\xff"
    one, other = decode_value(plain)[0], decode_value(spelled)[0]
    assert one == other == Open(container_id="c")
    assert fields_to_json(as_sent(one, plain).fields) == {"container-id": "c"}
    assert fields_to_json(as_sent(other, spelled).fields) == {
        "container-id": "c",
        "max-frame-size": 4294967295,
        "channel-max": 65535,
    }
    assert fields_to_json(composite(Accepted()).fields) == {}


def test_fields_that_were_sent_are_found_behind_every_kind_of_encoding() -> None:
    """A long list behind a symbolic descriptor, and a short one behind a numeric one."""
    begin: Any = Begin
    value = begin(remote_channel=None, next_outgoing_id=1, incoming_window=2, outgoing_window=3, handle_max=9)
    short = value.encode()
    items = short[short.index(b"\xc0") + 3 :]
    long = (
        b"\x00\xa3\x0famqp:begin:list\xd0" + (len(items) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x05" + items
    )
    decoded = decode_value(long)[0]
    assert decoded == value
    assert as_sent(decoded, long) == as_sent(value, short)
    assert [info.name for info, _ in as_sent(value, short).fields] == [
        "next-outgoing-id",
        "incoming-window",
        "outgoing-window",
        "handle-max",
    ]


@pytest.mark.parametrize(
    ("notation", "reason"),
    [
        ({}, 'needs "type"'),
        ({"value": 1}, 'needs "type"'),
        ({"type": 5, "value": 1}, 'needs "type"'),
        ({"type": "int32", "value": 1}, "no type 'int32'"),
        ({"type": "uint"}, "incomplete"),
        ({"type": "uint", "value": 1, "extra": 2}, "no 'extra'"),
        ({"type": "source", "value": {}}, "no 'value'"),
        ({"type": "source", "fields": []}, "object"),
        ({"type": "source", "fields": {"adress": "x"}}, "no field 'adress'; it has address"),
        ({"type": "open", "fields": {}}, "container_id"),
        ({"type": "uint", "value": -1}, "uint"),
        ({"type": "uint", "value": "1"}, "uint"),
        ({"type": "uint", "value": True}, "uint"),
        ({"type": "uint", "value": 1.0}, "uint"),
        ({"type": "ulong", "value": "x"}, "ulong"),
        ({"type": "boolean", "value": 1}, "boolean"),
        ({"type": "string", "value": None}, "string"),
        ({"type": "null", "value": 0}, "null"),
        ({"type": "char", "value": 0xD800}, "char"),
        ({"type": "char", "value": "a"}, "char"),
        ({"type": "float", "value": "0x00"}, "float"),
        ({"type": "double", "value": "3ff8000000000000"}, "double"),
        ({"type": "decimal32", "value": 1}, "decimal32"),
        ({"type": "uuid", "value": "x"}, "uuid"),
        ({"type": "binary", "value": "0"}, "binary"),
        ({"type": "binary", "value": 5}, "binary"),
        ({"type": "list", "value": {}}, "list"),
        ({"type": "map", "value": [[1]]}, "map"),
        ({"type": "map", "value": {"a": 1}}, "map"),
        ({"type": "map", "value": [[1, 2], [1, 3]]}, "same key twice"),
        ({"type": "array", "value": []}, "array"),
        ({"type": "array", "value": {"element": "int"}}, "array"),
        ({"type": "described", "value": {"value": 1}}, "described"),
        ([{"type": "nope", "value": 1}], "no type 'nope'"),
    ],
)
def test_what_stands_for_no_value(notation: Any, reason: str) -> None:
    with pytest.raises(NotationError) as caught:
        from_json(notation)
    assert reason in str(caught.value)


def test_nesting_beyond_reason_is_refused() -> None:
    notation: Any = None
    for _ in range(100_000):
        notation = [notation]
    with pytest.raises(NotationError):
        from_json(notation)
