"""What the tests of record batches share."""

from __future__ import annotations

from typing import Any


def column(batch: Any, name: str) -> list[Any]:
    """The values of one column of a ``pyarrow.RecordBatch``."""
    values: list[Any] = batch.column(name).to_pylist()
    return values
