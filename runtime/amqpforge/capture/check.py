"""The connections of a capture, each followed by an observer: the work of `amqpforge decode --check`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from amqpforge.capture.dialects import dialect_of
from amqpforge.capture.record import Header, Record
from amqpforge.capture.tcp import Direction
from amqpforge.engine.observations import LinkNews, Observation, Unknown, Violation
from amqpforge.engine.observed_link import ObservedLink
from amqpforge.engine.observer import Observer
from amqpforge_protocol import amqp_1_0

__all__ = ["Checked", "Checker"]

_KEPT: Final = 100
_MOST_STREAMS: Final = 1024
_PACKAGE: Final = "amqp_1_0"
_FRAME_HEADER: Final = 8


@dataclass(slots=True, eq=False)
class Checked:
    """What there is to say of one connection.

    Of each kind of finding the first hundred are kept. `base` is the time of the first record, in
    nanoseconds since 1970, from which the observer counts seconds; None if unknown. `last` is the time of the
    last one, as the observer has it.
    """

    stream: int
    base: int | None
    last: float | None = None
    violations: list[Violation] = field(default_factory=list)
    unknown: list[Unknown] = field(default_factory=list)
    unknown_count: int = 0
    links: list[ObservedLink] = field(default_factory=list)
    observer: Observer = field(init=False)

    def __post_init__(self) -> None:
        self.observer = Observer(self._told)

    def time(self, nanoseconds: int | None) -> float | None:
        """A time of the capture as the observer has it."""
        if nanoseconds is None or self.base is None:
            return None
        return (nanoseconds - self.base) / 1_000_000_000

    def nanoseconds(self, time: float | None) -> int | None:
        """A time that the observer has as that of the capture."""
        return None if time is None or self.base is None else self.base + round(time * 1_000_000_000)

    def _told(self, observation: Observation) -> None:
        if isinstance(observation, Violation):
            if len(self.violations) < _KEPT:
                self.violations.append(observation)
        elif isinstance(observation, Unknown):
            self.unknown_count += 1
            if len(self.unknown) < _KEPT:
                self.unknown.append(observation)
        elif isinstance(observation, LinkNews):
            links = self.links
            if len(links) < _KEPT and observation.link not in links:
                links.append(observation.link)


class Checker:
    """Takes the records of captures, and gives what there is to say of each connection of AMQP 1.0.

    `conclude` is called for each connection, once: from `finish`, or before, if there are more than 1024 of
    them.
    """

    def __init__(self, conclude: Callable[[Checked], None]) -> None:
        self.violations = 0
        """Of the connections that are concluded."""
        self.connections = 0
        """Concluded so far."""
        self.foreign = 0
        """Records of other dialects, which are not checked."""
        self._conclude = conclude
        self._checked: dict[int, Checked] = {}
        self._passed: dict[int, int] = {}  # Records of a stream ahead of the first that tells what it is.

    def take(self, record: Record) -> None:
        """The next record, in the order of the capture."""
        checked = self._checked.get(record.stream)
        if checked is None:
            checked = self._begun(record)
            if checked is None:
                return
        observer, direction = checked.observer, record.direction
        time = checked.last = checked.time(record.time)
        kind = record.kind
        size = _FRAME_HEADER + len(record.octets)
        if kind == "amqp":
            observer.frame(record.channel or 0, record.value, record.payload_bytes, size, direction, time)
        elif kind == "empty":
            observer.frame(record.channel or 0, None, 0, size, direction, time)
        elif kind == "sasl":
            observer.sasl_frame(record.value, size, direction, time)
        elif isinstance(record.value, Header):
            observer.header(amqp_1_0.ProtocolHeader(*record.value), direction, time)
        elif kind == "error":
            observer.lost(direction, time)

    def end(self, stream: int, direction: Direction, time: int | None, closed: bool) -> None:
        """A direction of a stream ends, or else the capture does: for `CaptureReader`."""
        checked = self._checked.get(stream)
        if checked is None:
            return
        if closed:
            checked.observer.end_of_input(direction, checked.time(time))
        else:
            checked.observer.look(checked.time(time))

    def finish(self) -> None:
        """No more records of these streams: conclude all that is not concluded."""
        while self._checked:
            self._finish(next(iter(self._checked)))

    def _begun(self, record: Record) -> Checked | None:
        """A connection appears; None if it is not one of AMQP 1.0, or cannot be told yet."""
        stream, value = record.stream, record.value
        if isinstance(value, Header):
            is_ours, is_foreign = dialect_of(value).package == _PACKAGE, True
        else:
            is_ours, is_foreign = record.dialect is amqp_1_0, record.dialect is not None
        passed = self._passed.pop(stream, 0)
        if not is_ours:
            self.foreign += is_foreign
            self._passed[stream] = passed + 1
            if len(self._passed) > _MOST_STREAMS:
                del self._passed[next(iter(self._passed))]
            return None
        if len(self._checked) >= _MOST_STREAMS:
            self._finish(next(iter(self._checked)))
        checked = self._checked[stream] = Checked(stream, record.time)
        checked.observer.notes.frame = passed  # Frames are numbered as `decode` shows them.
        return checked

    def _finish(self, stream: int) -> None:
        checked = self._checked.pop(stream)
        self.connections += 1
        self.violations += checked.observer.notes.violations
        self._conclude(checked)
