"""Octets that nobody should send: every truncation and corruption gives a value or a DecodeError, at
bounded cost.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqpforge_protocol.amqp_1_0 import (
    AmqpValue,
    Array,
    DecodeError,
    FrameReader,
    Limits,
    Map,
    Message,
    Symbol,
    ULong,
    decode_frame,
    decode_message,
    decode_performative,
    decode_value,
    encode_frame,
    encode_message,
    encode_value,
)
from fuzz.amqp_1_0 import CHECKS
from fuzz.invariants import check_error
from tests.codec import strategies
from tests.codec.objects import amqp
from tests.codec.vectors import frames, nonconforming, primitives

SHORT = 48
ERROR = amqp.Error(condition="amqp:not-found", description="é", info={"k": [1, None]})
SMALL = [vector.octets for rows in primitives().values() for vector in rows if len(vector.octets) <= SHORT]

PERFORMATIVES: list[Any] = [
    amqp.Open(container_id="c", hostname="h", outgoing_locales=["de", "en"], properties={"p": 1}),
    amqp.Attach(
        name="n",
        handle=1,
        role=amqp.Role.RECEIVER,
        source=amqp.Source(address="a", outcomes=["amqp:accepted:list"], filter={"f": None}),
        target=amqp.Target(address="t", dynamic_node_properties={"supported-dist-modes": Symbol("move")}),
        unsettled={b"1": amqp.Modified(delivery_failed=True)},
    ),
    amqp.Flow(incoming_window=1, next_outgoing_id=2, outgoing_window=300, link_credit=7, drain=True),
    amqp.Transfer(handle=0, delivery_id=300, delivery_tag=b"tag", message_format=0, settled=False, more=True),
    amqp.Disposition(role=amqp.Role.SENDER, first=1, last=2, settled=True, state=amqp.Rejected(error=ERROR)),
    amqp.Close(error=ERROR),
    amqp.SaslMechanisms(sasl_server_mechanisms=["PLAIN", "ANONYMOUS"]),
]
MESSAGE = Message(
    header=amqp.Header(durable=True, ttl=1),
    message_annotations={Symbol("x-opt-a"): ULong(1)},
    properties=amqp.Properties(message_id=ULong(1), user_id=b"u", content_type="text/plain"),
    application_properties={"k": 1.5},
    body=AmqpValue([1, "a", Map([(ULong(1), None)]), Array([Symbol("s")], "symbol")]),
    footer={Symbol("f"): None},
)
SAMPLES = {
    **{type(one).XML_NAME: one.encode() for one in PERFORMATIVES},
    "frame": encode_frame(PERFORMATIVES[3], 1, b"payload"),
    "message": encode_message(MESSAGE),
}


def check_all(octets: bytes) -> None:
    for check in CHECKS.values():
        check(octets)


# ---- the invariant, on what we have and on what is near it ----


def test_the_invariant_holds_for_every_vector() -> None:
    for rows in primitives().values():
        for vector in rows:
            CHECKS["value"](vector.octets)
    for row in [*frames(), *nonconforming()]:
        check_all(bytes.fromhex(row["hex"]))


@pytest.mark.parametrize("name", SAMPLES)
def test_every_truncation(name: str) -> None:
    octets = SAMPLES[name]
    for size in range(len(octets)):
        check_all(octets[:size])


@pytest.mark.parametrize("name", SAMPLES)
def test_every_corruption_of_one_octet(name: str) -> None:
    octets = bytearray(SAMPLES[name])
    check = CHECKS[name if name in CHECKS else "performative"]
    for place, before in enumerate(octets):
        for value in range(256):
            octets[place] = value
            check(bytes(octets))
        octets[place] = before


def test_every_truncation_of_a_short_vector_is_refused() -> None:
    for octets in SMALL:
        for size in range(len(octets)):
            with pytest.raises(DecodeError) as caught:
                decode_value(octets[:size])
            check_error(caught.value, octets[:size])


def test_every_octet_before_every_short_vector() -> None:
    for octets in sorted(set(SMALL)):
        for first in range(256):
            CHECKS["value"](bytes((first,)) + octets)
            CHECKS["value"](bytes((first,)) + octets[1:])


@given(st.binary(max_size=64))
def test_garbage(octets: bytes) -> None:
    check_all(octets)


@given(strategies.values.map(encode_value), st.data())
def test_corrupted_values(octets: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(octets) - 1))
    value = data.draw(st.integers(0, 255))
    check_all(octets[:place] + bytes((value,)) + octets[place + 1 :])


@given(strategies.messages().map(encode_message), st.data())
def test_corrupted_messages(octets: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(octets) - 1))
    value = data.draw(st.integers(0, 255))
    check_all(octets[:place] + bytes((value,)) + octets[place + 1 :])
    check_all(octets[:place])


# ---- cost ----

MOST_MEMORY = 10 << 20
SIZE_32 = b"\xff\xff\xff\xff"
DEEP_LISTS = b"\x45"
for _ in range(60):
    DEEP_LISTS = b"\xd0" + (len(DEEP_LISTS) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + DEEP_LISTS

HOSTILE: dict[str, bytes] = {
    "descriptors of descriptors": b"\x00" * 100_000,
    "described described values": b"\x00\x53\x01" * 30_000 + b"\x40",
    "nulls in ten octets": b"\xf0\x00\x00\x00\x05" + SIZE_32 + b"\x40",
    "a million nulls": b"\xf0\x00\x00\x00\x05" + (1_000_000).to_bytes(4, "big") + b"\x40",
    "a million empty lists": b"\xf0\x00\x00\x00\x05" + (1_000_000).to_bytes(4, "big") + b"\x45",
    "as many empty lists as the limit allows": b"\xf0\x00\x00\x00\x05"
    + (1_000_000 // 9).to_bytes(4, "big")
    + b"\x45",
    "a million zeros": b"\xf0\x00\x00\x00\x05" + (1_000_000).to_bytes(4, "big") + b"\x43",
    "a million described nulls": b"\xf0\x00\x00\x00\x0b"
    + (1_000_000).to_bytes(4, "big")
    + b"\x00\x53\x01\x00\x53\x02\x40",
    "nulls under many descriptors": b"\xe0\xa0\xff" + b"\x00\x53\x01" * 50 + b"\x40" * 8,
    "binary": b"\xb0" + SIZE_32,
    "string": b"\xb1" + SIZE_32 + b"a",
    "symbol": b"\xb3" + SIZE_32 + b"a",
    "list": b"\xd0" + SIZE_32 + SIZE_32,
    "list of many": b"\xd0\x00\x00\x00\x04" + SIZE_32,
    "map": b"\xd1" + SIZE_32 + SIZE_32,
    "array": b"\xf0" + SIZE_32 + SIZE_32 + b"\x70",
    "array of arrays of nulls": b"\xe0\x0b\x01\xf0\x00\x00\x00\x05" + SIZE_32 + b"\x40",
    "list of lists": DEEP_LISTS,
    "fields": b"\x00\x53\x10\xd0" + SIZE_32 + SIZE_32,
    "fields of a short list": b"\x00\x53\x10\xc0\xff\xff",
    "frame": SIZE_32 + b"\x02\x00\x00\x00\x00\x53\x10\x45",
}


def peak_memory(action: Callable[[], object]) -> int:
    """The most octets that an action held at once."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_octets_are_refused_or_read_within_bounded_memory(name: str) -> None:
    octets = HOSTILE[name]

    def decode() -> None:
        for function in (decode_value, decode_performative, decode_frame, decode_message):
            try:
                function(octets)
            except DecodeError as error:
                check_error(error, octets)

    assert peak_memory(decode) < MOST_MEMORY + 2 * len(octets)


