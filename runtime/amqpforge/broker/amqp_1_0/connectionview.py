"""What can be seen of a connection by those who manage the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqpforge_protocol.amqp_1_0 import Symbol

if TYPE_CHECKING:
    from .head import Head

__all__ = ["ConnectionView"]

_PRODUCT: Final = Symbol("product")


class ConnectionView:
    """An open connection, as it is managed; see :class:`amqpforge.broker.management.ManagedConnection`."""

    protocol = "AMQP 1.0"

    def __init__(self, head: Head, id: str) -> None:
        self._head = head
        self.id = id

    @property
    def owner(self) -> object:
        return self._head

    @property
    def user(self) -> str:
        return self._head.working.user

    @property
    def vhost(self) -> str:
        return self._head.working.host.name

    @property
    def peer(self) -> str:
        return self._head.peer

    @property
    def address(self) -> str:
        return self._head.address

    @property
    def since(self) -> float:
        return self._head.since

    @property
    def product(self) -> str | None:
        remote = self._head.engine.remote
        told = None if remote is None or remote.properties is None else remote.properties.get(_PRODUCT)
        return str(told) if isinstance(told, str) else None

    @property
    def sessions(self) -> int:
        return len(self._head.engine.sessions)

    @property
    def links(self) -> int:
        return len(self._head.links)

    @property
    def frames_received(self) -> int:
        return self._head.engine.frames_received

    @property
    def frames_sent(self) -> int:
        return self._head.engine.output.frames

    @property
    def octets_sent(self) -> int:
        return self._head.engine.output.octets

    def close(self, text: str) -> None:
        self._head.close(text)
