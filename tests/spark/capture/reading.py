"""Captures read without Spark: what its tasks would read, as lists of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amqpforge.capture.tcp import Direction
from amqpforge.spark.capture import plan
from amqpforge.spark.capture.options import CaptureOptions
from tests.capture import build

FOLDER = Path(__file__).resolve().parents[2] / "data" / "captures"
Row = dict[str, Any]


def options(path: Path, **said: str) -> CaptureOptions:
    return CaptureOptions.read({"path": str(path), **said})


def parts(path: Path, **said: str) -> list[plan.Part]:
    """The parts of one file, each of them a task."""
    return [part for task in plan.tasks([str(path)], options(path, **said)) for part in task]


def rows_of(part: plan.Part, chosen: CaptureOptions) -> list[Row]:
    return [row for batch in plan.batches(part, chosen) for row in batch.to_pylist()]


def rows(path: Path, **said: str) -> list[Row]:
    """All rows of a file but those of ends, in the order of its parts."""
    return [row for row in rows_and_ends(path, **said) if row["kind"] != "end"]


def rows_and_ends(path: Path, **said: str) -> list[Row]:
    """All rows of a file."""
    chosen = options(path, **said)
    return [row for part in parts(path, **said) for row in rows_of(part, chosen)]


def pcapng(packets: list[bytes]) -> bytes:
    """A capture whose packets are a microsecond apart."""
    blocks = [build.enhanced(data, number) for number, data in enumerate(packets)]
    return build.section() + build.interface() + b"".join(blocks)


def saved(folder: Path, packets: list[bytes], name: str = "made.pcapng") -> Path:
    path = folder / name
    path.write_bytes(pcapng(packets))
    return path


def from_client(*sent: bytes) -> list[tuple[Direction, bytes]]:
    """What `talk` takes."""
    return [("c2s", octets) for octets in sent]


def talk(*sent: tuple[Direction, bytes], handshake: bool = True) -> build.Talk:
    """A connection in which each octet string is a packet."""
    made = build.Talk()
    if handshake:
        made.handshake()
    for direction, octets in sent:
        if direction == "c2s":
            made.send(octets)
        else:
            made.answer(octets)
    return made
