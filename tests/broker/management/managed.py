"""A broker to manage, for asyncio and for threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from amqpforge.broker.broker import Broker
from amqpforge.broker.config import BrokerConfig

__all__ = ["managed", "managed_in_thread"]


def managed(config: BrokerConfig | None = None, *, passwords: Mapping[str, str] | None = None) -> Broker:
    """A broker, which runs while it is entered."""
    return Broker(config, passwords=passwords)


@contextmanager
def managed_in_thread() -> Iterator[str]:
    """The URL of a running broker that has a thread of its own."""
    with Broker() as broker:
        yield broker.url
