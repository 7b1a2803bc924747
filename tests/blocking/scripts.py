"""Python programs as processes of their own, that are strict about what is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass

__all__ = ["Ended", "run"]

_PATIENCE = 30.0


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it said."""

    code: int
    output: str
    complaints: str


def run(program: str, *arguments: str, env: dict[str, str] | None = None) -> Ended:
    """Run a program with all warnings as errors, in the development mode of the interpreter."""
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **(env or {})},
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)
