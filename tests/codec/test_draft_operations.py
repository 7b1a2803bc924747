"""The draft's controls and commands: octets, packing flags, what has to and what must not be there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields as attributes
from pathlib import Path
from typing import Any

import pytest

from amqpforge_protocol.amqp_1_0_draft import (
    COMMANDS,
    CONTROLS,
    OPERATIONS,
    DecodeError,
    EncodeError,
    Limits,
)
from tests.codec.draft_vectors import OPTIONS, VECTORS, Vector, draft, octets

decode_operation: Any = draft.decode_operation

ALL = list(VECTORS.values())
FULL = [vector for vector in ALL if vector.is_full]
LEAST = [vector for vector in ALL if not vector.is_full]


def body(code: int, data: bytes) -> bytes:
    """A struct in its polymorphic form, around the flags and fields ``data``."""
    return (len(data) + 2).to_bytes(4, "big") + code.to_bytes(2, "big") + data


# ---- every operation ----


@pytest.mark.spec("D-STRUCT-001", "D-FRAME-009")
@pytest.mark.parametrize("vector", ALL, ids=str)
def test_operations_octet_by_octet(vector: Vector) -> None:
    assert vector.value.encode() == vector.octets
    found, behind = decode_operation(vector.octets)
    assert found == vector.value
    assert behind == len(vector.octets)
    assert found.encode() == vector.octets


@pytest.mark.parametrize("vector", ALL, ids=str)
def test_operations_amid_other_octets(vector: Vector) -> None:
    amid = b"\xff" * 5 + vector.octets + b"\x00" * 90
    for data in (amid, bytearray(amid), memoryview(amid)):
        assert decode_operation(data, 5) == (vector.value, 5 + len(vector.octets))


@pytest.mark.spec("D-STRUCT-003")
@pytest.mark.parametrize("vector", ALL, ids=str)
def test_operations_cut_short(vector: Vector) -> None:
    for size in range(len(vector.octets)):
        with pytest.raises(DecodeError):
            decode_operation(vector.octets[:size])
    data = vector.octets[6:]
    for size in range(len(data)):  # a struct whose size is right, but whose last field is not all there
        for behind in (b"", b"\x00" * 99):
            with pytest.raises(DecodeError) as caught:
                decode_operation(body(vector.value.CODE, data[:size]) + behind)
            if size >= 2:  # behind the flags
                assert caught.value.type in (vector.value.XML_NAME, "exception", "header", "footer", "xid")


@pytest.mark.spec("D-STRUCT-004")
@pytest.mark.parametrize("vector", ALL, ids=str)
def test_operations_with_octets_left_over(vector: Vector) -> None:
    data = vector.octets[6:]
    for more in (b"\x00", b"\x00" * 8):
        with pytest.raises(DecodeError, match=f"{vector.value.XML_NAME}: ") as caught:
            decode_operation(body(vector.value.CODE, data + more))
        assert caught.value.offset == len(vector.octets)


@pytest.mark.parametrize("vector", ALL, ids=str)
def test_operations_with_one_octet_changed(vector: Vector) -> None:
    """A corrupted operation gives an operation that can be written again, or a DecodeError."""
    for at in range(len(vector.octets)):
        for change in (0x01, 0x80, 0xFF):
            changed = bytearray(vector.octets)
            changed[at] ^= change
            try:
                found, _ = decode_operation(changed)
            except DecodeError:
                continue
            again, _ = decode_operation(found.encode())
            assert repr(again) == repr(found)


@pytest.mark.spec("D-STRUCT-009")
def test_the_vectors_are_all_the_operations() -> None:
    assert (
        {vector.value.CODE for vector in FULL} == {vector.value.CODE for vector in LEAST} == set(OPERATIONS)
    )
    assert [kind.CODE for kind in OPERATIONS.values()] == list(OPERATIONS) == sorted(set(OPERATIONS))
    assert set(OPERATIONS.values()) == CONTROLS | COMMANDS
    assert {kind.KIND for kind in CONTROLS} == {"control"}
    assert {kind.KIND for kind in COMMANDS} == {"command"}
    assert len(OPERATIONS) == 21


def test_the_operations_are_those_of_the_document(data: Path) -> None:
    facts = json.loads((data / "amqp-1-0-draft-facts.json").read_text(encoding="utf-8"))
    for kind, group in (("control", CONTROLS), ("command", COMMANDS)):
        listed = {int(one["code"], 16): one for one in facts[f"{kind}s"]}
        assert {one.CODE for one in group} == set(listed)
        for code, one in listed.items():
            generated = OPERATIONS[code]
            assert f"{one['class']}.{one['name']}" == generated.XML_NAME
            assert [field["name"] for field in one["fields"]] == [info.name for info in generated.FIELDS]
            for field, info in zip(one["fields"], generated.FIELDS, strict=True):
                assert (field["multiplicity"] == "required") == info.mandatory
                assert (field["multiplicity"] == "multiple") == info.multiple
                assert field["type"] == info.type
                assert field.get("default") == info.default
    failures = facts["exceptions"]["enlist"]
    found = draft.SessionEnlist.FAILURES
    assert {one["name"]: one["error"] for one in failures} == {
        name: error.name.lower().replace("_", "-") for name, error in found.items()
    }


def test_failures_are_error_codes() -> None:
    found = draft.SessionEnlist.FAILURES
    assert found["already-known"] is draft.ErrorCode.NOT_ALLOWED
    assert found["unsupported"] == 5040
    assert draft.LinkTransfer.FAILURES == {}


@pytest.mark.parametrize("kind", OPERATIONS.values(), ids=lambda kind: str(kind.XML_NAME))
def test_classes_are_keyword_only_records_with_slots(kind: Any) -> None:
    assert [one.name for one in attributes(kind)] == [info.attribute for info in kind.FIELDS]
    assert not hasattr(kind, "__dict__") or "__dict__" not in kind.__slots__
    with pytest.raises(TypeError):
        kind({})


# ---- the polymorphic form around the fields ----


@pytest.mark.spec("D-STRUCT-009")
@pytest.mark.parametrize("code", [0x0000, 0x0001, 0x0100, 0x0107, 0x0307, 0x0308, 0xFFFF])
def test_a_code_that_is_none(code: int) -> None:
    with pytest.raises(DecodeError, match=f"no control or command has the code {code:#06x}") as caught:
        decode_operation(b"..." + body(code, b"\x00\x00"), 3)
    assert caught.value.offset == 7


@pytest.mark.spec("D-STRUCT-009")
def test_the_code_decides_how_the_fields_are_read() -> None:
    data = octets("0200 00000005")
    flow, _ = decode_operation(body(0x0304, data))
    drain, _ = decode_operation(body(0x0305, data))
    park, _ = decode_operation(body(0x030B, data))
    assert flow == draft.LinkFlow(handle=5)
    assert drain == draft.LinkDrain(handle=5)
    assert park == draft.LinkPark(first=5)


@pytest.mark.parametrize("size", [0, 1])
def test_a_size_without_room_for_the_code(size: int) -> None:
    with pytest.raises(DecodeError, match=f"a struct of {size} octets has no room for its code"):
        decode_operation(size.to_bytes(4, "big") + octets("0203 0000"))


def test_a_size_beyond_the_data() -> None:
    with pytest.raises(DecodeError, match="ends at octet 4294967299, the data at 8"):
        decode_operation(octets("ffffffff 0203 0000"))


# ---- packing flags ----

OPEN = {
    "options": OPTIONS,
    "hostname": "h",
    "max_frame_size": 1,
    "heartbeat_interval": 1,
    "sasl_server_mechanisms": ["x"],
    "outgoing_locales": ["x"],
    "incoming_locales": ["x"],
    "peer_properties": OPTIONS,
}


@pytest.mark.spec("D-STRUCT-002")
@pytest.mark.parametrize("name", OPEN)
def test_each_field_has_its_flag(name: str) -> None:
    number = [info.attribute for info in draft.ConnectionOpen.FIELDS].index(name)
    required = 1 << 1 | 1 << 4  # container-id and channel-max
    opened = draft.ConnectionOpen(container_id="", channel_max=0, **{name: OPEN[name]})
    flags = opened.encode()[6:8]
    first, second = (required | 1 << number, 0) if number < 8 else (required, 1 << number - 8)
    assert flags == bytes((first, second))
    assert decode_operation(opened.encode())[0] == opened


@pytest.mark.spec("D-STRUCT-002", "D-STRUCT-007")
@pytest.mark.parametrize(("name", "number"), [("more", 2), ("aborted", 3), ("redelivered", 4)])
def test_a_bit_is_its_flag(name: str, number: int) -> None:
    without = draft.LinkTransfer(handle=5)
    transfer = draft.LinkTransfer(handle=5, **{name: True})
    assert transfer.encode() == octets("00000008 0306") + bytes((2 | 1 << number, 0)) + octets("00000005")
    assert len(transfer.encode()) == len(without.encode())
    assert getattr(decode_operation(transfer.encode())[0], name) is True
    assert getattr(decode_operation(without.encode())[0], name) is False


@pytest.mark.spec("D-STRUCT-007")
def test_attach_is_as_long_with_as_without_opening() -> None:
    closed, opening = draft.SessionAttach(name=b"s"), draft.SessionAttach(name=b"s", opening=True)
    assert closed.encode() == octets("00000007 0201 0200 0001 's'")
    assert opening.encode() == octets("00000007 0201 0600 0001 's'")


@pytest.mark.spec("D-STRUCT-004")
@pytest.mark.parametrize("vector", FULL, ids=str)
def test_an_absent_field_adds_no_octets(vector: Vector) -> None:
    for info in vector.value.FIELDS:
        if info.mandatory:
            continue
        rest = {name: value for name, value in vector.arguments.items() if name != info.attribute}
        less = type(vector.value)(**rest)
        assert decode_operation(less.encode())[0] == less
        shorter = len(vector.octets) - len(less.encode())
        assert (shorter == 0) == (info.primitive == "bit"), info.name
        number = info_number(vector.value, info.name)
        cleared = less.encode()[6 + number // 8] ^ vector.octets[6 + number // 8]
        assert cleared == 1 << number % 8


def info_number(value: Any, name: str) -> int:
    """Which field, counted from zero."""
    return [info.name for info in value.FIELDS].index(name)


@pytest.mark.spec("D-STRUCT-005")
@pytest.mark.parametrize("vector", LEAST, ids=str)
def test_flags_without_a_field_are_refused(vector: Vector) -> None:
    flags = vector.octets[6:8]
    count = len(vector.value.FIELDS)
    for number in range(count, 16):
        more = bytearray(flags)
        more[number // 8] |= 1 << number % 8
        with pytest.raises(DecodeError, match="flag") as caught:
            decode_operation(vector.octets[:6] + bytes(more) + vector.octets[8:])
        assert caught.value.type == vector.value.XML_NAME
    assert int.from_bytes(flags, "little") >> count == 0


@pytest.mark.spec("D-STRUCT-005")
@pytest.mark.parametrize("vector", FULL, ids=str)
def test_flags_without_a_field_are_sent_as_zero(vector: Vector) -> None:
    assert int.from_bytes(vector.value.encode()[6:8], "little") == (1 << len(vector.value.FIELDS)) - 1


@pytest.mark.spec("D-STRUCT-005")
def test_the_footer_has_no_flags_to_set() -> None:
    transfer = octets("0000000a 0306 0204 00000005 0000")
    assert decode_operation(transfer)[0] == draft.LinkTransfer(handle=5, footer=draft.Footer())
    for flags in ("0100", "8000", "0001", "0080"):
        with pytest.raises(DecodeError, match="flag"):
            decode_operation(transfer[:-2] + octets(flags))


# ---- required and optional ----


def required() -> Iterator[Any]:
    """Every required field of every operation, with the arguments of all the others."""
    for vector in LEAST:
        for info in vector.value.FIELDS:
            if info.mandatory:
                yield pytest.param(vector, info, id=f"{vector.value.XML_NAME}.{info.name}")


@pytest.mark.spec("D-STRUCT-008")
@pytest.mark.parametrize(("vector", "info"), [*required()])
def test_a_required_field_is_not_left_out(vector: Vector, info: Any) -> None:
    kind = type(vector.value)
    rest = {name: value for name, value in vector.arguments.items() if name != info.attribute}
    with pytest.raises(TypeError, match=info.attribute):
        kind(**rest)
    with pytest.raises(EncodeError) as refused:
        kind(**rest, **{info.attribute: None}).encode()
    assert (refused.value.type, refused.value.field) == (kind.XML_NAME, info.name)
    number = info_number(vector.value, info.name)
    without = bytearray(vector.octets)
    without[6 + number // 8] &= ~(1 << number % 8)
    with pytest.raises(DecodeError) as caught:
        decode_operation(without)
    assert (caught.value.type, caught.value.field) == (kind.XML_NAME, info.name)


@pytest.mark.spec("D-STRUCT-008")
def test_required_fields_of_structs() -> None:
    detach = draft.SessionDetach(name=b"s", exception=draft.AmqpException(error_code=4009))
    assert detach.encode() == octets("0000000b 0202 2200 0001 's' 0100 0fa9")
    assert decode_operation(detach.encode())[0] == detach
    with pytest.raises(EncodeError):
        draft.SessionDetach(name=b"s", exception=draft.AmqpException(error_code=None)).encode()
    with pytest.raises(DecodeError, match="error-code"):
        decode_operation(octets("00000009 0202 2200 0001 's' 0000"))


@pytest.mark.spec("D-STRUCT-008")
@pytest.mark.parametrize("vector", LEAST, ids=str)
def test_what_is_optional_is_none_or_its_default(vector: Vector) -> None:
    found, _ = decode_operation(vector.octets)
    for info in found.FIELDS:
        if info.attribute not in vector.arguments:
            absent = False if info.primitive == "bit" else info.default
            assert getattr(found, info.attribute) == getattr(vector.value, info.attribute) == absent


def test_a_default_is_not_written() -> None:
    plain, same = (draft.LinkRelink(**given) for given in ({}, {"filter_type": "SQL-EXPRESSION"}))
    assert plain.filter_type == "SQL-EXPRESSION"
    assert plain.encode() == same.encode() == octets("00000004 0302 0000")
    written = octets("00000013 0302 0800 0e 'SQL-EXPRESSION'")
    assert decode_operation(written)[0] == plain


# ---- fields of many values ----


@pytest.mark.spec("D-STRUCT-006")
@pytest.mark.parametrize(
    ("mechanisms", "encoded"),
    [
        (["A"], "00000001 0001 'A'"),
        (["A", "", "PLAIN"], "00000003 0001 'A' 0000 0005 'PLAIN'"),
    ],
)
def test_many_values_in_one_field(mechanisms: list[str], encoded: str) -> None:
    opened = draft.ConnectionOpen(container_id="", channel_max=1, sasl_server_mechanisms=mechanisms)
    assert opened.encode() == body(0x0101, octets(f"5200 0000 0001 {encoded}"))
    assert decode_operation(opened.encode())[0].sasl_server_mechanisms == mechanisms


@pytest.mark.spec("D-STRUCT-006")
def test_no_values_at_all() -> None:
    opened = draft.ConnectionOpen(container_id="", channel_max=1)
    assert opened.encode() == octets("00000008 0101 1200 0000 0001")
    assert decode_operation(opened.encode())[0].sasl_server_mechanisms is None
    opened.sasl_server_mechanisms = []
    assert opened.encode() == octets("0000000c 0101 5200 0000 0001 00000000")
    assert decode_operation(opened.encode())[0].sasl_server_mechanisms == []


@pytest.mark.spec("D-STRUCT-006")
def test_a_count_without_its_values() -> None:
    for count in ("00000002", "ffffffff"):
        with pytest.raises(DecodeError) as caught:
            decode_operation(body(0x0101, octets(f"5200 0000 0001 {count} 0001 'A'")))
        assert (caught.value.type, caught.value.field) == ("connection.open", "sasl-server-mechanisms")


def test_the_number_of_values_is_limited() -> None:
    opened = draft.ConnectionOpen(container_id="", channel_max=1, sasl_server_mechanisms=["A"] * 10)
    assert decode_operation(opened.encode(), limits=Limits(elements=10))[0] == opened
    with pytest.raises(DecodeError):
        decode_operation(opened.encode(), limits=Limits(elements=9))


@pytest.mark.parametrize("given", ["PLAIN", [1], [None], 1, ["\ud800"]])
def test_what_is_no_list_of_texts(given: Any) -> None:
    with pytest.raises(EncodeError) as caught:
        draft.ConnectionOpen(container_id="", channel_max=1, sasl_server_mechanisms=given).encode()
    assert (caught.value.type, caught.value.field) == ("connection.open", "sasl-server-mechanisms")


# ---- records and domains ----

XID = draft.Xid(format=1, global_id=b"gg", branch_id=b"b")


@pytest.mark.spec("D-STRUCT-010")
def test_a_record_is_its_fields() -> None:
    assert draft.SessionEnlist(xid=XID).encode() == body(0x0205, octets("0200 00000001 02 'gg' 01 'b'"))
    for name in ("format", "global_id", "branch_id"):
        given = {"format": 1, "global_id": b"gg", "branch_id": b"b"}
        with pytest.raises(TypeError, match=name):
            draft.Xid(**{one: value for one, value in given.items() if one != name})
        with pytest.raises(EncodeError):
            draft.SessionEnlist(xid=draft.Xid(**{**given, name: None})).encode()
    data = octets("00000001 02 'gg' 01 'b'")
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            decode_operation(body(0x0205, b"\x02\x00" + data[:size]))


@pytest.mark.spec("D-TXN-011")
def test_an_xid_is_all_three_of_its_fields() -> None:
    assert draft.Xid(format=1, global_id=b"gg", branch_id=b"b") == XID
    others = [
        draft.Xid(format=2, global_id=b"gg", branch_id=b"b"),
        draft.Xid(format=1, global_id=b"gh", branch_id=b"b"),
        draft.Xid(format=1, global_id=b"gg", branch_id=b"c"),
        draft.Xid(format=1, global_id=b"ggb", branch_id=b""),
    ]
    for one in others:
        assert one != XID
        assert draft.SessionEnlist(xid=one).encode() != draft.SessionEnlist(xid=XID).encode()
        assert decode_operation(draft.SessionEnlist(xid=one).encode())[0].xid == one != XID


@pytest.mark.spec("D-STRUCT-011")
@pytest.mark.parametrize("number", [0, 1])
def test_a_domain_is_written_like_its_base(number: int) -> None:
    link = draft.LinkLink(name="", handle=0, direction=draft.Direction(number))
    assert link.encode() == body(0x0301, octets("8a00 0000 00000000") + bytes((number,)))
    assert link.encode() == draft.LinkLink(name="", handle=0, direction=number).encode()
    assert decode_operation(link.encode())[0].direction is draft.Direction(number)


#: Operation, field, enumeration, octets of a value, and what stands in front of that value.
CLOSED = [
    (draft.ConnectionSaslOutcome, {}, "code", draft.SaslCode, 1, "0200"),
    (draft.ConnectionClose, {}, "close_code", draft.CloseCode, 2, "0200"),
    (draft.SessionAttach, {"name": b""}, "txn_mode", draft.TxnLevel, 1, "0201 0000"),
    (draft.SessionAttach, {"name": b""}, "txn_support", draft.TxnLevel, 1, "0202 0000"),
    (draft.LinkLink, {"name": "", "handle": 0}, "direction", draft.Direction, 1, "8a00 0000 00000000"),
    (
        draft.LinkLink,
        {"name": "", "handle": 0},
        "distribution_mode",
        draft.DistributionMode,
        4,
        "0a01 0000 00000000",
    ),
    (draft.LinkUnpark, {"first": 0}, "mode", draft.UnparkMode, 1, "0600"),
]


@pytest.mark.spec("D-STRUCT-011")
@pytest.mark.parametrize(
    ("kind", "given", "name", "choices", "width", "before"),
    CLOSED,
    ids=lambda one: getattr(one, "XML_NAME", None),
)
def test_a_closed_set_is_closed_both_ways(
    kind: Any, given: dict[str, Any], name: str, choices: Any, width: int, before: str
) -> None:
    behind = octets("00000000") if "first" in given else b""
    field = name.replace("_", "-")
    for number in range(600):
        if number >= 1 << 8 * width:
            break
        data = octets(before) + number.to_bytes(width, "big") + behind
        if number in list(choices):
            assert kind(**given, **{name: number}).encode() == body(kind.CODE, data)
            assert getattr(decode_operation(body(kind.CODE, data))[0], name) is choices(number)
            continue
        with pytest.raises(EncodeError) as refused:
            kind(**given, **{name: number}).encode()
        with pytest.raises(DecodeError) as caught:
            decode_operation(body(kind.CODE, data))
        for error in (refused.value, caught.value):
            assert (error.type, error.field) == (kind.XML_NAME, field)
            assert str(number) in str(error)


@pytest.mark.spec("D-STRUCT-011")
def test_error_codes_are_a_closed_set() -> None:
    assert len(draft.ErrorCode) == 21
    for number in (0, 4002, 4007, 5031, 6007, 6008, 65535):
        detach = octets("0000000b 0202 2200 0001 's' 0100") + number.to_bytes(2, "big")
        if number in list(draft.ErrorCode):
            assert decode_operation(detach)[0].exception.error_code is draft.ErrorCode(number)
            continue
        with pytest.raises(DecodeError, match=str(number)):
            decode_operation(detach)
        with pytest.raises(EncodeError, match=str(number)):
            draft.SessionDetach(name=b"s", exception=draft.AmqpException(error_code=number)).encode()


# ---- values that do not fit their fields ----

MISFITS: list[tuple[Any, dict[str, Any], str]] = [
    (draft.LinkFlow, {"handle": -1}, "handle"),
    (draft.LinkFlow, {"handle": 1 << 32}, "handle"),
    (draft.LinkFlow, {"handle": "5"}, "handle"),
    (draft.LinkFlow, {"handle": 1, "limit": 1 << 32}, "limit"),
    (draft.LinkFlow, {"handle": 1, "options": [1]}, "options"),
    (draft.LinkFlow, {"handle": 1, "options": {1: 2}}, "options"),
    (draft.LinkFlow, {"handle": 1, "options": {"k" * 256: None}}, "options"),
    (draft.LinkFlow, {"handle": 1, "options": {"k": object()}}, "options"),
    (draft.LinkTransfer, {"handle": 1, "payload": "text"}, "payload"),
    (draft.LinkTransfer, {"handle": 1, "header": draft.Footer()}, "header"),
    (draft.LinkTransfer, {"handle": 1, "header": draft.Header(priority=256)}, "header"),
    (draft.SessionAttach, {"name": b"s" * 65536}, "name"),
    (draft.SessionAttach, {"name": "s"}, "name"),
    (draft.SessionExecute, {"spec": "s" * 256}, "spec"),
    (draft.SessionExecute, {"spec": b"s"}, "spec"),
    (draft.SessionEnlist, {"xid": draft.Xid(format=0, global_id=b"g" * 256, branch_id=b"")}, "xid"),
    (draft.SessionEnlist, {"xid": b"xid"}, "xid"),
    (draft.ConnectionOpen, {"container_id": "", "channel_max": 65536}, "channel-max"),
]


@pytest.mark.parametrize(("kind", "given", "name"), MISFITS)
def test_a_value_that_does_not_fit_its_field(kind: Any, given: dict[str, Any], name: str) -> None:
    with pytest.raises(EncodeError) as caught:
        kind(**given).encode()
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("code", "data", "place", "offset"),
    [
        (0x0301, "0a00 00", "link.link.name", 9),
        (0x0301, "0a00 0005 'nam'", "link.link.name", 13),
        (0x0301, "0a00 0002 c328 00000000", "link.link.name", 10),  # no UTF-8
        (0x0304, "0300 00000004 00000001 00000005", "link.flow.options", 12),  # a map without its entry
        (0x0306, "0202 00000005 000000ff 'x'", "link.transfer.payload", 17),
        (0x0306, "0202 00000005", "link.transfer.payload", 12),
        (0x0306, "0202 00000005 00", "link.transfer.payload", 13),
        (0x0306, "0201 00000005 0200", "header.priority", 14),
        (0x0202, "2200 0001 's' 0100 0000", "exception.error-code", 13),
        (0x0205, "0200 00000001 02 'g'", "xid.global-id", 14),
    ],
)
def test_where_a_field_went_wrong(code: int, data: str, place: str, offset: int) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_operation(body(code, octets(data)))
    assert (f"{caught.value.type}.{caught.value.field}", caught.value.offset) == (place, offset)
