"""``format("amqpdying")``: the source, in a process that dies at a named point and takes its whole session
along; or with tasks of which one dies at such a point.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyspark_amqp
from amqpforge.spark.source.record import Record
from amqpforge.spark.source.rounds import AmqpRoundReader
from tests.spark.source import child

__all__ = ["DefaultSource", "DyingRounds"]


class DefaultSource(pyspark_amqp.DefaultSource):
    """As the environment says it."""

    @classmethod
    def name(cls) -> str:
        return "amqpdying"

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        plan = json.loads(os.environ["AMQPFORGE_DYING"])
        made = super().streamReader(schema)
        if isinstance(made, AmqpRoundReader):
            return DyingRounds(made._options)
        child.prepare(str(self.options["spoolLocation"]), plan, child.kill_session)
        return made


class DyingRounds(AmqpRoundReader):
    """One of its tasks dies, alone or with the whole session (``alone`` in the plan), and only once."""

    def read(self, partition: Any) -> Iterator[Any]:
        plan = json.loads(os.environ["AMQPFORGE_DYING"])
        if "die" in plan:
            _prepare(partition.location, partition.name)
        return super().read(partition)


@cache
def _prepare(location: str, name: str) -> None:
    plan = json.loads(os.environ["AMQPFORGE_DYING"])

    def kill() -> None:
        try:
            Path(f"{location}.dead").touch(exist_ok=False)
        except FileExistsError:
            return
        if plan.get("alone"):
            os.kill(os.getpid(), signal.SIGKILL)
        child.kill_session()

    child.prepare(name, plan, kill)
    death = child.Death(plan["die"], plan.get("count", 1), kill)
    save = Record.save

    def dying_save(self: Record, spool: Any) -> None:
        death.meet("before record")
        save(self, spool)
        death.meet("after record")

    Record.save = dying_save  # type: ignore[method-assign]
