"""``format("amqpdying")``: the source, in a process that dies at a named point and takes its whole session
along.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pyspark_amqp
from tests.spark.source import child

__all__ = ["DefaultSource"]


class DefaultSource(pyspark_amqp.DefaultSource):
    """As the environment says it."""

    @classmethod
    def name(cls) -> str:
        return "amqpdying"

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        plan = json.loads(os.environ["AMQPFORGE_DYING"])
        child.prepare(str(self.options["spoolLocation"]), plan, child.kill_session)
        return super().streamReader(schema)
