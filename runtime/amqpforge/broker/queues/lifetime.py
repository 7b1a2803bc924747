"""When a queue that nobody uses goes by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .alarm import Alarm

if TYPE_CHECKING:
    from amqpforge.broker.clock import Clock
    from amqpforge.broker.settings import QueueSettings

__all__ = ["Lifetime"]


class Lifetime:
    """Calls a function when a queue has been without consumers for as long as its settings allow."""

    __slots__ = ("_alarm", "_clock", "_settings", "_was_consumed")

    def __init__(self, clock: Clock, settings: QueueSettings, unused: Callable[[], None]) -> None:
        self._clock = clock
        self._settings = settings
        self._alarm = Alarm(clock, unused)
        self._was_consumed = False
        self.idle()

    def consumed(self) -> None:
        """There is a consumer."""
        self._was_consumed = True
        self._alarm.clear()

    def idle(self) -> None:
        """There is no consumer, and time counts from now."""
        self._alarm.clear()
        now = self._clock.now()
        if self._settings.expires is not None:
            self._alarm.set(now + self._settings.expires)
        if self._settings.auto_delete and self._was_consumed:
            self._alarm.set(now + self._settings.grace)

    def stop(self) -> None:
        """Call nothing any more."""
        self._alarm.clear()
