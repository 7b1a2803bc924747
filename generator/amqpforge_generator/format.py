"""Formatting of rendered texts, on as many processes as there is work for.

Each text is formatted on its own, so the number of processes cannot change a result.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from typing import Self

from amqpforge_generator.target import TargetErrors

#: Below this many characters in all, starting processes takes longer than they save.
_WORTH_A_POOL = 40_000


@dataclass(frozen=True, slots=True)
class Job:
    """A Python text and how black formats it: ``name`` is for messages, ``versions`` are like ``py311``."""

    name: str
    text: str
    line_length: int
    versions: tuple[str, ...]


class Formatter:
    """Formats Python texts with black, on other processes while more of them are being rendered.

    ``processes`` 0 means one a processor. The formatter has to be closed, best by ``with``.
    """

    def __init__(self, processes: int = 0) -> None:
        self._processes = processes or os.cpu_count() or 1
        self._jobs: list[Job] = []
        self._begun: dict[int, Future[tuple[bool, str]]] = {}
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def add(self, jobs: Sequence[Job]) -> None:
        """Take further texts; they are begun at once when there is enough work for several processes."""
        self._jobs += jobs
        if self._pool is None:
            if self._processes < 2 or sum(len(job.text) for job in self._jobs) < _WORTH_A_POOL:
                return
            self._pool = _pool(self._processes)
        # Longest text first, so that no process is left alone with the biggest piece at the end.
        waiting = [index for index in range(len(self._jobs)) if index not in self._begun]
        for index in sorted(waiting, key=lambda index: -len(self._jobs[index].text)):
            self._begun[index] = self._pool.submit(_format_one, self._jobs[index])

    def finish(self) -> list[str]:
        """The formatted texts, in the order in which they were added.

        Raises TargetErrors for every text that black cannot read.
        """
        answers = [
            self._begun[index].result() if index in self._begun else _format_one(job)
            for index, job in enumerate(self._jobs)
        ]
        problems = [
            f"{job.name}: {answer}"
            for job, (fine, answer) in zip(self._jobs, answers, strict=True)
            if not fine
        ]
        if problems:
            raise TargetErrors(*problems)
        return [answer for _, answer in answers]


def _pool(processes: int) -> ProcessPoolExecutor:
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else None
    if method:
        importlib.import_module("black")  # loaded once, before the processes are forked
    return ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context(method))


def _format_one(job: Job) -> tuple[bool, str]:
    """(True, formatted text), or (False, what is wrong with it)."""
    import black
    from black.mode import TargetVersion
    from black.parsing import InvalidInput

    versions = {TargetVersion[name.upper()] for name in job.versions}
    mode = black.Mode(line_length=job.line_length, target_versions=versions)
    was_enabled = gc.isenabled()
    gc.disable()  # black makes so many objects that looking for garbage meanwhile takes a quarter of its time
    try:
        return True, black.format_str(job.text, mode=mode)
    except (InvalidInput, ValueError) as error:
        return False, f"is not legal Python: {' '.join(str(error).split())}"
    finally:
        if was_enabled:
            gc.enable()
