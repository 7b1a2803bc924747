"""The generated state tables, and the one way to take a step in them.

A step either leads to a state, or is ignored, or is refused: ours with a :class:`LocalError` before anything
is done, the peer's with a fault that carries the condition of the table and says what it takes down.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from amqpforge.errors import LocalError, ProtocolViolation
from amqpforge_protocol.amqp_1_0 import Error, Symbol, states

if TYPE_CHECKING:
    from .link import Link

__all__ = [
    "CONNECTION",
    "INCOMING_DELIVERY",
    "LINK",
    "OUTGOING_DELIVERY",
    "SESSION",
    "LinkFault",
    "Machine",
    "SessionFault",
    "as_error",
    "move",
    "step",
]

_LONGEST_DESCRIPTION: Final = 300  # octets; with it any error fits into a frame that every peer takes


class SessionFault(ProtocolViolation):
    """The peer broke the protocol in a way that ends the session."""


class LinkFault(ProtocolViolation):
    """The peer broke the protocol in a way that closes a link.

    Attributes:
        link: the link.
    """

    def __init__(self, link: Link, condition: str, description: str) -> None:
        super().__init__(condition, description)
        self.link = link


def as_error(fault: ProtocolViolation) -> Error:
    """What the peer is told about its fault: the description is cut, so that it goes into any frame."""
    octets = fault.description.encode(errors="replace")[:_LONGEST_DESCRIPTION]
    return Error(condition=Symbol(fault.condition), description=octets.decode(errors="ignore"))


State = TypeVar("State", bound=IntEnum)


class Machine(NamedTuple, Generic[State]):
    """A state machine: its tables, and what a fault of the peer takes down."""

    name: str
    states: type[State]
    events: type[IntEnum]
    transitions: tuple[tuple[int, ...], ...]
    conditions: tuple[tuple[str | None, ...], ...]
    reasons: tuple[tuple[str, ...], ...]
    fault: type[ProtocolViolation]


CONNECTION: Final = Machine(
    "connection",
    states.ConnectionState,
    states.ConnectionEvent,
    states.CONNECTION_TRANSITIONS,
    states.CONNECTION_CONDITIONS,
    states.CONNECTION_REASONS,
    ProtocolViolation,
)
SESSION: Final = Machine(
    "session",
    states.SessionState,
    states.SessionEvent,
    states.SESSION_TRANSITIONS,
    states.SESSION_CONDITIONS,
    states.SESSION_REASONS,
    SessionFault,
)
LINK: Final = Machine(
    "link",
    states.LinkState,
    states.LinkEvent,
    states.LINK_TRANSITIONS,
    states.LINK_CONDITIONS,
    states.LINK_REASONS,
    SessionFault,  # The conditions that the table of links names end their session.
)
OUTGOING_DELIVERY: Final = Machine(
    "delivery",
    states.OutgoingDeliveryState,
    states.OutgoingDeliveryEvent,
    states.OUTGOING_DELIVERY_TRANSITIONS,
    states.OUTGOING_DELIVERY_CONDITIONS,
    states.OUTGOING_DELIVERY_REASONS,
    SessionFault,
)
INCOMING_DELIVERY: Final = Machine(
    "delivery",
    states.IncomingDeliveryState,
    states.IncomingDeliveryEvent,
    states.INCOMING_DELIVERY_TRANSITIONS,
    states.INCOMING_DELIVERY_CONDITIONS,
    states.INCOMING_DELIVERY_REASONS,
    SessionFault,
)


def step(machine: Machine[State], state: State, event: IntEnum) -> State | None:
    """The state that ``event`` leads to from ``state``; None if the event leaves no trace.

    Raises:
        LocalError: we must not do this in this state.
        ProtocolViolation: the peer must not do this in this state; the fault that the machine names.
    """
    target = machine.transitions[state][event]
    if target >= 0:
        return machine.states(target)
    if target == states.IGNORED:
        return None
    reason = machine.reasons[state][event]
    doing = f"{machine.name} in state {state.name}: {event.name.lower().replace('_', ' ')}: {reason}"
    condition = machine.conditions[state][event]
    if target == states.LOCAL_ERROR or condition is None:
        raise LocalError(doing)
    raise machine.fault(condition, doing)


def move(machine: Machine[State], state: State, event: IntEnum) -> State:
    """The state after ``event``; the same if the event leaves no trace.

    Raises:
        LocalError: as :func:`step` does.
        ProtocolViolation: as :func:`step` does.
    """
    target = step(machine, state, event)
    return state if target is None else target
