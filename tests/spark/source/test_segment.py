"""Segments: their rows in batches that are decoded at once."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import amqpforge
from amqpforge.spark.source import segment
from amqpforge.spark.source.batch import AmqpBatchReader
from amqpforge.spark.source.options import ReadOptions
from amqpforge.spark.source.segment import Rows, decode_segments, encode_segment
from amqpforge.spark.source.stream import AmqpStreamReader, SegmentPartition

SEGMENTS, ROWS = 20, 30
COLUMNS = ("address", "body", "_corrupt")


def segments() -> list[pa.RecordBatch]:
    """Segments with the numbers from 0 on as bodies."""
    found = []
    for first in range(0, SEGMENTS * ROWS, ROWS):
        rows = Rows()
        for number in range(first, first + ROWS):
            payload = amqpforge.Message(b"%d" % number).encode()
            rows.append("q", "link", b"%d" % number, number, 0, payload)
        found.append(rows.batch())
    return found


def numbers(batches: list[pa.RecordBatch]) -> list[int]:
    return [int(body) for batch in batches for body in batch["body"].to_pylist()]


def test_small_segments_are_decoded_together() -> None:
    batches = list(decode_segments(segments(), COLUMNS))
    assert [batch.num_rows for batch in batches] == [SEGMENTS * ROWS]
    assert batches[0].schema.names == list(COLUMNS)
    assert numbers(batches) == list(range(SEGMENTS * ROWS))


@pytest.mark.parametrize("most", [1, ROWS - 1, ROWS, ROWS + 1, 4 * ROWS + 7])
def test_no_more_rows_than_that_are_decoded_at_once(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "_ROWS", most)
    batches = list(decode_segments(segments(), COLUMNS))
    assert max(batch.num_rows for batch in batches) <= most
    assert numbers(batches) == list(range(SEGMENTS * ROWS))


def test_no_more_octets_than_that_are_decoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given = segments()
    monkeypatch.setattr(segment, "_OCTETS", 2 * given[-1].nbytes)
    batches = list(decode_segments(given, COLUMNS))
    assert [batch.num_rows for batch in batches] == [2 * ROWS] * (SEGMENTS // 2)
    monkeypatch.setattr(segment, "_OCTETS", 1)
    assert [batch.num_rows for batch in decode_segments(given, COLUMNS)] == [ROWS] * SEGMENTS


def test_of_nothing_there_are_no_rows() -> None:
    assert list(decode_segments([], COLUMNS)) == []
    assert list(decode_segments([Rows().batch()], COLUMNS)) == []


@pytest.mark.parametrize("kind", [AmqpStreamReader, AmqpBatchReader])
def test_a_task_that_reads_segments_does_without_the_client(kind: type, tmp_path: Path) -> None:
    """Each worker of Spark imports what its tasks need, and the client takes longer than many a task."""
    (tmp_path / "one.arrow").write_bytes(encode_segment(segments()[0]))
    given = {"url": "amqp://127.0.0.1", "address": "q", "spoolLocation": str(tmp_path)}
    reader = kind(ReadOptions.for_stream(given))
    task = pickle.dumps((reader, SegmentPartition(str(tmp_path), ("one.arrow",))))
    program = (
        "import pickle, sys\n"
        "reader, partition = pickle.load(sys.stdin.buffer)\n"
        "print(sum(batch.num_rows for batch in reader.read(partition)), 'amqpforge.client' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], input=task, capture_output=True, check=True)
    assert done.stdout.split() == [b"%d" % ROWS, b"False"]
