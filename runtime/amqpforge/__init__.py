"""amqpforge: AMQP for Python, on an engine forged from the protocol's own definitions.

::

    async with amqpforge.connect("amqp://localhost") as connection:
        async with connection.sender("queue") as sender:
            await sender.send("hello")

    async with amqpforge.Broker() as broker:
        ...  # a broker in this process, at broker.url

:mod:`amqpforge.blocking` has the same names for code without asyncio. Importing this package loads nothing
else: each name below is imported when it is used first.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amqpforge import blocking
    from amqpforge.broker import Broker, BrokerConfig
    from amqpforge.client import (
        Connection,
        Credentials,
        Delivery,
        Receiver,
        Reconnect,
        Sender,
        Transaction,
        connect,
    )
    from amqpforge.errors import (
        AmqpforgeError,
        AuthenticationFailed,
        ConnectionClosed,
        ConnectionLost,
        EndpointClosed,
        LinkDetached,
        LocalError,
        NegotiationFailed,
        NotAccepted,
        OperationTimedOut,
        ProtocolViolation,
        SessionEnded,
    )
    from amqpforge.message import Message
    from amqpforge.url import Url, parse_url

__all__ = [
    "AmqpforgeError",
    "AuthenticationFailed",
    "Broker",
    "BrokerConfig",
    "Connection",
    "ConnectionClosed",
    "ConnectionLost",
    "Credentials",
    "Delivery",
    "EndpointClosed",
    "LinkDetached",
    "LocalError",
    "Message",
    "NegotiationFailed",
    "NotAccepted",
    "OperationTimedOut",
    "ProtocolViolation",
    "Receiver",
    "Reconnect",
    "Sender",
    "SessionEnded",
    "Transaction",
    "Url",
    "__version__",
    "blocking",
    "connect",
    "parse_url",
]

__version__ = "0.1.0"

_CLIENT = frozenset(
    ("Connection", "Credentials", "Delivery", "Receiver", "Reconnect", "Sender", "Transaction", "connect")
)
_HOMES = {
    "Broker": "amqpforge.broker",
    "BrokerConfig": "amqpforge.broker",
    "Message": "amqpforge.message",
    "Url": "amqpforge.url",
    "parse_url": "amqpforge.url",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "blocking":
        return importlib.import_module("amqpforge.blocking")
    home = "amqpforge.client" if name in _CLIENT else _HOMES.get(name, "amqpforge.errors")
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value
