"""Resuming deliveries on the links of this engine, as :mod:`.resume` decides it (section 2.6.13)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from amqpforge.errors import ProtocolViolation
from amqpforge_protocol.amqp_1_0 import (
    AmqpError,
    Error,
    Handle,
    IncomingDeliveryState,
    Modified,
    OutgoingDeliveryState,
    Received,
    Released,
    Role,
    SenderSettleMode,
    Transfer,
)

from .delivery import is_terminal, passed
from .resume import (
    ABSENT,
    Conclude,
    Continue,
    Incoming,
    Later,
    NoAnswer,
    NoResume,
    Outgoing,
    ResumeAborted,
    ResumePayload,
    ResumeState,
    answer_resumed,
    plan_resumption,
    read_unsettled,
    receiver_map,
    sender_map,
    settled_by_absence,
)
from .sections import Sections
from .tables import LinkFault

if TYPE_CHECKING:
    from .delivery import IncomingDelivery, OutgoingDelivery
    from .receiver import Receiver
    from .sender import Sender

__all__ = [
    "received_states",
    "resume_late",
    "resume_receiving",
    "resume_sending",
    "send_resumed",
    "suspend_sending",
    "take_resumed",
    "unnumber",
    "unsettled_states",
]

_NOT_SENT = OutgoingDeliveryState.NOT_SENT
_SENT = OutgoingDeliveryState.SENT
_MOST_FRUITLESS = 2
"""Attempts to resume in a row that bring nothing, of which the last is given up."""


# --- The sender


def unsettled_states(unsettled: Mapping[bytes, OutgoingDelivery]) -> dict[bytes, Any]:
    """The unsettled map of a sender: the deliveries of which something was sent."""
    return sender_map(_begun(unsettled))


def suspend_sending(sender: Sender) -> None:
    """The endpoint of a sender is gone: what was begun waits to be resumed, what was not stays queued."""
    sender.told_map = sender.has_told = False
    sender.reduced = None
    begun = [one for one in sender.queue if one.progress is not _NOT_SENT]
    if begun:
        sender.queue = deque(one for one in sender.queue if one.progress is _NOT_SENT)
    for delivery in (*sender.unsettled.values(), *begun):
        unnumber(delivery)
    if sender.session is not None:
        sender.session.pump()
    for delivery in [one for one in sender.unsettled.values() if one.settled and one.progress is _SENT]:
        del sender.unsettled[delivery.tag]
    for delivery in begun:
        if delivery.settled:  # Nobody will ask for the rest.
            delivery.progress = OutgoingDeliveryState.ABORTED
            sender.unsettled.pop(delivery.tag, None)
            if delivery.remote_settled:
                delivery.end()
            else:
                delivery.lose()
                sender.tell_news(delivery)


def unnumber(delivery: OutgoingDelivery) -> None:
    """The delivery-id means nothing any more, nor do the transfers that count in the session's window."""
    session = delivery.link.session
    if session is not None and delivery.id is not None:
        session.outgoing.pop(delivery.id, None)
        session.windows.outgoing_window += delivery.frames
    delivery.id = delivery.resuming = None
    delivery.frames = 0
    delivery.is_restated = False


def resume_sending(sender: Sender) -> None:
    """Decide on each delivery of a sender that was resumed, and put those that go out into its queue, ahead
    of what was never sent.
    """
    sender.reduced = None
    if not sender.told_map and sender.remote_unsettled is None:
        return  # It was attached, or attached again: there is nothing to compare.
    theirs = read_unsettled(sender.remote_unsettled)
    plan = plan_resumption(
        _begun(sender.unsettled),
        theirs,
        sent_incomplete=sender.incomplete,
        got_incomplete=sender.remote_incomplete,
    )
    resumed, waiting, anew = [], [], []
    for tag, decision in plan.decisions.items():
        delivery = sender.unsettled[tag]
        state = theirs.get(tag, ABSENT)
        if state is not ABSENT:
            delivery.remote_state = state
        if decision is NoResume.KEEP:
            continue
        if (
            isinstance(decision, ResumeState)
            and decision.settled
            and not (sender.auto_settle or delivery.settled)
        ):
            # The receiver settles as soon as it reads that its outcome is in force: it must be by then.
            delivery.resuming = Later.WHEN_SETTLED
            waiting.append(delivery)
            sender.tell_news(delivery)
        elif not isinstance(decision, NoResume):
            delivery.resuming = decision
            resumed.append(delivery)
        elif delivery.settled:
            sender.drop(delivery)
        elif _after_loss(sender, delivery, decision):
            anew.append(delivery)
    sender.own_queue().extendleft(reversed(resumed + anew))
    if plan.is_partial:
        _reduce(sender, resumed + waiting, is_stuck=plan.is_stuck)
    else:
        sender.fruitless = 0


def _reduce(sender: Sender, resumed: list[OutgoingDelivery], *, is_stuck: bool) -> None:
    """A map was incomplete: first settle what both ends know of, then resume once more."""
    if resumed:
        sender.fruitless = 0
        sender.reduced = {delivery.tag for delivery in resumed}
        return
    sender.fruitless += 1
    if is_stuck or sender.fruitless >= _MOST_FRUITLESS:
        text = "what is unsettled does not fit into the attaches, and neither end knows what the other tells"
        sender.detach(Error(condition=AmqpError.FRAME_SIZE_TOO_SMALL, description=text))
    else:
        sender.resume_again()


