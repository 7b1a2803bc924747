"""Messages that came to two slots of one address, of which one counts.

A message that a task has in its spool, and the peer has not been told of, may be sent to another slot of the
same address, at once or later. So each slot looks at the others before it keeps its record, and one at a time
does so: what is in the record of another one already is left out here. Only what the peer has not confirmed
can have come twice, in whichever of the two slots that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from .durable import as_spool_error
from .location import inside
from .recovery import identity
from .segment import MissingSegment, read_segment
from .storage import open_storage

if TYPE_CHECKING:
    from .storage import Storage

__all__ = ["Told", "find_twins", "one_at_a_time"]


class Told(Protocol):
    """What another slot has in its record.

    Attributes:
        unconfirmed: the names of segments that the peer may not know to be settled.
    """

    unconfirmed: list[str]

    def names(self, number: int) -> Sequence[str]:
        """The names of the segments of a round."""
        ...


@contextmanager
def one_at_a_time(location: str, group: str, patience: float) -> Iterator[None]:
    """Keep the slots of an address from keeping records, but for one.

    Args:
        location: of the spool of the whole stream.
        group: what is the same in the names of these slots.
        patience: seconds to wait for another one.

    Raises:
        SpoolError: another one takes too long, or the storage fails.
    """
    storage = open_storage(inside(location, f"{group}-lock"))
    try:
        with as_spool_error(f"locking {storage.location}"):
            storage.make()
            storage.hold(patience)
        yield
    finally:
        storage.release()


def find_twins(
    storage: Storage,
    names: Sequence[str],
    others: Iterable[tuple[Storage, Told]],
    number: int,
    *,
    is_sure: bool,
) -> dict[str, list[int]]:
    """The rows of segments that another slot has in its record.

    Args:
        storage: of the segments.
        names: theirs.
        others: the other slots.
        number: of the round that the segments are of.
        is_sure: whether the peer has confirmed all that is in them, and nothing was lost meanwhile.

    Returns:
        The numbers of the rows, by the name of the segment.

    Raises:
        SpoolError: a segment cannot be read.
    """
    known: set[bytes | None] = set()
    for place, told in others:
        for name in told.unconfirmed:
            with suppress(MissingSegment):  # It was confirmed since that was told.
                known.update(_identities(place, name))
        for name in () if is_sure else told.names(number):
            known.update(_identities(place, name))
    known.discard(None)
    if not known:
        return {}
    found = {
        name: [row for row, one in enumerate(_identities(storage, name)) if one in known] for name in names
    }
    return {name: rows for name, rows in found.items() if rows}


def _identities(storage: Storage, name: str) -> Iterator[bytes | None]:
    batch = read_segment(storage, name)
    columns = (batch[column].to_pylist() for column in ("address", "payload", "message_format"))
    return (identity(*row) for row in zip(*columns, strict=True))
