"""``receiveOn=executors``: rounds of receiving in tasks, each slot with a spool of its own."""

from __future__ import annotations

import json
import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle

from amqpforge.spark.options import OptionError
from amqpforge.spark.source import links, recovery, siblings
from amqpforge.spark.source.node import Node
from amqpforge.spark.source.objects import ObjectStore
from amqpforge.spark.source.options import ReadOptions
from amqpforge.spark.source.record import Record, Round
from amqpforge.spark.source.roster import shares
from amqpforge.spark.source.rounds import AmqpRoundReader
from amqpforge.spark.source.segment import SpoolError
from amqpforge.spark.source.share import Share
from amqpforge.spark.source.slot import SlotPartition, serve, slot_name
from amqpforge.spark.source.spool import Spool
from amqpforge.spark.source.storage import Folder
from amqpforge.testing import ScriptedBroker, ThreadedBroker
from tests.interop import rabbitmq
from tests.interop.certificates import make
from tests.interop.stacks import need

from .driver import AFTER_SINK, run
from .scene import bodies, publish, until
from .stores import local
from .test_chaos import found
from .test_storage import publish as put
from .test_stream import Job, rows, sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N = 600
pickled: Callable[[object], bytes] = cloudpickle.dumps


def values(url: str, spool: Path, **more: object) -> dict[str, str]:
    base = {
        "url": url,
        "address": "q",
        "spoolLocation": str(spool),
        "startTimeout": "20",
        "receiveOn": "executors",
    }
    return base | {name: str(value) for name, value in more.items()}


def given(url: str, spool: Path, **more: object) -> ReadOptions:
    return ReadOptions.for_stream(values(url, spool, **more))


def numbers(options: ReadOptions, part: SlotPartition) -> list[int]:
    taken: list[int] = []
    for batch in serve(options, part):
        taken += map(int, batch["body"].to_pylist())
    return taken


def slot(options: ReadOptions, start: int, **more: Any) -> SlotPartition:
    made = SlotPartition(
        options.spool or "",
        slot_name("q", 0),
        "q",
        "rounds-x",
        start,
        start + 1,
        0,
        (),
        20_000,
        32 << 20,
        False,
    )
    return replace(made, **more)


# --- a slot -------------------------------------------------------------------------------------------------


def test_a_round_is_served_again_and_swept(broker: ThreadedBroker, tmp_path: Path) -> None:
    options = given(broker.url, tmp_path / "spool")
    publish(broker.url, N)
    first = numbers(options, slot(options, 0, rows=200))
    assert first == list(range(200))
    assert len(broker.queue("q")) == N - 200
    publish(broker.url, 10, start=N)
    assert numbers(options, slot(options, 0)) == first
    second = numbers(options, slot(options, 1))
    assert first + second == list(range(N + 10))
    folder = tmp_path / "spool" / slot_name("q", 0)
    assert numbers(options, slot(options, 2)) == []
    assert len(list(folder.glob("*.arrow"))) == 1
    assert len(broker.queue("q")) == 0
    with pytest.raises(SpoolError, match=r"round 0 of the slot .* is over"):
        numbers(options, slot(options, 0))


def test_a_share_has_so_many_octets(broker: ThreadedBroker, tmp_path: Path) -> None:
    options = given(broker.url, tmp_path / "spool", credit=1000)
    for number in range(400):
        broker.put("q", b"%09d" % number)
    size = 14  # Of each: the descriptor of the section, the size, the body.
    assert numbers(options, slot(options, 0, octets=50 * size + 3)) == list(range(50))
    assert numbers(options, slot(options, 1, octets=250 * size)) == list(range(50, 300))
    assert numbers(options, slot(options, 2, octets=1)) == [300], "one that is too large is taken alone"
    assert len(broker.queue("q")) == 99


