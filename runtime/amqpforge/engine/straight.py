"""The short way of a whole message out of a sender: where the pump of :mod:`.sender` leads for nearly all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqpforge_protocol.amqp_1_0 import Coordinator, DeliveryNumber, OutgoingDeliveryState, Transfer

from .flow import UNLIMITED
from .output import HIGH_WATER

if TYPE_CHECKING:
    from .delivery import OutgoingDelivery
    from .sender import Sender

__all__ = ["send_straight"]

_SENT: Final = OutgoingDeliveryState.SENT
_MASK: Final = 0xFFFF_FFFF
_MOST_AROUND: Final = 128
"""Octets of a frame beside a message of no state: its header, and a transfer with a tag of 32 octets."""


def send_straight(sender: Sender, delivery: OutgoingDelivery, payload: bytes) -> bool:
    """Send a message of a sender that is open and has nothing in its queue, in one frame.

    Returns:
        Whether it is out. If not, nothing has happened: it has to wait, or there is more to it.
    """
    session, handle, flow = sender.session, sender.handle, sender.flow_state
    if session is None or handle is None or flow.link_credit <= 0 or flow.drain:
        return False
    connection, windows = session.connection, session.windows
    output = connection.output
    if (
        windows.remote_incoming_window <= 0
        or windows.outgoing_window != UNLIMITED
        or output.size >= HIGH_WATER
        or len(payload) + _MOST_AROUND > connection.peer_max_frame_size
        or delivery.state is not None
        or sender.reduced is not None
        or not session.may_write
        or type(sender.target) is Coordinator
    ):
        return False
    number: DeliveryNumber = session.next_delivery_id  # type: ignore[assignment]
    transfer = Transfer(handle=handle)  # Keywords for all of them take half as long again.
    transfer.delivery_id = number
    transfer.delivery_tag = delivery.tag
    transfer.message_format = delivery.message_format
    transfer.settled = delivery.settled
    transfer.rcv_settle_mode = delivery.rcv_settle_mode
    transfer.batchable = delivery.batchable
    output.add_frame(session.channel or 0, transfer.encode(), payload)
    session.next_delivery_id = (number + 1) & _MASK
    delivery.id = number
    if not delivery.settled:
        session.outgoing[number] = delivery
    flow.delivery_count = (flow.delivery_count + 1) & _MASK
    flow.link_credit -= 1
    windows.next_outgoing_id = (windows.next_outgoing_id + 1) & _MASK
    windows.remote_incoming_window -= 1
    delivery.offset, delivery.unsent = len(payload), 0
    delivery.progress = _SENT
    return True
