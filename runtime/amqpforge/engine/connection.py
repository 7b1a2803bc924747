"""The endpoint of a connection: what its driver, its sessions and its links see of it.

Sections 2.2 to 2.4. There is no I/O here, no clock and no thread: octets and the time come in as arguments,
octets and events are fetched. The states and what is legal in them are the generated tables. :mod:`.opening`
brings the connection about, :mod:`.input` reads what comes in, :mod:`.watch` looks at the clock, and
:mod:`.ending` deals with the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amqpforge.errors import ConnectionClosed, ConnectionLost, LocalError
from amqpforge_protocol.amqp_1_0 import (
    FRAME_HEADER_SIZE,
    MIN_MAX_FRAME_SIZE,
    AmqpError,
    Close,
    ConnectionEvent,
    ConnectionState,
    Error,
    Open,
)
from amqpforge_protocol.amqp_1_0.states import CONNECTION_TRANSITIONS, IGNORED

from .agreement import Agreement
from .channels import Channels
from .container import Container
from .ending import Ending
from .events import Event
from .input import Input
from .link import Link
from .opening import UNOPENED, Opening
from .output import HIGH_WATER, Output
from .sender import Sender
from .session import Session
from .settings import ConnectionSettings, SessionSettings
from .tables import CONNECTION, move
from .unfinished import Unfinished
from .watch import Watch

__all__ = ["Connection"]

_RECEIVE_CLOSE: Final = ConnectionEvent.RECEIVE_CLOSE
_SEND_FRAME: Final = ConnectionEvent.SEND_FRAME
_MUTE: Final = frozenset(
    state
    for state in ConnectionState
    if all(
        CONNECTION_TRANSITIONS[state][event] < 0
        for event in ConnectionEvent
        if event.name.startswith("SEND_")
    )
)


class Connection:
    """One end of a connection, of AMQP proper: security layers come before it (see :mod:`.layers`).

    Attributes:
        notify: called when there is something to send although nobody asked for it: another connection of the
            container has stolen a link of this one.
        settings: what our open tells.
        container: the container of this end.
        is_server: whether this end was connected to.
        unfinished: how much is kept of messages of which not all is in.
        state: where the connection stands; its row of the table of transitions is ``row``.
        remote: the peer's open; None before it is in.
        sessions: the sessions with an outgoing channel, by its number.
        opening, ending: how it comes about, and how it ends.
        watch: what it does by the clock.
        input_ended: whether the transport's input has ended.
        output: what waits to be written.
        ready: senders that wait for room in the output.
        busy: sessions with dispositions or credit to tell.
        peer_max_frame_size: the largest frame that we write: what both opens allow, and before the peer's is
            known what every peer takes.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        container: Container,
        *,
        is_server: bool = False,
        unfinished: Unfinished | None = None,
    ) -> None:
        """``unfinished``: bounds what is kept of messages that are not whole; None: the size of a message and
        the credit of each link do so alone.
        """
        self.settings = settings
        self.container = container
        self.is_server = is_server
        self.unfinished = unfinished or Unfinished()
        self.state = ConnectionState.START
        self.row = CONNECTION_TRANSITIONS[self.state]
        self.remote: Open | None = None
        self.input_ended = False
        self.opening = Opening(self)
        self.ending = Ending(self)
        self.watch = Watch(self)
        self.output = Output()
        self.ready: dict[Sender, None] = {}
        self.busy: dict[Session, None] = {}
        self.peer_max_frame_size = MIN_MAX_FRAME_SIZE
        self.notify: Callable[[], None] = _nobody
        self._channels = Channels()
        self.sessions = self._channels.outgoing
        self._input = Input(self, self._channels)
        self._events: list[Event] = []
        self._batches: list[Link] = []

    # --- the boundary ---

    def receive(self, data: bytes | bytearray | memoryview, now: float) -> None:
        """Take octets of the peer, however they are cut; what they bring is in :meth:`events` and
        :meth:`data_to_send`.
        """
        if self.row[_RECEIVE_CLOSE] == IGNORED or self.input_ended:
            return
        if not self.opening.has_header:
            data = self.opening.take_header(data)
            if not self.opening.has_header or self.state is ConnectionState.END:
                return
            self.watch.idle.last_input = now
        if self._input.feed(data):
            self.watch.idle.last_input = now

    def end_of_input(self, now: float) -> None:
        """The transport's input has ended. What came in ahead of that and is held still counts."""
        self.input_ended = True
        if self.ending.is_draining:
            self.ending.time_is_up()
        self._input.end()

    def events(self) -> list[Event]:
        """What happened since the last call, in order."""
        events = self._events
        self._events = []
        for link in self._batches:
            link.batch = link.news = None
        self._batches.clear()
        return events

    def data_to_send(self, now: float) -> bytes:
        """The octets to write now, empty if there are none; to be called after anything else and at
        :meth:`next_deadline`.
        """
        self.watch.look(now)
        self._tell()
        octets = self.output.drain()
        if self.ready:
            octets = self._pump(octets)
        if octets:
            self.watch.idle.last_output = now
        return octets

    def next_deadline(self) -> float | None:
        """When :meth:`data_to_send` has to be called even if nothing happens; None: never."""
        return self.watch.deadline()

    @property
    def output_closed(self) -> bool:
        """Whether nothing is written behind what waits now: the writing side of the transport can be shut."""
        return self.state in _MUTE

    @property
    def is_over(self) -> bool:
        """Whether the transport can be dropped, once what waits is written.

        After headers that differ the peer's octets are read, and thrown away, until they end or time is up
        (section 2.2).
        """
        return self.state is ConnectionState.END and not self.ending.is_draining

    @property
    def wants_input(self) -> bool:
        """Whether to go on reading: not while input is held until something is answered."""
        return not self._input.is_held

    @property
    def error(self) -> ConnectionClosed | None:
        """Why the connection is over; None while it is not, or if it was closed without an error."""
        return self.ending.error

    @property
    def frames_received(self) -> int:
        """Frames that came in so far, empty ones included."""
        return self._input.frames

    # --- what we do ---

    def send_header(self) -> None:
        """Send the protocol header: as a client the preferred version, as a server the answer to the
        client's.

        Raises:
            LocalError: it is sent already.
        """
        self.opening.send_header()

    def open(self) -> None:
        """Send open, and the protocol header ahead of it if it is not out.

        Raises:
            LocalError: it is sent already, the connection is over, or the open is larger than the peer takes.
            EncodeError: what it is to tell cannot be encoded.
        """
        self.opening.send_open()
        self.opening.agree()
        self.read_on()

    def close(self, error: Error | None = None) -> None:
        """Close the connection: nothing is written any more, and the peer's close is awaited.

        Before our open is out there is nothing to close, and the transport is just given up.

        Raises:
            LocalError: it is closed already, or the error is larger than the peer takes.
            EncodeError: the error cannot be encoded.
        """
        if self.state in UNOPENED:
            self.ending.over(None, by_peer=False)
            return
        body = Close(error=error).encode()
        self.require_fit(len(body), Close.XML_NAME)
        self._tell()
        self.step(ConnectionEvent.SEND_CLOSE if error is None else ConnectionEvent.SEND_CLOSE_ERROR)
        self.output.add_frame(0, body)
        self.opening.waiting.clear()
        self.ending.on_our_close(error)
        self.read_on()

    def session(self, settings: SessionSettings | None = None) -> Session:
        """A new session, which :meth:`.session.Session.begin` begins."""
        return Session(self, settings or self.settings.session)

    def lose(self, error: ConnectionClosed | None = None) -> None:
        """The transport is gone, or given up."""
        self.input_ended = True
        self.ending.is_draining = False
        self.ending.over(error or ConnectionLost("the transport was given up"), by_peer=False)

    @property
    def agreement(self) -> Agreement:
        """What the two opens agree on."""
        return Agreement(self.settings, self.remote, is_server=self.is_server)

    @property
    def channel_max(self) -> int:
        """The highest channel on which we may begin a session.

        Every session takes one of our channels and one of the peer's, so both limits count; the peer's is
        taken to be 65535 until it is known.
        """
        ours = self.settings.channel_max
        return ours if self.remote is None else min(ours, self.remote.channel_max)

    # --- for sessions and links ---

    @property
    def may_write(self) -> bool:
        """Whether frames of sessions may be written."""
        return self.row[_SEND_FRAME] >= 0

    @property
    def has_channel(self) -> bool:
        """Whether there is a channel for another session."""
        return self._channels.has_room(self.channel_max)

    def take_channel(self, session: Session) -> int:
        """Give a session the lowest free outgoing channel (section 2.5.1).

        Raises:
            LocalError: no frames may be written, or all channels are taken.
        """
        if self.row[_SEND_FRAME] < 0:
            self.step(_SEND_FRAME)
        return self._channels.take(session, self.channel_max)

    def free_channel(self, channel: int) -> None:
        """The outgoing channel of a session that has ended is free again."""
        self._channels.free(channel)

    def write(self, channel: int, performative: Any) -> None:
        """Write a frame of a session, or keep it until the peer's open says that it may be written.

        Raises:
            LocalError: nothing may be written, or the frame is larger than the peer takes.
            EncodeError: it cannot be encoded.
        """
        if self.row[_SEND_FRAME] < 0:
            self.step(_SEND_FRAME)
        body = performative.encode()
        size = len(body)
        if self.remote is None:
            waiting = self.opening.waiting
            if waiting or channel or size + FRAME_HEADER_SIZE > MIN_MAX_FRAME_SIZE:
                waiting.append((channel, performative))
                return
        elif size + FRAME_HEADER_SIZE > self.peer_max_frame_size:
            self.require_fit(size, performative.XML_NAME)
        self.output.add_frame(channel, body)

    def require_fit(self, size: int, name: str) -> None:
        """Check that a performative of ``size`` octets could be written.

        Raises:
            LocalError: its frame is larger than the peer takes.
        """
        size += FRAME_HEADER_SIZE
        if size > self.peer_max_frame_size:
            raise LocalError(
                f"{AmqpError.FRAME_SIZE_TOO_SMALL}: {name} takes a frame of {size} octets, and the "
                f"max-frame-size of both ends allows {self.peer_max_frame_size}"
            )

    def read_on(self) -> None:
        """Read what was held, up to what has to be held now."""
        if self._input.is_held:
            self.watch.idle.last_input = None  # The peer was not silent: we did not listen.
        self._input.read_on()

    def tell(self, event: Event) -> None:
        """Report an event."""
        self._events.append(event)

    def tell_link(self, link: Link, event: Event) -> None:
        """Report what happened to a link; what it delivers from now on comes behind that."""
        link.batch = link.news = None
        self._events.append(event)

    def batched(self, link: Link) -> None:
        """A link has begun to fill an event, which ends with the batch of events."""
        self._batches.append(link)

    # --- states and the end of it ---

    def step(self, event: ConnectionEvent) -> None:
        """Take a step in the table of states.

        Raises:
            LocalError: we must not do this in this state.
            ProtocolViolation: the peer must not do this in this state.
        """
        self.enter(move(CONNECTION, self.state, event))

    def take(self, event: ConnectionEvent) -> None:
        """The peer did what leaves nothing to do but to check it.

        Raises:
            ProtocolViolation: it must not, in this state.
        """
        if self.row[event] != self.state:
            self.step(event)

    def enter(self, state: ConnectionState) -> None:
        """Be in a state."""
        self.state = state
        self.row = CONNECTION_TRANSITIONS[state]

    def stop(self) -> None:
        """Do nothing from now on but to write what waits."""
        if self.state is not ConnectionState.END:
            self.step(ConnectionEvent.DROP)
        self.watch.timer.stop()
        self._input.stop()
        self.lose_sessions()

    def lose_sessions(self) -> None:
        """No session can go on."""
        for session in self._channels.empty():
            session.lose(self.error)
        self.ready.clear()
        self.busy.clear()
        self.opening.waiting.clear()

    # --- output ---

    def _tell(self) -> None:
        """Write the dispositions and the credit that sessions have gathered."""
        if self.busy:
            busy, self.busy = self.busy, {}
            for session in busy:
                session.tell_gathered()

    def _pump(self, octets: bytes) -> bytes:
        """Go on with the senders that waited for room, each in its turn."""
        parts = [octets]
        while self.ready and sum(map(len, parts)) < HIGH_WATER:
            ready, self.ready = self.ready, {}
            for link in ready:
                link.pump()
            if not self.output.size:
                break
            parts.append(self.output.drain())
        return b"".join(parts)


def _nobody() -> None:
    """Nobody wants to be called."""
