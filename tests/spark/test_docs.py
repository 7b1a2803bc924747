"""The pages about Spark say what happens: their programs are run as they stand, but for where things are."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import amqpforge
from amqpforge.blocking import connect
from amqpforge.spark.capture import options as capture_options
from amqpforge.spark.sink import options as sink_options
from amqpforge.spark.source import options as source_options
from amqpforge.testing import ScriptedBroker, ThreadedBroker

from .source.scene import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path.name for path in DOCS.glob("spark*.md"))
PASSWORD = "what the files hold"
USERS = {"pipeline": PASSWORD, "spark": PASSWORD}


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def programs(name: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page(name), re.DOTALL | re.MULTILINE)


@dataclass
class Stage:
    """What the programs of a page find: a session, and their places, which are ours here."""

    spark: SparkSession
    folder: Path
    names: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)

    def run(self, program: str) -> None:
        """Run a program of a page, with what those before it have left.

        Each of our places has to be in some program, or the page has changed.
        """
        for theirs, ours in self.places.items():
            program = program.replace(f'"{theirs}', f'"{ours}')
        assert "broker.example" not in program
        assert not re.search(r'"/(?!tmp/)', program.replace(str(self.folder), "/tmp/"))
        exec(program, self.names)  # noqa: S102 (it is what the page says)


@pytest.fixture
def stage(spark: SparkSession, tmp_path: Path) -> Iterator[Stage]:
    """The session is that of all tests: what begins one of its own gets it too."""
    made = Stage(spark, tmp_path, {"spark": spark})
    made.places["/shared"] = str(tmp_path)
    for theirs in ("/run/secrets/broker", "/run/secrets/amqp"):
        made.places[theirs] = str(tmp_path / "password")
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    yield made
    for query in spark.streams.active:
        query.stop()


def bodies(broker: ThreadedBroker, address: str, count: int) -> list[amqpforge.Message]:
    """Takes so many messages from a queue."""
    with connect(broker.url) as connection, connection.receiver(address) as receiver:
        return [receiver.receive(timeout=30).message for _ in range(count)]


def sent(broker: ThreadedBroker, *messages: object, user: str | None = None) -> None:
    """Puts messages into the queue ``orders``."""
    password = None if user is None else USERS[user]
    with connect(broker.url, username=user, password=password) as connection:
        connection.sender("orders").send_many(messages)


# --- reading ---


def test_the_first_try(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the messages that the console sends, and a session that runs already."""
    program, *_ = programs("spark.md")
    printed = re.search(r"^prints\n\n```text\n(.*?)^```$", page("spark.md"), re.DOTALL | re.MULTILINE)
    sends = re.search(r"^\$ amqpforge send amqp://localhost orders (.+)$", page("spark.md"), re.MULTILINE)
    assert printed is not None
    assert sends is not None
    monkeypatch.setattr(
        "amqpforge.spark.session.local_session", lambda name: contextlib.nullcontext(stage.spark)
    )
    with ScriptedBroker.threaded() as broker:
        broker.declare_queue("orders")
        sent(broker, *re.findall(r'"(.*?)"', sends[1]))
        stage.places["amqp://localhost"] = broker.url
        stage.run(program)
        assert len(broker.queue("orders")) == 2
    assert capsys.readouterr().out.strip() == printed[1].strip()


def test_a_stream_into_files(stage: Stage) -> None:
    _, program = programs("spark.md")
    with ScriptedBroker.threaded(passwords=USERS) as broker:
        broker.declare_queue("orders")
        texts = [f"order {number}" for number in range(100)]
        messages = [amqpforge.Message(text.encode(), message_id=text) for text in texts]
        sent(broker, *messages, user="pipeline")
        stage.places["amqps://broker.example"] = broker.url
        stage.run(program)
        query = stage.names["query"]
        until(lambda: query.exception() or not len(broker.queue("orders")), "taking all messages")
        query.processAllAvailable()
        query.stop()
    rows = stage.spark.read.parquet(str(stage.folder / "orders")).collect()
    assert sorted((row.id, row.text) for row in rows) == sorted((text, text) for text in texts)
    assert all(row.received_at is not None for row in rows)


# --- writing ---


def test_a_batch_that_is_written(stage: Stage) -> None:
    batch, _ = programs("spark-sink.md")
    stage.names["orders"] = stage.spark.createDataFrame([(7, "tea"), (8, "mate")], "id long, what string")
    with ScriptedBroker.threaded(passwords=USERS) as broker:
        broker.declare_queue("orders")
        stage.places["amqps://broker.example"] = broker.url
        stage.run(batch)
        with connect(broker.url, username="spark", password=PASSWORD) as connection:
            receiver = connection.receiver("orders")
            found = [receiver.receive(timeout=30).message for _ in range(2)]
    assert sorted(str(one.body) for one in found) == ['{"id":7,"what":"tea"}', '{"id":8,"what":"mate"}']
    assert {(one.subject, one.durable) for one in found} == {("order", True)}


