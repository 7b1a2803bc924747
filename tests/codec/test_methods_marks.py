"""What tells the dialects apart before any of them is loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import amqpforge_protocol
from amqpforge_protocol import _dialects

FACTS = {
    "amqp_0_9_1": ("AMQP 0-9-1", "class-method", ("00000901",)),
    "amqp_0_10_preview": ("AMQP 0-10 preview", "class-method", ("01016300",)),
    "amqp_1_0": ("AMQP 1.0", "amqp-1.0", ("00010000", "02010000", "03010000")),
    "amqp_1_0_draft": ("AMQP 1.0 draft", "control-command", ("010000",)),
}


@pytest.mark.parametrize("name", FACTS)
def test_name_grammar_and_protocol_headers(name: str) -> None:
    mark = import_module(f"amqpforge_protocol._dialects.{name}")
    title, grammar, headers = FACTS[name]
    assert (title, grammar) == (mark.NAME, mark.GRAMMAR)
    assert tuple(b"AMQP" + bytes.fromhex(header) for header in headers) == mark.PROTOCOL_HEADERS


def test_every_dialect_has_one() -> None:
    assert {module.name for module in iter_modules(_dialects.__path__)} == set(FACTS)
    packages = {
        module.name
        for module in iter_modules(amqpforge_protocol.__path__)
        if module.ispkg and not module.name.startswith("_")
    }
    assert packages == set(FACTS)


@pytest.mark.parametrize("name", ["amqp_0_9_1", "amqp_0_10_preview"])
def test_the_header_that_a_client_sends_begins_with_it(name: str) -> None:
    mark, dialect = (
        import_module(f"amqpforge_protocol._dialects.{name}"),
        import_module(f"amqpforge_protocol.{name}"),
    )
    assert dialect.PROTOCOL_HEADER.startswith(mark.PROTOCOL_HEADERS)


def test_to_ask_them_loads_no_dialect() -> None:
    code = (
        f"import json, sys\nfor name in {list(FACTS)}: __import__('amqpforge_protocol._dialects.' + name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code + "json.dump(sorted(sys.modules), sys.stdout)"],
        env={**os.environ, "PYTHONPATH": str(Path(amqpforge_protocol.__path__[0]).parent)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = {name for name in json.loads(done.stdout) if name.startswith("amqpforge_protocol")}
    own = {f"amqpforge_protocol._dialects.{name}" for name in FACTS}
    assert loaded == {"amqpforge_protocol", "amqpforge_protocol._dialects"} | own
