"""Managing a broker over AMQP, for threads: see :mod:`amqpforge.management`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, Unpack

from amqpforge import management
from amqpforge.client import DEFAULT, Timeout
from amqpforge.management import (
    BindingInfo,
    ConnectionInfo,
    ConsumerInfo,
    ExchangeInfo,
    Overview,
    QueueInfo,
    QueueOptions,
    Step,
)

from .connection import Connection
from .twin import Closing

__all__ = ["Management"]


class Management(Closing[management.Management]):
    """:class:`amqpforge.management.Management` for threads: its methods, without ``await``.

    Many threads may use it.
    """

    __slots__ = ()

    def __init__(self, connection: Connection, *, timeout: Timeout = DEFAULT) -> None:
        """``timeout``: seconds for attaching, and for each answer."""
        super().__init__(connection._thread, management.Management(connection._twin, timeout=timeout))

    def __enter__(self) -> Self:
        """Attach.

        Raises:
            LinkDetached: the peer has no node ``$management``.
        """
        self._thread.run(self._twin.__aenter__, undo=lambda twin: twin.close())
        return self

    def close(self) -> None:
        """Detach; does nothing a second time."""
        self._thread.run_last(self._twin.close)

    def request(
        self,
        operation: str,
        type: str,
        name: str | None = None,
        body: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> Any:
        """Send a request of any kind; returns the body of the answer."""
        return self._thread.run(lambda: self._twin.request(operation, type, name, body, **properties))

    def declare_queue(self, name: str | None = None, **options: Unpack[QueueOptions]) -> QueueInfo:
        """Have a queue."""
        return self._thread.run(lambda: self._twin.declare_queue(name, **options))

    def queue(self, name: str) -> QueueInfo:
        """A queue, as it is now."""
        return self._thread.run(lambda: self._twin.queue(name))

    def queues(self) -> list[QueueInfo]:
        """All queues."""
        return self._thread.run(self._twin.queues)

    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue; returns how many messages were in it."""
        return self._thread.run(lambda: self._twin.delete_queue(name, if_unused=if_unused, if_empty=if_empty))

    def purge_queue(self, name: str) -> int:
        """Drop the messages of a queue that nobody holds; returns how many these were."""
        return self._thread.run(lambda: self._twin.purge_queue(name))

    def declare_exchange(
        self,
        name: str,
        type: str = "direct",
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> ExchangeInfo:
        """Have an exchange."""
        return self._thread.run(
            lambda: self._twin.declare_exchange(
                name,
                type,
                durable=durable,
                auto_delete=auto_delete,
                internal=internal,
                arguments=arguments,
            )
        )

    def exchange(self, name: str) -> ExchangeInfo:
        """An exchange, as it is now."""
        return self._thread.run(lambda: self._twin.exchange(name))

    def exchanges(self) -> list[ExchangeInfo]:
        """All exchanges."""
        return self._thread.run(self._twin.exchanges)

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange with all its bindings."""
        self._thread.run(lambda: self._twin.delete_exchange(name, if_unused=if_unused))

    def bind(
        self,
        destination: str,
        source: str,
        key: str = "",
        arguments: Mapping[str, Any] | None = None,
        *,
        destination_type: str = "queue",
    ) -> None:
        """Have a binding."""
        self._thread.run(
            lambda: self._twin.bind(destination, source, key, arguments, destination_type=destination_type)
        )

    def unbind(
        self,
        destination: str,
        source: str,
        key: str = "",
        arguments: Mapping[str, Any] | None = None,
        *,
        destination_type: str = "queue",
    ) -> None:
        """Have a binding no longer."""
        self._thread.run(
            lambda: self._twin.unbind(destination, source, key, arguments, destination_type=destination_type)
        )

    def bind_chain(self, queue: str, steps: Sequence[Step]) -> None:
        """Have a chained binding."""
        self._thread.run(lambda: self._twin.bind_chain(queue, steps))

    def unbind_chain(self, queue: str, steps: Sequence[Step]) -> None:
        """Have a chained binding no longer."""
        self._thread.run(lambda: self._twin.unbind_chain(queue, steps))

    def bindings(
        self,
        *,
        source: str | None = None,
        destination: str | None = None,
        destination_type: str | None = None,
    ) -> list[BindingInfo]:
        """All bindings, or those from a source or to a destination."""
        return self._thread.run(
            lambda: self._twin.bindings(
                source=source, destination=destination, destination_type=destination_type
            )
        )

    def connections(self) -> list[ConnectionInfo]:
        """The connections to the virtual host that you may see."""
        return self._thread.run(self._twin.connections)

    def close_connection(self, id: str, reason: str | None = None) -> None:
        """Close a connection."""
        self._thread.run(lambda: self._twin.close_connection(id, reason))

    def consumers(self, queue: str | None = None) -> list[ConsumerInfo]:
        """The consumers of all queues, or of one."""
        return self._thread.run(lambda: self._twin.consumers(queue))

    def overview(self) -> Overview:
        """The broker, and the virtual host of the connection."""
        return self._thread.run(self._twin.overview)
