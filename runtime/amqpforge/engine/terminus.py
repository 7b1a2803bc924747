"""What one end of a link is, apart from how it is attached: its ends, its modes, and what can be told of its
deliveries (section 2.6).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from amqpforge.errors import LinkDetached, LocalError
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Attach,
    EncodeError,
    Error,
    Handle,
    LinkState,
    Map,
    ReceiverSettleMode,
    Released,
    Role,
    SenderSettleMode,
    Symbol,
    encode_value,
)
from amqpforge_protocol.amqp_1_0.registry import DELIVERY_STATE

if TYPE_CHECKING:
    from amqpforge_protocol.amqp_1_0.archetypes import AnyDeliveryState, AnySource, AnyTarget

    from .container import Container
    from .delivery import IncomingDelivery
    from .link import Link
    from .peer_end import PeerEnd
    from .session import Session

__all__ = ["Terminus"]

_ROOM_BESIDE_STATE: Final = 128
"""Octets that a frame has beside a delivery state, at most: its header, and the other fields."""

_MUTE: Final = frozenset(
    (
        LinkState.REFUSED,
        LinkState.CLOSE_SENT,
        LinkState.CLOSE_RCVD,
        LinkState.CLOSE_CROSSED,
        LinkState.CLOSE_OWED,
        LinkState.CLOSED,
        LinkState.DISCARDING,
        LinkState.ERROR_RCVD,
        LinkState.FAILED,
    )
)
"""An endpoint is destroyed: nothing can be told about its deliveries (section 2.7.6)."""

_NO_PROPERTIES: Final[Mapping[str, Any]] = MappingProxyType({})


class Terminus(ABC):
    """What one end of a link is, wherever it is attached; :class:`.link.Link` attaches it.

    Attributes:
        name: unique among the links of its direction between two containers.
        source: where its messages come from: as the sender tells it, once that is known. Other links may
            have it too: what differs is to be a new object.
        target: where they go: as the receiver tells it, once that is known. Shared as the source is.
        snd_settle_mode: whether messages are sent settled: the sender decides, the receiver wishes.
        rcv_settle_mode: who settles first: the receiver decides, the sender wishes.
        max_message_size: octets of a message that this end takes at most; None or 0: no limit.
        properties: what our attach tells beyond that.
        state: where the link stands; see :class:`LinkState`.
        session: the session it is on; None while it is on none.
        handle: our handle of it; None while none is mapped.
        remote_handle: the peer's handle of it; None while none is mapped.
        remote: what the peer's latest attach told of its end; None before the first.
        remote_unsettled: what it told as unsettled there, until that is compared with what is here.
        error: why it is detached; None if there was no error.
        incomplete: our latest attach had no room for all that is unsettled.
        remote_incomplete: the peer's latest attach had none.
        auto_settle: settle a delivery by ourselves when the peer has settled it and its outcome is known, and
            as a sender also when the receiver, which waits for that, has told an outcome.
        is_answer: whether the peer asked for the link, not we.
        context: for whoever drives the engine.
    """

    __slots__ = (
        "_answers_with_map",
        "_brings_map",
        "_detach_later",
        "_is_stolen",
        "_is_told",
        "_keeper",
        "_owes_flow",
        "_peer",
        "_tries_again",
        "auto_settle",
        "batch",
        "context",
        "desired_capabilities",
        "error",
        "handle",
        "has_told",
        "incomplete",
        "is_answer",
        "is_open",
        "max_message_size",
        "name",
        "news",
        "offered_capabilities",
        "properties",
        "rcv_settle_mode",
        "remote",
        "remote_handle",
        "remote_incomplete",
        "remote_unsettled",
        "session",
        "snd_settle_mode",
        "source",
        "state",
        "target",
        "told_map",
    )

    role: ClassVar[Role]

    def __init__(
        self,
        name: str,
        *,
        source: AnySource | None = None,
        target: AnyTarget | None = None,
        snd_settle_mode: SenderSettleMode = SenderSettleMode.MIXED,
        rcv_settle_mode: ReceiverSettleMode = ReceiverSettleMode.FIRST,
        max_message_size: int | None = None,
        offered_capabilities: tuple[Symbol, ...] = (),
        desired_capabilities: tuple[Symbol, ...] = (),
        properties: Mapping[str, Any] | None = None,
        auto_settle: bool = True,
    ) -> None:
        self.name = name
        self.source = source
        self.target = target
        self.snd_settle_mode = snd_settle_mode
        self.rcv_settle_mode = rcv_settle_mode
        self.max_message_size = max_message_size
        self.offered_capabilities = offered_capabilities
        self.desired_capabilities = desired_capabilities
        self.properties: Mapping[str, Any] = dict(properties) if properties else _NO_PROPERTIES
        self.auto_settle = auto_settle
        self.state = LinkState.DETACHED
        self.session: Session | None = None
        self.handle: Handle | None = None
        self.remote_handle: int | None = None
        self.remote: PeerEnd | None = None
        self.remote_unsettled: Mapping[Any, Any] | Map | None = None
        self.error: LinkDetached | None = None
        self.batch: list[IncomingDelivery] | None = None
        self.news: list[Any] | None = None
        self.incomplete = False
        self.remote_incomplete = False
        self.is_answer = False
        self.told_map = False  # Our latest attach told what is unsettled.
        self.has_told = False  # One of our attaches did, since the link was suspended.
        self.is_open = False  # Both attaches are exchanged, and no detach: traffic can go.
        self.context: Any = None
        self._answers_with_map = False  # The answer to the peer's attach tells what is unsettled.
        self._brings_map = False  # The next attach does so.
        self._detach_later: tuple[Error | None, bool] | None = None
        self._is_stolen = False
        self._is_told = False  # The detach is reported already.
        self._owes_flow = False  # The peer asked for our flow state ahead of our attach.
        self._tries_again = False  # When both are detached, the link is resumed once more.
        self._keeper: Container | None = None
        self._peer = ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r:.80} {self.state.name}>"

    @classmethod
    def answering(cls, attach: Attach) -> Self:
        """The other end of the link that an attach of the peer asks for."""
        link = cls(
            attach.name,
            snd_settle_mode=attach.snd_settle_mode,
            rcv_settle_mode=attach.rcv_settle_mode,
        )
        link.is_answer = True
        return link

    @property
    @abstractmethod
    def unsettled_map(self) -> dict[bytes, Any]:
        """The state at this end of each delivery that has begun and is not settled, by its tag."""

    @property
    def is_attached(self) -> bool:
        """Whether both ends are attached."""
        return self.state is LinkState.ATTACHED

    @property
    def is_refused(self) -> bool:
        """Whether the peer has no terminus for the link: nothing goes over it."""
        remote = self.remote
        if remote is None:
            return False
        return (remote.target if self.role is Role.SENDER else remote.source) is None

    @property
    def is_partial(self) -> bool:
        """Whether one end had no room in its attach for all that is unsettled there: nothing new is sent."""
        return self.incomplete or self.remote_incomplete

    @property
    def common_capabilities(self) -> frozenset[Symbol]:
        """The extensions that we wish for and the peer offers: only these are used (section 2.7.3)."""
        offered = self.remote.offered_capabilities if self.remote is not None else None
        return frozenset(self.desired_capabilities).intersection(offered or ())

    def dispose(self, delivery: Any, *, settled: bool, last: int | None = None) -> None:
        """Tell the peer the state of a delivery, unless there is nobody to tell; and that those behind it, up
        to the delivery-id ``last``, have the same.
        """
        session, id = self.session, delivery.id
        if session is not None and id is not None and self.state not in _MUTE:
            session.dispose(self.role, id, id if last is None else last, delivery.state, settled)

    def owes_resuming(self, delivery: Any) -> bool:
        """Whether our attach has told of a delivery that is not resumed yet: until then the peer waits for
        it, and neither end can forget it without a word.
        """
        return self.has_told and delivery.id is None and self.session is not None

    def can_tell(self, state: AnyDeliveryState | None) -> bool:
        """Whether a delivery state fits into a frame for the peer."""
        if state is None or type(state) is Accepted or type(state) is Released:
            return True
        session = self.session
        most = session.connection.peer_max_frame_size if session is not None else 1 << 32
        return len(encode_value(state)) + _ROOM_BESIDE_STATE <= most

    def check_state(self, state: AnyDeliveryState) -> None:
        """Check that a delivery state of the application is one, and can be told.

        Raises:
            LocalError: it is no delivery state, its fields are wrong, or it does not fit into a frame.
        """
        if not DELIVERY_STATE.admits(state):
            raise LocalError(f"{state!r:.80} is no delivery state")
        try:
            fits = self.can_tell(state)
        except EncodeError as error:
            raise LocalError(f"the delivery state cannot be encoded: {error}") from error
        if not fits:
            raise LocalError(f"{type(state).__name__} is too large for a frame of the peer")

    @property
    def is_unresumed(self) -> bool:
        """Whether there are deliveries that were told in an attach and are not resumed yet."""
        return self.has_told and any(delivery.id is None for delivery in self.begun())

    # --- what the two roles do ---

    @abstractmethod
    def begun(self) -> Iterable[Any]:
        """The deliveries that have begun and are not settled."""

    def stop(self) -> None:
        """One end has detached: nothing can be sent on the link until it is attached again."""
        self.is_open = False

    @abstractmethod
    def renew(self) -> None:
        """The endpoint is attached anew: the flow state begins afresh."""

    @abstractmethod
    def suspend(self) -> None:
        """The endpoint is gone, or about to be resumed: delivery-ids and credit mean nothing any more."""

    @abstractmethod
    def forget(self) -> None:
        """The link is closed: drop what is unsettled."""

    @abstractmethod
    def hand_over(self, taker: Link) -> None:
        """Give the unsettled deliveries to another endpoint of the same link."""

    @abstractmethod
    def learn(self, attach: Attach, remote: PeerEnd) -> None:
        """Take over what the peer decides: its terminus, and its settle mode.

        Args:
            attach: the peer's.
            remote: what is remembered of it.
        """

    @abstractmethod
    def hear(self, delivery: Any) -> None:
        """The peer's view of a delivery has changed."""

    @abstractmethod
    def complete(self, attach: Attach) -> None:
        """Add what only one role tells."""

    @abstractmethod
    def answer_flow(self) -> None:
        """Tell the peer our flow state, as it asked."""
