"""Times of a connection: silence both ways (section 2.4.5), and spans that are waited for."""

from __future__ import annotations

from typing import Final

__all__ = ["IdleClock", "Timer"]

_MOST_ANNOUNCED: Final = 0xFFFF_FFFF


class IdleClock:
    """Watches how long nothing has gone each way. All times are in seconds.

    Attributes:
        threshold: how long the peer may be silent; None: for ever. Half of it was announced.
        remote: the idle-time-out that the peer announced, or the one that is assumed; None: we may be silent
            for ever.
        last_input: when the latest frame came in, or since when frames are awaited; None: since the next
            look at the clock.
        last_output: when we wrote last, or since when the peer minds; None: since the next look.
    """

    __slots__ = ("last_input", "last_output", "remote", "threshold")

    def __init__(self, threshold: float | None, assumed: float | None) -> None:
        self.threshold = threshold
        self.remote = assumed
        self.last_input: float | None = None
        self.last_output: float | None = None

    @property
    def announced(self) -> int | None:
        """The idle-time-out for our open, in milliseconds: half of the threshold, at least 1."""
        if self.threshold is None:
            return None
        return min(max(int(self.threshold * 500), 1), _MOST_ANNOUNCED)

    def keep(self, announced: int | None) -> None:
        """The peer announced so many milliseconds; with zero or None it has no time-out."""
        if announced:
            self.remote = announced / 1000
        self.last_output = None  # Silence before that could not be known to be too long.

    def look(self, now: float) -> None:
        """Look at the clock: what is to be measured from now on begins now."""
        if self.last_input is None:
            self.last_input = now
        if self.last_output is None:
            self.last_output = now

    def output_deadline(self) -> float | None:
        """When an empty frame is due, if nothing else is written: at half of what the peer bears."""
        if self.remote is None or self.last_output is None:
            return None
        return self.last_output + self.remote / 2

    def input_deadline(self) -> float | None:
        """When the peer has been silent for too long."""
        if self.threshold is None or self.last_input is None:
            return None
        return self.last_input + self.threshold

    def is_output_due(self, now: float) -> bool:
        """Whether an empty frame is due."""
        due = self.output_deadline()
        return due is not None and now >= due

    def has_expired(self, now: float) -> bool:
        """Whether the peer has been silent for too long."""
        expiry = self.input_deadline()
        return expiry is not None and now >= expiry

    def has_overrun(self, now: float) -> bool:
        """Whether we were silent for longer than the peer can bear: twice what it announced."""
        if self.remote is None or self.last_output is None:
            return False
        return now > self.last_output + 2 * self.remote


class Timer:
    """A span of time, which begins with the first look at the clock after its start.

    Attributes:
        deadline: when it is over; None while it does not run, or has not begun.
    """

    __slots__ = ("_span", "deadline")

    def __init__(self) -> None:
        self._span: float | None = None
        self.deadline: float | None = None

    @property
    def is_running(self) -> bool:
        """Whether it is started and not stopped."""
        return self._span is not None

    def start(self, span: float) -> None:
        """Wait for ``span`` seconds, instead of what was waited for."""
        self._span = span
        self.deadline = None

    def stop(self) -> None:
        """Wait for nothing."""
        self._span = self.deadline = None

    def is_due(self, now: float) -> bool:
        """Look at the clock: whether the span is over."""
        if self._span is None:
            return False
        if self.deadline is None:
            self.deadline = now + self._span
        return now >= self.deadline
