"""The spool: what it keeps, what it refuses, what it deletes."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from amqpforge.spark.source.durable import TEMPORARY
from amqpforge.spark.source.segment import Rows, Segment, SpoolError, read_segment
from amqpforge.spark.source.spool import Link, Spool
from amqpforge.spark.source.storage import Folder


def rows(*payloads: bytes) -> Rows:
    made = Rows()
    for number, payload in enumerate(payloads):
        made.append("q", "q-1", b"%d" % number, 1_700_000_000_000_000 + number, 0, payload)
    return made


def publish(spool: Spool, *payloads: bytes) -> Segment:
    return spool.publish(rows(*payloads).batch(), sum(map(len, payloads)))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".arrow")


def test_what_is_published_is_there_again(tmp_path: Path) -> None:
    spool = Spool(Folder(tmp_path / "spool"))
    assert publish(spool, b"a", b"bc") == Segment(0, 2, 3)
    assert publish(spool, b"d").number == 1
    spool.own("me")
    spool.note_links([Link("q-1", "q")])
    name = spool.id
    spool.close()

    again = Spool(Folder(tmp_path / "spool"))
    assert (again.id, again.owner, again.links) == (name, "me", [Link("q-1", "q")])
    assert (again.first, again.next) == (0, 2)
    segments = again.range(0, 2)
    batches = [read_segment(again.storage, segment.name) for segment in segments]
    assert [batch["payload"].to_pylist() for batch in batches] == [[b"a", b"bc"], [b"d"]]
    assert again.backlog == (2, 3, 4)
    assert list(again.unconfirmed) == segments
    again.close()


def test_numbers_are_never_used_twice(tmp_path: Path) -> None:
    spool = Spool(Folder(tmp_path))
    for payload in (b"a", b"b", b"c"):
        spool.confirm(publish(spool, payload).number)
    spool.commit(3)
    assert names(tmp_path) == ["000000000002-1-1.arrow"]
    spool.close()
    again = Spool(Folder(tmp_path))
    assert (again.first, again.next) == (2, 3)
    assert publish(again, b"d").number == 3
    again.close()


def test_a_segment_goes_only_when_it_is_committed_and_confirmed(tmp_path: Path) -> None:
    spool = Spool(Folder(tmp_path))
    for payload in (b"a", b"b", b"c"):
        publish(spool, payload)
    spool.commit(2)
    assert len(names(tmp_path)) == 3
    spool.confirm(1)
    assert len(names(tmp_path)) == 3
    spool.confirm(0)
    assert names(tmp_path) == ["000000000002-1-1.arrow"]
    with pytest.raises(SpoolError, match="asks for 1 to 2: this is not the spool"):
        spool.range(1, 3)
    spool.close()


def test_what_was_confirmed_is_remembered(tmp_path: Path) -> None:
    spool = Spool(Folder(tmp_path))
    publish(spool, b"a")
    publish(spool, b"b")
    spool.confirm(0)
    spool.note_settled()
    spool.close()
    again = Spool(Folder(tmp_path))
    assert [segment.number for segment in again.unconfirmed] == [1]
    again.close()


def test_what_was_not_finished_is_swept_away(tmp_path: Path) -> None:
    spool = Spool(Folder(tmp_path))
    publish(spool, b"a")
    spool.close()
    (tmp_path / f"{TEMPORARY}000000000001-1-1.arrow").write_bytes(b"half of a segm")
    again = Spool(Folder(tmp_path))
    assert again.next == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(TEMPORARY)]
    again.close()


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_a_disk_that_fails_is_an_error_and_nothing_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    spool = Spool(Folder(tmp_path))
    publish(spool, b"a")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(
            SpoolError, match=r"writing 1 messages to the spool .* failed: No space left on device"
        ):
            publish(spool, b"b")
    with pytest.raises(SpoolError, match="has failed before"):
        publish(spool, b"b")
    spool.close()
    again = Spool(Folder(tmp_path))
    assert (again.next, len(names(tmp_path))) == (1, 1)
    assert publish(again, b"b").number == 1
    again.close()


def test_documents_are_saved_from_several_threads(tmp_path: Path) -> None:
    storage = Folder(tmp_path)

    def save(length: int) -> None:
        for _ in range(1000):
            storage.save("it.json", "x" * length, durable=False)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(save, (3, 3000)))
    assert len(storage.load("it.json")) in (3, 3000)


def test_two_processes_do_not_share_one(tmp_path: Path) -> None:
    spool = Spool(Folder(tmp_path))
    with pytest.raises(SpoolError, match=f"is in use by process {os.getpid()} on .*give each query a 'spool"):
        Spool(Folder(tmp_path), timeout=0.1)
    spool.close()
    Spool(Folder(tmp_path), timeout=0.1).close()


def test_two_queries_do_not_share_one(tmp_path: Path) -> None:
    spool = Spool(Folder(tmp_path))
    spool.own("one")
    spool.own("one")
    spool.close()
    again = Spool(Folder(tmp_path))
    with pytest.raises(SpoolError, match="belongs to the query one, and this one is other: each query"):
        again.own("other")
    again.close()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("all my work")
    with pytest.raises(SpoolError, match=r"is no spool and not empty \(it has 'thesis.txt'\)"):
        Spool(Folder(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_place_that_is_no_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match=r"opening the spool .* failed: Not a directory"):
        Spool(Folder(tmp_path / "file" / "spool"))


def test_a_gap_is_an_error(tmp_path: Path) -> None:
    spool = Spool(Folder(tmp_path))
    for payload in (b"a", b"b", b"c"):
        publish(spool, payload)
    spool.close()
    (tmp_path / "000000000001-1-1.arrow").unlink()
    with pytest.raises(SpoolError, match="the segments 0 and 2 and not those between"):
        Spool(Folder(tmp_path))


def test_a_damaged_segment_is_an_error(tmp_path: Path) -> None:
    spool = Spool(Folder(tmp_path))
    path = tmp_path / publish(spool, b"a").name
    spool.close()
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SpoolError, match="cannot be read"):
        read_segment(Folder(tmp_path), path.name)
    path.unlink()
    with pytest.raises(SpoolError, match="is not there: the spool has to be on storage"):
        read_segment(Folder(tmp_path), path.name)
