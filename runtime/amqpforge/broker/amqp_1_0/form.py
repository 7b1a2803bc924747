"""Messages of AMQP 1.0 as the broker holds them: what it reads when they come, what it writes when they go.

What is kept is the message as it came, without delivery annotations: these are for the next peer only
(section 3.2.2). Header and message annotations are changed on the way out, and the bare message never. So
most messages go out as the very octets that came in.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from amqpforge.broker.message import Facts
from amqpforge.broker.selector import facts_of
from amqpforge_protocol.amqp_1_0 import (
    DEFAULT_LIMITS,
    MESSAGE_FORMAT,
    AnyAddress,
    DecodeError,
    Header,
    MessageAnnotations,
    Milliseconds,
    Properties,
    Symbol,
    UInt,
    ULong,
    decode_message,
)
from amqpforge_protocol.amqp_1_0.messaging import (
    MESSAGE_ANNOTATIONS_RULE,
    decode_application_properties,
    decode_header,
    decode_message_annotations,
    decode_properties,
)
from amqpforge_protocol.amqp_1_0.registry import encode_keyed
from amqpforge_protocol.amqp_1_0.types import Budget

from .walk import APPLICATION_PROPERTIES, HEADER, MESSAGE_ANNOTATIONS, PROPERTIES, fields_of, sections_of

__all__ = ["FORM", "Amqp10Form", "Arrival", "arrive", "dead_letter", "depart", "merged", "opened"]

_OPAQUE: Final = b"\x01"
"""What is kept of a message in another format begins with this, and its format; sections begin with 0x00."""
_DELIVERY_ANNOTATIONS: Final = 0x71
_EXPIRY_FIELD: Final = 8  # fields of properties in front of absolute-expiry-time
_NO_HEADER: Final = Header()
_MOST_OF_HEADER: Final = 32  # octets of a list of five small fields, and some to spare
_FIRST_QUEUE: Final = Symbol("x-opt-first-death-queue")
_FIRST_REASON: Final = Symbol("x-opt-first-death-reason")
_DEATHS: Final = Symbol("x-opt-death-count")
_MOST_DEATHS: Final = 0xFFFF_FFFF_FFFF_FFFF


def _budget() -> Budget:
    return [DEFAULT_LIMITS.elements, DEFAULT_LIMITS.depth, False]


class Arrival:
    """What is read of a message that has come.

    Attributes:
        payload: what the broker keeps of it.
        durable: from its header, as the next two.
        priority: 0 to 255.
        ttl: milliseconds; None: none is set.
    """

    __slots__ = ("_at", "_read", "durable", "payload", "priority", "ttl")

    def __init__(self, payload: bytes, header: Header, at: int) -> None:
        """``at``: where the list of its properties begins; -1 if there are none."""
        self.payload = payload
        self.durable = header.durable
        self.priority = int(header.priority)
        self.ttl = header.ttl
        self._at = at
        self._read: Properties | None = None

    @property
    def properties(self) -> Properties | None:
        """Its properties.

        Raises:
            DecodeError: they are malformed.
        """
        if self._read is None and self._at >= 0:
            self._read, _ = decode_properties(self.payload, self._at, _budget())
        return self._read

    @property
    def to(self) -> AnyAddress | None:
        """The node that it is meant for; raises DecodeError as :attr:`properties` does."""
        properties = self.properties
        return None if properties is None else properties.to

    @property
    def user_id(self) -> bytes | None:
        """Who has made it, as it says; raises DecodeError as :attr:`properties` does."""
        properties = self.properties
        return None if properties is None else properties.user_id

    @property
    def message_id(self) -> bytes | None:
        """Its message-id as octets that tell apart ids of different types; None: it has none.

        Raises:
            DecodeError: the message-id is malformed.
        """
        if self._at < 0:
            return None
        start, count = fields_of(self.payload, self._at)
        return _identity(self.payload, start) if count else None

    def expires_at(self, now: float) -> float | None:
        """When it dies, in seconds: at the end of its ttl, or at its absolute-expiry-time if that is earlier.

        Raises:
            DecodeError: its properties are malformed.
        """
        dies = None if self.ttl is None else now + self.ttl / 1000
        if self._at < 0 or fields_of(self.payload, self._at)[1] <= _EXPIRY_FIELD:
            return dies
        properties = self.properties
        if properties is None or properties.absolute_expiry_time is None:
            return dies
        end = properties.absolute_expiry_time / 1000
        return end if dies is None else min(dies, end)


def arrive(octets: bytes, message_format: int = MESSAGE_FORMAT) -> Arrival:
    """Read what the broker works by of a message; one in another format is taken as it is.

    Raises:
        DecodeError: it is no sequence of sections in their order, or its header or message annotations are
            malformed (section 3.2).
    """
    if message_format != MESSAGE_FORMAT:
        return Arrival(_OPAQUE + message_format.to_bytes(4, "big") + octets, _NO_HEADER, -1)
    header, at, cut, cut_end = _NO_HEADER, -1, 0, 0
    for code, start, value, end in sections_of(octets):
        if code == HEADER:
            header = _header_at(octets, value, end)
        elif code == _DELIVERY_ANNOTATIONS:
            cut, cut_end = start, end
        elif code == MESSAGE_ANNOTATIONS:
            decode_message_annotations(octets, value, _budget())
        elif code == PROPERTIES:
            at = value
    if cut_end:
        octets = octets[:cut] + octets[cut_end:]
        at = at if at < 0 else at - (cut_end - cut)
    return Arrival(octets, header, at)


def _header_at(octets: bytes, start: int, end: int) -> Header:
    """The header whose list is there; of most messages it is one that others had before."""
    if end - start <= _MOST_OF_HEADER:
        try:
            return _known_header(octets[start:end])
        except DecodeError:  # It is to say where in the message.
            pass
    return decode_header(octets, start, _budget())[0]


@lru_cache(maxsize=256)
def _known_header(octets: bytes) -> Header:
    return decode_header(octets, 0, _budget())[0]


def opened(payload: bytes) -> tuple[int, bytes]:
    """The message-format of what is kept of a message, and its octets."""
    if payload[:1] != _OPAQUE:
        return MESSAGE_FORMAT, payload
    return int.from_bytes(payload[1:5], "big"), payload[5:]


def depart(
    payload: bytes,
    *,
    failures: int = 0,
    annotations: bytes | None = None,
    life: float | None = None,
    was_acquired: bool = False,
) -> bytes:
    """A message in the format of AMQP as it goes out.

    Args:
        payload: what was kept of it.
        failures: how many deliveries have failed here; they add to the delivery-count that it came with.
        annotations: those that were added here, as :func:`merged` has made them.
        life: how many seconds it has to live; None: no end. Only a ttl that it came with is cut to that.
        was_acquired: another link has had it: first-acquirer is true no longer.
    """
    header: Header | None = None
    known: dict[Any, Any] = {}
    rest = 0
    for code, _, value, end in sections_of(payload):
        if code == HEADER:
            header, _ = decode_header(payload, value, _budget())
        elif code == MESSAGE_ANNOTATIONS and annotations is not None:
            known = decode_message_annotations(payload, value, _budget())[0].value
        else:
            break
        rest = end
    head = _header(header, failures, life, was_acquired=was_acquired)
    if annotations is not None:
        known = {**known, **_added(annotations)}
        head += MessageAnnotations(value=known).encode()
    return head + payload[rest:]


def _header(header: Header | None, failures: int, life: float | None, *, was_acquired: bool) -> bytes:
    """The section that goes out; nothing if there was none, and nothing is to be said."""
    if header is None:
        if not failures:
            return b""
        header = Header()
    ttl = header.ttl
    if ttl is not None and life is not None:
        ttl = Milliseconds(UInt(min(ttl, max(0, round(life * 1000)))))
    return Header(
        durable=header.durable,
        priority=header.priority,
        ttl=ttl,
        first_acquirer=header.first_acquirer and not was_acquired,
        delivery_count=UInt(min(header.delivery_count + failures, 0xFFFF_FFFF)),
    ).encode()


# --- annotations that the broker adds


def merged(annotations: bytes | None, added: Mapping[Any, Any]) -> bytes:
    """Annotations that were added, and more of them; of two with the same key the later one counts.

    Raises:
        EncodeError: a key or value is none that annotations can have.
    """
    return encode_keyed({**_added(annotations), **added}, MESSAGE_ANNOTATIONS_RULE)


def _added(annotations: bytes | None) -> dict[Any, Any]:
    if annotations is None:
        return {}
    return dict(decode_message_annotations(annotations, 0, _budget())[0].value)


def dead_letter(
    payload: bytes, *, failures: int, annotations: bytes | None, queue: str, reason: str
) -> bytes:
    """A message that leaves a queue as a dead letter, as it is kept from then on.

    Its message annotations tell the queue that it has died in first, the reason of that, and how often it has
    died: ``x-opt-first-death-queue``, ``x-opt-first-death-reason``, ``x-opt-death-count``. Its delivery-count
    has the failures of that queue in it. One in another format stays as it is.
    """
    if payload[:1] == _OPAQUE:
        return payload
    whole = depart(payload, failures=failures, annotations=merged(annotations, {}))
    known = decode_message(whole).message_annotations
    died = known.get(_DEATHS, 0)
    deaths = min(died, _MOST_DEATHS - 1) + 1 if isinstance(died, int) and died >= 0 else 1
    told: dict[Any, Any] = {_DEATHS: ULong(deaths)}
    if _FIRST_QUEUE not in known:
        told |= {_FIRST_QUEUE: queue, _FIRST_REASON: reason}
    return depart(whole, annotations=merged(None, told))


# --- what selectors and headers exchanges look at


class Amqp10Form:
    """How the broker reads messages of AMQP 1.0."""

    @property
    def number(self) -> int:
        return 0

    def facts(self, payload: bytes) -> Facts:
        """What selectors can look at; see :mod:`amqpforge.broker.selector`."""
        return _facts(payload)

    def changed(self, payload: bytes, failures: int, annotations: bytes | None) -> bytes:
        """A message as a queue has it: with the deliveries that failed there, and the annotations added. What
        is no message stays as it is.
        """
        if payload[:1] == _OPAQUE or not (failures or annotations is not None):
            return payload
        try:
            return depart(payload, failures=failures, annotations=annotations)
        except DecodeError:
            return payload

    def dead_letter(
        self, payload: bytes, failures: int, annotations: bytes | None, queue: str, reason: str
    ) -> bytes:
        """What is kept of a message that leaves a queue as a dead letter; see :func:`dead_letter`. What is no
        message stays as it is, for people to look at.
        """
        try:
            return dead_letter(
                payload, failures=failures, annotations=annotations, queue=queue, reason=reason
            )
        except DecodeError:
            return payload

    def headers(self, payload: bytes) -> Mapping[str, Any]:
        """The application properties."""
        try:
            for code, _, value, _ in sections_of(payload):
                if code == APPLICATION_PROPERTIES:
                    return decode_application_properties(payload, value, _budget())[0].value
        except DecodeError:
            pass
        return {}


FORM: Final = Amqp10Form()


@lru_cache(maxsize=64)
def _facts(payload: bytes) -> Facts:
    """One message is judged by many consumers, one after the other."""
    try:
        return facts_of(decode_message(payload))
    except DecodeError:
        return _no_facts


def _no_facts(_name: str) -> object:
    return None


_IDENTITIES: Final = {0xA1: (b"s", 1), 0xB1: (b"s", 4), 0xA0: (b"b", 1), 0xB0: (b"b", 4)}
_NUMBERS: Final = {0x44: 0, 0x53: 1, 0x80: 8}


def _identity(octets: bytes, pos: int) -> bytes | None:
    """The message-id whose constructor is at ``pos``: its type, and its value."""
    code = octets[pos]
    pos += 1
    kind = _IDENTITIES.get(code)
    if kind is not None:
        name, width = kind
        size = int.from_bytes(octets[pos : pos + width], "big")
        return name + octets[pos + width : pos + width + size]
    if code == 0x98:
        return b"u" + octets[pos : pos + 16]
    width_of_number = _NUMBERS.get(code)
    if width_of_number is not None:
        return b"n" + octets[pos : pos + width_of_number].rjust(8, b"\x00")
    if code == 0x40:
        return None
    raise DecodeError(f"no message-id begins with 0x{code:02x}", type="properties", offset=pos - 1)
