"""The draft's protocol headers, frames, and the reader that finds them in a stream (sections 2 and 3.1)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpforge_protocol.amqp_1_0_draft import (
    MIN_MAX_FRAME_SIZE,
    PROTOCOL_HEADER,
    DecodeError,
    EncodeError,
    FrameFlags,
    FrameHeader,
    FrameReader,
    FrameType,
    Limits,
    ProtocolHeader,
    SerialNumber,
    decode_frame_header,
    decode_protocol_header,
)
from tests.codec.draft_vectors import FRAMES, OPTIONS, VECTORS, FrameVector, Vector, draft

decode_frame: Any = draft.decode_frame
encode_frame: Any = draft.encode_frame

NOOP: Any = draft.SessionNoop()
TRANSFER: Any = draft.LinkTransfer(handle=5, payload=b"hello")
ATTACH: Any = draft.SessionAttach(name=b"s")


def frame(
    body: bytes, *, size: int | None = None, kind: int = 1, flags: int = 0, state: bytes = bytes(16)
) -> bytes:
    """A frame of arbitrary parts on channel 258."""
    claimed = 24 + len(body) if size is None else size
    return claimed.to_bytes(4, "big") + bytes((kind, flags, 1, 2)) + state + body


# ---- protocol headers ----


@pytest.mark.spec("D-HDR-002")
def test_the_protocol_header_octet_by_octet() -> None:
    assert bytes((0x41, 0x4D, 0x51, 0x50, 1, 0, 0, 0)) == PROTOCOL_HEADER
    assert ProtocolHeader().encode() == PROTOCOL_HEADER
    assert ProtocolHeader(flags=0x80).encode() == b"AMQP\x01\x00\x00\x80"
    assert ProtocolHeader(2, 3, 4, 5).encode() == b"AMQP\x02\x03\x04\x05"
    assert decode_protocol_header(PROTOCOL_HEADER + b"rest") == (ProtocolHeader(1, 0, 0, 0), 8)
    assert decode_protocol_header(b"..AMQP\x00\x09\x01\x00", 2) == (ProtocolHeader(0, 9, 1, 0), 10)


@pytest.mark.spec("D-HDR-002")
def test_any_connection_flags_are_accepted() -> None:
    for flags in range(256):
        octets = b"AMQP\x01\x00\x00" + bytes((flags,))
        assert decode_protocol_header(octets)[0] == ProtocolHeader(1, 0, 0, flags)
        assert FrameReader().feed(octets) == [octets]


@pytest.mark.spec("D-HDR-002")
@pytest.mark.parametrize("octets", [b"amqp\x01\x00\x00\x00", b"AMQp\x01\x00\x00\x00", b"HTTP/1.1", b"AMQX"])
def test_a_protocol_header_begins_with_capitals(octets: bytes) -> None:
    with pytest.raises(DecodeError, match="AMQP in capitals"):
        decode_protocol_header(octets)


@pytest.mark.parametrize("size", range(8))
def test_part_of_a_protocol_header(size: int) -> None:
    with pytest.raises(DecodeError, match="ends inside" if size else "nothing to decode"):
        decode_protocol_header(PROTOCOL_HEADER[:size])


@pytest.mark.parametrize("number", [-1, 256, "1"])
def test_a_number_of_a_protocol_header_is_an_octet(number: Any) -> None:
    with pytest.raises(EncodeError, match="not an octet"):
        ProtocolHeader(minor=number).encode()


@pytest.mark.spec("D-HDR-002")
def test_a_protocol_header_is_no_frame() -> None:
    with pytest.raises(DecodeError):
        decode_frame(PROTOCOL_HEADER + bytes(64))
    reader = FrameReader(max_frame_size=1 << 24)
    assert reader.feed(PROTOCOL_HEADER + FRAMES[0].octets) == [PROTOCOL_HEADER, FRAMES[0].octets]


# ---- golden frames ----


def arguments(vector: FrameVector) -> dict[str, Any]:
    """What ``encode_frame`` is told beside the operation."""
    given = dict(vector.arguments)
    return {**given, "kind": FrameType(given["kind"])} if "kind" in given else given


@pytest.mark.spec("D-FRAME-001", "D-FRAME-003", "D-FRAME-007")
@pytest.mark.parametrize("vector", FRAMES, ids=str)
def test_frames_octet_by_octet(vector: FrameVector) -> None:
    assert encode_frame(vector.value, **arguments(vector)) == vector.octets
    assert decode_frame(vector.octets) == (vector.expected, len(vector.octets))
    assert int.from_bytes(vector.octets[:4], "big") == len(vector.octets)


@pytest.mark.parametrize("vector", FRAMES, ids=str)
def test_frames_amid_other_octets(vector: FrameVector) -> None:
    octets = b"AMQ" + vector.octets + b"\xff" * 40
    for data in (octets, bytearray(octets), memoryview(octets)):
        assert decode_frame(data, 3) == (vector.expected, 3 + len(vector.octets))
        assert decode_frame_header(data, 3).size == len(vector.octets)


@pytest.mark.parametrize("vector", FRAMES, ids=str)
def test_frames_cut_short(vector: FrameVector) -> None:
    total = len(vector.octets)
    for size in range(total):
        reason = f"the frame ends at octet {total}, the data at {size}" if size >= 24 else "inside|nothing"
        with pytest.raises(DecodeError, match=reason):
            decode_frame(vector.octets[:size])


@pytest.mark.spec("D-FRAME-009")
@pytest.mark.parametrize("vector", VECTORS.values(), ids=str)
def test_every_operation_in_a_frame(vector: Vector) -> None:
    value = vector.value
    octets = encode_frame(value, 1)
    assert octets[24:] == vector.octets
    assert int.from_bytes(octets[28:30], "big") == value.CODE
    found = decode_frame(octets)[0]
    assert found.operation == value
    assert type(found.operation) is type(value)
    assert found.type.name.lower() == value.KIND


# ---- the parts of a frame header ----


def feed(octets: bytes) -> object:
    return FrameReader(max_frame_size=0xFFFFFFFF).feed(octets)


DECODERS: list[Callable[[bytes], object]] = [decode_frame, decode_frame_header, feed]


@pytest.mark.spec("D-FRAME-001")
def test_the_size_counts_header_and_body() -> None:
    assert len(encode_frame(None)) == decode_frame_header(encode_frame(None)).size == 24
    full = VECTORS["ConnectionOpen full"]
    octets = encode_frame(full.value)
    assert len(octets) == decode_frame_header(octets).size == 24 + len(full.octets)


@pytest.mark.spec("D-FRAME-001")
@pytest.mark.parametrize("size", range(24))
def test_a_size_below_that_of_the_header_is_malformed(size: int) -> None:
    for decode in DECODERS:
        with pytest.raises(
            DecodeError, match=f"a frame of {size} octets is smaller than its own header"
        ) as caught:
            decode(frame(NOOP.encode(), size=size))
        assert caught.value.offset == 0


@pytest.mark.parametrize("kind", [2, 3, 0x80, 255])
def test_other_types_are_not_known(kind: int) -> None:
    for decode in DECODERS:
        with pytest.raises(
            DecodeError, match=f"a frame of type {kind} is neither a control nor a command"
        ) as caught:
            decode(frame(NOOP.encode(), kind=kind))
        assert caught.value.offset == 4


@pytest.mark.spec("D-FRAME-002", "D-FRAME-007")
def test_the_type_decides_how_the_rest_of_the_header_is_read() -> None:
    state = struct.pack(">IIII", 1, 2, 3, 4)
    command, control = (frame(b"", kind=kind, flags=3, state=state) for kind in (1, 0))
    assert command[5:] == control[5:]
    zero = SerialNumber(0)
    assert decode_frame_header(command) == FrameHeader(
        24,
        FrameType.COMMAND,
        258,
        FrameFlags.FLUSH | FrameFlags.SYNC,
        SerialNumber(1),
        SerialNumber(2),
        3,
        SerialNumber(4),
    )
    assert decode_frame_header(control) == FrameHeader(
        24, FrameType.CONTROL, 258, FrameFlags(0), zero, zero, 0, zero
    )
    found = decode_frame(control)[0]
    assert found == draft.Frame(FrameType.CONTROL, 258)
    assert decode_frame(command)[0] == draft.Frame(
        FrameType.COMMAND, 258, flags=3, acknowledged=1, executed=2, capacity=3, command_id=4
    )


@pytest.mark.spec("D-FRAME-002")
@pytest.mark.parametrize(("operation", "kind"), [(NOOP, 0), (TRANSFER, 0), (ATTACH, 1)])
def test_an_operation_belongs_into_frames_of_its_kind(operation: Any, kind: int) -> None:
    with pytest.raises(
        DecodeError, match=f"{operation.XML_NAME} does not belong into a frame of type {kind}"
    ):
        decode_frame(frame(operation.encode(), kind=kind))
    with pytest.raises(
        EncodeError, match=f"{operation.XML_NAME} does not belong into a frame of type {kind}"
    ):
        encode_frame(operation, kind=FrameType(kind))


@pytest.mark.spec("D-FRAME-003")
@pytest.mark.parametrize(
    ("flags", "octet"),
    [
        (FrameFlags(0), 0),
        (FrameFlags.FLUSH, 0b01),
        (FrameFlags.SYNC, 0b10),
        (FrameFlags.FLUSH | FrameFlags.SYNC, 0b11),
    ],
)
def test_each_combination_of_flags(flags: FrameFlags, octet: int) -> None:
    for operation in (NOOP, None):
        octets = encode_frame(operation, kind=FrameType.COMMAND, flags=flags)
        assert octets[5] == octet
        assert decode_frame(octets)[0].flags == decode_frame_header(octets).flags == flags


@pytest.mark.spec("D-FRAME-003")
def test_reserved_bits_are_ignored_and_never_sent() -> None:
    for bits in range(256):
        found = decode_frame(frame(b"", flags=bits))[0]
        assert found.flags == bits & 3
        assert decode_frame_header(frame(b"", flags=bits)).flags == bits & 3
        assert decode_frame(frame(b"", kind=0, flags=bits))[0] == draft.Frame(FrameType.CONTROL, 258)
        if bits > 3:
            with pytest.raises(EncodeError, match="are not all known"):
                encode_frame(NOOP, flags=bits)
        if bits:
            with pytest.raises(EncodeError, match="neither flags nor session state"):
                encode_frame(ATTACH, flags=bits)


STATE = ["acknowledged", "executed", "capacity", "command_id"]


@pytest.mark.spec("D-FRAME-007")
@pytest.mark.parametrize(("name", "at"), [*zip(STATE, (8, 12, 16, 20), strict=True)])
def test_each_part_of_the_session_state(name: str, at: int) -> None:
    for number in (1, 0x01020304, 0xFFFFFFFF):
        octets = encode_frame(NOOP, **{name: number})
        assert octets[at : at + 4] == number.to_bytes(4, "big")
        assert octets[8:24].replace(octets[at : at + 4], b"", 1) == bytes(12)
        assert getattr(decode_frame(octets)[0], name) == getattr(decode_frame_header(octets), name) == number
    with pytest.raises(EncodeError, match="neither flags nor session state"):
        encode_frame(ATTACH, **{name: 1})


@pytest.mark.spec("D-FRAME-007")
def test_what_a_control_leaves_unused_is_ignored() -> None:
    noisy = frame(ATTACH.encode(), kind=0, flags=0xFF, state=b"\xff" * 16)
    assert decode_frame(noisy)[0] == decode_frame(frame(ATTACH.encode(), kind=0))[0]
    assert encode_frame(ATTACH, 258)[8:24] == bytes(16)


def test_ids_are_serial_numbers() -> None:
    found = decode_frame(encode_frame(NOOP, command_id=0xFFFFFFFF, acknowledged=0xFFFFFFFF, executed=1))[0]
    assert found.command_id + 1 == 0
    assert found.executed > found.acknowledged
    header = decode_frame_header(encode_frame(NOOP, command_id=0xFFFFFFFF))
    assert header.command_id < header.executed


@pytest.mark.spec("D-FRAME-007")
@pytest.mark.parametrize("channel", [0, 1, 258, 65535])
def test_the_channel(channel: int) -> None:
    for operation in (NOOP, ATTACH, None):
        octets = encode_frame(operation, channel)
        assert octets[6:8] == channel.to_bytes(2, "big")
        assert decode_frame(octets)[0].channel == decode_frame_header(octets).channel == channel


@pytest.mark.parametrize("name", ["channel", *STATE])
@pytest.mark.parametrize("number", [-1, 1 << 32, "1", 1.5])
def test_a_number_that_does_not_fit(name: str, number: Any) -> None:
    with pytest.raises(EncodeError, match=f"the {name} .* is not a number from 0 to"):
        encode_frame(NOOP, **{name: number})


@pytest.mark.parametrize("flags", [-1, 4, 256, "1"])
def test_flags_that_do_not_fit(flags: Any) -> None:
    with pytest.raises(EncodeError, match="are not all known"):
        encode_frame(NOOP, flags=flags)


# ---- what a frame says ----


@pytest.mark.spec("D-FRAME-009")
def test_a_body_is_exactly_one_operation() -> None:
    body = NOOP.encode()
    with pytest.raises(DecodeError, match="8 octets follow the operation in its frame") as caught:
        decode_frame(frame(body + body))
    assert caught.value.offset == 32
    with pytest.raises(DecodeError, match="1 octets follow the operation in its frame"):
        decode_frame(frame(body + b"\x00"))


@pytest.mark.spec("D-FRAME-009")
def test_an_operation_does_not_read_beyond_its_frame() -> None:
    body = TRANSFER.encode()
    for size in range(24, 24 + len(body)):
        octets = frame(body, size=size)
        if size == 24:
            assert decode_frame(octets) == (draft.Frame(FrameType.COMMAND, 258), 24)
            continue
        with pytest.raises(
            DecodeError, match=f"the operation ends at octet {24 + len(body)}, the data at {size}"
        ):
            decode_frame(octets + body)


@pytest.mark.spec("D-FRAME-009")
@pytest.mark.parametrize("code", [0, 0x0100, 0x0107, 0x0307, 0x0308, 0x030D, 0xFFFF])
def test_a_code_that_is_none(code: int) -> None:
    body = b"\x00\x00\x00\x04" + code.to_bytes(2, "big") + b"\x00\x00"
    with pytest.raises(DecodeError, match=f"no control or command has the code {code:#06x}") as caught:
        decode_frame(frame(body))
    assert caught.value.offset == 28


def test_what_is_no_operation_makes_no_frame() -> None:
    for value in (draft.Footer(), "noop", draft.LinkFlow):
        with pytest.raises(EncodeError, match="is neither a control nor a command"):
            encode_frame(value)


@pytest.mark.parametrize("kind", [2, -1, "1"])
def test_an_empty_frame_of_no_known_type(kind: Any) -> None:
    with pytest.raises(EncodeError, match="is not the type of a frame"):
        encode_frame(None, kind=kind)


@pytest.mark.spec("D-FRAME-002")
def test_frames_without_a_body() -> None:
    control, command = encode_frame(None), encode_frame(None, 7, kind=FrameType.COMMAND, command_id=9)
    assert control == bytes.fromhex("00000018 00 00 0000") + bytes(16)
    assert command == bytes.fromhex("00000018 01 00 0007") + bytes(15) + b"\x09"
    assert decode_frame(control)[0] == draft.Frame(FrameType.CONTROL, 0, None)
    assert decode_frame(command)[0] == draft.Frame(FrameType.COMMAND, 7, None, command_id=9)


def test_limits_hold_in_frames() -> None:
    octets = encode_frame(draft.SessionNoop(options={"a": {"b": {}}}))
    assert decode_frame(octets, limits=Limits(depth=3))[0].operation.options == {"a": {"b": {}}}
    with pytest.raises(DecodeError, match="nested deeper"):
        decode_frame(octets, limits=Limits(depth=1))
    with pytest.raises(DecodeError, match="element"):
        decode_frame(encode_frame(draft.SessionNoop(options=OPTIONS)), limits=Limits(elements=0))


# ---- streams ----

ITEMS = [PROTOCOL_HEADER, *(vector.octets for vector in FRAMES), b"AMQP\x01\x00\x00\xff", FRAMES[0].octets]
STREAM = b"".join(ITEMS)


@pytest.mark.spec("D-FRAME-011")
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 8, 9, 24, 25, 64, len(STREAM)])
def test_items_are_found_however_the_stream_is_chunked(chunk: int) -> None:
    reader = FrameReader()
    found = [item for at in range(0, len(STREAM), chunk) for item in reader.feed(STREAM[at : at + chunk])]
    assert found == ITEMS
    assert (reader.pending, reader.offset) == (0, len(STREAM))
    frames = [decode_frame(item)[0] for item in found if not item.startswith(b"AMQP")]
    assert frames == [*(vector.expected for vector in FRAMES), FRAMES[0].expected]


@pytest.mark.spec("D-FRAME-011")
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


def test_frames_of_4096_octets_are_always_read() -> None:
    assert MIN_MAX_FRAME_SIZE == 4096
    largest = encode_frame(draft.LinkTransfer(handle=0, payload=bytes(4096 - 40)))
    assert len(largest) == 4096
    reader = FrameReader()
    assert reader.feed(largest) == [largest]


def test_a_frame_beyond_the_limit_is_refused_when_its_header_is_there() -> None:
    larger = encode_frame(draft.LinkTransfer(handle=0, payload=bytes(4097 - 40)))
    reader = FrameReader()
    assert reader.feed(PROTOCOL_HEADER + larger[:7]) == [PROTOCOL_HEADER]
    with pytest.raises(DecodeError, match="a frame of 4097 octets exceeds the maximum of 4096") as caught:
        reader.feed(larger[7:8])
    assert caught.value.offset == 8
    reader = FrameReader(max_frame_size=4097)
    assert reader.feed(larger) == [larger]


@pytest.mark.parametrize("bad", [frame(b"", size=23), frame(b"", kind=2)])
def test_what_precedes_a_malformed_frame_is_not_lost(bad: bytes) -> None:
    reader = FrameReader()
    assert reader.feed(FRAMES[0].octets + bad) == [FRAMES[0].octets]
    with pytest.raises(DecodeError) as caught:
        reader.feed(b"")
    assert caught.value.offset in (len(FRAMES[0].octets), len(FRAMES[0].octets) + 4)
