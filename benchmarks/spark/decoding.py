"""Captures decoded by what a task of Spark runs, the reader of ``format("amqp_capture")``, without Spark."""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.spark import handed_over
from pyspark_amqp_capture import DefaultSource


def plan(path: str, columns: Mapping[str, str], parts: int) -> dict[str, Any]:
    """Divide a capture into parts, if it is large enough: ``partitions``, pickled, for the other calls."""
    found = _reader(path, columns, parts).partitions()
    return {"partitions": [b64encode(pickle.dumps(one)).decode() for one in found]}


def decode(path: str, columns: Mapping[str, str], partition: str) -> dict[str, Any]:
    """Decode a part into nowhere; returns how many rows there were."""
    return {"rows": sum(batch.num_rows for batch in _batches(path, columns, partition))}


def record(path: str, columns: Mapping[str, str], file: str) -> dict[str, Any]:
    """Write the rows of a capture into a file, as record batches; returns how many there are."""
    partitions = plan(path, columns, 1)["partitions"]
    batches = (batch for one in partitions for batch in _batches(path, columns, one))
    schema = DefaultSource({**columns, "path": path}).schema()
    return {"rows": handed_over.record(batches, schema, file)}


def count_names(path: str, columns: Mapping[str, str], partition: str) -> dict[str, Any]:
    """How many rows of a part there are by their names; those without one have ``""``."""
    found: Counter[str] = Counter()
    for batch in _batches(path, columns, partition):
        found.update(name or "" for name in batch.column("name").to_pylist())
    return dict(found)


def _reader(path: str, columns: Mapping[str, str], parts: int = 1) -> Any:
    source = DefaultSource({**columns, "path": path, "minPartitions": str(parts)})
    return source.reader(source.schema())


def _batches(path: str, columns: Mapping[str, str], partition: str) -> Iterator[Any]:
    yield from _reader(path, columns).read(pickle.loads(b64decode(partition)))
