"""What the fuzzer starts from: vectors and captures from ``tests``, each for the checks that can use it."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from amqpforge.capture.network import SegmentReader
from amqpforge.capture.pcapng import read_pcapng
from amqpforge.capture.source import Source
from amqpforge.capture.tcp import Assembler, Data
from amqpforge_protocol import amqp_0_9_1, amqp_0_10_preview
from fuzz import engine
from tests.codec import draft_vectors, value_vectors

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
FILES = {
    "primitives.json": ("value",),
    "primitives-large.json.gz": ("value",),
    "nonconforming.json": ("value",),
    "frames.json": ("performative", "frame", "message", "stream"),
}
FRAME_HEADER = 8
"""Octets in front of the performative in a frame of AMQP 1.0."""

FRAMES_OF_A_CONTENT = 4
"""Frames in one input for what puts contents together."""

LARGEST_FRAME = 1 << 21
BEGINNINGS = b"A\x01"
"""First octets of AMQP 0-9-1, from either side; the captures hold other traffic, too."""

Seed = tuple[str, bytes]
"""The name of a check, and octets for it."""


def seeds() -> Iterator[Seed]:
    """All inputs, for all checks."""
    for name, octets in _amqp_1_0():
        yield f"amqp_1_0.{name}", octets
    for vector in value_vectors.VECTORS:
        yield f"{_name(vector.dialect)}.value", vector.octets
        if isinstance(vector.value, dict):
            kind = "map" if hasattr(vector.dialect, "decode_map") else "table"
            yield f"{_name(vector.dialect)}.{kind}", vector.octets[1:]  # without its type code
    for dialect in (amqp_0_9_1, amqp_0_10_preview):
        for number in dialect.METHODS:
            yield f"{_name(dialect)}.method", number.to_bytes(4, "big") + bytes(12)
    for name, octets in _conversations():
        yield f"amqp_0_9_1.{name}", octets
        yield f"amqp_0_10_preview.{name}", octets
    for name, octets in _preview():
        yield f"amqp_0_10_preview.{name}", octets
    for operation in draft_vectors.VECTORS.values():
        yield "amqp_1_0_draft.operation", operation.octets
    for frame in draft_vectors.FRAMES:
        yield "amqp_1_0_draft.frame", frame.octets
        yield "amqp_1_0_draft.stream", frame.octets
    for octets in engine.seeds():
        yield "engine.connection", octets


def _name(dialect: object) -> str:
    return str(getattr(dialect, "__name__", "")).rpartition(".")[2]


def _amqp_1_0() -> Iterator[Seed]:
    for file, names in FILES.items():
        path = DATA / "vectors" / file
        data = path.read_bytes()
        for row in json.loads(gzip.decompress(data) if path.suffix == ".gz" else data):
            octets = bytes.fromhex(row["hex"])
            for name in names:
                yield name, octets[FRAME_HEADER:] if name == "performative" else octets


def _conversations() -> Iterator[Seed]:
    """The frames of the captured conversations in AMQP 0-9-1, alone and a few in a row."""
    for path in sorted((DATA / "captures").glob("p091-*.pcapng")):
        for octets in _streams(path):
            yield "stream", octets
            frames = amqp_0_9_1.FrameReader(LARGEST_FRAME).feed(octets)
            for place, frame in enumerate(frames):
                yield "frame", frame
                yield "content", b"".join(frames[place : place + FRAMES_OF_A_CONTENT])
                name = {1: "method", 2: "header"}.get(frame[0])
                if name:
                    yield name, frame[7:-1]


def _preview() -> Iterator[Seed]:
    """A message of the 0-10 preview with another one inside, which no capture shows."""
    amqp = amqp_0_10_preview
    delivery = amqp.DeliveryProperties(redelivered=True, ttl=1, exchange="e", routing_key="k")
    message = amqp.MessageProperties(
        reply_to=amqp.ReplyTo(exchange_name="e", routing_key="k"), application_headers={"a": [1, None]}
    )
    inner = amqp.Content(amqp.MessageStructs(structs=[delivery]), b"inner")
    content = amqp.Content(amqp.MessageStructs(structs=[delivery, message]), b"outer", [inner])
    transfer = amqp.MessageTransfer(ticket=1, destination="d", confirm_mode=1, acquire_mode=1)
    octets = amqp.encode_content(transfer, content, 1)
    yield "content", octets
    yield "stream", octets
    for frame in amqp.FrameReader().feed(octets):
        yield "frame", frame
    yield "header", amqp.ContentHeader(content.properties, 5, 1).encode()
    yield "method", transfer.encode()


def _streams(path: Path) -> list[bytes]:
    """The octets of every stream and direction of a capture that are AMQP."""
    found: dict[tuple[int, str], bytearray] = {}
    segments, assembler = SegmentReader(), Assembler()
    with path.open("rb") as file:
        for time, link_type, data, _ in read_pcapng(Source(file.read), sys.exit):
            segment = segments.read(link_type, data)
            for event in () if segment is None else assembler.feed(time, segment):
                if isinstance(event, Data):
                    place = (event.half.stream.number, event.half.direction)
                    found.setdefault(place, bytearray()).extend(event.data)
    return [bytes(octets) for octets in found.values() if octets[0] in BEGINNINGS]
