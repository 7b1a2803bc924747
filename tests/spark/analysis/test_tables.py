"""The tables, as Spark makes them of real conversations."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from amqpforge.spark import analysis
from tests.engine.observing import a_transfer
from tests.spark.analysis.observing import conversation
from tests.spark.analysis.observing import observations as local
from tests.spark.analysis.test_planted import client, over, ready
from tests.spark.capture.reading import FOLDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> DataFrame:
    reader = spark.read.format("amqp_capture").option("pathGlobFilter", "p10-*.pcapng")
    return analysis.digest(reader.load(str(FOLDER))).cache()


@pytest.fixture(scope="module")
def methods(spark: SparkSession) -> DataFrame:
    reader = spark.read.format("amqp_capture").option("pathGlobFilter", "p091-*.pcapng")
    return reader.option("dialect", "amqp_0_9_1").load(str(FOLDER))


@pytest.fixture(scope="module")
def observations(frames: DataFrame) -> DataFrame:
    return analysis.observe(frames).cache()


def of(table: DataFrame, name: str) -> DataFrame:
    return table.where(f"file like '%/{name}.pcapng'")


def test_outcomes(observations: DataFrame) -> None:
    found = of(analysis.deliveries(observations), "p10-rhea-outcomes").groupBy("outcome").count().collect()
    assert {row.outcome: row["count"] for row in found} == {
        "accepted": 2,
        "rejected": 1,
        "released": 2,
        "modified": 2,
    }


def test_links_tell_what_went_through_them(observations: DataFrame) -> None:
    (row,) = of(analysis.links(observations), "p10-proton-many-small").where("sender = 'client'").collect()
    assert (row.deliveries, row.unsettled, row.outcomes) == (1000, 0, {"accepted": 1000})
    assert row.seconds > 0
    assert row.deliveries_per_second == pytest.approx(1000 / row.seconds)
    (session,) = of(analysis.sessions(observations), "p10-proton-many-small").collect()
    assert (session.client_transfers, session.server_transfers) == (1000, 1000)
    (most,) = (
        of(analysis.unsettled(observations), "p10-proton-many-small").where("sender = 'client'").collect()
    )
    assert 1 <= most.most_unsettled <= 1000


def test_throughput_adds_up(observations: DataFrame) -> None:
    table = of(analysis.throughput(observations, "10 milliseconds"), "p10-proton-many-small")
    parts = table.where("sender = 'client'").collect()
    assert sum(row.deliveries for row in parts) == 1000
    assert len(parts) > 1


def test_latency(observations: DataFrame) -> None:
    rows = of(analysis.latency(observations), "p10-proton-many-small").where("sender = 'client'").collect()
    (row,) = rows
    assert row.deliveries == 1000
    assert 0 < row.p50 <= row["p99"] <= row.most
    assert 0 < row["mean"] <= row.most


def test_credit_and_starvation(observations: DataFrame) -> None:
    assert of(analysis.credit(observations), "p10-proton-many-small").where("credit > 0").count() > 0
    assert of(analysis.starvation(observations), "p10-proton-many-small").where("seconds >= 0").count() > 0


def test_violations_are_those_of_check(observations: DataFrame) -> None:
    found = of(analysis.violations(observations), "p10-rhea-transfer-before-attach").collect()
    assert {(row.stream, row.end, row.rule, row.frame) for row in found} == {
        (0, "server", "unattached-handle", 25),
        (0, "client", "close", 25),
    }
    assert of(analysis.violations(observations), "p10-proton-many-small").count() == 0


def test_every_connection_is_there_once(frames: DataFrame, observations: DataFrame) -> None:
    streams = frames.where("kind in ('amqp', 'sasl', 'header')").select("file", "stream").distinct().count()
    assert analysis.connections(observations).count() == streams
    assert analysis.connections(observations).select("file", "stream").distinct().count() == streams


def test_errors_by_condition(frames: DataFrame) -> None:
    own = of(frames, "p10-rmq-proton-attach-errors")
    rows = analysis.errors_by_condition(own).collect()
    assert rows
    assert all(row.name in ("close", "end", "detach") and row.condition.startswith("amqp:") for row in rows)
    assert sum(row["count"] for row in rows) == own.where("fields like '%\"error\":{%'").count()
    for row in rows:
        (first,) = (
            own.where(f"stream = {row.stream} and packet = {row.packet}")
            .where(f"condition = '{row.condition}'")
            .select("time", "description")
            .collect()
        )
        assert (first.time, first.description) == (row.first, row.description)


def test_failed_authentication_is_an_error_and_success_is_none(frames: DataFrame) -> None:
    rows = analysis.errors(frames).where("name = 'sasl-outcome'").collect()
    assert {(Path(row.file).stem, row.condition) for row in rows} == {
        (f"p10-{name}", "auth")
        for name in (
            "proton-rhea-badauth",
            "rhea-no-sasl-auth-fail",
            "rmq-proton-badauth",
            "rmq-rhea-badauth",
        )
    }


def test_errors_of_methods(methods: DataFrame) -> None:
    """What closes say when all is well is no error."""
    rows = analysis.errors_by_condition(methods).collect()
    counts = {(row.name, row.condition): row["count"] for row in rows}
    assert counts["basic.return", "312"] == 6
    assert counts["channel.close", "404"] == 2
    assert {condition for name, condition in counts if name == "connection.close"} == {"403", "503", "530"}
    assert analysis.digest(methods).where("redelivered").count() == (
        methods.where("basic_deliver.redelivered or basic_get_ok.redelivered").count()
    )
    with pytest.raises(ValueError, match=r"no frames of AMQP 1\.0, the columns open, begin, .* are missing"):
        analysis.observe(methods)


def test_redeliveries(spark: SparkSession, observations: DataFrame) -> None:
    reader = spark.read.format("amqp_capture").option("pathGlobFilter", "p10-*-outcomes.pcapng")
    wide = reader.load(str(FOLDER))
    again = wide.where("message.header.delivery_count > 0 or transfer.resume")
    expected = {
        (row.file, row.packet, row.offset, row.message.header.delivery_count) for row in again.collect()
    }
    rows = analysis.redeliveries(observations).where("file like '%-outcomes.pcapng'").collect()
    assert {(row.file, row.packet, row.offset, row.delivery_count) for row in rows} == expected
    assert expected
    assert all(row.link for row in rows)


def test_a_digest_does_for_frames(spark: SparkSession, observations: DataFrame) -> None:
    """In a digest that Spark made is what the frames themselves have: nulls, octets and all."""
    for name in ("p10-proton-transaction", "p10-proton-rich-attach", "p10-rhea-outcomes", "p10-proton-drain"):
        columns = observations.columns
        own = [row.asDict(recursive=True) for row in of(observations, name).collect()]
        found: list[dict[str, Any]] = [
            {column: row.get(column) for column in columns} for row in local(FOLDER / f"{name}.pcapng")
        ]
        assert len(own) == len(found)
        for kind in {str(row["kind"]) for row in found}:
            fields = [
                sorted(_comparable(row[kind]) for row in rows if row["kind"] == kind) for rows in (own, found)
            ]
            assert fields[0] == fields[1]
    digest = analysis.digest(spark.read.format("amqp_capture").load(str(FOLDER / "p10-proton-drain.pcapng")))
    assert analysis.digest(digest) is digest


def _comparable(fields: Any) -> str:
    """Without times, which Python's rows have in the machine's zone; maps in one order."""
    plain = {key: value for key, value in fields.items() if not isinstance(value, datetime)}
    if plain.get("outcomes") is not None:
        plain["outcomes"] = sorted(dict(plain["outcomes"]).items())
    return repr(
        {key: bytes(value) if isinstance(value, bytearray) else value for key, value in plain.items()}
    )


def test_a_planted_violation(spark: SparkSession, tmp_path: Path) -> None:
    path = conversation(tmp_path, *ready(1), *client(a_transfer(0), a_transfer(1)), *over())
    frames = spark.read.format("amqp_capture").load(str(path))
    (row,) = analysis.violations(analysis.observe(frames)).collect()
    assert (row.end, row.rule, row["name"]) == ("client", "link-credit", "transfer")
    culprit = frames.where(
        f"packet = {row.packet} and direction = '{row.direction}' and offset = {row.offset}"
    )
    assert [found.transfer.delivery_id for found in culprit.collect()] == [1]


def test_what_is_not_frames_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match=r"the columns file, stream, .* are missing"):
        analysis.observe(spark.range(1))
    with pytest.raises(ValueError, match=r"make them with observe"):
        analysis.links(spark.range(1))
    with pytest.raises(ValueError, match=r"the columns file, stream, .* are missing"):
        analysis.digest(spark.range(1))
