"""The endpoint of a link, and its terminus: names and handles, attaching and detaching, what is unsettled
(section 2.6).

One object is both. It outlives its session, with its unsettled deliveries, and the same object is attached
again on another session, of another connection: that is how a link is resumed.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

from amqpforge.errors import LinkDetached, LocalError, ProtocolViolation
from amqpforge_protocol.amqp_1_0 import (
    FRAME_HEADER_SIZE,
    AmqpError,
    Attach,
    Detach,
    Disposition,
    EncodeError,
    Error,
    Flow,
    Handle,
    LinkError,
    LinkEvent,
    LinkState,
    Role,
    SessionError,
    Transfer,
)
from amqpforge_protocol.amqp_1_0.states import LINK_TRANSITIONS

from .delivery import is_terminal
from .events import Attached, Detached, Updates
from .held import Held
from .peer_end import PeerEnd
from .resume import fit_unsettled, read_unsettled
from .tables import LINK, LinkFault, SessionFault, as_error, move, step
from .terminus import Terminus

if TYPE_CHECKING:
    from amqpforge_protocol.amqp_1_0.archetypes import AnySource, AnyTarget

    from .session import Session

__all__ = ["Link"]

_RECEIVE_FRAME: Final = LinkEvent.RECEIVE_FRAME
_FAILING: Final = frozenset((LinkState.DISCARDING, LinkState.FAILED))
_DETACHING: Final = frozenset((LinkState.DETACH_SENT, LinkState.CLOSE_SENT, LinkState.DISCARDING))
_CUT_OFF: Final = frozenset((LinkState.DETACHED, LinkState.FAILED, LinkState.SUSPENDED))
"""Nothing is attached, and the terminus lives."""


class Link(Terminus):
    """One end of a link; :class:`.sender.Sender` and :class:`.receiver.Receiver` are the two kinds."""

    __slots__ = ()

    # --- what we do ---

    def attach_to(self, session: Session) -> None:
        """Send our attach on a session; :meth:`.session.Session.attach` checks the name."""
        was_lost = self.state in (LinkState.SUSPENDED, LinkState.FAILED)
        self._send_attach(session, resume=was_lost or self._brings_map or self._answers_with_map)
        session.connection.read_on()

    def attach(self, *, source: AnySource | None = None, target: AnyTarget | None = None) -> None:
        """Answer the peer's attach, or attach again what was detached on its session.

        Args:
            source: for a sender, its source as it really is; None: as the peer asked for it.
            target: for a receiver, its target as it really is; None: as the peer asked for it.

        Raises:
            LocalError: the state does not allow it, or the attach does not fit into a frame.
        """
        session = self._require_session()
        if source is not None:
            self.source = source
        if target is not None:
            self.target = target
        self.attach_to(session)

    def refuse(self, error: Error) -> None:
        """Answer the peer's attach with one that has no terminus of ours, and close the link (section 2.6.3).

        Raises:
            LocalError: the peer's attach is not waiting for an answer, or the error is too large for a frame.
        """
        session = self._require_session()
        state = move(LINK, self.state, LinkEvent.SEND_REFUSAL)
        _check_fits(session, Detach(handle=Handle(0), closed=True, error=error))
        session.require_write()
        if self.role is Role.SENDER:
            self.source = None
        else:
            self.target = None
        handle = session.take_handle()
        try:
            session.write(self._attach_frame(handle, unsettled=None))
        except (LocalError, EncodeError):
            session.free_handle(handle)
            raise
        self.handle = Handle(handle)
        self.state = state
        self.error = LinkDetached(f"the link {self.name!r:.80} was refused", error)
        self._send_detach(error, closed=True)
        session.connection.read_on()

    def detach(self, error: Error | None = None, *, closed: bool = False) -> None:
        """Detach the link: the terminus stays, unless ``closed``. Before the peer's attach is in, the detach
        waits for it.

        Raises:
            LocalError: the link is not attached, or the error is too large for a frame.
        """
        session = self._require_session()
        if error is not None:
            _check_fits(session, Detach(handle=Handle(0), closed=closed, error=error))
        if self.state is LinkState.ATTACH_SENT:
            self._detach_later = (error, closed)
            return
        self._send_detach(error, closed=closed)
        if error is not None and self.error is None:
            self.error = LinkDetached(f"the link {self.name!r:.80} was detached", error)
        session.connection.read_on()

    def close(self, error: Error | None = None) -> None:
        """Close the link: both termini go, and with them what is unsettled.

        Raises:
            LocalError: the link is not attached, or the error is too large for a frame.
        """
        self.detach(error, closed=True)

    def expire(self) -> None:
        """End the life of a terminus that is attached to nothing, as its expiry policy asks for.

        Raises:
            LocalError: the link is attached, or being detached.
        """
        state = step(LINK, self.state, LinkEvent.EXPIRE)
        if state is not None:
            self.state = state
            self._close()

    # --- input ---

    @property
    def expects_attach(self) -> bool:
        """Whether an attach of the peer is for this endpoint, or is early for it; else it steals the link."""
        return self.state is not LinkState.ATTACHED and self.state is not LinkState.CLOSE_SENT

    @property
    def awaits_detach(self) -> bool:
        """Whether the peer's handle is about to be free: all it takes is our detach."""
        return self.state in (LinkState.DETACH_RCVD, LinkState.ERROR_RCVD)

    def on_attach(self, session: Session, attach: Attach) -> None:
        """Take the peer's attach.

        Raises:
            SessionFault: it is not legal now, or a field is missing or wrong.
            Held: something of ours has to go first.
        """
        resumes = attach.unsettled is not None
        was = self.state
        if was is LinkState.ATTACH_RCVD or self.awaits_detach:
            raise Held
        state = move(LINK, was, LinkEvent.RECEIVE_RESUME if resumes else LinkEvent.RECEIVE_ATTACH)
        self.check_attach(attach)
        if state is LinkState.ATTACH_RCVD:
            # A terminus that outlived its endpoint answers with its map; one that is new, or never left the
            # session, does not.
            was_lost = was in (LinkState.SUSPENDED, LinkState.FAILED)
            self._answers_with_map = was_lost or self._brings_map or (resumes and self.remote is not None)
            if self._answers_with_map and was is not LinkState.SUSPENDED:
                self.suspend()
            self.renew()
        self._join(session)
        self.remote = PeerEnd.of(attach, session.peer_ends)
        self.learn(attach, self.remote)
        self.remote_unsettled = attach.unsettled
        self.remote_handle = attach.handle
        # An endpoint of the peer that never left the session does not tell what is unsettled.
        is_silent = was is LinkState.DETACHED and self._answers_with_map and not resumes
        self.remote_incomplete = attach.incomplete_unsettled or is_silent
        self.error = None
        self.state = state

    def check_attach(self, attach: Attach) -> None:
        """Check what an attach has to hold.

        Raises:
            SessionFault: a field is missing or wrong.
        """
        try:
            read_unsettled(attach.unsettled)
        except ProtocolViolation as fault:
            raise SessionFault(fault.condition, fault.description) from fault

    def after_attach(self, attach: Attach) -> None:
        """Report the peer's attach, and do what it makes possible."""
        session = self._require_session()
        if self.state is LinkState.CLOSE_SENT:  # The peer attached again only to close.
            return
        if session.is_ending:  # Nobody can answer, or go on.
            return
        session.connection.tell_link(self, Attached(self, attach, self.is_refused))
        if self.state is LinkState.ATTACHED:
            self.whole()

    def whole(self) -> None:
        """Both attaches are exchanged."""
        session = self._require_session()
        if self._is_stolen:
            self._close_stolen()
            return
        if session.peer:
            self._peer = session.peer
            self._keeper = session.connection.container
            self._keeper.keep(session.peer, self)
        later, self._detach_later = self._detach_later, None
        if later is not None and (later[1] or not self.is_refused):  # Who refuses closes anyway.
            self._brings_map = self.told_map  # Nothing was compared.
            self._send_detach(later[0], closed=later[1])
        elif not self.is_refused:
            self.start()
            if self._owes_flow and self.is_open:
                self.answer_flow()
        self._owes_flow = False
        self.remote_unsettled = None

    def start(self) -> None:
        """The link is whole and wanted: traffic can begin, resumed deliveries first."""

    def on_detach(self, detach: Detach) -> None:
        """Take the peer's detach.

        Raises:
            SessionFault: it is not legal now.
            Held: something of ours has to go first.
        """
        session = self._require_session()
        if self.state in (LinkState.ATTACH_RCVD, LinkState.REFUSED):
            raise Held
        event = LinkEvent.RECEIVE_CLOSE if detach.closed else LinkEvent.RECEIVE_DETACH
        if detach.error is not None and not detach.closed:
            event = LinkEvent.RECEIVE_DETACH_ERROR
        state = move(LINK, self.state, event)
        by_peer = self.state not in _DETACHING
        if self.remote_handle is not None:
            session.unmap(self.remote_handle)
            self.remote_handle = None
        if detach.error is not None and self.error is None:
            self.error = LinkDetached(f"the peer detached the link {self.name!r:.80}", detach.error)
        self.state = state
        if self._is_stolen and self.state in _CUT_OFF:
            self.state = LinkState.CLOSED
        self.stop()
        if session.connection.settings.auto_answer and session.may_write:
            self._answer_detach()
        self._gone()
        if self.state is LinkState.DETACHED and (self.is_partial or self.is_unresumed):
            self._brings_map = True  # Not all is compared yet.
        if self.state is LinkState.DETACHED and (self._tries_again or (by_peer and self.is_partial)):
            self._try_again(session)
        elif not self._is_told:
            session.connection.tell_link(self, Detached(self, self.error, by_peer=by_peer))

    def _answer_detach(self) -> None:
        if self.state in (LinkState.DETACH_RCVD, LinkState.ERROR_RCVD):
            self._send_detach(None, closed=False)
        elif self.state is LinkState.CLOSE_RCVD:
            self._send_detach(None, closed=True)
        elif self.state is LinkState.CLOSE_OWED:
            self._send_attach(self._require_session(), resume=False)
            self._send_detach(None, closed=True)

    def _try_again(self, session: Session) -> None:
        """Resume afresh: what is unsettled may fit into the maps by now (section 2.6.13)."""
        self._tries_again = False
        try:
            self.attach_to(session)
        except LocalError as reason:  # Not even one unsettled delivery fits.
            fault = SessionFault(AmqpError.FRAME_SIZE_TOO_SMALL, f"{self!r} cannot be resumed: {reason}")
            session.fail(fault)

    @abstractmethod
    def on_flow(self, flow: Flow) -> None:
        """Take a flow that names this link."""

    def answer_echo(self) -> None:
        """Tell the peer our flow state, as it asked; once our attach is out, if it is not."""
        session = self.session
        if self.state is LinkState.ATTACH_RCVD:
            self._owes_flow = True
        elif self.is_open and session is not None and session.may_write:
            self.answer_flow()

    def on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Take a transfer that names this link."""
        raise SessionFault(AmqpError.NOT_ALLOWED, f"a transfer came to {self!r}, which sends")

    def takes_frame(self) -> bool:
        """Whether a flow or transfer that names this link counts.

        Raises:
            SessionFault: it may not come now.
        """
        if LINK_TRANSITIONS[self.state][_RECEIVE_FRAME] >= 0:
            return True
        return step(LINK, self.state, _RECEIVE_FRAME) is not None

    def on_disposition(self, delivery: Any, disposition: Disposition) -> None:
        """Take the peer's news of a delivery."""
        if self.state in _FAILING:
            raise SessionFault(
                SessionError.ERRANT_LINK,
                f"disposition came for a delivery of {self!r}, which was detached with an error",
            )
        state, known = disposition.state, delivery.remote_state
        if state is not None and (known is None or not is_terminal(known)):
            delivery.remote_state = state
        if disposition.settled:
            delivery.remote_settled = True
        self.hear(delivery)
        news = self.news
        if news is None:
            self.tell_news(delivery)
        else:
            news.append(delivery)

    def tell_news(self, delivery: Any) -> None:
        """Report what became of a delivery."""
        if self.news is None:
            session = self.session
            if session is None:
                return
            self.news = []
            session.connection.batched(self)
            session.connection.tell(Updates(self, self.news))
        self.news.append(delivery)

    # --- the end of it ---

    def fail(self, fault: LinkFault) -> None:
        """Close the link because of a fault of the peer; one that is being detached takes its session along.

        The close keeps what is on its way already from counting against the whole session (section 2.6.5).
        """
        session = self._require_session()
        error = as_error(fault)
        if self.state is LinkState.ATTACH_RCVD and session.may_write:
            self.refuse(error)
        elif LINK_TRANSITIONS[self.state][LinkEvent.SEND_CLOSE] < 0:
            session.fail(SessionFault(fault.condition, fault.description))
            return
        elif session.may_write:
            self._send_detach(error, closed=True)
        self.error = LinkDetached(f"the peer broke the protocol on the link {self.name!r:.80}", error)
        self.error.__cause__ = fault
        self._is_told = True
        session.connection.tell_link(self, Detached(self, self.error, by_peer=False))

    def steal(self) -> Link:
        """The peer attaches the link elsewhere: this endpoint is closed, another takes its terminus over.

        Returns:
            The other endpoint; one with a terminus of its own if that of this one is closed, or about to be.
        """
        taker = type(self)(self.name, source=self.source, target=self.target)
        taker.snd_settle_mode, taker.rcv_settle_mode = self.snd_settle_mode, self.rcv_settle_mode
        taker.max_message_size, taker.properties = self.max_message_size, self.properties
        taker.offered_capabilities = self.offered_capabilities
        taker.desired_capabilities = self.desired_capabilities
        taker.auto_settle, taker.context, taker.is_answer = self.auto_settle, self.context, True
        state = step(LINK, self.state, LinkEvent.STEAL)
        if state is None:
            return taker
        self.suspend()
        self.hand_over(taker)
        taker.state = LinkState.SUSPENDED
        if self._keeper is not None:
            self._keeper.keep(self._peer, taker)
        if state is self.state:
            self._is_stolen = True  # It can be closed once it is attached, if ever.
        elif state is LinkState.CLOSED and self.state is not LinkState.ERROR_RCVD:
            self.error = _stolen(self)
            self.state = state
            session = self._require_session()
            self._close()
            session.connection.tell_link(self, Detached(self, self.error, by_peer=True))
        else:
            self._close_stolen()
        return taker

    def _close_stolen(self) -> None:
        session = self._require_session()
        self.error = _stolen(self)
        if session.may_write:
            self._send_detach(self.error.error, closed=True)
        self._is_told = True
        session.connection.tell_link(self, Detached(self, self.error, by_peer=True))
        session.connection.notify()

    def lose(self, cause: Exception | None) -> None:
        """The session is over: the link is suspended, unless it was being closed."""
        if self.error is None and cause is not None:
            self.error = LinkDetached(f"the session of the link {self.name!r:.80} is over")
            self.error.__cause__ = cause
        self.state = move(LINK, self.state, LinkEvent.SESSION_LOST)
        if self._is_stolen:
            self.state = LinkState.CLOSED
        self.stop()
        self.handle = self.remote_handle = None
        if self.state is LinkState.CLOSED:
            self._close()
        else:
            self._leave()

    def _gone(self) -> None:
        """See what is left after a detach: free the handle, keep or drop the terminus."""
        session = self.session
        if session is None or self.remote_handle is not None:
            return
        if LINK_TRANSITIONS[self.state][LinkEvent.SEND_FRAME] >= 0 or self.state in (
            LinkState.DETACH_SENT,
            LinkState.DISCARDING,
            LinkState.CLOSE_SENT,
            LinkState.CLOSE_RCVD,
            LinkState.CLOSE_OWED,
            LinkState.ERROR_RCVD,
        ):
            return
        if self.handle is not None:
            session.free_handle(self.handle)
            self.handle = None
        if self.state is LinkState.CLOSED:
            self._close()
        elif self.state is LinkState.SUSPENDED:
            self._leave()

    def _close(self) -> None:
        """Endpoint and terminus are destroyed."""
        self.forget()
        if self._keeper is not None:
            self._keeper.forget(self._peer, self)
        self._part()

    def _leave(self) -> None:
        """The endpoint is gone, the terminus lives on."""
        self.suspend()
        self._part()
        self._detach_later = None
        self._tries_again = self._owes_flow = self._answers_with_map = False
        if self._keeper is not None:
            self._keeper.suspended(self._peer, self)

    def _join(self, session: Session) -> None:
        self.session = session
        session.links[self.name, self.role] = self
        self._is_told = False
        if self._keeper is not None:
            self._keeper.resumed(self)

    def _part(self) -> None:
        session = self.session
        if session is not None and session.links.get((self.name, self.role)) is self:
            del session.links[self.name, self.role]
        self.session = None

    # --- frames ---

    def _send_attach(self, session: Session, *, resume: bool) -> None:
        was = self.state
        state = move(LINK, was, LinkEvent.SEND_RESUME if resume else LinkEvent.SEND_ATTACH)
        handle = session.take_handle() if self.handle is None else self.handle
        attach = self._attach_frame(handle, self.unsettled_map if resume else None)
        try:
            session.write(self._fitted(attach, session))
        except (LocalError, EncodeError):
            if self.handle is None:
                session.free_handle(handle)
            raise
        if resume and was in _CUT_OFF:
            self.suspend()
        if was is not LinkState.ATTACH_RCVD:
            self.renew()
        self.incomplete = attach.incomplete_unsettled
        self.handle = Handle(handle)
        self._join(session)
        self._brings_map = self._answers_with_map = False
        self.told_map = resume
        self.has_told = self.has_told or resume
        self.error = None
        self.state = state
        if state is LinkState.ATTACHED:
            self.whole()

    def _fitted(self, attach: Attach, session: Session) -> Attach:
        """The attach with as much of its unsettled map as fits into a frame (section 2.7.3)."""
        if not attach.unsettled:
            return attach
        if self.remote_incomplete and self.state is LinkState.ATTACH_RCVD:
            # What both ends know of can be resumed in this round, so it goes first.
            theirs = read_unsettled(self.remote_unsettled)
            attach.unsettled = dict(
                sorted(attach.unsettled.items(), key=lambda entry: entry[0] not in theirs)
            )
        fitted = fit_unsettled(attach, session.connection.peer_max_frame_size)
        attach.incomplete_unsettled = fitted.incomplete_unsettled
        return fitted

    def _attach_frame(self, handle: int, unsettled: dict[bytes, Any] | None) -> Attach:
        attach = Attach(
            name=self.name,
            handle=Handle(handle),
            role=self.role,
            snd_settle_mode=self.snd_settle_mode,
            rcv_settle_mode=self.rcv_settle_mode,
            source=self.source,
            target=self.target,
            unsettled=unsettled,
            offered_capabilities=list(self.offered_capabilities) or None,
            desired_capabilities=list(self.desired_capabilities) or None,
            properties=dict(self.properties) or None,
        )
        self.complete(attach)
        return attach

    def _send_detach(self, error: Error | None, *, closed: bool) -> None:
        session = self._require_session()
        event = LinkEvent.SEND_CLOSE if closed else LinkEvent.SEND_DETACH
        if error is not None and not closed:
            event = LinkEvent.SEND_DETACH_ERROR
        state = move(LINK, self.state, event)
        session.require_write()
        session.tell_gathered()
        session.write(Detach(handle=Handle(self.handle or 0), closed=closed, error=error))
        self.state = state
        self.stop()
        self._gone()

    def _require_session(self) -> Session:
        if self.session is None:
            raise LocalError(f"{self!r} is not part of a session")
        return self.session


def _stolen(link: Link) -> LinkDetached:
    error = Error(condition=LinkError.STOLEN, description="the link is attached elsewhere")
    return LinkDetached(f"the link {link.name!r:.80} was stolen", error)


def _check_fits(session: Session, performative: Detach) -> None:
    """Raises LocalError if a frame is too large for the peer, or cannot be encoded."""
    try:
        size = len(performative.encode()) + FRAME_HEADER_SIZE
    except EncodeError as reason:
        raise LocalError(f"the error cannot be encoded: {reason}") from reason
    most = session.connection.peer_max_frame_size
    if size > most:
        raise LocalError(f"the error takes a frame of {size} octets, and the peer's max-frame-size is {most}")
