"""What an output tree was made from: digests of all inputs, and the manifest that remembers them.

A *unit* is what is rendered together: one dialect, or (`ONCE`) what a target renders once. The manifest in
the output root has the digest of each unit's inputs and of each file that came of them, so that an up-to-date
tree is recognised by reading files alone. Only the standard library is imported.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from amqpforge_generator.target import Target

#: The unit of a target's outputs that do not depend on any dialect.
ONCE = ""


def sha256(data: bytes) -> str:
    """The digest of some octets, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Digest of the inputs of a unit, and of each of its outputs by path relative to the output root."""

    inputs: str
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The memory of an output root, for one target."""

    target: str
    units: Mapping[str, Unit] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        return f".manifest-{self.target}.json"

    @property
    def files(self) -> dict[str, str]:
        """All outputs of all units, with their digests."""
        return {path: digest for unit in self.units.values() for path, digest in unit.files.items()}

    def encode(self) -> bytes:
        """The manifest as a JSON text with one line an entry, so that changes to it read well."""
        units = {
            name: {"inputs": unit.inputs, "files": dict(unit.files)} for name, unit in self.units.items()
        }
        note = "Written by amqpforge-generate; says what the files here were made from. Do not edit."
        text = json.dumps({"note": note, "target": self.target, "units": units}, indent=1, sort_keys=True)
        return text.encode() + b"\n"


def read_manifest(root: Path, target: str) -> Manifest:
    """The manifest of ``target`` in ``root``; an absent or unreadable one is empty, and all is stale."""
    empty = Manifest(target)
    try:
        data = json.loads((root / empty.file_name).read_bytes())
        units = {
            str(name): Unit(inputs=str(unit["inputs"]), files=_strings(unit["files"]))
            for name, unit in data["units"].items()
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return empty
    return Manifest(target, units)


def _strings(data: object) -> dict[str, str]:
    return {str(key): str(value) for key, value in cast("Mapping[object, object]", data).items()}


class Digests:
    """Digests of input files, each file read once."""

    def __init__(self) -> None:
        self._known: dict[Path, str] = {}

    def of(self, file: Path) -> str:
        if file not in self._known:
            self._known[file] = sha256(file.read_bytes())
        return self._known[file]

    def together(self, labelled: Iterable[tuple[str, Path]], *words: str) -> str:
        """One digest of files, the labels they are known by, and further ``words`` that matter."""
        lines = sorted(f"{label}\0{self.of(file)}" for label, file in labelled)
        return sha256("\n".join([*lines, *words]).encode())


def unit_digests(
    digests: Digests, target: Target, dialects: Mapping[str, Path], schemas: Path, formatter: str
) -> dict[str, str]:
    """The digest of the inputs of every unit: `ONCE`, then each dialect.

    ``dialects`` has the folder of every dialect there is; ``schemas`` is the folder of the grammars;
    ``formatter`` is the name and version of the formatter.
    """
    common = [(f"target/{label}", file) for label, file in target_files(target.folder).items()]
    generator = Path(__file__).parent
    common += [
        (f"generator/{file.relative_to(generator).as_posix()}", file) for file in generator.rglob("*.py")
    ]
    common += [(f"schemas/{file.name}", file) for file in schemas.glob("*.rng")]
    result = {ONCE: digests.together(common, formatter, *dialects)}
    for name, folder in dialects.items():
        spec = [(f"spec/{name}/{file.name}", file) for file in definition_files(folder)]
        result[name] = digests.together([*common, *spec], formatter)
    return result


def target_files(folder: Path) -> dict[str, Path]:
    """All files of a target by their path in it; hidden files and compiled Python are no part of it."""
    found = {file.relative_to(folder): file for file in folder.rglob("*") if file.is_file()}
    return {
        path.as_posix(): file
        for path, file in sorted(found.items())
        if not any(part.startswith(".") or part == "__pycache__" for part in path.parts)
    }


def definition_files(folder: Path) -> list[Path]:
    """The definition files of a dialect, sorted."""
    return sorted(folder.glob("*.xml"))


def find_dialects(spec: Path) -> dict[str, Path]:
    """The dialects in ``spec``, sorted: its folders with definition files, or itself when it holds some."""
    if definition_files(spec):
        return {spec.resolve().name: spec}
    return {
        folder.resolve().name: folder
        for folder in sorted(spec.glob("*"))
        if folder.is_dir() and definition_files(folder)
    }


def is_intact(root: Path, files: Mapping[str, str]) -> bool:
    """Whether every file is there with the digest it should have."""
    try:
        return all(sha256((root / path).read_bytes()) == digest for path, digest in files.items())
    except OSError:
        return False


def files_around(root: Path, expected: Iterable[str], foreign: Iterable[str] = ()) -> Iterator[str]:
    """Files not ``expected`` that lie where outputs do: in ``root`` itself and in its folders for them.

    Hidden files and folders, compiled Python and what is named in ``foreign`` are passed over.
    """
    known = frozenset(expected)
    strange = {"__pycache__", *foreign}
    tops = sorted({path.split("/", 1)[0] for path in known if "/" in path})
    candidates = [file for file in sorted(root.glob("*")) if file.is_file()]
    candidates += [file for top in tops for file in sorted((root / top).rglob("*")) if file.is_file()]
    for file in candidates:
        path = file.relative_to(root)
        if path.as_posix() not in known and not any(p.startswith(".") or p in strange for p in path.parts):
            yield path.as_posix()
