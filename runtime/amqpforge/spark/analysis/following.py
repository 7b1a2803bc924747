"""One connection of a capture, followed frame by frame by the observer of the engine."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from amqpforge.engine.observations import LinkNews, Observation, Reason, SessionNews, Unknown, Violation
from amqpforge.engine.observed_delivery import ObservedDelivery
from amqpforge.engine.observed_link import ObservedLink
from amqpforge.engine.observed_session import ObservedSession, SessionEnd
from amqpforge.engine.observer import Observer
from amqpforge_protocol.amqp_1_0 import Flow, Transfer

from .observations import Observations

__all__ = ["Follower", "Item"]

_MOST_LISTED: Final = 10_000
"""Violations, and things that are unknown, of one connection that become rows."""

_MICROSECONDS: Final = 1_000_000


class Item(NamedTuple):
    """A row of a capture.

    ``time`` is in microseconds since 1970; ``performative`` that of a frame, or a protocol header, else None;
    ``delivery_count`` is that of the message that a transfer completes, None where none is known.
    """

    packet: int | None
    time: int | None
    direction: Any
    offset: int | None
    size: int
    kind: str
    channel: int
    name: str | None
    payload: int
    performative: Any
    delivery_count: int | None


class _Wait:
    """A sender that may not send: since when, and since when it may again."""

    __slots__ = ("began", "common", "ended")

    def __init__(self, began: int | None, common: tuple[Any, ...]) -> None:
        self.began = began
        self.common = common
        self.ended: int | None = None

    def times(self, sent: int | None) -> tuple[int | None, int | None, float | None, float | None]:
        """When it began and ended, for how many seconds, and how long after its end a frame was sent."""
        return (self.began, self.ended, _seconds(self.began, self.ended), _seconds(self.ended, sent))


class _Attachment:
    """What is counted of a link while it is attached."""

    __slots__ = ("before", "began", "most", "most_at", "octets", "outcomes", "wait")

    def __init__(self, link: ObservedLink, now: int | None) -> None:
        self.began = now
        self.before = link.deliveries
        self.octets = link.octets
        self.outcomes = dict(link.outcomes)
        self.most = 0
        self.most_at: int | None = None
        self.wait: _Wait | None = None


class _Way:
    """What is counted of an end of a session as a sender."""

    __slots__ = ("octets", "transfers", "wait")

    def __init__(self) -> None:
        self.transfers = 0
        self.octets = 0
        self.wait: _Wait | None = None


class Follower:
    """Follows a connection. What it holds is bounded by the limits of the observer."""

    def __init__(self, file: str | None, stream: int | None, found: Observations, passed: int) -> None:
        """``found`` takes what is observed; ``passed`` rows came before the first that is AMQP 1.0."""
        self._place = (file, stream)
        self._found = found
        self._observer = Observer(self._told)
        self._observer.notes.frame = passed  # Frames are numbered as `amqpforge decode` shows them.
        self._ends = {"c2s": self._observer.client, "s2c": self._observer.server}
        self._item: Item | None = None
        self._base: int | None = None
        self._first: int | None = None
        self._last: int | None = None
        self._names: dict[str, str] = {}
        self._listed = 0
        self._links: dict[ObservedLink, _Attachment] = {}
        self._sessions: dict[ObservedSession, dict[str, _Way]] = {}
        self._most = 0
        self._most_at: int | None = None
        self._redeliveries: int | None = None

    def take(self, item: Item, source: str | None, destination: str | None) -> None:
        """The next row, of both directions in the order of the capture; ``source`` and ``destination`` are
        addresses with ports.
        """
        self._item = item
        time = item.time
        if self._base is None:
            self._base = time
            own, other = ("client", "server") if item.direction == "c2s" else ("server", "client")
            self._names = {own: source or "", other: destination or ""}
        if self._first is None:
            self._first = time
        if time is not None:
            self._last = time
        now = self._clock(time)
        observer, direction, kind = self._observer, item.direction, item.kind
        if kind == "end" or item.name in ("end", "close"):
            self._last_frames(item, now)
        elif kind == "amqp":
            self._frame(item, now)
        elif kind == "empty":
            observer.frame(item.channel, None, 0, item.size, direction, now)
        elif kind == "sasl":
            observer.sasl_frame(item.performative, item.size, direction, now)
        elif kind == "header":
            observer.header(item.performative, direction, now)
        elif kind == "error":
            observer.lost(direction, now)

    def finish(self) -> None:
        """There are no more rows of this connection."""
        observer, notes = self._observer, self._observer.notes
        owed = observer.owed()
        for delivery in self._left():
            self._delivery(delivery)
        for link in list(self._links):
            self._link_over(link, None)
        for session in list(self._sessions):
            self._session_over(session)
        for one in owed:
            self._add("owed", tuple(one))
        client, server, sasl = observer.client, observer.server, observer.sasl
        fields = (
            self._names.get("client"),
            self._names.get("server"),
            client.container,
            server.container,
            None if sasl is None else sasl.mechanism,
            self._first,
            self._last,
            client.frames,
            server.frames,
            client.octets,
            server.octets,
            client.has_closed,
            server.has_closed,
            notes.sessions,
            notes.links,
            notes.deliveries,
            notes.unsettled,
            notes.violations,
            self._most,
            self._most_at,
            self._redeliveries,
        )
        self._add("connection", fields)

    # --- what the observer does not tell ---

    def _frame(self, item: Item, now: float | None) -> None:
        performative, channel = item.performative, item.channel
        side = self._ends[item.direction].channels.get(channel)
        kind = type(performative)
        before: int | None = None
        if kind is Flow and side is not None and performative.handle is not None:
            link = self._link_of(side, performative.handle)
            if link is not None and link.receiver.side is side:
                before = link.sender_flow.link_credit
        elif kind is Transfer:
            self._looked_at(side, performative, item)
        observer = self._observer
        observer.frame(channel, performative, item.payload, item.size, item.direction, now)
        if side is None:
            return
        if kind is Transfer:
            self._sent(side, performative, item)
        elif kind is Flow:
            self._granted(side, performative, item, before)

    def _last_frames(self, item: Item, now: float | None) -> None:
        """What may end sessions, and with them deliveries that nobody has settled."""
        observer = self._observer
        if item.kind == "amqp" and item.name == "end":
            side = self._ends[item.direction].channels.get(item.channel)
            left = [] if side is None else _unsettled(side.session)
        else:
            left = self._left()
        if item.kind == "amqp":
            observer.frame(item.channel, item.performative, item.payload, item.size, item.direction, now)
        elif item.name == "closed":
            observer.end_of_input(item.direction, now)
        else:
            observer.look(now)
        for delivery in left:
            if (
                not delivery.is_settled
                and delivery.link.sender.side.unsettled.get(delivery.id) is not delivery
            ):
                self._delivery(delivery)

    def _left(self) -> list[ObservedDelivery]:
        """The deliveries that are not settled, of sessions whose begin was not seen as well."""
        sessions = dict.fromkeys(self._sessions)
        for end in self._ends.values():
            sessions |= dict.fromkeys(side.session for side in end.channels.values())
        return [delivery for session in sessions for delivery in _unsettled(session)]

    def _link_of(self, side: SessionEnd, handle: int) -> ObservedLink | None:
        end = side.handles.get(handle)
        return None if end is None or not end.link.is_known else end.link

    def _sent(self, side: SessionEnd, transfer: Transfer, item: Item) -> None:
        """A transfer has gone out: what it has used up."""
        unsettled = self._observer.notes.live_deliveries
        if unsettled > self._most:
            self._most, self._most_at = unsettled, item.time
        ways = self._sessions.get(side.session)
        if ways is not None:
            way = ways[side.name]
            way.transfers += 1
            way.octets += item.payload
            wait, way.wait = way.wait, None
            if wait is not None:
                self._add("stall", (side.name, side.channel, *wait.times(item.time)), wait.common)
            if side.room <= 0:
                way.wait = _Wait(item.time, self._common())
        link = self._link_of(side, transfer.handle)
        kept = None if link is None else self._links.get(link)
        if link is None or kept is None:
            return
        left = link.unsettled - kept.before + sum(kept.outcomes.values())
        if left > kept.most:
            kept.most, kept.most_at = left, item.time
        wait = kept.wait
        if wait is not None and wait.ended is not None:
            kept.wait = None
            self._add("starvation", (*_named(link), *wait.times(item.time)), wait.common)
        if link.room <= 0 and kept.wait is None and not transfer.more:
            kept.wait = _Wait(item.time, self._common())
            self._add("credit", (*_named(link), link.room + 1, link.room, False))

    def _looked_at(self, side: SessionEnd | None, transfer: Transfer, item: Item) -> None:
        """A transfer is about to go out: whether its message was delivered before."""
        count = item.delivery_count
        if count is not None:
            self._redeliveries = self._redeliveries or 0
        if not count and not transfer.resume:
            return
        self._redeliveries = (self._redeliveries or 0) + 1
        link = None if side is None else self._link_of(side, transfer.handle)
        begun = None if link is None else link.current
        one: tuple[int | None, bytes | None] = (transfer.delivery_id, transfer.delivery_tag)
        if begun is not None:
            one = (begun.id, begun.tag)
        named = (self._ends[item.direction].name, item.channel, None, None, None)
        self._add("redelivery", (*(named if link is None else _named(link)), *one, count, transfer.resume))

    def _granted(self, side: SessionEnd, flow: Flow, item: Item, before: int | None) -> None:
        """A flow has come by: what the other end may send now."""
        ways = self._sessions.get(side.session)
        peer = side.peer
        if ways is not None:
            wait = ways[peer.name].wait
            if wait is not None and wait.ended is None and peer.room > 0:
                wait.ended = item.time
        link = None if flow.handle is None else self._link_of(side, flow.handle)
        if link is None or link.receiver.side is not side:
            return
        credit = link.sender_flow.link_credit
        self._add("credit", (*_named(link), before, credit, flow.drain))
        kept = self._links.get(link)
        if kept is not None and kept.wait is not None and kept.wait.ended is None and link.room > 0:
            kept.wait.ended = item.time

    # --- what the observer tells ---

    def _told(self, observation: Observation) -> None:
        if isinstance(observation, ObservedDelivery):
            self._delivery(observation)
        elif isinstance(observation, Violation):
            self._listed += 1
            if self._listed <= _MOST_LISTED:
                item = self._item
                name = None if item is None else item.name
                found = observation
                fields = (found.end, str(found.rule), found.condition, found.text, found.channel, name)
                self._add("violation", fields)
        elif isinstance(observation, Unknown):
            self._listed += 1
            if self._listed <= _MOST_LISTED:
                self._add("unknown", (observation.end, observation.text))
        elif isinstance(observation, LinkNews):
            if observation.what == "attached":
                self._attached(observation.link)
            else:
                self._link_over(observation.link, observation.reason)
        elif isinstance(observation, SessionNews):
            if observation.what == "begun":
                self._sessions[observation.session] = {"client": _Way(), "server": _Way()}
            else:
                for link in [link for link in self._links if link.sender.side.session is observation.session]:
                    self._link_over(link, None)
                self._session_over(observation.session)

    def _delivery(self, delivery: ObservedDelivery) -> None:
        fields = (
            *_named(delivery.link),
            delivery.id,
            delivery.tag,
            self._moment(delivery.began),
            self._moment(delivery.settled),
            None if delivery.settled is None or delivery.began is None else delivery.settled - delivery.began,
            delivery.frames,
            delivery.octets,
            delivery.outcome,
            delivery.is_settled,
        )
        self._add("delivery", fields)

    def _attached(self, link: ObservedLink) -> None:
        if link not in self._links:
            kept = self._links[link] = _Attachment(link, self._item.time if self._item else None)
            if link.room <= 0 and not link.is_refused:
                kept.wait = _Wait(kept.began, self._common())

    def _link_over(self, link: ObservedLink, reason: Reason | None) -> None:
        kept = self._links.pop(link, None)
        if kept is None:
            return
        if kept.wait is not None:
            self._add("starvation", (*_named(link), *kept.wait.times(None)), kept.wait.common)
        outcomes = {
            outcome: count - kept.outcomes.get(outcome, 0)
            for outcome, count in link.outcomes.items()
            if count > kept.outcomes.get(outcome, 0)
        }
        deliveries = link.deliveries - kept.before
        condition, description = reason or (None, None)
        fields = (
            *_named(link),
            kept.began,
            self._item.time if self._item else None,
            deliveries,
            link.octets - kept.octets,
            list(outcomes.items()),
            deliveries - sum(outcomes.values()),
            kept.most,
            kept.most_at,
            link.is_refused,
            condition,
            description,
        )
        self._add("link", fields)

    def _session_over(self, session: ObservedSession) -> None:
        ways = self._sessions.pop(session, None)
        if ways is None:
            return
        sides = {side.name: side for side in session.ends}
        for name, way in ways.items():
            if way.wait is not None:
                side = sides["client" if name == "client" else "server"]
                self._add("stall", (name, side.channel, *way.wait.times(None)), way.wait.common)
        client, server = ways["client"], ways["server"]
        reason = session.reason
        fields = (
            sides["client"].channel,
            sides["server"].channel,
            self._moment(session.began),
            self._moment(session.ended),
            client.transfers,
            server.transfers,
            client.octets,
            server.octets,
            None if reason is None else reason.condition,
            None if reason is None else reason.description,
        )
        self._add("session", fields)

    # --- rows and times ---

    def _common(self) -> tuple[Any, ...]:
        item = self._item
        if item is None:
            return (*self._place, None, None, None, None, None)
        frame = self._observer.notes.frame
        return (*self._place, item.time, item.packet, item.direction, item.offset, frame)

    def _add(self, kind: str, fields: tuple[Any, ...], common: tuple[Any, ...] | None = None) -> None:
        self._found.add(kind, common or self._common(), fields)

    def _clock(self, time: int | None) -> float | None:
        """A time as the observer has it: seconds since the first one."""
        return None if time is None or self._base is None else (time - self._base) / _MICROSECONDS

    def _moment(self, seconds: float | None) -> int | None:
        """A time of the observer in microseconds since 1970."""
        return None if seconds is None or self._base is None else self._base + round(seconds * _MICROSECONDS)


def _unsettled(session: ObservedSession) -> list[ObservedDelivery]:
    return [delivery for side in session.ends for delivery in side.unsettled.values()]


def _named(link: ObservedLink) -> tuple[str, int | None, str | None, str | None, str | None]:
    side = link.sender.side
    return (side.name, side.channel, link.name, link.source, link.target)


def _seconds(began: int | None, ended: int | None) -> float | None:
    return None if began is None or ended is None else (ended - began) / _MICROSECONDS
