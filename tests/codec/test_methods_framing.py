"""Frames of the class/method dialects, and the reader that finds them in a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codec.method_objects import DIALECTS, dialect_name, example_of, preview, v091

PUBLISH = v091.BasicPublish(routing_key="k")
HEADER = v091.ContentHeader(v091.BasicProperties(priority=5), 3)
ENDS = b"\xce" * 9
FRAMES = [
    v091.encode_frame(PUBLISH, 1),
    v091.encode_frame(HEADER, 1),
    v091.encode_frame(ENDS, 1),
    v091.encode_frame(b"", 1),
    v091.encode_frame(None),
    v091.encode_frame(v091.ConnectionSecure(challenge=ENDS)),
]


def changed(octets: bytes, at: int, octet: int) -> bytes:
    return octets[:at] + bytes((octet,)) + octets[at + 1 :]


# ---- one frame ----


@pytest.mark.spec("A-FRAME-005", "A-FRAME-007")
def test_the_layout_of_frames() -> None:
    """Type, channel, size of the payload, payload, 0xce; the size counts the payload and nothing else."""
    assert FRAMES[0].hex(" ") == "01 00 01 00 00 00 09 00 3c 00 28 00 00 00 01 6b 00 ce".replace("09", "0a")
    assert FRAMES[1].hex(" ") == ("02 00 01 00 00 00 0f 00 3c 00 00 00 00 00 00 00 00 00 03 08 00 05 ce")
    assert FRAMES[2] == b"\x03\x00\x01\x00\x00\x00\x09" + ENDS + b"\xce"
    assert FRAMES[4].hex(" ") == "08 00 00 00 00 00 00 ce"


@pytest.mark.spec("A-FRAME-007")
@pytest.mark.parametrize("counted", [1, -1])
def test_a_size_that_counts_otherwise_is_refused(counted: int) -> None:
    """One more, as if the frame end counted too; or one less."""
    for octets in (FRAMES[0], FRAMES[1], v091.encode_frame(b"body", 1)):
        size = int.from_bytes(octets[3:7], "big") + counted
        other = octets[:3] + size.to_bytes(4, "big") + octets[7:]
        for decode in DECODERS:
            with pytest.raises(v091.DecodeError, match="the frame ends"):
                decode(other + b"\x08")


def feed(octets: bytes) -> Any:
    return v091.FrameReader(1 << 20).feed(octets)


DECODERS: list[Callable[[bytes], Any]] = [v091.decode_frame, feed]


@pytest.mark.parametrize("octets", FRAMES, ids=range(len(FRAMES)))
def test_a_frame_says_where_it_ends(octets: bytes) -> None:
    frame, end = v091.decode_frame(octets + b"more")
    assert end == len(octets)
    assert v091.decode_frame(b"....." + octets, 5) == (frame, end + 5)
    assert v091.encode_frame(frame.payload, frame.channel) == octets
    header = v091.decode_frame_header(octets[:7])
    assert (header.type, header.channel, header.size) == (frame.type, frame.channel, len(octets) - 8)


@pytest.mark.spec("A-FRAME-008")
@pytest.mark.parametrize("octets", FRAMES, ids=range(len(FRAMES)))
def test_the_wrong_octet_at_the_end_is_malformed(octets: bytes) -> None:
    for octet in (0, 0xCD, 0xFF):
        for decode in DECODERS:
            with pytest.raises(v091.DecodeError, match=f"ends with 0x{octet:02x}, not with 0xce") as caught:
                decode(changed(octets, len(octets) - 1, octet))
            assert caught.value.offset == len(octets) - 1


@pytest.mark.spec("A-FRAME-009", "A-FRAME-017")
@pytest.mark.parametrize("kind", [0, 4, 5, 6, 9, 255])
def test_an_unknown_type_is_refused_by_its_header_alone(kind: int) -> None:
    """Those of out-of-band transport, which nothing here speaks, are among them."""
    whole = changed(FRAMES[0], 0, kind)
    for decode in (*DECODERS, v091.decode_frame_header):
        with pytest.raises(v091.DecodeError, match=f"no frame is of type {kind}; there are 1"):
            decode(whole)
    for decode in (feed, v091.decode_frame_header):
        with pytest.raises(v091.DecodeError, match=f"no frame is of type {kind}"):
            decode(whole[:7])


@pytest.mark.parametrize("octets", FRAMES, ids=range(len(FRAMES)))
def test_a_frame_that_is_not_all_there(octets: bytes) -> None:
    for size in range(len(octets)):
        with pytest.raises(v091.DecodeError) as caught:
            v091.decode_frame(octets[:size])
        assert caught.value.offset is not None
    with pytest.raises(v091.DecodeError, match=f"ends at octet {len(octets)}, the data at {len(octets) - 1}"):
        v091.decode_frame(octets[:-1])
    with pytest.raises(v091.DecodeError, match="ends inside"):
        v091.decode_frame_header(octets[:6])


def test_a_payload_does_not_reach_beyond_its_frame() -> None:
    """What a method lacks is not taken from the octets behind its frame."""
    payload = PUBLISH.encode()[:-1]
    octets = b"\x01\x00\x01" + len(payload).to_bytes(4, "big") + payload + b"\xce"
    with pytest.raises(v091.DecodeError, match=r"basic\.publish\.mandatory: the data ends inside") as caught:
        v091.decode_frame(octets + FRAMES[0])
    assert caught.value.offset == len(octets) - 1
    longer = PUBLISH.encode() + b"\0"
    octets = b"\x01\x00\x01" + len(longer).to_bytes(4, "big") + longer + b"\xce"
    with pytest.raises(v091.DecodeError, match="1 octets follow its arguments") as caught:
        v091.decode_frame(octets)
    assert caught.value.offset == len(octets) - 2


def test_errors_in_a_frame_count_from_the_start_of_the_data() -> None:
    octets = v091.encode_frame(v091.BasicCancel(consumer_tag="é"), 1).replace("é".encode(), b"\xc3\x28")
    with pytest.raises(v091.DecodeError, match=r"basic\.cancel\.consumer-tag: is not UTF-8") as caught:
        v091.decode_frame(b"..." + octets, 3)
    assert caught.value.offset == 3 + 7 + 4 + 1


@pytest.mark.spec("A-FRAME-018")
@pytest.mark.parametrize("dialect", DIALECTS, ids=dialect_name)
def test_a_heartbeat_is_a_frame_and_no_method(dialect: Any) -> None:
    octets = dialect.encode_frame(None)
    assert octets == bytes.fromhex("08000000000000ce")
    assert dialect.decode_frame(octets) == (dialect.Frame(dialect.FrameType.HEARTBEAT, 0, None), 8)
    assert not any("heartbeat" in kind.XML_NAME for kind in dialect.RULES)


@pytest.mark.parametrize(
    ("octets", "reason"),
    [("08000000000001 00 ce", "1 octets of payload"), ("08000100000000 ce", "channel 1")],
)
def test_a_heartbeat_says_nothing_and_belongs_to_no_channel(octets: str, reason: str) -> None:
    with pytest.raises(v091.DecodeError, match=f"a heartbeat has {reason}"):
        v091.decode_frame(bytes.fromhex(octets))
    with pytest.raises(v091.EncodeError, match="cannot be its channel"):
        v091.encode_frame(None, 1)


def test_a_trace_frame_carries_octets() -> None:
    """The preview lists the type and says nothing of its payload."""
    octets = preview.encode_frame(b"seen", 3, kind=preview.FrameType.TRACE)
    assert octets == b"\x07\x00\x03\x00\x00\x00\x04seen\xce"
    frame, _ = preview.decode_frame(octets)
    assert frame == preview.Frame(preview.FrameType.TRACE, 3, b"seen")
    assert preview.FrameReader().feed(octets) == [octets]


@pytest.mark.parametrize("channel", [-1, 65536, "1", None])
def test_a_channel_out_of_range(channel: Any) -> None:
    with pytest.raises(v091.EncodeError, match=r"channel .* out of range"):
        v091.encode_frame(PUBLISH, channel)


@pytest.mark.spec("A-CHAN-004")
@pytest.mark.parametrize("channel", [0, 1, 258, 65535])
def test_each_frame_bears_its_channel(channel: int) -> None:
    for payload in (PUBLISH, HEADER, b"body"):
        octets = v091.encode_frame(payload, channel)
        assert octets[1:3] == channel.to_bytes(2, "big")
        assert v091.decode_frame(octets)[0].channel == channel


@pytest.mark.parametrize("payload", ["text", 5, v091.BasicProperties(), [PUBLISH], object()])
def test_what_no_frame_carries(payload: Any) -> None:
    with pytest.raises(v091.EncodeError, match="neither a method, nor a content header, nor octets"):
        v091.encode_frame(payload)


def test_a_payload_belongs_into_frames_of_its_type() -> None:
    with pytest.raises(v091.EncodeError, match="does not belong into a frame of type 3"):
        v091.encode_frame(PUBLISH, 1, kind=v091.FrameType.BODY)
    with pytest.raises(v091.EncodeError, match="does not belong into a frame of type 1"):
        v091.encode_frame(PUBLISH.encode(), 1, kind=v091.FrameType.METHOD)
    assert v091.encode_frame(bytearray(b"x"), 1) == v091.encode_frame(b"x", 1)


# ---- streams ----

STREAM = v091.PROTOCOL_HEADER + b"".join(FRAMES)
ITEMS = [v091.PROTOCOL_HEADER, *FRAMES]


def test_protocol_headers() -> None:
    assert bytes.fromhex("414d5150 00 00 09 01") == v091.PROTOCOL_HEADER
    assert preview.PROTOCOL_HEADER[:4] == b"AMQP"
    assert len(preview.PROTOCOL_HEADER) == 8


@pytest.mark.spec("A-FRAME-005")
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 8, 9, 64, len(STREAM)])
def test_items_are_found_however_the_stream_is_chunked(chunk: int) -> None:
    reader = v091.FrameReader()
    found = [item for at in range(0, len(STREAM), chunk) for item in reader.feed(STREAM[at : at + chunk])]
    assert found == ITEMS
    assert (reader.pending, reader.offset) == (0, len(STREAM))


@given(st.lists(st.integers(0, len(STREAM))))
def test_items_are_found_behind_any_cuts(cuts: list[int]) -> None:
    reader, found, start = v091.FrameReader(), [], 0
    for cut in [*sorted(cuts), len(STREAM)]:
        found += reader.feed(memoryview(STREAM)[start:cut])
        start = cut
    assert found == ITEMS


@pytest.mark.parametrize("item", ITEMS, ids=range(len(ITEMS)))
def test_an_item_comes_out_with_its_last_octet(item: bytes) -> None:
    reader = v091.FrameReader()
    assert reader.feed(item[:-1]) == []
    assert reader.pending == len(item) - 1
    assert reader.feed(item[-1:]) == [item]


def test_any_version_may_head_a_stream_and_nothing_else() -> None:
    other = b"AMQP\x01\x02\x03\x04"
    reader = v091.FrameReader()
    assert reader.feed(other + FRAMES[0]) == [other, FRAMES[0]]
    with pytest.raises(v091.DecodeError, match="no frame is of type 65"):
        reader.feed(other)


@pytest.mark.spec("A-NEGOT-005")
@pytest.mark.parametrize("dialect", DIALECTS, ids=dialect_name)
def test_a_frame_beyond_the_limit_is_refused_when_its_header_is_there(dialect: Any) -> None:
    largest = dialect.encode_frame(bytes(dialect.FRAME_MIN_SIZE - 8), 1)
    assert len(largest) == dialect.FRAME_MIN_SIZE
    reader = dialect.FrameReader()
    assert reader.feed(largest) == [largest]
    larger = dialect.encode_frame(bytes(dialect.FRAME_MIN_SIZE - 7), 1)
    assert reader.feed(largest + larger[:6]) == [largest]
    reason = f"a frame of {dialect.FRAME_MIN_SIZE + 1} octets exceeds the maximum of {dialect.FRAME_MIN_SIZE}"
    with pytest.raises(dialect.DecodeError, match=reason) as caught:
        reader.feed(larger[6:7])
    assert caught.value.offset == 2 * len(largest)


def test_the_limit_may_be_changed_between_calls() -> None:
    larger = v091.encode_frame(bytes(5000), 1)
    reader = v091.FrameReader()
    reader.max_frame_size = 8192
    assert reader.feed(larger) == [larger]
    reader.max_frame_size = 4096
    with pytest.raises(v091.DecodeError, match="exceeds the maximum"):
        reader.feed(larger)


def test_what_precedes_a_malformed_frame_is_not_lost() -> None:
    reader = v091.FrameReader()
    assert reader.feed(FRAMES[0] + changed(FRAMES[1], 0, 77)) == [FRAMES[0]]
    for _ in range(2):
        with pytest.raises(v091.DecodeError, match="type 77") as caught:
            reader.feed(b"")
        assert caught.value.offset == len(FRAMES[0])


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_items_own_their_octets(kind: Callable[[Any], Any]) -> None:
    octets = bytearray(FRAMES[0])
    (item,) = v091.FrameReader().feed(octets if kind is bytearray else kind(octets))
    octets[:] = bytes(len(octets))
    assert type(item) is bytes
    assert item == FRAMES[0]


@pytest.mark.parametrize("dialect", DIALECTS, ids=dialect_name)
def test_limits_hold_inside_frames(dialect: Any) -> None:
    nested: Any = {}
    for _ in range(5):
        nested = {"in": nested}
    method = example_of(dialect, dialect.ConnectionStart)
    method.server_properties = nested
    octets = dialect.encode_frame(method)
    assert dialect.decode_frame(octets, limits=dialect.Limits(depth=6))[0].payload == method
    with pytest.raises(dialect.DecodeError, match="deeper than the limit"):
        dialect.decode_frame(octets, limits=dialect.Limits(depth=5))
    method.server_properties = {str(number): None for number in range(100)}
    octets = dialect.encode_frame(method)
    assert dialect.decode_frame(octets, limits=dialect.Limits(elements=200))[0].payload == method
    with pytest.raises(dialect.DecodeError, match="beyond the limit"):
        dialect.decode_frame(octets, limits=dialect.Limits(elements=100))
