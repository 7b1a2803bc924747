"""What a selector can see of an AMQP 1.0 message.

Looked up in this order:

1. the names of JMS, such as ``JMSPriority``, and ``amqp.`` with a field of header or properties behind it;
2. application properties;
3. message annotations whose name begins with ``x-``, unless there is such a property.

A message without a header has the standard values of its fields (section 3.2.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

from amqpforge_protocol.amqp_1_0 import Header, Message, Properties

from .operands import Facts

__all__ = ["facts_of"]

_STANDARD_HEADER: Final = Header()
_Read = Callable[[Message], object]


def facts_of(message: Message) -> Facts:
    """The facts of a message, read when they are asked for: what ``Selector.admits`` takes."""
    properties, annotations = message.application_properties, message.message_annotations

    def fact(name: str) -> object:
        read = _READ.get(name)
        if read is not None:
            return read(message)
        if name in properties:
            return properties[name]
        return annotations.get(name) if name.startswith("x-") else None

    return fact


def _header(message: Message) -> Header:
    return _STANDARD_HEADER if message.header is None else message.header


def _header_field(attribute: str) -> _Read:
    return lambda message: getattr(_header(message), attribute)


def _property(attribute: str) -> _Read:
    def read(message: Message) -> object:
        return None if message.properties is None else getattr(message.properties, attribute)

    return read


def _text_property(attribute: str) -> _Read:
    """An id, an address or the user as text; None for what has no text, such as a described value."""
    value_of = _property(attribute)

    def read(message: Message) -> str | None:
        value = value_of(message)
        if isinstance(value, bytes):
            return _text_of(value)
        is_worded = isinstance(value, (str, int, UUID)) and not isinstance(value, bool)
        return str(value) if is_worded else None

    return read


def _text_of(octets: bytes) -> str:
    """Octets as the text that they are in UTF-8, else in hexadecimal digits."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets.hex()


def _delivery_mode(message: Message) -> str:
    return "PERSISTENT" if _header(message).durable else "NON_PERSISTENT"


def _redelivered(message: Message) -> bool:
    return _header(message).delivery_count > 0


def _deliveries(message: Message) -> int:
    return _header(message).delivery_count + 1


def _type(message: Message) -> object:
    subject = None if message.properties is None else message.properties.subject
    return message.message_annotations.get("x-opt-jms-type") if subject is None else subject


_TEXTS: Final = ("message_id", "user_id", "to", "reply_to", "correlation_id")


def _amqp_fields() -> dict[str, _Read]:
    """Each field of header and properties by its name, with ``-`` as in the specification and with ``_``."""
    found: dict[str, _Read] = {
        "delivery_mode": _delivery_mode,
        "redelivered": _redelivered,
        "jms_type": _type,
    }
    for field in Header.FIELDS:
        found[field.name] = found[field.attribute] = _header_field(field.attribute)
    for field in Properties.FIELDS:
        read = _text_property if field.attribute in _TEXTS else _property
        found[field.name] = found[field.attribute] = read(field.attribute)
    return {f"amqp.{name}": read for name, read in found.items()}


_READ: Final[dict[str, _Read]] = _amqp_fields() | {
    "JMSCorrelationID": _text_property("correlation_id"),
    "JMSDeliveryMode": _delivery_mode,
    "JMSDestination": _text_property("to"),
    "JMSExpiration": _property("absolute_expiry_time"),
    "JMSMessageID": _text_property("message_id"),
    "JMSPriority": _header_field("priority"),
    "JMSRedelivered": _redelivered,
    "JMSReplyTo": _text_property("reply_to"),
    "JMSTimestamp": _property("creation_time"),
    "JMSType": _type,
    "JMSXDeliveryCount": _deliveries,
    "JMSXGroupID": _property("group_id"),
    "JMSXGroupSeq": _property("group_sequence"),
    "JMSXUserID": _text_property("user_id"),
}
