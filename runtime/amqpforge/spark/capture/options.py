"""What the user of ``format("amqp_capture")`` may say."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from amqpforge.capture.dialects import dialects
from amqpforge.capture.reader import FORMATS, Format
from amqpforge.capture.tcp import Direction
from amqpforge.spark.options import OptionError, OptionReader

from .rows import Wanted, held

__all__ = ["OPTIONS", "CaptureOptions"]

OPTIONS: Final = (
    "path",
    "paths",
    "dialect",
    "sections",
    "fields",
    "captureFormat",
    "direction",
    "pathGlobFilter",
    "maxPartitionBytes",
    "minPartitions",
)
"""The names of the options, as the guide writes them."""

_USUAL: Final = "amqp_1_0"
_PARTITION_OCTETS: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """What is to be read, and how.

    Attributes:
        paths: files, folders and patterns.
        wanted: the columns; a connection whose protocol header was not captured is taken for one in their
            dialect.
        format: of the files; "auto" is found out.
        direction: of stream dumps.
        name_pattern: what the name of a file in a folder has to match; None: anything.
        partition_octets: of a file, for one task at most.
        min_partitions: tasks to be made of what is large enough.
    """

    paths: tuple[str, ...]
    wanted: Wanted
    format: Format
    direction: Direction
    name_pattern: str | None
    partition_octets: int
    min_partitions: int

    @classmethod
    def read(cls, options: Mapping[str, str]) -> CaptureOptions:
        """Check the options of a data source.

        Raises:
            OptionError: one is not known, or wrong.
        """
        reader = OptionReader(options, OPTIONS, purpose="amqp_capture")
        form = reader.choice("captureFormat", FORMATS, "auto")
        direction = reader.choice("direction", ("c2s", "s2c"), "c2s")
        known = sorted(name for name, dialect in dialects().items() if dialect.package)
        dialect = reader.choice("dialect", known, _USUAL)
        return cls(
            paths=_paths(reader),
            wanted=Wanted(dialect, reader.flag("sections", default=True), _fields(reader, dialect)),
            format=next(one for one in FORMATS if one == form),
            direction="s2c" if direction == "s2c" else "c2s",
            name_pattern=reader.text("pathGlobFilter"),
            partition_octets=reader.octets("maxPartitionBytes", None) or _PARTITION_OCTETS,
            min_partitions=reader.count("minPartitions", None) or os.cpu_count() or 1,
        )


def _fields(reader: OptionReader, dialect: str) -> frozenset[str] | None:
    """The names of the columns that are wanted of what frames of a dialect hold; None: all.

    Raises:
        OptionError: there is no such column.
    """
    said = reader.text("fields", "all")
    if said == "all":
        return None
    if said == "none":
        return frozenset()
    return frozenset(reader.names("fields", held(dialect)) or ())


def _paths(reader: OptionReader) -> tuple[str, ...]:
    """What ``load`` was given: one path, or several as a JSON array."""
    several = reader.text("paths")
    if several is None:
        return (reader.required("path", "name a capture, a folder or a pattern: load(path)"),)
    try:
        found = json.loads(several)
    except ValueError:
        found = None
    if not isinstance(found, list) or not found or not all(isinstance(path, str) for path in found):
        raise OptionError("paths", "is a JSON array of paths")
    return tuple(found)
