"""A link between two others: its deliveries, and what its flow state allows (sections 2.6 and 2.7.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqpforge_protocol.amqp_1_0 import (
    Attach,
    Flow,
    IncomingDeliveryEvent,
    IncomingDeliveryState,
    LinkState,
    OutgoingDeliveryEvent,
    ReceiverSettleMode,
    Role,
    SenderSettleMode,
    Transfer,
)
from amqpforge_protocol.amqp_1_0.states import INCOMING_DELIVERY_TRANSITIONS, OUTGOING_DELIVERY_TRANSITIONS

from .delivery import is_terminal
from .flow import ReceiverFlow, SenderFlow, distance
from .observations import Reason, Rule, shortened
from .observed_delivery import ObservedDelivery, news_of
from .progress import Progress
from .tables import LINK

if TYPE_CHECKING:
    from .observed_session import SessionEnd

__all__ = ["LinkEnd", "ObservedLink"]

_RECEIVED: Final = int(IncomingDeliveryState.RECEIVED)
_EVENTS: Final = {
    (more, aborted): (int(sends), int(receives))
    for more, aborted, sends, receives in (
        (False, False, OutgoingDeliveryEvent.SEND_LAST, IncomingDeliveryEvent.RECEIVE_LAST),
        (True, False, OutgoingDeliveryEvent.SEND_PART, IncomingDeliveryEvent.RECEIVE_PART),
        (False, True, OutgoingDeliveryEvent.SEND_ABORT, IncomingDeliveryEvent.RECEIVE_ABORT),
        (True, True, OutgoingDeliveryEvent.SEND_PART_ABORT, IncomingDeliveryEvent.RECEIVE_PART_ABORT),
    )
}


class LinkEnd:
    """One end of a link.

    Attributes:
        side: the end of the session that it is at.
        progress: its state.
        handle: the handle of its frames; None before its attach and after its detach.
        closing: the handle that it has detached, and the other end has not; None: none.
        attaches: how often it has attached.
    """

    __slots__ = ("attaches", "closing", "handle", "link", "peer", "progress", "role", "side")

    def __init__(self, link: ObservedLink, role: Role, side: SessionEnd) -> None:
        self.link = link
        self.role = role
        self.side = side
        self.peer = self
        self.progress = Progress(LINK, LinkState.DETACHED)
        self.handle: int | None = None
        self.closing: int | None = None
        self.attaches = 0

    @property
    def detaches(self) -> int:
        """How often it has detached."""
        return self.attaches - (self.handle is not None)

    @property
    def is_closed(self) -> bool:
        """Whether it is closed, once all is seen that is on the way."""
        return self.progress.latest == LinkState.CLOSED


class ObservedLink:
    """A link between two others.

    Credit is judged at the capture point: each flow of the receiver moves the sender's credit as soon as it
    is captured, since the sender may have it at once. Credit that is taken back counts as given until the
    sender can have used it up: nothing tells when the sender has learned of it.

    Attributes:
        name: its name, shortened; None if its attach was not seen.
        source, target: the addresses that its attaches named; None: none, or none seen.
        sender, receiver: its two ends.
        sender_flow, receiver_flow: the flow state at either end.
        room: messages that the sender may still start by the most generous credit that it may know of.
        deliveries: begun so far.
        octets: of their payloads.
        outcomes: how many were settled, by outcome.
        attached, detached: times of the first attach and of the last detach.
        reason: the error of the first detach that carried one.
        is_refused: whether an end answered an attach without a terminus of its own.
        current: the delivery of which more transfers are to come.
        tags: the tags of its unsettled deliveries.
        is_known: whether its attaches were seen.
        settles_second: whether its receiver settles after its sender.
        max_message_size: the largest message that the receiver takes, in octets; None: any.
        drain: number of the frame that asked the sender to use up its credit; None: none waits.
    """

    __slots__ = (
        "_early",
        "_early_credit",
        "_lacks_source",
        "_may_go_on",
        "_settles",
        "attached",
        "current",
        "deliveries",
        "detached",
        "drain",
        "is_known",
        "is_refused",
        "max_message_size",
        "name",
        "octets",
        "outcomes",
        "reason",
        "receiver",
        "receiver_flow",
        "room",
        "sender",
        "sender_flow",
        "settles_second",
        "source",
        "tags",
        "target",
    )

    def __init__(self, name: str | None, sender: SessionEnd, receiver: SessionEnd) -> None:
        self.name = name
        self.is_known = name is not None
        self.source: str | None = None
        self.target: str | None = None
        self.sender = LinkEnd(self, Role.SENDER, sender)
        self.receiver = LinkEnd(self, Role.RECEIVER, receiver)
        self.sender.peer, self.receiver.peer = self.receiver, self.sender
        self.sender_flow = SenderFlow()
        self.receiver_flow = ReceiverFlow()
        self.room = 0
        self.drain: int | None = None
        self.current: ObservedDelivery | None = None
        self.tags: set[bytes] = set()
        self.settles_second = False
        self.max_message_size: int | None = None
        self.is_refused = False
        self.deliveries = 0
        self.octets = 0
        self.outcomes: dict[str, int] = {}
        self.attached: float | None = None
        self.detached: float | None = None
        self.reason: Reason | None = None
        self._settles: bool | None = None  # By its attach every delivery, or none; None: as it likes.
        self._lacks_source = False
        self._may_go_on = False
        self._early: Flow | None = None  # The last flow of the receiver ahead of the sender's attach, and
        self._early_credit = 0  # the most credit that was given in all of them.

    def __repr__(self) -> str:
        sender, receiver = self.sender.side.name, self.receiver.side.name
        return f"<ObservedLink {self.name!r} {sender} to {receiver}>"

    @property
    def unsettled(self) -> int:
        """Deliveries that were begun and not settled so far."""
        return self.deliveries - sum(self.outcomes.values())

    @property
    def is_attached(self) -> bool:
        """Whether both ends are."""
        return self.sender.handle is not None and self.receiver.handle is not None

    @property
    def shown(self) -> str:
        """The link as the texts of observations name it."""
        return "an unknown link" if self.name is None else f"link {self.name!r}"

    @property
    def is_detached(self) -> bool:
        """Whether both ends have detached, and neither is to answer the other."""
        sender, receiver = self.sender, self.receiver
        if sender.handle is not None or receiver.handle is not None:
            return False
        # Whoever attaches again only to close gets no answer (section 2.6.6).
        return sender.attaches == receiver.attaches or (sender.is_closed and receiver.is_closed)

    def count(self, outcome: str) -> None:
        """A delivery is settled."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    # --- attaching ---

    def learn(self, end: LinkEnd, attach: Attach) -> None:
        """Take over what an end says in its attach."""
        self.source = _address(attach.source) or self.source
        self.target = _address(attach.target) or self.target
        if end.role is Role.SENDER:
            has_terminus = attach.source is not None
            initial = attach.initial_delivery_count or 0
            self.sender_flow = SenderFlow(initial)
            self.receiver_flow.attached(initial)
            self.room = 0
            self.drain = None
            self._may_go_on = self.current is not None
            self.tags.clear()
            mode = attach.snd_settle_mode
            self._settles = None if mode is SenderSettleMode.MIXED else mode is SenderSettleMode.SETTLED
            self._lacks_source = not has_terminus
        else:
            has_terminus = attach.target is not None
            self.receiver_flow = ReceiverFlow()
            self.receiver_flow.attached(self.sender_flow.delivery_count)
            self._early = None
            self._early_credit = 0
            self.settles_second = attach.rcv_settle_mode is ReceiverSettleMode.SECOND
            self.max_message_size = attach.max_message_size or None
        end.attaches += 1
        self.is_refused = not has_terminus and end.peer.attaches >= end.attaches
        if self._early is not None:
            self._granted(self._early)
            self.room = max(self.room, self._early_credit)

    # --- flow ---

    def flow(self, end: LinkEnd, flow: Flow) -> None:
        """An end tells its flow state."""
        if end.role is Role.SENDER:
            self._told(end.side, flow)
        elif self._is_in_step:
            count = self.sender_flow.delivery_count
            if flow.delivery_count is not None and distance(flow.delivery_count, count) < 0:
                text = f"the receiver of {self.shown} tells delivery-count {flow.delivery_count}"
                end.side.violated(Rule.FLOW, f"{text}, and its sender is at {count}")
            self._granted(flow)
        elif self.sender.attaches < self.receiver.attaches:
            self._early = flow  # The other way round, it is about what the sender has detached since.
            self._early_credit = max(self._early_credit, flow.link_credit or 0)

    @property
    def _is_in_step(self) -> bool:
        """Whether what both ends say is about the same attachment."""
        return self.sender.attaches == self.receiver.attaches

    def _told(self, side: SessionEnd, flow: Flow) -> None:
        """The sender tells its flow state; it may have moved its delivery-count on, within the credit."""
        told, state = flow.delivery_count, self.sender_flow
        if told is None:
            side.violated(Rule.FIELD, f"a flow of the sender of {self.shown} has no delivery-count")
            return
        ahead = distance(state.delivery_count, told)
        if ahead < 0 or (ahead > max(self.room, 0) and side.peer.has_begun):
            text = f"the sender of {self.shown} tells delivery-count {told}"
            so_far = f"it was at {state.delivery_count}, with credit for {max(self.room, 0)}"
            side.violated(Rule.FLOW, f"{text}, and {so_far}")
        self.receiver_flow.told(flow)
        state.delivery_count = told
        state.link_credit -= ahead
        self.room -= ahead
        if state.link_credit <= 0:
            self.drain = None

    def _granted(self, flow: Flow) -> None:
        """A flow of the receiver: from now on the sender may know of it."""
        self._early = None
        state = self.sender_flow
        state.told(flow)
        self.receiver_flow.link_credit = state.link_credit
        self.receiver_flow.drain = flow.drain
        self.room = max(self.room, state.link_credit)
        self.drain = None
        if flow.drain and state.link_credit > 0:
            self.drain = self.sender.side.session.notes.frame

    # --- transfers ---

    def transfer(self, side: SessionEnd, transfer: Transfer, octets: int) -> None:
        """The sender sends a transfer, with so many octets of payload."""
        delivery = self.current
        if self._may_go_on:  # Attached again amid a delivery, a sender goes on with it or begins another.
            self._may_go_on = False
            if delivery is not None and transfer.delivery_id not in (None, delivery.id):
                delivery = None
        if delivery is None:
            delivery = self._first(side, transfer)
            if delivery is None:
                return
        else:
            self._check_same(side, delivery, transfer)
        was = delivery.octets
        delivery.octets = was + octets
        delivery.frames += 1
        self.octets += octets
        most = self.max_message_size
        if most is not None and was <= most < was + octets and self._is_in_step:
            text = f"delivery {delivery.id} on {self.shown} has more than {most} octets"
            side.violated(Rule.MESSAGE_SIZE, text)
        if transfer.settled:
            delivery.comes_settled = True
        if transfer.state is not None:
            delivery.outcome = news_of(transfer.state)
        sends, receives = _EVENTS[transfer.more, transfer.aborted]
        delivery.sending = max(OUTGOING_DELIVERY_TRANSITIONS[delivery.sending][sends], delivery.sending)
        delivery.receiving = INCOMING_DELIVERY_TRANSITIONS[delivery.receiving][receives]
        is_last = delivery.receiving >= _RECEIVED
        self.current = None if is_last else delivery
        if self._settles is not None:
            self._check_settled(side, delivery, transfer)
        if transfer.aborted:
            delivery.outcome = "aborted"
            side.settle(delivery)
        elif is_last and delivery.comes_settled:
            if delivery.outcome == "none":
                delivery.outcome = "pre-settled"
            side.settle(delivery)

    def _first(self, side: SessionEnd, transfer: Transfer) -> ObservedDelivery | None:
        """The delivery that a transfer begins; None if it cannot be told which one that is."""
        id, tag = transfer.delivery_id, transfer.delivery_tag
        if id is None:
            side.violated(Rule.FIELD, f"the first transfer of a delivery on {self.shown} has no delivery-id")
            return None
        expected = side.next_delivery_id
        if id != expected and expected is not None:
            side.violated(Rule.DELIVERY_ID, f"delivery-id {id} comes where {expected} is due")
        side.next_delivery_id = (id + 1) & 0xFFFF_FFFF
        self.sender_flow.sent()
        self.receiver_flow.received()
        self.room -= 1
        if self.room < 0 and self.is_known and side.peer.has_begun:
            text = f"delivery {id} on {self.shown} goes beyond the credit that its receiver gave"
            side.violated(Rule.CREDIT, text)
        if self._lacks_source:
            text = f"delivery {id} comes from the sender of {self.shown}, which has no source"
            side.violated(Rule.TERMINUS, text)
        delivery = ObservedDelivery(self, id, tag or b"", side.session.notes.time)
        self._check_tag(side, delivery, transfer)
        mode = transfer.rcv_settle_mode
        is_second = self.settles_second if mode is None else mode is ReceiverSettleMode.SECOND
        # A receiver that is told the outcome again when a delivery is resumed settles (section 3.4.6).
        delivery.settles_second = is_second and not (transfer.resume and is_terminal(transfer.state))
        self.deliveries += 1
        side.keep(delivery, is_settled=transfer.settled is True)
        return delivery

    def _check_tag(self, side: SessionEnd, delivery: ObservedDelivery, transfer: Transfer) -> None:
        tag = transfer.delivery_tag
        if tag is None:
            text = f"the first transfer of delivery {delivery.id} on {self.shown} has no delivery-tag"
            side.violated(Rule.FIELD, text)
        elif tag in self.tags and not transfer.resume:
            text = (
                f"delivery {delivery.id} has the tag {tag.hex()}, which is unsettled on {self.shown} already"
            )
            side.violated(Rule.DELIVERY_TAG, text)

    def _check_same(self, side: SessionEnd, delivery: ObservedDelivery, transfer: Transfer) -> None:
        """A later transfer may repeat what the first one said, and say nothing else."""
        id, tag = transfer.delivery_id, transfer.delivery_tag
        if id is not None and id != delivery.id:
            text = f"delivery {id} begins on {self.shown} before {delivery.id} is complete"
            side.violated(Rule.TRANSFER, text)
            side.next_delivery_id = (id + 1) & 0xFFFF_FFFF
        elif tag is not None and tag != delivery.tag:
            text = f"a later transfer of delivery {delivery.id} has another delivery-tag than the first"
            side.violated(Rule.TRANSFER, text)

    def _check_settled(self, side: SessionEnd, delivery: ObservedDelivery, transfer: Transfer) -> None:
        """An end that announced so settles each delivery by its last transfer, or none (section 2.7.5)."""
        if transfer.aborted:
            return
        if self._settles and not delivery.comes_settled and self.current is None:
            mode, what = "settled", "is not settled"
        elif not self._settles and transfer.settled:
            mode, what = "unsettled", "comes settled"
        else:
            return
        text = f"delivery {delivery.id} {what} on {self.shown}, whose snd-settle-mode is {mode}"
        side.violated(Rule.SETTLE_MODE, text)


def _address(terminus: object) -> str | None:
    address = getattr(terminus, "address", None)
    return None if address is None else shortened(str(address))