def resume_late(sender: Sender, delivery: OutgoingDelivery) -> None:
    """The application has settled a delivery that waited for that, or aborted it: the receiver is told with
    the resuming transfer, ahead of what was never sent.
    """
    queue = sender.own_queue()
    queue.insert(bool(queue) and queue[0].progress is OutgoingDeliveryState.SENDING, delivery)
    sender.pump()


def send_resumed(
    sender: Sender,
    delivery: OutgoingDelivery,
    decision: ResumePayload | ResumeState | ResumeAborted | Later,
) -> None:
    """Send the first transfer of a delivery, the first in the queue, that was resumed."""
    delivery.resuming = None
    if delivery.is_aborted:
        sender.send_abort(delivery, resume=True)
    elif delivery.settled:
        _send_settlement(sender, delivery)
    elif isinstance(decision, ResumePayload):
        _send_rest(sender, delivery, decision)
    elif isinstance(decision, ResumeState):
        _send_outcome(sender, delivery, decision)
    elif isinstance(decision, ResumeAborted):
        sender.queue.popleft()
        transfer = Transfer(handle=Handle(sender.handle or 0), aborted=True)
        sender.write_transfer(delivery, transfer, resume=True)
        if _after_loss(sender, delivery, decision.then):
            sender.own_queue().append(delivery)


def _send_rest(sender: Sender, delivery: OutgoingDelivery, decision: ResumePayload) -> None:
    session = sender.session
    if session is None:
        return
    state, offset = decision.start()
    if delivery.payload is not None:
        delivery.unsent = len(delivery.payload) - offset
        delivery.offset = offset
    elif offset > delivery.offset:  # The receiver has more than we know to be sent.
        delivery.take(offset - delivery.offset)
    transfer = Transfer(
        handle=Handle(sender.handle or 0),
        delivery_id=session.number(delivery),
        delivery_tag=delivery.tag,
        message_format=delivery.message_format,
        settled=delivery.settled,
        state=state,
        resume=True,
    )
    sender.flow_state.sent()
    sender.write_piece(delivery, transfer, session)


def _send_settlement(sender: Sender, delivery: OutgoingDelivery) -> None:
    """Tell of a delivery that was settled while the link was resumed."""
    session = sender.session
    sender.queue.popleft()
    delivery.settled = sender.snd_settle_mode is not SenderSettleMode.UNSETTLED
    transfer = Transfer(handle=Handle(sender.handle or 0), settled=delivery.settled)
    if sender.can_tell(delivery.state):
        transfer.state = delivery.state
    sender.write_transfer(delivery, transfer, resume=True)
    if not delivery.settled and session is not None and delivery.id is not None:
        session.dispose(Role.SENDER, delivery.id, delivery.id, transfer.state, True)
        delivery.settled = True
    sender.drop(delivery)


def _send_outcome(sender: Sender, delivery: OutgoingDelivery, decision: ResumeState) -> None:
    sender.queue.popleft()
    settles = decision.settled
    delivery.state = decision.state
    delivery.settled = settles and sender.snd_settle_mode is not SenderSettleMode.UNSETTLED
    delivery.progress = _SENT
    transfer = Transfer(handle=Handle(sender.handle or 0), settled=delivery.settled)
    if sender.can_tell(decision.state):
        transfer.state = decision.state
    sender.write_transfer(delivery, transfer, resume=True)
    if delivery.settled:
        sender.drop(delivery)
    elif settles:
        delivery.settle()
    if decision.settled:
        sender.tell_news(delivery)


def _after_loss(sender: Sender, delivery: OutgoingDelivery, then: NoResume) -> bool:
    """Deal with a delivery that the receiver has not got; returns whether to send it anew."""
    if then is NoResume.FORGET:
        delivery.settled = True
        sender.drop(delivery)
        sender.tell_news(delivery)
        return False
    payload = delivery.payload
    if then is NoResume.REPORT_LOSS or not sender.resends or payload is None:
        sender.lose_delivery(delivery)
        return False
    delivery.offset, delivery.unsent = 0, len(payload)
    delivery.id = None
    delivery.progress = _NOT_SENT
    delivery.remote_state = None
    return True


def _begun(unsettled: Mapping[bytes, OutgoingDelivery]) -> dict[bytes, Outgoing]:
    return {
        tag: _held_by_sender(delivery)
        for tag, delivery in unsettled.items()
        if delivery.progress is not _NOT_SENT and not delivery.is_aborted
    }


def _held_by_sender(delivery: OutgoingDelivery) -> Outgoing:
    outcome = delivery.state if is_terminal(delivery.state) else None
    is_sent = delivery.progress is _SENT
    if delivery.payload is not None:
        sections, held_from = passed(Sections(), delivery.payload), 0
    else:
        sections = delivery.sections or Sections()
        held_from = delivery.offset
    # Accepted may come into force later; what was let go is not completed (sections 3.4.4 and 3.4.5).
    is_let_go = type(outcome) is Released or type(outcome) is Modified
    return Outgoing(
        sections=sections,
        held_from=held_from,
        has_message=delivery.payload is not None,
        outcome=outcome,
        may_resume=outcome is None or not (is_sent or is_let_go),
    )


