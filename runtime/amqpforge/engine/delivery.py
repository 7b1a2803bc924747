"""Deliveries under way, as each end of a link keeps them until it has settled them (sections 2.6.12 to
2.6.14).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Declared,
    DecodeError,
    DeliveryNumber,
    DeliveryTag,
    IncomingDeliveryState,
    MessageFormat,
    Modified,
    OutgoingDeliveryEvent,
    OutgoingDeliveryState,
    ReceiverSettleMode,
    Rejected,
    Released,
    SenderSettleMode,
)

from .sections import Sections
from .tables import OUTGOING_DELIVERY, step

if TYPE_CHECKING:
    from amqpforge_protocol.amqp_1_0.archetypes import AnyDeliveryState

    from .receiver import Receiver
    from .resume import Later, ResumeAborted, ResumePayload, ResumeState
    from .sender import Sender

__all__ = ["IncomingDelivery", "Opaque", "OutgoingDelivery", "check_format", "is_terminal", "passed"]

_NOT_SENT: Final = OutgoingDeliveryState.NOT_SENT
_SENDING: Final = OutgoingDeliveryState.SENDING
_NOT_RCVD: Final = IncomingDeliveryState.NOT_RCVD
_RECEIVED: Final = IncomingDeliveryState.RECEIVED
_SECOND: Final = ReceiverSettleMode.SECOND
_OUTCOMES: Final = frozenset((Accepted, Rejected, Released, Modified, Declared))
_AMQP: Final = MessageFormat(0)
_PLAIN: Final = frozenset((Accepted, Released))
"""States without fields: of these there is nothing to check."""


def is_terminal(state: object) -> bool:
    """Whether a delivery state is an outcome, which nothing alters (section 3.4)."""
    return type(state) in _OUTCOMES


def _check_change(delivery: OutgoingDelivery | IncomingDelivery, state: AnyDeliveryState) -> None:
    """Check that a delivery may go into a state.

    Raises:
        LocalError: it has an outcome that the state would alter, or the state cannot be told.
    """
    known = delivery.state
    if type(known) in _OUTCOMES and state != known:
        raise LocalError(f"the delivery has the outcome {known!r}, which nothing alters")
    if type(state) not in _PLAIN:
        delivery.link.check_state(state)


def check_format(message_format: int) -> MessageFormat:
    """The number as a message-format.

    Raises:
        LocalError: it is none.
    """
    if not 0 <= message_format < 1 << 32:
        raise LocalError(f"a message-format is 0 to 2^32 - 1, not {message_format}")
    return MessageFormat(message_format)


class Opaque(Sections):
    """The octets of a message that are no sections: all of them count as section 0."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self._starts.append(0)
        self._values = 1

    def feed(self, octets: bytes) -> None:
        self.size += len(octets)


def passed(sections: Sections, octets: bytes) -> Sections:
    """The sections of a message of which more octets went by; one whose octets are no sections has one."""
    size = sections.size + len(octets)
    try:
        sections.feed(octets)
    except DecodeError:
        return Opaque(size)
    return sections


