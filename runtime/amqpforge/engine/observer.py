"""An observer of a captured conversation: drives both ends of a connection through the tables, windows and
credits that our own ends live by, and says what happened and who broke which rule. No I/O, no clock.

What an end can know. The frames of both directions are taken in the order in which they passed the capture
point, which lies between the ends. A frame is judged by what its sender *can have seen*: anything that passed
the capture point before it, and nothing that passed later.

- What permits (credit, windows, limits of an open or begin) counts from the moment it passes: the sender may
  have it. The most generous grant that is not used up counts, since one that takes it back may not have
  arrived.
- What forbids (an end, a detach, a close, a handle-max of the other end) does not count until the sender's
  own frames show that it has seen it: see :mod:`.progress`.
- What an end says of itself (its handles, ids, counts) has to agree with what it said before, at once.

So a real fault may go unseen; an innocent end is never blamed.

Caught from the middle. A direction whose first item is no protocol header has begun earlier: nothing is known
of the connection's state and limits then. A session is known if both its begins were seen; in any other what
is seen is counted, as far as it can be (two unknown channels of the same number are taken for the two ends of
one session), and nobody is blamed. The same holds from a gap in the capture on. What is unknown is told once
for each channel and handle. Of a direction that was not captured at all nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amqpforge_protocol.amqp_1_0 import (
    MIN_MAX_FRAME_SIZE,
    Begin,
    Close,
    ConnectionEvent,
    ConnectionState,
    End,
    Open,
    ProtocolHeader,
    ProtocolId,
)
from amqpforge_protocol.amqp_1_0.states import CONNECTION_TRANSITIONS

from .observations import (
    DEFAULT_OBSERVER_LIMITS,
    ConnectionNews,
    Direction,
    Notebook,
    Observation,
    ObserverLimits,
    Owed,
    Reason,
    Rule,
    shortened,
)
from .observed_connection import NEVER, NO_LIMIT, ConnectionEnd, ObservedChannels
from .observed_sasl import ObservedSasl
from .progress import Refusal

__all__ = ["Observer"]

_MAY_SEND: Final = frozenset(
    state for state in ConnectionState if CONNECTION_TRANSITIONS[state][ConnectionEvent.SEND_FRAME] >= 0
) | {None}
"""The states in which the table lets frames of sessions go out; None is no state: adrift."""


class Observer:
    """Follows one connection between two others.

    Items are given in the order in which they were captured, both directions together. Times are in seconds
    of any clock that does not run backwards; None: unknown.

    Attributes:
        client, server: the two ends; the client is who began the transport.
        notes: the counts.
        sasl: the SASL exchange; None if there was none.
    """

    def __init__(
        self,
        tell: Callable[[Observation], None] | None = None,
        limits: ObserverLimits = DEFAULT_OBSERVER_LIMITS,
    ) -> None:
        """``tell`` is called with each observation, at once; None: only counts are kept."""
        self.notes = Notebook(tell or _nobody, limits)
        self.client, self.server = ConnectionEnd("client"), ConnectionEnd("server")
        self.client.peer, self.server.peer = self.server, self.client
        self.sasl: ObservedSasl | None = None
        self._ends = {"c2s": self.client, "s2c": self.server}
        self._channels = ObservedChannels(self.notes)
        self._owed: list[Owed] | None = None  # When the connection was over.

    def owed(self) -> list[Owed]:
        """What the ends owe each other by the state tables, and drains without an answer: now, or when the
        transport ended.
        """
        return self._channels.owed(self.client, self.server) if self._owed is None else self._owed

    # --- items ---

    def header(self, header: ProtocolHeader, direction: Direction, time: float | None) -> None:
        """An end sends a protocol header."""
        end = self._item(direction, time)
        peer = end.peer
        if end.is_seen_whole is None:
            end.is_seen_whole = True
            peer.may_size, peer.may_channel = MIN_MAX_FRAME_SIZE, 0  # Until its open tells more.
        if header.protocol_id == ProtocolId.SASL:
            self.sasl = self.sasl or ObservedSasl(self.notes)
        if header.protocol_id != ProtocolId.AMQP:
            return
        sends, receives = ConnectionEvent.SEND_HEADER, ConnectionEvent.RECEIVE_HEADER
        if peer.header is not None and peer.header != header:
            sends, receives = ConnectionEvent.SEND_OTHER_HEADER, ConnectionEvent.RECEIVE_OTHER_HEADER
        if self._is_legal(end, sends, receives) and self._is_first(end, "header", end.header is None):
            end.header = header

    def sasl_frame(self, step: Any, size: int, direction: Direction, time: float | None) -> None:
        """An end sends a SASL frame of so many octets."""
        end = self._item(direction, time)
        end.frames += 1
        end.octets += size
        if end.is_seen_whole is None:
            self._missed(end)
        if self.sasl is None:
            self.sasl = ObservedSasl(self.notes)
        if size > MIN_MAX_FRAME_SIZE:
            text = f"a SASL frame has {size} octets, and {MIN_MAX_FRAME_SIZE} is the most"
            self.notes.violated(end.name, Rule.FRAME_SIZE, text)
        self.sasl.step(end.name, step, is_judged=bool(end.is_seen_whole and end.peer.is_seen_whole))

    def frame(
        self,
        channel: int,
        performative: Any,
        payload: int,
        size: int,
        direction: Direction,
        time: float | None,
    ) -> None:
        """An end sends a frame.

        Args:
            channel: its channel.
            performative: what it says; None: it is empty.
            payload: octets behind the performative.
            size: octets of the whole frame.
            direction: which way it goes.
            time: when it was captured.
        """
        end = self._item(direction, time)
        end.frames += 1
        end.octets += size
        if end.is_seen_whole is None:
            self._missed(end)
        if size > end.may_size or channel > end.may_channel:
            self._check_limits(end, channel, size)
        kind = type(performative)
        if kind is Open:
            self._open(end, performative)
            return
        if kind is Close:
            self._close(end, performative)
            return
        if performative is None:
            if end.has_closed or end.progress.state not in _MAY_SEND:
                self._is_legal(end, ConnectionEvent.SEND_EMPTY, ConnectionEvent.RECEIVE_EMPTY)
            return
        end.is_open = True
        if (end.has_closed or end.progress.state not in _MAY_SEND) and not self._is_legal(
            end, ConnectionEvent.SEND_FRAME, ConnectionEvent.RECEIVE_FRAME
        ):
            return
        if kind is Begin:
            self._channels.begin(end, channel, performative)
            return
        side = end.channels.get(channel) or self._channels.unknown(end, channel, performative.XML_NAME)
        if side is None:
            return
        if kind is End:
            self._channels.end(end, side, performative)
        else:
            side.session.frame(side, performative, payload)

    def lost(self, direction: Direction, time: float | None) -> None:
        """Something that an end sent is missing from the capture, or cannot be read."""
        end = self._item(direction, time)
        end.is_seen_whole = False
        self.notes.unknown(
            end.name, "frames are missing here: nobody is blamed for what may follow from them"
        )
        end.progress.set_adrift()
        end.peer.progress.set_adrift()
        end.has_gaps = end.peer.has_gaps = True
        if end.container is None:  # Its open may be among them.
            end.peer.may_size = end.peer.may_channel = NO_LIMIT
        self._channels.doubt(end)

    def end_of_input(self, direction: Direction, time: float | None) -> None:
        """An end ends its half of the transport."""
        notes, end = self.notes, self._ends[direction]
        notes.time = time
        self.look(time)
        if end.has_ended:
            return
        has_to_close = end.is_open and not (end.has_closed or end.has_gaps)
        # Whoever was not heard at all may have ended its half before the capture.
        if has_to_close and not end.peer.has_ended and end.peer.is_seen_whole is not None:
            notes.violated(end.name, Rule.CLOSE, "the transport ends without a close")
        if end.peer.has_ended:
            self._over()
        end.has_ended = True
        end.silence = end.deadline = NEVER
        notes.tell(ConnectionNews("transport ended", end.name, None, notes.frame, time))

    def look(self, now: float | None) -> None:
        """Look at the clock: who has been silent for too long."""
        for end in (self.client, self.server):
            if now is not None and now > end.deadline:
                end.deadline = NEVER
                text = f"silent for more than {end.silence:g} s, twice the idle-time-out of the other end"
                self.notes.violated(end.name, Rule.IDLE, text)

    # --- the connection ---

    def _item(self, direction: Direction, time: float | None) -> ConnectionEnd:
        notes = self.notes
        notes.frame += 1
        notes.time = time
        end = self._ends[direction]
        if time is not None:
            if time > self.client.deadline or time > self.server.deadline:
                self.look(time)
            end.deadline = time + end.silence
        return end

    def _is_legal(self, end: ConnectionEnd, sends: ConnectionEvent, receives: ConnectionEvent) -> bool:
        """Take a step in the state of the connection; False: the end is to blame, and nothing has changed."""
        refusal = end.progress.send(sends, end.peer.progress, receives)
        if refusal is None and end.has_closed:
            refusal = Refusal("nothing follows a close", None)
        if refusal is not None:
            self.notes.violated(end.name, Rule.STATE, refusal.text, None, refusal.condition)
        return refusal is None

    def _is_first(self, end: ConnectionEnd, what: str, is_first: bool) -> bool:
        """See that a thing is sent once, although nothing is known of the state."""
        if not is_first:
            self.notes.violated(end.name, Rule.STATE, f"{what} is sent once")
        return is_first

    def _missed(self, end: ConnectionEnd) -> None:
        """The first item of a direction is no protocol header: it began before the capture."""
        end.is_seen_whole = False
        end.progress.set_adrift()
        end.peer.progress.set_adrift()
        self.notes.unknown(end.name, "the connection began before the capture")

    def _check_limits(self, end: ConnectionEnd, channel: int, size: int) -> None:
        known = "is taken" if end.peer.is_open else "may be sent before the other end's open"
        if size > end.may_size:
            text = f"the frame has {size} octets, and no more than {end.may_size} {known}"
            self.notes.violated(end.name, Rule.FRAME_SIZE, text, channel)
        if channel > end.may_channel:
            text = f"channel {channel} is above {end.may_channel}, the highest that {known}"
            self.notes.violated(end.name, Rule.CHANNEL_MAX, text, channel)

    def _open(self, end: ConnectionEnd, open: Open) -> None:
        is_legal = self._is_legal(end, ConnectionEvent.SEND_OPEN, ConnectionEvent.RECEIVE_OPEN)
        if not (is_legal and self._is_first(end, "open", end.container is None)):
            return
        notes, peer = self.notes, end.peer
        end.is_open = True
        end.container = shortened(open.container_id)
        peer.may_size = max(open.max_frame_size, MIN_MAX_FRAME_SIZE)
        peer.may_channel = open.channel_max
        if open.idle_time_out and not (peer.has_closed or peer.has_ended):
            peer.silence = 2 * open.idle_time_out / 1000
            if notes.time is not None and peer.is_seen_whole is not None:
                peer.deadline = notes.time + peer.silence
        notes.tell(ConnectionNews("opened", end.name, None, notes.frame, notes.time))

    def _close(self, end: ConnectionEnd, close: Close) -> None:
        sends = ConnectionEvent.SEND_CLOSE if close.error is None else ConnectionEvent.SEND_CLOSE_ERROR
        if not self._is_legal(end, sends, ConnectionEvent.RECEIVE_CLOSE):
            return
        end.is_open = end.has_closed = True
        end.reason = Reason.of(close.error)
        for one in (end, end.peer):
            one.silence = one.deadline = NEVER
        notes = self.notes
        notes.tell(ConnectionNews("closed", end.name, end.reason, notes.frame, notes.time))
        if end.peer.has_closed:
            self._over()

    def _over(self) -> None:
        """Nothing more can come: what the sessions hold is dropped."""
        self._owed = self.owed()
        self._channels.clear(self.client, self.server)


def _nobody(observation: Observation) -> None:
    """Nobody wants to be told."""
