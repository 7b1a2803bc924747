"""Progress over known steps, to standard error: a bar where a person looks, else a line a step."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from amqpforge.streams import Streams

__all__ = ["Progress", "progress"]


class Progress(Protocol):
    """Where progress is told."""

    def begin(self, step: str) -> None:
        """A step begins, and the one before it is done."""


@contextlib.contextmanager
def progress(streams: Streams, steps: int) -> Iterator[Progress]:
    """Show the progress of so many steps until the context is left; a bar needs rich and a terminal."""
    bar = _rich(streams, steps) if streams.stderr.isatty() else None
    if bar is not None:
        with bar as shown:
            yield shown
        return
    lines = _Lines(streams, steps)
    try:
        yield lines
    except BaseException:
        lines.fail()
        raise
    lines.end()


class _Lines:
    """Each step on a line of its own, and how long it took when it is done."""

    def __init__(self, streams: Streams, steps: int) -> None:
        self._streams = streams
        self._steps = steps
        self._at = 0
        self._began = 0.0

    def begin(self, step: str) -> None:
        self.end()
        self._at += 1
        self._streams.stderr.write(f"[{self._at}/{self._steps}] {step} ... ")
        self._streams.stderr.flush()
        self._began = time.monotonic()

    def fail(self) -> None:
        """The last step will not be done: what is said of that begins a line."""
        if self._at:
            self._streams.stderr.write("failed\n")
            self._streams.stderr.flush()

    def end(self) -> None:
        """The last step is done."""
        if self._at:
            self._streams.stderr.write(f"{time.monotonic() - self._began:.1f} s\n")
            self._streams.stderr.flush()


def _rich(streams: Streams, steps: int) -> contextlib.AbstractContextManager[Progress] | None:
    """A bar, if rich can be imported."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar
    except ImportError:
        return None
    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=28),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    bar = Bar(*columns, console=Console(file=streams.stderr), transient=True)

    @contextlib.contextmanager
    def shown() -> Iterator[Progress]:
        with bar:
            yield _Bar(bar, steps)

    return shown()


class _Bar:
    """The steps as a bar of rich."""

    def __init__(self, bar: Any, steps: int) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=steps)
        self._begun = False

    def begin(self, step: str) -> None:
        self._bar.update(self._task, description=step, advance=int(self._begun))
        self._begun = True
