"""A store in which nothing survives: the broker has all it needs in its own objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from amqpforge.broker.errors import StoreError
from amqpforge.broker.store.base import Recovered, Store

if TYPE_CHECKING:
    from amqpforge.broker.store.base import Done, Unit

__all__ = ["MemoryStore"]


class MemoryStore(Store):
    """Takes every unit at once, and keeps none."""

    @property
    def is_durable(self) -> bool:
        return False

    def open(self) -> Recovered:
        return Recovered(definitions=(), messages=iter(()), entries=iter(()), remembered=iter(()))

    def commit(self, unit: Unit, done: Done) -> None:
        done(None)

    def read(self, messages: Iterable[int]) -> dict[int, bytes]:
        """Never called, since nothing is dropped from memory that is on no disk.

        Raises:
            StoreError: always.
        """
        raise StoreError("the store in memory keeps no payloads: look at is_durable before dropping one")

    async def close(self) -> None:
        """There is nothing to finish."""
