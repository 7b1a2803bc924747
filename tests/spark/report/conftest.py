"""A report on a real conversation with errors, made once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_PATIENCE = 600


@pytest.fixture(scope="session")
def captures(data: Path) -> list[Path]:
    """Outcomes of all kinds, connections that ended with an error, a message that was delivered before."""
    names = ("p10-rmq-proton-outcomes", "p10-rmq-rhea-errors", "p10-proton-outcomes")
    return [data / "captures" / f"{name}.pcapng" for name in names]


@pytest.fixture(scope="session")
def reported(
    captures: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The page that ``amqpforge report`` made of them, and what the command said."""
    page = tmp_path_factory.mktemp("report") / "page.html"
    command = [sys.executable, "-m", "amqpforge", "report", *map(str, captures), "-o", str(page)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run(
        [*command, "--cores", "2", "--memory", "768m"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return page, ran
