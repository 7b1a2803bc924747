"""Flow control as arithmetic: the windows of a session and the credit of a link, for either end, without I/O.

Whoever knows the frames that go each way can keep these numbers: an endpoint of ours, or an observer that
stands between two others. All ids and counts are 32-bit serial numbers (RFC 1982) and wrap; windows and
credits are plain counts.

Section 2.5.6 for sessions, 2.6.7 for links.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amqpforge_protocol.amqp_1_0 import Begin, Flow, SequenceNo, TransferNumber

__all__ = ["UNLIMITED", "ReceiverFlow", "SenderFlow", "SessionWindows", "advance", "distance"]

UNLIMITED = 0x7FFF_FFFF
"""The largest window that serial arithmetic can tell from a negative one."""

_MASK = 0xFFFF_FFFF
_HALF = 0x8000_0000


def advance(number: int, steps: int) -> int:
    """The serial number ``steps`` further on."""
    return (number + steps) & _MASK


def distance(start: int, stop: int) -> int:
    """How many steps lead from ``start`` to ``stop``, negative if it lies behind; of two ways the shorter
    one.
    """
    return ((stop - start + _HALF) & _MASK) - _HALF


class SessionWindows:
    """How many transfer frames may go each way on a session, as one end counts them (section 2.5.6).

    Attributes:
        initial_outgoing_id: the transfer-id of our first transfer frame.
        next_outgoing_id: that of our next one.
        outgoing_window: frames that we could send now, did the peer set no limit.
        next_incoming_id: the transfer-id expected next; None before the peer's begin.
        incoming_window: frames that the peer may still send.
        remote_incoming_window: frames that the peer still takes.
        remote_outgoing_window: frames that the peer could send now.
    """

    __slots__ = (
        "incoming_window",
        "initial_outgoing_id",
        "next_incoming_id",
        "next_outgoing_id",
        "outgoing_window",
        "remote_incoming_window",
        "remote_outgoing_window",
    )

    def __init__(self, next_outgoing_id: int, incoming_window: int, outgoing_window: int) -> None:
        self.initial_outgoing_id = next_outgoing_id
        self.next_outgoing_id = next_outgoing_id
        self.outgoing_window = outgoing_window
        self.next_incoming_id: int | None = None
        self.incoming_window = incoming_window
        self.remote_incoming_window = 0
        self.remote_outgoing_window = 0

    def begun(self, begin: Begin) -> None:
        """The peer's begin is in."""
        self.next_incoming_id = begin.next_outgoing_id
        # Frames may have gone out before the window was known, within what every peer takes.
        sent = distance(self.initial_outgoing_id, self.next_outgoing_id)
        self.remote_incoming_window = begin.incoming_window - sent
        self.remote_outgoing_window = begin.outgoing_window

    def sent(self) -> None:
        """A transfer frame goes out."""
        self.next_outgoing_id = (self.next_outgoing_id + 1) & _MASK
        self.remote_incoming_window -= 1

    def received(self) -> bool:
        """A transfer frame comes in; returns whether our window allowed it."""
        self.next_incoming_id = ((self.next_incoming_id or 0) + 1) & _MASK
        self.remote_outgoing_window -= 1
        self.incoming_window -= 1
        return self.incoming_window >= 0

    def told(self, flow: Flow) -> None:
        """A flow comes in, of whatever link or none."""
        self.next_incoming_id = flow.next_outgoing_id
        self.remote_outgoing_window = flow.outgoing_window
        seen = self.initial_outgoing_id if flow.next_incoming_id is None else flow.next_incoming_id
        self.remote_incoming_window = flow.incoming_window - distance(seen, self.next_outgoing_id)

    def state(self) -> Flow:
        """A flow that tells the windows, and nothing of any link."""
        known = self.next_incoming_id
        return Flow(
            next_incoming_id=None if known is None else TransferNumber(SequenceNo(known)),
            incoming_window=max(self.incoming_window, 0),
            next_outgoing_id=TransferNumber(SequenceNo(self.next_outgoing_id)),
            outgoing_window=self.outgoing_window,
        )


class SenderFlow:
    """The flow state of a link as its sender keeps it (section 2.6.7).

    Attributes:
        initial_delivery_count: what our first attach told.
        delivery_count: messages sent so far, counted on from there.
        link_credit: messages that may still be started; the limit is the receiver's alone to move. Negative
            after the receiver took credit back that was used already.
        available: messages that could be sent had we the credit.
        drain: whether the receiver wants credit that we cannot use to be used up.
        properties: what else the receiver's latest flow with properties told; None: nothing.
    """

    __slots__ = (
        "available",
        "delivery_count",
        "drain",
        "initial_delivery_count",
        "link_credit",
        "properties",
    )

    def __init__(self, delivery_count: int = 0) -> None:
        self.initial_delivery_count = delivery_count
        self.delivery_count = delivery_count
        self.link_credit = 0
        self.available = 0
        self.drain = False
        self.properties: Mapping[str, Any] | None = None

    def sent(self) -> None:
        """A message is started."""
        self.delivery_count = (self.delivery_count + 1) & _MASK
        self.link_credit -= 1

    def told(self, flow: Flow) -> None:
        """The receiver's flow comes in; without a delivery-count it has not seen our attach yet."""
        seen = self.initial_delivery_count if flow.delivery_count is None else flow.delivery_count
        self.link_credit = (flow.link_credit or 0) - distance(seen, self.delivery_count)
        self.drain = flow.drain
        if flow.properties is not None:
            self.properties = flow.properties

    def drained(self) -> None:
        """All credit is used up for want of messages."""
        if self.link_credit > 0:
            self.delivery_count = advance(self.delivery_count, self.link_credit)
            self.link_credit = 0

    def state(self, flow: Flow) -> Flow:
        """The same flow, which now tells the state of this link too."""
        flow.delivery_count = SequenceNo(self.delivery_count)
        flow.link_credit = max(self.link_credit, 0)
        flow.available = self.available
        flow.drain = self.drain
        return flow


class ReceiverFlow:
    """The flow state of a link as its receiver keeps it (section 2.6.7).

    Attributes:
        delivery_count: the sender's count as far as it is known; None before its attach.
        link_credit: messages that the sender may still start.
        available: messages that the sender said it could send, less those that came since.
        drain: whether we want credit that the sender cannot use to be used up.
    """

    __slots__ = ("available", "delivery_count", "drain", "link_credit")

    def __init__(self) -> None:
        self.delivery_count: int | None = None
        self.link_credit = 0
        self.available = 0
        self.drain = False

    def attached(self, delivery_count: int) -> None:
        """The sender's attach is in."""
        self.delivery_count = delivery_count

    def received(self) -> bool:
        """A message is started by the sender; returns whether our credit allowed it."""
        self.delivery_count = ((self.delivery_count or 0) + 1) & _MASK
        if self.available:
            self.available -= 1
        self.link_credit -= 1
        return self.link_credit >= 0

    def told(self, flow: Flow) -> None:
        """The sender's flow comes in: it may have moved its count on, which uses credit up."""
        if flow.delivery_count is not None and self.delivery_count is not None:
            self.link_credit -= distance(self.delivery_count, flow.delivery_count)
            self.delivery_count = flow.delivery_count
        if flow.available is not None:
            self.available = flow.available

    def state(self, flow: Flow) -> Flow:
        """The same flow, which now tells the state of this link too."""
        if self.delivery_count is not None:
            flow.delivery_count = SequenceNo(self.delivery_count)
        flow.link_credit = max(self.link_credit, 0)
        flow.available = self.available
        flow.drain = self.drain
        return flow
