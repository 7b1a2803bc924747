"""Which slots a stream has, and what their records tell: what the process of the query knows of its tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from .durable import as_spool_error
from .location import inside
from .segment import SpoolError
from .slot import Record, Round, SlotPartition, slot_name
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
                self.slots = [Slot(**one) for one in self.spool.storage.load(_SLOTS) or ()]
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
        rounds before it, as Spark is.

        Raises:
            SpoolError: they cannot be kept.
        """
        known = {slot.name: slot for slot in self.slots}
        wanted = {slot_name(address, n): address for address in addresses for n in range(receivers)}
        slots = [known.get(name) or Slot(name, address, start) for name, address in wanted.items()]
        if slots != self.slots:
            self.spool.note(_SLOTS, [asdict(slot) for slot in slots])
            self.slots = slots

    def partition(
        self, slot: Slot, query: str, start: int, end: int, share: tuple[int, int]
    ) -> SlotPartition:
        """What the task of a slot is given."""
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
        )

    # --- what the slots tell --------------------------------------------------------------------------------

    def ask(self) -> None:
        """Read the records.

        Raises:
            SpoolError: one cannot be read.
        """
        for slot in self.slots:
            record = Record.load(open_storage(inside(self.location, slot.name)))
            if record is not None:
                self.records[slot.name] = record

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
