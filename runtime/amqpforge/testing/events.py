"""What the node does about each event of an engine: the behaviour of a container that keeps queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from amqpforge.broker.amqp_1_0.links import CLOSED, Ending
from amqpforge.engine.events import (
    Attached,
    Closed,
    Credit,
    Deliveries,
    Detached,
    Ended,
    Event,
    Opened,
    Updates,
)
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import LinkError, LinkState

from .attaching import answer_attach
from .intake import Intake
from .nodelink import NodeLink
from .outlet import Outlet
from .transactions import Controlled

if TYPE_CHECKING:
    from amqpforge.engine.delivery import OutgoingDelivery
    from amqpforge.engine.link import Link

    from .nodeconnection import NodeConnection

__all__ = ["react"]


def react(connection: NodeConnection, event: Event) -> None:
    """Do what an event asks for."""
    if isinstance(event, Deliveries):
        known = event.link.context
        if isinstance(known, Intake | Controlled):
            known.on_deliveries(event.deliveries)
    elif isinstance(event, Updates):
        known = event.link.context
        if isinstance(known, Outlet):
            known.on_updates(cast("list[OutgoingDelivery]", event.deliveries))
    elif isinstance(event, Credit):
        known = event.link.context
        if isinstance(known, Outlet) and known.link is event.link:
            known.on_credit()
    else:
        _react_to_endpoints(connection, event)


def _react_to_endpoints(connection: NodeConnection, event: Event) -> None:
    if isinstance(event, Opened):
        connection.engine.open()
    elif isinstance(event, Attached):
        if event.link.state is LinkState.ATTACH_RCVD:
            _answer(connection, event)
    elif isinstance(event, Detached):
        _detached(event.link)
    elif isinstance(event, Ended):
        _suspend(connection, Ending.SESSION, event.session)
    elif isinstance(event, Closed):
        _suspend(connection, Ending.CONNECTION)


def _answer(connection: NodeConnection, event: Attached) -> None:
    """Answer an attach; if the client's own limits leave no way to do so, end its session."""
    link = event.link
    try:
        answer_attach(connection, link, event.attach)
    except LocalError as error:
        if isinstance(link.context, NodeLink):
            link.context.destroy()
        connection.end_unanswered(link, error)


def _detached(link: Link) -> None:
    known = link.context
    is_stolen = link.error is not None and link.error.condition == LinkError.STOLEN
    if not isinstance(known, NodeLink) or known.link is not link or is_stolen:
        return
    if link.state in CLOSED:
        known.destroy()
    else:
        known.suspend(Ending.DETACH)


def _suspend(connection: NodeConnection, ending: Ending, session: object = None) -> None:
    """A session is over, or all of the connection: so are the links on it, each in its own way."""
    for known in list(connection.node_links):
        if session is not None and known.session is not session:
            continue
        if known.link.state in CLOSED:
            known.destroy()
        else:
            known.suspend(ending)
