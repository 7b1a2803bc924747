"""Compile the codec modules with mypyc, as they are, and run the vectors through the result.

    python -m tests.compiled [--keep FOLDER] [--no-speed]

Works on a copy of the generated package; nothing in the tree changes. Left interpreted are the modules whose
classes derive from ``int`` and ``str``, which compiled classes cannot (``wrappers``, ``serial``), and
``records``, which makes dataclasses at run time.

The tests that run are those of what goes over the wire. Those of misuse are left out: a compiled function
answers an argument that its annotation does not allow with a TypeError of its own, before its code could
raise an EncodeError.

Exit status: 0 if everything compiles and passes, 1 if not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from tests.compiled.loaded import VARIABLE

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "amqpforge_protocol"
INTERPRETED = {"__init__", "wrappers", "serial", "records"}
FOLDERS = ("_support", "amqp_1_0")
TESTS = (
    *("primitive_vectors", "frame_vectors", "nonconforming", "captures", "round_trips", "hostile"),
    *("containers", "decimals", "wrappers", "serial"),
)
SOURCES = ("spec", "generator", "templates", "runtime")


def modules(package: Path) -> list[Path]:
    """The modules of a package to compile."""
    found = [path for folder in FOLDERS for path in sorted((package / folder).glob("*.py"))]
    return [path for path in found if path.stem not in INTERPRETED]


def compile_copy(folder: Path) -> list[str]:
    """Copy the generated package into ``folder`` and compile it there; returns the names of the modules.

    Raises:
        subprocess.CalledProcessError: mypyc or the C compiler refused a module; what they said is on
        standard error.
    """
    shutil.copytree(
        ROOT / "generated" / PACKAGE, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__")
    )
    paths = [path.relative_to(folder) for path in modules(folder / PACKAGE)]
    environment = {**os.environ, "MYPYPATH": str(folder), "MYPYC_OPT_LEVEL": "2"}
    command = [sys.executable, "-m", "mypyc", *map(str, paths)]
    ended = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if ended.returncode:
        sys.stderr.write(ended.stdout)
    ended.check_returncode()
    return [".".join(path.with_suffix("").parts) for path in paths]


def environment(*folders: Path) -> dict[str, str]:
    """The environment in which some folders come first where Python looks for modules."""
    path = [str(folder) for folder in (*folders, *(ROOT / source for source in SOURCES), ROOT)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def run_tests(folder: Path, names: Sequence[str]) -> int:
    """Run the tests of the codec against the compiled package; returns pytest's exit status."""
    files = [f"tests/codec/test_{name}.py" for name in TESTS]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.compiled.loaded",
        "-p",
        "no:cacheprovider",
        *files,
    ]
    variables = {**environment(folder), VARIABLE: json.dumps(names)}
    return subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode


def speeds(folder: Path) -> dict[str, float]:
    """The microseconds of some operations with the package in ``folder``."""
    command = [sys.executable, "-m", "tests.compiled.speed"]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment(folder), stdout=subprocess.PIPE, text=True, check=True
    )
    times: dict[str, float] = json.loads(ended.stdout)
    return times


def print_speeds(compiled: Path, out: TextIO) -> None:
    """Print how the compiled package compares with the interpreted one."""
    before, after = speeds(ROOT / "generated"), speeds(compiled)
    print(f"\n{'microseconds':<16}{'interpreted':>12}{'compiled':>10}{'ratio':>8}", file=out)
    for name, time in before.items():
        print(f"{name:<16}{time:>12.2f}{after[name]:>10.2f}{time / after[name]:>7.1f}x", file=out)


def main(arguments: Sequence[str] | None = None, out: TextIO | None = None) -> int:
    """Run the tool; returns the exit status."""
    stream: TextIO = sys.stdout if out is None else out
    parser = argparse.ArgumentParser(
        prog="python -m tests.compiled", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--keep", metavar="FOLDER", type=Path, help="compile in this folder, and leave it there"
    )
    parser.add_argument("--no-speed", action="store_true", help="do not measure")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder: Path = (options.keep or Path(temporary)).resolve()
        try:
            names = compile_copy(folder)
        except subprocess.CalledProcessError:
            print("check-compiled: the codec does not compile", file=stream)
            return 1
        short = [name.removeprefix(f"{PACKAGE}.") for name in names]
        print(f"compiled {len(names)} modules: {', '.join(short)}", file=stream)
        stream.flush()
        if run_tests(folder, names):
            return 1
        if not options.no_speed:
            print_speeds(folder, stream)
    return 0


if __name__ == "__main__":
    sys.exit(main())
