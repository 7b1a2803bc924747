"""Formatting of rendered texts, on as many processes as there is work for.

Each text is formatted on its own, so the number of processes cannot change a result.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from amqpforge_generator.target import TargetErrors

#: Below this many characters in all, starting processes takes longer than they save.
_WORTH_A_POOL = 40_000


@dataclass(frozen=True, slots=True)
class Job:
    """A text and how it is formatted: ``name`` is for messages, ``versions`` as `target.Formatting` has them.

    ``suffix``: what the name of the file ends in, from which prettier knows the language.
    """

    name: str
    text: str
    line_length: int
    versions: tuple[str, ...]
    tool: str = "black"
    suffix: str = ".py"


class Formatter:
    """Formats texts: those for black on other processes, while more of them are being rendered.

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
            size = sum(len(job.text) for job in self._jobs if job.tool == "black")
            if self._processes < 2 or size < _WORTH_A_POOL:
                return
            self._pool = _pool(self._processes)
        # Longest text first, so that no process is left alone with the biggest piece at the end.
        waiting = [
            index for index, job in enumerate(self._jobs) if index not in self._begun and job.tool == "black"
        ]
        for index in sorted(waiting, key=lambda index: -len(self._jobs[index].text)):
            self._begun[index] = self._pool.submit(_format_one, self._jobs[index])

    def finish(self) -> list[str]:
        """The formatted texts, in the order in which they were added.

        Raises TargetErrors for every text that its formatter cannot read, or for a formatter that is absent.
        """
        others = [index for index, job in enumerate(self._jobs) if job.tool == "prettier"]
        prettier = dict(zip(others, run_prettier([self._jobs[index] for index in others]), strict=True))
        answers = [
            prettier[index]
            if index in prettier
            else self._begun[index].result()
            if index in self._begun
            else _format_one(job)
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


def run_prettier(jobs: Sequence[Job]) -> list[tuple[bool, str]]:
    """For each text, (True, formatted text), or (False, what is wrong with it).

    One process formats all texts of one line length. Raises TargetErrors if there is no prettier of the
    version that the target names on the PATH.
    """
    results: dict[int, tuple[bool, str]] = {}
    kinds = {(job.versions, job.line_length) for job in jobs}
    for versions, line_length in sorted(kinds):
        same = [
            index
            for index, job in enumerate(jobs)
            if (job.versions, job.line_length) == (versions, line_length)
        ]
        command = _find_prettier(versions[0])
        with tempfile.TemporaryDirectory(prefix="amqpforge-prettier-") as folder:
            files = [Path(folder, f"{index}{jobs[index].suffix}") for index in same]
            for index, file in zip(same, files, strict=True):
                file.write_text(jobs[index].text, encoding="utf-8")
            options = [
                "--no-config",
                "--no-editorconfig",
                "--log-level",
                "error",
                f"--print-width={line_length}",
            ]
            done = subprocess.run(
                [command, *options, "--write", *(file.name for file in files)],
                cwd=folder,
                capture_output=True,
                text=True,
                encoding="utf-8",
                check=False,
            )
            for index, file in zip(same, files, strict=True):
                wrong = [line for line in done.stderr.splitlines() if f" {file.name}:" in line]
                text = file.read_text(encoding="utf-8")
                results[index] = (False, f"prettier: {wrong[0]}") if wrong else (True, text)
            if done.returncode and all(fine for fine, _ in results.values()):
                raise TargetErrors(f"{command}: {' '.join(done.stderr.split()) or 'failed without a word'}")
    return [results[index] for index in range(len(jobs))]


def _find_prettier(version: str) -> str:
    """The command ``prettier``, which has to be of this version. Raises TargetErrors."""
    hint = f"install it with: npm install --global prettier@{version} (or put its folder on the PATH)"
    command = shutil.which("prettier")
    if command is None:
        raise TargetErrors(f"prettier is not on the PATH, and what is stale is formatted with it; {hint}")
    found = subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    if found != version:
        raise TargetErrors(f"{command} is prettier {found or 'of no known version'}, not {version}; {hint}")
    return command


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
