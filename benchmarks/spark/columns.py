"""Octets to columns and back in one process, without a session: what each task does most of its time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import pyarrow as pa

from amqpforge_spark.amqp_1_0 import FrameColumns, decode_messages, encode_messages
from benchmarks.spark.contents import BODY_SIZE, bodies, filler, frames, messages

_TOGETHER = 10
_ORIGIN = (0, "127.0.0.1", 57114, "127.0.0.1", 5672, "c2s")


class WrongColumnsError(Exception):
    """What came out is not what went in."""


def _table(count: int) -> pa.RecordBatch:
    """Rows as a table has them that people write: sections by name, plain values."""
    properties = [
        {"message_id": f"order-{number:09d}", "subject": "placed", "content_type": "application/octet-stream"}
        for number in range(count)
    ]
    tags = pa.array(
        [
            [("country", "PT"), ("number", str(number)), ("pieces", str(number % 9 + 1))]
            for number in range(count)
        ],
        pa.map_(pa.string(), pa.string()),
    )
    return pa.RecordBatch.from_arrays(
        [pa.array(bodies(count, BODY_SIZE)), pa.array(properties), tags],
        ["body", "properties", "application_properties"],
    )


def _frames(octets: list[bytes]) -> pa.RecordBatch:
    """As a capture brings them: some in each segment of TCP."""
    columns = FrameColumns()
    offset = 0
    for number in range(0, len(octets), _TOGETHER):
        some = octets[number : number + _TOGETHER]
        joined = b"".join(some)
        columns.extend(joined, list(map(len, some)), _ORIGIN, number, offset)
        offset += len(joined)
    return columns.finish()


class Columns:
    """The calls to be timed, on so many rows each; what they return is known to be right.

    Attributes:
        calls: by name; each returns what it made.
    """

    def __init__(self, count: int) -> None:
        """Run each once, and check what came out.

        Raises:
            WrongColumnsError: a row is not what it was made of.
        """
        octets = messages(count)
        spooled = pa.RecordBatch.from_arrays([pa.array(octets)], ["payload"])
        as_read = decode_messages(spooled)
        table = _table(count)
        captured = frames(count)
        self.calls: Mapping[str, Callable[[], Any]] = {
            "encode": lambda: encode_messages(as_read),
            "encode table": lambda: encode_messages(table),
            "decode": lambda: decode_messages(spooled),
            "frames": lambda: _frames(captured),
        }
        self._right = {name: call() for name, call in self.calls.items()}
        _check("messages", self._right["encode"], octets)
        written = decode_messages(
            pa.RecordBatch.from_arrays([pa.array(self._right["encode table"])], ["payload"])
        )
        _check("bodies", written.column("body").to_pylist(), table.column("body").to_pylist())
        _check_decoded(as_read, count)
        _check_frames(self._right["frames"], captured)

    def measure(self) -> dict[str, float]:
        """Seconds of each call.

        Raises:
            WrongColumnsError: one does not return what it did before.
        """
        found = {}
        for name, call in self.calls.items():
            begin = perf_counter()
            made = call()
            found[name] = perf_counter() - begin
            right = self._right[name]
            if not (made.equals(right) if isinstance(made, pa.RecordBatch) else made == right):
                raise WrongColumnsError(f"{name} does not give the same again")
        return found


def _check(what: str, found: list[Any], expected: list[Any]) -> None:
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one != other:
            raise WrongColumnsError(f"{what}: that of row {number} is {one!r:.200}, not {other!r:.200}")


def _check_decoded(batch: pa.RecordBatch, count: int) -> None:
    """Every value of a message, row by row."""
    rest = filler(BODY_SIZE)
    for number, row in enumerate(batch.to_pylist()):
        properties, application = row["properties"], dict(row["application_properties"])
        found = (
            row["_corrupt"],
            row["body"],
            properties["message_id"]["string"],
            properties["subject"],
            application["number"]["long"],
            application["country"]["string"],
            application["pieces"]["long"],
        )
        body = number.to_bytes(8, "big") + rest
        expected = (None, body, f"order-{number:09d}", "placed", number, "PT", number % 9 + 1)
        _check("messages decoded", [found], [expected])
    _check("messages decoded", [batch.num_rows], [count])


def _check_frames(batch: pa.RecordBatch, octets: list[bytes]) -> None:
    """Every frame has its row, and no other struct than that of its name."""
    names = batch.column("name").to_pylist()
    transfers = [row for row in batch.column("transfer").to_pylist() if row is not None]
    _check("frames", [len(names), batch.column("_corrupt").null_count], [len(octets)] * 2)
    _check("transfers", [row["delivery_id"] for row in transfers], list(range(names.count("transfer"))))
    for name in ("disposition", "flow"):
        present = len(octets) - batch.column(name).null_count
        _check(f"frames of {name}", [present], [names.count(name)])
