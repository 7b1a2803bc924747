"""From captures to the page, with errors that people can read."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amqpforge.capture.errors import CaptureError
from amqpforge.errors import LocalError

from .build import build
from .gather import Gathered, gather
from .page import write_page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["NotReported", "check", "report"]

_OURS: Final = re.compile(r"^amqpforge(?:\.\w+)*\.(\w+): (.+)$", re.MULTILINE)
"""An error of ours at the end of a traceback that a worker sent."""


_SHOWN_ODD: Final = 5
_HINT: Final = "; choose the files of a folder"


class NotReported(LocalError):
    """The captures could not be analysed; the message has what a worker said."""


def check(paths: Sequence[str]) -> None:
    """See whether the captures can be read at all, from their first octets.

    Raises:
        OptionError: a path names nothing.
        NotReported: a file is no capture.
        OSError: a file cannot be read.
    """
    from amqpforge.spark.capture import plan
    from amqpforge.spark.capture.inputs import files
    from amqpforge.spark.capture.options import CaptureOptions

    options = CaptureOptions.read({"paths": json.dumps(list(paths)), "minPartitions": "1"})
    try:
        # Of files that are one task each, nothing but the beginning is read.
        plan.tasks(files(paths, None), replace(options, partition_octets=sys.maxsize))
    except CaptureError as error:
        raise NotReported(_no_capture(error.reason)) from error


def report(
    spark: SparkSession,
    paths: Sequence[str],
    output: Path,
    *,
    dialect: str | None = None,
    told: Callable[[str], None] = lambda step: None,
) -> None:
    """Write the page on some captures.

    Args:
        spark: the session.
        paths: files, folders and patterns.
        output: the page; one that is there is written over.
        dialect: whose frames are shown with their fields; None: the one that most frames are of.
        told: called with each of ``STEPS`` as it begins.

    Raises:
        NotReported: a path names nothing; a file is no capture; there is no AMQP in any.
        OSError: the page cannot be written.
    """
    from pyspark.errors import PySparkException

    try:
        found = gather(spark, paths, dialect=dialect, told=told)
    except PySparkException as error:
        raise NotReported(_reason(error)) from error
    if not found.connection_count:
        raise NotReported(_nothing(found))
    write_page(build(found), output)


def _nothing(found: Gathered) -> str:
    """That there is nothing to report on, and what was odd about the captures."""
    odd = [f"{row['file']}: {row['description']}" for row in found.errors[:_SHOWN_ODD] if row["description"]]
    return "\n  ".join([f"no AMQP connection was found in {', '.join(found.paths)}", *odd])


def _reason(error: Exception) -> str:
    """The error of ours that is inside one of Spark's, without its traceback; else its first line."""
    text = str(error)
    ours = _OURS.findall(text)
    if not ours:
        return f"Spark gave up: {text.strip().partition(chr(10))[0]}"
    kind, reason = map(str, ours[-1])
    if kind == CaptureError.__name__:
        return _no_capture(reason)
    return reason


def _no_capture(reason: str) -> str:
    """That a file is no capture; what its error says further is about an option of Spark's reader."""
    found = reason.partition(_HINT)[0]
    return f"{found}; name captures one by one, or by a pattern such as 'folder/*.pcap*'"
