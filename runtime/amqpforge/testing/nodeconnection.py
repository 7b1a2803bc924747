"""A connection of a client to the test node."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from amqpforge.engine.connection import Connection
from amqpforge.engine.layers import LayerFailed, SaslServer, ServerStack

from .drivers import RelayedDriver
from .events import react
from .served import ServedConnection

if TYPE_CHECKING:
    from .node import Node
    from .nodelink import NodeLink

__all__ = ["NodeConnection"]


class NodeConnection(ServedConnection):
    """One connection that the node has accepted.

    Attributes:
        node: the node.
        node_links: what the node keeps of the links that are on it, or were last.
    """

    def __init__(self, node: Node) -> None:
        from_start = node.ssl if node.security.tls is None else None
        super().__init__(node, from_start, node.settings.max_frame_size)
        self.engine = Connection(node.settings, node.container, is_server=True)
        self.engine.notify = self.wake
        self.node = node
        self.node_links: set[NodeLink] = set()
        self._stack: ServerStack[Connection] | None = None
        self._driver: RelayedDriver | None = None

    @property
    def user(self) -> str | None:
        sasl = self._stack.sasl if self._stack is not None else None
        return sasl.identity if isinstance(sasl, SaslServer) else None

    def new_driver(self, peer_name: str | None) -> asyncio.Protocol:
        self._stack = stack = ServerStack(
            self.engine, self.node.security, is_private=True, peer_name=peer_name
        )
        tls = None if self.node.ssl is None else (self.node.ssl, None)
        self._driver = driver = RelayedDriver(stack, lambda events: self.report(events, self._take), tls=tls)
        driver.connection = self
        return driver

    def wake(self) -> None:
        if self._driver is not None:
            self._driver.wake()

    def _take(self, events: Sequence[Any]) -> None:
        for event in events:
            if not isinstance(event, LayerFailed):
                react(self, event)
