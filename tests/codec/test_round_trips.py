"""Whatever can be said survives being encoded and decoded: values, composites, messages, frames."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpforge_protocol.amqp_1_0 import (
    DecodeError,
    Limits,
    Message,
    Transfer,
    decode_frame,
    decode_message,
    decode_performative,
    decode_value,
    encode_frame,
    encode_message,
    encode_value,
    registry,
)
from tests.codec import strategies
from tests.codec.sameness import same
from tests.codec.vectors import classes

NAMES = sorted(classes())
PERFORMATIVES: list[Any] = [*registry.FRAME.encoders, *registry.SASL_FRAME.encoders]
FRAMES = sorted(kind.XML_NAME for kind in PERFORMATIVES)


def test_the_strategies_know_every_class_of_the_package() -> None:
    assert len(NAMES) == 40
    assert len(FRAMES) == 14


@given(strategies.values)
def test_values(value: Any) -> None:
    octets = encode_value(value)
    again, behind = decode_value(octets)
    assert behind == len(octets)
    assert same(again, value)
    assert encode_value(again) == octets


@given(strategies.values, st.binary(max_size=3), st.binary(max_size=3))
def test_values_amid_other_octets(value: Any, before: bytes, after: bytes) -> None:
    octets = encode_value(value)
    again, behind = decode_value(before + octets + after, len(before))
    assert behind == len(before) + len(octets)
    assert same(again, value)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_composites(name: str, data: st.DataObject) -> None:
    value = data.draw(strategies.composites(name))
    octets = value.encode()
    again, behind = decode_value(octets)
    assert behind == len(octets)
    assert same(again, value)
    assert again.encode() == octets == encode_value(value)


@pytest.mark.parametrize("name", FRAMES)
@given(data=st.data())
def test_performatives_and_frames(name: str, data: st.DataObject) -> None:
    performative = data.draw(strategies.composites(name))
    again, payload = decode_performative(performative.encode() + b"rest")
    assert same(again, performative)
    assert payload == len(performative.encode())
    channel = 0 if name.startswith("sasl") else data.draw(st.integers(0, 0xFFFF))
    carried = data.draw(st.binary(max_size=4)) if type(performative) is Transfer else b""
    octets = encode_frame(performative, channel, carried)
    frame, behind = decode_frame(octets)
    assert behind == len(octets)
    assert same(frame.performative, performative)
    assert (frame.channel or 0, frame.payload) == (channel, carried)


@given(strategies.messages())
def test_messages(message: Message) -> None:
    octets = encode_message(message)
    again = decode_message(octets)
    assert again.bare is not None
    assert again.bare in octets
    again.bare = None
    assert same(again, message)
    assert encode_message(again) == octets


@given(strategies.messages())
def test_strict_decoding_takes_all_that_we_emit(message: Message) -> None:
    octets = encode_message(message)
    assert same(decode_message(octets, limits=Limits(strict=True)), decode_message(octets))


@given(strategies.values, st.integers(0, 3))
def test_the_limit_of_nesting_is_that_of_the_value(value: Any, less: int) -> None:
    octets = encode_value(value)
    depth = _depth(octets)
    assert same(decode_value(octets, limits=Limits(depth=depth + less))[0], value)
    if less < depth:
        with pytest.raises(DecodeError, match="nested deeper"):
            decode_value(octets, limits=Limits(depth=depth - 1 - less))


def _depth(octets: bytes) -> int:
    """The least limit under which a value decodes."""
    for depth in range(64):
        try:
            decode_value(octets, limits=Limits(depth=depth))
        except DecodeError:
            continue
        return depth
    raise AssertionError("deeper than any limit")