@pytest.mark.parametrize("size", [0, 1, 255, 1000, 0xFFFF_FFFF])
def test_the_claimed_size_of_a_frame_allocates_nothing(size: int) -> None:
    octets = size.to_bytes(4, "big") + b"\x02\x00\x00\x00"

    def decode() -> None:
        reader = FrameReader(max_frame_size=0xFFFF_FFFF)
        for function in (decode_frame, reader.feed):
            try:
                function(octets)
            except DecodeError as error:
                check_error(error, octets)

    assert peak_memory(decode) < 1 << 16


def test_elements_without_octets_count() -> None:
    octets = bytes.fromhex("f0 00000005 0000000a 40".replace(" ", ""))
    assert decode_value(octets, limits=Limits(elements=10))[0] == Array([None] * 10, "null")
    with pytest.raises(DecodeError, match="elements beyond the limit"):
        decode_value(octets, limits=Limits(elements=9))
    with pytest.raises(DecodeError, match="elements beyond the limit") as caught:
        decode_value(bytes.fromhex("f000000005ffffffff40"))
    assert (caught.value.type, caught.value.offset) == ("array", 9)


def test_objects_that_no_octet_backs_count_eightfold() -> None:
    lists = bytes.fromhex("e0020a45")
    assert decode_value(lists, limits=Limits(elements=90))[0] == Array([[]] * 10, "list")
    described = bytes.fromhex("e0080a00530100530240")
    assert len(decode_value(described, limits=Limits(elements=92))[0]) == 10
    for octets, elements in ((lists, 89), (described, 91)):
        with pytest.raises(DecodeError, match="elements beyond the limit"):
            decode_value(octets, limits=Limits(elements=elements))


def test_empty_lists_of_an_array_are_lists_of_their_own() -> None:
    array = decode_value(bytes.fromhex("e0020245"))[0]
    array[0].append(1)
    assert array.items == [[1], []]


def test_the_count_is_cumulative_over_all_maps_of_a_performative() -> None:
    octets = amqp.Open(
        container_id="c", offered_capabilities=["a", "b"], properties={"p": [1, 2, 3], "q": {"r": 1}}
    ).encode()
    needed = next(n for n in range(100) if _fits(octets, Limits(elements=n)))
    assert needed == 2 + 4 + 3 + 2
    with pytest.raises(DecodeError, match="elements beyond the limit") as caught:
        decode_performative(octets, limits=Limits(elements=needed - 1))
    assert (caught.value.type, caught.value.field) == ("open", "properties")


