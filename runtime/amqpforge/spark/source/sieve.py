"""Which messages go into the spool: those that are not in it already; and that can be decoded, if they have
to be.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from amqpforge.client import Delivery
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import AmqpError, DecodeError, Header, decode_value

if TYPE_CHECKING:
    from amqpforge.engine.delivery import IncomingDelivery

    from .links import OnceReceiver
    from .options import ReadOptions
    from .progress import Progress
    from .recovery import Suspects
    from .spool import Spool

__all__ = ["Sieve", "undecodable", "was_delivered"]

_HEADER: Final = b"\x00\x53\x70"
"""What the header of a message begins with, as everybody encodes it."""
_SHORT_HEADER: Final = _HEADER + b"\xc0"
"""What one begins with that has as many more octets as the octet behind this says."""


class Sieve:
    """Lets the messages through that are to go into the spool, and gives the others their outcome."""

    def __init__(self, options: ReadOptions, spool: Spool, suspects: Suspects, progress: Progress) -> None:
        """Make one.

        Args:
            options: whether a message has to be decodable.
            spool: what is told which of its messages do not come again.
            suspects: messages of the spool that may come again.
            progress: counts what comes again, and what is rejected.
        """
        self._rejects = options.rejects_undecodable
        self._spool = spool
        self._suspects = suspects
        self._progress = progress

    def wanted(
        self, receiver: OnceReceiver, address: str, deliveries: list[IncomingDelivery]
    ) -> list[IncomingDelivery]:
        """Those that are to go into the spool, of the messages that came over a link to an address."""
        if self._suspects or self._rejects:
            deliveries = [one for one in deliveries if self._is_wanted(receiver, address, one)]
        headed = [one.payload for one in deliveries if one.payload.startswith(_HEADER)]
        self._progress.redelivered += sum([was_delivered(payload) for payload in headed])
        return deliveries

    def _is_wanted(self, receiver: OnceReceiver, address: str, incoming: IncomingDelivery) -> bool:
        """Whether a message is to go into the spool; if not, it gets its outcome."""
        payload, message_format = incoming.payload, incoming.message_format
        if self._suspects and self._is_known(address, payload, message_format):
            self._progress.duplicates += 1
            Delivery(receiver, incoming).accept()
            return False
        problem = undecodable(payload, message_format) if self._rejects else None
        if problem is not None:
            self._progress.rejected += 1
            Delivery(receiver, incoming).reject(AmqpError.DECODE_ERROR, problem)
        return problem is None

    def _is_known(self, address: str, payload: bytes, message_format: int) -> bool:
        """Whether a message is in the spool already."""
        known = self._suspects.knows(address, payload, message_format)
        for number in self._suspects.cleared():
            self._spool.confirm(number)
        return known


def was_delivered(payload: bytes) -> bool:
    """Whether a message begins with a header that counts an attempt to deliver it that failed."""
    if payload.startswith(_SHORT_HEADER) and len(payload) > 4:
        return _counts_again(payload[: 5 + payload[4]])
    return payload.startswith(_HEADER) and _counts(payload)


def _counts(octets: bytes) -> bool:
    """Whether a header counts such an attempt; there may be more behind it."""
    try:
        header, _ = decode_value(octets)
    except DecodeError:
        return False
    return isinstance(header, Header) and header.delivery_count > 0


_counts_again = lru_cache(256)(_counts)
"""For headers with nothing behind them: most messages of a node have the same one, octet by octet."""


def undecodable(payload: bytes, message_format: int) -> str | None:
    """Why the octets of a message cannot be decoded; None: they can."""
    message = Message.from_octets(payload, message_format)
    if message.raw is not None:
        return f"the message format {message_format} is not known"
    try:
        message.sections  # noqa: B018  It decodes all of them.
    except DecodeError as error:
        return str(error)
    return None
