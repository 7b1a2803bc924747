"""The links of a session between two others: which frame means which link (sections 2.6.1 to 2.6.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from amqpforge_protocol.amqp_1_0 import Attach, Detach, LinkEvent, LinkState, Role

from .observations import EndName, LinkNews, Reason, Rule, identified
from .observed_link import LinkEnd, ObservedLink

if TYPE_CHECKING:
    from .observed_session import ObservedSession, SessionEnd

__all__ = ["ObservedLinks"]

_Key: TypeAlias = tuple[str, EndName]  # The name, and whose end sends.

_GONE: Final = frozenset((None, LinkState.CLOSED))


class ObservedLinks:
    """The links of a session, attached and detached."""

    __slots__ = ("_count", "_detached", "_session", "by_name")

    def __init__(self, session: ObservedSession) -> None:
        self._session = session
        self._count = 0
        self.by_name: dict[_Key, ObservedLink] = {}
        """Those with an end that is attached, or has a detach to come."""
        self._detached: dict[_Key, ObservedLink] = {}
        """Those that can be attached again, the longest detached first."""

    def clear(self) -> None:
        """The session is over."""
        self._session.notes.live_links -= self._count
        self._count = 0
        self.by_name.clear()
        self._detached.clear()

    def all(self) -> list[ObservedLink]:
        """The links that are known, attached ones first."""
        return [*self.by_name.values(), *self._detached.values()]

    # --- attach ---

    def attach(self, side: SessionEnd, attach: Attach) -> None:
        """An end attaches a link."""
        sender = side if attach.role is Role.SENDER else side.peer
        key = (identified(attach.name), sender.name)
        if not self._may_have(side, attach.handle, key):
            return
        link = self._meant(side, sender, key, attach)
        if link is None:
            return
        end = link.sender if sender is side else link.receiver
        self._free(end)  # A machine that is adrift lets an end attach twice.
        end.handle = attach.handle
        side.handles[attach.handle] = end
        if sender is side and attach.initial_delivery_count is None:
            side.violated(Rule.FIELD, f"the sender of {link.shown} tells no initial-delivery-count")
        link.learn(end, attach)
        if link.is_attached:
            notes = self._session.notes
            if link.attached is None:
                link.attached = notes.time
                notes.links += 1
            notes.tell(LinkNews("attached", link, None, notes.frame, notes.time))

    def _may_have(self, side: SessionEnd, handle: int, key: _Key) -> bool:
        """Check the handle of an attach; False: it cannot be told what the handle means from now on."""
        holder = side.handles.get(handle)
        if holder is not None:
            if holder.link.is_known:
                side.violated(Rule.HANDLE_IN_USE, f"handle {handle} is that of {holder.link.shown} already")
                if self._session.is_judged:
                    return False
            self._free(holder)
        freed = side.closing.get(handle)
        if freed is not None and freed.link is not self.by_name.get(key) and side.peer.has_begun:
            text = f"handle {handle} is given away before the other end has detached {freed.link.shown}"
            side.violated(Rule.HANDLE_IN_USE, text)
        most = side.peer.handle_max
        if most is not None and handle > most and side.has_heard:
            side.violated(Rule.HANDLE_MAX, f"handle {handle} is above {most}, the highest that is taken")
        return True

    def _meant(self, side: SessionEnd, sender: SessionEnd, key: _Key, attach: Attach) -> ObservedLink | None:
        """The link of an attach; None if it must not come now, or there are too many to follow."""
        resumes = attach.unsettled is not None
        sends = LinkEvent.SEND_RESUME if resumes else LinkEvent.SEND_ATTACH
        receives = LinkEvent.RECEIVE_RESUME if resumes else LinkEvent.RECEIVE_ATTACH
        link = self.by_name.get(key) or self._detached.get(key)
        if link is not None:
            end = link.sender if sender is side else link.receiver
            if end.progress.latest == LinkState.CLOSE_CROSSED and key in self._detached:
                # The other end may yet attach again to close; if this end attaches, it means another link.
                self._drop(key)
                link = None
        if link is None:
            if not self._has_room(side):
                return None
            link = ObservedLink(key[0], sender, sender.peer)
            self._add()
        end = link.sender if sender is side else link.receiver
        refusal = end.progress.send(sends, end.peer.progress, receives)
        if refusal is not None:
            side.violated(Rule.STATE, f"{link.shown}: {refusal.text}", refusal.condition)
            if self._session.is_judged:
                return None
        self._detached.pop(key, None)
        self.by_name[key] = link
        return link

    # --- detach ---

    def detach(self, side: SessionEnd, detach: Detach) -> None:
        """An end detaches a link."""
        end = side.handles.get(detach.handle) or self.unknown(side, detach.handle, "detach")
        if end is None:
            return
        sends, receives = LinkEvent.SEND_DETACH, LinkEvent.RECEIVE_DETACH
        if detach.closed:
            sends, receives = LinkEvent.SEND_CLOSE, LinkEvent.RECEIVE_CLOSE
        elif detach.error is not None:
            sends, receives = LinkEvent.SEND_DETACH_ERROR, LinkEvent.RECEIVE_DETACH_ERROR
        link = end.link
        end.progress.send(sends, end.peer.progress, receives)  # Legal as long as the handle is attached.
        link.reason = link.reason or Reason.of(detach.error)
        self._free(end)
        if not link.is_known:
            return
        peer = end.peer
        if peer.detaches < end.detaches and not end.is_closed:
            end.closing = detach.handle
            side.closing[detach.handle] = end
        elif peer.closing is not None:
            if peer.side.closing.get(peer.closing) is peer:
                del peer.side.closing[peer.closing]
            peer.closing = None
        if link.is_detached:
            notes = self._session.notes
            link.detached = notes.time
            self._put_away(link)
            notes.tell(LinkNews("detached", link, link.reason, notes.frame, notes.time))

    def _put_away(self, link: ObservedLink) -> None:
        """Both ends have detached a link: it can be attached again, unless it is closed."""
        key = (link.name or "", link.sender.side.name)
        if self.by_name.get(key) is link:
            del self.by_name[key]
            self._detached[key] = link
            if not _GONE.isdisjoint((link.sender.progress.latest, link.receiver.progress.latest)):
                self._drop(key)

    # --- handles without an attach ---

    def unknown(self, side: SessionEnd, handle: int, frame: str) -> LinkEnd | None:
        """A frame names a handle that no attach of this end has named: told once.

        Returns:
            An end of a link that is not known, to be followed as far as it goes; None if there are too many.
        """
        was_judged = self._session.is_judged
        end = self._assume(side, handle, Role.SENDER if frame == "transfer" else Role.RECEIVER)
        if was_judged:
            side.violated(Rule.HANDLE, f"a {frame} names handle {handle}, which is not attached")
        elif end is not None:
            text = f"unknown link with handle {handle} on channel {side.channel}"
            self._session.notes.unknown(side.name, text)
        return end

    def unknown_sender(self, side: SessionEnd, handle: int) -> LinkEnd | None:
        """A transfer names a handle that is not attached, or is that of a receiver; otherwise as
        :meth:`unknown`.
        """
        end = side.handles.get(handle)
        if end is None:
            return self.unknown(side, handle, "transfer")
        if end.link.is_known:
            side.violated(Rule.HANDLE, f"a transfer comes from the receiver of {end.link.shown}")
            return None
        self._free(end)
        return self._assume(side, handle, Role.SENDER)

    def _assume(self, side: SessionEnd, handle: int, role: Role) -> LinkEnd | None:
        if not self._has_room(side):
            return None
        self._add()
        sender = side if role is Role.SENDER else side.peer
        link = ObservedLink(None, sender, sender.peer)
        end = link.sender if role is Role.SENDER else link.receiver
        end.progress.set_adrift()
        end.peer.progress.set_adrift()
        end.handle = handle
        side.handles[handle] = end
        return end

    # --- keeping count ---

    def _free(self, end: LinkEnd) -> None:
        """The handle of a link end means nothing any more."""
        if end.handle is not None:
            end.side.handles.pop(end.handle, None)
            end.handle = None
        if not end.link.is_known:
            self._remove()

    def _has_room(self, side: SessionEnd) -> bool:
        notes = self._session.notes
        if notes.live_links >= notes.limits.links and self._detached:
            self._drop(next(iter(self._detached)))
        if notes.live_links < notes.limits.links:
            return True
        notes.is_full(side.name, "links")
        self._session.is_judged = False
        return False

    def _drop(self, key: _Key) -> None:
        del self._detached[key]
        self._remove()

    def _add(self) -> None:
        self._count += 1
        self._session.notes.live_links += 1

    def _remove(self) -> None:
        self._count -= 1
        self._session.notes.live_links -= 1
