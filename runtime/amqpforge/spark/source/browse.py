"""Copying the messages of a node, without taking them from it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from amqpforge.errors import AmqpforgeError

from .emptying import available, drain
from .links import OnceReceiver, attach, find_addresses, new_name

if TYPE_CHECKING:
    from amqpforge.client.connection import Connection

    from .options import ReadOptions

__all__ = ["Browser", "resolve"]

_MOST_OCTETS: Final = 8 << 20


def resolve(options: ReadOptions) -> list[str]:
    """The addresses to read, with the names of queues in the place of patterns.

    Raises:
        AmqpforgeError: the peer does not answer, or has no such queue.
    """

    async def find() -> list[str]:
        async with await options.connection.reach() as connection:
            return await find_addresses(connection, options.addresses)

    return asyncio.run(find())


class Browser:
    """Copies what a node holds when it begins.

    Attributes:
        link: the name of the link.
    """

    def __init__(self, options: ReadOptions, address: str) -> None:
        """Make one; :meth:`open` connects."""
        self._options = options
        self._address = address
        self.link = new_name(address)
        self._connection: Connection | None = None
        self._receiver: OnceReceiver | None = None
        self._most: int | None = None
        self._count = 0
        self._is_empty = False

    async def open(self) -> None:
        """Connect.

        Raises:
            AmqpforgeError: that fails, or the peer does not copy messages.
        """
        connection = self._connection = await self._options.connection.reach()
        self._receiver = await attach(
            connection, self._options, self._address, self.link, credit=self._options.credit
        )
        self._most = await available(connection, self._receiver)

    async def some(self) -> list[tuple[bytes, int, bytes]] | None:
        """The next messages: delivery-tag, message format, octets of each; None: there are no more.

        Raises:
            AmqpforgeError: the connection or the link is over.
        """
        connection, receiver = self._connection, self._receiver
        if connection is None or receiver is None:
            raise AmqpforgeError("the browser is not open")
        found: list[tuple[bytes, int, bytes]] = []
        octets = 0
        if not receiver._ready_deliveries:
            if self._is_empty or (self._most is not None and self._count >= self._most):
                return None
            self._is_empty = await drain(connection, receiver)
            if not self._is_empty:
                receiver.resume()
        while receiver._ready_deliveries and octets < _MOST_OCTETS:
            delivery = await receiver.receive()
            incoming = delivery._delivery
            found.append((incoming.tag, incoming.message_format, incoming.payload))
            octets += len(incoming.payload)
            delivery.accept()  # It is a copy that is settled.
        self._count += len(found)
        return found

    async def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            await self._connection.close()
