"""A connection of a client to the test node, and what a test can do to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqpforge.engine.events import Event
from amqpforge.engine.layers import SaslServer
from amqpforge.engine.link import Link
from amqpforge.engine.session import Session
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import Attach, Begin, Error, LinkState, Open

from .driver import Driver
from .events import react
from .loop import in_loop
from .seen import AnySeen, GivenFrame, encode_given, look_at

if TYPE_CHECKING:
    from .node import Node
    from .nodelink import NodeLink

__all__ = ["NodeConnection"]


class NodeConnection(Driver):
    """One connection that the node has accepted.

    Attributes:
        number: 1 for the first connection of the node, and so on.
        node_links: what the node keeps of the links that are on it, or were last.
        sessions: the sessions on it, by the client's channel.
        refusals: what the script has said is to be refused, once the engine tells of it.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.number = 0
        self.node_links: set[NodeLink] = set()
        self.sessions: dict[int, Session] = {}
        self.refusals: dict[object, Error] = {}

    def __repr__(self) -> str:
        state = "open" if self.wire.is_open else "over"
        return f"<NodeConnection {self.number} from {self.peer!r}, {state}>"

    @property
    def peer(self) -> str:
        """The id of the client's container; empty before its open."""
        return self.engine.remote.container_id if self.engine.remote is not None else ""

    @property
    def user(self) -> str | None:
        """Who the client is, as SASL has shown; None without SASL."""
        sasl = self.stack.sasl if self.stack is not None else None
        return sasl.identity if isinstance(sasl, SaslServer) else None

    @property
    def links(self) -> list[Link]:
        """The links that are on it."""
        return [link for session in self.engine.sessions.values() for link in session.links.values()]

    # --- what a test can do --------------------------------------------------------------------------------

    @in_loop
    def send(self, *frames: GivenFrame, channel: int = 0) -> None:
        """Write frames past the endpoint, which does not know of them."""
        self.wire.write(b"".join(encode_given(frame, channel) for frame in frames))

    @in_loop
    def cut(self) -> None:
        """Cut the TCP connection."""
        self.wire.cut()

    @in_loop
    def stop_reading(self) -> None:
        """Read nothing more, until :meth:`go_on_reading`."""
        self.wire.is_stopped = True
        self.wire.set_reading(False)

    @in_loop
    def go_on_reading(self) -> None:
        """Read again."""
        self.wire.is_stopped = False
        self.read_on()

    @in_loop
    def close(self, error: Error | None = None) -> None:
        """Close the connection, unless it is over or being closed."""
        if self.engine.may_write:
            self.engine.close(error)
            self.wake()

    @in_loop
    def end(self, channel: int | None = 0, error: Error | None = None, *, is_sent: bool = False) -> None:
        """End a session, unless it is over: by the client's channel, or by the node's if ``is_sent``."""
        session = self._session(channel, is_sent=is_sent)
        if session is not None and session.may_write:
            session.end(error)
            self.wake()

    @in_loop
    def detach(self, name: str, error: Error | None = None, *, closed: bool = False) -> None:
        """Detach the links of a name.

        Raises:
            LocalError: there is none, or it is not attached.
        """
        found = [link for link in self.links if link.name == name]
        if not found:
            raise LocalError(f"no link {name!r} is on {self!r}")
        for link in found:
            link.detach(error, closed=closed)
        self.wake()

    # --- for the script ------------------------------------------------------------------------------------

    def will_refuse(self, seen: AnySeen, error: Error) -> None:
        """What a frame asks for is to be refused once the engine tells of it."""
        performative = seen.performative
        if isinstance(performative, Attach):
            self.refusals[performative.name, performative.role] = error
        elif isinstance(performative, Begin):
            self.refusals[Begin, seen.channel] = error
        else:
            self.refusals[Open] = error

    def detach_link_of(self, seen: AnySeen, error: Error | None, *, closed: bool) -> None:
        """Detach the link that a frame names, if it is attached."""
        session = self._session(seen.channel, is_sent=seen.is_sent)
        handle = getattr(seen.performative, "handle", None)
        for link in list(session.links.values()) if session is not None else ():
            known = link.handle if seen.is_sent else link.remote_handle
            if known == handle and link.state is LinkState.ATTACHED:
                link.detach(error, closed=closed)
                self.wake()

    def _session(self, channel: int | None, *, is_sent: bool) -> Session | None:
        if channel is None:
            return None
        return self.engine.sessions.get(channel) if is_sent else self.sessions.get(channel)

    # --- for the driver -------------------------------------------------------------------------------------

    def on_connected(self) -> None:
        self.node.accepted_connection(self)

    def on_gone(self) -> None:
        self.node.lost_connection(self)

    def look_at(self, octets: bytes, *, is_sent: bool) -> AnySeen:
        return look_at(self, octets, is_sent=is_sent)

    def on_event(self, event: Event) -> None:
        react(self, event)