class OutgoingDelivery:
    """A message on its way to the receiver of a link.

    Attributes:
        link: the sender of it.
        tag: the delivery-tag, at most 32 octets.
        id: the delivery-id on the session; None until the first transfer is out, and after the session is
            lost.
        message_format: what the octets are; 0 is AMQP's own format.
        settled: whether this end has settled it.
        state: its state at this end; None: none was told.
        remote_settled: whether the receiver has settled it.
        remote_state: its state at the receiver, as far as it was told; an outcome stays.
        progress: how far its transfers have gone.
        is_complete: whether all its octets are here; if not, more follow by :meth:`write`.
        is_aborted: whether it was broken off; that is told with its next transfer, if anything was sent.
        offset: octets of the message that were sent, from its start.
        payload: the whole message, kept until it is settled; None if it is written piece by piece.
        unsent: octets of the message that are here and not sent.
        rcv_settle_mode: how the receiver is to settle this one; None: as the link does.
        batchable: whether news of it can wait.
        is_lost: whether it was given up: the message may have been lost.
        context: for whoever drives the engine.
    """

    __slots__ = (
        "batchable",
        "context",
        "frames",
        "id",
        "is_aborted",
        "is_complete",
        "is_lost",
        "is_restated",
        "link",
        "message_format",
        "offset",
        "parts",
        "payload",
        "progress",
        "rcv_settle_mode",
        "remote_settled",
        "remote_state",
        "resuming",
        "sections",
        "settled",
        "state",
        "tag",
        "unsent",
    )

    def __init__(
        self,
        link: Sender,
        tag: DeliveryTag,
        payload: bytes | None,
        settled: bool = False,
        state: AnyDeliveryState | None = None,
        message_format: MessageFormat = _AMQP,
        rcv_settle_mode: ReceiverSettleMode | None = None,
        batchable: bool = False,
    ) -> None:
        self.link = link
        self.tag = tag
        self.payload = payload
        self.settled = settled
        self.state = state
        self.message_format = message_format
        self.rcv_settle_mode = rcv_settle_mode
        self.batchable = batchable
        self.id: DeliveryNumber | None = None
        self.remote_settled = False
        self.remote_state: AnyDeliveryState | None = None
        self.progress = _NOT_SENT
        self.offset = 0
        self.frames = 0
        self.resuming: ResumePayload | ResumeState | ResumeAborted | Later | None = None
        self.is_aborted = False
        self.is_restated = False  # A change of state goes with the next transfer.
        self.is_lost = False
        self.context: Any = None
        # A message that is written piece by piece: the pieces not sent yet, and where its sections begin.
        self.parts: deque[bytes | memoryview] | None = None
        self.sections: Sections | None = None
        if payload is None:
            self.is_complete = False
            self.unsent = 0
            self.parts = deque()
            self.sections = Sections()
        else:
            self.is_complete = True
            self.unsent = len(payload)

    def __repr__(self) -> str:
        return f"<OutgoingDelivery {self.tag.hex()} {self.progress.name} {self.remote_state or self.state!r}>"

    def write(self, octets: bytes) -> None:
        """Add octets to a message that is sent piece by piece.

        Raises:
            LocalError: it is finished, aborted, was given whole, or becomes larger than the receiver takes.
        """
        parts, sections = self.parts, self.sections
        if self.is_complete or parts is None or sections is None:
            raise LocalError("the message is complete, or given up: nothing can be written to it")
        if not octets:
            return
        self.link.check_size(sections.size + len(octets))
        self.sections = passed(sections, octets)
        parts.append(octets)
        self.unsent += len(octets)
        self.link.pump()

    def finish(self) -> None:
        """Say that no more octets follow.

        Raises:
            LocalError: it was said before, or the message is aborted or given up.
        """
        if self.is_complete:
            raise LocalError("the message is complete already, or given up")
        self.is_complete = True
        self.link.pump()

    def abort(self) -> None:
        """Break the delivery off; it counts as settled, and nothing of it reaches the receiver's application.

        A delivery of which nothing was sent is just not sent. The receiver is told with a transfer, as soon
        as the session's windows allow.

        Raises:
            LocalError: all of it is sent, or it is aborted already.
        """
        if self.is_aborted:
            raise LocalError("the delivery is aborted already")
        if self.progress is not _NOT_SENT:
            step(OUTGOING_DELIVERY, self.progress, OutgoingDeliveryEvent.SEND_ABORT)
        self.is_aborted = True
        self.settled = self.remote_settled = True
        self.end()
        self.link.abort(self)

    def end(self) -> None:
        """Nothing more of the message is sent."""
        self.is_complete = True
        self.unsent = 0
        if self.parts is not None:
            self.parts.clear()

    def lose(self) -> None:
        """The delivery is given up: its message may have been lost."""
        self.settled = self.is_lost = True
        self.end()

    def take(self, room: int) -> bytes | memoryview:
        """The next octets to be sent, up to ``room`` of them; they count as sent."""
        payload, offset = self.payload, self.offset
        octets: bytes | memoryview
        if payload is None:
            octets = _cut(self.parts, room)
        elif not offset and len(payload) <= room:
            octets = payload
        else:
            octets = memoryview(payload)[offset : offset + room]
        self.unsent -= len(octets)
        self.offset = offset + len(octets)
        return octets

    def update(self, state: AnyDeliveryState | None = None, *, settled: bool = False) -> None:
        """Tell the receiver the state of the delivery here, and that it is settled.

        While its transfers are under way, the next one of them tells it (section 2.7.6).

        Raises:
            LocalError: it is settled, or has an outcome that the state would alter; the state is one that a
                sender does not tell, or too large for a frame; or it is not sent yet, and the link sends
                nothing settled.
        """
        if self.settled:
            raise LocalError("the delivery is settled: nothing can be told about it any more")
        link = self.link
        if state is not None:
            _check_change(self, state)
        may_ride = not settled or link.snd_settle_mode is not SenderSettleMode.UNSETTLED
        if not may_ride and self.progress is _NOT_SENT:
            raise LocalError(f"{link!r} sends unsettled: what is not sent cannot be settled")
        if state is not None:
            self.state = state
        if may_ride and self.progress is _SENDING:
            self.is_restated = True
        else:
            link.dispose(self, settled=settled)
        if settled:
            link.settle(self)

    def settle(self, state: AnyDeliveryState | None = None) -> None:
        """Settle the delivery; its outcome, if none is given, is the one that the receiver told.

        Raises:
            LocalError: as :meth:`update` does.
        """
        told = self.remote_state
        if state is None and self.state is None and type(told) in _OUTCOMES and self.link.can_tell(told):
            state = told
        self.update(state, settled=True)


