"""From captures to the page, with errors that people can read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amqpforge.errors import LocalError

from .build import build
from .gather import gather
from .page import write_page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["NotReported", "report"]

_OURS: Final = re.compile(r"^amqpforge(?:\.\w+)*\.(\w+): (.+)$", re.MULTILINE)
"""An error of ours at the end of a traceback that a worker sent."""


class NotReported(LocalError):
    """The captures could not be analysed; the message has what a worker said."""


def report(
    spark: SparkSession,
    paths: Sequence[str],
    output: Path,
    *,
    dialect: str = "amqp_1_0",
    told: Callable[[str], None] = lambda step: None,
) -> None:
    """Write the page on some captures.

    Args:
        spark: the session.
        paths: files, folders and patterns.
        output: the page; one that is there is written over.
        dialect: whose frames are shown with their fields.
        told: called with each of ``STEPS`` as it begins.

    Raises:
        NotReported: a path names nothing; a file is no capture.
        OSError: the page cannot be written.
    """
    from pyspark.errors import PySparkException

    try:
        found = gather(spark, paths, dialect=dialect, told=told)
    except PySparkException as error:
        raise NotReported(_reason(error)) from error
    write_page(build(found), output)


def _reason(error: Exception) -> str:
    """The error of ours that is inside one of Spark's, without its traceback; else its first line."""
    text = str(error)
    ours = _OURS.findall(text)
    return ours[-1][1] if ours else f"Spark gave up: {text.strip().partition(chr(10))[0]}"
