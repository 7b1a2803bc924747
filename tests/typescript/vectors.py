"""Writes what the TypeScript package is held to: the octets of ``tests/data`` and of generated values, and
what the Python package makes of them, in the notation of ``amqpforge decode --json``.

Run as ``python -m tests.typescript.vectors FOLDER``. Every file is JSON, one row a line; the tests in Node
read them.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from amqpforge import cli
from amqpforge.notation import sections_to_json, to_json
from amqpforge_protocol import amqp_1_0 as amqp
from amqpforge_protocol.amqp_1_0 import DecodeError, Limits
from tests.codec import strategies, test_captures, test_hostile, vectors

Row = dict[str, Any]

GENERATED = 10_000
"""Values to generate: of every type, and of every class."""

CORRUPTED_OF_EACH = 24
"""Corruptions of every sample, beside all its truncations."""

LIMITS = {"strict": Limits(strict=True), "narrow": Limits(depth=3, elements=6)}
"""Limits other than the usual ones under which every sample is decoded."""


def as_value(octets: bytes, limits: Limits) -> Row:
    """What is made of one value."""
    value, end = amqp.decode_value(octets, limits=limits)
    return {"json": to_json(value), "end": end, "again": amqp.encode_value(value).hex()}


def as_frame(octets: bytes, limits: Limits) -> Row:
    """What is made of one frame."""
    frame, end = amqp.decode_frame(octets, limits=limits)
    again = amqp.encode_frame(frame.performative, frame.channel or 0, frame.payload)
    told = {"type": frame.type, "channel": frame.channel, "performative": to_json(frame.performative)}
    return {"json": told | {"payload": frame.payload.hex()}, "end": end, "again": again.hex()}


def as_message(octets: bytes, limits: Limits) -> Row:
    """What is made of one message."""
    message = amqp.decode_message(octets, limits=limits)
    bare = None if message.bare is None else message.bare.hex()
    try:
        again = amqp.encode_message(message)
    except amqp.EncodeError as error:
        return {"bare": bare, "unencodable": [error.type, error.field]}
    return {"json": sections_to_json(again), "bare": bare, "again": again.hex()}


DECODERS: dict[str, Callable[[bytes, Limits], Row]] = {
    "value": as_value,
    "frame": as_frame,
    "message": as_message,
}


def decoded(kind: str, octets: bytes, limits: str = "") -> Row:
    """A row: octets, and what Python makes of them, be it the facts of an error."""
    row: Row = {"kind": kind, "hex": octets.hex(), "limits": limits}
    try:
        return row | DECODERS[kind](octets, LIMITS.get(limits, amqp.DEFAULT_LIMITS))
    except DecodeError as error:
        return row | {"error": [error.type, error.field, error.offset]}


def golden() -> Iterator[Row]:
    """The vectors of other implementations; those of primitives with the value that the file has."""
    for rows in vectors.primitives().values():
        for vector in rows:
            yield decoded("value", vector.octets) | {"name": vector.name, "told": dict(vector.typed)}
    for row in vectors.nonconforming():
        for limits in ("", "strict"):
            yield decoded("value", bytes.fromhex(row["hex"]), limits) | {"name": row["name"]}
    for row in vectors.frames():
        told: str = row["decoded"]["kind"]
        kind = {"sasl-frame": "frame", "protocol-header": "header"}.get(told, told)
        octets = bytes.fromhex(row["hex"])
        if kind == "header":
            yield {"kind": kind, "hex": row["hex"], "name": row["name"], "told": row["decoded"]}
        else:
            yield decoded(kind, octets) | {"name": row["name"]}


def generated() -> Iterator[Row]:
    """Values of every type and every class, as JSON and as Python encodes them."""
    drawn: list[Any] = []
    names = sorted(vectors.classes())
    composites = st.sampled_from(names).flatmap(strategies.composites)
    anything = st.one_of(strategies.values, composites, strategies.messages())

    @hypothesis.seed(1)
    @hypothesis.settings(
        max_examples=GENERATED,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.large_base_example,
            HealthCheck.data_too_large,
        ],
    )
    @hypothesis.given(anything)
    def collect(value: Any) -> None:
        drawn.append(value)

    while len(drawn) < GENERATED:
        collect()
    for value in drawn[:GENERATED]:
        if isinstance(value, amqp.Message):
            octets = amqp.encode_message(value)
            yield {"kind": "message", "json": sections_to_json(octets), "hex": octets.hex()}
        else:
            octets = amqp.encode_value(value)
            yield {"kind": "value", "json": to_json(amqp.decode_value(octets)[0]), "hex": octets.hex()}


def samples() -> Iterator[tuple[str, bytes]]:
    """Octets of every kind that are not too long to be cut at each place."""
    for octets in dict.fromkeys(test_hostile.SMALL):
        yield "value", octets
    for name, octets in test_hostile.SAMPLES.items():
        yield name if name in DECODERS else "value", octets
    for row in vectors.frames():
        kind = row["decoded"]["kind"].removeprefix("sasl-")
        if kind in DECODERS and len(row["hex"]) <= 400:
            yield kind, bytes.fromhex(row["hex"])


def faults() -> Iterator[Row]:
    """Every sample cut at each length, and with octets changed."""
    rng = random.Random(2)
    for kind, octets in samples():
        for name in LIMITS:
            yield decoded(kind, octets, name)
        for length in range(1, len(octets)):
            yield decoded(kind, octets[:length])
        for _ in range(CORRUPTED_OF_EACH):
            changed = bytearray(octets)
            for _ in range(rng.randint(1, 2)):
                changed[rng.randrange(len(changed))] = rng.choice(
                    (0x00, 0x40, 0x45, 0xFF, rng.randrange(256))
                )
            yield decoded(kind, bytes(changed), rng.choice(("", "", "strict")))


def captures() -> Iterator[Row]:
    """Every direction of every stream captured: its octets, and the lines of ``amqpforge decode --json``."""
    for name in test_captures.NAMES:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            cli.main(["decode", "--json", str(test_captures.FOLDER / f"{name}.pcapng")])
        lines = [json.loads(line) for line in printed.getvalue().splitlines()]
        for (stream, direction), octets in test_captures.streams(name).items():
            items = [
                {key: value for key, value in line.items() if key not in ("time", "stream", "direction")}
                for line in lines
                if (line["stream"], line["direction"]) == (stream, direction)
            ]
            yield {
                "name": f"{name} {stream} {direction}",
                "octets": base64.b64encode(octets).decode(),
                "items": items,
                "messages": list(messages(octets)),
            }


def messages(octets: bytes) -> Iterator[Any]:
    """The sections of every complete message of a stream."""
    reader, partial = amqp.FrameReader(test_captures.LARGEST_FRAME), dict[tuple[int | None, int], bytes]()
    for item in reader.feed(octets):
        if item.startswith(b"AMQP"):
            continue
        frame = amqp.decode_frame(item)[0]
        transfer = frame.performative
        if not isinstance(transfer, amqp.Transfer):
            continue
        place = (frame.channel, transfer.handle)
        together = partial.pop(place, b"") + frame.payload
        if transfer.more:
            partial[place] = together
        elif together and not transfer.aborted:
            yield sections_to_json(together)


FILES: dict[str, Callable[[], Iterable[Row]]] = {
    "golden": golden,
    "generated": generated,
    "faults": faults,
    "captures": captures,
}


def main(folder: Path) -> None:
    """Write all files into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in FILES.items():
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
