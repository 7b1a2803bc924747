"""What captured AMQP traffic tells: DataFrame in, DataFrame out.

`digest` puts frames into few columns, to be kept while they are looked at; `observe` follows each connection
with the engine's own tables, once; the other functions make tables of what it has found, or of the frames.
``docs/spark-captures.md`` is the guide.
"""

from __future__ import annotations

from .digest import digest, structs
from .observing import observe
from .tables import (
    connections,
    credit,
    deliveries,
    errors,
    errors_by_condition,
    latency,
    links,
    owed,
    redeliveries,
    sessions,
    starvation,
    throughput,
    unknown,
    unsettled,
    violations,
    window_stalls,
)

__all__ = [
    "connections",
    "credit",
    "deliveries",
    "digest",
    "errors",
    "errors_by_condition",
    "latency",
    "links",
    "observe",
    "owed",
    "redeliveries",
    "sessions",
    "starvation",
    "structs",
    "throughput",
    "unknown",
    "unsettled",
    "violations",
    "window_stalls",
]
