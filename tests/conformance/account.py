"""From ledger, waivers and test records to the account of what is proven."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from tests.conformance.ledger import Requirement, Waivers


class Status(StrEnum):
    """What the run says about one requirement."""

    PROVEN = "proven"
    FAILED = "failed"
    WAIVED = "waived"
    UNTESTED = "untested"


@dataclass(frozen=True, slots=True)
class Record:
    """What became of one marked test item.

    ``outcome`` is ``passed``, ``failed``, ``skipped``, or empty if it never ran.
    """

    test: str
    file: str
    line: int
    ids: tuple[str, ...]
    outcome: str

    @property
    def function(self) -> str:
        """The test's name without the parameters of this item."""
        return self.test.partition("[")[0]


@dataclass(frozen=True, slots=True)
class Tally:
    """The counts of one group of requirements."""

    label: str
    rows: int
    proven: int
    failed: int
    waived: int
    untested: int

    @property
    def share(self) -> str:
        """Proven of those not waived, in per cent with one decimal; a dash where nothing is left to prove."""
        due = self.rows - self.waived
        return f"{100 * self.proven / due:.1f}%" if due else "-"


class Account:
    """The status of every requirement of the ledger after one run of the marked tests."""

    def __init__(
        self, ledger: Mapping[str, Requirement], waivers: Waivers, records: Iterable[Record]
    ) -> None:
        self.ledger = ledger
        self.waivers = waivers
        self.records: dict[str, list[Record]] = {}
        for record in records:
            for identifier in record.ids:
                self.records.setdefault(identifier, []).append(record)
        self.status = {identifier: self._status(identifier) for identifier in ledger}

    def _status(self, identifier: str) -> Status:
        outcomes = {record.outcome for record in self.records.get(identifier, ())}
        if "failed" in outcomes:
            return Status.FAILED
        if "passed" in outcomes:
            return Status.PROVEN
        return Status.WAIVED if identifier in self.waivers.reasons else Status.UNTESTED

    @cached_property
    def failed(self) -> list[str]:
        """Ids that a marked test claims and does not prove: it failed."""
        return [identifier for identifier, status in self.status.items() if status is Status.FAILED]

    @cached_property
    def skipped(self) -> list[str]:
        """Ids whose marked tests were all skipped: counted as untested, or waived."""
        return [
            identifier
            for identifier, records in self.records.items()
            if identifier in self.ledger and all(record.outcome in ("skipped", "") for record in records)
        ]

    @cached_property
    def stale_waivers(self) -> list[str]:
        """Ids that are waived by name although a test proves them."""
        return [
            identifier
            for identifier in self.ledger
            if identifier in self.waivers.named and self.status[identifier] is Status.PROVEN
        ]

    def files(self) -> list[str]:
        """The ledger files, in their order."""
        return list(dict.fromkeys(row.file for row in self.ledger.values()))

    def areas(self, file: str) -> list[Tally]:
        """The counts of each area of one ledger file, in the order of its rows."""
        areas: dict[str, list[str]] = {}
        for row in self.ledger.values():
            if row.file == file:
                areas.setdefault(row.area, []).append(row.id)
        return [self._tally(area, ids) for area, ids in areas.items()]

    def of_file(self, file: str) -> Tally:
        """The counts of one ledger file."""
        return self._tally(file, [row.id for row in self.ledger.values() if row.file == file])

    def total(self) -> Tally:
        """The counts of all."""
        return self._tally("all", list(self.ledger))

    def untested(self, prefixes: Sequence[str] = (), who: str | None = None) -> list[Requirement]:
        """The rows that nothing proves or waives, narrowed to ids with one of ``prefixes`` and to ``who``."""
        return [
            row
            for identifier, row in self.ledger.items()
            if self.status[identifier] is Status.UNTESTED
            and (not prefixes or identifier.startswith(tuple(prefixes)))
            and (who is None or row.who == who)
        ]

    def sample(self, seed: str, size: int = 10) -> list[tuple[Requirement, Record]]:
        """Draw ``size`` marks (requirement, passing test function) for review; the same for one seed."""
        marks = {
            (identifier, record.function): record
            for identifier, records in self.records.items()
            for record in sorted(records, key=lambda record: record.test, reverse=True)
            if record.outcome == "passed"
        }
        drawn = random.Random(seed).sample(sorted(marks), min(size, len(marks)))
        return [(self.ledger[mark[0]], marks[mark]) for mark in drawn]

    def _tally(self, label: str, ids: Sequence[str]) -> Tally:
        counts = Counter(self.status[identifier] for identifier in ids)
        return Tally(
            label,
            rows=len(ids),
            proven=counts[Status.PROVEN],
            failed=counts[Status.FAILED],
            waived=counts[Status.WAIVED],
            untested=counts[Status.UNTESTED],
        )