def test_the_count_is_cumulative_over_all_sections_of_a_message() -> None:
    octets = encode_message(
        Message(
            message_annotations={"a": 1},
            application_properties={"b": 2},
            body=AmqpValue([3]),
            footer={"c": 4},
        )
    )
    assert decode_message(octets, limits=Limits(elements=7)).body == AmqpValue([3])
    with pytest.raises(DecodeError, match="elements beyond the limit"):
        decode_message(octets, limits=Limits(elements=6))


def _fits(octets: bytes, limits: Limits) -> bool:
    try:
        decode_performative(octets, limits=limits)
    except DecodeError:
        return False
    return True


def nested(levels: int) -> Any:
    value: Any = None
    for _ in range(levels):
        value = [value]
    return value


def test_the_limit_of_nesting() -> None:
    octets = encode_value(nested(64))
    assert decode_value(octets)[0] == nested(64)
    with pytest.raises(DecodeError, match="nested deeper than the limit") as caught:
        decode_value(encode_value(nested(65)))
    assert caught.value.type == "list"
    with pytest.raises(DecodeError, match="nested deeper than the limit"):
        decode_value(b"\x00" * 100_000)
    with pytest.raises(DecodeError, match="nested deeper than the limit"):
        decode_value(encode_value([]).replace(b"\x45", b"\xc0\x02\x01\x40"), limits=Limits(depth=0))


def test_the_default_depth_leaves_room_on_the_stack() -> None:
    octets = encode_value(nested(64))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    try:
        assert decode_value(octets)[1] == len(octets)
    finally:
        sys.setrecursionlimit(limit)


def compound(code: int, count: int, body: bytes) -> bytes:
    """A list or map in its form with four-octet size and count."""
    return bytes((code,)) + (len(body) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + body


def test_a_depth_beyond_the_stack_is_a_decode_error() -> None:
    octets, limits = b"\x40", Limits(depth=1_000_000)
    for _ in range(5000):
        octets = compound(0xD0, 1, octets)
    properties = compound(0xD1, 2, b"\xa3\x01k" + octets)
    fields = compound(0xD0, 10, b"\xa1\x01c" + b"\x40" * 8 + properties)
    with pytest.raises(DecodeError, match="the interpreter's stack"):
        decode_value(octets, limits=limits)
    with pytest.raises(DecodeError, match="the interpreter's stack"):
        decode_performative(b"\x00\x53\x10" + fields, limits=limits)
    with pytest.raises(DecodeError, match="the interpreter's stack"):
        decode_message(b"\x00\x53\x77" + octets, limits=limits)


# ---- what an error says ----


@pytest.mark.parametrize("performative", PERFORMATIVES, ids=lambda one: type(one).XML_NAME)
def test_errors_in_a_composite_name_its_type(performative: Any) -> None:
    octets = performative.encode()
    names = {type(performative).XML_NAME, *("source", "target", "error", "rejected", "modified")}
    for size in range(4, len(octets)):
        with pytest.raises(DecodeError) as caught:
            decode_performative(octets[:size])
        assert caught.value.type in names
        assert str(caught.value).startswith(caught.value.type or "?")
        check_error(caught.value, octets[:size])


def test_errors_name_type_field_and_offset() -> None:
    octets = amqp.Open(container_id="c", hostname="h", max_frame_size=5).encode()
    damaged = octets.replace(b"\x52\x05", b"\x50\x05")
    with pytest.raises(DecodeError) as caught:
        decode_performative(b"\xaa" + damaged, 1)
    error = caught.value
    assert (error.type, error.field, error.offset) == (
        "open",
        "max-frame-size",
        damaged.index(b"\x50\x05") + 1,
    )
    assert error.reason == "expected uint, found the constructor of ubyte"
    assert str(error) == f"open.max-frame-size: {error.reason} (at octet {error.offset})"


def test_a_field_is_told_from_the_octets_behind_its_list() -> None:
    with pytest.raises(DecodeError) as caught:
        decode_performative(bytes.fromhex("005310 c0 05 02 a1 05 63 63".replace(" ", "")) + b"ccc")
    assert (caught.value.type, caught.value.field) == ("open", "container-id")


def test_a_delivery_tag_that_is_cut_off_is_an_error_within_the_data() -> None:
    octets = bytes.fromhex("005314d00000003c0000000b700000010070ffffffffa0b8") + b"\xee" * 40
    with pytest.raises(DecodeError) as caught:
        decode_performative(octets)
    assert caught.value.type == "transfer"
    check_error(caught.value, octets)


@example(b"\x00\x45\x40")
@example(b"\x00\xc0\x02\x01\x40\x40")
@example(b"\x00\xd1\x00\x00\x00\x04\x00\x00\x00\x00\x40")
@example(b"\x00\x82\x40\x5c\x00\x00\x00\x00\x00\x00\x45")
@given(st.binary(max_size=12).map(lambda octets: b"\x00" + octets))
def test_descriptors_of_any_type(octets: bytes) -> None:
    """A descriptor may be any value by the grammar: a list, a double that equals the number of a section."""
    check_all(octets)
