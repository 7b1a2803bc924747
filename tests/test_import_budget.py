"""What importing a package loads: the budget of import time is kept by keeping this short.

Times depend on the machine, so the modules that are loaded stand for them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [str(ROOT / folder) for folder in ("spec", "generator", "templates", "generated", "runtime")]

#: Standard library modules that cost milliseconds and that no codec needs.
HEAVY = {
    "argparse",
    "asyncio",
    "concurrent",
    "ctypes",
    "email",
    "hashlib",
    "http",
    "importlib.metadata",
    "json",
    "logging",
    "multiprocessing",
    "pathlib",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "tempfile",
    "typing_extensions",
    "unittest",
    "urllib",
    "xml",
}

PROBE = """
import sys
sys.path[:0] = {sources!r}
before = set(sys.modules)
import {module}
loaded = sorted(set(sys.modules) - before)
import json
json.dump(loaded, sys.stdout)
"""


@cache
def loaded_by(module: str) -> frozenset[str]:
    """The modules that importing ``module`` loads in a fresh interpreter without site-packages.

    The environment is not read, and neither are ``.pth`` files: what can be imported is the standard
    library and the project's own sources.
    """
    code = PROBE.format(sources=SOURCES, module=module)
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return frozenset(json.loads(ended.stdout))


def beyond_standard_library(modules: frozenset[str]) -> set[str]:
    """Those of ``modules`` that are not part of the standard library."""
    return {name for name in modules if name.partition(".")[0] not in sys.stdlib_module_names}


def test_the_protocol_package_loads_itself_and_the_standard_library() -> None:
    own = ("amqpforge_protocol.amqp_1_0", "amqpforge_protocol._support")
    loaded = beyond_standard_library(loaded_by("amqpforge_protocol.amqp_1_0"))
    assert own[0] in loaded
    assert {name for name in loaded if not name.startswith(own)} == {"amqpforge_protocol"}


@pytest.mark.parametrize("module", ["amqpforge_protocol.amqp_1_0", "amqpforge"])
def test_nothing_heavy_is_loaded(module: str) -> None:
    loaded = loaded_by(module)
    assert not {name for name in loaded if name in HEAVY or name.partition(".")[0] in HEAVY}


def test_the_engine_loads_no_other_dialect_than_1_0() -> None:
    loaded = beyond_standard_library(loaded_by("amqpforge"))
    allowed = ("amqpforge.", "amqpforge_protocol.amqp_1_0", "amqpforge_protocol._support")
    assert {name for name in loaded if not name.startswith(allowed)} <= {"amqpforge", "amqpforge_protocol"}


def test_a_broker_loads_its_store_when_it_has_one() -> None:
    loaded = loaded_by("amqpforge.broker.broker")
    assert "amqpforge.broker.amqp_1_0.service" in loaded
    assert not loaded & {"sqlite3", "tomllib", "argparse", "amqpforge.client", "amqpforge.blocking"}
    assert beyond_standard_library(loaded) == {
        name for name in loaded if name.partition(".")[0] in {"amqpforge", "amqpforge_protocol"}
    }


def test_the_commands_start_on_the_core_install() -> None:
    assert {name.partition(".")[0] for name in beyond_standard_library(loaded_by("amqpforge.cli"))} <= {
        "amqpforge",
        "amqpforge_protocol",
    }
