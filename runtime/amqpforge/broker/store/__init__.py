"""Where a broker keeps what has to survive it: one interface, and a store in memory and one in SQLite."""

from __future__ import annotations

from .base import Definition, Done, Recovered, Store, StoredEntry, StoredMessage, Unit

__all__ = ["Definition", "Done", "Recovered", "Store", "StoredEntry", "StoredMessage", "Unit", "new_store"]


def new_store(text: str) -> Store:
    """A store as configurations write it: ``memory``, or ``sqlite:`` and the name of a file."""
    if text == "memory":
        from .memory import MemoryStore

        return MemoryStore()
    from .sqlite import SqliteStore

    return SqliteStore(text.removeprefix("sqlite:"))
