"""A worker in Python: takes one job after the other from standard input, a line of JSON each.

It begins by telling what it is: ``{"label": name and version, "roles": [...]}``, or ``{"missing": reason}``
if its library is not installed. It answers a job with what its role returns, or ``{"error": text}``
if that raises; a role that listens tells its port before. Run as
``python -m benchmarks.messaging.worker STACK``.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

from benchmarks.messaging.work import Job


def _say(content: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def main(stack: str) -> None:
    """Work until standard input ends."""
    try:
        library = import_module(f"benchmarks.messaging.{stack}")
    except ImportError as error:
        _say({"missing": str(error)})
        return
    _say({"label": library.LABEL, "roles": sorted(library.ROLES)})
    for line in sys.stdin:
        job = Job(**json.loads(line))
        try:
            result = library.ROLES[job.role](job, _say)
        except Exception as error:  # whatever a stack raises is the answer, and the next job goes on
            result = {"error": f"{type(error).__name__}: {error}"}
        _say(result)


if __name__ == "__main__":
    main(sys.argv[1])
