"""What takes processes of its own to measure: importing the packages, generating them, decoding a capture."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, TemporaryFile
from time import perf_counter

PACKAGE = "amqpforge_protocol"
DIALECTS = ("amqp_1_0", "amqp_0_9_1", "amqp_0_10_preview", "amqp_1_0_draft")
BUDGET_OF_ONE, BUDGET_OF_ALL = 60, 150
"""Milliseconds for the import of a dialect, and of all of them."""

BULK = Path("traffic", "bulk", "p10-bulk-100k-256.pcapng")


@dataclass(frozen=True, slots=True)
class Figure:
    """A named number, with the budget it has to keep if there is one."""

    name: str
    value: float
    unit: str
    budget: float | None = None

    def line(self) -> str:
        """The figure for people."""
        verdict = ""
        if self.budget is not None:
            verdict = (
                f"   at most {self.budget:g} {self.unit}: {'met' if self.value <= self.budget else 'not met'}"
            )
        return f"{self.name:<58}{self.value:>10.2f} {self.unit}{verdict}"


class ProcessFailedError(Exception):
    """A measured process ended with an error."""


class Python:
    """Fresh interpreters that share a private cache of byte code, which the first run fills."""

    def __init__(self, cache: str) -> None:
        self._environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(self, *arguments: str, stdout: int = subprocess.DEVNULL) -> tuple[float, bytes]:
        """Seconds from start to end, and what was written to standard output if that is a pipe.

        Raises:
            ProcessFailedError: the exit status is not 0.
        """
        command = [sys.executable, *arguments]
        begin = perf_counter()
        run = subprocess.run(
            command, stdout=stdout, stderr=subprocess.PIPE, env=self._environment, check=False
        )
        spent = perf_counter() - begin
        if run.returncode:
            said = run.stderr.decode(errors="replace")[-2000:]
            raise ProcessFailedError(f"python {' '.join(arguments)}: {said}")
        return spent, run.stdout or b""

    def start_up(self) -> float:
        """Seconds that an interpreter takes to do nothing."""
        return median([self.run("-c", "pass")[0] for _ in range(7)])


def figures() -> Iterator[Figure]:
    """All figures, one by one as they are measured.

    Raises:
        ProcessFailedError: a process ended with an error.
    """
    with TemporaryDirectory() as cache:
        python = Python(cache)
        yield from import_times(python)
        yield from _generate(python)
        yield from _decode_capture(python)


def import_times(python: Python) -> Iterator[Figure]:
    """Milliseconds to import each dialect, and all of them at once, measured inside fresh processes."""
    for dialect in DIALECTS:
        yield Figure(f"import {PACKAGE}.{dialect}", _import_millis(python, [dialect]), "ms", BUDGET_OF_ONE)
    yield Figure("import all four dialects", _import_millis(python, DIALECTS), "ms", BUDGET_OF_ALL)


def _import_millis(python: Python, dialects: Sequence[str]) -> float:
    """The median of 15 runs, after one that fills the cache of byte code."""
    names = ", ".join([f"{PACKAGE}.{dialect}" for dialect in dialects])
    code = f"import time; begin = time.perf_counter(); import {names}; print(time.perf_counter() - begin)"
    python.run("-c", code)
    return 1000 * median([float(python.run("-c", code, stdout=subprocess.PIPE)[1]) for _ in range(15)])


def _generate(python: Python) -> Iterator[Figure]:
    """Seconds of ``amqpforge-generate`` for all dialects, less an interpreter's start: into an empty
    folder, and a second time.
    """
    start = python.start_up()
    with TemporaryDirectory() as folder:
        python.run("-m", "amqpforge_generator", "--out", str(Path(folder, "warm-up")))
        command = ("-m", "amqpforge_generator", "--out", str(Path(folder, "measured")))
        yield Figure(
            "amqpforge-generate, four dialects from nothing", python.run(*command)[0] - start, "s", 12
        )
        again = median([python.run(*command)[0] for _ in range(7)])
        yield Figure("amqpforge-generate, nothing changed", again - start, "s", 0.4)


def _decode_capture(python: Python) -> Iterator[Figure]:
    """Throughput of ``amqpforge decode`` on the bulk capture, where AMQPFORGE_MATERIAL has it."""
    material = os.environ.get("AMQPFORGE_MATERIAL")
    capture = Path(material, BULK) if material else None
    if capture is None or not capture.is_file():
        return
    for flags in ((), ("--json",)):
        with TemporaryFile() as out:
            spent, _ = python.run("-m", "amqpforge", "decode", *flags, str(capture), stdout=out.fileno())
            out.seek(0)
            frames = sum(chunk.count(b"\n") for chunk in iter(lambda: out.read(1 << 20), b""))
        name = " ".join(("amqpforge decode", *flags))
        yield Figure(f"{name}, 34 MB capture", spent, "s")
        yield Figure(f"{name}, 34 MB capture", frames / spent, "frames/s")
