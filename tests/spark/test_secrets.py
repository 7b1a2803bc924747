"""A password is in nothing that anybody can read: plans, the UI, logs, errors, events, spool, checkpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amqpforge.testing import ScriptedBroker

SECRET = "opensesame4711"
_PATIENCE = 300

PROGRAM = """
import json, sys, traceback
from pathlib import Path
from urllib.request import urlopen
from pyspark.sql import SparkSession

given = json.loads(sys.argv[1])
secret = sys.stdin.read()
folder = Path(given["folder"])
builder = SparkSession.builder.master("local[1]").config("spark.eventLog.enabled", "true")
for name, value in given["settings"].items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("INFO")
options = dict(url=given["url"], address="orders", user="pipeline", password=secret)

rows = spark.range(100).selectExpr("CAST(id AS STRING) AS body")
rows.write.format("amqp").options(**options).mode("append").save()
frame = spark.read.format("amqp").options(**options).load()
for mode in ("simple", "extended", "codegen", "cost", "formatted"):
    frame.explain(mode=mode)
print(frame._jdf.queryExecution().toString(), frame.count())
stream = spark.readStream.format("amqp").options(**options, spoolLocation=str(folder / "spool")).load()
stream.explain(extended=True)
query = (
    stream.selectExpr("body_value.string AS body").writeStream.format("amqp")
    .options(**options | {"address": "copies"}, checkpointLocation=str(folder / "checkpoint"))
    .trigger(availableNow=True).start()
)
query.awaitTermination()
query.explain(extended=True)
print(query.lastProgress.json)

rows.write.format("amqp").options(**options).mode("append").save()
rounds = spark.readStream.format("amqp").options(
    **options, receiveOn="executors", spoolLocation=str(folder / "spool-of-rounds")
).load()
query = (
    rounds.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint-of-rounds"))
    .trigger(availableNow=True).start(str(folder / "rows"))
)
query.awaitTermination()
print(query.lastProgress.json, spark.read.parquet(str(folder / "rows")).count())

def fails(what):
    try:
        what()
    except Exception:
        traceback.print_exc(file=sys.stdout)
    else:
        raise SystemExit("it did not fail")

def read(**more):
    return lambda: spark.read.format("amqp").options(**options | more).load().collect()

fails(read(adress="orders"))
fails(read(url=given["url"].replace("//", f"//pipeline:{secret}@")))
fails(read(url=given["url"].replace("//", f"//{secret}@")))
fails(read(passwordEnv="HOME"))
fails(read(password=secret + "x"))
fails(read(saslMechanisms="ANONYMOUS"))
fails(read(url="amqp://127.0.0.1:1", startTimeout="0.1"))
fails(read(address="absent"))
fails(lambda: rows.write.format("amqp").options(**options | {"address": "absent"}).mode("append").save())

base = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
plans = "sql?details=true&planDescription=true&length=1000"
for part in (plans, "environment", "stages?details=true", "jobs"):
    (folder / "ui").mkdir(exist_ok=True)
    (folder / "ui" / part.partition("?")[0]).write_bytes(urlopen(f"{base}/{part}", timeout=60).read())
spark.stop()
"""


@pytest.mark.spark
def test_a_password_is_nowhere(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    settings = {
        "spark.ui.port": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "768m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": str(events),
        "spark.local.dir": str(tmp_path / "local"),
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.sql.maxMetadataStringLength": "10000",
        "spark.sql.debug.maxToStringFields": "1000",
    }
    with ScriptedBroker.threaded(passwords={"pipeline": SECRET}) as broker:
        broker.declare_queue("orders")
        broker.declare_queue("copies")
        given = {"folder": str(tmp_path), "url": broker.url, "settings": settings}
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(given)],
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=tmp_path,
            input=SECRET,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
        assert ran.returncode == 0, (ran.stdout + ran.stderr)[-4000:].replace(SECRET, "<the password>")
        assert len(broker.queue("copies")) == 100
    places = {"output": ran.stdout.encode(), "log": ran.stderr.encode()}
    for path in tmp_path.rglob("*"):
        if path.is_file():
            places[str(path.relative_to(tmp_path))] = path.read_bytes()
    # Each kind of place was looked into, and has something to be found.
    kinds = {name.partition("/")[0] for name in places}
    assert kinds >= {"output", "log", "events", "spool", "checkpoint", "ui", "rows"}
    assert kinds >= {"spool-of-rounds", "checkpoint-of-rounds"}
    assert all(
        any(b"amqp" in places[name] for name in places if name.startswith(kind))
        for kind in ("output", "log", "events", "ui")
    )
    assert "refused the credentials" in ran.stdout
    assert not [name for name, octets in places.items() if SECRET.encode() in octets]
