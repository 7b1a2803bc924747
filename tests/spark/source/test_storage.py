"""Storages of a spool: the same from all of them, and the lease where there is no lock."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from amqpforge.spark.source import lease
from amqpforge.spark.source.lease import Lease, Times
from amqpforge.spark.source.location import inside
from amqpforge.spark.source.objects import ObjectStore
from amqpforge.spark.source.segment import Rows, Segment, SpoolError, encode_segment, read_segment
from amqpforge.spark.source.spool import Link, Spool
from amqpforge.spark.source.storage import Folder, Storage, open_storage

from .scene import until
from .stores import S3, SERVER_TIMES, TIMES, hadoop_like, local

Make = Callable[[], Storage]


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with S3.running() as server:
        yield server


@pytest.fixture(params=["folder", "local", "hadoop", "s3"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes the same storage again and again."""
    if request.param == "s3":
        location = request.getfixturevalue("s3").location(f"make/{tmp_path.name}")
        return lambda: ObjectStore(location, times=SERVER_TIMES)
    makes: dict[str, Callable[[Path], Storage]] = {"folder": Folder, "local": local, "hadoop": hadoop_like}
    return lambda: makes[request.param](tmp_path / "spool")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Puts the clock forward that leases go by."""
    real, shift = lease._now, [0.0]
    monkeypatch.setattr(lease, "_now", lambda: real() + shift[0])

    def forward(seconds: float) -> None:
        shift[0] += seconds

    return forward


def batch(*payloads: bytes) -> pa.RecordBatch:
    rows = Rows()
    for number, payload in enumerate(payloads):
        rows.append("q", "q-1", b"%d" % number, 1_700_000_000_000_000 + number, 0, payload)
    return rows.batch()


def publish(spool: Spool, *payloads: bytes) -> Segment:
    return spool.publish(batch(*payloads), sum(map(len, payloads)))


def payloads(spool: Spool) -> list[bytes]:
    found = []
    for segment in spool.range(spool.first, spool.next):
        found += read_segment(spool.storage, segment.name)["payload"].to_pylist()
    return found


# --- the same from all of them ------------------------------------------------------------------------------


def test_what_is_kept_is_there_again(make: Make) -> None:
    spool = Spool(make())
    for payload in (b"a", b"b", b"c", b"d"):
        publish(spool, payload)
    spool.own("me")
    spool.note_links([Link("old", "q")])
    spool.note_links([Link("q-1", "q")])
    for number in (0, 1):
        spool.confirm(number)
    spool.note_settled()
    spool.commit(3)
    until(lambda: "000000000001-1-1.arrow" not in " ".join(make().names()), "deleting")
    spool.close()

    again = Spool(make())
    assert (again.owner, again.links, again.first, again.next) == ("me", [Link("q-1", "q")], 2, 4)
    assert payloads(again) == [b"c", b"d"]
    assert [segment.number for segment in again.unconfirmed] == [2, 3]
    assert publish(again, b"e").number == 4
    assert again.storage.load("links.json") == make().load("links.json") == [["q-1", "q"]]
    assert make().load("none.json") is None
    again.close()


def test_two_at_once_are_refused(make: Make) -> None:
    spool = Spool(make())
    with pytest.raises(SpoolError, match=rf"in use by process {os.getpid()} on .* since .*give each query"):
        Spool(make(), timeout=0.1)
    publish(spool, b"a")
    spool.close()
    again = Spool(make(), timeout=0.1)
    assert payloads(again) == [b"a"]
    again.close()


def test_what_was_given_up_is_of_no_use(tmp_path: Path) -> None:
    spool = Spool(local(tmp_path))
    spool.close()
    spool.close()
    with pytest.raises(SpoolError, match="is lost: it was given up"):
        publish(spool, b"b")


def test_what_is_not_there_is_named(make: Make) -> None:
    storage = make()
    storage.make()
    with pytest.raises(
        SpoolError, match=r"segment .*000000000007-1-1\.arrow.* is not there: the spool has to"
    ):
        read_segment(storage, "000000000007-1-1.arrow")


def test_others_are_left_alone(make: Make) -> None:
    storage = make()
    storage.make()
    if isinstance(storage, ObjectStore):
        storage._put("thesis.txt", b"all my work")
    else:
        storage.write("thesis.txt", pa.py_buffer(b"all my work"))
    with pytest.raises(SpoolError, match=r"is no spool and not empty \(it has 'thesis.txt'\)"):
        Spool(make())
    assert make().names() == ["thesis.txt"]


def test_a_location_inside_another() -> None:
    assert inside("/spools/a/", "b") == "/spools/a/b"
    assert inside("s3://bucket/a/?region=x", "b") == "s3://bucket/a/b?region=x"
    assert open_storage("/spools/a").place("b") == "/spools/a/b"
    assert open_storage("s3://bucket/a?region=x").place("b") == "s3://bucket/a/b?region=x"


def test_a_filesystem_that_cannot_be_made_is_an_error() -> None:
    with pytest.raises(SpoolError, match=r"opening the spool s3://spools/x.* failed: .*Unexpected query"):
        Spool(ObjectStore("s3://spools/x?oh=no", times=TIMES))


def test_a_bucket_that_is_not_there(s3: S3) -> None:
    location = s3.location("x").replace("spools", "nowhere")
    with pytest.raises(SpoolError, match=r"opening the spool s3://nowhere/x.* failed: "):
        Spool(ObjectStore(location, times=TIMES))


# --- what a writer leaves that fails ------------------------------------------------------------------------


def half(put: Callable[..., None], store: ObjectStore, name: str, octets: pa.Buffer) -> None:
    put(store, name, octets.slice(0, octets.size // 2))


def empty(put: Callable[..., None], store: ObjectStore, name: str, octets: pa.Buffer) -> None:
    put(store, name, b"")


def absent(put: Callable[..., None], store: ObjectStore, name: str, octets: pa.Buffer) -> None:
    pass


def whole(put: Callable[..., None], store: ObjectStore, name: str, octets: pa.Buffer) -> None:
    put(store, name, octets)


@pytest.mark.parametrize("leave", [half, empty, absent, whole])
def test_a_write_with_an_unknown_end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    leave: Callable[..., None],
) -> None:
    spool = Spool(local(tmp_path))
    publish(spool, b"a")
    put = ObjectStore._put

    def fail(store: ObjectStore, name: str, octets: pa.Buffer) -> None:
        leave(put, store, name, octets)
        raise OSError("no answer from the store\nand pages about that")

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "_put", fail)
        with pytest.raises(SpoolError, match=r"writing 1 messages .* failed: no answer from the store$"):
            publish(spool, b"b")
    with pytest.raises(SpoolError, match="has failed before"):
        publish(spool, b"b")
    spool.close()

    again = Spool(local(tmp_path))
    assert payloads(again) == ([b"a", b"b"] if leave is whole else [b"a"])
    assert ("was never finished, and is deleted" in caplog.text) == (leave in (half, empty))
    publish(again, b"c")
    again.close()
    once_more = Spool(local(tmp_path))
    assert payloads(once_more)[-1] == b"c"
    once_more.close()


def test_a_torn_segment_that_was_settled_is_an_error(tmp_path: Path) -> None:
    spool = Spool(local(tmp_path))
    segment = publish(spool, b"a")
    spool.confirm(0)
    spool.note_settled()
    spool.close()
    (tmp_path / segment.name).write_bytes(b"ARROW1")
    with pytest.raises(SpoolError, match="is damaged, and its messages were settled"):
        Spool(local(tmp_path))


def test_a_torn_document_is_the_one_before(tmp_path: Path) -> None:
    spool = Spool(local(tmp_path))
    spool.own("me")
    spool.close()
    (tmp_path / "spool.json.1.9").write_bytes(b'{"vers')
    (tmp_path / "opened.2").write_bytes(b"")
    again = Spool(local(tmp_path))
    assert again.owner == "me"
    assert again.storage.mark == ".3"
    again.close()
    for path in tmp_path.glob("spool.json.*"):
        path.write_bytes(b"")
    with pytest.raises(SpoolError, match=r"spool\.json\.\d\.\d of the spool is damaged"):
        Spool(local(tmp_path))


def test_documents_do_not_pile_up(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds a storage for a short time, and saves at its end, has no time to delete; the next one has."""
    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "_sweep", lambda self: None)
        for number in range(4):
            storage = make()
            storage.make()
            storage.hold(1)
            storage.save("it.json", number)
            storage.release()
    storage = make()
    storage.hold(1)
    assert storage.load("it.json") == storage.load("it.json") == 3
    if isinstance(storage, ObjectStore):
        until(lambda: sum("it.json" in name for name in storage._list()) == 1, "deleting")
    storage.release()
    assert make().load("it.json") == 3


