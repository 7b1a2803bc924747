"""The receiving end of a link: the credit it gives, and the putting together of messages (sections 2.6.7 and
2.6.14).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    AmqpError,
    Attach,
    Flow,
    IncomingDeliveryEvent,
    IncomingDeliveryState,
    LinkError,
    LinkEvent,
    LinkState,
    Received,
    ReceiverSettleMode,
    Role,
    Transfer,
)
from amqpforge_protocol.amqp_1_0.states import INCOMING_DELIVERY_TRANSITIONS

from .delivery import IncomingDelivery, is_terminal, passed
from .events import Deliveries, FlowReceived, Partial
from .flow import ReceiverFlow, advance, distance
from .link import Link
from .resumption import received_states, resume_receiving, take_resumed
from .sections import Sections
from .tables import INCOMING_DELIVERY, LINK, LinkFault, SessionFault, move, step
from .unfinished import discount, keep, let_go

if TYPE_CHECKING:
    from amqpforge_protocol.amqp_1_0.archetypes import AnyDeliveryState

    from .peer_end import PeerEnd

__all__ = ["Receiver"]

_RECEIVED: Final = IncomingDeliveryState.RECEIVED
_PART: Final = IncomingDeliveryEvent.RECEIVE_PART
_LAST: Final = IncomingDeliveryEvent.RECEIVE_LAST
_STATES: Final = tuple(IncomingDeliveryState)
_ANY_SIZE: Final = 1 << 64
"""More than a message can have."""


class Receiver(Link):
    """The end of a link that receives.

    Attributes:
        flow_state: delivery-count and credit.
        unsettled: deliveries that are not settled at this end, by tag.
        prefetch: give credit by ourselves, so that credit and deliveries that are not settled here are this
            many together; None: credit is given by :meth:`flow` alone. While the sender is to drain, none is
            given.
        streams: report the octets of a message as they come, and leave them to the application; else whole
            messages. Octets that are not read fill the session's window, which other links share: whoever
            reads at leisure puts the link on a session of its own.
        held: deliveries that count against ``prefetch``: those handed out and not settled here.
        tolerance: messages beyond its credit that the sender may start before the link is closed: some
            brokers go too far when credit crosses their messages on the way.
    """

    __slots__ = (
        "_current",
        "_limit",
        "_unread",
        "flow_state",
        "held",
        "ignores",
        "prefetch",
        "streams",
        "tolerance",
        "unsettled",
    )

    role: ClassVar[Role] = Role.RECEIVER

    def __init__(
        self,
        name: str,
        *,
        prefetch: int | None = None,
        streams: bool = False,
        unsettled: Iterable[IncomingDelivery] = (),
        **options: Any,
    ) -> None:
        """The options are those of :class:`.terminus.Terminus`; ``unsettled`` are deliveries that another
        endpoint of the link has left, see :meth:`restore` for those of another process.
        """
        super().__init__(name, **options)
        self.flow_state = ReceiverFlow()
        self.unsettled: dict[bytes, IncomingDelivery] = {}
        self.prefetch = prefetch
        self.streams = streams
        self.tolerance = 0
        self.held = 0
        self.ignores = False  # What follows belongs to a delivery that is dealt with.
        self._current: IncomingDelivery | None = None
        self._limit: int | None = None
        self._unread: dict[IncomingDelivery, None] = {}  # Streamed, with octets that count in the window.
        for delivery in unsettled:
            delivery.link = self
            delivery.id = None
            delivery.is_held = False
            delivery.frames = 0
            self.unsettled[delivery.tag] = delivery
            self._brings_map = True

    def restore(
        self, tag: bytes, payload: bytes, *, state: AnyDeliveryState | None = None, is_complete: bool = True
    ) -> IncomingDelivery:
        """Put back a delivery that came before and is not settled, so that attaching resumes it.

        Args:
            tag: its delivery-tag.
            payload: the encoded message, or what came of it.
            state: its state at this end.
            is_complete: whether all of it came.

        Raises:
            LocalError: the link is attached, the tag is in use, or the state is none.
        """
        if self.session is not None or self.state is LinkState.CLOSED:
            raise LocalError(f"{self!r} is attached or closed: nothing can be restored to it")
        if tag in self.unsettled:
            raise LocalError(f"the delivery-tag {tag.hex()} is that of an unsettled delivery")
        if state is not None:
            self.check_state(state)
        delivery = IncomingDelivery(self, None, tag, 0)
        delivery.size, delivery.state = len(payload), state
        if is_complete:
            delivery.payload = payload
            delivery.progress = _RECEIVED
        else:
            delivery.add(payload)
            delivery.progress = IncomingDeliveryState.RECEIVING
        if self.streams:
            delivery.sections = passed(Sections(), payload)
        self.unsettled[tag] = delivery
        self._brings_map = True
        return delivery

    # --- credit ---

    @property
    def link_credit(self) -> int:
        """Messages that the sender may still start, 0 or more."""
        return max(self.flow_state.link_credit, 0)

    def flow(self, credit: int | None = None, *, drain: bool = False, echo: bool = False) -> None:
        """Tell the sender how many messages it may send from now on.

        Args:
            credit: the new link-credit, 0 to 2^31 - 1; None: as it is.
            drain: ask the sender to use up at once what it has no messages for.
            echo: ask for the sender's flow state.

        Raises:
            LocalError: the link is not attached, or was refused at either end.
        """
        session = self._require_session()
        step(LINK, self.state, LinkEvent.SEND_FRAME)
        session.require_write()
        if self.target is None or (self.remote_handle is not None and self.is_refused):
            raise LocalError(
                f"{self!r} has no {'target' if self.target is None else 'source'}: nothing comes over it"
            )
        if credit is not None and not 0 <= credit < 1 << 31:
            raise LocalError(f"a link-credit is 0 to {(1 << 31) - 1}, not {credit}")
        state = self.flow_state
        if credit is not None:
            state.link_credit = credit
            self._raise_limit()
        elif state.link_credit < 0:  # What is told holds from now on, and is never below nothing.
            state.link_credit = 0
        state.drain = drain
        flow = state.state(session.flow())
        flow.handle = self.handle
        flow.echo = echo
        session.write(flow)

    def _raise_limit(self) -> None:
        """What was granted may be used even after it is taken back: it may be on its way."""
        count = self.flow_state.delivery_count
        if count is None:
            return
        limit = advance(count, self.link_credit)
        if self._limit is None or distance(self._limit, limit) > 0:
            self._limit = limit

    def grant(self) -> None:
        """Give the credit that ``prefetch`` asks for, if it is worth a flow."""
        prefetch, session = self.prefetch, self.session
        if prefetch is None or not self.is_open or self.flow_state.drain or self.target is None:
            return
        if session is None or not session.may_write:
            return
        wanted = prefetch - self.held
        credit = self.link_credit
        if wanted > credit and (credit == 0 or (wanted - credit) * 2 >= prefetch):
            self.flow(wanted)

    def taken(self, delivery: IncomingDelivery) -> None:
        """What came of a message that is streamed does not count in the session's window any more."""
        if delivery in self._unread and self.session is not None:
            del self._unread[delivery]
            self.session.taken(delivery.frames)
        delivery.frames = 0

    # --- transfers ---

    def on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        id, tag, session, flow = transfer.delivery_id, transfer.delivery_tag, self.session, self.flow_state
        if (
            self.is_open
            and session is not None
            and id is not None
            and tag is not None
            and transfer.state is None
            and transfer.rcv_settle_mode is None
            and not (transfer.more or transfer.resume or transfer.aborted)
            and self._current is None
            and not (self.ignores or self.streams or self.incomplete)
            and self.target is not None
            and flow.link_credit > 0
            and tag not in self.unsettled
            and id not in session.incoming
            and len(payload) <= (self.max_message_size or _ANY_SIZE)
        ):
            # A whole message with nothing to complain of, as nearly all are: what _take_any comes to.
            flow.received()
            delivery = IncomingDelivery(self, id, tag, transfer.message_format or 0)
            delivery.payload, delivery.size, delivery.progress = payload, len(payload), _RECEIVED
            delivery.batchable = transfer.batchable
            if transfer.settled:
                delivery.remote_settled = True
            else:
                self.unsettled[tag] = session.incoming[id] = delivery
            delivery.is_held = True
            self.held += 1
            batch = self.batch
            if batch is None:
                batch = self._new_batch()
            batch.append(delivery)
        elif self.takes_frame():
            self._take_any(transfer, payload)

    def _take_any(self, transfer: Transfer, payload: bytes) -> None:
        """Take a transfer of any kind."""
        delivery = self._current
        if delivery is None:
            if self.ignores:
                self.ignores = transfer.more and not transfer.aborted
                return
            delivery = self._first(transfer, payload)
            if delivery is None:
                return
        else:
            self._check_same(delivery, transfer)
        if transfer.settled:
            delivery.remote_settled = True
        if transfer.state is not None and not is_terminal(delivery.remote_state):
            delivery.remote_state = transfer.state
        if transfer.batchable:
            delivery.batchable = True
        if transfer.aborted:
            self._abort(delivery, transfer)
        else:
            self._take(delivery, payload, is_last=not transfer.more)

    def _first(self, transfer: Transfer, payload: bytes) -> IncomingDelivery | None:
        """The delivery that a transfer begins, or takes up again; None if it is dealt with."""
        id, tag = transfer.delivery_id, transfer.delivery_tag
        if id is None or tag is None:
            missing = "delivery-id" if id is None else "delivery-tag"
            raise SessionFault(AmqpError.INVALID_FIELD, f"the first transfer of a delivery has no {missing}")
        incoming = self._require_session().incoming
        if id in incoming:
            raise SessionFault(AmqpError.NOT_ALLOWED, f"delivery-id {id} is that of an unsettled delivery")
        if self.target is None:
            raise LinkFault(self, AmqpError.NOT_ALLOWED, "a transfer came to a link without a target")
        if not self.flow_state.received() and not self._was_granted:
            raise LinkFault(
                self, LinkError.TRANSFER_LIMIT_EXCEEDED, "more messages came than the link-credit allows"
            )
        if transfer.resume:
            delivery = take_resumed(self, transfer, payload)
            if delivery is not None:
                self._check_mode(delivery, transfer)
            return delivery
        if self.incomplete:
            raise LinkFault(
                self, AmqpError.NOT_ALLOWED, "a new delivery came, although our unsettled map was incomplete"
            )
        known = self.unsettled.get(tag)
        if known is not None and not known.remote_settled:
            raise LinkFault(
                self, AmqpError.NOT_ALLOWED, f"the delivery-tag {tag.hex()} is that of an unsettled delivery"
            )
        delivery = IncomingDelivery(self, id, tag, transfer.message_format or 0)
        if not transfer.settled:
            if transfer.rcv_settle_mode is not None:
                self._check_mode(delivery, transfer)
            self.unsettled[tag] = delivery
            incoming[id] = delivery
        if self.streams:
            delivery.sections = Sections()
        return delivery

    @property
    def _was_granted(self) -> bool:
        """Whether what has just begun is within credit that was given once, and maybe taken back too late."""
        if self._limit is None:
            return False
        return distance(self.flow_state.delivery_count or 0, self._limit) + self.tolerance >= 0

    def _check_mode(self, delivery: IncomingDelivery, transfer: Transfer) -> None:
        mode = transfer.rcv_settle_mode
        if mode is None or transfer.settled:
            return
        if mode is ReceiverSettleMode.SECOND and self.rcv_settle_mode is ReceiverSettleMode.FIRST:
            raise LinkFault(
                self,
                AmqpError.NOT_ALLOWED,
                "a transfer asks for rcv-settle-mode second on a link in mode first",
            )
        delivery.rcv_settle_mode = mode

    def _check_same(self, delivery: IncomingDelivery, transfer: Transfer) -> None:
        """A later transfer may repeat what the first one said, and say nothing else."""
        if transfer.delivery_id is not None and transfer.delivery_id != delivery.id:
            raise SessionFault(
                AmqpError.NOT_ALLOWED,
                f"delivery {transfer.delivery_id} begins on {self!r} before {delivery.id} is complete",
            )
        if transfer.delivery_tag is not None and transfer.delivery_tag != delivery.tag:
            raise SessionFault(
                AmqpError.NOT_ALLOWED, "a later transfer has another delivery-tag than the first"
            )

    def _take(self, delivery: IncomingDelivery, payload: bytes, *, is_last: bool) -> None:
        """Add a piece of a message."""
        was_whole = delivery.progress is _RECEIVED
        if delivery.skip:
            skipped = min(delivery.skip, len(payload))
            delivery.skip -= skipped
            payload = payload[skipped:]
        if was_whole:
            payload = b""
        size = delivery.size = delivery.size + len(payload)
        if self.max_message_size and size > self.max_message_size:
            raise LinkFault(
                self,
                LinkError.MESSAGE_SIZE_EXCEEDED,
                f"a message has more than the {self.max_message_size} octets of our max-message-size",
            )
        if not was_whole:
            row = INCOMING_DELIVERY_TRANSITIONS[delivery.progress]
            delivery.progress = _STATES[row[_LAST if is_last else _PART]]
        self._current = None if is_last else delivery
        if was_whole:
            return
        if self.streams:
            self._stream(delivery, payload)
        elif not is_last:
            keep(delivery, payload)
        else:
            if delivery.parts:
                delivery.add(payload)
                payload = b"".join(delivery.parts)
                let_go(delivery)
            delivery.payload = payload
            self._deliver(delivery)
        if is_last and delivery.remote_settled and delivery.state is not None:
            self.hear(delivery)

    def forget_unfinished(self) -> None:
        """Keep nothing of messages whose transfers were broken off by the end of the session or of the link:
        they come anew if the link is resumed, as it tells nothing of them (section 3.4.6, tag 1).
        """
        for delivery in [one for one in self.unsettled.values() if not one.is_complete]:
            if delivery is not self._current:
                let_go(delivery)
                del self.unsettled[delivery.tag]

    def _deliver(self, delivery: IncomingDelivery) -> None:
        """Hand a whole message out."""
        self.hold(delivery)
        batch = self.batch
        if batch is None:
            batch = self._new_batch()
        batch.append(delivery)

    def _new_batch(self) -> list[IncomingDelivery]:
        """The list of an event to come, for the deliveries that it reports."""
        batch = self.batch = []
        connection = self._require_session().connection
        connection.batched(self)
        connection.tell(Deliveries(self, batch))
        return batch

    def _stream(self, delivery: IncomingDelivery, payload: bytes) -> None:
        """Hand the next octets of a message out; those of one that is settled are of no use."""
        session = self._require_session()
        if delivery.settled:
            return
        if payload:
            delivery.add(payload)
            delivery.frames += 1
            self._unread[delivery] = None
            session.kept()
            delivery.sections = passed(delivery.sections or Sections(), payload)
        self.hold(delivery)
        session.connection.tell(Partial(delivery))

    def hold(self, delivery: IncomingDelivery) -> None:
        """A delivery counts against ``prefetch`` until it is settled here."""
        if not delivery.is_held:
            delivery.is_held = True
            self.held += 1

    def _abort(self, delivery: IncomingDelivery, transfer: Transfer) -> None:
        """The sender breaks a delivery off: nothing of it counts, and it is settled."""
        event = (
            IncomingDeliveryEvent.RECEIVE_PART_ABORT if transfer.more else IncomingDeliveryEvent.RECEIVE_ABORT
        )
        was_whole = delivery.progress is _RECEIVED
        if not was_whole:
            delivery.progress = move(INCOMING_DELIVERY, delivery.progress, event)
        self._current = None
        self.give_up(delivery)
        if was_whole:
            self.tell_news(delivery)

    def give_up(self, delivery: IncomingDelivery) -> None:
        """Nothing more comes of a delivery, and what came does not count."""
        self.taken(delivery)
        let_go(delivery)
        delivery.payload = b""
        delivery.remote_settled = True
        self.settle(delivery)
        delivery.progress = IncomingDeliveryState.ABORTED
        if self.streams and self.session is not None:
            self.session.connection.tell(Partial(delivery))

    # --- input ---

    def check_attach(self, attach: Attach) -> None:
        super().check_attach(attach)
        if attach.initial_delivery_count is None:
            raise SessionFault(
                AmqpError.INVALID_FIELD, "the attach of a sender has no initial-delivery-count"
            )

    def learn(self, attach: Attach, remote: PeerEnd) -> None:
        self.snd_settle_mode = attach.snd_settle_mode
        if remote.source is not None:  # A refusal has none; what was asked for is asked for again.
            self.source = remote.source
        if self.target is None:
            self.target = remote.target
        if attach.initial_delivery_count is not None:
            self.flow_state.attached(attach.initial_delivery_count)
            self._limit = None
            self._raise_limit()

    def start(self) -> None:
        """See what the sender has settled meanwhile, and give credit."""
        self.is_open = True
        resume_receiving(self)
        self.grant()

    def on_flow(self, flow: Flow) -> None:
        if not self.takes_frame():
            return
        self.flow_state.told(flow)
        self._require_session().connection.tell(FlowReceived(self))
        if flow.echo:
            self.answer_echo()

    def answer_flow(self) -> None:
        self.flow(drain=self.flow_state.drain)

    def complete(self, attach: Attach) -> None:
        attach.max_message_size = self.max_message_size

    def hear(self, delivery: IncomingDelivery) -> None:
        if not delivery.remote_settled or delivery.settled or not self.auto_settle:
            return
        # What is still coming in, or of no outcome yet, is left to the application.
        state = delivery.state
        if delivery.progress is _RECEIVED and state is not None and type(state) is not Received:
            self.settle(delivery)

    # --- settling ---

    def settle(self, delivery: IncomingDelivery) -> None:
        """A delivery is settled at this end: it is forgotten, and makes room for another."""
        delivery.settled = True
        if delivery.frames:
            self.taken(delivery)
        tag, number, session = delivery.tag, delivery.id, self.session
        if self.unsettled.get(tag) is delivery and (
            delivery.remote_settled or not self.owes_resuming(delivery)
        ):
            del self.unsettled[tag]
        if delivery.is_held:
            delivery.is_held = False
            self.held -= 1
        if session is None:
            return
        # One that came settled is not there, but another may have its number by now.
        if number is not None and session.incoming.get(number) is delivery:
            del session.incoming[number]
        if self.prefetch is not None:
            session.top_up(self)

    def top_up(self) -> None:
        """Credit was used, or room was made: there may be credit to give."""
        if self.prefetch is not None and self.session is not None:
            self.session.top_up(self)

    # --- the end of it ---

    def fail(self, fault: LinkFault) -> None:
        if self._current is not None:  # The link is closed: nobody will have what came of it.
            let_go(self._current)
        super().fail(fault)

    @property
    def unsettled_map(self) -> dict[bytes, Any]:
        return received_states(self.unsettled)

    def begun(self) -> Iterable[IncomingDelivery]:
        return self.unsettled.values()

    def renew(self) -> None:
        self.flow_state = ReceiverFlow()
        self._limit = None

    def suspend(self) -> None:
        session = self.session
        self.told_map = self.has_told = False
        if self._current is not None:
            discount(self._current)
            self._current = None
        self.ignores = False
        self._release()
        # What is resumed takes credit again, so it must not count against the window meanwhile.
        self.held = 0
        for delivery in self.unsettled.values():
            if session is not None and delivery.id is not None:
                session.incoming.pop(delivery.id, None)
            delivery.id = None
            delivery.is_held = False

    def _release(self) -> None:
        """What was not read of messages that are streamed does not count in the session's window any more."""
        for delivery in list(self._unread):
            self.taken(delivery)
        self._unread.clear()

    def forget(self) -> None:
        self.suspend()
        self.unsettled = {}

    def hand_over(self, taker: Link) -> None:
        if isinstance(taker, Receiver):
            taker.unsettled, self.unsettled = self.unsettled, {}
            taker.prefetch, taker.streams = self.prefetch, self.streams
            for delivery in taker.unsettled.values():
                delivery.link = taker
