"""What cannot be encoded for its depth or its size, in the dialects whose types have no constructors."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from amqpforge_protocol import amqp_0_9_1 as v091
from amqpforge_protocol import amqp_0_10_preview as preview
from amqpforge_protocol import amqp_1_0 as v1
from amqpforge_protocol import amqp_1_0_draft as draft

ENDLESS: dict[str, Any] = {}
ENDLESS["again"] = ENDLESS

ENCODERS: list[tuple[Callable[[], bytes], str]] = [
    (lambda: v091.encode_table(ENDLESS), ""),
    (lambda: v091.QueueDeclare(queue="q", arguments=ENDLESS).encode(), "queue.declare.arguments"),
    (lambda: v091.BasicProperties(headers=ENDLESS).encode(), "basic.properties.headers"),
    (lambda: v091.encode_frame(v091.QueueDeclare(queue="q", arguments=ENDLESS)), "queue.declare.arguments"),
    (lambda: preview.BasicProperties(headers=ENDLESS).encode(), "basic.properties.headers"),
    (lambda: draft.encode_map(ENDLESS), ""),
    (lambda: draft.SessionNoop(options=ENDLESS).encode(), "session.noop.options"),
    (lambda: v1.Open(container_id="c", properties={v1.Symbol("x"): ENDLESS}).encode(), "open.properties"),
]


@pytest.mark.parametrize(("encode", "place"), ENCODERS)
def test_what_contains_itself_is_an_encode_error(encode: Callable[[], bytes], place: str) -> None:
    with pytest.raises(ValueError, match=f"^{place}.*nested deeper than the interpreter's stack allows"):
        encode()


def deliver(**fields: Any) -> Any:
    return v091.BasicPublish(exchange="e", routing_key="k", **fields)


@pytest.mark.parametrize("body", [b"abcdefgh", bytearray(b"abcdefgh"), memoryview(b"abcdefgh").cast("I")])
def test_the_size_of_a_body_counts_octets(body: Any) -> None:
    octets = v091.encode_content(deliver(), v091.Content(v091.BasicProperties(), body), 1)
    assembler = v091.Assembler("client")
    found = [assembler.feed(v091.decode_frame(frame)[0].payload) for frame in v091.FrameReader().feed(octets)]
    assert found[-1] is not None
    assert found[-1][1] == v091.Content(v091.BasicProperties(), b"abcdefgh")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "None is not a content"),
        (v091.Content(None, b""), "not None"),  # type: ignore[arg-type]
        (v091.Content(v091.BasicProperties(), None), "basic.properties.body: None is not octets"),  # type: ignore[arg-type]
        (v091.Content(v091.BasicProperties(), "text"), "basic.properties.body: 'text' is not octets"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_content(content: Any, message: str) -> None:
    with pytest.raises(v091.EncodeError, match=message):
        v091.encode_content(deliver(), content, 1)


def test_a_header_that_fits_into_no_frame_is_refused() -> None:
    properties = v091.BasicProperties(headers={"x": "y" * 5000})
    with pytest.raises(v091.EncodeError, match=r"takes a frame of 50.. octets, where one may have 4096"):
        v091.encode_content(deliver(), v091.Content(properties, b""), 1)
    assert v091.encode_content(deliver(), v091.Content(properties, b""), 1, max_frame_size=8192)


def test_a_sequence_error_travels() -> None:
    error = v091.SequenceError("late", 505, type="basic.publish")
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(other), other.reply_code, other.type) == (str(error), 505, "basic.publish")


def test_a_table_that_overruns_the_one_around_it_says_so() -> None:
    octets = bytes.fromhex("00000007 0161 46 00000004 016249 00000001")
    with pytest.raises(v091.DecodeError, match="claims 4 octets, more than what holds it has left"):
        v091.decode_table(octets)


@pytest.mark.spec("P-delivery-tag/non-zero")
def test_a_server_gives_no_delivery_tag_of_zero() -> None:
    fields: dict[str, Any] = {"consumer_tag": "c", "redelivered": False, "exchange": "e", "routing_key": "k"}
    with pytest.raises(preview.EncodeError, match=r"basic.deliver.delivery-tag: .*ne 0"):
        preview.BasicDeliver(**fields, delivery_tag=0).encode()
    octets = preview.BasicDeliver(**fields, delivery_tag=1).encode()
    assert octets.count(bytes(7) + b"\x01") == 1
    with pytest.raises(preview.DecodeError, match=r"basic.deliver.delivery-tag: .*ne 0"):
        preview.decode_method(octets.replace(bytes(7) + b"\x01", bytes(8)))
