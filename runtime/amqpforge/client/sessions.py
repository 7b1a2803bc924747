"""The sessions of a connection: links share one as long as there is room on it, and none drags others down.

An application does not see them. A session that is lost is begun anew, and its links are attached again; a
link that takes sessions with it is found out and given up.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from amqpforge.engine.session import Session as SessionEnd
from amqpforge.engine.settings import SessionSettings
from amqpforge.errors import AmqpforgeError, LocalError, SessionEnded
from amqpforge_protocol.amqp_1_0 import SessionState

from .waiting import fresh

if TYPE_CHECKING:
    from amqpforge.engine.connection import Connection as ConnectionEnd
    from amqpforge.engine.events import Begun, Ended

    from .lifeline import Lifeline
    from .link import Link

__all__ = ["Session", "Sessions"]

_STEADY: Final = 30.0
"""A session that lived for so many seconds is worth to be begun anew without a growing pause."""
_MOST_FAILURES: Final = 5
"""How often a session is begun anew that does not live so long."""
_FIRST_PAUSE: Final = 0.05

_log = logging.getLogger("amqpforge.session")


class Session:
    """Links that share a session.

    Attributes:
        engine: the session; None while there is none.
        links: the links that are, or shall be, attached to it.
        is_shared: whether further links may be put on it.
        begun: done when the peer has begun it for the first time.
    """

    def __init__(self, pool: Sessions, settings: SessionSettings | None, *, is_shared: bool) -> None:
        self._pool = pool
        self._settings = settings
        self.is_shared = is_shared
        self.engine: SessionEnd | None = None
        self.links: dict[Link[Any], None] = {}
        self.begun: asyncio.Future[None] = pool.loop.create_future()
        self._failures = 0
        self._begun_at = 0.0

    @property
    def is_begun(self) -> bool:
        """Whether links can be attached now."""
        return self.engine is not None and self.engine.state is SessionState.MAPPED

    @property
    def has_room(self) -> bool:
        """Whether the peer allows for one more link."""
        remote = None if self.engine is None else self.engine.remote
        return remote is None or len(self.links) <= remote.handle_max

    def add(self, link: Link[Any]) -> None:
        """Put a link on the session, and attach it as soon as that is possible."""
        self.links[link] = None
        link._home = self
        if self.is_begun:
            link._attach_on(self)
        elif self.engine is None:
            self.begin()

    def remove(self, link: Link[Any]) -> None:
        """A link is over."""
        self.links.pop(link, None)
        link._home = None
        if not self.links and not self.is_shared:
            self._pool.drop(self)

    def begin(self) -> None:
        """Begin the session, if the connection is there; else that is done once it is."""
        connection = self._pool.engine
        if connection is None or not connection.may_write or self.engine is not None:
            return
        engine = connection.session(self._settings)
        try:
            engine.begin()
        except LocalError as error:
            self.fail(error)
            return
        self.engine = engine
        self._pool.by_engine[engine] = self
        self._begun_at = self._pool.now()
        self._pool.wake()

    def attach_later(self, link: Link[Any], attempt: int) -> None:
        """Attach a link again after a pause that grows with the number of the attempt."""
        self._pool.later(attempt, lambda: self._attach(link))

    def _attach(self, link: Link[Any]) -> None:
        if link in self.links and self.is_begun and not link.is_attached:
            link._attach_on(self)

    def on_begun(self) -> None:
        """The peer's begin is in; what ended the session since is told next."""
        if not self.begun.done():
            self.begun.set_result(None)
        if not self.is_begun:
            return
        remote = None if self.engine is None else self.engine.remote
        for number, link in enumerate(list(self.links)):
            if self.is_shared and remote is not None and number > remote.handle_max:
                del self.links[link]  # It came while nobody knew yet how much room there is.
                self._pool.place(link)
            else:
                link._attach_on(self)

    def on_ended(self, error: SessionEnded) -> None:
        """The peer has ended the session, or its faults have, while the connection goes on."""
        self.engine = None
        _log.info("a session with %d links is over: %s", len(self.links), error)
        suspects = [link for link in self.links if not link.is_attached]
        if not self._pool.recovers:
            self.fail(error)
            return
        for link in list(self.links):
            if link.is_attached:
                link._lose_session(error)
        if len(suspects) == 1:
            if not suspects[0]._forgo_resuming(error):
                suspects[0]._fail(error)
        else:
            for link in suspects:  # One of them is to blame: each on a session of its own, that shows.
                del self.links[link]
                link._lose_session(error)
                self._pool.place_alone(link)
        if self.links:
            self._return(error, is_explained=bool(suspects))

    def _return(self, error: SessionEnded, *, is_explained: bool) -> None:
        is_steady = self._pool.now() - self._begun_at > _STEADY
        self._failures = 1 if is_steady or is_explained else self._failures + 1
        if self._failures > 1 and len(self.links) > 1:
            for link in list(self.links):  # Again, and again one of them is to blame.
                del self.links[link]
                self._pool.place_alone(link)
        elif self._failures > _MOST_FAILURES:
            self.fail(error)
        else:
            self._pool.later(self._failures, self.begin)

    def on_lost(self, error: AmqpforgeError) -> None:
        """The connection is lost; there will be another one."""
        self.engine = None
        if not self.links:
            self.fail(error)
        for link in list(self.links):
            link._lose_session(error)

    def fail(self, error: AmqpforgeError) -> None:
        """There will be no such session: its links are over."""
        if not self.begun.done():
            self.begun.set_exception(fresh(error))
            self.begun.exception()
        for link in list(self.links):
            link._fail(error)


