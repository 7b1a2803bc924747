"""A store whose disk is full or fails: what is lost is reported, the rest goes on."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amqpforge.broker.errors import StoreError
from amqpforge.broker.store import writer
from amqpforge.broker.store.base import Unit
from amqpforge.broker.store.sqlite import SqliteStore

from .units import commit, publish, publish_many, recover, recovered, take


@contextlib.contextmanager
def _full_disk(octets: int) -> Iterator[None]:
    """No file can be written beyond so many octets; what is written below it is not affected."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (octets, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_fails_what_adds_and_lets_go_on_what_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RETRY_SECONDS", 1000.0)
    path = tmp_path / "store.db"

    async def run() -> None:
        store = SqliteStore(path)
        recovered(store)
        for number in range(1, 101):  # so the log, which can be written from its beginning, has room for more
            await commit(store, publish(number, 1, payload=b"x" * 1000))
        log = path.with_name("store.db-wal").stat().st_size
        with _full_disk(log + 10_000):
            large = publish(200, 1, payload=bytes(5_000_000))
            outcomes = await commit(store, large, take(1, 1), large, take(2, 1))
            assert isinstance(outcomes[0], StoreError)
            assert isinstance(outcomes[2], StoreError)
            assert str(path) in str(outcomes[0])
            assert "room on the disk" in str(outcomes[0])
            assert outcomes[1] is outcomes[3] is None
            assert store.read([3]) == {3: b"x" * 1000}
        assert await commit(store, large, take(3, 1)) == [None, None]
        await store.close()

    asyncio.run(run())
    assert list(asyncio.run(recover(path)).messages) == [*range(4, 101), 200]


def test_what_removes_is_kept_until_there_is_room(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "store.db"
    caplog.set_level("INFO", "amqpforge.broker")

    async def run() -> None:
        store = SqliteStore(path)
        recovered(store)
        await commit(store, publish_many(1, 10, 1, b""))
        order: list[tuple[str, bool]] = []
        loop = asyncio.get_running_loop()
        removed = loop.create_future()

        def removal_done(error: StoreError | None) -> None:
            order.append(("removal", error is None))
            removed.set_result(None)

        with _full_disk(1):
            store.commit(take(1, 1), removal_done)
            for number in (20, 21):
                (error,) = await commit(store, publish(number, 1))
                order.append(("addition", error is None))
        # No further unit is needed: it is tried again by itself.
        await asyncio.wait_for(removed, 30)
        assert order == [("addition", False), ("addition", False), ("removal", True)]
        assert await commit(store, publish(22, 1)) == [None]
        await store.close()

    asyncio.run(run())
    assert list(asyncio.run(recover(path)).messages) == [*range(2, 11), 22]
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]


def test_what_is_kept_is_bounded_and_closing_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "KEPT_OPERATIONS", 10)
    path = tmp_path / "store.db"

    async def run() -> None:
        store = SqliteStore(path)
        recovered(store)
        await commit(store, publish_many(1, 100, 1, b""))
        outcomes: list[tuple[int, StoreError | None]] = []
        with _full_disk(1):
            for number in range(1, 21):
                store.commit(take(number, 1), lambda error, number=number: outcomes.append((number, error)))  # type: ignore[misc]
            assert isinstance((await commit(store, publish(200, 1)))[0], StoreError)
            assert [number for number, _ in outcomes] == list(range(6, 21))
            await store.close()
        assert [number for number, _ in outcomes] == [*range(6, 21), *range(1, 6)]
        assert all(isinstance(error, StoreError) for _, error in outcomes)

    asyncio.run(run())
    assert list(asyncio.run(recover(path)).messages) == list(range(1, 101))


def test_a_unit_that_cannot_be_stored_fails_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def run() -> None:
        store = SqliteStore(path)
        recovered(store)
        impossible = Unit()
        impossible.enqueue(1, 3, None, 0)
        impossible.enqueue(2**64, 3, None, 0)
        again = publish(1, 5)
        outcomes = await commit(store, publish(1, 1), impossible, publish(2, 1), again, publish(4, 1))
        assert [error is None for error in outcomes] == [True, False, True, False, True]
        await store.close()

    asyncio.run(run())
    content = asyncio.run(recover(path))
    assert list(content.messages) == [1, 2, 4]
    assert list(content.entries) == [(1, 1), (1, 2), (1, 4)]


def test_a_connection_that_is_lost_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the transaction nor its undoing works any more; the next one has a new connection."""
    write_changes = writer._write_changes
    calls = 0

    def fail_once(connection: sqlite3.Connection, changes: Any) -> None:
        nonlocal calls
        calls += 1
        write_changes(connection, changes)
        if calls == 2:
            connection.execute("ROLLBACK")
            connection.close()
            raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(writer, "_write_changes", fail_once)

    async def run() -> None:
        store = SqliteStore(tmp_path / "store.db")
        recovered(store)
        assert await commit(store, publish(1, 1)) == [None]
        (error,) = await commit(store, publish(2, 1))
        assert "disk I/O error" in str(error)
        assert await commit(store, publish(3, 1)) == [None]
        await store.close()

    asyncio.run(run())
    assert list(asyncio.run(recover(tmp_path / "store.db")).messages) == [1, 3]