class IncomingDelivery:
    """A message that came in on a link, or is coming in.

    Attributes:
        link: the receiver of it.
        tag: the delivery-tag.
        id: the delivery-id on the session; None after the session is lost.
        message_format: what the octets are; 0 is AMQP's own format.
        payload: the whole message, undecoded; empty as long as it is not whole, and on a link that streams.
        settled: whether this end has settled it.
        state: its state at this end; None: none was told.
        remote_settled: whether the sender has settled it.
        remote_state: its state at the sender, as far as it was told; an outcome stays.
        progress: how far its transfers have come in.
        rcv_settle_mode: how this one is settled.
        batchable: whether the sender can wait for news of it.
        resumed: whether the sender took it up again after the link was resumed.
        size: octets that came in.
        context: for whoever drives the engine.
    """

    __slots__ = (
        "batchable",
        "context",
        "frames",
        "id",
        "is_held",
        "kept",
        "link",
        "message_format",
        "parts",
        "payload",
        "progress",
        "rcv_settle_mode",
        "remote_settled",
        "remote_state",
        "resumed",
        "sections",
        "settled",
        "size",
        "skip",
        "state",
        "tag",
    )

    def __init__(self, link: Receiver, id: int | None, tag: bytes, message_format: int) -> None:
        self.link = link
        self.id = id
        self.tag = tag
        self.message_format = message_format
        self.payload = b""
        self.parts: list[bytes] | tuple[()] = ()  # Nearly all messages come whole: they need no list.
        self.kept = 0  # Octets of them that count for the connection.
        self.size = 0
        self.frames = 0
        self.skip = 0
        self.settled = False
        self.state: AnyDeliveryState | None = None
        self.remote_settled = False
        self.remote_state: AnyDeliveryState | None = None
        self.progress = _NOT_RCVD
        self.rcv_settle_mode = link.rcv_settle_mode
        self.batchable = False
        self.resumed = False
        self.sections: Sections | None = None
        self.is_held = False
        self.context: Any = None

    def __repr__(self) -> str:
        return f"<IncomingDelivery {self.tag.hex()} {self.progress.name} {self.size} octets {self.state!r}>"

    @property
    def is_complete(self) -> bool:
        """Whether all of the message is in."""
        return self.progress is _RECEIVED

    def add(self, octets: bytes) -> None:
        """Keep octets that came in, behind those that are kept."""
        if self.parts:
            self.parts.append(octets)
        else:
            self.parts = [octets]

    def read(self) -> bytes:
        """On a link that streams: the octets that came in since the last call; the sender may send as many
        more.
        """
        octets = b"".join(self.parts)
        self.parts = ()
        if self.frames:
            self.link.taken(self)
        return octets

    def update(self, state: AnyDeliveryState | None = None, *, settled: bool = False) -> None:
        """Tell the sender the state of the delivery here, and that it is settled.

        While the link is detached nothing is told, but the state is kept for when it is resumed.

        Raises:
            LocalError: it is settled, has an outcome that the state would alter, the state is none or too
                large for a frame, or the settle mode is second and the sender has not settled it yet.
        """
        if self.settled:
            raise LocalError("the delivery is settled: nothing can be told about it any more")
        known = self.state
        if state is not known and state is not None and not (known is None and type(state) in _PLAIN):
            _check_change(self, state)
        link = self.link
        if not self.remote_settled:
            if settled and self.rcv_settle_mode is _SECOND:
                raise LocalError("in settle mode second the sender settles first")
            if state is not None:
                self.state = state
            link.dispose(self, settled=settled)
        elif state is not None:
            self.state = state
        if settled:
            link.settle(self)

    def settle(self, state: AnyDeliveryState | None = None) -> None:
        """Settle the delivery, with an outcome if it has none yet.

        Raises:
            LocalError: as :meth:`update` does.
        """
        self.update(state, settled=True)


def _cut(parts: deque[bytes | memoryview] | None, room: int) -> bytes:
    """Take up to ``room`` octets from the front."""
    taken: list[bytes | memoryview] = []
    while parts and room > 0:
        part = parts[0]
        if len(part) > room:
            view = memoryview(part)
            taken.append(view[:room])
            parts[0] = view[room:]
            break
        taken.append(parts.popleft())
        room -= len(part)
    return b"".join(taken)