def test_a_stream_that_is_written(stage: Stage) -> None:
    _, stream = programs("spark-sink.md")
    source = stage.folder / "source"
    stage.spark.range(50).selectExpr("CAST(id AS STRING) AS body").write.parquet(str(source))
    stage.names["events"] = stage.spark.readStream.schema("body string").parquet(str(source))
    stage.places["/checkpoints"] = str(stage.folder)
    with ScriptedBroker.threaded() as broker:
        broker.declare_queue("events")
        stage.places["amqp://broker.example"] = broker.url
        stage.run(stream)
        stage.names["query"].processAllAvailable()
        stage.names["query"].stop()
        assert sorted(int(str(one.body)) for one in bodies(broker, "events", 50)) == list(range(50))
    assert (stage.folder / "events" / "commits" / "0").exists()


# --- captures ---


def test_captures(stage: Stage, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = programs("spark-captures.md")
    captures = stage.folder / "captures"
    captures.mkdir()
    shutil.copy(data / "captures" / "p10-rmq-rhea-simple-small.pcapng", captures)
    stage.places["captures/"] = f"{captures}/"
    stage.run(program)
    shown = capsys.readouterr().out
    assert re.findall(r"^\|(\S.*?) *\|", shown, re.MULTILINE)  # Rows of a table that was shown.
    stage.names["observations"].unpersist()


# --- on a cluster ---


def commands(name: str) -> list[list[str]]:
    """What the consoles of a page are given, as words."""
    blocks: list[str] = re.findall(r"^ *```console\n(.*?)^ *```$", page(name), re.DOTALL | re.MULTILINE)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [line.removeprefix("$ ").split() for line in lines if line.startswith("$ ")]


@pytest.mark.spark
def test_the_commands_of_a_cluster_are_there() -> None:
    """Those that start daemons are run by the tests of clusters."""
    found = commands("spark-cluster.md")
    home = next(words for words in found if words[1].startswith("SPARK_HOME="))
    line = " ".join(home).replace("python", sys.executable)
    shown = subprocess.run(
        ["sh", "-c", f"{line} && echo $SPARK_HOME"], capture_output=True, text=True, check=True, timeout=60
    )
    assert os.access(Path(shown.stdout.strip(), "bin", "spark-class"), os.X_OK)

    submits = [words for words in found if "spark-submit" in words]
    assert len(submits) == 2
    submit = Path(shown.stdout.strip(), "bin", "spark-submit")
    helped = subprocess.run([submit, "--help"], capture_output=True, text=True, check=False, timeout=120)
    known = set(re.findall(r"(--[a-z-]+)", helped.stderr + helped.stdout))
    assert {word for words in submits for word in words if word.startswith("--")} <= known
    assert {"--archives", "--master"} <= known


# --- tables ---


def first_cells(name: str, heading: str) -> set[str]:
    """The words in the first column of the table that begins with a heading."""
    table = page(name).partition(f"\n{heading}\n")[2].partition("\n\n")[0]
    cells = (row.split("|")[1] for row in table.splitlines() if row.startswith("|"))
    return {word for cell in cells for word in re.findall(r"`(\w+)`", cell)}


def test_all_options_of_reading_are_explained() -> None:
    known = {*source_options.STREAM_OPTIONS, *source_options.BATCH_OPTIONS}
    assert first_cells("spark.md", "| option | | without it |") == known


def test_all_options_of_writing_are_explained() -> None:
    known = {*sink_options.STREAM_OPTIONS, *sink_options.BATCH_OPTIONS} - {"checkpointLocation"}
    text = page("spark-sink.md").partition("## Options")[2]
    shared = set(re.findall(r"`(\w+)`", text.partition("An option")[0]))
    own = first_cells("spark-sink.md", "| Option | Default | Meaning |")
    assert shared | own == known
    assert not shared & own


def test_all_options_of_captures_are_explained() -> None:
    known = set(capture_options.OPTIONS) - {"path", "paths"}
    assert first_cells("spark-captures.md", "| option | | default |") == known


def test_all_functions_of_the_analysis_are_explained() -> None:
    from amqpforge.spark import analysis

    section = page("spark-captures.md").partition("## Analysis")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(\w+)[`(]", section)) >= set(analysis.__all__)


def test_all_columns_of_frames_are_explained() -> None:
    from amqpforge.spark.capture.rows import Wanted, schema

    columns = schema(Wanted("amqp_1_0", sections=True)).names
    explained = first_cells("spark-captures.md", "| column | |")
    first, last = columns.index("open"), columns.index("message")
    assert explained - {"open", "begin", "basic_publish"} == {*columns[:first], *columns[last:]}


@pytest.mark.parametrize("name", [*PAGES, "report.md", "README.md"])
def test_links_lead_somewhere(name: str) -> None:
    links = re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", page(name))
    assert not [link for link, _ in links if not (DOCS / link).exists()]
    for link, anchor in links:
        headings = re.findall(r"^#+ (.+)$", page(link or name), re.MULTILINE) if anchor else []
        known = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
        assert not anchor or anchor in known


def test_the_list_of_guides_is_complete() -> None:
    linked = set(re.findall(r"\]\(([^)#:]+)\)", page("README.md")))
    assert linked >= {path.name for path in DOCS.glob("*.md")} - {"README.md"}


def test_no_program_is_left_out() -> None:
    counts = {name: len(programs(name)) for name in PAGES}
    assert counts == {
        "spark-captures.md": 1,
        "spark-cluster.md": 0,
        "spark-sink.md": 2,
        "spark-types.md": 0,
        "spark.md": 2,
    }
