"""The ends of a connection between two others, and which of their channels make a session (section 2.5.1)."""

from __future__ import annotations

from typing import Final

from amqpforge_protocol.amqp_1_0 import (
    Begin,
    ConnectionState,
    End,
    LinkState,
    ProtocolHeader,
    SessionEvent,
    SessionState,
)

from .observations import EndName, Notebook, Owed, Reason, Rule
from .observed_session import ObservedSession, SessionEnd
from .progress import Progress
from .tables import CONNECTION

__all__ = ["NEVER", "NO_LIMIT", "ConnectionEnd", "ObservedChannels"]

NEVER: Final = float("inf")
NO_LIMIT: Final = 1 << 32
_SESSION_DEBTS: Final[dict[int | None, str]] = {
    SessionState.BEGIN_RCVD: "a begin",
    SessionState.END_RCVD: "an end",
}
_LINK_DEBTS: Final[dict[int | None, str]] = {
    LinkState.ATTACH_RCVD: "an attach",
    LinkState.DETACH_RCVD: "a detach",
    LinkState.ERROR_RCVD: "a detach",
    LinkState.CLOSE_RCVD: "a closing detach",
    LinkState.CLOSE_OWED: "an attach and a closing detach, since its detach was not closing,",
}


class ConnectionEnd:
    """One end of the connection.

    Attributes:
        name: which end it is.
        peer: the other one.
        progress: its state.
        header: the protocol header of AMQP proper that it sent; None before, and if it was missed.
        container: the container-id of its open; None before, and if it was missed.
        channels: its ends of sessions, by the channel of its frames.
        unanswered: those that it has ended before the other end has begun them.
        is_seen_whole: whether it was seen from its first octet on; None: nothing was seen so far.
        has_gaps: whether frames of either end are missing.
        is_open: whether it has sent open, as far as can be seen.
        has_closed, has_ended: whether it has sent close, or ended its half of the transport.
        reason: the error of its close.
        frames: of it, so far, empty ones included, protocol headers not.
        octets: in these frames.
        may_size: the largest frame that it may send, in octets.
        may_channel: the highest channel that it may use.
        silence: how long it may be silent, in seconds.
        deadline: until when, unless it sends something.
    """

    __slots__ = (
        "channels",
        "container",
        "deadline",
        "frames",
        "has_closed",
        "has_ended",
        "has_gaps",
        "header",
        "is_open",
        "is_seen_whole",
        "may_channel",
        "may_size",
        "name",
        "octets",
        "peer",
        "progress",
        "reason",
        "silence",
        "unanswered",
    )

    def __init__(self, name: EndName) -> None:
        self.name: EndName = name
        self.peer = self
        self.progress = Progress(CONNECTION, ConnectionState.START)
        self.header: ProtocolHeader | None = None
        self.container: str | None = None
        self.channels: dict[int, SessionEnd] = {}
        self.unanswered: dict[int, SessionEnd] = {}
        self.is_seen_whole: bool | None = None
        self.has_gaps = False
        self.is_open = False
        self.has_closed = False
        self.has_ended = False
        self.reason: Reason | None = None
        self.frames = 0
        self.octets = 0
        self.may_size = NO_LIMIT
        self.may_channel = NO_LIMIT
        self.silence = NEVER
        self.deadline = NEVER


