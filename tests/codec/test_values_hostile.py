"""Octets of values that nobody should send: a value or a DecodeError, at bounded cost, whatever comes in."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqpforge_protocol import amqp_0_9_1, amqp_0_10_preview, amqp_1_0, amqp_1_0_draft
from amqpforge_protocol._support.containers import Array
from amqpforge_protocol._support.errors import DecodeError, EncodeError
from amqpforge_protocol._support.limits import Limits
from amqpforge_protocol._support.values import KEYS
from tests.codec.value_vectors import VECTORS, Vector

DIALECTS: list[Any] = [amqp_0_9_1, amqp_0_10_preview, amqp_1_0_draft]
SHORT = [vector for vector in VECTORS if len(vector.octets) <= 40]


def check(dialect: Any, octets: bytes) -> None:
    """Garbage gives a DecodeError inside of the data, or a value that encodes to octets of the same value."""
    offset = 0
    try:
        value, behind = dialect.decode_value(octets)
    except DecodeError as error:
        value, behind, offset = None, 0, error.offset or 0
    assert 0 <= offset <= len(octets)
    if not behind:
        return
    assert 0 < behind <= len(octets)
    again, _ = dialect.decode_value(dialect.encode_value(value))
    assert repr(again) == repr(value)


@pytest.mark.parametrize("vector", SHORT, ids=str)
def test_every_truncation_is_an_error(vector: Vector) -> None:
    for length in range(len(vector.octets)):
        with pytest.raises(DecodeError):
            vector.dialect.decode_value(vector.octets[:length])


@pytest.mark.parametrize("vector", SHORT, ids=str)
def test_every_changed_octet_gives_a_value_or_an_error(vector: Vector) -> None:
    for place in range(len(vector.octets)):
        for octet in (0x00, 0x01, 0x7F, 0x80, 0xFF, vector.octets[place] ^ 0x10):
            check(vector.dialect, vector.octets[:place] + bytes((octet,)) + vector.octets[place + 1 :])


@given(st.sampled_from(DIALECTS), st.binary(min_size=1, max_size=64))
@example(amqp_1_0_draft, b"\xaa\x00\x00\x00\x05\xf0\xff\xff\xff\xff")
def test_garbage_gives_a_value_or_an_error(dialect: Any, octets: bytes) -> None:
    check(dialect, octets)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda module: module.__name__)
def test_much_garbage_behind_known_codes(dialect: Any) -> None:
    codes = [vector.octets[0] for vector in VECTORS if vector.dialect is dialect]
    draw = random.Random(7)
    for _ in range(3000):
        octets = bytes((draw.choice(codes),)) + bytes(
            draw.choices((0, 0, 0, 1, 2, 5, 65, 128, 255), k=draw.randrange(24))
        )
        check(dialect, octets)


# ---- sizes and counts that lie ----

LIES = [
    (amqp_0_9_1, "S 00000005 6162", "claims 5 octets of which 2 are there"),
    (amqp_0_9_1, "x ffffffff 61", "claims 4294967295 octets of which 1 are there"),
    (amqp_0_9_1, "F 0000000a 01 6b 56", "claims 10 octets of which 3 are there"),
    (amqp_0_9_1, "F 00000002 01 6b 56", "its elements end at octet 8, the map at 7"),
    (amqp_0_9_1, "F 00000008 01 6b 53 00000002 61 62 63", "its elements end at octet 14, the map at 13"),
    (amqp_0_9_1, "F 0000000c 01 6b 46 00000006 01 6c 56 56 56 00", "claims 6 octets"),
    (amqp_0_9_1, "A 00000003 49 0000 0000", "its elements end at octet 10, the list at 8"),
    (amqp_0_9_1, "A 00000001 53", "the data ends inside a value"),
    (amqp_0_10_preview, "aa 00000004 21 000000", "ends before the count of its elements"),
    (amqp_0_10_preview, "aa 00000009 21 00000002 00000001", "the data ends"),
    (amqp_0_10_preview, "aa 00000009 21 00000000 00000001", "its elements end at octet 10, the array at 14"),
    (amqp_0_10_preview, "aa 00000006 21 ffffffff 00", "beyond the limit"),
    (amqp_0_10_preview, "aa 00000006 21 00000002 00", "claims 2 elements in 1 octets"),
    (amqp_1_0_draft, "a8 00000008 ffffffff 00000000", "beyond the limit"),
    (amqp_1_0_draft, "a8 00000008 00000003 01 6b f0 00", "claims 3 entries in 4 octets"),
    (amqp_1_0_draft, "a8 00000003 000000", "claims|ends"),
    (amqp_1_0_draft, "a8 00000008 00000001 01 6b f0 00", "its elements end at octet 12, the map at 13"),
    (amqp_1_0_draft, "a9 00000005 00000002 f0", "claims 2 items in 1 octets"),
    (amqp_1_0_draft, "a9 00000006 00000001 f0 f0", "its elements end at octet 10, the list at 11"),
    (amqp_1_0_draft, "ab 00000001 01", "ends before its code does"),
    (amqp_1_0_draft, "ab 00000009 0001", "claims 9 octets of which 2 are there"),
    (amqp_1_0_draft, "81 05 00", "claims 5 octets of which 1 are there"),
    (amqp_1_0_draft, "7f 00", "claims 128 octets of which 1 are there"),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "text", "reason"), LIES)
def test_a_size_or_count_that_lies(dialect: Any, text: str, reason: str) -> None:
    code, _, rest = text.partition(" ")
    octets = (bytes.fromhex(code) if len(code) == 2 else code.encode()) + bytes.fromhex(rest)
    with pytest.raises(DecodeError, match=reason) as caught:
        dialect.decode_value(octets)
    assert caught.value.offset is not None
    assert caught.value.offset <= len(octets)


# ---- limits ----


def nested(dialect: Any, depth: int, kind: str) -> bytes:
    value: Any = None
    for _ in range(depth):
        value = [value] if kind == "list" else {"": value}
    octets: bytes = dialect.encode_value(value)
    return octets


@pytest.mark.parametrize("kind", ["list", "map"])
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda module: module.__name__)
def test_nesting_is_limited(dialect: Any, kind: str) -> None:
    octets = nested(dialect, 5, kind)
    assert dialect.decode_value(octets, limits=Limits(depth=5))[1] == len(octets)
    with pytest.raises(DecodeError, match="is nested deeper than the limit"):
        dialect.decode_value(octets, limits=Limits(depth=4))
    with pytest.raises(DecodeError, match="is nested deeper than the limit"):
        dialect.decode_value(nested(dialect, 65, kind))
    siblings = dialect.encode_value([[], [], {}, []])
    assert dialect.decode_value(siblings, limits=Limits(depth=2))[0] == [[], [], {}, []]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda module: module.__name__)
def test_elements_are_limited_in_all_containers_together(dialect: Any) -> None:
    for value, elements in (
        ([None, None, None], 3),
        ({"a": None, "b": None}, 4),
        ([[None], {"a": None}, []], 6),
        ({"a": [None, None], "b": 1}, 6),
    ):
        octets = dialect.encode_value(value)
        assert dialect.decode_value(octets, limits=Limits(elements=elements))[0] == value
        with pytest.raises(DecodeError, match="brings the elements beyond the limit"):
            dialect.decode_value(octets, limits=Limits(elements=elements - 1))


@pytest.mark.parametrize("dialect", [*DIALECTS, amqp_1_0], ids=lambda module: module.__name__)
@pytest.mark.parametrize("innermost", [None, {}, [], [None], {"a": 1, "b": 2}], ids=str)
def test_nested_elements_count_alike_in_all_dialects(dialect: Any, innermost: Any) -> None:
    """An entry counts as two, an item as one, however deep: none is free because a container is around it."""
    inside = {None: 0, 0: 0, 1: 1, 2: 4}[None if innermost is None else len(innermost)]
    for wrap, each in (
        (lambda value: {"k": value}, 2),
        (lambda value: [value], 1),
        (lambda value: {"k": [value, 1]}, 4),
    ):
        value = innermost
        for _ in range(5):
            value = wrap(value)
        octets, needed = dialect.encode_value(value), 5 * each + inside
        assert dialect.decode_value(octets, limits=Limits(elements=needed))[0] == value
        for elements in range(needed):
            with pytest.raises(DecodeError, match="elements beyond the limit"):
                dialect.decode_value(octets, limits=Limits(elements=elements))


def test_elements_are_limited_in_all_tables_of_a_frame_together() -> None:
    """The limit holds for the call, so for all tables of a method or of the properties of a content."""
    nested_table = {"a": {"b": {"c": {"d": {"e": None}}}}}
    properties = amqp_0_9_1.BasicProperties(headers=nested_table)
    for payload in (amqp_0_9_1.QueueDeclare(arguments=nested_table), amqp_0_9_1.ContentHeader(properties, 0)):
        octets = amqp_0_9_1.encode_frame(payload, 1)
        assert amqp_0_9_1.decode_frame(octets, limits=Limits(elements=10))[0].payload == payload
        for elements in range(10):
            with pytest.raises(DecodeError, match="elements beyond the limit"):
                amqp_0_9_1.decode_frame(octets, limits=Limits(elements=elements))


def test_structs_of_a_content_header_end_with_their_frame() -> None:
    """Structs fill the payload of a header frame: frames behind are no part of it, nor move an offset."""
    preview = amqp_0_10_preview
    header = preview.ContentHeader(preview.MessageStructs(structs=[preview.MessageProperties()]), 3)
    octets = preview.encode_frame(None) + preview.encode_frame(header, 1)
    stream = octets + preview.encode_frame(b"abc", 1)
    frame, behind = preview.decode_frame(stream, 8)
    assert (frame.payload, behind) == (header, len(octets))
    at = 8 + 7 + 12 + 2
    longer = stream[:at] + (9).to_bytes(4, "big") + stream[at + 4 :]  # by five octets: into the frame behind
    with pytest.raises(DecodeError) as caught:
        preview.decode_frame(longer, 8)
    assert caught.value.offset is not None
    assert at <= caught.value.offset < len(octets)


def test_a_table_larger_than_its_limit_is_read_as_far_as_the_limit() -> None:
    """One entry takes three octets here: the check has to count entries, not octets."""
    octets = amqp_0_9_1.encode_table({f"{number:02}": 1 for number in range(40)})
    assert len(amqp_0_9_1.decode_table(octets, limits=Limits(elements=80))[0]) == 40
    with pytest.raises(DecodeError, match="beyond the limit"):
        amqp_0_9_1.decode_table(octets, limits=Limits(elements=79))
    items = amqp_0_9_1.encode_value(list(range(40)))
    assert len(amqp_0_9_1.decode_value(items, limits=Limits(elements=40))[0]) == 40
    with pytest.raises(DecodeError, match="beyond the limit"):
        amqp_0_9_1.decode_value(items, limits=Limits(elements=39))


@pytest.mark.parametrize("code", ["f0", "f1", "f7"])
def test_elements_that_take_no_octets_count(code: str) -> None:
    octets = bytes.fromhex(f"aa 00000005 {code} 00000064")
    array, _ = amqp_1_0_draft.decode_value(octets, limits=Limits(elements=100))
    assert isinstance(array, Array)
    assert len(array) == 100
    assert amqp_1_0_draft.encode_value(array) == octets
    with pytest.raises(DecodeError, match="beyond the limit"):
        amqp_1_0_draft.decode_value(octets, limits=Limits(elements=99))


@pytest.mark.parametrize(
    "text",
    ["aa 00000005 f0 ffffffff", "aa 00000005 f7 ffffffff", "a8 00000004 7fffffff", "a9 00000004 ffffffff"],
)
def test_a_claim_costs_nothing(text: str) -> None:
    octets = bytes.fromhex(text)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            amqp_1_0_draft.decode_value(octets)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda module: module.__name__)
def test_depths_beyond_the_interpreter_s_stack(dialect: Any) -> None:
    octets = b""
    for _ in range(3000):
        octets = (
            b"A" + len(octets).to_bytes(4, "big") + octets
            if dialect is amqp_0_9_1
            else b"\xa9" + len(octets).to_bytes(4, "big") + octets
            if dialect is amqp_0_10_preview
            else b"\xa9" + (len(octets) + 4).to_bytes(4, "big") + bool(octets).to_bytes(4, "big") + octets
        )
    with pytest.raises(DecodeError, match="stack"):
        dialect.decode_value(octets, limits=Limits(depth=100_000))
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(EncodeError, match="stack"):
        dialect.encode_value(endless)


# ---- keys that are kept ----


def test_keys_that_are_kept_stay_few() -> None:

    for number in range(6000):
        octets = amqp_0_9_1.encode_table({f"key-{number}": None})
        assert amqp_0_9_1.decode_table(octets)[0] == {f"key-{number}": None}
    assert len(KEYS) <= 4096
    long = {"k" * 200: None}
    assert amqp_0_9_1.decode_table(amqp_0_9_1.encode_table(long))[0] == long
    assert b"k" * 200 not in KEYS
