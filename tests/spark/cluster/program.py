"""What runs on a cluster in the tests: a program, which is given all that it needs as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Read a capture, write messages, take them back as a stream; tell where all of it ran."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    folder = Path(given["folder"])
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("cluster")
    for name, value in given["settings"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    told: dict[str, Any] = {}
    # Two tasks at the same time, so that each executor has one.
    both = spark.sparkContext.parallelize(range(2), 2).barrier()
    told["places"] = both.mapPartitions(lambda _: [_place()]).collect()
    told["driver"] = _place()
    frames = spark.read.format("amqp_capture").load(given["capture"]).where("kind != 'end'")
    told["frames"] = frames.count()
    target = {"url": given["url"], "address": "q"}
    rows = spark.range(0, given["rows"], 1, 4).selectExpr("cast(id as string) as body")
    rows.write.format("amqp").options(**target).mode("append").save()
    query = (
        spark.readStream.format("amqp")
        .options(**target, **given["stream"], spoolLocation=str(folder / "spool"))
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "rows"))
    )
    query.awaitTermination()
    bodies = spark.read.parquet(str(folder / "rows")).select("body_value.string").collect()
    told["bodies"] = sorted(int(row["string"]) for row in bodies)
    spark.stop()
    sys.stdout.write(f"{json.dumps(told)}\n")


def _place() -> tuple[str, str, bool]:
    """Of this process: its folder, where its package is, whether it sees a variable of the driver."""
    import os

    import amqpforge

    return os.getcwd(), str(amqpforge.__file__), "AMQPFORGE_DRIVER" in os.environ


if __name__ == "__main__":
    main()
