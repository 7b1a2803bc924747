"""A Spark program that runs a stream to its end, or dies with all its processes; and what starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

from tests.spark.source.child import Death, kill_others, kill_session

__all__ = ["AFTER_SINK", "run"]

AFTER_SINK = "between sink commit and checkpoint"
_PATIENCE = 180


def run(options: dict[str, str], folder: Path, **plan: Any) -> int:
    """Run the program; returns its exit code.

    Args:
        options: those of a stream.
        folder: where it puts a folder ``batch=N`` for each batch, and its checkpoint.
        plan: that of :func:`tests.spark.source.child.run`; ``die`` may be :data:`AFTER_SINK` too.
    """
    here = Path(__file__).parent
    path = [str(here / "dying"), *filter(None, sys.path)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path),
        "PYSPARK_PYTHON": sys.executable,
        "AMQPFORGE_DYING": json.dumps(plan),
    }
    command = [sys.executable, __file__, json.dumps(options), str(folder)]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=errors
        )
        try:
            code = process.wait(_PATIENCE)
        finally:
            kill_others(process.pid)  # Spark's processes outlive the program for a moment, or for good.
            process.wait()
        if code > 0:
            errors.seek(0)
            sys.stderr.write(errors.read().decode()[-4000:])
    return code


def main() -> None:
    """Run a stream until there is no more."""
    from pyspark.sql import SparkSession

    options, folder = json.loads(sys.argv[1]), Path(sys.argv[2])
    plan = json.loads(os.environ["AMQPFORGE_DYING"])
    death = Death(plan.get("die"), plan.get("count", 1), kill_session)
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", str(folder / "local"))
        .getOrCreate()
    )

    def keep(frame: DataFrame, number: int) -> None:
        frame.write.mode("overwrite").parquet(str(folder / f"batch={number}"))
        death.meet(AFTER_SINK)

    query = (
        spark.readStream.format("amqpdying")
        .options(**options)
        .load()
        .select("body")
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
