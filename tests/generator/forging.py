"""The generator's command in tests: in this process with captured streams, or in a process of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from amqpforge_generator.cli import main

GOLDEN = Path(__file__).parent / "golden"
SPEC = GOLDEN / "spec"
PLAIN = GOLDEN / "plain"
GO = GOLDEN / "go"

SMALL = """\
<amqp xmlns="http://www.amqp.org/schema/amqp.xsd" name="small" label="A few types">
  <section name="types" label="Types">
    <type name="uint" class="primitive" label="a number">
      <encoding code="0x70" category="fixed" width="4" label="four octets"/>
    </type>
    <type name="handle" class="restricted" source="uint" label="a number of a link"/>
  </section>
</amqp>
"""

TARGET = """\
name = "tiny"
output = "out"

[[render]]
template = "type.txt.j2"
each = "type"
path = "{dialect}/{type}.txt"
"""


@dataclass(frozen=True, slots=True)
class Result:
    """What a run of the command left behind."""

    code: int
    out: str
    err: str


def run(*arguments: str | Path) -> Result:
    """Run the command in this process."""
    out, err = io.StringIO(), io.StringIO()
    code = main([str(argument) for argument in arguments], out, err)
    return Result(code, out.getvalue(), err.getvalue())


def run_process(*arguments: str | Path, cwd: Path, **variables: str) -> Result:
    """Run ``python -m amqpforge_generator`` in the folder ``cwd``, with further environment variables."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables}
    done = subprocess.run(
        [sys.executable, "-m", "amqpforge_generator", *map(str, arguments)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def tree(folder: Path, *, manifests: bool = False) -> dict[str, bytes]:
    """All files below ``folder`` by relative path; manifests, which know the generator, only on demand."""
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and (manifests or not file.name.startswith("."))
    }


@dataclass(frozen=True, slots=True)
class Workshop:
    """A folder with a small definition (``spec/small/small.xml``), a ``target`` and an output root."""

    folder: Path

    @property
    def spec(self) -> Path:
        return self.folder / "spec"

    @property
    def target(self) -> Path:
        return self.folder / "target"

    @property
    def out(self) -> Path:
        """The output root of the target."""
        return self.folder / "out"

    @property
    def definition(self) -> Path:
        return self.spec / "small" / "small.xml"

    def run(self, *arguments: str | Path) -> Result:
        """Run the command on this spec and target."""
        return run("--spec", self.spec, "--templates", self.target, "--out", self.folder, *arguments)


def make_workshop(folder: Path, target: str = TARGET, **templates: str) -> Workshop:
    """A workshop whose target has this ``target.toml`` and templates (``type_txt`` is ``type.txt.j2``)."""
    workshop = Workshop(folder)
    workshop.definition.parent.mkdir(parents=True)
    workshop.definition.write_text(SMALL, encoding="utf-8")
    workshop.target.mkdir()
    (workshop.target / "target.toml").write_text(target, encoding="utf-8")
    for name, text in (templates or {"type_txt": "{{ type | class_name }}\n"}).items():
        (workshop.target / f"{name.replace('_', '.')}.j2").write_text(text, encoding="utf-8")
    return workshop
