"""After a loss: tell the peer what is in the spool already, and know it again if it comes once more.

A message that is in the spool and not settled may come again. Two things tell it from a new one:

- The link that it came on is attached again, under its name, with the delivery-tags of what is in the spool,
  as accepted. A peer that has kept the link settles those; none of them comes again. What the peer had sent
  and is not in the spool goes back to its node when the link is closed.
- Where the peer has not kept the link, a message is known by an identity that its producer or its broker gave
  it: an annotation that counts messages, or its message-id, together with a digest of the bare message. Only
  messages whose settlement the peer has not confirmed are looked at, so that equal identities of other
  messages do no harm.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from amqpforge.errors import AmqpforgeError
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import DecodeError, EncodeError, encode_message

from .links import attach_again
from .segment import read_segment

if TYPE_CHECKING:
    from amqpforge.client.connection import Connection
    from amqpforge.engine.delivery import IncomingDelivery

    from .links import OnceReceiver
    from .options import ReadOptions
    from .segment import Segment
    from .spool import Spool

__all__ = ["Suspects", "settle_spooled"]

_PATIENCE: Final = 10.0
"""Seconds that the peer has for settling what is told to it."""
_PAUSE: Final = 0.005
"""Seconds between looks at what it has settled, to begin with."""
_COUNTS: Final = ("x-opt-sequence-number", "x-stream-offset")
"""Message annotations by which brokers number the messages of a node."""
_log = logging.getLogger("amqpforge.spark")


async def settle_spooled(connection: Connection, options: ReadOptions, spool: Spool) -> int:
    """Tell the peer, over the links that are lost, what is in the spool; returns how many messages it knew.

    A peer that has forgotten a link, or cannot take one up again, loses nothing by it.

    Raises:
        SpoolError: the spool cannot be read.
        AmqpforgeError: the connection is lost meanwhile.
    """
    tags: dict[str, list[bytes]] = defaultdict(list)
    for segment in spool.unconfirmed:
        batch = await asyncio.to_thread(read_segment, spool.storage, segment.name)
        for link, tag in zip(batch["link"].to_pylist(), batch["delivery_tag"].to_pylist(), strict=True):
            tags[link].append(tag)
    known = 0
    for link in spool.links:
        try:
            known += await _settle(connection, options, link.name, link.address, tags.get(link.name, []))
        except AmqpforgeError as error:
            _log.info("the peer does not take up the link %s again: %s", link.name, error)
            if not connection.is_connected:
                raise
    return known


async def _settle(
    connection: Connection, options: ReadOptions, name: str, address: str, tags: Sequence[bytes]
) -> int:
    receiver = await attach_again(connection, options, address, name, dict.fromkeys(tags))
    try:
        end = receiver.end
        # The peer told which of them it has: only a link that it has kept gets credit, to speak of them.
        known = [delivery for delivery in end.unsettled.values() if not delivery.settled]
        if known:
            async with asyncio.timeout(_PATIENCE):
                await _hear(connection, receiver, known)
            await connection.round_trip(timeout=_PATIENCE)
        return len(known)
    except TimeoutError:
        _log.warning("the peer does not settle what it sent on the link %s", name)
        return 0
    finally:
        await receiver.close(timeout=_PATIENCE)


async def _hear(
    connection: Connection, receiver: OnceReceiver, deliveries: Sequence[IncomingDelivery]
) -> None:
    """Have the peer speak of deliveries until all are settled. What else it sends takes credit too, and is
    not wanted here: the pauses grow, so that there is not much of it.

    Raises:
        AmqpforgeError: the link or the connection is over.
    """
    end = receiver.end
    pause = _PAUSE
    while left := [delivery for delivery in deliveries if not delivery.settled]:
        receiver._check()
        if not end.link_credit:
            end.flow(len(left))
            connection._wake()
            pause *= 2
        await asyncio.sleep(pause)


class Suspects:
    """Messages of the spool that may come once more.

    Attributes:
        segments: the numbers of the segments that they are in.
        window: messages that have to come after a loss before no more of these are expected.
    """

    def __init__(self, window: int) -> None:
        """``window``: see the class."""
        self.window = window
        self.segments: list[int] = []
        self._left = 0
        self._identities: set[bytes] = set()

    def __bool__(self) -> bool:
        return bool(self.segments)

    @property
    def left(self) -> int:
        """Messages that have to come before no more are suspected; 0: none are."""
        return max(self._left, 0) if self.segments else 0

    def load(self, spool: Spool, segments: Sequence[Segment], left: int | None = None) -> None:
        """Suspect the messages of these segments, and no others.

        Args:
            spool: where they are.
            segments: which ones.
            left: messages that have to come before they are suspected no longer; None: as many as after a
                loss.

        Raises:
            SpoolError: one cannot be read.
        """
        self.segments = [segment.number for segment in segments]
        self._left = self.window if left is None else left
        self._identities = set()
        for segment in segments:
            batch = read_segment(spool.storage, segment.name)
            columns = (batch[name].to_pylist() for name in ("address", "payload", "message_format"))
            for row in zip(*columns, strict=True):
                found = identity(*row)
                if found is not None:
                    self._identities.add(found)

    def knows(self, address: str, payload: bytes, message_format: int) -> bool:
        """Whether a message that came just now is one of them."""
        self._left -= 1
        if not self._identities:
            return False
        found = identity(address, payload, message_format)
        return found is not None and found in self._identities

    def cleared(self) -> list[int]:
        """The segments that are no longer suspected, once so many messages came; then there are none."""
        if self._left > 0 or not self.segments:
            return []
        cleared, self.segments = self.segments, []
        self._identities = set()
        return cleared


def identity(address: str, payload: bytes, message_format: int) -> bytes | None:
    """What a message is known by when it comes again; None: by nothing."""
    message = Message.from_octets(payload, message_format)
    if message.raw is not None:
        return None
    try:
        sections = message.sections
        given = _given(message)
        if given is None:
            return None
        bare = encode_message(
            replace(sections, header=None, delivery_annotations={}, message_annotations={}, footer={})
        )
    except (DecodeError, EncodeError):
        return None
    digest = hashlib.blake2b(digest_size=16)
    for part in (address.encode(), repr(given).encode(), bare):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def _given(message: Message) -> tuple[str, object] | None:
    annotations = message.sections.message_annotations or {}
    for name in _COUNTS:
        if name in annotations:
            return name, annotations[name]
    found = message.message_id
    return None if found is None else ("message-id", found)