def test_a_document_is_read_while_others_hold_the_storage_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = local(tmp_path)
    first.hold(1)
    first.save("it.json", 1)
    first.release()
    reader, get = local(tmp_path), ObjectStore._get
    waiting = [True]

    def held_meanwhile(self: ObjectStore, name: str) -> pa.Buffer:
        if self is reader and name.startswith("opened") and waiting:
            waiting.clear()
            second = local(tmp_path)
            second.hold(1)
            second.release()
        return get(self, name)

    monkeypatch.setattr(ObjectStore, "_get", held_meanwhile)
    assert reader.load("it.json") == 1
    assert not waiting


def test_a_file_that_is_renamed_is_never_seen_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(hadoop_like(tmp_path))
    filesystem, _ = spool.storage._place  # type: ignore[attr-defined]

    def die(*_: object) -> None:
        raise OSError("the power is gone")

    monkeypatch.setattr(filesystem.handler, "move", die)
    with pytest.raises(SpoolError, match="the power is gone"):
        publish(spool, b"a")
    left = [path.name for path in tmp_path.iterdir() if ".arrow" in path.name]
    assert left == [".new-000000000000-1-1.arrow.1"]
    spool.close()
    again = Spool(hadoop_like(tmp_path))
    assert again.next == 0
    assert not list(tmp_path.glob(".new-*"))
    again.close()


