"""Compiles the TypeScript package, has Node measure it beside rhea, and words what came of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.amqp_1_0.cases import FLOW, MESSAGE, TRANSFER

CASE = "typescript"
"""The name under which the command line chooses it."""

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "generated" / "typescript" / "amqp-1-0"
TSC = ROOT / "tests" / "typescript" / "node_modules" / ".bin" / "tsc"
PEERS = ROOT / "tests" / "interop" / "peers"
"""Where rhea is installed."""

TARGETS = {"decode": 1.0, "encode": 2.0}
"""How many times as long rhea is meant to take."""

_FRAME_START = bytes((2, 0, 0, 1))
"""What stands between the size of a frame and its performative: DOFF, type, channel 1."""


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds a call; ``rhea`` is None where it is not installed."""

    case: str
    direction: str
    ours: float
    rhea: float | None

    @property
    def ratio(self) -> float | None:
        """How many times as long rhea takes."""
        return None if self.rhea is None else self.rhea / self.ours


def measure(chosen: Sequence[str] | None, is_quick: bool, say: Callable[[str], None]) -> list[Row]:
    """The rows, if they are asked for; none, and a line that says why, if Node or the compiler is missing."""
    if chosen and CASE not in chosen:
        return []
    node = shutil.which("node")
    if node is None or not TSC.exists():
        say("typescript: left out: it needs Node and what `make test-typescript` installs")
        return []
    with tempfile.TemporaryDirectory(prefix="amqpforge-typescript-") as folder:
        built = subprocess.run(
            [str(TSC), "--project", str(PACKAGE), "--outDir", folder],
            capture_output=True,
            text=True,
            check=False,
        )
        Path(folder, "package.json").write_text('{"type": "module"}', encoding="utf-8")
        rounds, seconds = ("12", "0.0006") if is_quick else ("60", "0.0012")
        script = Path(__file__).with_name("codecs.mjs")
        run = subprocess.run(
            [node, str(script), str(Path(folder, "index.js")), json.dumps(_cases()), rounds, seconds],
            cwd=_home_of_rhea(),
            capture_output=True,
            text=True,
            check=False,
        )
    if built.returncode or run.returncode:
        say(f"typescript: not measured: {(built.stdout or run.stderr).strip()[-500:]}")
        return []
    rows = [Row(one["case"], one["direction"], one["ours"], one["rhea"]) for one in json.loads(run.stdout)]
    for line in [*lines(rows), ""]:
        say(line)
    return rows


def lines(rows: Sequence[Row]) -> list[str]:
    """The table for people."""
    found = [f"{'typescript, in Node':<24}{'ours':>10}{'rhea':>11}{'ratio':>8}"]
    for row in rows:
        line = f"{row.case + ' ' + row.direction:<24}{row.ours:>7.2f} us"
        if row.rhea is not None and row.ratio is not None:
            target = TARGETS[row.direction]
            verdict = "met" if row.ratio >= target else "not met"
            line += f"{row.rhea:>8.2f} us{row.ratio:>8.2f}   at least {target:g}: {verdict}"
        found.append(line)
    return found


def _cases() -> dict[str, str]:
    """The octets of every case in hexadecimal; performatives as frames."""
    cases = {case.name: case.octets for case in (TRANSFER, FLOW)}
    frames = {name: (len(it) + 8).to_bytes(4, "big") + _FRAME_START + it for name, it in cases.items()}
    return {name: octets.hex() for name, octets in {**frames, MESSAGE.name: MESSAGE.octets}.items()}


def _home_of_rhea() -> Path:
    """A folder from which Node finds rhea, if it is anywhere."""
    paths = [
        PEERS,
        *(Path(part).parent for part in os.environ.get("NODE_PATH", "").split(os.pathsep) if part),
    ]
    return next((path for path in paths if (path / "node_modules" / "rhea").is_dir()), ROOT)
