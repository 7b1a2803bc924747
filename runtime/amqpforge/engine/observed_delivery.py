"""A delivery between two others (sections 2.6.12 to 2.6.14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqpforge_protocol.amqp_1_0 import IncomingDeliveryState, OutgoingDeliveryState, TransactionalState

if TYPE_CHECKING:
    from .observed_link import ObservedLink

__all__ = ["ObservedDelivery", "news_of"]

_NOT_SENT: Final = int(OutgoingDeliveryState.NOT_SENT)
_NOT_RECEIVED: Final = int(IncomingDeliveryState.NOT_RCVD)


def news_of(state: object) -> str:
    """The name of a delivery state; inside a transaction that of the provisional outcome, if there is one."""
    if type(state) is TransactionalState and state.outcome is not None:
        state = state.outcome
    return getattr(state, "XML_NAME", "unknown")


class ObservedDelivery:
    """A message on its way between two others; told when it is settled.

    Attributes:
        link: the link.
        id: its delivery-id on the session.
        tag: its delivery-tag; empty if that was missing.
        octets: payload so far.
        frames: transfers so far.
        began: time of the first transfer, in seconds; None if unknown.
        settled: time at which an end told that it is settled; None if it is not, or the time is unknown.
        comes_settled: whether one of its transfers said so.
        settles_second: whether its receiver settles after its sender.
        is_settled: whether an end has settled it.
        outcome: the name of the latest delivery state that was told; of an aborted delivery "aborted", of one
            settled by its sender without any "pre-settled", "none" if none was told.
        sending, receiving: how far its transfers have gone at either end.
    """

    __slots__ = (
        "began",
        "comes_settled",
        "frames",
        "id",
        "is_settled",
        "link",
        "octets",
        "outcome",
        "receiving",
        "sending",
        "settled",
        "settles_second",
        "tag",
    )

    def __init__(self, link: ObservedLink, id: int, tag: bytes, began: float | None) -> None:
        self.link = link
        self.id = id
        self.tag = tag
        self.octets = 0
        self.frames = 0
        self.began = began
        self.settled: float | None = None
        self.comes_settled = False
        self.settles_second = False
        self.is_settled = False
        self.outcome = "none"
        self.sending = _NOT_SENT
        self.receiving = _NOT_RECEIVED

    def __repr__(self) -> str:
        return f"<ObservedDelivery {self.id} of {self.link!r}: {self.octets} octets, {self.outcome}>"
