"""A session between two others: its windows, and what is told about deliveries (section 2.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amqpforge_protocol.amqp_1_0 import (
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    Role,
    SessionEvent,
    SessionState,
    Transfer,
)

from .flow import UNLIMITED, SessionWindows, distance
from .observations import EndName, Notebook, Reason, Rule, SessionNews
from .observed_delivery import ObservedDelivery, news_of
from .observed_link import LinkEnd
from .observed_links import ObservedLinks
from .progress import Progress
from .tables import SESSION

__all__ = ["ObservedSession", "SessionEnd"]


class SessionEnd:
    """One end of a session.

    The window is judged at the capture point: each flow of the other end moves it as soon as it is captured,
    since this end may have it at once. A window that was made smaller counts as large as it was, until this
    end can have used it up: nothing tells when it has learned of that.

    Attributes:
        session: the session.
        peer: the other end.
        name: whose end it is.
        progress: its state.
        channel: the channel of its frames; None before it is known.
        has_begun, has_ended: whether its begin, or its end, was seen.
        has_heard: whether its frames show that it has seen the other end's begin.
        windows: as this end counts them.
        room: transfers that it may still send by the most generous window that it may know of.
        handles: its link ends, by the handle of its frames.
        closing: those that it has detached and the other end has not, by their handles.
        handle_max: the highest handle that it takes; None: unknown.
        unsettled: deliveries that it has sent and no end has settled, by delivery-id, the oldest first.
        next_delivery_id: of the next delivery that it sends; None before the first one.
    """

    __slots__ = (
        "_begin",
        "channel",
        "closing",
        "handle_max",
        "handles",
        "has_begun",
        "has_ended",
        "has_heard",
        "name",
        "next_delivery_id",
        "peer",
        "progress",
        "room",
        "session",
        "unsettled",
        "windows",
    )

    def __init__(self, session: ObservedSession, name: EndName) -> None:
        self.session = session
        self.peer = self
        self.name: EndName = name
        self.progress = Progress(SESSION, SessionState.UNMAPPED)
        self.channel: int | None = None
        self.has_begun = False
        self.has_ended = False
        self.has_heard = False
        self.windows = SessionWindows(0, UNLIMITED, UNLIMITED)
        self.room = UNLIMITED
        self.handles: dict[int, LinkEnd] = {}
        self.closing: dict[int, LinkEnd] = {}
        self.handle_max: int | None = None
        self.unsettled: dict[int, ObservedDelivery] = {}
        self.next_delivery_id: int | None = None
        self._begin: Begin | None = None  # Until the other end's begin is there to be set beside it.

    def violated(self, rule: Rule, text: str, condition: str | None = None) -> None:
        """It broke a rule; nobody is blamed in a session that is not seen as a whole."""
        session = self.session
        if session.is_judged:
            session.notes.violated(self.name, rule, text, self.channel, condition)

    def begins(self, begin: Begin) -> None:
        """It sends its begin."""
        self.has_begun = True
        self.has_heard = begin.remote_channel is not None
        self.handle_max = begin.handle_max
        self.windows = SessionWindows(begin.next_outgoing_id, begin.incoming_window, begin.outgoing_window)
        self._begin = Begin(
            next_outgoing_id=begin.next_outgoing_id,
            incoming_window=begin.incoming_window,
            outgoing_window=begin.outgoing_window,
        )

    def joins(self) -> None:
        """The other end's begin is there, too."""
        begin = self.peer._begin
        if begin is not None:
            self.windows.begun(begin)
            self.room = self.windows.remote_incoming_window

    # --- deliveries that it sends ---

    def keep(self, delivery: ObservedDelivery, *, is_settled: bool) -> None:
        """A delivery begins; ``is_settled``: nothing will be told about it."""
        notes = self.session.notes
        notes.deliveries += 1
        if is_settled:
            return
        if delivery.id in self.unsettled:
            self._forget(delivery.id)
        notes.live_deliveries += 1
        self.unsettled[delivery.id] = delivery
        delivery.link.tags.add(delivery.tag)
        if notes.live_deliveries > notes.limits.unsettled:
            notes.is_full(self.name, "deliveries")
            self._forget(next(iter(self.unsettled)))

    def settle(self, delivery: ObservedDelivery) -> None:
        """An end settles a delivery; only the first time counts."""
        if delivery.is_settled:
            return
        if self.unsettled.get(delivery.id) is delivery:
            self._forget(delivery.id)
        delivery.is_settled = True
        delivery.link.count(delivery.outcome)
        self.session.notes.settled(delivery)

    def _forget(self, id: int) -> None:
        delivery = self.unsettled.pop(id)
        delivery.link.tags.discard(delivery.tag)
        self.session.notes.live_deliveries -= 1