# --- the lease ----------------------------------------------------------------------------------------------


def abandon(storage: Storage) -> Lease:
    """Have nobody renew the lease on a storage, as if its process were killed."""
    found: Lease = storage._lease  # type: ignore[attr-defined]
    found._over.set()
    if found._thread is not None:
        found._thread.join()
    return found


def test_a_killed_holder_is_waited_for_and_finds_itself_overtaken(
    tmp_path: Path, clock: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    dead = Spool(local(tmp_path))
    publish(dead, b"a")
    abandon(dead.storage)
    with caplog.at_level(logging.WARNING):
        alive = Spool(local(tmp_path))  # It waits for as long as the lease lasts.
    assert f"in use by process {os.getpid()} on" in caplog.text
    assert "its lease ends in 4.2 s at the latest" in caplog.text
    assert payloads(alive) == [b"a"]
    with pytest.raises(SpoolError, match=r"lease on the spool .* is lost: it could not be renewed for 4 s"):
        publish(dead, b"late")
    publish(alive, b"b")
    assert payloads(alive) == [b"a", b"b"]
    dead.close()
    publish(alive, b"c")  # The end of the one is not the end of the other.
    alive.close()


def test_what_an_overtaken_holder_had_under_way_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Callable[[float], None]
) -> None:
    slow = Spool(local(tmp_path))
    publish(slow, b"a")
    abandon(slow.storage)
    put = ObjectStore._put

    def late(store: ObjectStore, name: str, octets: pa.Buffer) -> None:
        monkeypatch.setattr(ObjectStore, "_put", put)
        clock(TIMES.lasts + 1)
        other = Spool(local(tmp_path))
        publish(other, b"B")
        put(store, name, octets)
        other.close()

    monkeypatch.setattr(ObjectStore, "_put", late)
    with pytest.raises(SpoolError, match=r"is lost: it could not be renewed .* Nothing is settled that"):
        publish(slow, b"b")
    assert len(list(tmp_path.glob("000000000001-1-1.arrow.*"))) == 2
    again = Spool(local(tmp_path))
    assert payloads(again) == [b"a", b"B"]
    assert len(list(tmp_path.glob("000000000001-1-1.arrow.*"))) == 1
    again.close()


def test_what_an_overtaken_holder_notes_late_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Callable[[float], None]
) -> None:
    """Two look what is there, for the same time in their count, and one stands still before it notes that: it
    is refused then, and what the other one has counted goes on to count.
    """
    spool = Spool(local(tmp_path))
    publish(spool, b"a")
    spool.close()
    put = ObjectStore._put

    def late(store: ObjectStore, name: str, octets: pa.Buffer) -> None:
        if not name.startswith("opened"):
            put(store, name, octets)
            return
        monkeypatch.setattr(ObjectStore, "_put", put)
        abandon(store)
        clock(TIMES.lasts + 1)
        put(store, "000000000001-1-1.arrow.1", encode_segment(batch(b"b")))  # It was under way for long.
        other = Spool(local(tmp_path))
        assert payloads(other) == [b"a", b"b"]
        other.close()
        put(store, name, octets)

    monkeypatch.setattr(ObjectStore, "_put", late)
    with pytest.raises(SpoolError, match=r"the lease on the spool .* is lost: it could not be renewed"):
        Spool(local(tmp_path))
    again = Spool(local(tmp_path))
    assert payloads(again) == [b"a", b"b"]
    again.close()


