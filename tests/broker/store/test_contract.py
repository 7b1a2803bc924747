"""What holds for every store."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from amqpforge.broker.errors import StoreError
from amqpforge.broker.store.base import Store, Unit
from amqpforge.broker.store.memory import MemoryStore
from amqpforge.broker.store.sqlite import SqliteStore

from .units import commit, publish, take


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "store.db")


def test_a_new_store_is_empty(store: Store) -> None:
    async def run() -> None:
        found = store.open()
        assert list(found.definitions) == []
        assert [list(rows) for rows in (found.messages, found.entries, found.remembered)] == [[], [], []]
        await store.close()

    asyncio.run(run())


def test_units_are_done_in_the_order_of_their_commits(store: Store) -> None:
    async def run() -> None:
        store.open()
        done: list[tuple[int, StoreError | None]] = []
        for number in range(1, 501):
            unit = publish(number, 1) if number % 3 else Unit()
            store.commit(unit, lambda error, number=number: done.append((number, error)))  # type: ignore[misc]
        await store.close()
        assert done == [(number, None) for number in range(1, 501)]

    asyncio.run(run())


def test_what_fails_when_a_unit_is_done_does_not_keep_the_next_from_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "store.db")
        store.open()

        def fail(_error: StoreError | None) -> None:
            raise ZeroDivisionError

        store.commit(publish(1, 1), fail)
        assert await commit(store, publish(2, 1)) == [None]
        await store.close()

    asyncio.run(run())
    assert "ZeroDivisionError" in caplog.text


def test_payloads_are_read_back_only_where_they_survive(store: Store) -> None:
    async def run() -> None:
        store.open()
        await commit(store, publish(1, 1, payload=b"one"), publish(2, 1, payload=b""))
        if store.is_durable:
            assert store.read([2, 1, 2]) == {1: b"one", 2: b""}
        else:
            with pytest.raises(StoreError, match="is_durable"):
                store.read([1])
        await store.close()

    asyncio.run(run())


def test_closing_is_done_once_and_needs_no_opening(store: Store) -> None:
    async def run() -> None:
        await store.close()
        store.open()
        assert await commit(store, publish(1, 1), take(1, 1)) == [None, None]
        await asyncio.gather(store.close(), store.close())
        await store.close()

    asyncio.run(run())


def test_a_definition_without_a_json_form_is_refused_where_it_is_noted() -> None:
    unit = Unit()
    with pytest.raises(TypeError):
        unit.define("queue", "orders", {"what": object()})
    assert not unit


def test_the_store_in_memory_needs_no_database() -> None:
    modules = "amqpforge.broker.store.memory, amqpforge.broker.bodies"
    code = f"import sys, {modules}; sys.exit('sqlite3' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
