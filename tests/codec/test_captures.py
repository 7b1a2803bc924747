"""Real conversations decode to their last octet, and hold what another decoder counted in them."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from amqpforge.capture.network import SegmentReader
from amqpforge.capture.pcapng import read_pcapng
from amqpforge.capture.source import Source
from amqpforge.capture.tcp import Assembler, Data
from amqpforge_protocol.amqp_1_0 import (
    FrameReader,
    Transfer,
    decode_frame,
    decode_message,
    encode_frame,
    encode_message,
)

FOLDER = Path(__file__).resolve().parents[1] / "data" / "captures"
NAMES = sorted(path.name.removesuffix(".pcapng") for path in FOLDER.glob("p10-*.pcapng"))
LARGEST_FRAME = 1 << 21


@cache
def oracle() -> dict[str, list[dict[str, Any]]]:
    """What the other decoder counted, by capture."""
    counts: dict[str, list[dict[str, Any]]] = json.loads((FOLDER / "performative-counts.json").read_text())
    return counts


def expected(name: str, stream: int, direction: str) -> Counter[str]:
    told = next(one for one in oracle()[name] if one["stream"] == stream).get(direction, {})
    return Counter(told.get("counts", {})) + Counter(told.get("not_reached", {}))


def streams(name: str) -> dict[tuple[int, str], bytes]:
    """The octets of every stream and direction of a capture."""
    found: dict[tuple[int, str], bytearray] = {}
    segments, assembler = SegmentReader(), Assembler()
    with (FOLDER / f"{name}.pcapng").open("rb") as file:
        for time, link_type, data, _ in read_pcapng(Source(file.read), pytest.fail):
            segment = segments.read(link_type, data)
            for event in () if segment is None else assembler.feed(time, segment):
                if isinstance(event, Data):
                    place = (event.half.stream.number, event.half.direction)
                    found.setdefault(place, bytearray()).extend(event.data)
    return {place: bytes(octets) for place, octets in found.items()}


def counted(octets: bytes, chunk: int) -> Counter[str]:
    """The items of a stream, each decoded, encoded and decoded again; the messages in it as well."""
    reader, counts = FrameReader(LARGEST_FRAME), Counter[str]()
    partial: dict[tuple[int | None, int], bytes] = {}
    for start in range(0, len(octets), chunk):
        for item in reader.feed(octets[start : start + chunk]):
            if item.startswith(b"AMQP"):
                counts["protocol-header"] += 1
                continue
            frame, behind = decode_frame(item)
            assert behind == len(item)
            counts["empty" if frame.performative is None else frame.performative.XML_NAME] += 1
            again = encode_frame(frame.performative, frame.channel or 0, frame.payload)
            assert decode_frame(again)[0] == frame
            if isinstance(frame.performative, Transfer):
                _message(partial, frame.channel, frame.performative, frame.payload)
    assert reader.pending == 0
    return counts


def _message(
    partial: dict[tuple[int | None, int], bytes], channel: int | None, transfer: Transfer, payload: bytes
) -> None:
    place = (channel, transfer.handle)
    octets = partial.pop(place, b"") + payload
    if transfer.more:
        partial[place] = octets
    elif octets and not transfer.aborted:
        message = decode_message(octets)
        again = encode_message(message)
        assert message == decode_message(again)
        # Only rhea parts a bare message in two: it puts the footer before the body.
        assert (message.bare or b"") in again
        assert message.bare is not None or message.footer


@pytest.mark.parametrize("name", NAMES)
def test_a_capture_decodes_completely(name: str) -> None:
    found = streams(name)
    for one in oracle()[name]:
        for direction in ("c2s", "s2c"):
            stream = one["stream"]
            octets = found.pop((stream, direction), b"")
            assert counted(octets, 1000) == expected(name, stream, direction)
    assert not found


def test_every_capture_has_its_counts() -> None:
    assert set(oracle()) == set(NAMES)
    assert len(NAMES) >= 50


def test_the_dumps_of_the_streams_decode_completely(material: Path) -> None:
    dumps = sorted((material / "traffic" / "captures").glob("p10-*.bin"))
    assert len(dumps) >= 120
    for path in dumps:
        name, stream, direction, _ = path.name.rsplit(".", 3)
        assert counted(path.read_bytes(), 65536) == expected(name, int(stream), direction), path.name
