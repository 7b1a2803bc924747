"""What blocking senders and receivers share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from amqpforge import client
from amqpforge.client import DEFAULT, Timeout
from amqpforge.errors import AmqpforgeError

from .twin import Closing

if TYPE_CHECKING:
    from .connection import Connection
    from .io_thread import IoThread

__all__ = ["Link"]

L = TypeVar("L", bound=client.Sender | client.Receiver)


class Link(Closing[L]):
    """One end of a link. Many threads may use it."""

    __slots__ = ("_connection",)

    def __init__(self, thread: IoThread, twin: L, connection: Connection) -> None:
        """Use ``Connection.sender`` or ``Connection.receiver``."""
        super().__init__(thread, twin)
        self._connection = connection

    @property
    def name(self) -> str:
        """The name of the link: unique among the links of its direction between the two containers."""
        return self._twin.name

    @property
    def connection(self) -> Connection:
        """The connection that it belongs to."""
        return self._connection

    @property
    def is_open(self) -> bool:
        """Whether it is of use: it is not closed, and not given up. It may be waiting for a connection."""
        return self._twin.is_open

    @property
    def is_attached(self) -> bool:
        """Whether both ends are attached just now."""
        return self._twin.is_attached

    @property
    def error(self) -> AmqpforgeError | None:
        """Why it is over; None while it is not, or if it was closed from here."""
        return self._twin.error

    @property
    def remote_properties(self) -> Mapping[str, Any]:
        """What the peer's attach told beyond what has a name here."""
        return self._twin.remote_properties

    @property
    def remote_capabilities(self) -> tuple[str, ...]:
        """The extensions that the peer offers on this link."""
        return self._twin.remote_capabilities

    def wait_attached(self, *, timeout: Timeout = DEFAULT) -> None:
        """Wait until both ends are attached, again perhaps.

        Raises:
            OperationTimedOut: they are not in time.
            AmqpforgeError: the link is over.
        """
        self._thread.run(lambda: self._twin.wait_attached(timeout=timeout))

    def close(self, *, timeout: Timeout = DEFAULT) -> None:
        """Close the link at both ends; nothing happens if it is over already, or in a forked process.

        Whatever the peer answers, or does not answer, this ends within ``timeout`` seconds.
        """
        self._thread.run_last(lambda: self._twin.close(timeout=timeout))
