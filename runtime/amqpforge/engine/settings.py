"""What one end of a connection, and of a session, asks for and offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from amqpforge_protocol.amqp_1_0 import DEFAULT_LIMITS, MIN_MAX_FRAME_SIZE, Limits, ProtocolHeader, Symbol

from .flow import UNLIMITED

__all__ = ["ConnectionSettings", "SessionSettings"]

_MOST: Final = 0xFFFF_FFFF


def _check(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"{name} is {least} to {most}, not {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """What our end of a session tells in its begin (section 2.7.2).

    Attributes:
        incoming_window: transfer frames that the peer may send ahead of their being taken, 1 to 2^31 - 1. The
            window is opened again whenever half of it is used.
        outgoing_window: transfer frames of deliveries not settled yet that we may have out, 1 to 2^31 - 1;
            the greatest value sets no limit.
        handle_max: the highest handle that the peer may use, 0 to 2^32 - 1; so there are at most ``handle_max
            + 1`` links.
        next_outgoing_id: transfer-id of our first transfer frame, 0 to 2^32 - 1.
        next_delivery_id: delivery-id of our first delivery, 0 to 2^32 - 1.
        offered_capabilities: extensions that we have.
        desired_capabilities: extensions that we would use.
        properties: anything else.
    """

    incoming_window: int = 2048
    outgoing_window: int = UNLIMITED
    handle_max: int = 65_535
    next_outgoing_id: int = 0
    next_delivery_id: int = 0
    offered_capabilities: tuple[Symbol, ...] = ()
    desired_capabilities: tuple[Symbol, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises ValueError for a number out of its range."""
        _check("incoming_window", self.incoming_window, 1, UNLIMITED)
        _check("outgoing_window", self.outgoing_window, 1, UNLIMITED)
        _check("handle_max", self.handle_max, 0, _MOST)
        _check("next_outgoing_id", self.next_outgoing_id, 0, _MOST)
        _check("next_delivery_id", self.next_delivery_id, 0, _MOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """What our end of a connection tells in its open (section 2.7.1), and how long it waits.

    All times are in seconds.

    Attributes:
        hostname: the host, or virtual host, that the client wants; a server gives the one it takes if open
            names none.
        max_frame_size: the largest frame that we take, and that we write, in octets, 512 to 2^32 - 1.
        channel_max: the highest channel that the peer may use, and that we do, 0 to 65535.
        idle_time_out: how long the peer may be silent before we close; half of it is announced (section
            2.4.5). None: for ever.
        least_idle_time_out: an idle-time-out of the peer shorter than this cannot be kept, and the connection
            is closed.
        assumed_idle_time_out: what to keep to as long as the peer has announced no idle-time-out; None:
            nothing.
        close_time_out: how long to wait for the answer to a close before the transport is dropped.
        locales: languages of the texts that we send, the best first; en-US is always there.
        offered_capabilities: extensions that we have.
        desired_capabilities: extensions that we would use.
        required_capabilities: extensions without which the connection is closed.
        properties: anything else.
        versions: protocol headers that we speak, the preferred one first.
        auto_answer: answer the protocol header, begin, end, detach and close of the peer at once.
        session: settings of the sessions that the peer begins.
        limits: bounds of decoding.
    """

    hostname: str | None = None
    max_frame_size: int = 65_536
    channel_max: int = 1023
    idle_time_out: float | None = None
    least_idle_time_out: float = 0.01
    assumed_idle_time_out: float | None = None
    close_time_out: float = 10.0
    locales: tuple[str, ...] = ()
    offered_capabilities: tuple[Symbol, ...] = ()
    desired_capabilities: tuple[Symbol, ...] = ()
    required_capabilities: tuple[Symbol, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    versions: tuple[ProtocolHeader, ...] = (ProtocolHeader(),)
    auto_answer: bool = True
    session: SessionSettings = SessionSettings()
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        """Raises ValueError for a number out of its range, or if there is no version."""
        _check("max_frame_size", self.max_frame_size, MIN_MAX_FRAME_SIZE, _MOST)
        _check("channel_max", self.channel_max, 0, 65_535)
        for name in ("idle_time_out", "assumed_idle_time_out"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise ValueError(f"{name} is None or more than 0 seconds, not {seconds}")
        if not self.close_time_out >= 0:
            raise ValueError(f"close_time_out is 0 seconds or more, not {self.close_time_out}")
        if not self.versions:
            raise ValueError("versions names one protocol header at least")
