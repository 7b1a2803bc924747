"""What is measured of Spark is right: who takes turns, what figures say, and that wrong rows are found."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import benchmarks.__main__ as program
from amqpforge_protocol.amqp_1_0 import (
    AmqpValue,
    DeliveryNumber,
    DeliveryTag,
    Handle,
    Message,
    Properties,
    SequenceNo,
    Transfer,
    ULong,
    encode_frame,
    encode_message,
)
from amqpforge_spark.amqp_1_0 import encode_messages
from benchmarks.broker.brokers import Running, served
from benchmarks.messaging.stacks import MissingError
from benchmarks.spark import captures, client, columns, contents, rows
from benchmarks.spark.bulk import Bulk, find_bulk
from benchmarks.spark.captures import Kind
from benchmarks.spark.findings import Line, alone, as_json, beside, turns
from benchmarks.spark.rows import Effort
from benchmarks.spark.tenfold import tenfold
from benchmarks.spark.tshark import AS_EK, AS_FIELDS, AS_NAMES, find_tshark
from benchmarks.spark.workers import Worker, worker
from benchmarks.stack import WrongResultError
from tests.spark.capture.reading import FOLDER, from_client, saved, talk

SMALL = "p10-proton-many-small"
"""A capture of a thousand messages that go in, and out again."""

IN_SMALL = {"open": 2, "begin": 2, "attach": 4, "flow": 224, "transfer": 2000, "disposition": 222, "close": 2}
CODES = {"open": 16, "begin": 17, "attach": 18, "flow": 19, "transfer": 20, "disposition": 21, "close": 24}
N = 300


@pytest.fixture(scope="module")
def plain() -> Iterator[Worker]:
    with worker(0) as running:
        yield running


@pytest.fixture(scope="module")
def apart() -> Iterator[tuple[Worker, Worker]]:
    """Two workers without a session, each on a processor of its own."""
    with worker(0, 0) as first, worker(0, 1) as second:
        yield first, second


@pytest.fixture(scope="module")
def session() -> Iterator[Worker]:
    """A session of Spark."""
    try:
        with worker(2) as running:
            yield running
    except MissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def broker() -> Iterator[Running]:
    with served("ours", "ours") as running:
        running.declare(2)
        yield running


# --- figures


def test_everybody_has_a_turn_and_another_one_begins_each_round() -> None:
    order: list[str] = []

    def run(key: str) -> Mapping[str, float]:
        order.append(key)
        return {"rate": float(len(order))}

    found = turns({key: partial(run, key) for key in "abc"}, 3)
    assert order == list("abcbcacab")
    assert [sample["rate"] for sample in found["a"]] == [1.0, 6.0, 8.0]


def test_a_ratio_is_that_of_the_rounds_and_above_one_where_ours_is_better() -> None:
    ours = [{"rate": 10.0, "cpu": 4.0}, {"rate": 90.0, "cpu": 1.0}, {"rate": 30.0, "cpu": 2.0}]
    theirs = [{"rate": 5.0, "cpu": 2.0}, {"rate": 30.0, "cpu": 2.0}, {"rate": 30.0, "cpu": 2.0}]
    speed = beside("it", "rows/s", "rate", ours, ("peer", theirs), 2.0, more_is_better=True)
    assert speed == Line("it", "rows/s", 30.0, "peer", 30.0, 2.0, 2.0)
    assert speed.is_met
    cost = beside("it", "s", "cpu", ours, ("peer", theirs))
    assert (cost.ours, cost.theirs, cost.ratio, cost.is_met) == (2.0, 2.0, 1.0, None)


def test_a_target_without_a_peer_is_one_of_the_figure_itself() -> None:
    assert alone("it", "rows/s", [3.0, 1.0, 2.0], 2.0).is_met
    assert not alone("it", "rows/s", [3.0, 1.0, 2.0], 2.5).is_met


def test_a_line_says_what_was_reached() -> None:
    line = Line("decoding", "frames/s", 150_000.0, "tshark", 100_000.0, 1.5, 2.0)
    words = ["decoding", "/", "tshark", "frames/s", "150,000", "100,000", "1.50x", ">=", "2", "not", "met"]
    assert line.text().split() == words
    assert alone("encoding", "rows/s", [70_000.0], 60_000).text().split()[2:] == [
        *("70,000", ">=", "60,000", "met")
    ]
    assert as_json([line])[0]["ratio"] == 1.5


# --- without a session


def test_columns_are_what_they_were_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    made = columns.Columns(50)
    assert set(made.calls) == {name for name, _, _ in rows.COLUMNS}
    assert all(seconds > 0 for seconds in made.measure().values())
    monkeypatch.setattr(made, "calls", {"decode": lambda: ["other"]})
    with pytest.raises(columns.WrongColumnsError, match="decode does not give the same"):
        made.measure()


def test_a_wrong_encoding_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "encode_messages", lambda batch: [*encode_messages(batch)[:-1], b"other"])
    with pytest.raises(columns.WrongColumnsError, match="messages: that of row 4 is b'other'"):
        columns.Columns(5)


def test_frames_come_as_in_the_bulk_capture() -> None:
    assert len(contents.frames(1100)) == 1100
    assert contents.frames(1100)[:9] == contents.frames(9)


def test_the_client_finds_what_is_missing_or_too_much(plain: Worker, broker: Running, tmp_path: Path) -> None:
    job = {"port": broker.port, "address": f"{broker.address}-1", "size": 100}
    plain.do("send", **job, count=N)
    assert plain.do("take", **job, count=N)["seconds"] > 0
    plain.do("send", **job, count=N - 1)
    spool = {"port": broker.port, "address": f"{broker.address}-1", "folder": str(tmp_path / "spool")}
    with pytest.raises(WrongResultError, match=f"of {N} messages the receiver has: .*'rows': {N - 1},"):
        plain.do("receive", **spool, count=N)
    plain.do("send", **job, count=1)
    assert plain.do("receive", **spool, count=N)["seconds"] > 0
    plain.do("send", **job, count=N + 1)
    with pytest.raises(WrongResultError, match=f"more than {N} messages"):
        plain.do("take", **job, count=N)
    bodies = contents.bodies(3, 100)
    client.check(bodies[::-1], 3, 100)
    with pytest.raises(client.WrongMessagesError, match="1 are missing, among the 3"):
        client.check([bodies[0], bodies[0], bodies[1]], 3, 100)


# --- tshark


def small() -> Bulk:
    about = json.loads((FOLDER / f"{SMALL}.streams.json").read_text())
    counts = {CODES[name]: count for name, count in IN_SMALL.items()}
    return Bulk(FOLDER / f"{SMALL}.pcapng", about["port"], counts)


@pytest.mark.parametrize("form", [AS_NAMES, AS_FIELDS, AS_EK], ids=["names", "fields", "ek"])
def test_tshark_is_held_against_the_frames(form: tuple[str, ...], tmp_path: Path) -> None:
    capture = small()
    tshark = find_tshark(capture.path, capture.port)
    if tshark is None:
        pytest.skip("tshark is not installed")
    tshark.check(form, capture.counts, tmp_path)
    with pytest.raises(WrongResultError, match="has found"):
        tshark.check(form, {**capture.counts, 20: 1999}, tmp_path)
    used = tshark.run(form)
    assert used["seconds"] > 0
    assert used["worker"] > 10  # MiB


def test_no_tshark_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert find_tshark(Path("x"), 1) is None


# --- captures without a session


@pytest.mark.parametrize("kind", captures.KINDS, ids=lambda kind: kind.title)
def test_a_capture_is_decoded_without_spark(apart: tuple[Worker, Worker], kind: Kind) -> None:
    one, capture = captures.Processes(apart[:1]), small()
    count = one.check(capture, kind)
    assert count > capture.frames
    assert one.run(capture, kind, count)["rate"] > 0
    with pytest.raises(WrongResultError, match=f"{count} rows of the capture, not 7"):
        one.run(capture, kind, 7)
    with pytest.raises(WrongResultError, match=r"'transfer': 2000, .* not .*'transfer': 1999"):
        one.check(Bulk(capture.path, capture.port, {**capture.counts, 20: 1999}), kind)
    with pytest.raises(WrongResultError, match="1 parts, not 2"):
        captures.Processes(apart).run(capture, kind, count)


def test_ten_captures_are_ten_connections(apart: tuple[Worker, Worker], tmp_path: Path) -> None:
    capture = small()
    many = tenfold(capture, tmp_path)
    assert many.counts[20] == 10 * capture.counts[20]
    kind = captures.KINDS[0]
    one = captures.Processes(apart[:1])
    assert one.check(many, kind) == 10 * one.check(capture, kind)
    tshark = find_tshark(many.path, many.port)
    if tshark is not None:
        tshark.check(AS_NAMES, many.counts, tmp_path)
    (tmp_path / "other").write_bytes(b"other")
    with pytest.raises(WrongResultError, match="no little-endian pcapng"):
        tenfold(Bulk(tmp_path / "other", 5672, {}), tmp_path)


@pytest.mark.parametrize("kind", captures.KINDS, ids=lambda kind: kind.title)
def test_two_processes_decode_a_part_each(apart: tuple[Worker, Worker], tmp_path: Path, kind: Kind) -> None:
    capture = numbered(tmp_path, list(range(600)), "x" * 12_000)
    one, two = captures.Processes(apart[:1]), captures.Processes(apart)
    count = one.check(capture, kind)
    assert two.check(capture, kind) == count
    used = two.run(capture, kind, count)
    assert used["rate"] == pytest.approx(600 / used["seconds"])


def test_each_worker_has_a_processor_of_its_own(apart: tuple[Worker, Worker]) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    found = [os.sched_getaffinity(running._child.pid) for running in apart]
    assert found == ([{allowed[0]}, {allowed[1]}] if len(allowed) > 1 else [set(allowed)] * 2)


def test_the_same_runs_of_tshark_are_held_against_all_ways() -> None:
    kind = captures.KINDS[2]
    speeds = {
        "one core": 30.0,
        "local[1]": 40.0,
        "local[2]": 48.0,
        "one core, rows that are there already": 50.0,
        "one process": 60.0,
        "two processes": 90.0,
    }
    speeds |= dict.fromkeys(kind.forms, 20.0)
    costs = {"cpu": 1.0, "jvm": 1.0, "worker": 1.0, "all": 1.0}
    found = {name: [{**costs, "rate": rate}] for name, rate in speeds.items()}
    told = [
        *captures._lines("capture, with messages", kind, found),
        *captures._lines_without_spark(kind, found),
    ]
    lines = {(line.title, line.peer): line for line in told}
    title = "with messages"
    for way, form, ratio, target in (
        (f"capture, {title}, one core", "tshark -T ek", 1.5, 3.0),
        (f"capture, {title}, one core, rows that are there already", "tshark -T ek", 2.5, None),
        (f"capture decoded in one process, {title}", "tshark -T ek", 3.0, 3.0),
        (f"capture decoded in one process, {title}", "tshark -T ek -J amqp", 3.0, None),
        (f"capture decoded in two processes, {title}", "one", 1.5, 1.6),
    ):
        line = lines[way, form]
        assert (line.ratio, line.target) == (ratio, target)


# --- with a session


@pytest.mark.slow
@pytest.mark.spark
def test_a_capture_is_decoded_on_one_core_and_on_two(plain: Worker, session: Worker, tmp_path: Path) -> None:
    kind = Kind("performatives", {"sections": "false"}, {"tshark -T fields": AS_FIELDS}, 2.0, warm_up=0)
    ways = [captures.Way(session, 1, cpus=1), captures.Way(session, 2)]
    capture = small()
    count = ways[0].check(capture, kind)
    for way in ways:
        used = way.run(capture, kind, count)
        assert min(used["rate"], used["cpu"], used["jvm"]) > 0
        assert used["all"] > used["worker"] > 10  # MiB
        with pytest.raises(WrongResultError, match=f"{count} rows of the capture, not 7"):
            way.run(capture, kind, 7)
    with pytest.raises(WrongResultError, match="frames: "):
        ways[1].check(Bulk(capture.path, capture.port, {**capture.counts, 20: 1999}), kind)
    ready = captures.Ready(session, plain, tmp_path / "rows.arrow")
    assert ready.check(capture, kind) == count
    assert ready.run(capture, kind, count)["rate"] > 0
    with pytest.raises(WrongResultError, match=f"{count} rows handed over, not 7"):
        ready.run(capture, kind, 7)


def numbered(folder: Path, numbers: list[int], text: str = "x") -> Bulk:
    """A capture of a transfer for each number, which is the id of the message in it; ``text`` is its body."""
    sent = [b"AMQP\x00\x01\x00\x00"]
    for place, number in enumerate(numbers):
        transfer = Transfer(
            handle=Handle(0),
            delivery_id=DeliveryNumber(SequenceNo(place)),
            delivery_tag=DeliveryTag(b"%d" % place),
        )
        message = Message(properties=Properties(message_id=ULong(number)), body=AmqpValue(text))
        sent.append(encode_frame(transfer, payload=encode_message(message)))
    path = saved(folder, talk(*from_client(*sent)).packets)
    return Bulk(path, 5672, {20: len(numbers)})


@pytest.mark.slow
@pytest.mark.spark
def test_a_message_that_is_there_twice_is_found(session: Worker, tmp_path: Path) -> None:
    kind = Kind("with messages", {}, {}, 3.0, warm_up=0)
    way = captures.Way(session, 1)
    way.check(numbered(tmp_path, [0, 1, 2, 3]), kind)
    way.check(numbered(tmp_path, [3, 2, 1]), kind)
    with pytest.raises(WrongResultError, match="'numbers': 3"):
        way.check(numbered(tmp_path, [0, 1, 1, 3]), kind)


@pytest.mark.slow
@pytest.mark.spark
def test_a_spool_is_read_as_often_as_one_likes(
    plain: Worker, session: Worker, broker: Running, tmp_path: Path
) -> None:
    address = f"{broker.address}-0"
    job = {"port": broker.port, "address": address, "spool": str(tmp_path / "spool")}
    plain.do("send orders", port=broker.port, address=address, count=N)
    for number, asked in enumerate(((), rows.OF_SPOOL)):
        used = session.do("spooled", **job, folder=str(tmp_path / str(number)), count=N, columns=asked)
        assert used["seconds"] > 0
        file = str(tmp_path / f"{number}.arrow")
        assert plain.do("record spool", spool=job["spool"], columns=asked, file=file)["rows"] == N
        target = str(tmp_path / str(number))
        assert session.do("hand_over", path=file, tasks=2, cpus=None, folder=target)["rows"] == N
    with pytest.raises(WrongResultError, match=f"'rows': {N}, .* not .*'rows': {N - 1}"):
        session.do("spooled", **job, folder=str(tmp_path / "short"), count=N - 1, columns=())


@pytest.mark.slow
@pytest.mark.spark
def test_the_broker_is_read_and_written(
    plain: Worker, session: Worker, broker: Running, tmp_path: Path
) -> None:
    job = {"port": broker.port, "address": broker.address, "count": N, "size": 100}
    for ids in (False, True):
        assert session.do("write", **job, ids=ids)["seconds"] > 0
        plain.do("take", **job)
    for number, asked in enumerate(((), rows.OF_STREAM)):
        plain.do("send", **job)
        used = session.do("stream", **job, folder=str(tmp_path / str(number)), columns=asked)
        assert used["seconds"] > 0
        assert used["before"] > 0
    plain.do("send", **job)
    plain.do("send", **job)
    with pytest.raises(WrongResultError, match=f"'numbers': {N}"):
        session.do("stream", **job, folder=str(tmp_path / "twice"), columns=())


# --- the command line


def test_without_java_what_needs_no_session_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def without_java(cores: int) -> Iterator[Worker]:
        if cores:
            raise MissingError("Spark needs Java")
        with worker(0) as running:
            yield running

    monkeypatch.setattr(rows, "worker", without_java)
    assert program.main(["--quick", "--case", "spark"]) == 0
    said = capsys.readouterr().out
    assert "left out: what needs a session of Spark (Spark needs Java)" in said
    assert said.count("one process, ") == len(rows.COLUMNS)


def test_without_pyspark_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rows, "find_spec", lambda name: None)
    assert program.main(["--quick", "--case", "spark"]) == 0
    assert "left out: spark (pyspark and pyarrow cannot be imported)" in capsys.readouterr().out


def test_without_material_and_tshark_it_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plain: Worker
) -> None:
    said: list[str] = []
    monkeypatch.delenv("AMQPFORGE_MATERIAL", raising=False)
    assert list(rows._captures(plain, tmp_path, Effort(), said.append)) == []
    assert said == ["left out: captures (AMQPFORGE_MATERIAL has no bulk capture)"]


def test_spark_can_be_chosen_and_quick_leaves_it_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    efforts: list[Effort] = []

    def measure(effort: Effort, say: object) -> Iterator[Line]:
        efforts.append(effort)
        yield Line("decoding", "frames/s", 150_000.0, "tshark", 100_000.0, 1.5, 2.0)

    monkeypatch.setattr(rows, "measure", measure)
    assert program.main(["--case", "spark", "--no-processes", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["spark"] == [
        {
            "title": "decoding",
            "unit": "frames/s",
            "ours": 150_000.0,
            "peer": "tshark",
            "theirs": 100_000.0,
            "ratio": 1.5,
            "target": 2.0,
        }
    ]
    assert program.main(["--case", "spark", "--quick"]) == 0
    assert program.main(["--case", "transfer", "--quick"]) == 0
    assert efforts == [Effort(), rows.QUICK]


def test_wrong_rows_end_with_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(effort: Effort, say: object) -> Iterator[Line]:
        raise WrongResultError("there are 7 rows")
        yield

    monkeypatch.setattr(rows, "measure", measure)
    assert program.main(["--quick", "--case", "spark"]) == 1
    assert "wrong result: there are 7 rows" in capsys.readouterr().err


def test_the_bulk_capture_is_found(material: Path) -> None:
    found = find_bulk()
    assert found is not None
    assert found.path.resolve().is_relative_to(material.resolve())
    assert (found.frames, found.port) == (122_231, 35690)
    assert found.by_name["transfer"] == 100_000
