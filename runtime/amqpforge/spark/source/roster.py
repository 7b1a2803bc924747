"""Which slots a stream has, and what their records tell: what the process of the query knows of its tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from .documents import load_document
from .durable import as_spool_error
from .location import inside
from .record import Record, Round
from .segment import SpoolError
from .slot import SlotPartition, slot_name
from .spool import Spool
from .storage import open_storage

__all__ = ["Roster", "Slot", "shares"]

_SLOTS: Final = "slots.json"


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot.

    Attributes:
        name: of its folder.
        address: its node.
        since: its first round.
    """

    name: str
    address: str
    since: int

    @property
    def number(self) -> int:
        """Its place among the slots of its address, from 0."""
        return int(self.name.rpartition("-")[2])


class Roster:
    """The slots, in the spool of the stream: a folder that has no segments itself, and those of the slots.

    Attributes:
        spool: of the stream; this process has it to itself.
        slots: those of the latest round that has begun, in their order.
        records: what the slots have told when they were last asked, by name.
    """

    def __init__(self, location: str) -> None:
        """Open it.

        Raises:
            SpoolError: the spool is of no use, in use, or that of a receiver on the driver.
        """
        self.spool = Spool(open_storage(location))
        try:
            with as_spool_error(f"opening the spool {self.location}"):
                self.slots = load_document(self.spool.storage, _SLOTS, list[Slot]) or []
            if self.spool.next:
                raise SpoolError(
                    f"the spool {self.location} has segments of receiveOn=driver: give the query a "
                    "'spoolLocation' of its own, once those are in a batch"
                )
        except BaseException:
            self.spool.close()
            raise
        self.records: dict[str, Record] = {}

    @property
    def location(self) -> str:
        """Where it is."""
        return self.spool.storage.location

    def close(self) -> None:
        """Let another process use it."""
        self.spool.close()

    def plan(self, start: int, addresses: Sequence[str], receivers: int) -> None:
        """Have the slots of a round that begins now. Those that are not wanted any more are through with all
        rounds before it, as Spark is. One stays for as long as the peer may send again what it has, to
        another slot of its address.

        Raises:
            SpoolError: they cannot be kept, or a record cannot be read.
        """
        known = {slot.name: slot for slot in self.slots}
        wanted = {slot_name(address, n): address for address in addresses for n in range(receivers)}
        slots = [known.get(name) or Slot(name, address, start) for name, address in wanted.items()]
        gone = [slot for slot in self.slots if slot.name not in wanted and slot.address in addresses]
        slots += [slot for slot in gone if (record := self._record(slot)) is not None and record.unconfirmed]
        if slots != self.slots:
            self.spool.note(_SLOTS, [asdict(slot) for slot in slots])
            self.slots = slots

    def partition(
        self, slot: Slot, query: str, start: int, end: int, share: tuple[int, int], *, is_leaving: bool
    ) -> SlotPartition:
        """What the task of a slot is given; see :class:`.slot.SlotPartition`."""
        others = (one.name for one in self.slots if one.address == slot.address and one.name != slot.name)
        return SlotPartition(
            location=self.location,
            name=slot.name,
            address=slot.address,
            query=query,
            start=start,
            end=end,
            since=slot.since,
            siblings=tuple(others),
            rows=share[0],
            octets=share[1],
            is_leaving=is_leaving,
        )

    # --- what the slots tell --------------------------------------------------------------------------------

    def ask(self) -> None:
        """Read the records.

        Raises:
            SpoolError: one cannot be read.
        """
        for slot in self.slots:
            record = self._record(slot)
            if record is not None:
                self.records[slot.name] = record

    def _record(self, slot: Slot) -> Record | None:
        """The record of a slot as it is now; None: there is none yet."""
        return Record.load(open_storage(inside(self.location, slot.name)))

    def rounds(self, number: int) -> dict[str, list[Round]]:
        """What the slots had in a round, by address."""
        found: dict[str, list[Round]] = {}
        for slot in self.slots:
            record = self.records.get(slot.name)
            done = record.find(number) if record is not None else None
            if done is not None:
                found.setdefault(slot.address, []).append(done)
        return found

    def figures(self, committed: int) -> dict[str, int]:
        """How far it is, for people; ``committed`` rounds are through."""
        total: Counter[str] = Counter()
        waiting = [
            one for record in self.records.values() for one in record.rounds if one.number >= committed
        ]
        for record in self.records.values():
            total.update(record.figures)
        return {
            "rows": total["rows"],
            "bytes": total["bytes"],
            "spoolSegments": sum(one.end - one.start for one in waiting),
            "spoolRows": sum(one.rows for one in waiting),
            "spoolBytes": sum(one.octets for one in waiting),
            "unsettled": 0,
            "redelivered": total["redelivered"],
            "droppedDuplicates": total["droppedDuplicates"],
            "resumed": total["resumed"],
            "rejected": total["rejected"],
            "connections": total["connections"],
        }


def shares(total: int, count: int, turn: int) -> list[int]:
    """A number in ``count`` parts that differ by 1 at most; by turns others have the larger ones."""
    least, more = divmod(total, count)
    return [least + ((place + turn) % count < more) for place in range(count)]