def test_credit_keeps_to_the_share(
    broker: ThreadedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that next to nothing is sent in vain."""
    sent: list[int] = []
    take = Share.take

    def counted(self: Share, deliveries: Any) -> int:
        sent.append(len(deliveries))
        return take(self, deliveries)

    monkeypatch.setattr(Share, "take", counted)
    options = given(broker.url, tmp_path / "spool")
    publish(broker.url, N)
    assert len(numbers(options, slot(options, 0, rows=250))) == sum(sent) == 250


def test_what_a_dead_task_left_is_of_the_same_round(broker: ThreadedBroker, tmp_path: Path) -> None:
    options = given(broker.url, tmp_path / "spool", credit=100, maxRowsPerBatch=100)
    publish(broker.url, N)
    part = slot(options, 0, rows=300)
    assert die_in(options, part, "after fsync", 2) == -signal.SIGKILL
    assert Record.load(Folder(Path(part.location, part.name))) is None
    first = numbers(options, part)
    assert len(first) == 300
    second = numbers(options, slot(options, 1))
    assert sorted(first + second) == list(range(N))
    assert numbers(options, slot(options, 1)) == second


@pytest.mark.parametrize("ids", [True, False], ids=["ids", "no ids"])
@pytest.mark.parametrize("point", ["before rename", "after fsync", "after settle", "before record"])
def test_killed_in_the_middle(broker: ThreadedBroker, tmp_path: Path, point: str, ids: bool) -> None:
    options = given(broker.url, tmp_path / "spool", credit=100, maxRowsPerBatch=100)
    publish(broker.url, N, ids=ids)
    part = slot(options, 0)
    assert die_in(options, part, point, 1) == -signal.SIGKILL
    taken = numbers(options, part)
    if point == "before rename":
        # What the dead task had not in its spool went back when its link was closed: it is there now.
        taken += numbers(options, slot(options, 1))
    assert sorted(taken) == list(range(N))
    until(lambda: len(broker.queue("q")) == 0, "settling")


_TASK = """
import os, pickle, signal, sys
from tests.spark.source import child
sys.path.insert(0, "tests/spark/source/dying")
options, part, plan = pickle.loads(bytes.fromhex(sys.argv[1]))
import os, json
os.environ["AMQPFORGE_DYING"] = json.dumps(plan)
import pyspark_amqpdying
for _ in pyspark_amqpdying.DyingRounds(options).read(part): pass
"""


def die_in(options: ReadOptions, part: SlotPartition, point: str, count: int) -> int:
    """Do a round in a process that dies at a point."""
    plan = {"die": point, "count": count, "alone": True}
    argument = pickle.dumps((options, part, plan)).hex()
    return subprocess.run([sys.executable, "-c", _TASK, argument], timeout=60, check=False).returncode


def test_what_is_not_confirmed_is_known_for_so_many_messages(
    broker: ThreadedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds have few messages, so these are counted from one round to the next."""
    options = given(broker.url, tmp_path / "spool", credit=100, maxRowsPerBatch=100)
    publish(broker.url, N)
    part = slot(options, 0)
    assert die_in(options, part, "after fsync", 2) == -signal.SIGKILL

    async def forget(connection: Any, options: Any, address: str, name: str, tags: object) -> Any:
        return await links.attach_again(connection, options, address, name, ())

    with monkeypatch.context() as patch:
        patch.setattr(recovery, "attach_again", forget)
        taken = numbers(options, part)
    assert _record(part).figures["droppedDuplicates"] > 0
    left = _record(part).doubts
    assert 10_000 - N <= left < 10_000
    rest = numbers(options, slot(options, 1))
    publish(broker.url, 50, start=N)
    rest += numbers(options, slot(options, 2))
    assert _record(part).doubts == left - len(rest)
    assert sorted(taken + rest) == list(range(N + 50))


def _record(part: SlotPartition) -> Record:
    record = Record.load(Folder(Path(part.location, part.name)))
    assert record is not None
    return record


@pytest.mark.parametrize("is_late", [True, False])
def test_what_another_slot_has_is_left_out(broker: ThreadedBroker, tmp_path: Path, is_late: bool) -> None:
    """A task has died, and the peer, as if it had forgotten its link, gives its messages to another slot; it
    is tried again before that one is through, or after it.
    """
    options = given(broker.url, tmp_path / "spool", credit=100, maxRowsPerBatch=100)
    publish(broker.url, N)
    names = [slot_name("q", number) for number in range(2)]
    one = slot(options, 0, rows=300, siblings=(names[1],))
    other = slot(options, 0, name=names[1], siblings=(names[0],))
    assert die_in(options, one, "after fsync", 1) == -signal.SIGKILL
    Path(one.location, one.name, "links.json").write_text("[]")
    left = _left(one)
    assert left
    publish_again(broker.url, left)
    first, second = (other, one) if is_late else (one, other)
    found = [numbers(options, first), numbers(options, second)]
    assert not set(found[0]) & set(found[1])
    assert set(left) <= set(found[0])
    assert len(found[0] + found[1]) == len(set(found[0] + found[1]))
    assert [numbers(options, first), numbers(options, second)] == found
    assert sum(_record(part).figures["droppedDuplicates"] for part in (one, other)) == len(left)


def test_what_another_slot_had_confirmed_since_may_be_gone(tmp_path: Path) -> None:
    """It is swept while the record, which comes at the end of the round, still names it."""
    mine, other = (Spool(Folder(tmp_path / name)) for name in ("mine", "other"))
    for spool in (mine, other):
        put(spool, b"first")
    put(other, b"second")
    told = replace(Record.new(), next=1, end=1, unconfirmed=[one.name for one in other.unconfirmed][:1])
    other.confirm(0)
    other.commit(1)
    assert other.first == 1
    names = [one.name for one in mine.range(0, 1)]
    assert siblings.find_twins(mine.storage, names, [(other.storage, told)], 1, is_sure=True) == {}
    for spool in (mine, other):
        spool.close()


def test_a_lock_of_slots_that_fails_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its lease would be renewed for as long as the process of the task lives, which has other tasks."""

    def fail(self: ObjectStore) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(siblings, "open_storage", lambda location: local(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "_survey", fail)
        with (
            pytest.raises(SpoolError, match=r"locking s3://not/there failed: Input/output error"),
            siblings.one_at_a_time("s3://not/there", "slot-x", 1),
        ):
            pass
    assert not (tmp_path / "lock").exists()
    with siblings.one_at_a_time("s3://not/there", "slot-x", 1):
        assert (tmp_path / "lock").exists()


def publish_again(url: str, sent: list[int]) -> None:
    """Send copies of messages."""
    for number in sent:
        publish(url, 1, start=number)


def _left(part: SlotPartition) -> list[int]:
    """What is in the spool of a slot that nobody uses."""
    return bodies(Path(part.location, part.name))


def test_two_attempts_of_one_task(broker: ThreadedBroker, tmp_path: Path) -> None:
    """The second one waits for the first, and serves what that has received."""
    options = given(broker.url, tmp_path / "spool")
    publish(broker.url, N)
    part = slot(options, 0)
    argument = pickle.dumps((options, part, {})).hex()
    command = [sys.executable, "-c", _TASK, argument]
    attempts = [subprocess.Popen(command) for _ in range(2)]
    assert [attempt.wait(60) for attempt in attempts] == [0, 0]
    assert numbers(options, part) == list(range(N))
    assert _record(part).figures["connections"] == 1


def test_a_slot_that_was_emptied(broker: ThreadedBroker, tmp_path: Path) -> None:
    options = given(broker.url, tmp_path / "spool")
    publish(broker.url, 10)
    numbers(options, slot(options, 0))
    shutil.rmtree(tmp_path / "spool")
    with pytest.raises(SpoolError, match=r"at round 1, and the slot .* is new"):
        numbers(options, slot(options, 1))


# --- when a round begins ------------------------------------------------------------------------------------


def done(came: int, *, was_asked: bool = True, is_dry: bool = True) -> Round:
    return Round(0, 0, 1, [], {}, came, came, came, was_asked, is_dry)


def test_a_node_that_tells_is_asked_for_what_it_has() -> None:
    node = Node(began=0.0)
    node.tell(5)
    assert node.is_due(0.0)
    node.begin(0.0)
    node.end([done(5)])
    node.tell(0)
    assert not node.is_due(1e6)
    node.tell(1)
    assert node.is_due(0.0)


def test_a_node_that_does_not_tell_is_asked_once_a_second_unless_it_had_something() -> None:
    node = Node(began=0.0)
    assert node.is_due(0.0)
    node.begin(0.0)
    node.end([done(0)])
    assert [node.is_due(now) for now in (0.9, 1.0)] == [False, True]
    node.begin(1.0)
    node.end([done(1)])
    assert node.is_due(1.1)


def test_a_node_is_not_believed_for_ever() -> None:
    """It may say 0 always, or count what a filter leaves out."""
    node = Node(began=0.0)
    node.tell(0)
    assert [node.is_due(now) for now in (9.0, 10.0)] == [False, True]
    node = Node(began=0.0)
    node.tell(7)
    node.begin(0.0)
    node.end([done(0)])
    node.tell(7)
    assert [node.is_due(now) for now in (9.0, 10.0)] == [False, True]
    node.tell(8)
    assert node.is_due(0.0)


def test_a_node_of_which_nothing_was_asked_stays_as_it_is() -> None:
    node = Node()
    node.begin(0.0)
    node.end([done(0, was_asked=False)])
    assert not node.is_through
    node.end([done(0, was_asked=False), done(3, is_dry=False)])
    assert not node.is_through
    node.end([done(3)])
    assert node.is_through


def plan(reader: AmqpRoundReader, start: Any, end: Any) -> list[SlotPartition]:
    return [part for part in reader.partitions(start, end) if isinstance(part, SlotPartition)]


def test_a_round_keeps_its_slots_when_an_address_is_given_up(broker: ThreadedBroker, tmp_path: Path) -> None:
    broker.declare_queue("r")
    publish(broker.url, 10)
    publish(broker.url, N, start=10, address="r")
    options = given(broker.url, tmp_path / "spool", address="q,r", credit=100)
    reader = AmqpRoundReader(options)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    parts = plan(reader, start, end)
    assert [part.address for part in parts] == ["q", "r"]
    assert plan(reader, start, end) == parts
    first = numbers(options, parts[0])
    assert die_in(options, parts[1], "after fsync", 1) == -signal.SIGKILL
    reader.stop()

    options = given(broker.url, tmp_path / "spool", address="q", credit=100)
    reader = AmqpRoundReader(options)
    again = plan(reader, reader.initialOffset(), end)
    assert [(part.name, part.rows > 0) for part in again] == [(parts[0].name, True), (parts[1].name, False)]
    assert numbers(options, again[0]) == first == list(range(10))
    left = numbers(options, again[1])
    assert left == list(range(10, 10 + len(left)))
    assert left
    until(lambda: len(broker.queue("r")) == N - len(left), "giving back")
    publish(broker.url, 1, start=10)
    until(lambda: reader.latestOffset(end, reader.getDefaultReadLimit()) != end, "the next round")
    assert [part.address for part in plan(reader, end, end | {"next": 2})] == ["q"]
    reader.stop()


def test_shares() -> None:
    assert shares(10, 4, 0) == [3, 3, 2, 2]
    assert shares(10, 4, 1) == [3, 2, 2, 3]
    assert [shares(1, 3, turn).index(1) for turn in range(3)] == [0, 2, 1]


# --- options ------------------------------------------------------------------------------------------------


def test_options_that_do_not_go_together() -> None:
    with pytest.raises(OptionError, match="'receiveOn' is driver where messages are copied"):
        given("amqp://x", Path("/s"), mode="browse")
    with pytest.raises(OptionError, match="'receiveOn' is driver or executors, not 'workers'"):
        given("amqp://x", Path("/s"), receiveOn="workers")
    with pytest.raises(OptionError, match=r"'receiveOn' is for spark.readStream"):
        ReadOptions.for_batch({"url": "amqp://x", "address": "q", "receiveOn": "executors"})


def test_the_password_is_with_the_reader_alone() -> None:
    from amqpforge_spark.amqp_1_0 import MESSAGE
    from pyspark_amqp import DefaultSource

    source = DefaultSource(values("amqp://x", Path("/s"), user="me", password="geheim"))
    reader = source.streamReader(MESSAGE)
    assert isinstance(reader, AmqpRoundReader)
    assert b"geheim" not in pickled(source)
    again = pickle.loads(pickled(reader))
    found = again._options.connection.credentials()
    assert found.password == "geheim"
    assert "geheim" not in repr(again._options)


# --- with Spark ---------------------------------------------------------------------------------------------


@pytest.fixture
def job(spark: SparkSession, broker: ThreadedBroker, tmp_path: Path) -> Iterator[Job]:
    yield Job(spark, broker.url, tmp_path, receiveOn="executors")
    for query in spark.streams.active:
        query.stop()


def test_two_addresses_with_two_receivers(job: Job, broker: ThreadedBroker) -> None:
    broker.declare_queue("r")
    job.given |= {"address": "q, r", "receivers": "2", "maxRowsPerBatch": "300"}
    publish(broker.url, N)
    publish(broker.url, N, start=N, address="r")
    query = job.run()
    assert job.numbers() == list(range(2 * N))
    assert len(broker.queue("q")) == len(broker.queue("r")) == 0
    batches = [source["numInputRows"] for source in sources(query)]
    assert max(batches) <= 300
    assert sum(batches) == 2 * N
    figures = sources(query)[-1]["latestOffset"]
    assert figures["rows"] == sum(batches[:-1]), "what was known when the last round began"
    assert figures["droppedDuplicates"] == figures["unsettled"] == figures["redelivered"] == 0
    assert list(sources(query)[-1]["endOffset"]) == ["query", "next"]
    assert len(list((job.folder / "spool").glob("slot-*-[01]"))) == 4

    publish(broker.url, 50, start=2 * N)
    job.run()
    assert job.numbers() == list(range(2 * N + 50))
    job.given["address"] = "r"
    publish(broker.url, 50, start=2 * N + 50, address="r")
    job.run()
    assert job.numbers() == list(range(2 * N + 100))


def test_a_stream_goes_on_and_rests(job: Job, broker: ThreadedBroker) -> None:
    publish(broker.url, N)
    query = job.start()
    until(lambda: rows(query) == N, "the first rows")
    until(lambda: query.status["message"] == "Waiting for data to arrive", "rest")
    number = sources(query)[-1]["endOffset"]["next"]
    for connection in broker.connections:
        connection.cut()
    publish(broker.url, N, start=N)
    until(lambda: rows(query) >= 2 * N, "rows after the cut")
    query.stop()
    assert sources(query)[-1]["endOffset"]["next"] <= number + 4, "no round without a reason"
    publish(broker.url, N, start=2 * N)
    job.run()
    assert job.numbers() == list(range(3 * N))
    assert len(list((job.folder / "spool").rglob("*.arrow"))) < 10


def test_other_places_and_other_spools(job: Job, broker: ThreadedBroker) -> None:
    publish(broker.url, 10)
    job.run()
    job.given["receiveOn"] = "driver"
    with pytest.raises(Exception, match="receiveOn=executors, and cannot go on with driver"):
        job.run()
    job.given["receiveOn"] = "executors"
    (job.folder / "checkpoint").rename(job.folder / "mine")
    publish(broker.url, 10, start=10)
    with pytest.raises(Exception, match=r"belongs to the query .*each query, which means each checkpoint"):
        job.run()
    shutil.rmtree(job.folder / "checkpoint")
    (job.folder / "mine").rename(job.folder / "checkpoint")
    job.run()
    assert job.numbers() == list(range(20))
    shutil.rmtree(job.folder / "spool")
    with pytest.raises(Exception, match="it is not the one that the checkpoint goes with, or it was emptied"):
        job.run()


def test_nobody_is_there(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, "amqp://127.0.0.1:1", tmp_path, startTimeout="1", receiveOn="executors")
    with pytest.raises(Exception, match="no way to receive for 1 s, which the option 'startTimeout' sets"):
        job.run()


def test_a_password_is_nowhere(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = "open-sesame"
    with ScriptedBroker.threaded(passwords={"me": secret}) as broker:
        broker.declare_queue("q")
        broker.put("q", b"1")
        job = Job(spark, broker.url, tmp_path, user="me", password=secret, receiveOn="executors")
        query = job.run()
        assert job.numbers() == [1]
        spark.readStream.format("amqp").options(**job.given).load().explain(True)
        assert all(secret not in json.dumps(progress) for progress in sources(query))
    shown = capfd.readouterr()
    assert secret not in shown.out + shown.err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if secret.encode() in path.read_bytes()]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("point", ["before rename", "after fsync", "after settle", "before record"])
def test_a_worker_dies_in_the_middle_of_a_round(broker: ThreadedBroker, tmp_path: Path, point: str) -> None:
    """Spark tries its task again."""
    publish(broker.url, N, ids=False)
    options = values(broker.url, tmp_path / "spool", maxRowsPerBatch=200, receivers=2, startTimeout=60)
    assert run(options, tmp_path / "out", die=point, count=2, alone=True) == 0
    assert (tmp_path / "spool.dead").exists()
    assert run(options, tmp_path / "out") == 0
    assert found(tmp_path / "out") == list(range(N))
    until(lambda: len(broker.queue("q")) == 0, "settling")


@pytest.mark.slow
@pytest.mark.spark
def test_everything_dies_and_the_round_comes_again(broker: ThreadedBroker, tmp_path: Path) -> None:
    """The messages have ids: a program takes its time to start, and the peer keeps links for a minute."""
    publish(broker.url, N)
    options = values(broker.url, tmp_path / "spool", maxRowsPerBatch=200, receivers=2, startTimeout=60)
    for point in ("after fsync", "after record"):
        (tmp_path / "spool.dead").unlink(missing_ok=True)
        assert run(options, tmp_path / "out", die=point, count=2) == -signal.SIGKILL
    assert run(options, tmp_path / "out", die=AFTER_SINK) == -signal.SIGKILL
    assert run(options, tmp_path / "out") == 0
    assert found(tmp_path / "out") == list(range(N))
    until(lambda: len(broker.queue("q")) == 0, "settling")


# --- with RabbitMQ ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rabbitmq.Broker]:
    """A RabbitMQ broker."""
    need(rabbitmq.what_is_missing())
    certificates = make(tmp_path_factory.mktemp("certificates"))
    with rabbitmq.broker(tmp_path_factory.mktemp("rabbitmq"), certificates) as running:
        yield running


def test_rabbitmq(rabbit: rabbitmq.Broker, spark: SparkSession, tmp_path: Path) -> None:
    addresses = [rabbit.declare(name) for name in ("one", "two")]
    for number in range(200):
        rabbit.publish(("one", "two")[number % 2], b"%d" % number, message_id=str(number))
    more = {"address": ",".join(addresses), "user": "guest", "password": "guest", "receivers": "2"}
    job = Job(spark, rabbit.url, tmp_path, receiveOn="executors", maxRowsPerBatch="120", **more)
    job.run()
    assert job.numbers() == list(range(200))
    assert rabbit.depth("one") == rabbit.depth("two") == 0
    query = job.start()
    rabbit.publish("one", b"200", message_id="200")
    until(lambda: rows(query) == 1, "a row")
    query.stop()
    assert job.numbers() == list(range(201))
