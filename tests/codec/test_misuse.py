"""What a program that uses the package wrongly is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqpforge_protocol._support.errors import shown
from amqpforge_protocol.amqp_1_0 import (
    Data,
    EncodeError,
    Message,
    Open,
    Transfer,
    decode_frame,
    decode_message,
    decode_performative,
    decode_value,
    encode_message,
    encode_value,
)


def test_a_long_value_is_cut_short_in_messages() -> None:
    assert shown("x") == "'x'"
    assert shown(b"x" * 10**6) == "b'" + "x" * 118 + "..."
    wrong: Any = b"x" * 10**6
    with pytest.raises(EncodeError) as caught:
        Open(container_id=wrong).encode()
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("decode", [decode_value, decode_message, decode_performative, decode_frame])
@pytest.mark.parametrize("data", [5, [0x41], "A", None], ids=repr)
def test_what_is_not_bytes_like_is_not_decoded(decode: Callable[[Any], Any], data: object) -> None:
    with pytest.raises(TypeError, match="bytes-like"):
        decode(data)


@pytest.mark.parametrize("handle", ["x", 1.0, -1, 2**32], ids=repr)
def test_a_field_says_what_type_it_wants(handle: Any) -> None:
    with pytest.raises(EncodeError) as caught:
        Transfer(handle=handle).encode()
    assert str(caught.value) == f"transfer.handle: {handle!r} is not a value of type uint"


@pytest.mark.parametrize("body", [Data(b"x"), b"x", [b"x"], []], ids=repr)
def test_a_body_says_what_it_may_be(body: Any) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_message(Message(body=body))
    expected = "is not a body; expected a list of Data, a list of AmqpSequence, or one AmqpValue"
    assert caught.value.reason.endswith(expected)


def test_a_value_that_contains_itself_is_an_encode_error() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(EncodeError, match="nested deeper"):
        encode_value(value)
    with pytest.raises(EncodeError) as caught:
        Open(container_id="c", properties={"p": value}).encode()
    assert (caught.value.type, caught.value.field) == ("open", "properties")
