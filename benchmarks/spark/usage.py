"""What a measured piece of work costs: time, and processor time and memory of all processes of a session.

Linux tells it in ``/proc``. A session is what a worker has started: the worker, its JVM, and the Python
processes of Spark.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter

PROC = Path("/proc")
MIB = 1 << 20
_TICKS = os.sysconf("SC_CLK_TCK")
_JAVA, _PYTHON = "java", "python"
_FORGET_PEAK = "5"
"""Written to ``clear_refs``: the peak of a process begins anew with what is resident now (proc(5))."""


class Meter:
    """Measures this process and all others of its session, from its making until :meth:`stop`."""

    def __init__(self) -> None:
        for folder in _session():
            with suppress(OSError):
                (folder / "clear_refs").write_text(_FORGET_PEAK)
        self._cpu = _cpu_seconds()
        self._begin = perf_counter()

    def stop(self) -> dict[str, float]:
        """What it was: ``seconds``; processor seconds of all (``cpu``) and of the JVM (``jvm``); and the most
        MiB that were resident, of a Python process of Spark's (``worker``) and of all together (``all``).
        """
        seconds = perf_counter() - self._begin
        cpu = _cpu_seconds()
        spent = {name: used - self._cpu.get(name, 0.0) for name, used in cpu.items()}
        peaks = [(folder, _peak(folder)) for folder in _session()]
        workers = [
            peak for folder, peak in peaks if int(folder.name) != os.getpid() and _name(folder) != _JAVA
        ]
        return {
            "seconds": seconds,
            "cpu": sum(spent.values()),
            "jvm": spent.get(_JAVA, 0.0),
            "worker": max(workers, default=0) / MIB,
            "all": sum([peak for _, peak in peaks]) / MIB,
        }


@contextmanager
def confined(cpus: int | None, first: int = 0) -> Iterator[None]:
    """All processes of the session share so many of the processors for the time of a ``with`` block, without
    the ``first`` so many, which are for others. None, or more than there are: they go where they like.
    """
    allowed = os.sched_getaffinity(0)
    if cpus is None or first + cpus > len(allowed):
        yield
        return
    _allow(set(sorted(allowed)[first : first + cpus]))
    try:
        yield
    finally:
        _allow(allowed)


def _allow(cpus: set[int]) -> None:
    """Have every thread run on these processors alone; those that it starts do so by themselves."""
    for folder in _session():
        with suppress(OSError):
            for thread in (folder / "task").iterdir():
                with suppress(OSError):  # it has just ended
                    os.sched_setaffinity(int(thread.name), cpus)


def _session() -> Iterator[Path]:
    """The folders of the processes in the session of this one."""
    own = os.getsid(0)
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            with suppress(OSError, IndexError):  # it has just ended
                if int(_fields(folder)[3]) == own:
                    yield folder


def _fields(folder: Path) -> list[str]:
    """What ``stat`` has behind the name, the state first."""
    return (folder / "stat").read_text().rpartition(")")[2].split()


def _cpu_seconds() -> dict[str, float]:
    """Processor time of the processes by their names: of all threads, and of the children that have ended."""
    found: dict[str, float] = {}
    for folder in _session():
        with suppress(OSError):
            name = _name(folder)
            own, ended_children = _fields(folder)[11:13], _fields(folder)[13:15]
            found[name] = found.get(name, 0.0) + sum(map(int, own)) / _TICKS
            # The JVM has no children but the Python processes of Spark.
            found[_PYTHON] = found.get(_PYTHON, 0.0) + sum(map(int, ended_children)) / _TICKS
    return found


def _peak(folder: Path) -> int:
    """The most octets that were resident."""
    try:
        return int((folder / "status").read_text().partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError):
        return 0


def _name(folder: Path) -> str:
    """What kind of process it is."""
    try:
        return _JAVA if (folder / "comm").read_text().strip() == _JAVA else _PYTHON
    except OSError:
        return _PYTHON


def ended(process: int) -> tuple[int, dict[str, float]]:
    """Wait for a child process.

    Returns:
        Its exit status, its processor seconds, and the most MiB that were resident in it.
    """
    _, status, used = os.wait4(process, 0)
    peak = used.ru_maxrss * 1024 / MIB
    return os.waitstatus_to_exitcode(status), {"cpu": _spent(used), "worker": peak, "all": peak}


def _spent(used: resource.struct_rusage) -> float:
    return used.ru_utime + used.ru_stime
