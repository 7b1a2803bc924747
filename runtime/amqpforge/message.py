"""A message as applications hold it: a body, typed properties, annotations; and the octets it travels as.

Its sections are the protocol package's ``Message``; this class keeps one, or the octets of one until someone
looks. The rule by which a Python value becomes the body is said at :class:`Message`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Self

import amqpforge_protocol.amqp_1_0 as amqp
from amqpforge import message_fields as fit
from amqpforge.message_fields import STANDARD_HEADER, AnnotationsView, Field, MessageError, shown
from amqpforge.notation import NotationError, sections_from_json, sections_to_json
from amqpforge_protocol.amqp_1_0 import (
    MESSAGE_FORMAT,
    AmqpSequence,
    AmqpValue,
    AnyAddress,
    AnyMessageId,
    ApplicationProperties,
    Data,
    DecodeError,
    DeliveryAnnotations,
    Header,
    MessageAnnotations,
    Properties,
    Timestamp,
    Value,
    can_read_format,
    decode_message,
    encode_message,
)

__all__ = ["AnnotationsView", "Message", "MessageError"]

_Annotations = Mapping[str, Value] | AnnotationsView
_Body = AmqpValue | list[Data] | list[AmqpSequence]


class Message:
    """A message to send, or one that was received (AMQP 1.0, section 3.2).

    The body, by what it is given as:

    - ``bytes``, ``bytearray``, ``memoryview``: one data section;
    - ``Data``, ``AmqpSequence``, ``AmqpValue``: that section;
    - a list or tuple that begins with a ``Data`` or an ``AmqpSequence``: several sections, all of one kind;
    - everything else, other lists and None among it: one amqp-value section.

    ``body`` gives it back as a plain value: the value, the octets of all data sections joined, the elements
    of all sequences in one list. :attr:`sections` has the sections as they are.

    Fields are keyword arguments and attributes of the same name; None leaves a field out. Setting one of the
    five of the header makes a header, also with the standard value, so that no default of a node applies.
    What does not fit raises :class:`MessageError`, which names the field; values inside the body, annotations
    and application properties are judged when the message is encoded.

    Two messages are equal when their sections are, as Python compares values: ``1 == UInt(1)``.

    Args:
        body: see above.
        durable: whether the message survives a restart of the node that holds it.
        priority: 0 to 255, the larger the more urgent; the standard is 4.
        ttl: the life it has left, in seconds or as a timedelta; kept to the millisecond, at most 49 days.
        first_acquirer: whether no other link ever acquired it; False promises nothing.
        delivery_count: earlier attempts to deliver it that failed.
        message_id: what tells it from all others: a str, bytes, a UUID or a ULong.
        user_id: who made it, as octets; the peer may compare it with who has logged in.
        to: the address of the node that it is meant for.
        subject: what it is about, in short.
        reply_to: the address that answers go to.
        correlation_id: what it belongs to, usually the message_id of a request.
        content_type: the media type of the body; for data sections only.
        content_encoding: what was done to the data, such as ``gzip``; for data sections only.
        absolute_expiry_time: when it is no longer wanted: a datetime with a time zone.
        creation_time: when it was made: a datetime with a time zone. Milliseconds are kept.
        group_id: the group that it belongs to.
        group_sequence: its place in the group, 0 to 2^32 - 1.
        reply_to_group_id: the group that answers belong to.
        application_properties: the application's own: text keys; values that are no list, map or array.
        annotations: message annotations, carried to the final receiver; keys begin with ``x-``.
        delivery_annotations: annotations for the next peer only; keys begin with ``x-``.
        footer: annotations behind the body, such as a digest of it; keys begin with ``x-``.
    """

    __slots__ = ("_held", "_message_format", "_octets", "_sections")

    def __init__(
        self,
        body: Value = None,
        *,
        durable: bool | None = None,
        priority: int | None = None,
        ttl: float | timedelta | None = None,
        first_acquirer: bool | None = None,
        delivery_count: int | None = None,
        message_id: AnyMessageId | None = None,
        user_id: bytes | None = None,
        to: AnyAddress | None = None,
        subject: str | None = None,
        reply_to: AnyAddress | None = None,
        correlation_id: AnyMessageId | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        absolute_expiry_time: datetime | Timestamp | None = None,
        creation_time: datetime | Timestamp | None = None,
        group_id: str | None = None,
        group_sequence: int | None = None,
        reply_to_group_id: str | None = None,
        application_properties: Mapping[str, Value] | None = None,
        annotations: _Annotations | None = None,
        delivery_annotations: _Annotations | None = None,
        footer: _Annotations | None = None,
    ) -> None:
        self._held: bytes | _Body | None = _to_sections(body)
        self._sections: amqp.Message | None = None
        self._octets: bytes | None = None
        self._message_format = MESSAGE_FORMAT
        given = (
            durable,
            priority,
            ttl,
            first_acquirer,
            delivery_count,
            message_id,
            user_id,
            to,
            subject,
            reply_to,
            correlation_id,
            content_type,
            content_encoding,
            absolute_expiry_time,
            creation_time,
            group_id,
            group_sequence,
            reply_to_group_id,
            application_properties,
            annotations,
            delivery_annotations,
            footer,
        )
        if given != _NOTHING:
            for name, value in zip(_FIELDS, given, strict=True):
                if value is not None:
                    setattr(self, name, value)

    @classmethod
    def from_octets(
        cls, payload: bytes | bytearray | memoryview, message_format: int = MESSAGE_FORMAT
    ) -> Self:
        """The message that the payload of a delivery is. Nothing is decoded until someone looks.

        What is wrong with the octets comes out then, as a DecodeError; whoever reads nothing but the body may
        not hear of what is wrong around it.

        Args:
            payload: all octets of the message.
            message_format: of the delivery. Of a format that is not known here there is only :attr:`raw`.

        Raises:
            MessageError: the message format is not 0 to 2^32 - 1.
        """
        message = cls.__new__(cls)
        message._held = payload if type(payload) is bytes else bytes(payload)
        message._sections = message._octets = None
        message._message_format = message_format
        if message_format != MESSAGE_FORMAT:
            _check_format("message_format", message_format)
        return message

    def encode(self) -> bytes:
        """The octets of the message: the payload of a delivery.

        A message that was received keeps its octets: all of them if nobody looked, else those of its bare
        message as long as that is unchanged, whatever becomes of header, annotations and footer.

        Raises:
            EncodeError: a value has no AMQP type, or is not allowed where it is.
        """
        held = self._held
        if self._sections is None:
            if isinstance(held, AmqpValue):
                return held.encode()
            if isinstance(held, list):
                return b"".join([section.encode() for section in held])
            if isinstance(held, bytes):
                return held
        elif isinstance(held, bytes) and decode_message(held) == self._sections:
            return held
        return encode_message(self.sections)

    def to_json(self) -> str:
        """The message as JSON on one line, in the notation of ``amqpforge decode --json``: nothing is lost.

        Raises:
            EncodeError: a value has no AMQP type, or is not allowed where it is.
            DecodeError: the message was received, and its octets are no message.
        """
        notation: dict[str, Any] = {"type": "message"}
        if self._message_format != MESSAGE_FORMAT:
            notation["message-format"] = self._message_format
        if self.raw is not None:
            notation["octets"] = self.raw.hex()
        else:
            octets = self.encode()
            decode_message(octets)
            notation["sections"] = sections_to_json(octets)
        return json.dumps(notation, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The message that ``to_json`` wrote, or that was written by hand in the same notation.

        It is as if received: reserved annotations are let in, and octets are in their shortest form.

        Raises:
            NotationError: it is not JSON, or stands for no message.
        """
        notation = _parse(text)
        is_known = notation.keys() <= {"type", "message-format", "sections", "octets"}
        has_one = ("sections" in notation) is not ("octets" in notation)
        if notation.get("type") != "message" or not is_known or not has_one:
            raise NotationError(f"{shown(notation)} is no message; {_NOTATION}")
        try:
            if "octets" in notation:
                payload = bytes.fromhex(notation["octets"])
            else:
                payload = sections_from_json(notation["sections"])
            message = cls.from_octets(payload, notation.get("message-format", MESSAGE_FORMAT))
            if message.raw is None:
                message._look()
        except (MessageError, DecodeError, TypeError, ValueError) as error:
            if isinstance(error, NotationError):
                raise
            raise NotationError(f"no message: {error}") from error
        return message

    # ---- the whole ----

    @property
    def sections(self) -> amqp.Message:
        """The sections as they are; they are decoded if nobody has looked yet.

        They are the message: what is changed in them is sent. They take every annotation that AMQP allows,
        reserved ones too.

        Raises:
            DecodeError: the octets are no message.
            MessageError: the message is of a format that is not known here.
        """
        return self._sections or self._look()

    @property
    def message_format(self) -> int:
        """What kind of message it is: 0 for those of AMQP itself (section 2.8.11)."""
        return self._message_format

    @property
    def raw(self) -> bytes | None:
        """The octets of a message of a format that is not known here; None for every other message."""
        held, number = self._held, self._message_format
        is_known = number == MESSAGE_FORMAT or can_read_format(MESSAGE_FORMAT, number)
        return held if isinstance(held, bytes) and not is_known else None

    def _look(self) -> amqp.Message:
        """Make sections of what is held."""
        held, sections = self._held, self._sections
        if sections is not None:  # another thread has looked just now
            return sections
        if not isinstance(held, bytes):
            self._sections = sections = amqp.Message(body=held)
            self._held = None
            return sections
        if self._message_format != MESSAGE_FORMAT and self.raw is not None:
            problem = f"a message of format {self._message_format} has none that are known here"
            raise MessageError("sections", f"{problem}; its octets are in raw")
        self._sections = sections = decode_message(held)
        self._octets = None
        if sections.bare is not None:
            self._held = None  # A bare message that is not in one piece can only be kept with all around it.
        return sections

    # ---- the body ----

    def _only_data(self) -> bytes | None:
        """The body of a message that nobody has looked at, if it is one data section and ends the message.

        The sections ahead of it are passed over by their sizes. None: it takes decoding to find the body, or
        to say what is wrong.
        """
        octets = self._held
        if not isinstance(octets, bytes) or self._message_format != MESSAGE_FORMAT:
            return None
        start, size, previous = 0, len(octets), 0
        while size - start > 4 and octets[start] == 0x00 and octets[start + 1] == 0x53:
            code, form = octets[start + 2], octets[start + 3]
            if form in _SHORT:
                inside = start + 5
                end = inside + octets[start + 4]
            elif form in _LONG:
                inside = start + 8
                end = inside + int.from_bytes(octets[start + 4 : inside], "big")
            else:
                return None
            if code == _DATA:
                return octets[inside:end] if end == size and form in _BINARY else None
            if code not in _AHEAD_OF_DATA or code <= previous or form in _BINARY:
                return None
            start, previous = end, code
        return None

    @property
    def body(self) -> Value:
        """The body as a plain value; None also for a message that a peer sent without one.

        Set it to change it: a list that is read may be a new one. Of a message that was received, a body of
        one data section is read without decoding what is around it.

        Raises:
            DecodeError: the octets are no message.
            MessageError: the message is of a format that is not known here.
        """
        sections = self._sections
        if sections is None:
            octets = self._octets
            if octets is None:
                self._octets = octets = self._only_data()
            if octets is not None:
                return octets
            sections = self._look()
        body = sections.body
        if isinstance(body, AmqpValue):
            return body.value
        if not body:
            return None
        if len(body) == 1 and type(body[0]) is Data:
            return body[0].value
        parts: list[Any] = [section.value for section in body]
        return b"".join(parts) if isinstance(body[0], Data) else [item for part in parts for item in part]

    @body.setter
    def body(self, value: Value) -> None:
        self.sections.body = _to_sections(value)

    # ---- header (section 3.2.1) ----

    durable = Field[bool, bool](
        "header",
        "durable",
        "Whether the message survives a restart of its node.",
        fit.flag,
        is_optional=False,
    )
    priority = Field[int, int](
        "header", "priority", "Urgency: 0 to 255, 4 by default.", fit.number(0xFF), is_optional=False
    )
    ttl = Field[float | None, float | timedelta | None](
        "header", "ttl", "Life left, in seconds.", fit.milliseconds, show=fit.seconds
    )
    first_acquirer = Field[bool, bool](
        "header", "first_acquirer", "Whether no other link ever acquired it.", fit.flag, is_optional=False
    )
    delivery_count = Field[int, int](
        "header",
        "delivery_count",
        "Earlier attempts that failed.",
        fit.number(0xFFFF_FFFF),
        is_optional=False,
    )

    @property
    def redelivered(self) -> bool:
        """Whether an earlier attempt to deliver it failed, so that this may be a duplicate.

        Only the delivery count tells; ``first_acquirer`` being False does not (section 3.2.1).
        """
        return self.delivery_count > 0

    def effective_header(self, defaults: Header | None = None) -> Header:
        """The header that counts: the message's own, else that of its node or target, else the standard one.

        A header that is there counts as a whole, however empty it is. The result is not to be changed.

        Args:
            defaults: what the node or target is configured to assume of messages without a header.
        """
        return self.sections.header or defaults or STANDARD_HEADER

    # ---- properties (section 3.2.4) ----

    message_id = Field[AnyMessageId | None, AnyMessageId | None](
        "properties", "message_id", "What tells it from all others.", fit.identifier
    )
    user_id = Field[bytes | None, bytes | None]("properties", "user_id", "Who made it.", fit.octets)
    to = Field[AnyAddress | None, AnyAddress | None]("properties", "to", "Whom it is meant for.", fit.address)
    subject = Field[str | None, str | None]("properties", "subject", "What it is about.", fit.text)
    reply_to = Field[AnyAddress | None, AnyAddress | None](
        "properties", "reply_to", "Where answers go.", fit.address
    )
    correlation_id = Field[AnyMessageId | None, AnyMessageId | None](
        "properties", "correlation_id", "What it belongs to.", fit.identifier
    )
    content_type = Field[str | None, str | None](
        "properties", "content_type", "Media type of the data.", fit.symbol
    )
    content_encoding = Field[str | None, str | None](
        "properties", "content_encoding", "What was done to the data.", fit.symbol
    )
    absolute_expiry_time = Field[datetime | None, datetime | Timestamp | None](
        "properties",
        "absolute_expiry_time",
        "When it is no longer wanted, in UTC.",
        fit.moment,
        show=fit.to_datetime,
    )
    creation_time = Field[datetime | None, datetime | Timestamp | None](
        "properties", "creation_time", "When it was made, in UTC.", fit.moment, show=fit.to_datetime
    )
    group_id = Field[str | None, str | None]("properties", "group_id", "The group it belongs to.", fit.text)
    group_sequence = Field[int | None, int | None](
        "properties", "group_sequence", "Its place in the group.", fit.number(0xFFFF_FFFF)
    )
    reply_to_group_id = Field[str | None, str | None](
        "properties", "reply_to_group_id", "The group of answers.", fit.text
    )

    # ---- what applications and containers add ----

    @property
    def application_properties(self) -> dict[str, Value]:
        """The application's own properties, to be read and changed."""
        return self.sections.application_properties

    @application_properties.setter
    def application_properties(self, entries: Mapping[str, Value]) -> None:
        self.sections.application_properties = dict(fit.mapping("application_properties", entries))

    @property
    def annotations(self) -> AnnotationsView:
        """Message annotations: carried on to the final receiver."""
        return AnnotationsView("annotations", self.sections.message_annotations)

    @annotations.setter
    def annotations(self, entries: _Annotations) -> None:
        self.sections.message_annotations = fit.own_entries("annotations", entries)

    @property
    def delivery_annotations(self) -> AnnotationsView:
        """Annotations for the next peer only. Whoever sends a received message on clears them."""
        return AnnotationsView("delivery_annotations", self.sections.delivery_annotations)

    @delivery_annotations.setter
    def delivery_annotations(self, entries: _Annotations) -> None:
        self.sections.delivery_annotations = fit.own_entries("delivery_annotations", entries)

    @property
    def footer(self) -> AnnotationsView:
        """Annotations behind the body."""
        return AnnotationsView("footer", self.sections.footer)

    @footer.setter
    def footer(self, entries: _Annotations) -> None:
        self.sections.footer = fit.own_entries("footer", entries)

    # ---- as an object ----

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        if self._message_format != other._message_format:
            return False
        if self._sections is None and other._sections is None and self._held == other._held:
            return True
        return self.raw is None and other.raw is None and self.sections == other.sections

    def __repr__(self) -> str:
        if self.raw is not None:
            return f"<Message of format {self._message_format}, {len(self.raw)} octets>"
        try:
            sections = self.sections
        except DecodeError as error:
            return f"<Message that cannot be decoded: {error}>"
        parts = [shown(self.body)]
        for section in (sections.header, sections.properties):
            for info in section.FIELDS if section is not None else ():
                if getattr(section, info.attribute) != info.default:
                    parts.append(f"{info.attribute}={_shown_field(self, section, info.attribute)}")
        maps = {
            "application_properties": sections.application_properties,
            "annotations": sections.message_annotations,
            "delivery_annotations": sections.delivery_annotations,
            "footer": sections.footer,
        }
        parts += [f"{name}={shown(entries)}" for name, entries in maps.items() if entries]
        return f"Message({', '.join(parts)})"


