"""The frames of a direction, out of whatever is there of it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator

import pytest

from amqpforge.capture import finder
from amqpforge.capture.amqp_1_0 import Decoder
from amqpforge.capture.record import Header, Record
from amqpforge_protocol import amqp_1_0
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Attach,
    Begin,
    Close,
    Disposition,
    Flow,
    Open,
    Role,
    SaslInit,
    Source,
    Target,
    Transfer,
    encode_frame,
)
from tests.capture.build import new

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
EMPTY = encode_frame(None)


def transfer(number: int, payload: bytes) -> bytes:
    performative = new(Transfer, handle=0, delivery_id=number, delivery_tag=b"%d" % number)
    return encode_frame(performative, 1, payload)


ATTACH = new(
    Attach, name="link", handle=0, role=Role.SENDER, source=Source(address="a"), target=Target(address="b")
)
DISPOSITION = new(Disposition, role=Role.SENDER, first=0, last=2, settled=True, state=Accepted())
ITEMS = [
    AMQP_HEADER,
    encode_frame(Open(container_id="test", hostname="host")),
    encode_frame(new(Begin, next_outgoing_id=0, incoming_window=10, outgoing_window=10), 1),
    encode_frame(ATTACH, 1),
    EMPTY,
    transfer(0, b"payload" * 40),
    transfer(1, b""),
    encode_frame(new(Flow, incoming_window=10, next_outgoing_id=2, outgoing_window=10), 1),
    transfer(2, bytes(300)),
    encode_frame(DISPOSITION, 1),
    encode_frame(Close()),
]
NAMES = [
    None,
    "open",
    "begin",
    "attach",
    None,
    "transfer",
    "transfer",
    "flow",
    "transfer",
    "disposition",
    "close",
]
STREAM = b"".join(ITEMS)
STARTS = list(itertools.accumulate(map(len, ITEMS), initial=0))

Piece = bytes | int
"""Octets, or the length of a gap."""


def decode(pieces: Iterable[Piece], *, searching: bool = False, closed: bool = True) -> list[Record]:
    decoder = Decoder(amqp_1_0, 3, "c2s", searching=searching)
    records: list[Record] = []
    offset = 0
    for time, piece in enumerate(pieces):
        if isinstance(piece, int):
            records += decoder.gap(offset, time, piece)
            offset += piece
        else:
            records += decoder.data(offset, time, piece)
            offset += len(piece)
    return records + decoder.end(offset, None, closed)


def places(records: Iterable[Record]) -> list[tuple[int, str, str | None]]:
    return [(record.offset, record.kind, record.name) for record in records]


EXPECTED = [
    (start, "header" if number == 0 else "empty" if number == 4 else "amqp", name)
    for number, (start, name) in enumerate(zip(STARTS, NAMES, strict=False))
]


def chunks(data: bytes, step: int) -> Iterator[bytes]:
    return (data[at : at + step] for at in range(0, len(data), step))


@pytest.mark.parametrize("step", [1, 3, 8, 100, 10_000])
def test_any_chunking_gives_the_same_records(step: int) -> None:
    records = decode(chunks(STREAM, step))
    assert places(records) == EXPECTED
    assert [record.payload_bytes for record in records if record.name == "transfer"] == [280, 0, 300]
    assert {record.channel for record in records[2:4]} == {1}
    assert records[0].value == Header(0, 1, 0, 0)
    assert {(record.stream, record.direction, record.reason) for record in records} == {(3, "c2s", None)}


def test_a_frame_has_the_time_of_the_octet_that_completes_it() -> None:
    first, rest = STREAM[: STARTS[2] - 1], STREAM[STARTS[2] - 1 :]
    assert [record.time for record in decode([first, rest])][:4] == [0, 1, 1, 1]


def test_sasl_frames_have_no_channel() -> None:
    octets = (
        SASL_HEADER + encode_frame(SaslInit(mechanism="PLAIN", initial_response=b"\x00a\x00b")) + AMQP_HEADER
    )
    records = decode([octets])
    assert [(record.kind, record.channel, record.name) for record in records] == [
        ("header", None, None),
        ("sasl", None, "sasl-init"),
        ("header", None, None),
    ]


def test_after_a_tls_header_nothing_is_decoded() -> None:
    records = decode([b"AMQP\x02\x01\x00\x00", b"\x16\x03\x01\x00", bytes(100)])
    assert [record.kind for record in records] == ["header", "error"]
    assert "encrypted" in str(records[1].reason)
    assert places(decode([b"AMQP\x02\x01\x00\x00", AMQP_HEADER, EMPTY]))[2] == (16, "empty", None)


# ---- errors ----


def test_a_frame_that_cannot_be_decoded_is_an_error_and_the_next_one_is_read() -> None:
    damaged = bytearray(STREAM)
    damaged[STARTS[2] + 9 : STARTS[2] + 11] = b"\x53\x99"
    records = decode([bytes(damaged)])
    assert [place for place in places(records) if place[1] != "error"] == [*EXPECTED[:2], *EXPECTED[3:]]
    error = records[2]
    assert (error.kind, error.offset, error.channel) == ("error", STARTS[2], 1)
    assert f"octet {STARTS[2] + 8}" in str(error.reason)


def test_an_error_names_the_field_and_the_octet_in_the_direction() -> None:
    octets = ITEMS[1] + b"\x00\x00\x00\x10\x02\x00\x00\x07\x00\x53\x14\xc0\x03\x01\xa1\x00"
    error = decode([octets])[1]
    assert str(error.reason).startswith("transfer.handle: ")
    assert f"octet {len(ITEMS[1]) + 14})" in str(error.reason)
    assert error.channel == 7


def test_an_unknown_frame_type_is_an_error_of_that_frame_alone() -> None:
    octets = bytearray(STREAM)
    octets[STARTS[3] + 5] = 9
    records = decode([bytes(octets)])
    assert places(records)[3] == (STARTS[3], "error", None)
    assert places(records)[4:] == EXPECTED[4:]


@pytest.mark.parametrize(
    "header", [b"\x00\x00\x00\x07\x02\x00\x00\x00", b"\x00\x00\x00\x10\x05\x00\x00\x00", b"\xff" * 9]
)
def test_an_impossible_frame_header_starts_a_search_for_the_next_frame(header: bytes) -> None:
    octets = STREAM[: STARTS[3]] + header + STREAM[STARTS[3] :]
    for pieces in ([octets], list(chunks(octets, 5))):
        records = decode(pieces)
        moved = [(at + len(header), kind, name) for at, kind, name in EXPECTED[3:]]
        if header[0] == 0xFF:  # a size beyond the limit is believed, since the frame header is possible
            assert places(records)[3][1] == "error"
            continue
        assert places(records) == [*EXPECTED[:3], (STARTS[3], "error", None), *moved]
        assert f"{len(header)} octets skipped" in str(records[3].reason)


def test_a_frame_beyond_the_limit_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finder, "MAX_FRAME", 200)
    for step in (7, 10_000):
        records = decode(chunks(STREAM, step))
        assert places(records)[5] == (STARTS[5], "error", None)
        assert places(records)[6:8] == EXPECTED[6:8]
        assert "at most 200" in str(records[5].reason)


@pytest.mark.parametrize(("closed", "what"), [(True, "the connection ends"), (False, "the capture ends")])
def test_an_end_inside_a_frame_is_reported(closed: bool, what: str) -> None:
    for length in range(STARTS[1] + 1, STARTS[2]):
        records = decode([STREAM[:length]], closed=closed)
        assert places(records)[1:] == [(STARTS[1], "error", None)]
        assert what in str(records[1].reason)
        assert f"after {length - STARTS[1]}" in str(records[1].reason)


# ---- captured from the middle ----


@pytest.mark.parametrize("step", [11, 10_000])
def test_captured_from_the_middle_the_first_whole_frame_is_found(step: int) -> None:
    for cut in range(1, STARTS[-2]):
        records = decode(chunks(STREAM[cut:], step), searching=True)
        following = next(start for start in STARTS if start >= cut)
        expected = [(at - cut, kind, name) for at, kind, name in EXPECTED if at >= cut]
        found = places(records)
        if following > cut:
            assert found[0] == (0, "error", None)
            assert f"{following - cut} octets skipped" in str(records[0].reason)
            found = found[1:]
        assert found == expected


def test_what_only_looks_like_a_frame_is_not_taken_for_one() -> None:
    bait = b"\x00\x00\x00\x40\x02\x00\x00\x00\x00\x53\x10" + b"\xff" * 80
    octets = bait + STREAM[STARTS[1] :]
    for step in (9, 10_000):
        records = decode(chunks(octets, step), searching=True)
        assert records[0].reason is not None
        assert f"{len(bait)} octets skipped" in records[0].reason
        assert [name for _, _, name in places(records)[1:]] == NAMES[1:]


def test_bait_at_the_very_end_does_not_hide_a_frame_behind_it() -> None:
    bait = b"\x00\x00\xff\xff\x02\x00\x00\x00\x00\x53\x14\xc0\xff\xff"
    records = decode([b"\xee" * 5 + bait + ITEMS[-1]], searching=True)
    assert places(records) == [(0, "error", None), (5 + len(bait), "amqp", "close")]


def test_symbolic_descriptors_are_found_too() -> None:
    body = b"\x00\xa3\x0famqp:close:list\x45"
    frame = (8 + len(body)).to_bytes(4, "big") + b"\x02\x00\x00\x00" + body
    for step in (1, 1000):
        records = decode(chunks(b"\x11" * 40 + frame, step), searching=True)
        assert places(records) == [(0, "error", None), (40, "amqp", "close")]


def test_octets_without_any_frame_are_reported_once_and_not_kept() -> None:
    decoder = Decoder(amqp_1_0, 0, "s2c", searching=True)
    noise = random.Random(5).randbytes(1000)
    for number in range(500):
        assert decoder.data(number * 1000, None, noise) == []
        assert len(decoder._held) < 100
    (error,) = decoder.end(500_000, None, False)
    assert "500000 octets skipped" in str(error.reason)


# ---- gaps ----


@pytest.mark.parametrize("length", [1, 6, 40, 333])
def test_after_a_gap_every_whole_frame_is_found(length: int) -> None:
    for start in range(1, STARTS[-2] - length):
        records = decode([STREAM[:start], length, STREAM[start + length :]])
        errors = [record for record in records if record.kind == "error"]
        assert any(f"{length} octets are missing" in str(error.reason) for error in errors)
        whole = [
            place
            for place, end in zip(EXPECTED, STARTS[1:], strict=True)
            if end <= start or place[0] >= start + length
        ]
        assert [place for place in places(records) if place[1] != "error"] == whole


def test_a_gap_inside_the_payload_costs_that_frame_alone() -> None:
    inside = STARTS[5] + 100
    records = decode([STREAM[:inside], 50, STREAM[inside + 50 :]])
    assert places(records) == [*EXPECTED[:5], (STARTS[5], "error", None), *EXPECTED[6:]]
    assert "50 octets are missing from the capture, inside this frame" in str(records[5].reason)


def test_two_gaps_in_one_frame() -> None:
    inside = STARTS[5] + 100
    pieces: list[Piece] = [STREAM[:inside], 50, STREAM[inside + 50 : inside + 60], 10, STREAM[inside + 70 :]]
    records = decode(pieces)
    kept = [place for place in places(records) if place[1] != "error"]
    assert kept == [*EXPECTED[:5], *EXPECTED[6:]]
    assert [record.reason for record in records if record.kind == "error" and "missing" in str(record.reason)]


def test_a_gap_while_searching_is_reported_with_what_was_skipped_before_it() -> None:
    records = decode([b"\x11" * 30, 5, b"\x22" * 20, EMPTY], searching=True)
    assert [(record.offset, record.kind) for record in records] == [
        (0, "error"),
        (30, "error"),
        (35, "error"),
        (55, "empty"),
    ]
    assert ["30 octets skipped" in str(records[0].reason), "20 octets skipped" in str(records[2].reason)] == [
        True,
        True,
    ]


def test_arbitrary_octets_and_gaps_break_nothing() -> None:
    chooser = random.Random(9)
    for _ in range(400):
        octets = bytearray(STREAM)
        for _ in range(chooser.randint(0, 6)):
            octets[chooser.randrange(len(octets))] = chooser.randrange(256)
        pieces: list[Piece] = []
        for piece in chunks(bytes(octets), chooser.choice([1, 10, 50, 500])):
            pieces.append(len(piece) if chooser.random() < 0.1 else piece)
        total = sum(piece if isinstance(piece, int) else len(piece) for piece in pieces)
        for record in decode(pieces, searching=chooser.random() < 0.5, closed=chooser.random() < 0.5):
            assert 0 <= record.offset <= total
            assert (record.reason is not None) == (record.kind == "error")
