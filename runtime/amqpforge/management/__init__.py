"""Managing a broker over AMQP: queues, exchanges, bindings, connections, and what happens on them.

::

    async with amqpforge.connect("amqp://localhost") as connection:
        async with Management(connection) as management:
            await management.declare_queue("orders", durable=True)
            await management.bind("orders", "amq.topic", "orders.#")
            for queue in await management.queues():
                print(queue.name, queue.messages)

It is about the virtual host of the connection. ``docs/management.md`` describes the messages that it sends.
:class:`amqpforge.blocking.management.Management` is the same for threads.
"""

from __future__ import annotations

from .client import Management
from .things import (
    BindingInfo,
    BrokerInfo,
    ConnectionInfo,
    ConsumerInfo,
    ExchangeInfo,
    HostInfo,
    ManagementError,
    Overview,
    QueueInfo,
    QueueOptions,
    Rates,
    Step,
)

__all__ = [
    "BindingInfo",
    "BrokerInfo",
    "ConnectionInfo",
    "ConsumerInfo",
    "ExchangeInfo",
    "HostInfo",
    "Management",
    "ManagementError",
    "Overview",
    "QueueInfo",
    "QueueOptions",
    "Rates",
    "Step",
]
