"""Runs of pytest with the plugin of this package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_pytest(folder: Path, source: str, *options: str) -> str:
    """Run tests in a process of their own with this plugin alone, whether it is installed or not."""
    (folder / "test_it.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "amqpforge.pytest_plugin", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, "--strict-markers", "-W", "error", *options],
        cwd=folder,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return run.stdout + run.stderr