# --- The receiver


def received_states(unsettled: Mapping[bytes, IncomingDelivery]) -> dict[bytes, Any]:
    """The unsettled map of a receiver, without the deliveries of which nothing came."""
    known = {tag: delivery for tag, delivery in unsettled.items() if not _is_empty(delivery)}
    states = receiver_map({tag: _held_by_receiver(delivery) for tag, delivery in known.items()})
    for tag in known.keys() - states.keys():  # Whole, and without an octet: it must not come anew.
        states[tag] = Received(section_number=0, section_offset=0)
    return states


def _is_empty(delivery: IncomingDelivery) -> bool:
    """Whether a delivery has only begun: it comes anew (section 3.4.6, tag 4)."""
    return not (delivery.size or delivery.is_complete or is_terminal(delivery.state))


def resume_receiving(receiver: Receiver) -> None:
    """See what the sender has settled while the link was suspended: it is not in its map any more."""
    if not receiver.told_map and receiver.remote_unsettled is None:
        return
    if receiver.told_map:
        for delivery in [one for one in receiver.unsettled.values() if _is_empty(one)]:
            receiver.give_up(delivery)
    theirs = read_unsettled(receiver.remote_unsettled)
    is_complete = not receiver.remote_incomplete
    for tag in settled_by_absence(list(receiver.unsettled), theirs, is_complete=is_complete):
        delivery = receiver.unsettled[tag]
        delivery.remote_settled = True
        if delivery.settled:  # Only what it came to could not be told.
            del receiver.unsettled[tag]
            continue
        receiver.hold(delivery)
        if delivery.is_complete:
            receiver.hear(delivery)
        else:
            receiver.give_up(delivery)
        receiver.tell_news(delivery)


def take_resumed(receiver: Receiver, transfer: Transfer, payload: bytes) -> IncomingDelivery | None:
    """Take a delivery up again; None if its transfers are of no more use.

    Raises:
        LinkFault: its payload does not continue what came before.
    """
    known = receiver.unsettled.get(transfer.delivery_tag or b"")
    if known is not None and known.settled:
        _settle_late(receiver, known, transfer)
        return None
    try:
        answer = answer_resumed(None if known is None else _held_by_receiver(known), transfer, payload)
    except ProtocolViolation as fault:
        raise LinkFault(receiver, fault.condition, fault.description) from fault
    session, id = receiver.session, transfer.delivery_id
    receiver.ignores = transfer.more and not transfer.aborted
    if known is None or session is None or id is None or answer is NoAnswer.IGNORE:
        receiver.top_up()
        return None
    if known.id is not None:
        session.incoming.pop(known.id, None)
    known.id = id
    session.incoming[id] = known
    known.resumed = True
    known.rcv_settle_mode = receiver.rcv_settle_mode
    known.batchable = False
    if isinstance(answer, Conclude):
        _conclude(receiver, known, transfer, answer)
        return None
    receiver.hold(known)
    if answer is NoAnswer.DISCARD or isinstance(answer, Continue):
        receiver.ignores = False
        known.skip = answer.skip if isinstance(answer, Continue) else 0
        return known
    known.update()
    return None


def _settle_late(receiver: Receiver, delivery: IncomingDelivery, transfer: Transfer) -> None:
    """Tell of a delivery that was settled while the link was resumed."""
    session, id = receiver.session, transfer.delivery_id
    del receiver.unsettled[delivery.tag]
    receiver.ignores = transfer.more and not transfer.aborted
    receiver.top_up()
    if session is not None and id is not None and not (transfer.settled or transfer.aborted):
        told = delivery.state if receiver.can_tell(delivery.state) else None
        session.dispose(Role.RECEIVER, id, id, told, True)


def _conclude(receiver: Receiver, delivery: IncomingDelivery, transfer: Transfer, answer: Conclude) -> None:
    """The outcome is known at the source: it holds here too."""
    session = receiver.session
    delivery.remote_state = delivery.state = answer.outcome
    delivery.remote_settled = bool(transfer.settled)
    if answer.echo and session is not None and delivery.id is not None:
        told = answer.outcome if receiver.can_tell(answer.outcome) else None
        session.dispose(Role.RECEIVER, delivery.id, delivery.id, told, True)
    if delivery.is_complete:
        receiver.settle(delivery)
    else:
        receiver.give_up(delivery)
    receiver.tell_news(delivery)


def _held_by_receiver(delivery: IncomingDelivery) -> Incoming:
    octets = delivery.payload or b"".join(delivery.parts)
    return Incoming(
        sections=delivery.sections if delivery.sections is not None else passed(Sections(), octets),
        is_finished=delivery.progress is IncomingDeliveryState.RECEIVED,
        outcome=delivery.state if is_terminal(delivery.state) else None,
    )
