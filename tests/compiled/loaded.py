"""A plugin of pytest's: the run counts only if the codec that it tested was the compiled one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

VARIABLE = "AMQPFORGE_COMPILED"
"""Names the modules that have to be loaded from extension modules, as JSON."""


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End with an error if a module was not loaded, or from its source."""
    names: list[str] = json.loads(os.environ[VARIABLE])
    wrong = [name for name in names if not is_compiled(name)]
    if wrong:
        raise pytest.UsageError(f"not loaded from an extension module: {', '.join(wrong)}")


def is_compiled(name: str) -> bool:
    """Whether a module is loaded, and from an extension module."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and Path(file).suffix in (".so", ".pyd")
