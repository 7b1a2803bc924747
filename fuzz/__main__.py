"""Run the fuzzer over the decoders and the engine: ``python -m fuzz [--only CHECK] [--corpus FOLDER] [...]``.

The first octet of an input picks the check (see :mod:`fuzz.checks`), the rest goes to what it checks. The
corpus starts from the vectors and captures in ``tests``. It is thrown away at the end unless a folder is
named. An input that breaks the rule is kept in the working directory as ``crash-...``.

Exit status: 0 if nothing was found, another if something was.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["amqpforge_protocol", "amqpforge.engine"]):
    from fuzz.checks import CHECKS
    from fuzz.seeds import seeds

NAMES = sorted(CHECKS)
LONGEST_SEED = 4096


def sow(corpus: Path, only: str | None) -> None:
    """Write the seeds of one check, or of all of them, into a folder."""
    corpus.mkdir(parents=True, exist_ok=True)
    for number, (name, octets) in enumerate(dict.fromkeys(seeds())):
        if only in (None, name) and len(octets) <= LONGEST_SEED:
            first = b"" if only else bytes((NAMES.index(name),))
            (corpus / f"seed-{number:05}").write_bytes(first + octets)


def check(data: bytes) -> None:
    """What the fuzzer calls."""
    if data:
        CHECKS[NAMES[data[0] % len(NAMES)]](data[1:])


def main(arguments: Sequence[str]) -> int:
    """Run the fuzzer; returns its exit status, or ends the process."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz",
        description="Fuzz the decoders and the engine; unknown options go to libFuzzer.",
        allow_abbrev=False,
    )
    parser.add_argument("--only", choices=NAMES, help="give every input to one check")
    parser.add_argument("--corpus", type=Path, help="folder of inputs that is kept and added to")
    options, of_libfuzzer = parser.parse_known_args(arguments)
    if options.corpus is None:
        # libFuzzer ends its process without a word to us, so the one that clears up is another.
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "fuzz", "--corpus", folder, *arguments]
            return subprocess.run(command, check=False).returncode
    sow(options.corpus, options.only)
    atheris.Setup([sys.argv[0], *of_libfuzzer, str(options.corpus)], CHECKS.get(options.only, check))
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