# What _only_data passes over: sections with short descriptors, which nearly all are.
_DATA = Data.DESCRIPTOR
_AHEAD_OF_DATA = frozenset(
    section.DESCRIPTOR
    for section in (Header, DeliveryAnnotations, MessageAnnotations, Properties, ApplicationProperties)
)
_BINARY = frozenset((0xA0, 0xB0))
# Constructors of binary, lists and maps: with a size of one octet, and of four.
_SHORT = frozenset((0xA0, 0xC0, 0xC1))
_LONG = frozenset((0xB0, 0xD0, 0xD1))
_FIELDS = tuple(Message.__init__.__kwdefaults__ or ())
_NOTHING = (None,) * len(_FIELDS)
_NOTATION = 'a message is {"type": "message", "sections": [...]}'
_check_format = fit.number(0xFFFF_FFFF)


def _to_sections(body: Value) -> _Body:
    """What a Python value is as a body; the rule is said at Message."""
    if isinstance(body, str):
        return AmqpValue(body)
    if isinstance(body, bytes):
        return [Data(body)]
    if isinstance(body, (bytearray, memoryview)):
        return [Data(bytes(body))]
    if isinstance(body, (Data, AmqpSequence)):
        body = [body]
    if isinstance(body, (list, tuple)) and body and isinstance(body[0], (Data, AmqpSequence)):
        kind = type(body[0])
        for section in body:
            if type(section) is not kind:
                problem = f"{shown(section)} beside {kind.__name__} sections"
                raise MessageError("body", f"{problem}; give sections of one kind")
        return list(body)
    return body if isinstance(body, AmqpValue) else AmqpValue(body)


def _shown_field(message: Message, section: object, name: str) -> str:
    """A field for people to read, a timestamp that no datetime holds among them."""
    try:
        return shown(getattr(message, name))
    except MessageError:
        return shown(getattr(section, name))


def _parse(text: str | bytes) -> dict[str, Any]:
    """The JSON object that a text is."""
    try:
        notation = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise NotationError(f"not JSON: {error}") from error
    if not isinstance(notation, dict):
        raise NotationError(f"{shown(notation)} is no message; {_NOTATION}")
    return notation


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON; write a double by its bits")
