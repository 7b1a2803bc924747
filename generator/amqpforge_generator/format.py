"""Formatting of rendered texts, on as many processes as there is work for.

Each text is formatted on its own, so the number of processes cannot change a result.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

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


def format_texts(texts: Sequence[Job], processes: int = 0) -> list[str]:
    """Format Python texts with black and return them in the same order.

    ``processes`` 0 means one a processor. Raises TargetErrors for every text that black cannot read.
    """
    processes = min(processes or os.cpu_count() or 1, len(texts))
    if processes < 2 or sum(len(job.text) for job in texts) < _WORTH_A_POOL:
        answers = [_format_one(job) for job in texts]
    else:
        answers = _in_processes(texts, processes)
    problems = [
        f"{job.name}: {answer}" for job, (fine, answer) in zip(texts, answers, strict=True) if not fine
    ]
    if problems:
        raise TargetErrors(*problems)
    return [answer for _, answer in answers]


def _in_processes(texts: Sequence[Job], processes: int) -> list[tuple[bool, str]]:
    """Longest text first, so that no process is left alone with the biggest piece at the end."""
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else None
    if method:
        importlib.import_module("black")  # loaded once, before the processes are forked
    order = sorted(range(len(texts)), key=lambda index: -len(texts[index].text))
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context(method)) as pool:
        answers = dict(zip(order, pool.map(_format_one, [texts[index] for index in order]), strict=True))
    return [answers[index] for index in range(len(texts))]


def _format_one(job: Job) -> tuple[bool, str]:
    """(True, formatted text), or (False, what is wrong with it)."""
    import black
    from black.mode import TargetVersion
    from black.parsing import InvalidInput

    versions = {TargetVersion[name.upper()] for name in job.versions}
    mode = black.Mode(line_length=job.line_length, target_versions=versions)
    try:
        return True, black.format_str(job.text, mode=mode)
    except (InvalidInput, ValueError) as error:
        return False, f"is not legal Python: {' '.join(str(error).split())}"