class Sessions:
    """All sessions of a connection.

    Attributes:
        engine: the connection; None while there is none.
        by_engine: the sessions that are begun.
    """

    def __init__(self, connection: Lifeline, settings: SessionSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._sessions: dict[Session, None] = {}
        self.engine: ConnectionEnd | None = None
        self.by_engine: dict[SessionEnd, Session] = {}
        self.loop = connection._loop
        self.now = connection._loop.time

    def __len__(self) -> int:
        return len(self.by_engine)

    @property
    def links(self) -> list[Link[Any]]:
        """All links that are not over."""
        return [link for session in self._sessions for link in session.links]

    @property
    def recovers(self) -> bool:
        """Whether what is lost is made again."""
        return self._connection._recovers

    def wake(self) -> None:
        """There may be something to send."""
        self._connection._wake()

    def place(self, link: Link[Any], own: SessionSettings | None = None) -> None:
        """Put a new link on a session: on one of its own, if it has settings for that."""
        if own is not None:
            self._new(own, is_shared=False).add(link)
            return
        for session in self._sessions:
            if session.is_shared and session.has_room:
                session.add(link)
                return
        self._new(self._settings, is_shared=True).add(link)

    def place_alone(self, link: Link[Any]) -> None:
        """Put a link on a session of its own."""
        self._new(self._settings, is_shared=False).add(link)

    def single(self) -> Session:
        """A session without links, begun for its own sake."""
        session = self._new(self._settings, is_shared=False)
        session.begin()
        return session

    def drop(self, session: Session) -> None:
        """Nobody needs the session any more."""
        self._sessions.pop(session, None)
        engine, session.engine = session.engine, None
        if engine is not None:
            self.by_engine.pop(engine, None)
            if engine.state in (SessionState.MAPPED, SessionState.BEGIN_SENT):
                engine.end()
                self.wake()

    def later(self, attempt: int, action: Any) -> None:
        """Do something after a pause, if the connection is there then."""
        self.loop.call_later(_FIRST_PAUSE * 2 ** min(attempt, 10), self._if_up, action)

    def _if_up(self, action: Any) -> None:
        if self.engine is not None:
            action()

    def _new(self, settings: SessionSettings, *, is_shared: bool) -> Session:
        session = Session(self, settings, is_shared=is_shared)
        self._sessions[session] = None
        return session

    # --- what the connection tells ----------------------------------------------------------------------

    def up(self, engine: ConnectionEnd) -> None:
        """There is a connection, again perhaps: begin all sessions."""
        self.engine = engine
        for session in list(self._sessions):
            session.begin()

    def down(self, error: AmqpforgeError) -> None:
        """The connection is lost."""
        self.engine = None
        self.by_engine.clear()
        for session in list(self._sessions):
            session.on_lost(error)

    def on_begun(self, event: Begun) -> None:
        """The peer's begin is in."""
        session = self.by_engine.get(event.session)
        if session is not None:
            session.on_begun()

    def on_ended(self, event: Ended) -> None:
        """A session is over; if its connection is too, that is told next."""
        session = self.by_engine.pop(event.session, None)
        if session is not None and self.engine is not None and self.engine.may_write:
            session.on_ended(event.error or SessionEnded("the peer ended the session"))

    def fail(self, error: AmqpforgeError) -> None:
        """The connection is over for good."""
        self.engine = None
        for session in list(self._sessions):
            session.fail(error)
