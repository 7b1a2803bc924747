"""What senders and receivers share: being attached, lost, attached again, and closed."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeVar

from amqpforge.engine.receiver import Receiver as ReceiverEnd
from amqpforge.engine.sender import Sender as SenderEnd
from amqpforge.errors import (
    AmqpforgeError,
    EndpointClosed,
    LinkDetached,
    LocalError,
    OperationTimedOut,
)
from amqpforge_protocol.amqp_1_0 import (
    AmqpError,
    Coordinator,
    EncodeError,
    LinkError,
    LinkState,
    Role,
    Source,
    Target,
)

from .waiting import DEFAULT, Timeout, fresh, time_limit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqpforge.engine.events import Attached, Detached
    from amqpforge.engine.peer_end import PeerEnd

    from .connection import Connection
    from .sessions import Session

__all__ = ["End", "Link"]

End = TypeVar("End", SenderEnd, ReceiverEnd)

_CAN_CLOSE: Final = frozenset((LinkState.ATTACH_SENT, LinkState.ATTACHED))
_log = logging.getLogger("amqpforge.link")


class Link(ABC, Generic[End]):
    """One end of a link as applications hold it. It stays the same when the connection is lost and made anew.

    Many tasks may use one link. It is made by a connection, and closed by :meth:`close` or at the end of its
    ``async with`` block.
    """

    # A connection may have many thousands: nothing is made for one before it is needed.
    __slots__ = (
        "__weakref__",
        "_attached_at",
        "_changed",
        "_connection",
        "_end",
        "_error",
        "_failures",
        "_home",
        "_is_attached",
        "_is_closing",
        "_is_over",
        "_is_resuming",
        "_loop",
        "_reattached",
        "_resumes",
        "_was_attached",
    )

    #: Whether it is attached again after it was lost; else it is over then.
    _recovers: ClassVar[bool] = True

    def __init__(self, connection: Connection, end: End) -> None:
        """``end`` is the first one to attach; :meth:`_make_end` makes others if it cannot be resumed."""
        self._connection: Connection = connection
        self._loop = connection._loop
        self._end: End = end
        end.context = self
        self._home: Session | None = None
        self._error: AmqpforgeError | None = None
        self._changed: asyncio.Future[None] | None = None
        self._is_attached = False
        self._was_attached = False
        self._is_closing = False
        self._is_over = False
        self._reattached = 0
        self._failures = 0
        self._attached_at = 0.0
        self._resumes = True
        self._is_resuming = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} {self._end.state.name}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None and self._error is None:
                await self._finish_work()
        finally:
            await self.close()

    # --- what applications see --------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the link: unique among the links of its direction between the two containers."""
        return self._end.name

    @property
    def connection(self) -> Connection:
        """The connection that it belongs to."""
        return self._connection

    @property
    def is_open(self) -> bool:
        """Whether it is of use: it is not closed, and not given up. It may be waiting for a connection."""
        return self._error is None and not self._is_closing

    @property
    def is_attached(self) -> bool:
        """Whether both ends are attached just now."""
        return self._is_attached

    @property
    def error(self) -> AmqpforgeError | None:
        """Why it is over; None while it is not, or if it was closed from here."""
        return self._error if self._is_over and not self._is_closing else None

    @property
    def remote_properties(self) -> Mapping[str, Any]:
        """What the peer's attach told beyond what has a name here."""
        remote = self._end.remote
        return (remote.properties if remote is not None else None) or {}

    @property
    def remote_capabilities(self) -> tuple[str, ...]:
        """The extensions that the peer offers: on this link, and at the node that it leads to."""
        return _capabilities(self._end.remote)

    async def wait_attached(self, *, timeout: Timeout = DEFAULT) -> None:
        """Wait until both ends are attached, again perhaps.

        Raises:
            OperationTimedOut: they are not in time.
            AmqpforgeError: the link is over.
        """
        async with time_limit(self._connection._limit(timeout), f"waiting for {self!r} to be attached"):
            while not self._is_attached:
                self._check()
                await self._change()

    async def close(self, *, timeout: Timeout = DEFAULT) -> None:
        """Close the link at both ends; nothing happens if it is over already.

        Whatever the peer answers, or does not answer, this ends within ``timeout`` seconds.
        """
        limit = self._connection._limit(timeout)
        if not self._is_closing and not self._is_over:
            self._is_closing = True
            self._before_close()
            if self._end.state in _CAN_CLOSE:
                self._end.close()
                self._connection._wake()
            else:
                self._finish(None)
        if not self._is_over:
            try:
                async with time_limit(limit, f"closing {self!r}"):
                    while not self._is_over:
                        await self._change()
            except OperationTimedOut as error:
                _log.warning("%s: the peer does not answer", error)
            finally:
                self._finish(None)

    # --- for the kinds ----------------------------------------------------------------------------------

    async def _finish_work(self) -> None:
        """The block of the link, or of the connection, ends as it should: do what is left to be done."""

    def _before_close(self) -> None:
        """The link is going to be closed by us."""

    def _ready(self) -> None:
        """The link is attached, again perhaps."""

    def _suspend(self, error: AmqpforgeError) -> None:
        """The link has lost its session, and will be attached again."""

    def _abandon(self, error: AmqpforgeError) -> None:
        """The link is over: nobody waits for it any more."""

    @abstractmethod
    def _make_end(self, lost: End) -> End:
        """Make an end that asks for the same as one that cannot be resumed once did."""

    def _repeat(self, end: End) -> None:
        """Another end, a new one, is going to be attached; ``end`` is the one that was lost."""

    @abstractmethod
    def _survives(self, end: End) -> bool:
        """Whether the peer keeps its terminus for a while when it has lost the link."""

    def _check(self) -> None:
        """See that the link is of use.

        Raises:
            AmqpforgeError: why it is not.
        """
        if self._error is not None:
            raise fresh(self._error)
        if self._is_closing:
            raise LocalError(f"{self!r} is closed")

    async def _change(self) -> None:
        """Wait until the link is attached, or over."""
        if self._changed is None:
            self._changed = self._loop.create_future()
        await asyncio.shield(self._changed)

    def _note_change(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set_result(None)

    # --- for sessions and the connection ----------------------------------------------------------------

    def _attach_on(self, session: Session) -> None:
        """Attach to a session that has begun."""
        engine = session.engine
        if engine is None or self._is_over or self._end.is_attached:
            return
        self._is_resuming = self._end.state is LinkState.SUSPENDED
        try:
            engine.attach(self._end)
        except LocalError as error:
            self._fail(error)
        except EncodeError as reason:
            failed = LocalError(f"what the link {self.name!r:.80} asks for cannot be encoded: {reason}")
            failed.__cause__ = reason
            self._fail(failed)
        self._connection._wake()

    async def _wait_opened(self, timeout: float | None) -> None:
        """Wait until the link is attached for the first time.

        Raises:
            LinkDetached: the peer refused it.
            SessionEnded: the peer ended the session instead of answering.
            OperationTimedOut: the peer does not answer.
        """
        try:
            async with time_limit(timeout, f"attaching the link {self.name!r}"):
                while not self._was_attached:
                    if self._error is not None:
                        raise fresh(self._error)
                    await self._change()
        except BaseException:
            self._end.context = None
            if self._end.state in _CAN_CLOSE:
                self._end.close()
                self._connection._wake()
            self._finish(None)
            raise

    def _on_attached(self, event: Attached) -> None:
        """The peer's attach is in: the answer to ours, or its own try to resume the link."""
        if event.is_refused:
            return
        if self._end.state is LinkState.ATTACH_RCVD:
            self._end.attach()
            self._connection._wake()
        if not self._end.is_attached:
            return
        self._is_attached = True
        self._attached_at = self._loop.time()
        _log.debug("%r is attached", self)
        if self._was_attached:
            self._reattached += 1
        self._was_attached = True
        self._ready()
        self._note_change()

    def _on_detached(self, event: Detached) -> None:
        """The link is detached, by whichever end."""
        was_attached, self._is_attached = self._is_attached, False
        if self._is_closing:
            if self._end.state is LinkState.CLOSE_CROSSED:  # RabbitMQ never attaches again to close its end.
                self._end.lose(None)
            self._finish(None)
            return
        error = event.error or LinkDetached(f"the peer detached the link {self.name!r}")
        _log.info("%r: %s", self, error)
        if was_attached and self._loop.time() - self._attached_at > _STEADY:
            self._failures = 0
        if was_attached and self._can_return(error):
            self._suspend(error)  # The peer keeps its terminus as long as the session lasts, if not longer.
            self._failures += 1
            if self._home is not None:
                self._home.attach_later(self, self._failures)
        elif self._forgo_resuming(error) and self._home is not None:
            self._home.attach_later(self, 1)
        else:
            self._fail(error)

    def _can_return(self, error: LinkDetached) -> bool:
        """Whether a link that the peer has detached is worth to be attached again."""
        is_kept = self._end.state in (LinkState.DETACHED, LinkState.SUSPENDED)
        is_harmless = error.error is None or error.condition == LinkError.DETACH_FORCED
        return is_kept and is_harmless and self._recovers and self._failures < _MOST_RETURNS

    def _close_soon(self) -> None:
        """The connection is going to be closed by us."""
        if not self._is_closing and not self._is_over:
            self._is_closing = True
            self._before_close()

    def _lose_session(self, error: AmqpforgeError) -> None:
        """The session is lost; another one is coming."""
        self._is_attached = False
        if self._is_closing:
            self._finish(None)
        elif not self._recovers:
            self._fail(error)
        elif not self._is_over:
            self._prepare_return(error)

    def _prepare_return(self, error: AmqpforgeError) -> None:
        """See whether the end that was lost can be attached again, or it has to be another one.

        A link is resumed if the peer's terminus outlives its session. Else there is nothing to resume, and
        many peers take an attach amiss that tries to.
        """
        end = self._end
        is_known = end.state is LinkState.SUSPENDED and self._was_attached
        if not (is_known and self._resumes and self._survives(end)):
            self._renew()
        self._suspend(error)

    def _renew(self) -> None:
        end, self._end = self._end, self._make_end(self._end)
        end.context = None
        self._end.context = self
        self._repeat(end)

    def _forgo_resuming(self, error: AmqpforgeError) -> bool:
        """If an error says that the peer does not know how to resume, do without from now on; returns whether
        it is worth another try.
        """
        condition = error.condition if isinstance(error, EndpointClosed) else None
        if not self._is_resuming or condition != AmqpError.NOT_IMPLEMENTED:
            return False
        self._resumes = self._is_resuming = False
        self._renew()
        return True

    def _fail(self, error: AmqpforgeError) -> None:
        """The link is over, and not by our will."""
        if self._is_over:
            return
        self._error = error
        self._finish(error)

    def _finish(self, error: AmqpforgeError | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._is_attached = False
        self._is_closing = self._is_closing or error is None
        reason = error or LinkDetached(f"the link {self.name!r} was closed")
        self._error = reason
        self._abandon(reason)
        self._note_change()
        if self._home is not None:
            self._home.remove(self)


_STEADY: Final = 30.0
"""A link that was attached for so many seconds was of use: some peers detach what is idle, time and again."""
_MOST_RETURNS: Final = 5
"""How often a link that does not last so long is attached again, if the peer detaches it and no more."""


def _capabilities(remote: PeerEnd | None) -> tuple[str, ...]:
    """What an attach offers, and the node at its end; each once."""
    if remote is None:
        return ()
    node = remote.source if remote.role is Role.SENDER else remote.target
    at_node = node.capabilities if isinstance(node, Source | Target | Coordinator) else None
    return tuple(dict.fromkeys((*(remote.offered_capabilities or ()), *(at_node or ()))))
