"""Keep the digests of the ``PROVENANCE.toml`` files: ``python -m amqpforge_spec.provenance [--check]``.

Each dialect's ``PROVENANCE.toml`` has one table a file, ``[files."transport.xml"]``, that says in words where
the facts of the file come from, and the sha256 of the file as it was when somebody last vouched for those
words. Refreshing renews the digests and nothing else; whoever adds a file writes its table.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

__all__ = ["main", "problems", "refresh"]

RECORD = "PROVENANCE.toml"

_TABLE = re.compile(r'^\[files\."(?P<name>[^"]+)"\]\s*$')
_DIGEST = re.compile(r'^(?P<head>sha256\s*=\s*")[^"]*(?P<tail>".*)$')


def records(root: Path | None = None) -> list[Path]:
    """Return the provenance records under ``root`` (this package unless given), one a dialect, sorted."""
    return sorted((root or Path(__file__).resolve().parent).glob(f"*/{RECORD}"))


def problems(record: Path) -> Iterator[str]:
    """Yield what is wrong with ``record``, a line each: unlisted files, listed but missing ones, old digests.

    A table needs ``facts`` and ``prose``: where each comes from.

    Raises tomllib.TOMLDecodeError when the record is no TOML.
    """
    listed = tomllib.loads(record.read_text("utf-8")).get("files", {})
    present = _files(record.parent)
    for name in sorted(present.keys() - listed.keys()):
        yield f"{record}: {name} is not listed"
    for name, entry in listed.items():
        for key in ("facts", "prose"):
            if not entry.get(key):
                yield f"{record}: {name} has no word on the source of its {key}"
        if name not in present:
            yield f"{record}: {name} is listed, but there is no such file"
        elif entry.get("sha256") != _sha256(present[name]):
            yield f"{record}: {name} has changed since its digest was taken"


def refresh(record: Path) -> bool:
    """Rewrite the digests in ``record`` to those of the files as they are; return whether any changed.

    Everything else in the record stays as it is, comments included. Tables without a file are left alone.
    """
    before = record.read_text("utf-8")
    present = _files(record.parent)
    lines: list[str] = []
    file: Path | None = None
    for line in before.splitlines():
        if line.startswith("["):
            table = _TABLE.match(line)
            file = present.get(table["name"]) if table else None
        digest = _DIGEST.match(line)
        if digest and file:
            line = f"{digest['head']}{_sha256(file)}{digest['tail']}"
        lines.append(line)
    after = "\n".join(lines) + "\n"
    if after == before:
        return False
    record.write_text(after, "utf-8", newline="\n")
    return True


def main(arguments: Sequence[str] | None = None, output: TextIO | None = None) -> int:
    """Refresh all digests, or only compare them, and say on ``output`` what changed or is wrong.

    ``output`` is standard output unless given. Returns 0, or 1 when something is wrong.
    """
    parser = argparse.ArgumentParser(
        prog="python -m amqpforge_spec.provenance",
        description="Renew the digests in the PROVENANCE.toml files, and report what these files lack.",
    )
    parser.add_argument("--check", action="store_true", help="change nothing, only report")
    options = parser.parse_args(arguments)
    stream = output if output is not None else sys.stdout
    found: list[str] = []
    for record in records():
        if not options.check and refresh(record):
            stream.write(f"{record}: digests refreshed\n")
        found.extend(problems(record))
    for problem in found:
        stream.write(f"{problem}\n")
    return 1 if found else 0


def _files(folder: Path) -> dict[str, Path]:
    """Return the files a record has to list, by path below ``folder``: all but hidden files and caches."""
    found = {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {
        name.as_posix(): path
        for name, path in found.items()
        if name.name != RECORD and not any(part.startswith((".", "__")) for part in name.parts)
    }


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
