"""What a link remembers of its other end: what the peer's attach told that is of use once it is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from amqpforge_protocol.amqp_1_0 import Attach, ReceiverSettleMode, Role, encode_value

if TYPE_CHECKING:
    from amqpforge_protocol.amqp_1_0.archetypes import AnySource, AnyTarget

__all__ = ["PeerEnd"]


@dataclass(frozen=True, slots=True)
class PeerEnd:
    """The other end of a link, as the peer's latest attach told it; each field is the attach's.

    Links of a session that were told the same have one such object together, or parts of it: the source, the
    target and the properties are not for changing.
    """

    role: Role
    source: AnySource | None
    target: AnyTarget | None
    max_message_size: int | None
    offered_capabilities: Sequence[str] | None
    properties: Any
    rcv_settle_mode: ReceiverSettleMode
    """What the peer does if it is the receiver, what it wishes or goes along with if it is the sender."""

    @classmethod
    def of(cls, attach: Attach, latest: dict[Role, PeerEnd]) -> PeerEnd:
        """What is to be remembered of an attach.

        Args:
            attach: the peer's.
            latest: what was remembered last, by the peer's role. What is the same is used again; the new one
                takes its place there.
        """
        end = latest[attach.role] = cls._joined(attach, latest.get(attach.role))
        return end

    @classmethod
    def _joined(cls, attach: Attach, known: PeerEnd | None) -> PeerEnd:
        role, most, offered = attach.role, attach.max_message_size, attach.offered_capabilities
        mode = attach.rcv_settle_mode
        if known is None:
            return cls(role, attach.source, attach.target, most, offered, attach.properties, mode)
        source = _shared(attach.source, known.source)
        target = _shared(attach.target, known.target)
        properties = _shared(attach.properties, known.properties)
        if (
            source is known.source
            and target is known.target
            and properties is known.properties
            and (most, offered) == (known.max_message_size, known.offered_capabilities)
            and mode is known.rcv_settle_mode
        ):
            return known
        return cls(role, source, target, most, offered, properties, mode)


def _shared(new: Any, known: Any) -> Any:
    """The known one of two values if they are the same on the wire, where true and 1 are not."""
    return known if new == known and encode_value(new) == encode_value(known) else new
