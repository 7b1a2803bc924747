"""The sending end of a link: its queue, its credit, and the cutting of messages into transfers (sections
2.6.7 and 2.6.14).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    FRAME_HEADER_SIZE,
    Attach,
    Coordinator,
    DeliveryTag,
    Flow,
    Handle,
    LinkEvent,
    LinkState,
    MessageFormat,
    OutgoingDeliveryState,
    Received,
    ReceiverSettleMode,
    Role,
    SenderSettleMode,
    SequenceNo,
    Transfer,
)

from .delivery import OutgoingDelivery, check_format, is_terminal
from .events import Credit
from .flow import UNLIMITED, SenderFlow
from .link import Link
from .output import HIGH_WATER
from .resume import Later
from .resumption import resume_late, resume_sending, send_resumed, suspend_sending, unnumber, unsettled_states
from .straight import send_straight
from .tables import LINK, step

if TYPE_CHECKING:
    from amqpforge_protocol.amqp_1_0.archetypes import AnyDeliveryState

    from .peer_end import PeerEnd
    from .session import Session

__all__ = ["Sender"]

_LONGEST_TAG: Final = 32
_NOT_SENT: Final = OutgoingDeliveryState.NOT_SENT
_SENDING: Final = OutgoingDeliveryState.SENDING
_SENT: Final = OutgoingDeliveryState.SENT
_WHEN_SETTLED: Final = Later.WHEN_SETTLED
_AMQP: Final = MessageFormat(0)
_MIXED: Final = SenderSettleMode.MIXED
_SETTLED: Final = SenderSettleMode.SETTLED
_UNSETTLED: Final = SenderSettleMode.UNSETTLED
_OVER: Final = frozenset(
    (
        LinkState.REFUSED,
        LinkState.CLOSE_SENT,
        LinkState.CLOSE_RCVD,
        LinkState.CLOSE_CROSSED,
        LinkState.CLOSE_OWED,
        LinkState.CLOSED,
    )
)

_NO_QUEUE: Final[deque[OutgoingDelivery]] = deque(maxlen=0)
"""The queue of every sender that has sent nothing: one of its own takes as much as half of the rest."""


class Sender(Link):
    """The end of a link that sends.

    Attributes:
        flow_state: delivery-count and credit.
        queue: deliveries of which not all is sent, in order.
        unsettled: deliveries that are not settled, by tag; those that wait in the queue included.
        backlog: counts messages that could be sent beyond those in the queue, to be told as available.
        auto_drain: use up the credit of a receiver that drains as soon as nothing can be sent and there is no
            backlog; without it the application calls :meth:`drained`.
        resends: after a resume, send messages anew that the receiver turns out not to have; without it they
            are given up, and reported as lost.
        reduced: if what is unsettled did not fit into the attaches, so that only resumed deliveries are sent:
            the tags of those that are not settled yet; else None.
    """

    __slots__ = (
        "_next_tag",
        "auto_drain",
        "backlog",
        "flow_state",
        "fruitless",
        "queue",
        "reduced",
        "resends",
        "unsettled",
    )

    role: ClassVar[Role] = Role.SENDER

    def __init__(
        self,
        name: str,
        *,
        initial_delivery_count: int = 0,
        unsettled: Iterable[OutgoingDelivery] = (),
        **options: Any,
    ) -> None:
        """The options are those of :class:`.terminus.Terminus`; ``unsettled`` are deliveries that another
        endpoint of the link has left, see :meth:`restore` for those of another process.
        """
        super().__init__(name, **options)
        self.flow_state = SenderFlow(initial_delivery_count)
        self.queue = _NO_QUEUE
        self.unsettled: dict[bytes, OutgoingDelivery] = {}
        self.backlog: Callable[[], int] = int  # It returns 0.
        self.auto_drain = True
        self.resends = True
        self.reduced: set[bytes] | None = None
        self.fruitless = 0  # Attempts to resume in a row that brought nothing.
        self._next_tag = 0
        for delivery in unsettled:
            delivery.link = self
            delivery.id = delivery.resuming = None
            delivery.frames = 0
            self.unsettled[delivery.tag] = delivery
            self._brings_map = True
            if delivery.progress is _NOT_SENT:
                self.own_queue().append(delivery)

    def restore(
        self,
        tag: bytes,
        payload: bytes,
        *,
        state: AnyDeliveryState | None = None,
        message_format: int = 0,
    ) -> OutgoingDelivery:
        """Put back a delivery that was sent before and is not settled, so that attaching resumes it.

        Args:
            tag: its delivery-tag.
            payload: the encoded message.
            state: its state at this end; an outcome here means that the message is not sent again.
            message_format: what the octets are.

        Raises:
            LocalError: the link is attached, the tag is too long or in use, or the state is none.
        """
        if self.session is not None or self.state is LinkState.CLOSED:
            raise LocalError(f"{self!r} is attached or closed: nothing can be restored to it")
        if state is not None:
            self.check_state(state)
        tag = self._check_tag(tag)
        delivery = OutgoingDelivery(self, tag, payload, False, state, check_format(message_format))
        delivery.progress = _SENT
        delivery.offset, delivery.unsent = len(payload), 0
        self.unsettled[tag] = delivery
        self._brings_map = True
        return delivery

    # --- sending ---

    def send(
        self,
        payload: bytes,
        *,
        tag: bytes | None = None,
        settled: bool | None = None,
        state: AnyDeliveryState | None = None,
        message_format: int = 0,
        rcv_settle_mode: ReceiverSettleMode | None = None,
        batchable: bool = False,
    ) -> OutgoingDelivery:
        """Queue a whole message; it goes out as soon as credit and windows allow.

        Args:
            payload: the encoded message.
            tag: the delivery-tag, at most 32 octets; None: one is made.
            settled: send it settled, and never hear of it again; None: as snd-settle-mode asks, unsettled if
                both will do.
            state: its state at this end.
            message_format: what the octets are, 0 to 2^32 - 1.
            rcv_settle_mode: how the receiver is to settle it; None: as the link does.
            batchable: whether news of it can wait.

        Raises:
            LocalError: the link is closed, was refused or does not allow it, the tag is too long or in use,
                the state is none, or the message is larger than the receiver takes.
        """
        delivery = self._admit(payload, tag, settled, state, message_format, rcv_settle_mode, batchable)
        if self.queue or not self.is_open:
            self.own_queue().append(delivery)
        elif not send_straight(self, delivery, payload):
            self.own_queue().append(delivery)
            self.pump()
        return delivery

    def start_message(
        self,
        *,
        tag: bytes | None = None,
        settled: bool | None = None,
        state: AnyDeliveryState | None = None,
        message_format: int = 0,
        rcv_settle_mode: ReceiverSettleMode | None = None,
        batchable: bool = False,
    ) -> OutgoingDelivery:
        """Begin a message that is written piece by piece, with ``write`` and ``finish``; nothing of it is
        kept once sent.

        Raises:
            LocalError: as :meth:`send` does.
        """
        delivery = self._admit(None, tag, settled, state, message_format, rcv_settle_mode, batchable)
        self.own_queue().append(delivery)
        return delivery

    def own_queue(self) -> deque[OutgoingDelivery]:
        """The queue, to add to it."""
        if self.queue is _NO_QUEUE:
            self.queue = deque()
        return self.queue

    def _admit(
        self,
        payload: bytes | None,
        tag: bytes | None,
        settled: bool | None,
        state: AnyDeliveryState | None,
        message_format: int,
        rcv_settle_mode: ReceiverSettleMode | None,
        batchable: bool,
    ) -> OutgoingDelivery:
        mode = self.snd_settle_mode
        if settled is None:
            settled = mode is _SETTLED
        elif mode is not _MIXED and settled is not (mode is _SETTLED):
            raise LocalError(f"the snd-settle-mode of {self!r} is {mode.name.lower()}")
        if not self.is_open or rcv_settle_mode is not None:
            self._check_open(rcv_settle_mode)
        if state is not None:
            self.check_state(state)
        if payload is not None:
            self.check_size(len(payload))
        checked = self._new_tag() if tag is None else self._check_tag(tag)
        delivery = OutgoingDelivery(
            self,
            checked,
            payload,
            settled,
            state,
            check_format(message_format) if message_format else _AMQP,
            rcv_settle_mode,
            batchable,
        )
        if not settled:
            self.unsettled[checked] = delivery
        return delivery

    def _new_tag(self) -> DeliveryTag:
        while True:
            tag = self._next_tag.to_bytes(4, "big")
            self._next_tag = (self._next_tag + 1) & 0xFFFF_FFFF
            if tag not in self.unsettled:
                return tag  # type: ignore[return-value]

    def _check_tag(self, tag: bytes) -> DeliveryTag:
        if len(tag) > _LONGEST_TAG:
            raise LocalError(f"a delivery-tag has at most {_LONGEST_TAG} octets, not {len(tag)}")
        if tag in self.unsettled:
            raise LocalError(f"the delivery-tag {tag.hex()} is that of an unsettled delivery")
        return DeliveryTag(tag)

    def check_size(self, size: int) -> None:
        """Check that the receiver takes a message of so many octets, as far as is known.

        Raises:
            LocalError: it does not.
        """
        remote = self.remote
        most = remote.max_message_size if remote is not None else None
        if most and size > most:
            raise LocalError(f"a message of {size} octets exceeds the receiver's max-message-size of {most}")

    def check_state(self, state: AnyDeliveryState) -> None:
        super().check_state(state)
        if type(state) is Received:
            raise LocalError("a sender tells the state received only when it resumes a delivery")

    def _check_open(self, rcv_settle_mode: ReceiverSettleMode | None) -> None:
        """See that a message can be queued at all."""
        if rcv_settle_mode is ReceiverSettleMode.SECOND and self.rcv_settle_mode is ReceiverSettleMode.FIRST:
            raise LocalError(f"the rcv-settle-mode of {self!r} is first: a delivery cannot ask for second")
        if self.state in _OVER:
            raise LocalError(f"{self!r} is closed: nothing can be sent on it")
        if self.source is None:
            raise LocalError(f"{self!r} has no source: nothing can be sent on it")
        if self.session is not None and self.is_refused:
            raise LocalError(f"{self!r} has no target: the peer refused it")

    def abort(self, delivery: OutgoingDelivery) -> None:
        """Break off a delivery that is not all sent; see :meth:`OutgoingDelivery.abort`."""
        if delivery.resuming is _WHEN_SETTLED:
            resume_late(self, delivery)
        elif self.session is None or delivery.progress is _NOT_SENT or delivery not in self.queue:
            delivery.progress = OutgoingDeliveryState.ABORTED
            if delivery in self.queue:
                self.queue.remove(delivery)
            self.drop(delivery)
        self.pump()

    def flow(self, *, echo: bool = False) -> None:
        """Tell the receiver our flow state.

        Args:
            echo: ask for the receiver's flow state.

        Raises:
            LocalError: the link is not attached.
        """
        session = self._require_session()
        step(LINK, self.state, LinkEvent.SEND_FRAME)
        state, queue = self.flow_state, self.queue
        begun = bool(queue) and queue[0].progress is _SENDING  # It has used its credit.
        state.available = len(queue) - begun + self.backlog()
        flow = state.state(session.flow())
        flow.handle = self.handle
        flow.echo = echo
        session.write(flow)

    def drained(self) -> None:
        """Use up all credit, because there is nothing to send, and tell the receiver (section 2.6.7).

        Raises:
            LocalError: the link is not attached.
        """
        session = self._require_session()
        step(LINK, self.state, LinkEvent.SEND_FRAME)
        session.require_write()
        self.flow_state.drained()
        self.flow()

    @property
    def link_credit(self) -> int:
        """Messages that may be started now, 0 or more."""
        return max(self.flow_state.link_credit, 0)

    # --- transfers ---

    def pump(self) -> bool:
        """Send what the queue holds, as far as credit, the session's windows and the output allow.

        Returns:
            Whether credit was used up for want of messages, and the flow that tells it is out.
        """
        session, handle = self.session, self.handle
        if not self.is_open or session is None or handle is None or not session.may_write:
            return False
        if type(self.target) is Coordinator:  # It discharges what was said about deliveries so far.
            session.tell_gathered()
        queue, flow, windows = self.queue, self.flow_state, session.windows
        connection = session.connection
        while queue:
            delivery = queue[0]
            is_begun = delivery.progress is not _NOT_SENT
            is_first = not is_begun or delivery.resuming is not None
            if is_first and (flow.link_credit <= 0 or (self.reduced is not None and not is_begun)):
                return False
            if not delivery.unsent and not delivery.is_complete and delivery.resuming is None:
                break
            if windows.remote_incoming_window <= 0 or windows.outgoing_window <= 0:
                session.stalled[self] = None
                if is_begun and windows.remote_incoming_window <= 0:
                    session.ask_for_window()
                return False
            if connection.output.size >= HIGH_WATER:
                connection.ready[self] = None
                return False
            if delivery.resuming is not None:
                send_resumed(self, delivery, delivery.resuming)
            elif delivery.is_aborted:
                self.send_abort(delivery)
            else:
                self._transmit(delivery, session, handle)
        if flow.drain and flow.link_credit > 0 and self.auto_drain and not self.backlog():
            self.drained()
            return True
        return False

    def _transmit(self, delivery: OutgoingDelivery, session: Session, handle: Handle) -> None:
        """Send the next frame of a delivery."""
        if delivery.progress is _NOT_SENT:
            transfer = Transfer(handle=handle)  # Keywords for all of them take half as long again.
            transfer.delivery_id = session.number(delivery)
            transfer.delivery_tag = delivery.tag
            transfer.message_format = delivery.message_format
            transfer.settled = delivery.settled
            transfer.rcv_settle_mode = delivery.rcv_settle_mode
            transfer.state = delivery.state
            transfer.batchable = delivery.batchable
            self.flow_state.sent()
        else:
            transfer = Transfer(handle=handle)
            if delivery.settled and self.snd_settle_mode is not _UNSETTLED:
                transfer.settled = True
            if delivery.is_restated:
                delivery.is_restated = False
                transfer.state = delivery.state
        self.write_piece(delivery, transfer, session)

    def write_piece(self, delivery: OutgoingDelivery, transfer: Transfer, session: Session) -> None:
        """Write a transfer with as much of the message as fits behind it."""
        connection = session.connection
        most = connection.peer_max_frame_size - FRAME_HEADER_SIZE
        body = transfer.encode()
        room = most - len(body)
        is_last = delivery.unsent <= room and delivery.is_complete
        if not is_last:
            transfer.more = True
            body = transfer.encode()
            if len(body) >= most:  # A state from before this connection, whose frames are smaller.
                transfer.state = None
                body = transfer.encode()
            room = most - len(body)
        connection.output.add_frame(session.channel or 0, body, delivery.take(room))
        self._count(delivery, session)
        if is_last:
            delivery.progress = _SENT
            self.queue.popleft()
            if delivery.settled:
                self.drop(delivery)
        else:
            delivery.progress = _SENDING

    def send_abort(self, delivery: OutgoingDelivery, *, resume: bool = False) -> None:
        """Tell the receiver that a delivery, the first in the queue, is broken off."""
        self.write_transfer(delivery, Transfer(handle=Handle(self.handle or 0), aborted=True), resume=resume)
        delivery.progress = OutgoingDeliveryState.ABORTED
        self.queue.popleft()
        self.drop(delivery)

    def write_transfer(self, delivery: OutgoingDelivery, transfer: Transfer, *, resume: bool) -> None:
        """Write a transfer without a payload: for a state, or an abort."""
        session = self._require_session()
        if resume:
            transfer.resume = True
            transfer.delivery_id = session.number(delivery)
            transfer.delivery_tag = delivery.tag
            transfer.message_format = delivery.message_format
            self.flow_state.sent()
        session.connection.output.add_frame(session.channel or 0, transfer.encode())
        self._count(delivery, session)

    def _count(self, delivery: OutgoingDelivery, session: Session) -> None:
        """A transfer frame is written."""
        windows = session.windows
        windows.sent()
        if windows.outgoing_window != UNLIMITED:
            windows.outgoing_window -= 1
            delivery.frames += 1

    # --- input ---

    def learn(self, attach: Attach, remote: PeerEnd) -> None:
        self.rcv_settle_mode = attach.rcv_settle_mode
        if remote.target is not None:  # A refusal has none; what was asked for is asked for again.
            self.target = remote.target
        if self.source is None:
            self.source = remote.source

    def start(self) -> None:
        """Resume what is unsettled at both ends, then go on with what is queued (section 2.6.13)."""
        remote = self.remote
        if self.source is None or remote is None:
            return
        self.is_open = True
        self._give_up_large(remote.max_message_size)
        resume_sending(self)
        self.pump()

    def _give_up_large(self, most: int | None) -> None:
        """Give up what was queued before the receiver told that it is too large."""
        if not most:
            return
        for delivery in [one for one in self.queue if one.progress is _NOT_SENT and one.unsent > most]:
            self.queue.remove(delivery)
            self.lose_delivery(delivery)

    def on_flow(self, flow: Flow) -> None:
        if not self.takes_frame():
            return
        self.flow_state.told(flow)
        if self.batch is None:
            self.batch = []
            connection = self._require_session().connection
            connection.batched(self)
            connection.tell(Credit(self))
        has_told = self.pump()
        if flow.echo and not has_told:
            self.answer_echo()

    def answer_flow(self) -> None:
        self.flow()

    def hear(self, delivery: OutgoingDelivery) -> None:
        if delivery.settled or not self.auto_settle:
            return
        if delivery.remote_settled:
            if delivery.state is None and is_terminal(delivery.remote_state):
                delivery.state = delivery.remote_state
            self.settle(delivery)
        elif is_terminal(delivery.remote_state):
            delivery.settle()

    # --- settling ---

    def settle(self, delivery: OutgoingDelivery) -> None:
        """A delivery is settled at this end; it is forgotten when all its transfers are out.

        One that is not begun is sent settled.
        """
        delivery.settled = True
        if delivery.resuming is _WHEN_SETTLED:
            resume_late(self, delivery)
            return
        progress = delivery.progress
        if progress is _NOT_SENT or (progress is _SENT and not self.owes_resuming(delivery)):
            self.drop(delivery)

    def drop(self, delivery: OutgoingDelivery) -> None:
        """Neither end needs the delivery any more."""
        if self.unsettled.get(delivery.tag) is delivery:
            del self.unsettled[delivery.tag]
        session = self.session
        if session is not None:
            number = delivery.id
            if number is not None and session.outgoing.get(number) is delivery:
                del session.outgoing[number]
            if delivery.frames:
                session.windows.outgoing_window += delivery.frames
                delivery.frames = 0
                session.pump()
        reduced = self.reduced
        if reduced is not None:
            reduced.discard(delivery.tag)
            if not reduced and self.is_open:
                self.resume_again()

    def lose_delivery(self, delivery: OutgoingDelivery) -> None:
        """A delivery is given up: its message may have been lost."""
        delivery.lose()
        self.drop(delivery)
        self.tell_news(delivery)

    def resume_again(self) -> None:
        """All that could be resumed is settled: resume afresh, with maps that fit by now (section 2.6.13)."""
        self.reduced = set()
        self._tries_again = True
        self._send_detach(None, closed=False)

    # --- the end of it ---

    @property
    def unsettled_map(self) -> dict[bytes, Any]:
        return unsettled_states(self.unsettled)

    def begun(self) -> Iterable[OutgoingDelivery]:
        return (one for one in self.unsettled.values() if one.progress is not _NOT_SENT)

    def renew(self) -> None:
        # The count goes on from where it is: it tells where the receiver's credit is reckoned from.
        self.flow_state = SenderFlow(self.flow_state.delivery_count)

    def suspend(self) -> None:
        suspend_sending(self)

    def forget(self) -> None:
        lost = {**dict.fromkeys(self.unsettled.values()), **dict.fromkeys(self.queue)}
        self.unsettled = {}
        self.queue.clear()
        for delivery in lost:
            unnumber(delivery)
            if not delivery.remote_settled:
                delivery.lose()
                self.tell_news(delivery)

    def hand_over(self, taker: Link) -> None:
        if isinstance(taker, Sender):
            taker.unsettled, self.unsettled = self.unsettled, {}
            taker.queue, self.queue = self.queue, _NO_QUEUE
            taker.backlog, taker.auto_drain, taker.resends = self.backlog, self.auto_drain, self.resends
            taker._next_tag = self._next_tag
            for delivery in (*taker.unsettled.values(), *taker.queue):
                delivery.link = taker

    def complete(self, attach: Attach) -> None:
        attach.initial_delivery_count = SequenceNo(self.flow_state.delivery_count)
