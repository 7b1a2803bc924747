"""The client of the node ``$management``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack
from uuid import uuid4

from amqpforge.client.requests import Requester
from amqpforge.client.waiting import DEFAULT, Timeout
from amqpforge.errors import LocalError
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import ULong

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
    Step,
    made,
    map_of,
)

if TYPE_CHECKING:
    from amqpforge.client import Connection

__all__ = ["Management"]

T = TypeVar("T")

_NODE: Final = "$management"
_MOST_PAGES: Final = 1 << 20


class Management:
    """Manages the virtual host of a connection, for the time of an ``async with`` block.

    All methods raise :class:`ManagementError` if the broker refuses, and what
    :meth:`amqpforge.client.Requester.request` raises if there is no answer. Many tasks may use it.
    """

    def __init__(self, connection: Connection, *, timeout: Timeout = DEFAULT) -> None:
        """``timeout``: seconds for attaching, and for each answer."""
        self._connection = connection
        self._timeout: Timeout = timeout
        self._requester: Requester | None = None

    async def __aenter__(self) -> Self:
        """Attach.

        Raises:
            LinkDetached: the peer has no node ``$management``.
        """
        name = f"{_NODE}-{uuid4().hex}"  # The name of both links makes them a pair.
        receiver = await self._connection.receiver(_NODE, name=name, timeout=self._timeout)
        try:
            sender = await self._connection.sender(_NODE, name=name, timeout=self._timeout)
        except BaseException:
            await receiver.close()
            raise
        self._requester = Requester(sender, receiver)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Detach; does nothing a second time."""
        requester, self._requester = self._requester, None
        if requester is not None:
            await requester.close()

    async def request(
        self,
        operation: str,
        type: str,
        name: str | None = None,
        body: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> Any:
        """Send a request of any kind, and wait for the answer.

        Args:
            operation: such as ``READ``.
            type: such as ``queue``.
            name: which one; None: none is named.
            body: attributes; those that are None are left out.
            properties: other application properties, such as ``offset``.

        Returns:
            The body of the answer: a map.
        """
        if self._requester is None:
            raise LocalError("the management is not entered: use it with `async with`")
        told = {"operation": operation, "type": type, "name": name, **properties}
        message = Message(
            {key: value for key, value in (body or {}).items() if value is not None},
            application_properties={key: value for key, value in told.items() if value is not None},
        )
        answer = await self._requester.request(message, timeout=self._timeout)
        status = (answer.application_properties or {}).get("statusCode")
        if not isinstance(status, int):
            raise ManagementError(500, "the answer has no statusCode: is this a node that manages a broker?")
        if not 200 <= status < 300:
            description = (answer.application_properties or {}).get("statusDescription")
            raise ManagementError(int(status), str(description))
        return answer.body

    # --- queues ------------------------------------------------------------------------------------------

    async def declare_queue(self, name: str | None = None, **options: Unpack[QueueOptions]) -> QueueInfo:
        """Have a queue: a new one, or the one that there is, if it was declared in the same way.

        ``name``: None: the broker finds one.
        """
        return made(QueueInfo, await self.request("CREATE", "queue", name, options))

    async def queue(self, name: str) -> QueueInfo:
        """A queue, as it is now."""
        return made(QueueInfo, await self.request("READ", "queue", name))

    async def queues(self) -> list[QueueInfo]:
        """All queues, in the order in which they came."""
        return await self._all(QueueInfo, "queue")

    async def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue with its bindings; returns how many messages were in it.

        Args:
            name: its name.
            if_unused: only if it has no consumer.
            if_empty: only if it has no message.
        """
        body = {"if_unused": if_unused, "if_empty": if_empty}
        return _count(await self.request("DELETE", "queue", name, body))

    async def purge_queue(self, name: str) -> int:
        """Drop the messages of a queue that nobody holds; returns how many these were."""
        return _count(await self.request("PURGE", "queue", name))

    # --- exchanges and bindings --------------------------------------------------------------------------

    async def declare_exchange(
        self,
        name: str,
        type: str = "direct",
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> ExchangeInfo:
        """Have an exchange: a new one, or the one that there is, if it was declared in the same way."""
        body = {
            "type": type,
            "durable": durable,
            "auto_delete": auto_delete,
            "internal": internal,
            "arguments": None if arguments is None else dict(arguments),
        }
        return made(ExchangeInfo, await self.request("CREATE", "exchange", name, body))

    async def exchange(self, name: str) -> ExchangeInfo:
        """An exchange, as it is now."""
        return made(ExchangeInfo, await self.request("READ", "exchange", name))

    async def exchanges(self) -> list[ExchangeInfo]:
        """All exchanges, in the order in which they came."""
        return await self._all(ExchangeInfo, "exchange")

    async def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange with all its bindings; ``if_unused``: only if it has none."""
        await self.request("DELETE", "exchange", name, {"if_unused": if_unused})

    async def bind(
        self,
        destination: str,
        source: str,
        key: str = "",
        arguments: Mapping[str, Any] | None = None,
        *,
        destination_type: str = "queue",
    ) -> None:
        """Have a binding.

        Args:
            destination: the queue, or exchange, that gets messages.
            source: the exchange that they come from.
            key: the routing key or pattern.
            arguments: what else the exchange's type compares.
            destination_type: ``queue`` or ``exchange``.
        """
        await self.request("BIND", destination_type, destination, _bound(source, key, arguments))

    async def unbind(
        self,
        destination: str,
        source: str,
        key: str = "",
        arguments: Mapping[str, Any] | None = None,
        *,
        destination_type: str = "queue",
    ) -> None:
        """Have a binding no longer; the arguments are those of :meth:`bind`."""
        await self.request("UNBIND", destination_type, destination, _bound(source, key, arguments))

    async def bind_chain(self, queue: str, steps: Sequence[Step]) -> None:
        """Have a queue take what comes to the first exchange and meets the conditions of all steps."""
        await self.request("BIND", "queue", queue, _chained(steps))

    async def unbind_chain(self, queue: str, steps: Sequence[Step]) -> None:
        """Have a chained binding no longer."""
        await self.request("UNBIND", "queue", queue, _chained(steps))

    async def bindings(
        self,
        *,
        source: str | None = None,
        destination: str | None = None,
        destination_type: str | None = None,
    ) -> list[BindingInfo]:
        """All bindings, without those that every queue has to the default exchange.

        Args:
            source: only those from this exchange.
            destination: only those to this queue, or exchange.
            destination_type: ``queue``, which is usual, or ``exchange``; goes with ``destination``.
        """
        body = {"source": source, "destination": destination, "destination_type": destination_type}
        return await self._all(BindingInfo, "binding", body)

    # --- connections, consumers, the whole ---------------------------------------------------------------

    async def connections(self) -> list[ConnectionInfo]:
        """The connections to the virtual host; only your own, unless you may read ``$management``."""
        return await self._all(ConnectionInfo, "connection")

    async def close_connection(self, id: str, reason: str | None = None) -> None:
        """Close a connection; that of another user takes the right to configure ``$management``.

        ``reason``: what the client is told.
        """
        await self.request("DELETE", "connection", id, {"reason": reason})

    async def consumers(self, queue: str | None = None) -> list[ConsumerInfo]:
        """The consumers of all queues, or of one."""
        return await self._all(ConsumerInfo, "consumer", {"queue": queue})

    async def overview(self) -> Overview:
        """The broker, and the virtual host of the connection."""
        broker = made(BrokerInfo, await self.request("READ", "broker"))
        return Overview(broker, made(HostInfo, await self.request("READ", "vhost")))

    async def _all(self, kind: type[T], type_: str, body: Mapping[str, Any] | None = None) -> list[T]:
        """All things of a type, page by page."""
        found: list[T] = []
        offset: int | None = 0
        for _ in range(_MOST_PAGES):
            answer = map_of(await self.request("QUERY", type_, None, body, offset=ULong(offset or 0)))
            names, results = answer.get("attributeNames"), answer.get("results")
            if not isinstance(names, list) or not isinstance(results, list):
                raise ManagementError(500, "the answer to a query has no attributeNames and results")
            found += [made(kind, dict(zip(names, row, strict=False))) for row in results]
            offset = answer.get("next")
            if offset is None:
                break
        return found


def _bound(source: str, key: str, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"source": source, "key": key, "arguments": None if arguments is None else dict(arguments)}


def _chained(steps: Sequence[Step]) -> dict[str, Any]:
    return {"steps": [_bound(step.source, step.key, dict(step.arguments)) for step in steps]}


def _count(body: Any) -> int:
    return int(map_of(body).get("messages", 0))
