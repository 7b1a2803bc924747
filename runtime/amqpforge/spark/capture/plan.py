"""From files to tasks: one pass over a large file that marks where tasks begin.

The pass reads packet headers and the sizes of frames; with messages, it puts together those that several
transfers carry, too. It ends where the last part but one begins: over that one the task of the last part
passes by itself, while another task decodes it. So nobody waits for a file in two parts. A file that cannot
be entered in the middle, a gzip form or hexadecimal text, is one task.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark import cloudpickle

from amqpforge.capture.errors import CaptureError
from amqpforge.capture.reader import Format, detect
from amqpforge.capture.source import Remark, Source, gunzip, is_gzip

from .inputs import Readable, Resumed
from .options import CaptureOptions
from .rows import Rows
from .walk import Walk

__all__ = ["Part", "batches", "tasks"]

_LEAST_PART: Final = 4 * 1024 * 1024
"""Octets of a file that are worth a task of their own."""

_PASSING: Final = 1 / 3
"""What passing over octets takes of what decoding them takes."""

_SMALL_STATE: Final = 256 * 1024
_TRIES: Final = 16
"""Places that are tried until one is found where little is incomplete."""

_GZIP_LOOK: Final = 2
_PCAP_HEADER: Final = 24
_SECTION, _INTERFACE = 0x0A0D0D0A, 1
_SECTION_START: Final = b"\x0a\x0d\x0d\x0a"
_LITTLE: Final = b"\x4d\x3c\x2b\x1a"
_SPLITTABLE: Final = frozenset(("pcap", "pcapng", "raw"))


class Part(NamedTuple):
    """A part of a file: packets, or pieces of a dump, that begin at `since` or later, and before `until`.

    It is read from `start` on, where a place was marked, behind `first`, what a reader needs of the beginning
    of the file; `state` is the pickled `Walk` there, None at the beginning. `since` is 0 where all is wanted
    from there on, `until` None where the file ends. `packed`: the file is a gzip form.
    """

    path: str
    form: Format
    packed: bool
    start: int
    first: bytes
    state: bytes | None
    since: int
    until: int | None


def tasks(paths: list[str], options: CaptureOptions) -> list[list[Part]]:
    """What each task reads: parts of large files, several small ones together.

    Raises:
        CaptureError: a file is no capture; the text names it.
        OSError: a file cannot be read.
    """
    sizes = [os.stat(path).st_size for path in paths]
    wanted = -(-sum(sizes) // options.min_partitions)
    wanted = min(max(wanted, _LEAST_PART), options.partition_octets)
    found: list[list[Part]] = []
    held, room = list[Part](), wanted
    for path, size in zip(paths, sizes, strict=True):
        parts = _parts(path, size, round(size / wanted), options)
        if len(parts) > 1:
            found += [[part] for part in parts]
            continue
        if held and size > room:
            found.append(held)
            held, room = [], wanted
        held += parts
        room -= size
    return [*found, held] if held else found


def batches(part: Part, options: CaptureOptions) -> Iterator[Any]:
    """The record batches of a part."""
    rows = Rows(part.path, options.wanted)
    if part.state is None:
        walk = _beginning(options)
    else:
        walk = cloudpickle.loads(zlib.decompress(part.state))
    with Path(part.path).open("rb") as file:
        source = _source(Resumed(file, part.first, part.start), part.packed, walk.remark)
        source.start = part.start - len(part.first)
        yield from walk.rows(source, part.form, rows, since=part.since, until=part.until)


def _beginning(options: CaptureOptions) -> Walk:
    wanted = options.wanted
    return Walk(wanted.dialect, options.direction, sections=wanted.sections and wanted.dialect == "amqp_1_0")


def _source(file: Readable, packed: bool, remark: Remark) -> Source:
    return Source(gunzip(file.read, remark)) if packed else Source(file.read)


def _parts(path: str, size: int, count: int, options: CaptureOptions) -> list[Part]:
    """The parts of a file, ``count`` of them if that can be."""
    with Path(path).open("rb") as file:
        packed = is_gzip(file.read(_GZIP_LOOK))
        file.seek(0)
        form = options.format
        if form == "auto":
            try:
                form = detect(_source(file, packed, _ignore), is_forced=False)
            except CaptureError as error:
                hint = "choose the files of a folder with the option 'pathGlobFilter'"
                raise CaptureError(f"{path}: {error.reason}; {hint}") from None
        parts = [Part(path, form, packed, 0, b"", None, 0, None)]
        if packed or form not in _SPLITTABLE or count < 2:
            return parts
        *wanted, last = [round(size * number / (count - _PASSING)) for number in range(1, count)]
        file.seek(0)
        for place, first, state in _marks(file, form, wanted, options):
            parts[-1] = parts[-1]._replace(until=place)
            parts.append(Part(path, form, packed, place, first, state, 0, None))
    since = max(last, parts[-1].start + 1)
    return [*parts[:-1], parts[-1]._replace(until=since), parts[-1]._replace(since=since)]


def _marks(
    file: Readable, form: Format, wanted: list[int], options: CaptureOptions
) -> list[tuple[int, bytes, bytes]]:
    """Where to begin, as near behind the wanted places as can be; what a reader needs first; the state."""
    found: list[tuple[int, bytes, bytes]] = []
    walk = _beginning(options)
    tries = 0

    def mark(place: int, first: bytes) -> bool:
        """Take a place if it will do; whether that was the last."""
        nonlocal tries
        if place < wanted[len(found)]:
            return False
        state = zlib.compress(cloudpickle.dumps(walk), 1)  # type: ignore[no-untyped-call]
        tries += 1
        if len(state) <= _SMALL_STATE or tries >= _TRIES:
            found.append((place, first, state))
            tries = 0
        return len(found) == len(wanted)

    if wanted:
        with suppress(_AllMarked):
            walk.follow(_Marking(file, form, mark), form)
    return found


class _AllMarked(Exception):
    """The rest of the file need not be read."""


class _Marking(Source):
    """A source that tells the places between packets, each time it has to read on.

    What came before such a place has been read to the end by then.
    """

    __slots__ = ("_first", "_form", "_mark", "_order")

    def __init__(self, file: Readable, form: Format, mark: Callable[[int, bytes], bool]) -> None:
        super().__init__(file.read)
        self._form: Format = form
        self._mark = mark
        self._first = b""
        self._order = "<"

    def more(self, position: int, wanted: int) -> bool:
        """Tell the place, then read on."""
        if position:
            if self._form == "pcapng":
                self._keep_descriptions(position)
            elif not self.start:
                self._first = self.data[:_PCAP_HEADER]
            self._tell(self.start + position)
        return super().more(position, wanted)

    def read(self, limit: int) -> bytes:
        """Tell the place, then read on."""
        if self.start:
            self._tell(self.start)
        return super().read(limit)

    def _tell(self, place: int) -> None:
        if self._mark(place, self._first):
            raise _AllMarked

    def _keep_descriptions(self, end: int) -> None:
        """Keep the blocks ahead of `end` without which a reader does not understand later ones."""
        data, position = self.data, 0
        while position < end:
            if data.startswith(_SECTION_START, position):
                self._order = "<" if data[position + 8 : position + 12] == _LITTLE else ">"
                self._first = b""
            kind, total = struct.unpack_from(self._order + "II", data, position)
            if kind in (_SECTION, _INTERFACE):
                self._first += data[position : position + total]
            position += total


def _ignore(text: str) -> None:
    """Whoever reads the file tells what is odd about it."""
