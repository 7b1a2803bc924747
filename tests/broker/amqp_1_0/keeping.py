"""A store for tests: it keeps in dictionaries what a store on disk would."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from amqpforge.broker.store import Definition, Done, Recovered, Store, Unit

__all__ = ["KeepingStore"]


class KeepingStore(Store):
    """May be opened again and again, as a broker is that was killed and started.

    Attributes:
        is_slow: units wait for :meth:`sync`.
    """

    def __init__(self) -> None:
        self.is_slow = False
        self._waiting: list[tuple[Unit, Done]] = []
        self._definitions: dict[tuple[str, str], Definition] = {}
        self._messages: dict[int, tuple[Any, ...]] = {}
        self._entries: dict[tuple[int, int], tuple[float | None, int, bytes | None]] = {}

    @property
    def is_durable(self) -> bool:
        return True

    def open(self) -> Recovered:
        self._waiting.clear()
        return Recovered(
            definitions=list(self._definitions.values()),
            messages=iter(
                [(id, *facts[:-1], len(facts[-1])) for id, facts in sorted(self._messages.items())]
            ),
            entries=iter([(queue, id, *known) for (queue, id), known in sorted(self._entries.items())]),
            remembered=iter(()),
        )

    def commit(self, unit: Unit, done: Done) -> None:
        self._waiting.append((unit, done))
        if not self.is_slow:
            self.sync()

    def sync(self) -> None:
        """All that was committed is safe."""
        waiting, self._waiting = self._waiting, []
        for unit, done in waiting:
            for name, arguments in unit.operations:
                getattr(self, f"_{name}")(*arguments)
            done(None)

    def read(self, messages: Iterable[int]) -> dict[int, bytes]:
        return {id: self._messages[id][-1] for id in messages}

    async def close(self) -> None:
        """There is nothing to close."""

    def _add(self, id: int, *facts: Any) -> None:
        self._messages[id] = facts

    def _forget(self, id: int) -> None:
        self._messages.pop(id, None)

    def _enqueue(self, queue: int, id: int, expires_at: float | None, delivery_count: int) -> None:
        self._entries[queue, id] = (expires_at, delivery_count, None)

    def _dequeue(self, queue: int, id: int) -> None:
        self._entries.pop((queue, id), None)

    def _change(self, queue: int, id: int, delivery_count: int, annotations: bytes | None) -> None:
        self._entries[queue, id] = (self._entries[queue, id][0], delivery_count, annotations)

    def _drop_queue(self, queue: int) -> None:
        for key in [key for key in self._entries if key[0] == queue]:
            del self._entries[key]

    def _define(self, kind: str, name: str, data: str) -> None:
        self._definitions[kind, name] = Definition(kind, name, json.loads(data))

    def _undefine(self, kind: str, name: str) -> None:
        self._definitions.pop((kind, name), None)
