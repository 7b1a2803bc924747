"""Whatever the draft's operations can say survives being encoded and decoded, alone and in frames.

Values are drawn from the facts that the classes carry (``FIELDS``), so an operation that is added to the
definitions is covered without a line here.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqpforge_protocol.amqp_1_0_draft import (
    OPERATIONS,
    DecodeError,
    FieldInfo,
    FrameReader,
    FrameType,
)
from tests.codec.draft_vectors import FRAMES, VECTORS, draft

decode_frame: Any = draft.decode_frame
decode_operation: Any = draft.decode_operation
encode_frame: Any = draft.encode_frame

Strategy = st.SearchStrategy[Any]

NUMBERS = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64, "sequence-no": 32}
OCTETS = {"vbin8": 0xFF, "vbin16": 0xFFFF, "vbin32": 0xFFFF}
TEXTS = ("str8", "str16")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | texts | st.uuids() | st.integers(-(1 << 63), (1 << 63) - 1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
"""What a map can hold; the codec's own tests know every type."""


def _records() -> dict[str, Any]:
    """The classes that have fields, and the enumerations, by the specification's name of their type."""
    found: dict[str, Any] = {}
    for name in draft.__all__:
        member = getattr(draft, name)
        if not isinstance(member, type):
            continue
        if hasattr(member, "XML_NAME"):
            found[member.XML_NAME] = member
        elif issubclass(member, IntEnum):
            kebab = "".join("-" + letter.lower() if letter.isupper() else letter for letter in name)
            found[kebab.lstrip("-")] = member
    return found


RECORDS = _records()


def _one(info: FieldInfo) -> Strategy:
    if info.type in RECORDS:
        kind = RECORDS[info.type]
        return st.sampled_from(list(kind)) if issubclass(kind, IntEnum) else records(info.type)
    if info.primitive == "bit":
        return st.booleans()
    if info.primitive in NUMBERS:
        high = (1 << NUMBERS[info.primitive]) - 1
        drawn = st.sampled_from((0, 1, 0x7F, 0x80, high)) | st.integers(0, high)
        return drawn.map(draft.SerialNumber) if info.primitive == "sequence-no" else drawn
    if info.primitive in OCTETS:
        return st.binary(max_size=20) | st.just(b"\xff" * OCTETS[info.primitive])
    if info.primitive in TEXTS:
        return texts
    if info.primitive == "timestamp":
        return st.integers(-(1 << 63), (1 << 63) - 1).map(draft.Timestamp)
    if info.primitive == "map":
        return st.dictionaries(texts, values, max_size=3)
    raise AssertionError(f"no strategy for {info}")


@cache
def records(name: str) -> Strategy:
    """Objects of the class with one of the specification's names."""
    kind = RECORDS[name]
    required: dict[str, Strategy] = {}
    optional: dict[str, Strategy] = {}
    for info in kind.FIELDS:
        drawn = st.lists(_one(info), min_size=1, max_size=3) if info.multiple else _one(info)
        (required if info.mandatory else optional)[info.attribute] = drawn
    return st.fixed_dictionaries(required, optional=optional).map(lambda arguments: kind(**arguments))


NAMES = [kind.XML_NAME for kind in OPERATIONS.values()]
operations = st.sampled_from(NAMES).flatmap(records)


def test_the_strategies_know_every_class() -> None:
    assert len(NAMES) == 21
    assert {"exception", "header", "footer", "message-properties", "xid"} <= set(RECORDS)
    for name in NAMES:
        assert records(name) is not None


@pytest.mark.spec("D-FRAME-009", "D-STRUCT-001")
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_operations(name: str, data: st.DataObject) -> None:
    operation = data.draw(records(name))
    octets = operation.encode()
    again, behind = decode_operation(octets)
    assert behind == len(octets)
    assert type(again) is type(operation)
    assert again == operation
    assert again.encode() == octets
    before = data.draw(st.binary(max_size=3))
    assert decode_operation(before + octets + before, len(before)) == (operation, len(before) + len(octets))


@given(
    operations,
    st.integers(0, 0xFFFF),
    st.integers(0, 3),
    st.lists(st.integers(0, 0xFFFFFFFF), min_size=4, max_size=4),
)
def test_frames(operation: Any, channel: int, flags: int, numbers: list[int]) -> None:
    state: dict[str, int] = {}
    if operation.KIND == "command":
        names = ("acknowledged", "executed", "capacity", "command_id")
        state = {"flags": flags, **dict(zip(names, numbers, strict=True))}
    octets = encode_frame(operation, channel, **state)
    found, behind = decode_frame(octets)
    assert behind == len(octets)
    assert found == draft.Frame(FrameType[operation.KIND.upper()], channel, operation, **state)
    reader = FrameReader(max_frame_size=1 << 20)
    items = [item for at in range(len(octets)) for item in reader.feed(octets[at : at + 1])]
    assert items == [octets]


@given(operations, st.data())
def test_operations_cut_short(operation: Any, data: st.DataObject) -> None:
    octets = operation.encode()
    size = data.draw(st.integers(0, len(octets) - 1))
    with pytest.raises(DecodeError):
        decode_operation(octets[:size])
    with pytest.raises(DecodeError):
        decode_frame(encode_frame(operation)[: 24 + size])


def refusal(decode: Any, octets: bytes) -> DecodeError | None:
    """Why octets cannot be decoded, or None; what they decode to ends inside them."""
    try:
        _, behind = decode(octets)
    except DecodeError as error:
        return error
    assert behind <= len(octets)
    return None


def check(octets: bytes) -> None:
    """Octets give an operation that can be written and read again, or a DecodeError inside them."""
    error = refusal(decode_operation, octets)
    if error is None:
        found, _ = decode_operation(octets)
        again, _ = decode_operation(found.encode())
        assert repr(again) == repr(found)
    else:
        assert error.offset is None or 0 <= error.offset <= len(octets)
        assert str(error)


@example(b"")
@given(st.binary(max_size=64))
def test_any_octets_are_an_operation_or_a_decode_error(octets: bytes) -> None:
    check(octets)
    check(len(octets).to_bytes(4, "big") + octets)


@st.composite
def damaged(draw: st.DrawFn, samples: list[bytes]) -> bytes:
    """One of the samples with up to four octets changed."""
    octets = bytearray(draw(st.sampled_from(samples)))
    for at in draw(st.lists(st.integers(0, len(octets) - 1), min_size=1, max_size=4)):
        octets[at] = draw(st.integers(0, 255))
    return bytes(octets)


@given(damaged([vector.octets for vector in VECTORS.values()]))
def test_damaged_operations(octets: bytes) -> None:
    check(octets)


@given(damaged([vector.octets for vector in FRAMES]))
def test_damaged_frames(octets: bytes) -> None:
    error = refusal(decode_frame, octets)
    assert error is None or error.offset is None or 0 <= error.offset <= len(octets)