class ObservedSession:
    """A session between two others.

    Attributes:
        notes: of the observer.
        ends: the two ends, the one that began it first.
        is_judged: whether nothing of it is missing so far; if something is, what is seen is counted, and
            nobody is blamed.
        links: its links.
        reason: the error of the first end that carried one.
        began, ended: times of the second begin and of the second end, in seconds; None if unknown.
    """

    __slots__ = ("began", "ended", "ends", "is_judged", "links", "notes", "reason")

    def __init__(self, notes: Notebook, first: EndName, second: EndName, *, is_judged: bool) -> None:
        self.notes = notes
        one, other = SessionEnd(self, first), SessionEnd(self, second)
        one.peer, other.peer = other, one
        self.ends = (one, other)
        self.is_judged = is_judged
        self.links = ObservedLinks(self)
        self.reason: Reason | None = None
        self.began: float | None = None
        self.ended: float | None = None

    def __repr__(self) -> str:
        one, other = self.ends
        return f"<ObservedSession {one.name} channel {one.channel}, {other.name} channel {other.channel}>"

    @property
    def is_over(self) -> bool:
        """Whether no frame of it is to come."""
        return all(side.has_ended or (side.channel is None and not self.is_judged) for side in self.ends)

    def begin(self, side: SessionEnd, begin: Begin) -> None:
        """An end sends its begin."""
        side.progress.send(SessionEvent.SEND_BEGIN, side.peer.progress, SessionEvent.RECEIVE_BEGIN)
        side.begins(begin)
        if not side.peer.has_begun:
            return
        side.joins()
        side.peer.joins()
        notes = self.notes
        notes.sessions += 1
        self.began = notes.time
        notes.tell(SessionNews("begun", self, None, notes.frame, notes.time))

    def end(self, side: SessionEnd, end: End) -> None:
        """An end sends its end."""
        event = SessionEvent.SEND_END if end.error is None else SessionEvent.SEND_END_ERROR
        side.progress.send(event, side.peer.progress, SessionEvent.RECEIVE_END)  # Legal on a mapped channel.
        side.has_ended = True
        self.reason = self.reason or Reason.of(end.error)

    def drop(self) -> None:
        """The session is over: nothing of it is kept."""
        notes = self.notes
        self.ended = notes.time
        self.links.clear()
        for side in self.ends:
            notes.live_deliveries -= len(side.unsettled)
            side.unsettled.clear()
            side.handles.clear()
            side.closing.clear()
        if all(side.has_begun for side in self.ends):
            notes.tell(SessionNews("ended", self, self.reason, notes.frame, notes.time))

    # --- frames of links ---

    def frame(self, side: SessionEnd, performative: Any, payload: int) -> None:
        """An end sends a frame of a link, with so many octets of payload."""
        kind = type(performative)
        if kind is Transfer:
            self._transfer(side, performative, payload)
        elif kind is Disposition:
            self._disposition(side, performative)
        elif kind is Flow:
            self._flow(side, performative)
        elif kind is Attach:
            self.links.attach(side, performative)
        elif kind is Detach:
            self.links.detach(side, performative)

    def _transfer(self, side: SessionEnd, transfer: Transfer, octets: int) -> None:
        side.windows.sent()
        side.peer.windows.received()
        side.room -= 1
        if side.room < 0:
            side.violated(Rule.WINDOW, "the transfer goes beyond the incoming-window of the other end")
        end = side.handles.get(transfer.handle)
        if end is None or end.role is not Role.SENDER:
            end = self.links.unknown_sender(side, transfer.handle)
            if end is None:
                return
        end.link.transfer(side, transfer, octets)

    def _flow(self, side: SessionEnd, flow: Flow) -> None:
        """An end tells its windows, and perhaps the flow state of a link."""
        peer = side.peer
        if flow.next_incoming_id is not None:
            side.has_heard = True
        sent = side.windows.next_outgoing_id
        if flow.next_outgoing_id != sent:
            text = (
                f"a flow tells next-outgoing-id {flow.next_outgoing_id}, and the transfers sent make {sent}"
            )
            side.violated(Rule.FLOW, text)
        coming, seen = peer.windows.next_outgoing_id, flow.next_incoming_id
        if seen is not None and peer.has_begun and distance(seen, coming) < 0:
            text = f"a flow tells next-incoming-id {seen}, and the other end's next transfer is {coming}"
            side.violated(Rule.FLOW, text)
        peer.windows.told(flow)
        left = peer.windows.remote_incoming_window
        side.windows.incoming_window = left
        side.windows.outgoing_window = flow.outgoing_window
        if left > peer.room:
            peer.room = left
        if flow.handle is None:
            self._check_sole(side, flow)
            return
        end = side.handles.get(flow.handle) or self.links.unknown(side, flow.handle, "flow")
        if end is not None and end.link.is_known:
            end.link.flow(end, flow)

    def _check_sole(self, side: SessionEnd, flow: Flow) -> None:
        for name in ("delivery_count", "link_credit", "available"):
            if getattr(flow, name) is not None:
                side.violated(Rule.FIELD, f"a flow without a handle has a {name.replace('_', '-')}")
        if flow.drain:
            side.violated(Rule.FIELD, "a flow without a handle has drain set")

    def _disposition(self, side: SessionEnd, disposition: Disposition) -> None:
        by_receiver = disposition.role is Role.RECEIVER
        sender = side.peer if by_receiver else side
        first = disposition.first
        last = first if disposition.last is None else disposition.last
        span = distance(first, last) + 1
        if span < 1:
            text = f"a disposition ends with delivery-id {last}, ahead of its first, {first}"
            side.violated(Rule.DISPOSITION, text)
            return
        due = sender.next_delivery_id
        if sender.has_begun and (due is None or distance(last, due) <= 0):
            text = f"a disposition names delivery-id {last}, which the {sender.name} has not sent"
            side.violated(Rule.DISPOSITION, text)
        name = None if disposition.state is None else news_of(disposition.state)
        known = sender.unsettled
        if span == 1:
            found = known.get(first)
            deliveries = [] if found is None else [found]
        else:
            deliveries = list(_between(known, first, span))
        for delivery in deliveries:
            if name is not None:
                delivery.outcome = name
            if disposition.settled:
                if by_receiver and delivery.settles_second:
                    text = (
                        f"delivery {delivery.id} is settled by its receiver first, in rcv-settle-mode second"
                    )
                    side.violated(Rule.SETTLE_MODE, text)
                sender.settle(delivery)


def _between(known: dict[int, ObservedDelivery], first: int, span: int) -> Iterator[ObservedDelivery]:
    """The deliveries with ``span`` ids from ``first`` on, in no more steps than there are deliveries."""
    if span <= len(known):
        for number in range(first, first + span):
            delivery = known.get(number & 0xFFFF_FFFF)
            if delivery is not None:
                yield delivery
    else:
        for number, delivery in known.items():
            if 0 <= distance(first, number) < span:
                yield delivery