def test_a_holder_finds_out_that_it_was_overtaken(tmp_path: Path) -> None:
    spool = Spool(local(tmp_path))
    found = abandon(spool.storage)
    (tmp_path / "lock").write_text(json.dumps({"process": 7, "host": "other", "since": "noon"}))
    found._renew()
    with pytest.raises(SpoolError, match="is lost: process 7 on other since noon has taken it"):
        publish(spool, b"a")
    spool.close()
    assert json.loads((tmp_path / "lock").read_text())["process"] == 7


class Desk:
    """The file of a lease, in memory. ``after`` is called after it was written."""

    def __init__(self) -> None:
        self.octets: bytes | None = None
        self.after: Callable[[], object] = lambda: None

    def get(self) -> bytes | None:
        return self.octets

    def put(self, octets: bytes) -> None:
        self.octets = octets
        self.after()

    def remove(self) -> None:
        self.octets = None


QUICK = Times(lasts=5.0, renews=1.0, settles=0.05, margin=0.1)


def test_of_two_that_find_it_free_the_last_one_has_it() -> None:
    desk = Desk()
    first = Lease(desk, "here", QUICK)
    other = json.dumps({"process": 7, "host": "other", "since": "noon"}).encode()

    def overwrite() -> None:
        desk.octets = other

    desk.after = overwrite
    with pytest.raises(SpoolError, match="the spool here is in use by process 7 on other since noon"):
        first.take(0)
    with pytest.raises(SpoolError, match="is lost: it is not held"):
        first.check()
    assert desk.octets == other


def test_who_was_too_late_waits_for_the_other_one() -> None:
    """Slots of one address take turns, and find the lock free at the same time."""
    desk = Desk()
    first = Lease(desk, "here", QUICK)

    def overwrite() -> None:
        desk.after = lambda: None
        desk.octets = b'{"lasts": 0.1}'

    desk.after = overwrite
    first.take(60)
    first.check()
    first.release()
    assert desk.octets is None


def test_writing_late_is_tried_again(monkeypatch: pytest.MonkeyPatch, clock: Callable[[float], None]) -> None:
    """Another one may have looked before that was there, and have read back what it wrote already."""
    waits: list[float] = []
    desk, slow = Desk(), [1.0, 0.0]
    made = Lease(desk, "here", QUICK)
    real = made._over.wait

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return real(0)

    monkeypatch.setattr(made._over, "wait", wait)
    desk.after = lambda: clock(slow.pop(0) if slow else 0.0)
    made.take(0)
    assert waits[:2] == [QUICK.lasts + QUICK.margin, QUICK.settles]
    made.check()
    made.release()
    assert desk.octets is None

    again = Lease(desk, "here", QUICK)
    monkeypatch.setattr(again._over, "wait", lambda _: real(0))
    desk.after = lambda: clock(1.0)
    with pytest.raises(SpoolError, match=r"storage of the spool here is too slow: .* more than 0\.025 s, 3"):
        again.take(0)


def test_a_renewal_whose_end_is_unknown(clock: Callable[[float], None]) -> None:
    desk = Desk()
    made = Lease(desk, "here", QUICK)
    made.take(0)
    made._over.set()
    assert made._thread is not None
    made._thread.join()

    def fail() -> None:
        raise OSError("no answer")

    desk.after = fail
    with pytest.raises(OSError, match="no answer"):
        made._renew()
    desk.after = lambda: None
    clock(4)
    made._renew()
    clock(4)
    made.check()
    clock(2)
    with pytest.raises(SpoolError, match="could not be renewed for 5 s"):
        made.check()
    made._renew()  # What was over stays over.
    with pytest.raises(SpoolError, match="could not be renewed for 5 s"):
        made.check()
    made.release()
    assert desk.octets is not None


def test_a_lock_that_says_nothing_is_waited_for(clock: Callable[[float], None]) -> None:
    desk = Desk()
    desk.octets = b""
    calls: list[Any] = []
    real = desk.get

    def get() -> bytes | None:
        calls.append(None)
        if len(calls) == 2:
            clock(QUICK.lasts + QUICK.margin)
        return real()

    desk.get = get  # type: ignore[method-assign]
    made = Lease(desk, "here", QUICK)
    made.take(0)
    assert len(calls) > 2
    made.release()
