"""Random units against the plain model: what is recovered is what was done, whole units of it, in order."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqpforge.broker.store.base import Unit
from amqpforge.broker.store.changes import Changes
from amqpforge.broker.store.sqlite import SqliteStore

from .units import Content, commit, message, recover, recovered

QUEUES = st.integers(1, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.sets(QUEUES, min_size=1), st.binary(max_size=20)),
        st.tuples(st.just("take"), st.integers(0, 50)),
        st.tuples(st.just("move"), st.integers(0, 50), QUEUES),
        st.tuples(
            st.just("change"), st.integers(0, 50), st.integers(0, 9), st.none() | st.binary(max_size=9)
        ),
        st.tuples(st.just("remember"), QUEUES, st.binary(max_size=9), st.integers(0, 3)),
        st.tuples(st.just("drop"), QUEUES),
        st.tuples(st.just("define"), st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(0, 9)),
        st.tuples(st.just("undefine"), st.sampled_from("ab"), st.sampled_from("xyz")),
        st.just(("commit",)),
    ),
    max_size=40,
)


class Program:
    """Makes units of random steps that a broker could make: it enters, moves and forgets what is there."""

    def __init__(self) -> None:
        self.units = [Unit()]
        self.places: dict[int, set[int]] = {}
        self.count = 0

    def do(self, steps: list[tuple[Any, ...]]) -> list[Unit]:
        for name, *values in steps:
            getattr(self, "_" + name)(*values)
        return self.units

    def _some(self, choice: int) -> int | None:
        return sorted(self.places)[choice % len(self.places)] if self.places else None

    def _commit(self) -> None:
        self.units.append(Unit())

    def _publish(self, queues: set[int], payload: bytes) -> None:
        self.count += 1
        self.units[-1].add(message(self.count, payload, expires_at=None if payload else 9.5))
        self.places[self.count] = set(queues)
        for queue in sorted(queues):
            self.units[-1].enqueue(queue, self.count, None, 0)

    def _leave(self, number: int, queue: int) -> None:
        self.places[number].discard(queue)
        if not self.places[number]:
            del self.places[number]
            self.units[-1].forget(number)

    def _take(self, choice: int) -> None:
        number = self._some(choice)
        if number is not None:
            queue = min(self.places[number])
            self.units[-1].dequeue(queue, number)
            self._leave(number, queue)

    def _move(self, choice: int, queue: int) -> None:
        number = self._some(choice)
        if number is not None and queue not in self.places[number]:
            source = max(self.places[number])
            self.units[-1].dequeue(source, number)
            self.units[-1].enqueue(queue, number, float(choice), choice)
            self.places[number] ^= {source, queue}

    def _change(self, choice: int, count: int, annotations: bytes | None) -> None:
        number = self._some(choice)
        if number is not None:
            self.units[-1].change(max(self.places[number]), number, count, annotations)

    def _remember(self, queue: int, message_id: bytes, window: int) -> None:
        self.count += 1
        self.units[-1].remember(queue, message_id, self.count)
        self.units[-1].outgrow(queue, self.count - window)

    def _drop(self, queue: int) -> None:
        self.units[-1].drop_queue(queue)
        for number in [number for number, queues in self.places.items() if queue in queues]:
            self._leave(number, queue)

    def _define(self, kind: str, name: str, value: int) -> None:
        self.units[-1].define(kind, name, {"value": value})

    def _undefine(self, kind: str, name: str) -> None:
        self.units[-1].undefine(kind, name)


def _states(units: list[Unit]) -> list[tuple[list[Any], ...]]:
    content = Content()
    states = [content.as_lists()]
    for unit in units:
        content.take(unit)
        states.append(content.as_lists())
    return states


def _copy(source: Path, target: Path) -> None:
    for ending in ("", "-wal"):
        shutil.copyfile(f"{source}{ending}", f"{target}{ending}")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, STEPS, st.booleans(), st.floats(0, 1))
def test_a_killed_store_holds_the_units_that_were_done(
    before: list[Any], after: list[Any], together: bool, torn: float
) -> None:
    """The files as a kill leaves them, and the same with the log torn anywhere."""
    program = Program()
    first = list(program.do(before))
    program.units[:] = [Unit()]
    second = program.do(after)

    async def run(folder: Path) -> None:
        path = folder / "store.db"
        store = SqliteStore(path)
        recovered(store)
        await commit(store, *first)
        await store.close()
        store = SqliteStore(path)
        expected = Content()
        for unit in first:
            expected.take(unit)
        assert recovered(store) == expected
        for units in [second] if together else [[unit] for unit in second]:
            assert await commit(store, *units) == [None] * len(units)
        if path.with_name("store.db-wal").exists():
            _copy(path, folder / "killed.db")
            _copy(path, folder / "torn.db")
        await store.close()
        states = _states([*first, *second])
        assert (await recover(path)).as_lists() == states[-1]
        if (folder / "killed.db").exists():
            assert (await recover(folder / "killed.db")).as_lists() == states[-1]
            log = folder / "torn.db-wal"
            log.write_bytes(log.read_bytes()[: int(log.stat().st_size * torn)])
            assert (await recover(folder / "torn.db")).as_lists() in states[len(first) :]

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


def test_an_entry_that_the_file_may_have_is_removed_though_it_is_new_in_the_group() -> None:
    unit = Unit()
    unit.enqueue(1, 7, None, 0)
    unit.dequeue(1, 7)
    changes = Changes()
    changes.take(unit)
    assert (changes.entries, changes.left) == ({}, {(1, 7)})


def test_a_queue_with_the_number_of_a_dropped_one_remembers_anew() -> None:
    unit = Unit()
    unit.outgrow(1, 100)
    unit.drop_queue(1)
    unit.remember(1, b"id", 1)
    changes = Changes()
    changes.take(unit)
    assert list(changes.remembered) == [(1, 1, b"id")]


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_what_came_and_went_in_a_group_is_not_written(steps: list[Any]) -> None:
    """All that is left to write of units that began with nothing is what is there in the end."""
    units = Program().do(steps)
    changes, content = Changes(), Content()
    for unit in units:
        changes.take(unit)
        content.take(unit)
    assert set(changes.messages) == set(changes.bodies) == set(content.messages)
    assert set(changes.entries) == set(content.entries)
    assert changes.forgotten == set()
    assert changes.left == set()
    assert {(queue, number) for queue, number, _ in changes.remembered} == set(content.remembered)
    assert set(changes.defined) == set(content.definitions)
