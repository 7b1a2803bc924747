"""Every method and every description of contents survives being encoded and decoded; nothing else decodes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codec.method_objects import (
    DIALECTS,
    content_classes,
    dialect_name,
    every,
    example_of,
    method_classes,
    name_of,
    objects,
    struct_classes,
)

METHODS = every(method_classes)
CONTENTS = every(content_classes)


@pytest.mark.spec("A-FRAME-010", "A-CLIENT-002")
@pytest.mark.parametrize(("dialect", "kind"), METHODS, ids=name_of)
@given(st.data())
def test_every_method(dialect: Any, kind: Any, data: st.DataObject) -> None:
    method = data.draw(objects(dialect, kind))
    octets = method.encode()
    assert octets[:4] == kind.CLASS_ID.to_bytes(2, "big") + kind.METHOD_ID.to_bytes(2, "big")
    decoded = dialect.decode_method(octets)
    assert type(decoded) is kind
    assert decoded == method
    assert decoded.encode() == octets
    assert dialect.decode_method(b"\xff" * 3 + octets, 3) == method
    frame = dialect.encode_frame(method, 7)
    assert dialect.decode_frame(frame) == (dialect.Frame(dialect.FrameType.METHOD, 7, method), len(frame))


@pytest.mark.parametrize(("dialect", "kind"), CONTENTS, ids=name_of)
@given(st.data())
def test_every_description_of_contents(dialect: Any, kind: Any, data: st.DataObject) -> None:
    header = dialect.ContentHeader(
        data.draw(objects(dialect, kind)),
        data.draw(st.integers(0, (1 << 64) - 1)),
        data.draw(st.integers(0, (1 << 16) - 1)),
    )
    octets = header.encode()
    decoded = dialect.decode_content_header(octets)
    assert decoded == header
    assert type(decoded.properties) is kind
    assert decoded.encode() == octets
    assert dialect.decode_content_header(b"\0" + octets, 1) == header
    frame = dialect.encode_frame(header, 65535)
    assert dialect.decode_frame(frame) == (dialect.Frame(dialect.FrameType.HEADER, 65535, header), len(frame))


@pytest.mark.spec("A-FRAME-010")
@pytest.mark.parametrize(("dialect", "kind"), METHODS, ids=name_of)
def test_a_method_that_is_cut_short_or_has_more_behind_it(dialect: Any, kind: Any) -> None:
    method = example_of(dialect, kind)
    octets = method.encode()
    names = {info.name for info in kind.FIELDS}
    for size in range(len(octets)):
        with pytest.raises(dialect.DecodeError) as caught:
            dialect.decode_method(octets[:size])
        error = caught.value
        assert error.offset is not None
        assert 0 <= error.offset <= size
        if size >= 4:
            assert error.field in names or error.type != kind.XML_NAME
    with pytest.raises(dialect.DecodeError, match=f"{kind.XML_NAME}: 2 octets follow its arguments"):
        dialect.decode_method(octets + b"\0\0")


@pytest.mark.parametrize(("dialect", "kind"), METHODS, ids=name_of)
def test_the_field_that_is_cut_short_is_named(dialect: Any, kind: Any) -> None:
    """Octet by octet the fields are named in their order, and none that has octets of its own is left out."""
    octets = example_of(dialect, kind).encode()
    named: list[str | None] = []
    for size in range(4, len(octets)):
        with pytest.raises(dialect.DecodeError) as caught:
            dialect.decode_method(octets[:size])
        if caught.value.type == kind.XML_NAME and (not named or named[-1] != caught.value.field):
            named.append(caught.value.field)
    order = [info.name for info in kind.FIELDS]
    places = [order.index(name) for name in named]
    assert places == sorted(places)
    structs = struct_classes(dialect)
    bits = [info.primitive == "bit" for info in kind.FIELDS]
    with_octets = [
        info.name
        for info, is_bit, follows_bit in zip(kind.FIELDS, bits, [False, *bits], strict=False)
        if not (is_bit and follows_bit) and info.type not in structs
    ]
    assert set(with_octets) <= set(named)


@pytest.mark.parametrize(("dialect", "kind"), CONTENTS, ids=name_of)
def test_a_content_header_that_is_cut_short_or_has_more_behind_it(dialect: Any, kind: Any) -> None:
    octets = dialect.ContentHeader(example_of(dialect, kind), 5).encode()
    for size in range(len(octets)):
        if size in (14, 14 + 4 + int.from_bytes(octets[14:18], "big")) and kind.XML_NAME.endswith(".structs"):
            continue  # as many structs as there are: none, or the first
        with pytest.raises(dialect.DecodeError) as caught:
            dialect.decode_content_header(octets[:size])
        assert caught.value.offset is not None
        assert 0 <= caught.value.offset <= size
    with pytest.raises(dialect.DecodeError):
        dialect.decode_content_header(octets + b"\0")


@pytest.mark.parametrize("dialect", DIALECTS, ids=dialect_name)
@given(st.data())
def test_changed_octets_give_a_frame_or_a_decode_error(dialect: Any, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(method_classes(dialect) + content_classes(dialect)))
    payload = example_of(dialect, kind)
    if kind in content_classes(dialect):
        payload = dialect.ContentHeader(payload, 3)
    octets = bytearray(dialect.encode_frame(payload, 1))
    for _ in range(data.draw(st.integers(1, 3))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    try:
        frame, end = dialect.decode_frame(bytes(octets))
    except dialect.DecodeError:
        return
    assert end <= len(octets)
    again = dialect.encode_frame(frame.payload, frame.channel)
    assert dialect.decode_frame(again)[0].payload == frame.payload


@pytest.mark.parametrize("dialect", DIALECTS, ids=dialect_name)
@given(st.binary(max_size=80))
def test_any_octets_give_a_method_or_a_decode_error(dialect: Any, octets: bytes) -> None:
    for number in (*list(dialect.METHODS)[::7], int.from_bytes(octets[:4], "big")):
        try:
            method = dialect.decode_method(number.to_bytes(4, "big") + octets)
        except dialect.DecodeError:
            continue
        assert dialect.decode_method(method.encode()) == method
