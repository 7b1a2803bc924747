"""Documents in a spool that are not as they should be: an error that names the file, and says what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amqpforge.spark.source.record import Record
from amqpforge.spark.source.roster import Roster
from amqpforge.spark.source.segment import SpoolError
from amqpforge.spark.source.spool import Spool
from amqpforge.spark.source.storage import Folder

SLOT = {"name": "slot-1-0", "address": "q", "since": 0}
ROUND = {
    "number": 0,
    "start": 0,
    "end": 1,
    "names": ["000000000000-1-1.arrow"],
    "twins": {"000000000000-1-1.arrow": [0]},
    "rows": 1,
    "octets": 1,
    "came": 1,
    "was_asked": True,
    "is_dry": False,
}
RECORD = {
    "next": 1,
    "end": 1,
    "rounds": [ROUND],
    "unconfirmed": ["x"],
    "doubts": 0,
    "figures": {"rows": 1},
}
ABOUT = {"version": 1, "id": "x", "owner": None}


def open_spool(folder: Path) -> None:
    Spool(Folder(folder)).close()


def open_roster(folder: Path) -> None:
    Roster(str(folder)).close()


def load_record(folder: Path) -> None:
    Record.load(Folder(folder))


def without(document: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != name}


@pytest.mark.parametrize(
    ("name", "read", "document", "problem"),
    [
        ("spool.json", open_spool, [], "it is a list, not an object"),
        ("spool.json", open_spool, 7, "it is a number, not an object"),
        ("spool.json", open_spool, without(ABOUT, "owner"), "it has no 'owner'"),
        ("spool.json", open_spool, ABOUT | {"owner": 7}, "'owner' is a number, not a text"),
        ("spool.json", open_spool, ABOUT | {"shards": 2}, "it has 'shards', which is not known"),
        ("links.json", open_spool, {}, "it is an object, not a list"),
        ("links.json", open_spool, [["name"]], "item 0 is a list of 1, not of 2"),
        ("links.json", open_spool, [["name", None]], "item 1 of item 0 is null, not a text"),
        ("settled.json", open_spool, "3", "it is a text, not a number"),
        ("settled.json", open_spool, False, "it is true or false, not a number"),
        ("settled.json", open_spool, 1.5, "it is a fraction, not a number"),
        ("slots.json", open_roster, {}, "it is an object, not a list"),
        ("slots.json", open_roster, [7], "item 0 is a number, not an object"),
        ("slots.json", open_roster, [SLOT, without(SLOT, "since")], "item 1 has no 'since'"),
        ("slots.json", open_roster, [SLOT | {"since": "0"}], "'since' of item 0 is a text, not a number"),
        ("slots.json", open_roster, [SLOT | {"to": 1}], "item 0 has 'to', which is not known"),
        ("rounds.json", load_record, [], "it is a list, not an object"),
        ("rounds.json", load_record, {}, "it has no 'next'"),
        ("rounds.json", load_record, RECORD | {"rounds": [{}]}, "item 0 of 'rounds' has no 'number'"),
        (
            "rounds.json",
            load_record,
            RECORD | {"rounds": [ROUND | {"twins": {"x": 1}}]},
            "'x' of 'twins' of item 0 of 'rounds' is a number, not a list",
        ),
        ("rounds.json", load_record, RECORD | {"figures": {"rows": None}}, "'rows' of 'figures' is null"),
    ],
)
def test_a_document_of_another_shape(
    tmp_path: Path, name: str, read: Callable[[Path], None], document: object, problem: str
) -> None:
    open_spool(tmp_path)
    (tmp_path / name).write_text(json.dumps(document))
    with pytest.raises(SpoolError) as caught:
        read(tmp_path)
    said = str(caught.value)
    assert f"the file {tmp_path / name} of the spool is not as this version of amqpforge writes it: " in said
    assert f": {problem}" in said
    assert "Go on with the version that has written it, or restore it" in said


def test_a_document_is_what_it_was_made_of(tmp_path: Path) -> None:
    (tmp_path / "rounds.json").write_text(json.dumps(RECORD))
    record = Record.load(Folder(tmp_path))
    assert record is not None
    assert (record.next, record.figures, record.rounds[0].twins) == (1, {"rows": 1}, ROUND["twins"])
    assert record.until == 0, "earlier versions have not written it"


def test_a_spool_of_another_version(tmp_path: Path) -> None:
    (tmp_path / "spool.json").write_text(json.dumps(ABOUT | {"version": 2}))
    with pytest.raises(SpoolError, match="is of version 2, not 1"):
        open_spool(tmp_path)
