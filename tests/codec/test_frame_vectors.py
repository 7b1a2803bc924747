"""Whole frames and messages of other implementations: every field as described, and the same again after
encoding.
"""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge_protocol.amqp_1_0 import (
    AmqpSequence,
    AmqpValue,
    Data,
    DecodeError,
    EncodeError,
    FrameReader,
    Limits,
    Message,
    ProtocolHeader,
    decode_frame,
    decode_frame_header,
    decode_message,
    decode_performative,
    decode_protocol_header,
    decode_value,
    encode_frame,
    encode_message,
)
from tests.codec.described import assert_described
from tests.codec.sameness import same
from tests.codec.vectors import build, frames, of_kind

STRICT = Limits(strict=True)
BARE = ("properties", "application-properties", "data", "amqp-sequence", "amqp-value")


def test_all_rows_are_of_a_kind_that_is_tested() -> None:
    kinds = [row["decoded"]["kind"] for row in frames()]
    assert (kinds.count("frame"), kinds.count("sasl-frame")) == (140, 19)
    assert (kinds.count("message"), kinds.count("protocol-header")) == (40, 4)
    assert len(kinds) == 203


@pytest.mark.parametrize("row", of_kind("protocol-header"))
def test_protocol_header(row: dict[str, Any]) -> None:
    octets, told = bytes.fromhex(row["hex"]), row["decoded"]
    header, behind = decode_protocol_header(octets)
    assert behind == 8
    assert header == ProtocolHeader(told["id"], told["major"], told["minor"], told["revision"])
    assert header.encode() == octets


@pytest.mark.parametrize("row", of_kind("frame", "sasl-frame"))
def test_frame(row: dict[str, Any]) -> None:
    octets, told = bytes.fromhex(row["hex"]), row["decoded"]
    header = decode_frame_header(octets)
    assert (header.size, header.doff, header.type) == (told["size"], told["doff"], told["frame_type"])
    frame, behind = decode_frame(octets)
    assert behind == len(octets)
    assert frame.type == told["frame_type"]
    assert frame.channel == header.channel == (told["channel"] if told["kind"] == "frame" else None)
    assert frame.payload.hex() == told.get("payload_hex", "")
    if "performative" in told:
        assert_described(frame.performative, told["performative"])
        performative, payload = decode_performative(octets, told["doff"] * 4)
        assert performative == frame.performative
        assert octets[payload:] == frame.payload
    else:
        assert frame.performative is None


@pytest.mark.parametrize("row", of_kind("frame", "sasl-frame"))
def test_frame_encoded_again(row: dict[str, Any]) -> None:
    octets = bytes.fromhex(row["hex"])
    frame, _ = decode_frame(octets)
    again = encode_frame(frame.performative, frame.channel or 0, frame.payload)
    assert decode_frame(again) == (frame, len(again))
    assert len(again) <= len(octets)
    assert encode_frame(frame.performative, frame.channel or 0, frame.payload) == again


def test_frames_are_found_in_the_stream_that_they_make() -> None:
    rows = [bytes.fromhex(row["hex"]) for row in frames() if row["decoded"]["kind"] != "message"]
    assert FrameReader(max_frame_size=1 << 20).feed(b"".join(rows)) == rows


ORDER = (
    *("header", "delivery-annotations", "message-annotations", "properties", "application-properties"),
    *("data", "amqp-sequence", "amqp-value", "footer"),
)


def sections(message: Message) -> list[tuple[str, Any]]:
    """The sections of a message by name, in the order of the specification; those that stand for nothing
    left out.
    """
    found: list[tuple[str, Any]] = [
        ("header", message.header),
        ("delivery-annotations", message.delivery_annotations or None),
        ("message-annotations", message.message_annotations or None),
        ("properties", message.properties),
        ("application-properties", message.application_properties or None),
    ]
    body = message.body
    for section in body if isinstance(body, list) else [body] * (body is not None):
        assert isinstance(section, AmqpValue | Data | AmqpSequence)
        found.append((type(section).XML_NAME, section.value))
    found.append(("footer", message.footer or None))
    return [(name, value) for name, value in found if value is not None or name == "amqp-value"]


