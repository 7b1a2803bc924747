"""The endpoint of a session: channels, windows, handles, delivery-ids, and what is told about deliveries
(section 2.5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from amqpforge.errors import LocalError, ProtocolViolation, SessionEnded
from amqpforge_protocol.amqp_1_0 import (
    AmqpConnectionError,
    AmqpError,
    Attach,
    Begin,
    ConnectionEvent,
    DeliveryNumber,
    Detach,
    Disposition,
    EncodeError,
    End,
    Error,
    Flow,
    Handle,
    Role,
    SequenceNo,
    SessionError,
    SessionEvent,
    SessionState,
    Symbol,
    Transfer,
    TransferNumber,
)
from amqpforge_protocol.amqp_1_0.states import SESSION_TRANSITIONS

from .dispositions import between, disposition
from .events import Ended
from .flow import SessionWindows, distance
from .held import Held
from .link import Link
from .lowest_free import LowestFree
from .peer_end import PeerEnd
from .receiver import Receiver
from .sender import Sender
from .settings import SessionSettings
from .tables import SESSION, SessionFault, as_error, move, step

if TYPE_CHECKING:
    from amqpforge_protocol.amqp_1_0.archetypes import AnyDeliveryState

    from .connection import Connection
    from .delivery import IncomingDelivery, OutgoingDelivery

__all__ = ["Session"]

_RECEIVE_FRAME: Final = SessionEvent.RECEIVE_FRAME
_SEND_FRAME: Final = SessionEvent.SEND_FRAME
_CONNECTION_SEND_FRAME: Final = ConnectionEvent.SEND_FRAME
_ENDING: Final = frozenset((SessionState.END_SENT, SessionState.DISCARDING))


class Session:
    """One end of a session.

    Attributes:
        connection: the connection it is on.
        settings: what our begin tells.
        state: where the session stands; one in UNMAPPED is new or over.
        is_remote: whether the peer began it.
        channel: the channel of our frames; None in UNMAPPED.
        remote_channel: that of the peer's; None before its begin.
        remote: the peer's begin; None before it is in.
        windows: how many transfer frames may go each way.
        links: the links on it, by name and our role.
        peer_ends: what the latest link of either direction remembers of its other end.
        outgoing: deliveries sent and not settled by both ends, by delivery-id.
        incoming: deliveries received and not settled, by delivery-id.
        stalled: senders that wait for the session's window.
    """

    __slots__ = (
        "_asked_at",
        "_by_handle",
        "_gathered",
        "_handles",
        "_is_ending",
        "_is_told",
        "_row",
        "_top_ups",
        "_untaken",
        "channel",
        "connection",
        "error",
        "incoming",
        "is_remote",
        "links",
        "next_delivery_id",
        "outgoing",
        "peer_ends",
        "remote",
        "remote_channel",
        "settings",
        "stalled",
        "state",
        "windows",
    )

    def __init__(self, connection: Connection, settings: SessionSettings, *, is_remote: bool = False) -> None:
        self.connection = connection
        self.settings = settings
        self.is_remote = is_remote
        self.state = SessionState.UNMAPPED
        self.channel: int | None = None
        self.remote_channel: int | None = None
        self.remote: Begin | None = None
        self.error: SessionEnded | None = None
        self.windows = SessionWindows(
            settings.next_outgoing_id, settings.incoming_window, settings.outgoing_window
        )
        self.links: dict[tuple[str, Role], Link] = {}
        self.peer_ends: dict[Role, PeerEnd] = {}
        self.outgoing: dict[int, OutgoingDelivery] = {}
        self.incoming: dict[int, IncomingDelivery] = {}
        self.next_delivery_id = settings.next_delivery_id
        self.stalled: dict[Sender, None] = {}
        self._handles = LowestFree()
        self._by_handle: dict[int, Link] = {}
        self._gathered: list[tuple[Role, int, int, AnyDeliveryState | None, bool]] = []
        self._top_ups: dict[Receiver, None] = {}
        self._untaken = 0
        self._asked_at: int | None = None  # The frame for which the peer's window was asked for.
        self._is_ending: tuple[Error | None] | None = None
        self._is_told = False
        self._row = SESSION_TRANSITIONS[self.state]

    def __repr__(self) -> str:
        return f"<Session {self.state.name} channel {self.channel} remote-channel {self.remote_channel}>"

    # --- what we do ---

    def begin(self) -> None:
        """Send begin, on the lowest free channel.

        Raises:
            LocalError: it is sent already, all channels are taken, or the begin is larger than the peer
                takes.
            EncodeError: what it is to tell cannot be encoded.
        """
        state = move(SESSION, self.state, SessionEvent.SEND_BEGIN)
        connection, settings = self.connection, self.settings
        begin = Begin(
            remote_channel=self.remote_channel,
            next_outgoing_id=TransferNumber(SequenceNo(self.windows.next_outgoing_id)),
            incoming_window=self.windows.incoming_window,
            outgoing_window=self.windows.outgoing_window,
            handle_max=Handle(settings.handle_max),
            offered_capabilities=list(settings.offered_capabilities) or None,
            desired_capabilities=list(settings.desired_capabilities) or None,
            properties=dict(settings.properties) or None,
        )
        channel = connection.take_channel(self)
        try:
            connection.write(channel, begin)
        except (LocalError, EncodeError):
            connection.free_channel(channel)
            raise
        self.channel = channel
        self._enter(state)
        connection.read_on()

    def end(self, error: Error | None = None) -> None:
        """End the session; its links are suspended. Before the peer's begin is in, the end waits for it.

        Raises:
            LocalError: it is not begun, or ended already, or the error is larger than the peer takes.
            EncodeError: the error cannot be encoded.
        """
        was = self.state
        if was is SessionState.BEGIN_SENT:
            self._is_ending = (error,)
            return
        event = SessionEvent.SEND_END if error is None else SessionEvent.SEND_END_ERROR
        state = move(SESSION, was, event)
        self.tell_gathered()
        self.write(End(error=error))
        self._enter(state)
        self._free_channel()
        if self.state is not SessionState.END_SENT:
            self._over(by_peer=was is SessionState.END_RCVD)
        self.connection.read_on()

    def attach(self, link: Link) -> None:
        """Attach a link to this session: a new one, one that was detached, or one that lost its session.

        Raises:
            LocalError: the link is attached, another one has its name, the peer's handle-max leaves no
                handle, or the attach does not fit into a frame.
        """
        if link.session is not None and link.session is not self:
            raise LocalError(f"{link!r} is part of another session")
        if self.links.get((link.name, link.role), link) is not link:
            raise LocalError(
                f"a link named {link.name!r} is there already: names are unique in each direction"
            )
        link.attach_to(self)

    def give_up(self, reason: LocalError, *, is_begun: bool) -> None:
        """The session cannot come about, because a frame that waited for the peer's open must not be written.

        If our begin ``is_begun``, out already, the peer answers it, and is told then.
        """
        self.error = SessionEnded("the session cannot begin")
        self.error.__cause__ = reason
        if is_begun:
            self.end(as_error(ProtocolViolation(AmqpError.FRAME_SIZE_TOO_SMALL, str(reason))))
        else:
            self._free_channel()
            self._enter(SessionState.UNMAPPED)
            self._over(by_peer=False)

    @property
    def capabilities(self) -> frozenset[Symbol]:
        """The extensions in use: desired at one end and offered at the other."""
        remote, settings = self.remote, self.settings
        if remote is None:
            return frozenset()
        used = set(settings.desired_capabilities).intersection(remote.offered_capabilities or ())
        return frozenset(
            used.union(set(settings.offered_capabilities).intersection(remote.desired_capabilities or ()))
        )

    # --- for links ---

    @property
    def may_write(self) -> bool:
        """Whether frames of links may be written."""
        return self._row[_SEND_FRAME] >= 0 and self.connection.row[_CONNECTION_SEND_FRAME] >= 0

    @property
    def is_ending(self) -> bool:
        """Whether our end, or our close, is out, so that nothing can be written any more."""
        return self.state in _ENDING or not self.connection.may_write

    def require_write(self) -> None:
        """Check that frames of links may be written.

        Raises:
            LocalError: they may not.
        """
        if self._row[_SEND_FRAME] < 0:
            step(SESSION, self.state, _SEND_FRAME)
        if not self.connection.may_write:
            self.connection.step(ConnectionEvent.SEND_FRAME)

    def write(self, performative: Any) -> None:
        """Write a frame on the session's channel.

        Raises:
            LocalError: the state forbids it, or the frame is too large.
        """
        if type(performative) is not End and self._row[_SEND_FRAME] < 0:
            step(SESSION, self.state, _SEND_FRAME)
        if type(performative) is Attach:  # Some peers end the session for it: what was decided goes ahead.
            self.tell_gathered()
        self.connection.write(self.channel or 0, performative)

    def flow(self) -> Flow:
        """A flow with the session's windows; whoever asks for it is about to send it."""
        windows = self.windows
        windows.incoming_window = self.settings.incoming_window - self._untaken
        return windows.state()

    def ask_for_window(self) -> None:
        """The peer's incoming window is used up amid a delivery: ask for its flow state, once until it opens.

        Some peers look at their window only when a delivery is whole, and would not open it by themselves.
        """
        if self._asked_at != self.windows.next_outgoing_id:
            self._asked_at = self.windows.next_outgoing_id
            flow = self.flow()
            flow.echo = True
            self.write(flow)

    def take_handle(self) -> int:
        """The lowest free handle.

        Raises:
            LocalError: the peer's handle-max leaves none.
        """
        if self.remote is not None and self._handles.lowest > self.remote.handle_max:
            raise LocalError(
                f"all {self.remote.handle_max + 1} handles that the peer's handle-max allows are taken"
            )
        return self._handles.take()

    def free_handle(self, handle: int) -> None:
        """A link is detached both ways: its handle is free (section 2.7.3)."""
        self._handles.give_back(handle)

    def unmap(self, remote_handle: int) -> None:
        """The peer's handle names no link any more."""
        self._by_handle.pop(remote_handle, None)

    def number(self, delivery: OutgoingDelivery) -> DeliveryNumber:
        """Give a delivery the next delivery-id."""
        number = cast("DeliveryNumber", self.next_delivery_id)
        self.next_delivery_id = (number + 1) & 0xFFFF_FFFF
        delivery.id = number
        if not delivery.settled:
            self.outgoing[number] = delivery
        return number

    def dispose(self, role: Role, id: int, last: int, state: AnyDeliveryState | None, settled: bool) -> None:
        """Gather what is to be told of deliveries, from ``id`` to ``last``; neighbours go in one frame."""
        gathered = self._gathered
        if gathered:
            last_role, begin, end, last_state, last_settled = gathered[-1]
            if (
                id == (end + 1) & 0xFFFF_FFFF
                and settled is last_settled
                and role is last_role
                and (state is last_state or (type(state) is type(last_state) and state == last_state))
            ):
                gathered[-1] = (role, begin, last, state, settled)
                return
        gathered.append((role, id, last, state, settled))
        self.connection.busy[self] = None

    def top_up(self, link: Receiver) -> None:
        """A receiver has credit to give, once all that is at hand is dealt with."""
        if link not in self._top_ups:
            self._top_ups[link] = None
            self.connection.busy[self] = None

    def taken(self, frames: int) -> None:
        """So many frames of a message that is streamed were taken by the application."""
        self._untaken -= frames
        self._note_window()

    def kept(self) -> None:
        """A frame of a message that is streamed waits for the application."""
        self._untaken += 1

    def tell_gathered(self) -> None:
        """Write the dispositions, the credit and the window that are due."""
        gathered, self._gathered = self._gathered, []
        top_ups, self._top_ups = self._top_ups, {}
        if not self.may_write:
            return
        for role, first, last, state, settled in gathered:
            self.write(disposition(role, first, last, state, settled))
        for link in top_ups:
            link.grant()
        if self._window_is_due:
            self.write(self.flow())

    # --- input ---

    def receive(self, performative: Any) -> None:
        """Take a frame of the peer other than a transfer.

        Raises:
            SessionFault: the peer may not send it now.
            Held: something of ours has to go first.
        """
        kind = type(performative)
        if kind is End:
            self._on_end(performative)
            return
        if kind is Begin:
            self._on_begin(performative)
            return
        if self._row[_RECEIVE_FRAME] < 0 and step(SESSION, self.state, _RECEIVE_FRAME) is None:
            return
        if kind is Disposition:
            self._on_disposition(performative)
        elif kind is Flow:
            self._on_flow(performative)
        elif kind is Attach:
            self._on_attach(performative)
        elif kind is Detach:
            self._link_of(performative.handle, "detach").on_detach(performative)

    def on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Take a transfer, and the piece of a message behind it.

        Raises:
            SessionFault: the peer may not send it now.
            LinkFault: the link cannot take it.
        """
        if self._row[_RECEIVE_FRAME] < 0 and step(SESSION, self.state, _RECEIVE_FRAME) is None:
            return
        windows = self.windows
        if not windows.received():
            raise SessionFault(
                SessionError.WINDOW_VIOLATION,
                f"more transfers came than the incoming-window of {self.settings.incoming_window} allows",
            )
        link = self._by_handle.get(transfer.handle) or self._link_of(transfer.handle, "transfer")
        link.on_transfer(transfer, payload)
        if windows.incoming_window * 2 <= self.settings.incoming_window:
            self._note_window()

    def after_begin(self) -> None:
        """The peer's begin is told: answer it, or go on with what waited for it.

        Raises:
            ProtocolViolation: the peer began more sessions than there are channels to answer on.
        """
        connection = self.connection
        if not self.is_remote:
            if self._is_ending is not None and connection.may_write:
                self.end(self._is_ending[0])
        elif connection.settings.auto_answer and connection.may_write:
            if not connection.has_channel:
                raise ProtocolViolation(
                    AmqpError.RESOURCE_LIMIT_EXCEEDED,
                    f"all {connection.channel_max + 1} channels on which begin could be answered are taken",
                )
            self.begin()

    def pump(self) -> None:
        """Go on with senders that waited for the window, each in its turn."""
        stalled, self.stalled = self.stalled, {}
        for link in stalled:
            link.pump()

    def lose(self, cause: Exception | None) -> None:
        """The connection is over."""
        if self.state is SessionState.UNMAPPED:
            return
        if self.error is None and cause is not None:
            self.error = SessionEnded("the connection of the session is over")
            self.error.__cause__ = cause
        self._enter(move(SESSION, self.state, SessionEvent.CONNECTION_LOST))
        self._over(by_peer=True)

    def fail(self, fault: SessionFault) -> None:
        """End the session because of a fault of the peer, and throw away what still comes in."""
        error = as_error(fault)
        may_write = self.connection.may_write
        if may_write and self.state is SessionState.BEGIN_RCVD:
            self.begin()  # An end cannot be the first frame.
        self.error = SessionEnded("the peer broke the protocol", error)
        self.error.__cause__ = fault
        if may_write and self._row[SessionEvent.SEND_END_ERROR] >= 0:
            self.end(error)
        else:  # An end or a close of ours is out: there is nothing left to tell.
            self._enter(SessionState.DISCARDING)
            self._over(by_peer=False)

    def _on_begin(self, begin: Begin) -> None:
        state = step(SESSION, self.state, SessionEvent.RECEIVE_BEGIN)
        if state is None:
            return
        self._enter(state)
        self.remote = begin
        self.windows.begun(begin)

    def _on_end(self, end: End) -> None:
        may_write = self.connection.may_write
        if self.state is SessionState.BEGIN_RCVD and may_write:
            raise Held
        state = step(SESSION, self.state, SessionEvent.RECEIVE_END)
        if state is None:
            return
        if self.error is None and end.error is not None:
            self.error = SessionEnded("the peer ended the session", end.error)
        was_mapped = self.state is SessionState.MAPPED
        self._enter(state)
        if not may_write:  # Our end cannot be told any more: the connection is closed.
            self._enter(SessionState.UNMAPPED)
        if self.state is not SessionState.END_RCVD:
            self._over(by_peer=was_mapped)
        elif self.connection.settings.auto_answer:
            self.end()
        else:
            self._report(by_peer=True)

    def _on_attach(self, attach: Attach) -> None:
        if attach.handle > self.settings.handle_max:
            raise ProtocolViolation(
                AmqpConnectionError.FRAMING_ERROR,
                f"handle {attach.handle} is beyond our handle-max of {self.settings.handle_max}",
            )
        if attach.handle in self._by_handle:
            holder = self._by_handle[attach.handle]
            if holder.awaits_detach:
                raise Held
            raise ProtocolViolation(
                SessionError.HANDLE_IN_USE, f"handle {attach.handle} is that of {holder!r} already"
            )
        link = self._find(attach)
        link.on_attach(self, attach)
        if link.remote_handle is not None:
            self._by_handle[attach.handle] = link
        link.after_attach(attach)

    def _find(self, attach: Attach) -> Link:
        """The link that an attach of the peer means: one that is known, one that is stolen, or a new one."""
        role = Role.SENDER if attach.role is Role.RECEIVER else Role.RECEIVER
        known = self.links.get((attach.name, role))
        if known is None and self.peer:
            known = self.connection.container.find(self.peer, attach.name, role)
        if known is None:
            return Sender.answering(attach) if role is Role.SENDER else Receiver.answering(attach)
        if known.session is self and known.expects_attach:
            return known
        if known.session is not None:
            return known.steal()
        return known

    @property
    def peer(self) -> str:
        """The id of the peer's container; empty if it has none, and then its links are not known again."""
        remote = self.connection.remote
        return remote.container_id if remote is not None else ""

    def _link_of(self, handle: int, frame: str) -> Link:
        link = self._by_handle.get(handle)
        if link is None:
            raise SessionFault(
                SessionError.UNATTACHED_HANDLE, f"{frame} names handle {handle}, which no attached link has"
            )
        return link

    def _on_flow(self, flow: Flow) -> None:
        if flow.handle is None:
            for name in ("delivery_count", "link_credit", "available"):
                if getattr(flow, name) is not None:
                    raise SessionFault(
                        AmqpError.INVALID_FIELD, f"flow without a handle has a {name.replace('_', '-')}"
                    )
            if flow.drain:
                raise SessionFault(AmqpError.INVALID_FIELD, "flow without a handle has drain set")
            self.windows.told(flow)
            if flow.echo and self.may_write:
                self.write(self.flow())
        else:
            link = self._link_of(flow.handle, "flow")
            self.windows.told(flow)
            link.on_flow(flow)
        if self.stalled:
            self.pump()

    def _on_disposition(self, told: Disposition) -> None:
        known: dict[int, Any] = self.outgoing if told.role is Role.RECEIVER else self.incoming
        first = told.first
        if told.last is None or told.last == first:
            delivery = known.get(first)
            if delivery is not None:
                delivery.link.on_disposition(delivery, told)
            return
        span = distance(first, told.last) + 1
        if span < 1:
            raise SessionFault(
                AmqpError.INVALID_FIELD,
                f"disposition ends with {told.last}, ahead of its first, {first}",
            )
        for delivery in between(known, first, span):
            delivery.link.on_disposition(delivery, told)

    # --- states ---

    @property
    def _window_is_due(self) -> bool:
        """Whether so much of the incoming window is used that it is worth a flow to open it again."""
        whole = self.settings.incoming_window
        left = self.windows.incoming_window
        return left * 2 <= whole and whole - self._untaken > left

    def _note_window(self) -> None:
        if self._window_is_due:
            self.connection.busy[self] = None

    def _over(self, *, by_peer: bool) -> None:
        """The session is over, or input of it does not count any more: its links are suspended."""
        for link in list(self.links.values()):
            link.lose(self.error)
            link.batch = link.news = None  # What it delivers on another session comes behind this end.
        self.outgoing.clear()
        self.incoming.clear()
        self.stalled.clear()
        self._gathered.clear()
        self._top_ups.clear()
        self._by_handle.clear()
        self._report(by_peer=by_peer)

    def _report(self, *, by_peer: bool) -> None:
        if not self._is_told:
            self._is_told = True
            self.connection.tell(Ended(self, self.error, by_peer))

    def _free_channel(self) -> None:
        if self.channel is not None:
            self.connection.free_channel(self.channel)
            self.channel = None

    def _enter(self, state: SessionState) -> None:
        self.state = state
        self._row = SESSION_TRANSITIONS[state]