class ObservedChannels:
    """Which channels of the two ends make a session. The numbers of the two directions are unrelated."""

    __slots__ = ("_is_incomplete", "_notes")

    def __init__(self, notes: Notebook) -> None:
        self._notes = notes
        self._is_incomplete = False  # There are sessions that are not followed, or not known.

    def begin(self, end: ConnectionEnd, channel: int, begin: Begin) -> None:
        """An end begins a session, or answers the begin of the other end."""
        old = end.channels.get(channel)
        if old is not None and old.session.is_judged:
            refusal = old.progress.send(
                SessionEvent.SEND_BEGIN, old.peer.progress, SessionEvent.RECEIVE_BEGIN
            )
            if refusal is not None:
                self._notes.violated(end.name, Rule.STATE, refusal.text, channel, refusal.condition)
                return
        side = self._begun(end, channel, begin)
        if side is None:
            return
        if old is not None and old is not side:
            self._leave(end, old)
        side.channel = channel
        end.channels[channel] = side
        side.session.begin(side, begin)

    def end(self, end: ConnectionEnd, side: SessionEnd, frame: End) -> None:
        """An end ends a session."""
        side.session.end(side, frame)
        if side.session.is_judged and not side.peer.has_begun and side.channel is not None:
            older = end.unanswered.pop(side.channel, None)
            if older is not None:
                older.session.drop()
                self._notes.live_sessions -= 1
            end.unanswered[side.channel] = side
        self._leave(end, side)

    def unknown(self, end: ConnectionEnd, channel: int, frame: str) -> SessionEnd | None:
        """A frame comes on a channel that no begin of this end has named: told once.

        Returns:
            An end of a session that is not known, to be followed as far as it goes; None if there are too
            many.
        """
        if end.is_seen_whole and not self._is_incomplete:
            text = f"{frame} comes on channel {channel}, on which no session is begun"
            self._notes.violated(end.name, Rule.CHANNEL, text, channel)
        other = end.peer.channels.get(channel)
        if other is not None and not other.session.is_judged and other.peer.channel is None:
            side = other.peer
        else:
            session = self._new(end, is_judged=False)
            if session is None:
                return None
            side = session.ends[0]
        self._notes.unknown(end.name, f"unknown session on channel {channel}")
        side.channel = channel
        end.channels[channel] = side
        return side

    def doubt(self, end: ConnectionEnd) -> None:
        """Frames are missing: sessions may have come and gone."""
        for side in (*end.channels.values(), *end.peer.channels.values()):
            side.session.is_judged = False

    def clear(self, *ends: ConnectionEnd) -> None:
        """The connection is over."""
        for session in self._sessions(*ends):
            session.drop()
        for end in ends:
            end.channels.clear()
            end.unanswered.clear()
        self._notes.live_sessions = 0

    def owed(self, *ends: ConnectionEnd) -> list[Owed]:
        """What each end has to send by the state tables; nothing is said of an end that was not heard."""
        if any(end.is_seen_whole is None for end in ends):
            return []
        owed = [
            Owed(end.name, None, what)
            for end in ends
            for what, is_owed in (
                ("an open", end.peer.is_open and not end.is_open),
                ("a close", end.peer.has_closed and not end.has_closed),
            )
            if is_owed
        ]
        if not any(end.has_closed for end in ends):
            for session in self._sessions(*ends):
                if session.is_judged:
                    owed += _debts(session)
        return owed

    def _begun(self, end: ConnectionEnd, channel: int, begin: Begin) -> SessionEnd | None:
        """The end of a session that a begin means; None if there are too many to follow."""
        remote = begin.remote_channel
        if remote is None:
            session = self._new(end, is_judged=True)
            return None if session is None else session.ends[0]
        peer = end.peer
        other = peer.unanswered.pop(remote, None) or peer.channels.get(remote)
        if other is not None and other.peer.channel is None:
            return other.peer
        if peer.is_seen_whole and not self._is_incomplete:
            text = f"a begin answers channel {remote}, on which the other end waits for none"
            self._notes.violated(end.name, Rule.CHANNEL, text, channel)
        session = self._new(end, is_judged=False)
        if session is None:
            return None
        side = session.ends[0]
        if other is None:
            self._notes.unknown(peer.name, f"unknown session on channel {remote}")
            side.peer.channel = remote
            peer.channels[remote] = side.peer
        return side

    def _new(self, end: ConnectionEnd, *, is_judged: bool) -> ObservedSession | None:
        notes = self._notes
        if notes.live_sessions >= notes.limits.sessions:
            notes.is_full(end.name, "sessions")
            self._is_incomplete = True
            return None
        notes.live_sessions += 1
        return ObservedSession(notes, end.name, end.peer.name, is_judged=is_judged)

    def _leave(self, end: ConnectionEnd, side: SessionEnd) -> None:
        """A channel means no session any more."""
        side.has_ended = True
        if side.channel is not None and end.channels.get(side.channel) is side:
            del end.channels[side.channel]
        if side.session.is_over:
            side.session.drop()
            self._notes.live_sessions -= 1

    def _sessions(self, *ends: ConnectionEnd) -> list[ObservedSession]:
        """All sessions that are not over, each once."""
        sides = [side for end in ends for side in (*end.channels.values(), *end.unanswered.values())]
        return list(dict.fromkeys(side.session for side in sides))


def _debts(session: ObservedSession) -> list[Owed]:
    owed = []
    for side in session.ends:
        channel = side.channel if side.channel is not None else side.peer.channel
        what = _SESSION_DEBTS.get(side.progress.latest)
        if what is not None:
            owed.append(Owed(side.name, channel, what))
    for link in session.links.all():
        for end in (link.sender, link.receiver):
            what = _LINK_DEBTS.get(end.progress.latest)
            if what is not None:
                owed.append(Owed(end.side.name, end.side.channel, f"{what} of {link.shown}"))
        if link.drain is not None:
            text = f"a flow of {link.shown}, to be drained since frame {link.drain}"
            owed.append(Owed(link.sender.side.name, link.sender.side.channel, text))
    return owed
