"""Annotations that a receiver may not pass over (section 3.2.10)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import DecodeError, ULong

if TYPE_CHECKING:
    from amqpforge.engine.delivery import IncomingDelivery

__all__ = ["not_understood"]

_IGNORABLE: Final = "x-opt-"


def not_understood(delivery: IncomingDelivery, known: Collection[str | int]) -> list[str | ULong]:
    """The keys of the annotations and of the footer that are neither known nor made to be ignored.

    Octets that are no message, and messages of other formats, have none: whoever reads them is told.
    """
    message = Message.from_octets(delivery.payload, delivery.message_format)
    if message.raw is not None:
        return []
    try:
        sections = message.sections
    except DecodeError:
        return []
    return [
        key
        for section in (sections.delivery_annotations, sections.message_annotations, sections.footer)
        for key in section or ()
        if key not in known and not (isinstance(key, str) and key.startswith(_IGNORABLE))
    ]