def told_sections(row: dict[str, Any]) -> list[tuple[str, Any]]:
    """The described sections in the order of the specification, but for empty maps, which say as much as
    none.
    """
    told = [(one["section"], one["value"]) for one in row["decoded"]["sections"]]
    told = [(name, typed) for name, typed in told if typed != {"type": "map", "value": []}]
    return sorted(told, key=lambda one: ORDER.index(one[0]))


@pytest.mark.parametrize("row", of_kind("message"))
def test_message(row: dict[str, Any]) -> None:
    found, told = sections(decode_message(bytes.fromhex(row["hex"]))), told_sections(row)
    assert [name for name, _ in found] == [name for name, _ in told]
    for (_, value), (_, typed) in zip(found, told, strict=True):
        assert_described(value, typed)


def bare_octets(octets: bytes) -> list[bytes]:
    """The runs of sections of the bare message, found by walking over the sections as values."""
    runs: list[bytes] = []
    pos, was_bare = 0, False
    while pos < len(octets):
        section, behind = decode_value(octets, pos)
        is_bare = type(section).XML_NAME in BARE
        if is_bare and was_bare:
            runs[-1] += octets[pos:behind]
        elif is_bare:
            runs.append(octets[pos:behind])
        pos, was_bare = behind, is_bare
    return runs


# What these peers wrote is not what we would: no body, or a content-encoding for a body that is not of data
# sections.
NOT_WRITTEN_BY_US = {
    ("message/header-all", "qpid-proton-python 0.40.0"): "message.body: a message has a body",
    (
        "message/props-all",
        "qpid-proton-python 0.40.0",
    ): "properties.content-encoding: is only for a body of data",
    (
        "message/props-all",
        "qpid-proton-python 0.41.0-dev",
    ): "properties.content-encoding: is only for a body of data",
    ("message/props-all", "rhea 3.0.5"): "properties.content-encoding: is only for a body of data",
}


@pytest.mark.parametrize("row", of_kind("message"))
@pytest.mark.spec("M-FORMAT-002")
def test_the_bare_message_is_kept_octet_for_octet(row: dict[str, Any]) -> None:
    octets = bytes.fromhex(row["hex"])
    runs = bare_octets(octets)
    message = decode_message(octets)
    if len(runs) > 1:  # a footer in front of the body: there are no octets of a bare message to keep
        assert message.bare is None
        return
    assert message.bare == runs[0]
    again = encode_message(message)
    assert bare_octets(again) == runs
    assert decode_message(again) == message
    assert len(again) <= len(octets)


@pytest.mark.parametrize("row", of_kind("message"))
def test_a_message_made_anew_says_the_same(row: dict[str, Any]) -> None:
    octets = bytes.fromhex(row["hex"])
    message = decode_message(octets)
    message.bare = None
    refused = NOT_WRITTEN_BY_US.get((row["name"], row["encoder"]))
    if refused is not None:
        with pytest.raises(EncodeError, match=refused):
            encode_message(message)
        return
    again = encode_message(message)
    assert decode_message(again) == message
    assert len(again) <= len(octets)


def test_peers_put_a_footer_before_the_body_and_annotations_behind_it() -> None:
    rows = {row["name"]: bytes.fromhex(row["hex"]) for row in frames() if row["decoded"]["kind"] == "message"}
    assert decode_message(rows["message/delivery-annotations-last"]).delivery_annotations == {"x-opt-d": 1}
    with pytest.raises(DecodeError, match="delivery-annotations is out of order"):
        decode_message(rows["message/delivery-annotations-last"], limits=STRICT)


def test_the_description_is_compared_with_care() -> None:
    """The comparison itself tells wire types apart, so that the tests above mean something."""
    assert not same(build({"type": "uint", "value": 1}), build({"type": "ulong", "value": "1"}))
    assert not same(
        build({"type": "double", "value": "0x0000000000000000"}),
        build({"type": "double", "value": "0x8000000000000000"}),
    )
    with pytest.raises(AssertionError):
        assert_described([1], {"type": "list", "value": [{"type": "int", "value": 1}]})
