"""A worker: takes one job after the other from standard input, a line of JSON each, and answers likewise.

Run as ``python -m benchmarks.spark.worker CORES [PROCESSOR]``: a session of Spark with so many cores, or with
0, what takes no session; on one processor alone if it is named, counted from 0. It begins by telling what it
is, ``{"label": name and version, "seconds": what its start took}``, or ``{"missing": reason}``. A job is
``{"role": name, ...arguments}``; the answer is what the role returns, or ``{"error": text}``. It ends when
standard input does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Any

from benchmarks.spark.usage import confined

Role = Callable[..., dict[str, Any]]

# As Spark sets a session up; that of our commands is made for short work.
_SETTINGS = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.driver.extraJavaOptions": "-XX:+TieredCompilation",
}


def _say(content: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def _work(roles: Mapping[str, Role]) -> None:
    """Do jobs until standard input ends."""
    for line in sys.stdin:
        job = json.loads(line)
        try:
            result = roles[job.pop("role")](**job)
        except Exception as error:  # whatever goes wrong is the answer, and the next job goes on
            result = {"error": f"{type(error).__name__}: {error}"}
        _say(result)


def _without_session() -> None:
    from benchmarks.spark import client, decoding, receiving

    roles: dict[str, Role] = {
        "send": client.send,
        "send orders": client.send_orders,
        "take": client.take,
        "receive": receiving.receive,
        "record spool": receiving.record_spool,
        "columns": _columns,
        "plan": decoding.plan,
        "decode": decoding.decode,
        "record": decoding.record,
        "count names": decoding.count_names,
    }
    _say({"label": "amqpforge", "seconds": 0.0})
    _work(roles)


def _columns(count: int, rounds: int) -> dict[str, Any]:
    """Rows a second of each call, round by round."""
    from benchmarks.spark.columns import Columns

    columns = Columns(count)
    found = [columns.measure() for _ in range(rounds)]
    return {name: [count / one[name] for one in found] for name in columns.calls}


def _in_session(cores: int) -> None:
    begin = perf_counter()
    from amqpforge.spark.session import local_session

    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))  # for the tasks
    with local_session("amqpforge benchmark", cores=cores, settings=_SETTINGS) as spark:
        from benchmarks.spark import jobs

        _say({"label": f"Spark {spark.version}, local[{cores}]", "seconds": perf_counter() - begin})
        roles = (jobs.capture, jobs.check_capture, jobs.hand_over, jobs.spooled, jobs.stream, jobs.write)
        _work({role.__name__: partial(role, spark) for role in roles})


def main(cores: int, processor: int | None = None) -> None:
    """Work until standard input ends."""
    from amqpforge.errors import LocalError

    # Whoever closes standard input sends this as well: the session should have the time to end in order.
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with confined(None if processor is None else 1, processor or 0):
            if cores:
                _in_session(cores)
            else:
                _without_session()
    except (ImportError, LocalError) as error:
        _say({"missing": str(error)})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
