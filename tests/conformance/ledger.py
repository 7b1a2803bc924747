"""The requirements as the ledger files hold them, and the waivers."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LEDGER_ROOT = ROOT / "spec" / "amqpforge_spec"
WAIVERS = ROOT / "tests" / "spec_waivers.toml"

LEVELS = frozenset({"MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "BEHAVIOUR", ""})

_NUMBERED = re.compile(r"(?P<area>[A-Z]-[A-Z]+)-\d{3}\Z")
_RULE = re.compile(r"(?P<area>[A-Z]-[a-z][a-z-]*)(\.[a-z][a-z0-9.-]*)?/[a-z0-9-]+\Z")


class LedgerError(ValueError):
    """A ledger or the list of waivers says something it may not; the message names file and line or entry."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One row of a ledger.

    ``file`` is the ledger's path relative to the folder of the ledgers, with forward slashes; ``line``
    the line of the seed document. ``who`` and ``hint`` are empty where the row has none.
    """

    id: str
    file: str
    area: str
    seed: str
    line: int
    level: str
    who: str
    text: str
    hint: str


def area_of(identifier: str) -> str:
    """Return the area of a requirement: ``T-CONN`` of T-CONN-007, ``P-queue`` of P-queue.bind/duplicates.

    Raises LedgerError for an identifier of neither form.
    """
    match = _NUMBERED.match(identifier) or _RULE.match(identifier)
    if match is None:
        raise LedgerError(f"{identifier!r} has the form of no requirement id")
    return match["area"]


def read_ledger(root: Path = LEDGER_ROOT) -> dict[str, Requirement]:
    """Read every ``*/requirements/*.jsonl`` under ``root``, in the order of the file names, then of the rows.

    Raises LedgerError, with file and line, for a row that is no JSON object, lacks a key, or repeats an id.
    """
    rows: dict[str, Requirement] = {}
    for path in sorted(root.glob("*/requirements/*.jsonl"), key=lambda path: path.name):
        file = path.relative_to(root).as_posix()
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                row = _row(file, text)
            except (ValueError, KeyError, TypeError) as error:
                raise LedgerError(f"{file}:{number}: {_reason(error)}") from error
            if row.id in rows:
                raise LedgerError(f"{file}:{number}: {row.id} is also in {rows[row.id].file}")
            rows[row.id] = row
    if not rows:
        raise LedgerError(f"no ledger lies under {root}")
    return rows


@cache
def ledger() -> Mapping[str, Requirement]:
    """The project's own ledger, read once."""
    return read_ledger()


def suggest(identifier: str, known: Mapping[str, Requirement]) -> str:
    """Return ``" (did you mean X?)"`` for the known id nearest to ``identifier``, or an empty string."""
    near = get_close_matches(identifier, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


@dataclass(frozen=True, slots=True)
class Waivers:
    """What is deliberately not proven: reasons by id, and which of the ids were named one by one."""

    reasons: Mapping[str, str]
    named: frozenset[str]


def read_waivers(path: Path, known: Mapping[str, Requirement]) -> Waivers:
    """Read the list of waivers; the first of its entries that covers an id gives the reason.

    Raises LedgerError for an unknown key, an empty reason, an id the ledger does not have, an id named twice,
    or a prefix that no id has.
    """
    entries = tomllib.loads(path.read_text(encoding="utf-8"))
    if stray := sorted(set(entries) - {"waive"}):
        raise LedgerError(f"{path.name}: unknown table {stray[0]!r}; entries are written as [[waive]]")
    reasons: dict[str, str] = {}
    named: set[str] = set()
    for number, entry in enumerate(entries.get("waive", []), start=1):
        try:
            ids, prefixed, reason = _waiver(entry, known)
        except (KeyError, LedgerError) as error:
            raise LedgerError(f"{path.name}: waiver {number}: {_reason(error)}") from error
        if twice := sorted(named.intersection(ids)):
            raise LedgerError(f"{path.name}: waiver {number}: {twice[0]} is waived before")
        named.update(ids)
        for identifier in [*ids, *prefixed]:
            reasons.setdefault(identifier, reason)
    return Waivers(reasons, frozenset(named))


def _waiver(entry: dict[str, Any], known: Mapping[str, Requirement]) -> tuple[list[str], list[str], str]:
    if stray := sorted(set(entry) - {"ids", "prefix", "reason"}):
        raise LedgerError(f"unknown key {stray[0]!r}; known are ids, prefix and reason")
    reason = " ".join(str(entry["reason"]).split())
    if not reason:
        raise LedgerError("the reason is empty")
    ids = list(entry.get("ids", []))
    for identifier in ids:
        if identifier not in known:
            raise LedgerError(f"the ledger has no {identifier}{suggest(identifier, known)}")
    prefixed = list(_with_prefix(entry["prefix"], known)) if "prefix" in entry else []
    if not ids and not prefixed:
        raise LedgerError("it names no ids, and its prefix (if any) fits none")
    return ids, prefixed, reason


def _with_prefix(prefix: str, known: Mapping[str, Requirement]) -> Iterator[str]:
    if not prefix:
        raise LedgerError("an empty prefix would waive everything")
    return (identifier for identifier in known if identifier.startswith(prefix))


def _row(file: str, text: str) -> Requirement:
    row = json.loads(text)
    if row["level"] not in LEVELS:
        raise LedgerError(f"unknown level {row['level']!r}")
    return Requirement(
        id=row["id"],
        file=file,
        area=area_of(row["id"]),
        seed=row["seed"],
        line=int(row["line"]),
        level=row["level"],
        who=row.get("who") or "",
        text=row["text"],
        hint=row.get("test") or "",
    )


def _reason(error: Exception) -> str:
    return f"the key {error} is missing" if isinstance(error, KeyError) else str(error)
