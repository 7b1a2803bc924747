"""Protocol headers, frames, and the reader that finds them in a stream (sections 2.2 and 2.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpforge_protocol.amqp_1_0 import (
    DecodeError,
    EncodeError,
    Frame,
    FrameHeader,
    FrameReader,
    FrameType,
    ProtocolHeader,
    ProtocolId,
    decode_frame,
    decode_frame_header,
    decode_performative,
    decode_protocol_header,
    encode_frame,
    encode_value,
    registry,
)
from tests.codec.objects import amqp
from tests.codec.vectors import classes

BEGIN: Any = amqp.Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=2)
TRANSFER: Any = amqp.Transfer(handle=0, delivery_id=1, delivery_tag=b"t", message_format=0)
SASL: Any = amqp.SaslInit(mechanism="ANONYMOUS")


def frame(
    body: bytes, *, doff: int = 2, size: int | None = None, kind: int = 0, extended: bytes = b""
) -> bytes:
    """A frame of arbitrary parts on channel 258."""
    actual = 8 + len(extended) + len(body)
    claimed = actual if size is None else size
    return claimed.to_bytes(4, "big") + bytes((doff, kind, 1, 2)) + extended + body


# ---- protocol headers ----


@pytest.mark.spec("T-HDR-002")
def test_the_layout_of_a_protocol_header() -> None:
    assert ProtocolHeader().encode() == bytes.fromhex("414d515000010000")
    assert ProtocolHeader(ProtocolId.SASL, 1, 2, 3).encode() == b"AMQP\x03\x01\x02\x03"
    assert decode_protocol_header(b"AMQP\x00\x01\x00\x00rest") == (ProtocolHeader(0, 1, 0, 0), 8)
    assert decode_protocol_header(b"..AMQP\x02\x07\x08\x09", 2) == (ProtocolHeader(2, 7, 8, 9), 10)


@pytest.mark.spec("T-HDR-002")
@pytest.mark.parametrize(
    "octets", [b"amqp\x00\x01\x00\x00", b"AMQp\x00\x01\x00\x00", b"HTTP/1.1", b"A", b"AMQX"]
)
def test_a_protocol_header_begins_with_capitals(octets: bytes) -> None:
    if octets == b"A":
        with pytest.raises(DecodeError, match="ends inside"):
            decode_protocol_header(octets)
        return
    with pytest.raises(DecodeError, match="AMQP in capitals"):
        decode_protocol_header(octets)


@pytest.mark.parametrize("size", range(8))
def test_part_of_a_protocol_header(size: int) -> None:
    with pytest.raises(DecodeError):
        decode_protocol_header(ProtocolHeader().encode()[:size])


@pytest.mark.parametrize("number", [-1, 256])
def test_a_number_of_a_protocol_header_is_an_octet(number: int) -> None:
    with pytest.raises(EncodeError, match="not an octet"):
        ProtocolHeader(minor=number).encode()


# ---- the parts of a frame ----


@pytest.mark.spec("T-FRAME-006")
@pytest.mark.parametrize(("size", "doff"), [(8, 3), (11, 3), (8, 255), (1000, 251)])
def test_a_body_offset_beyond_the_size_is_malformed(size: int, doff: int) -> None:
    octets = frame(b"", doff=doff, size=size) + b"\x00" * 2000
    for decode in DECODERS:
        with pytest.raises(DecodeError, match=f"a DOFF of {doff} puts the body outside") as caught:
            decode(octets)
        assert caught.value.offset == 4 or decode is feed


@pytest.mark.spec("T-FRAME-006")
def test_the_body_reaches_from_its_offset_to_the_size() -> None:
    body = TRANSFER.encode() + b"payload"
    for words in (2, 3, 7, 255):
        octets = frame(body, doff=words, extended=bytes(words * 4 - 8))
        found, behind = decode_frame(octets + b"next")
        assert behind - words * 4 == len(body)
        assert found.payload == b"payload"


@pytest.mark.spec("T-FRAME-007")
@pytest.mark.parametrize("performative", [None, BEGIN, TRANSFER, SASL])
def test_the_size_counts_every_octet(performative: Any) -> None:
    payload = b"x" * 300 if performative is TRANSFER else b""
    octets = encode_frame(performative, payload=payload)
    assert int.from_bytes(octets[:4], "big") == len(octets)
    assert decode_frame_header(octets).size == len(octets)
    extended = frame(BEGIN.encode(), doff=3, extended=b"more")
    assert decode_frame_header(extended).size == len(extended) == 8 + 4 + len(BEGIN.encode())


def feed(octets: bytes) -> object:
    return FrameReader(max_frame_size=0xFFFFFFFF).feed(octets)


DECODERS: list[Callable[[bytes], object]] = [decode_frame, decode_frame_header, feed]


@pytest.mark.spec("T-FRAME-008")
@pytest.mark.parametrize("size", range(8))
def test_a_size_below_that_of_the_header_is_malformed(size: int) -> None:
    octets = frame(BEGIN.encode(), size=size)
    for decode in DECODERS:
        with pytest.raises(DecodeError, match=f"a frame of {size} octets is smaller than its own header"):
            decode(octets)


@pytest.mark.spec("T-FRAME-009", "T-FRAME-015")
@pytest.mark.parametrize("extended", [b"", b"junk", BEGIN.encode()[:8], b"\xff" * 8, bytes(1012)])
def test_an_extended_header_is_skipped(extended: bytes) -> None:
    doff = 2 + len(extended) // 4
    octets = frame(TRANSFER.encode() + b"pay", doff=doff, extended=extended)
    assert decode_frame(octets)[0] == Frame(0, 258, TRANSFER, b"pay")
    assert feed(octets) == [octets]


@pytest.mark.spec("T-FRAME-009")
def test_words_before_the_body_are_of_four_octets() -> None:
    body = BEGIN.encode()
    two = decode_frame(frame(body))[0]
    four = decode_frame(frame(body, doff=4, extended=b"12345678"))[0]
    assert two == four
    with pytest.raises(DecodeError):
        decode_frame(frame(body, doff=3, extended=b"12345678"))


@pytest.mark.spec("T-FRAME-010")
@pytest.mark.parametrize("doff", [0, 1])
def test_a_body_inside_the_header_is_malformed(doff: int) -> None:
    for decode in DECODERS:
        with pytest.raises(DecodeError, match=f"a DOFF of {doff} "):
            decode(frame(BEGIN.encode(), doff=doff))


@pytest.mark.spec("T-FRAME-011")
def test_what_the_last_octets_of_the_header_mean_depends_on_the_type() -> None:
    amqp_frame, sasl_frame = frame(BEGIN.encode()), frame(SASL.encode(), kind=1)
    assert amqp_frame[6:8] == sasl_frame[6:8] == b"\x01\x02"
    assert decode_frame(amqp_frame)[0] == Frame(FrameType.AMQP, 258, BEGIN)
    assert decode_frame(sasl_frame)[0] == Frame(FrameType.SASL, None, SASL)
    assert decode_frame_header(amqp_frame) == FrameHeader(len(amqp_frame), 2, 0, 258)
    assert decode_frame_header(sasl_frame) == FrameHeader(len(sasl_frame), 2, 1, None)
    assert encode_frame(BEGIN)[5] == 0
    assert encode_frame(SASL)[5] == 1


@pytest.mark.spec("T-FRAME-011")
@pytest.mark.parametrize("kind", [2, 3, 255])
def test_other_types_are_not_known(kind: int) -> None:
    octets = frame(BEGIN.encode(), kind=kind)
    assert decode_frame_header(octets).channel is None
    with pytest.raises(DecodeError, match=f"type {kind} is neither AMQP nor SASL"):
        decode_frame(octets)


@pytest.mark.spec("T-FRAME-011")
@pytest.mark.parametrize(("performative", "kind"), [(BEGIN, 1), (SASL, 0)])
def test_a_performative_belongs_into_frames_of_its_type(performative: Any, kind: int) -> None:
    with pytest.raises(DecodeError, match="does not belong into a frame of type"):
        decode_frame(frame(performative.encode(), kind=kind))


@pytest.mark.spec("T-FRAME-012")
@pytest.mark.parametrize("channel", [0, 1, 258, 65535])
def test_the_channel(channel: int) -> None:
    octets = encode_frame(BEGIN, channel)
    assert octets[6:8] == channel.to_bytes(2, "big")
    assert decode_frame(octets)[0].channel == channel


@pytest.mark.parametrize("channel", [-1, 65536])
def test_a_channel_out_of_range(channel: int) -> None:
    with pytest.raises(EncodeError, match="out of range"):
        encode_frame(BEGIN, channel)


def test_a_sasl_frame_has_no_channel() -> None:
    with pytest.raises(EncodeError, match="a SASL frame has no channel"):
        encode_frame(SASL, 1)


# ---- what a frame says ----

NINE = {"open", "begin", "attach", "flow", "transfer", "disposition", "detach", "end", "close"}


@pytest.mark.spec("T-FRAME-013")
def test_the_body_opens_with_one_of_nine_performatives() -> None:
    members: list[Any] = list(registry.FRAME.encoders)
    assert {kind.XML_NAME for kind in members} == NINE
    accepted = set()
    others = {name: kind for name, kind in classes().items() if kind not in registry.SASL_FRAME.encoders}
    for name, kind in others.items():
        body = b"\x00\x53" + bytes((kind.DESCRIPTOR,)) + b"\x45"
        try:
            decode_frame(frame(body))
        except DecodeError as error:
            if error.type == name:  # Known here, but for the fields that it has to have.
                accepted.add(name)
        else:
            accepted.add(name)
    assert accepted == NINE


@pytest.mark.spec("T-FRAME-013")
@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x53\x19\x45",
        b"\x00\x80\x00\x00\x00\x01\x00\x00\x00\x10\xc0\x04\x01\xa1\x01c",
        encode_value(amqp.Symbol("amqp:open:list")),
        encode_value("open"),
        encode_value([]),
        b"\x00\xa3\x0famqp:open:list2\xc0\x04\x01\xa1\x01c",
        b"\x00\x52\x10\xc0\x04\x01\xa1\x01c",
        b"\x00\x45\x45",
        encode_value(amqp.Accepted()),
    ],
)
def test_nothing_else_may_open_the_body(body: bytes) -> None:
    for decode in (decode_performative, lambda octets: decode_frame(frame(octets))):
        with pytest.raises(DecodeError, match=r"starts with a performative|not that of a performative"):
            decode(body)


@pytest.mark.spec("T-FRAME-014")
def test_only_a_transfer_carries_what_follows_it() -> None:
    for performative in (BEGIN, TRANSFER):
        found = decode_frame(frame(performative.encode() + b"12345"))[0]
        assert found.performative == performative
        assert found.payload == (b"12345" if performative is TRANSFER else b"")
        assert decode_performative(performative.encode() + b"12345")[1] == len(performative.encode())
    with pytest.raises(EncodeError, match="performative that carries none"):
        encode_frame(BEGIN, payload=b"12345")
    with pytest.raises(DecodeError, match="octets follow the performative of a SASL frame"):
        decode_frame(frame(SASL.encode() + b"12345", kind=1))


@pytest.mark.spec("T-FRAME-016")
def test_a_frame_without_a_body() -> None:
    octets = bytes.fromhex("0000000802000000")
    assert decode_frame(octets) == (Frame(0, 0, None), 8)
    assert feed(octets) == [octets]
    assert encode_frame(None) == octets
    assert decode_frame(frame(b"", doff=3, extended=b"skip"))[0] == Frame(0, 258, None)
    with pytest.raises(DecodeError):
        decode_frame(frame(b"", kind=1))


def test_a_frame_that_is_not_all_there() -> None:
    octets = encode_frame(BEGIN)
    with pytest.raises(DecodeError, match=f"ends at octet {len(octets)}, the data at {len(octets) - 1}"):
        decode_frame(octets[:-1])


def test_a_performative_does_not_read_beyond_its_frame() -> None:
    octets = encode_frame(BEGIN)
    shortened = (len(octets) - 1).to_bytes(4, "big") + octets[4:]
    with pytest.raises(DecodeError):
        decode_frame(shortened)


def test_what_is_no_performative_makes_no_frame() -> None:
    with pytest.raises(EncodeError, match="expected Attach, Begin"):
        encode_frame(amqp.Accepted())


# ---- streams ----

ITEMS = [
    ProtocolHeader(ProtocolId.SASL).encode(),
    encode_frame(SASL),
    ProtocolHeader().encode(),
    encode_frame(None),
    encode_frame(BEGIN, 3),
    encode_frame(TRANSFER, 3, bytes(300)),
    frame(BEGIN.encode(), doff=3, extended=b"AMQP"),
]
STREAM = b"".join(ITEMS)


@pytest.mark.spec("T-FRAME-002")
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 8, 9, 64, len(STREAM)])
def test_items_are_found_however_the_stream_is_chunked(chunk: int) -> None:
    reader = FrameReader()
    found = [item for at in range(0, len(STREAM), chunk) for item in reader.feed(STREAM[at : at + chunk])]
    assert found == ITEMS
    assert (reader.pending, reader.offset) == (0, len(STREAM))


@pytest.mark.spec("T-FRAME-002")
@given(st.lists(st.integers(0, len(STREAM))))
def test_items_are_found_behind_any_cuts(cuts: list[int]) -> None:
    reader, found, start = FrameReader(), [], 0
    for cut in [*sorted(cuts), len(STREAM)]:
        found += reader.feed(memoryview(STREAM)[start:cut])
        start = cut
    assert found == ITEMS


def test_an_item_comes_out_with_its_last_octet() -> None:
    for item in ITEMS:
        reader = FrameReader()
        assert reader.feed(item[:-1]) == []
        assert reader.pending == len(item) - 1
        assert reader.feed(item[-1:]) == [item]


@pytest.mark.spec("T-FRAME-021")
def test_frames_of_512_octets_are_always_read() -> None:
    largest = encode_frame(TRANSFER, payload=bytes(512 - len(encode_frame(TRANSFER))))
    assert len(largest) == 512
    reader = FrameReader()
    assert reader.feed(largest) == [largest]
    reader.max_frame_size = 1 << 20
    assert reader.feed(largest) == [largest]


def test_a_frame_beyond_the_limit_is_refused_when_its_header_is_there() -> None:
    reader = FrameReader()
    larger = encode_frame(TRANSFER, payload=bytes(513 - len(encode_frame(TRANSFER))))
    assert reader.feed(ITEMS[0] + larger[:7]) == [ITEMS[0]]
    with pytest.raises(DecodeError, match="a frame of 513 octets exceeds the maximum of 512") as caught:
        reader.feed(larger[7:8])
    assert caught.value.offset == 8


def test_the_limit_may_be_changed_between_calls() -> None:
    reader = FrameReader()
    larger = encode_frame(TRANSFER, payload=bytes(2000))
    reader.max_frame_size = 4096
    assert reader.feed(larger) == [larger]
    reader.max_frame_size = 512
    with pytest.raises(DecodeError, match="exceeds the maximum"):
        reader.feed(larger)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_items_own_their_octets(kind: Callable[[Any], Any]) -> None:
    octets = bytearray(ITEMS[4])
    (item,) = FrameReader().feed(octets if kind is bytearray else kind(octets))
    octets[:] = bytes(len(octets))
    assert type(item) is bytes
    assert item == ITEMS[4]


def test_a_header_after_frames_is_found() -> None:
    """A size that spelled AMQP would be 1,095,586,128 octets: above any limit that is in use."""
    reader = FrameReader(max_frame_size=1 << 24)
    assert reader.feed(ITEMS[1] + ITEMS[2] + ITEMS[4]) == [ITEMS[1], ITEMS[2], ITEMS[4]]


def test_what_precedes_a_malformed_frame_is_not_lost() -> None:
    reader = FrameReader()
    assert reader.feed(ITEMS[0] + bytes(8)) == [ITEMS[0]]
    with pytest.raises(DecodeError) as caught:
        reader.feed(b"")
    assert caught.value.offset == len(ITEMS[0])
