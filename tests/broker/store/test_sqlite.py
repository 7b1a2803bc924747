"""The store in SQLite: what it gives back, what it writes, and what it refuses to open."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from amqpforge.broker.errors import StoreError
from amqpforge.broker.store import writer
from amqpforge.broker.store.base import Unit
from amqpforge.broker.store.sqlite import SqliteStore

from .units import Content, commit, publish, publish_many, recover, recovered, take

HOLDER = """
import asyncio, sys
from amqpforge.broker.store.sqlite import SqliteStore
async def hold():
    SqliteStore(sys.argv[1]).open()
    print("open", flush=True)
    sys.stdin.read()
asyncio.run(hold())
"""


def _made(path: Path, *units: Unit) -> None:
    async def run() -> None:
        store = SqliteStore(path)
        recovered(store)
        assert await commit(store, *units) == [None] * len(units)
        await store.close()

    asyncio.run(run())


def _everything() -> Unit:
    unit = publish_many(1, 300, 7, b"x" * 100)
    for number in range(1, 300, 3):
        unit.enqueue(8, number, 1e9 + number, 0)
    for number in range(1, 200, 3):
        unit.change(8, number, 2, b"notes")
    for number in range(5):
        unit.remember(7, b"id-%d" % number, number)
    unit.outgrow(7, 1)
    unit.define("vhost", "/", {})
    unit.define("queue", "b", {"durable": True, "limit": None})
    unit.define("queue", "a", {"durable": [1, "é"]})
    return unit


def test_what_was_committed_is_there_again_in_order(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    _made(path, _everything())
    expected = Content()
    expected.take(_everything())
    assert asyncio.run(recover(path)) == expected
    assert [name for _, name in expected.definitions] == ["/", "b", "a"]
    assert len(expected.remembered) == 3


def test_what_was_changed_and_removed_later_is_so(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    more = Unit()
    more.change(7, 2, 9, None)
    more.dequeue(7, 2)
    more.enqueue(7, 2, None, 4)
    more.enqueue(9, 2, None, 0)
    more.drop_queue(8)
    more.remember(8, b"again", 1)
    more.outgrow(7, 3)
    more.undefine("queue", "b")
    more.define("queue", "b", {"durable": False})
    more.define("vhost", "/", {"limit": 1})
    _made(path, _everything())
    _made(path, more, take(1, 7), take(300, 7))
    expected = Content()
    for unit in (_everything(), more, take(1, 7), take(300, 7)):
        expected.take(unit)
    found = asyncio.run(recover(path))
    assert found == expected
    assert [name for _, name in found.definitions] == ["a", "b", "/"]


def test_equal_names_are_one_object(tmp_path: Path) -> None:
    _made(tmp_path / "store.db", publish_many(1, 3, 1, b""))

    async def run() -> None:
        store = SqliteStore(tmp_path / "store.db")
        keys = [row[5] for row in store.open().messages]
        assert keys[0] is keys[1] is keys[2]
        await store.close()

    asyncio.run(run())


def test_a_message_that_left_before_its_commit_costs_no_write(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def run() -> None:
        store = SqliteStore(path)
        store.open()
        units = [unit for number in range(1, 101) for unit in (publish(number, 1, 2), take(number, 1, 2))]
        whole = Unit()
        for unit in units:
            whole.operations += unit.operations
        assert await commit(store, whole) == [None]
        log = path.with_name("store.db-wal")
        assert not log.exists() or log.stat().st_size == 0
        await store.close()

    asyncio.run(run())


def test_a_payload_is_read_as_soon_as_its_unit_is_done(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "store.db")
        store.open()
        for number in range(1, 50):
            await commit(store, publish(number, 1, payload=b"%d" % number))
            assert store.read([number]) == {number: b"%d" % number}
        with pytest.raises(StoreError, match=r"store\.db: has no message 50; "):
            store.read([1, 50])
        await commit(store, publish_many(1000, 1000, 1, b"many"))
        assert store.read(range(1000, 2000)) == dict.fromkeys(range(1000, 2000), b"many")
        await store.close()

    asyncio.run(run())


def test_a_message_larger_than_a_group_is_kept_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "GROUP_OCTETS", 10_000)
    payload = os.urandom(100_000)

    async def run() -> None:
        store = SqliteStore(tmp_path / "store.db")
        store.open()
        assert await commit(store, publish(1, 1), publish(2, 1, payload=payload), publish(3, 1)) == [None] * 3
        assert store.read([2]) == {2: payload}
        await store.close()

    asyncio.run(run())


def test_what_waits_is_written_together_within_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "GROUP_OCTETS", 100_000)
    reports: list[int] = []

    async def run() -> None:
        store = SqliteStore(tmp_path / "store.db")
        report = store._report

        def count(outcomes: writer.Outcomes) -> None:
            reports.append(len(outcomes))
            report(outcomes)

        monkeypatch.setattr(store, "_report", count)
        store.open()
        await commit(store, *(publish(number, 1, payload=bytes(1000)) for number in range(1, 1001)))
        await store.close()

    asyncio.run(run())
    assert sum(reports) == 1000
    assert 10 <= len(reports) < 200
    assert max(reports) <= 100


def test_no_statement_walks_through_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[str] = []

    class Watched(sqlite3.Connection):
        def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:
            if sql.startswith(("DELETE", "UPDATE", "INSERT")):
                rows = super().execute(f"EXPLAIN QUERY PLAN {sql}", parameters)  # type: ignore[arg-type]
                plans.extend(row[3] for row in rows)
            return super().execute(sql, parameters)  # type: ignore[arg-type]

    def watched(path: Path, *, read_only: bool) -> sqlite3.Connection:
        return sqlite3.connect(path, isolation_level=None, factory=Watched)

    monkeypatch.setattr(writer, "connect", watched)
    unit = Unit()
    for number in range(10, 20):
        unit.dequeue(number % 3, number)
        unit.change(number % 3, number + 20, 1, None)
        unit.forget(number)
    _made(tmp_path / "store.db", unit, publish(50, 1))
    assert any("entries USING PRIMARY KEY (queue=? AND message=?)" in plan for plan in plans)
    tables = ("definitions", "messages", "bodies", "entries", "remembered")
    assert [plan for plan in plans if plan.startswith(tuple(f"SCAN {table}" for table in tables))] == []


def test_an_entry_whose_message_was_never_written_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    move = Unit()
    move.enqueue(2, 77, None, 0)
    _made(path, publish(1, 1), move)
    assert list(asyncio.run(recover(path)).entries) == [(1, 1)]
    left_behind = Unit()
    left_behind.forget(1)
    _made(path, left_behind, publish(2, 1))
    assert list(asyncio.run(recover(path)).entries) == [(1, 2)]
    _made(path, publish(3, 1))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT message FROM entries").fetchall() == [(2,), (3,)]


# --- files that are not taken -------------------------------------------------------------------------


def _refused(path: Path, pattern: str) -> None:
    """The store is refused with a text that names it; all files beside the lock stay as they were."""

    def files() -> dict[str, bytes]:
        return {
            name.name: name.read_bytes()
            for name in path.parent.iterdir()
            if not name.name.endswith((".lock", "-shm")) and name.stat().st_size
        }

    before = files()

    async def run() -> None:
        with pytest.raises(StoreError, match=pattern) as caught:
            await recover(path)
        assert str(path) in str(caught.value)
        assert "; " in str(caught.value)

    asyncio.run(run())
    assert files() == before


def _damage_header(place: int, octets: bytes) -> Callable[[bytes], bytes]:
    return lambda file: file[:place] + octets + file[place + len(octets) :]


@pytest.mark.parametrize(
    ("damage", "pattern"),
    [
        (lambda _: b"", "not a store of this broker"),
        (lambda _: b"some text that is no database at all, but longer than a header is" * 3, "not a store"),
        (lambda file: file[:50], "not a store"),
        (_damage_header(68, b"\0\0\0\0"), "not a store"),
        (_damage_header(60, b"\0\0\0\2"), "written in form 2, this broker knows 1"),
        (lambda file: file[:-8192], "damaged: it has"),
        (lambda file: file[:8192] + b"\xee" * (len(file) - 8192), "cannot be read"),
        (lambda file: file[:100] + b"\xee" * 8092 + file[8192:], "cannot be read"),
        (
            lambda file: file.replace(b"size INTEGER NOT NULL", b"octets INTEGER NULL  "),
            "tables are other ones",
        ),
    ],
    ids=["empty", "text", "cut", "foreign", "newer", "short", "pages", "first page", "tables"],
)
def test_a_file_that_is_no_whole_store_is_refused_and_left_as_it_was(
    tmp_path: Path, damage: Callable[[bytes], bytes], pattern: str
) -> None:
    path = tmp_path / "store.db"
    _made(path, _everything())
    path.write_bytes(damage(path.read_bytes()))
    _refused(path, pattern)


def test_damage_is_left_as_it_was_with_a_log_beside_it(tmp_path: Path) -> None:
    """A log that SQLite would write into the file when it is closed."""
    path = tmp_path / "store.db"

    async def run() -> None:
        store = SqliteStore(path)
        store.open()
        await commit(store, publish_many(1, 2000, 1, b"x" * 1000))
        for name in ("store.db", "store.db-wal"):
            (tmp_path / "copy").mkdir(exist_ok=True)
            (tmp_path / "copy" / name).write_bytes((tmp_path / name).read_bytes())
        await store.close()

    asyncio.run(run())
    copy = tmp_path / "copy" / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    octets = copy.read_bytes()
    copy.write_bytes(_damage_header(60, b"\0\0\0\2")(octets))
    _refused(copy, "written in form 2")
    octets = path.read_bytes()
    damaged = octets[:8192] + b"\xee" * (len(octets) - 8192)
    copy.write_bytes(damaged)
    log = copy.with_name("store.db-wal")
    log.write_bytes(log.read_bytes()[:100_000])  # whole frames, and no end of a transaction
    _refused(copy, "cannot be read")


def test_a_payload_in_a_damaged_page_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    _made(path, publish_many(1, 100, 1, b"payload!" * 125))
    octets = path.read_bytes()
    place = octets.rindex(b"payload!" * 125)
    page = place // 8192 * 8192
    path.write_bytes(octets[:page] + b"\xee" * 8192 + octets[page + 8192 :])

    async def run() -> None:
        store = SqliteStore(path)
        assert len(list(store.open().messages)) == 100
        with pytest.raises(StoreError, match="cannot be read"):
            store.read(range(1, 101))
        await store.close()

    asyncio.run(run())


def test_a_store_without_a_folder_or_in_place_of_one_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        with pytest.raises(StoreError, match="name a folder to which you can write"):
            SqliteStore(tmp_path / "missing" / "store.db").open()
        (tmp_path / "folder").mkdir()
        with pytest.raises(StoreError, match="cannot be read"):
            SqliteStore(tmp_path / "folder").open()

    asyncio.run(run())
    assert not (tmp_path / "missing").exists()


def test_a_log_without_its_store_is_not_mixed_into_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "store.db-wal").write_bytes(b"a log")
    _refused(tmp_path / "store.db", "is missing, but its log")


def test_a_store_in_use_is_refused_and_free_once_its_broker_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    _made(path, publish(1, 1))
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        try:
            _refused(path, "in use by another broker")
            (tmp_path / "link.db").symlink_to(path)
            _refused_link(tmp_path / "link.db")
        finally:
            holder.kill()
    assert list(asyncio.run(recover(path)).messages) == [1]


def _refused_link(link: Path) -> None:
    async def run() -> None:
        with pytest.raises(StoreError, match="in use by another broker"):
            SqliteStore(link).open()

    asyncio.run(run())


def test_a_store_in_use_is_refused_in_the_same_process_too(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def run() -> None:
        store = SqliteStore(path)
        store.open()
        with pytest.raises(StoreError, match="in use by another broker"):
            SqliteStore(path).open()
        assert await commit(store, publish(1, 1)) == [None]
        with pytest.raises(RuntimeError, match="opened before"):
            store.open()
        await store.close()
        with pytest.raises(StoreError, match="is not open"):
            store.commit(publish(2, 1), lambda _: None)
        with pytest.raises(StoreError, match="is not open"):
            store.read([1])

    asyncio.run(run())
    assert list(asyncio.run(recover(path)).messages) == [1]


def test_what_is_left_of_a_first_creation_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "store.db.new").write_bytes(b"SQLite format 3\0 and no more")
    (tmp_path / "store.db.new-journal").write_bytes(b"half")
    _made(tmp_path / "store.db", publish(1, 1))
    assert sorted(name.name for name in tmp_path.iterdir()) == ["store.db", "store.db.lock"]
    assert list(asyncio.run(recover(tmp_path / "store.db")).messages) == [1]
