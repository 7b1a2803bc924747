"""`format("amqp_capture")` as Spark runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from amqpforge_protocol.amqp_1_0 import Transfer, encode_frame
from tests.spark.capture.reading import FOLDER, rows, saved, talk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEADER = b"AMQP\x00\x01\x00\x00"


def test_a_folder_of_captures_is_a_table(spark: SparkSession) -> None:
    """The numbers of frames are those that tshark counted, capture by capture, direction by direction."""
    frames = (
        spark.read.format("amqp_capture")
        .option("sections", "false")
        .option("pathGlobFilter", "p10-*.pcapng")
        .load(str(FOLDER))
    )
    found: defaultdict[tuple[str, int, str], Counter[str]] = defaultdict(Counter)
    for row in (
        frames.where("kind != 'end'").groupBy("file", "stream", "direction", "name", "kind").count().collect()
    ):
        name = "protocol-header" if row.kind == "header" else row.name or row.kind
        found[Path(row.file).stem, row.stream, row.direction][name] += row["count"]
    for name, streams in json.loads((FOLDER / "performative-counts.json").read_text()).items():
        for stream in streams:
            for direction in ("c2s", "s2c"):
                seen = stream.get(direction, {})
                expected = Counter(seen.get("counts", {})) + Counter(seen.get("not_reached", {}))
                assert found.pop((name, stream["stream"], direction), Counter()) == expected
    assert not found


@pytest.mark.parametrize("dialect", ["amqp_1_0", "amqp_0_9_1"])
def test_spark_has_the_rows_that_the_tasks_made(dialect: str, spark: SparkSession) -> None:
    name = "p10-rhea-proton-multi" if dialect == "amqp_1_0" else "p091-pika-headers"
    path = FOLDER / f"{name}.pcapng"
    reader = spark.read.format("amqp_capture").option("dialect", dialect)
    found = [row.asDict(recursive=True) for row in reader.load(str(path)).where("kind != 'end'").collect()]
    assert [_comparable(row) for row in found] == [_comparable(row) for row in rows(path, dialect=dialect)]


def _comparable(value: Any) -> Any:
    """Spark gives times without a zone, maps as dicts and octets as bytearrays."""
    if isinstance(value, dict):
        return {
            key: _comparable(held) for key, held in value.items() if not isinstance(held, datetime | None)
        }
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, datetime):
        return None
    if isinstance(value, list):
        pairs = all(isinstance(one, tuple) and len(one) == 2 for one in value)
        return _comparable(dict(value)) if pairs else [_comparable(one) for one in value]
    return bytes(value) if isinstance(value, bytearray) else value


def test_several_paths_and_columns(spark: SparkSession, tmp_path: Path) -> None:
    message = b"\x00\x53\x77\xa1\x05hello"
    transfer = encode_frame(Transfer(handle=0, delivery_id=7, delivery_tag=b"t"), 3, message)  # type: ignore[arg-type]
    paths = [
        str(saved(tmp_path, talk(("c2s", HEADER), ("c2s", transfer)).packets, f"{name}.pcapng"))
        for name in "ab"
    ]
    frames = spark.read.format("amqp_capture").load(paths)
    chosen = frames.where("name = 'transfer'").orderBy("file")
    found = chosen.select("file", "channel", "transfer.delivery_id", "message.body_value.string").collect()
    assert [tuple(row) for row in found] == [(path, 3, 7, "hello") for path in paths]
    assert spark.read.format("amqp_capture").load(str(tmp_path / "[ab].pcapng")).count() == 8


def test_without_sections_there_is_no_column_for_messages(spark: SparkSession) -> None:
    reader = spark.read.format("amqp_capture").option("sections", "false")
    assert "message" not in reader.load(str(FOLDER)).columns


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("section", "true", "'section' is not known for amqp_capture"),
        ("sections", "perhaps", "'sections' is true or false"),
        ("dialect", "amqp_2_0", "'dialect' is amqp_0_10_preview or amqp_0_9_1"),
        ("captureFormat", "docx", "'captureFormat' is auto or pcap"),
        ("minPartitions", "0", "'minPartitions' is a whole number"),
        ("maxPartitionBytes", "many", "'maxPartitionBytes' is a number of octets"),
    ],
)
def test_options_are_checked(option: str, value: str, message: str, spark: SparkSession) -> None:
    with pytest.raises(Exception, match=message):
        spark.read.format("amqp_capture").option(option, value).load(str(FOLDER))


def test_a_path_that_names_nothing(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="names no file"):
        spark.read.format("amqp_capture").load(str(tmp_path / "*.pcap")).count()


def test_a_file_that_is_no_capture(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("these are notes")
    with pytest.raises(Exception, match=r"notes\.txt: not a capture.*pathGlobFilter"):
        spark.read.format("amqp_capture").load(str(tmp_path)).count()


def test_it_is_there_without_the_client() -> None:
    """Spark starts several processes for each load, which import it anew."""
    code = "import sys, pyspark_amqp_capture; sys.exit('amqpforge.client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
