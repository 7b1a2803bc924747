"""Messages as applications hold them: bodies, fields, annotations, octets that are left alone, JSON."""

from __future__ import annotations

import copy
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings

import amqpforge_protocol.amqp_1_0 as amqp
from amqpforge import message as module
from amqpforge.errors import LocalError
from amqpforge.message import AnnotationsView, Message, MessageError
from amqpforge.notation import NotationError, from_json
from amqpforge_protocol.amqp_1_0 import (
    AmqpSequence,
    AmqpValue,
    Data,
    DecodeError,
    Described,
    EncodeError,
    Error,
    Float,
    Header,
    Int,
    Properties,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    decode_message,
    encode_message,
)
from tests.codec import strategies
from tests.codec.sameness import same
from tests.codec.vectors import of_kind

few = settings(
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def says_the_same(left: amqp.Message, right: amqp.Message) -> bool:
    """Whether all sections are the same, wire types included, in whatever form they were written."""
    return same(replace(left, bare=None), replace(right, bare=None))


# ---- bodies ----

BODIES: list[tuple[Any, Any, Any]] = [
    ("text", AmqpValue("text"), "text"),
    (Symbol("s"), AmqpValue(Symbol("s")), Symbol("s")),
    (b"octets", [Data(b"octets")], b"octets"),
    (b"", [Data(b"")], b""),
    (bytearray(b"octets"), [Data(b"octets")], b"octets"),
    (memoryview(b"octets")[::2], [Data(b"ott")], b"ott"),
    (None, AmqpValue(None), None),
    (True, AmqpValue(True), True),
    (7, AmqpValue(7), 7),
    (UInt(7), AmqpValue(UInt(7)), UInt(7)),
    (0.5, AmqpValue(0.5), 0.5),
    ({"a": 1}, AmqpValue({"a": 1}), {"a": 1}),
    ([1, 2], AmqpValue([1, 2]), [1, 2]),
    ([], AmqpValue([]), []),
    ([b"a"], AmqpValue([b"a"]), [b"a"]),
    (UUID(int=1), AmqpValue(UUID(int=1)), UUID(int=1)),
    (Data(b"a"), [Data(b"a")], b"a"),
    ([Data(b"a"), Data(b""), Data(b"b")], [Data(b"a"), Data(b""), Data(b"b")], b"ab"),
    ((Data(b"a"), Data(b"b")), [Data(b"a"), Data(b"b")], b"ab"),
    (AmqpSequence([1]), [AmqpSequence([1])], [1]),
    ([AmqpSequence([1]), AmqpSequence([]), AmqpSequence([2])], None, [1, 2]),
    (AmqpValue(b"octets"), AmqpValue(b"octets"), b"octets"),
    (AmqpValue([Data(b"a")]), AmqpValue([Data(b"a")]), [Data(b"a")]),
]


@pytest.mark.parametrize(("given", "sections", "plain"), BODIES, ids=[repr(row[0])[:40] for row in BODIES])
def test_a_value_becomes_a_body_by_the_documented_rule(given: Any, sections: Any, plain: Any) -> None:
    sections = given if sections is None else sections
    made = Message(given)
    octets = made.encode()
    assert octets == encode_message(amqp.Message(body=sections))
    assert same(made.sections.body, sections)
    assert made.encode() == octets, "having looked changes nothing"
    for message in (made, Message.from_octets(octets)):
        assert same(message.body, plain)
        assert same(message.sections.body, sections)
    changed = Message("other", subject="s")
    changed.body = given
    assert changed == Message(given, subject="s")


def test_sections_of_a_body_are_of_one_kind() -> None:
    with pytest.raises(MessageError, match=r"^body: AmqpSequence\(value=\[1\]\) beside Data sections"):
        Message([Data(b"a"), AmqpSequence([1])])
    with pytest.raises(MessageError, match="beside AmqpSequence"):
        Message().body = [AmqpSequence([1]), "text"]


def test_octets_that_change_later_were_taken_as_they_were() -> None:
    buffer = bytearray(b"abc")
    message = Message(buffer)
    buffer[:] = b"xyz"
    assert message.body == b"abc"
    sections = [Data(b"a")]
    message = Message(sections)
    sections.append(Data(b"b"))
    assert message.body == b"a"


def test_a_message_without_a_body_is_told_from_one_of_null_by_its_sections() -> None:
    octets = Properties(subject="s").encode()
    message = Message.from_octets(octets)
    assert message.body is None
    assert message.sections.body is None
    assert message.encode() == octets, "a peer wrote it; it can be sent on"
    message.subject = "other"
    with pytest.raises(EncodeError, match="a message has a body"):
        message.encode()


def test_what_no_type_of_amqp_holds_is_refused_on_encoding() -> None:
    for body in (object(), {"a": object()}, 1 << 63, "\ud800"):
        with pytest.raises(EncodeError):
            Message(body).encode()


@pytest.mark.spec("M-PROPS-010")
@pytest.mark.parametrize("body", ["text", {"a": 1}, [1], AmqpSequence([1])])
def test_no_content_type_is_invented_for_values_and_sequences(body: Any) -> None:
    again = Message.from_octets(Message(body, subject="s").encode())
    assert again.content_type is None


# ---- fields ----

NOON = datetime(2024, 5, 6, 12, 0, 0, 123000, tzinfo=UTC)
FIELDS: list[tuple[str, Any, Any]] = [
    ("durable", True, True),
    ("durable", False, False),
    ("priority", 0, 0),
    ("priority", 255, 255),
    ("ttl", 60, 60.0),
    ("ttl", 0, 0.0),
    ("ttl", 1.0016, 1.002),
    ("ttl", timedelta(milliseconds=1), 0.001),
    ("ttl", timedelta(days=49), 49 * 86400.0),
    ("ttl", 4294967.295, 4294967.295),
    ("first_acquirer", True, True),
    ("delivery_count", 4294967295, 4294967295),
    ("message_id", "id", "id"),
    ("message_id", b"id", b"id"),
    ("message_id", bytearray(b"id"), b"id"),
    ("message_id", ULong(1), ULong(1)),
    ("message_id", UUID(int=1), UUID(int=1)),
    ("message_id", Symbol("id"), "id"),
    ("user_id", b"guest", b"guest"),
    ("user_id", memoryview(b"guest"), b"guest"),
    ("to", "node", "node"),
    ("to", Described(Symbol("x:address"), 1), Described(Symbol("x:address"), 1)),
    ("subject", "s", "s"),
    ("subject", "", ""),
    ("reply_to", "node", "node"),
    ("correlation_id", ULong(1), ULong(1)),
    ("content_type", "text/plain; charset=utf-8", Symbol("text/plain; charset=utf-8")),
    ("content_encoding", "gzip", Symbol("gzip")),
    ("absolute_expiry_time", NOON, NOON),
    ("absolute_expiry_time", Timestamp(-1), datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
    ("creation_time", NOON + timedelta(microseconds=999), NOON),
    ("creation_time", NOON.astimezone(timezone(timedelta(hours=5))), NOON),
    ("group_id", "g", "g"),
    ("group_sequence", 4294967295, 4294967295),
    ("reply_to_group_id", "g", "g"),
    ("application_properties", {"a": Symbol("s"), "b": UInt(1)}, {"a": Symbol("s"), "b": UInt(1)}),
    ("annotations", {"x-opt-a": 1}, {Symbol("x-opt-a"): 1}),
    ("delivery_annotations", {Symbol("x-a"): [1]}, {Symbol("x-a"): [1]}),
    ("footer", {"x-digest": b"\x00"}, {Symbol("x-digest"): b"\x00"}),
]


def told(message: Message, name: str) -> Any:
    value = getattr(message, name)
    return dict(value) if isinstance(value, AnnotationsView) else value


@pytest.mark.parametrize(("name", "value", "read"), FIELDS)
def test_a_field_is_a_keyword_and_an_attribute_and_survives_the_wire(
    name: str, value: Any, read: Any
) -> None:
    fields: dict[str, Any] = {name: value}
    made = Message(b"body", **fields)
    changed = Message(b"body")
    setattr(changed, name, value)
    assert made == changed
    octets = made.encode()
    assert octets == changed.encode()
    assert octets != Message(b"body").encode()
    for message in (made, Message.from_octets(octets)):
        assert same(told(message, name), read)
        assert message.body == b"body"
    plain = {"application_properties", "annotations", "delivery_annotations", "footer"} - {name}
    assert all(not getattr(made, other) for other in plain)


def test_every_field_of_header_and_properties_is_an_attribute() -> None:
    names = {info.attribute for info in (*Header.FIELDS, *Properties.FIELDS)}
    assert names <= {name for name, _, _ in FIELDS}
    assert all(isinstance(getattr(Message, name), property) for name in names)
    assert all(getattr(Message, name).__doc__ for name in names)


def test_all_fields_together_end_up_where_they_belong() -> None:
    fields: dict[str, Any] = {name: value for name, value, _ in FIELDS}
    message = Message.from_octets(Message(b"body", **fields).encode())
    for name, read in {name: read for name, _, read in FIELDS}.items():
        assert same(told(message, name), read), name


def test_none_leaves_a_field_out() -> None:
    fields: dict[str, Any] = dict.fromkeys([name for name, _, _ in FIELDS])
    assert Message("x", **fields).encode() == Message("x").encode()
    assert Message("x").sections == amqp.Message(body=AmqpValue("x"))


def test_a_field_is_cleared_with_none_where_it_can_be_absent() -> None:
    message = Message("x", subject="s", to="n", ttl=1)
    message.subject = message.ttl = None
    assert (message.subject, message.to, message.ttl) == (None, "n", None)
    message = Message("x")
    message.subject = message.ttl = None
    assert message.encode() == Message("x").encode(), "no section is made for nothing"
    with pytest.raises(MessageError, match="durable: None is not a flag"):
        setattr(message, "durable", None)  # noqa: B010 (mypy would refuse the assignment)


WRONG: list[tuple[str, Any, str]] = [
    ("durable", 1, "1 is not a flag; give True or False"),
    ("first_acquirer", "yes", "'yes' is not a flag"),
    ("priority", 256, "256 does not fit; give a whole number from 0 to 255"),
    ("priority", True, "True does not fit"),
    ("priority", 4.0, "4.0 does not fit"),
    ("delivery_count", -1, "-1 does not fit; give a whole number from 0 to 4294967295"),
    ("group_sequence", "1", "'1' does not fit"),
    ("ttl", "60", "'60' is no length of time; give seconds or a timedelta"),
    ("ttl", True, "True is no length of time"),
    ("ttl", -0.001, "give 0 to 4294967.295 seconds"),
    ("ttl", timedelta(days=50), "give 0 to 4294967.295 seconds"),
    ("ttl", float("nan"), "nan does not fit"),
    ("ttl", float("inf"), "inf does not fit"),
    ("ttl", 10**400, "does not fit"),
    ("message_id", 5, "5 is no identifier; give a str, bytes, a UUID, or a ULong"),
    ("correlation_id", False, "False is no identifier"),
    ("user_id", "guest", "'guest' is not octets; give bytes"),
    ("to", b"node", "b'node' is not an address; give a str"),
    ("reply_to", 1, "1 is not an address"),
    ("subject", b"s", "b's' is not text; give a str"),
    ("group_id", 1, "1 is not text"),
    ("reply_to_group_id", ["g"], "is not text"),
    ("content_type", "café", "'café' is not a symbol; give a str of ASCII characters"),
    ("content_encoding", b"gzip", "is not a symbol"),
    ("creation_time", 0, "0 is no moment; give a datetime with a time zone"),
    ("creation_time", datetime(2024, 1, 1), "has no time zone; give one"),
    ("absolute_expiry_time", "now", "'now' is no moment"),
    ("application_properties", [("a", 1)], "is not a mapping; give a dict"),
    ("annotations", "x-a", "is not a mapping"),
]


@pytest.mark.parametrize(("name", "value", "problem"), WRONG)
def test_an_error_names_the_field_and_what_to_give(name: str, value: Any, problem: str) -> None:
    fields: dict[str, Any] = {name: value}
    message = Message("x")
    for attempt in (lambda: Message("x", **fields), lambda: setattr(message, name, value)):
        with pytest.raises(MessageError, match=f"^{name}: .*{re.escape(problem)}") as caught:
            attempt()
        assert caught.value.field == name
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, LocalError)
    assert message.encode() == Message("x").encode(), "nothing was changed"


def test_a_field_that_there_is_not_is_refused() -> None:
    with pytest.raises(TypeError, match="priorty"):
        Message("x", priorty=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Message("x").priorty = 1  # type: ignore[attr-defined]


def test_an_error_shows_no_more_than_the_beginning_of_a_value() -> None:
    with pytest.raises(MessageError) as caught:
        Message("x", subject=b"z" * 10_000_000)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("properties", [{5: 1}, {Symbol("s"): 1}, {"a": [1]}, {"a": {}}])
def test_application_properties_are_simple_values_under_text(properties: Any) -> None:
    with pytest.raises(EncodeError, match="application-properties"):
        Message("x", application_properties=properties).encode()


def test_application_properties_are_changed_in_place() -> None:
    given = {"a": 1}
    message = Message("x", application_properties=given)
    message.application_properties["b"] = 2
    assert given == {"a": 1}
    assert Message.from_octets(message.encode()).application_properties == {"a": 1, "b": 2}


def test_a_moment_beyond_the_calendar_is_refused_when_read_and_there_as_a_number() -> None:
    message = Message.from_octets(Message("x", creation_time=Timestamp(1 << 62)).encode())
    with pytest.raises(MessageError, match=r"^creation_time: .*sections\.properties\.creation_time"):
        _ = message.creation_time
    assert message.sections.properties is not None
    assert message.sections.properties.creation_time == 1 << 62
    assert "creation_time=4611686018427387904" in repr(message).replace("Timestamp(", "").replace(")", "")


# ---- the header that counts ----


@pytest.mark.spec("M-HEADER-001")
def test_without_a_header_the_standard_defaults_count() -> None:
    message = Message.from_octets(AmqpValue("x").encode())
    assert message.sections.header is None
    assert message.effective_header() == Header(
        durable=False, priority=4, ttl=None, first_acquirer=False, delivery_count=0
    )
    told = (message.durable, message.priority, message.ttl, message.first_acquirer, message.delivery_count)
    assert told == (False, 4, None, False, 0)
    assert message.sections.header is None, "reading makes no header"


@pytest.mark.spec("M-HEADER-002")
def test_without_a_header_a_configured_default_wins_over_the_standard() -> None:
    configured = Header(priority=7, durable=True)
    assert Message.from_octets(AmqpValue("x").encode()).effective_header(configured).priority == 7
    for made in (Message("x", priority=4), Message("x", ttl=1)):
        received = Message.from_octets(made.encode())
        assert received.effective_header(configured) == received.sections.header
        assert (received.effective_header(configured).priority, received.durable) == (4, False)


@pytest.mark.spec("M-HEADER-017")
def test_first_acquirer_false_alone_is_no_redelivery() -> None:
    absent = Message.from_octets(AmqpValue("x").encode())
    written = Message.from_octets(bytes.fromhex("005370c0050442404042") + AmqpValue("x").encode())
    for message in (absent, written, Message("x", first_acquirer=True)):
        assert not message.redelivered
    assert not written.first_acquirer
    assert Message("x", first_acquirer=True, delivery_count=1).redelivered


# ---- annotations ----

PLACES = ("annotations", "delivery_annotations", "footer")
RESERVED = [5, ULong(5), True, None, b"x-a", "colour", Symbol("colour"), "", "X-a", "x", "xopt", "x-é"]


@pytest.mark.spec("M-ANNOT-009")
@pytest.mark.parametrize("key", RESERVED, ids=repr)
@pytest.mark.parametrize("place", PLACES)
def test_a_reserved_key_is_refused_through_every_door(place: str, key: Any) -> None:
    message = Message("x")
    view = getattr(message, place)
    entries: Any = {key: 1}
    fields: dict[str, Any] = {place: entries}
    doors: list[Callable[[], object]] = [
        lambda: Message("x", **fields),
        lambda: setattr(message, place, entries),
        lambda: view.__setitem__(key, 1),
        lambda: view.update(entries),
        lambda: view.setdefault(key, 1),
    ]
    for door in doors:
        with pytest.raises(MessageError, match=f"^{place}: the key .* keys of your own .* x-"):
            door()
    assert message.encode() == Message("x").encode()


def test_the_error_of_a_reserved_key_says_what_to_write() -> None:
    with pytest.raises(MessageError, match=r"the key 'colour' is reserved; .* 'x-opt-colour'"):
        Message("x", annotations={"colour": 1})


@pytest.mark.parametrize("place", PLACES)
def test_private_keys_become_symbols(place: str) -> None:
    message = Message("x", subject="s")
    view = getattr(message, place)
    view["x-opt-a"] = "text"
    view[Symbol("x-b")] = Symbol("symbol")
    assert [type(key) for key in view] == [Symbol, Symbol]
    received = getattr(Message.from_octets(message.encode()), place)
    assert same(dict(received), {Symbol("x-opt-a"): "text", Symbol("x-b"): Symbol("symbol")})
    assert received == {"x-opt-a": "text", "x-b": "symbol"} == dict(view)
    assert "x-opt-a" in received
    assert received.get("x-c") is None
    assert repr(received).startswith("AnnotationsView({Symbol('x-opt-a'): 'text'")


RECEIVED = {
    Symbol("x-opt-a"): 1,
    Symbol("qpid.thing"): "kept",
    ULong(7): Symbol("kept"),
}


def test_reserved_keys_that_were_received_are_kept() -> None:
    octets = encode_message(amqp.Message(message_annotations=dict(RECEIVED), body=AmqpValue("x")))
    message = Message.from_octets(octets)
    assert same(dict(message.annotations), RECEIVED)
    assert message.annotations["qpid.thing"] == "kept"
    assert message.annotations[ULong(7)] == "kept"
    message.annotations["x-opt-b"] = 2
    assert same(dict(Message.from_octets(message.encode()).annotations), {**RECEIVED, Symbol("x-opt-b"): 2})
    with pytest.raises(MessageError):
        message.annotations["qpid.thing"] = "changed"
    del message.annotations["qpid.thing"]
    assert len(message.annotations) == 3
    message.annotations.clear()
    assert message.sections.message_annotations == {}


def test_sections_take_the_keys_of_the_standard() -> None:
    message = Message("x")
    message.sections.delivery_annotations[Symbol("rejected")] = Error(condition="amqp:not-found")
    received = Message.from_octets(message.encode())
    assert received.delivery_annotations["rejected"].condition == "amqp:not-found"


@pytest.mark.spec("M-ANNOT-005")
@pytest.mark.parametrize("code", [0x71, 0x72, 0x78])
def test_absent_annotations_mean_the_same_as_an_empty_map(code: int) -> None:
    body, empty = AmqpValue("x").encode(), bytes((0x00, 0x53, code, 0xC1, 0x01, 0x00))
    absent = Message.from_octets(body)
    there = Message.from_octets(body + empty if code == 0x78 else empty + body)
    assert there == absent
    for message in (there, absent):
        for view in (message.annotations, message.delivery_annotations, message.footer):
            assert dict(view) == {}


# ---- octets ----


def test_nothing_is_decoded_until_someone_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []

    def decode(octets: bytes) -> amqp.Message:
        decoded.append(octets)
        return decode_message(octets)

    monkeypatch.setattr(module, "decode_message", decode)
    octets = Message("text", subject="s").encode()
    message = Message.from_octets(octets)
    assert message.encode() is octets
    assert message == Message.from_octets(octets)
    assert message.message_format == 0
    assert message.raw is None
    assert decoded == []
    assert (message.body, message.subject) == ("text", "s")
    assert decoded == [octets], "once"


def test_malformed_octets_are_an_error_when_someone_looks() -> None:
    message = Message.from_octets(b"\x00\x53\x77\xa1\x05ab")
    assert message.encode() == b"\x00\x53\x77\xa1\x05ab"
    for look in (lambda: message.body, lambda: message.subject, lambda: message.sections, message.to_json):
        with pytest.raises(DecodeError):
            look()
    assert repr(message).startswith("<Message that cannot be decoded: ")


LONG_FORM = bytes.fromhex("005373d00000000a00000004404040a10173") + bytes.fromhex("005375b0000000027879")
"""Properties in a list of the longest form, and data likewise."""


def test_the_bare_message_keeps_its_octets_while_header_and_annotations_change() -> None:
    received = Message(b"", durable=True, annotations={"x-opt-hop": 1}).encode()
    head = received[: received.index(b"\x00\x53\x75")]
    message = Message.from_octets(head + LONG_FORM)
    assert (message.subject, message.body) == ("s", b"xy")
    message.priority = 9
    message.annotations["x-opt-hop"] = 2
    message.footer = {"x-digest": b"d"}
    again = message.encode()
    assert LONG_FORM in again
    assert Message.from_octets(again).annotations["x-opt-hop"] == 2
    message.subject = "t"
    assert LONG_FORM not in message.encode()
    assert Message.from_octets(message.encode()).subject == "t"


@pytest.mark.parametrize("row", of_kind("message"))
def test_messages_of_other_implementations_are_sent_on_as_they_came(row: dict[str, Any]) -> None:
    octets = bytes.fromhex(row["hex"])
    message = Message.from_octets(octets)
    assert message.encode() == octets
    decoded = decode_message(octets)
    assert message.sections == decoded
    again = message.encode()
    assert again == octets if decoded.bare is None else decoded.bare in again
    assert decode_message(again) == decoded


def test_octets_of_any_kind_are_taken_as_they_are_now() -> None:
    octets = bytearray(Message("text").encode())
    messages = [Message.from_octets(octets), Message.from_octets(memoryview(octets))]
    octets[:] = bytes(len(octets))
    for message in messages:
        assert type(message.encode()) is bytes
        assert message.body == "text"


def test_symbols_stay_symbols_and_unsigned_stays_unsigned_on_the_round_trip() -> None:
    values = {
        "symbol": Symbol("s"),
        "string": "s",
        "ubyte": UByte(1),
        "uint": UInt(1),
        "ulong": ULong(1),
        "int": Int(1),
        "long": 1,
        "float": Float(0.5),
        "timestamp": Timestamp(1),
    }
    annotations = {f"x-{name}": value for name, value in values.items()}
    message = Message(
        values,
        message_id=ULong(1),
        application_properties=values,
        annotations=annotations,
        footer=annotations,
    )
    for again in (Message.from_octets(message.encode()), Message.from_json(message.to_json())):
        assert same(again.body, values)
        assert same(again.application_properties, values)
        assert same(again.message_id, ULong(1))
        for view in (again.annotations, again.footer):
            assert same(dict(view), {Symbol(key): value for key, value in annotations.items()})
        onward = Message(again.body, application_properties=again.application_properties)
        assert same(Message.from_octets(onward.encode()).body, values)


@few
@given(strategies.messages())
def test_whatever_can_be_said_is_read_and_sent_on(sections: amqp.Message) -> None:
    octets = encode_message(sections)
    message = Message.from_octets(octets)
    assert says_the_same(message.sections, sections)
    assert message.encode() == octets
    assert repr(message).startswith("Message(")


# ---- other formats ----


def test_a_message_of_another_format_is_octets_only() -> None:
    message = Message.from_octets(b"anything", message_format=0x100)
    assert (message.raw, message.encode(), message.message_format) == (b"anything", b"anything", 0x100)
    looks: list[Callable[[], object]] = [
        lambda: message.sections,
        lambda: message.body,
        lambda: message.durable,
        lambda: message.annotations,
        lambda: setattr(message, "subject", "s"),
    ]
    for look in looks:
        with pytest.raises(MessageError, match=r"format 256 .* octets are in raw"):
            look()
    assert repr(message) == "<Message of format 256, 8 octets>"
    assert message == Message.from_octets(b"anything", message_format=0x100)
    assert message != Message.from_octets(b"anything", message_format=0x101)
    assert message != Message.from_octets(b"something", message_format=0x100)
    assert Message.from_json(message.to_json()) == message


def test_a_later_version_of_the_format_is_read() -> None:
    message = Message.from_octets(Message("x").encode(), message_format=3)
    assert (message.raw, message.body, message.message_format) == (None, "x", 3)
    assert message != Message("x")
    again = Message.from_json(message.to_json())
    assert (again, again.message_format) == (message, 3)


@pytest.mark.parametrize("number", [-1, 1 << 32, "0", None])
def test_a_message_format_is_a_uint(number: Any) -> None:
    with pytest.raises(MessageError, match=r"message_format: .* 0 to 4294967295"):
        Message.from_octets(b"", message_format=number)


# ---- as an object ----


def test_messages_are_equal_when_their_sections_are() -> None:
    assert Message("x", subject="s") == Message.from_octets(Message("x", subject="s").encode())
    assert Message("x") != Message("y")
    assert Message("x") != Message(b"x")
    assert Message("x") != Message("x", durable=False), "a header, however empty, overrules defaults"
    assert Message(1) == Message(UInt(1))
    assert Message("x") != "x"
    with pytest.raises(TypeError):
        hash(Message("x"))


def test_copies_are_independent() -> None:
    message = Message({"a": 1}, application_properties={"b": 2})
    for twin in (copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert twin == message
        twin.application_properties["b"] = 3
        assert message.application_properties == {"b": 2}


def test_the_repr_shows_what_is_set_and_stays_short() -> None:
    message = Message("text", durable=True, ttl=1.5, subject="s", annotations={"x-opt-a": 1})
    assert repr(message) == (
        "Message('text', durable=True, ttl=1.5, subject='s', annotations={Symbol('x-opt-a'): 1})"
    )
    assert repr(Message(None)) == "Message(None)"
    many = {f"key {number}": "v" * 1000 for number in range(1000)}
    for body in (b"z" * 10_000_000, "z" * 10_000_000, [["z" * 1000] * 1000] * 1000, many):
        assert len(repr(Message(body, application_properties=many))) < 600
    assert "10000000 octets" in repr(Message(b"z" * 10_000_000))


# ---- JSON ----


def test_the_json_of_a_message() -> None:
    message = Message(
        {"size": UInt(7)},
        durable=True,
        ttl=60,
        message_id=ULong(1 << 63),
        subject="s",
        content_type="text/plain",
        creation_time=NOON,
        application_properties={"a": True, "b": None},
        annotations={"x-opt-a": Symbol("s")},
    )
    text = message.to_json()
    assert "\n" not in text
    assert json.loads(text) == {
        "type": "message",
        "sections": [
            {"type": "header", "fields": {"durable": True, "ttl": 60000}},
            {
                "type": "message-annotations",
                "value": {
                    "type": "map",
                    "value": [[{"type": "symbol", "value": "x-opt-a"}, {"type": "symbol", "value": "s"}]],
                },
            },
            {
                "type": "properties",
                "fields": {
                    "message-id": {"type": "ulong", "value": "9223372036854775808"},
                    "subject": "s",
                    "content-type": "text/plain",
                    "creation-time": {"type": "timestamp", "value": "1714996800123"},
                },
            },
            {
                "type": "application-properties",
                "value": {
                    "type": "map",
                    "value": [
                        [{"type": "string", "value": "a"}, {"type": "boolean", "value": True}],
                        [{"type": "string", "value": "b"}, {"type": "null", "value": None}],
                    ],
                },
            },
            {
                "type": "amqp-value",
                "value": {
                    "type": "map",
                    "value": [[{"type": "string", "value": "size"}, {"type": "uint", "value": 7}]],
                },
            },
        ],
    }
    again = Message.from_json(text)
    assert again == message
    assert again.encode() == message.encode()


def test_each_section_is_in_the_notation_of_single_values() -> None:
    for section in json.loads(Message([Data(b"a"), Data(b"")], subject="s").to_json())["sections"]:
        assert from_json(section) in (Properties(subject="s"), Data(b"a"), Data(b""))


@few
@given(strategies.messages())
def test_json_loses_nothing(sections: amqp.Message) -> None:
    octets = encode_message(sections)
    text = Message.from_octets(octets).to_json()
    again = Message.from_json(text)
    assert again.encode() == octets
    assert says_the_same(again.sections, sections)
    assert again.to_json() == text


@pytest.mark.parametrize("row", of_kind("message"))
def test_json_of_messages_of_other_implementations(row: dict[str, Any]) -> None:
    octets = bytes.fromhex(row["hex"])
    message = Message.from_octets(octets)
    again = Message.from_json(message.to_json())
    footer = {Symbol(key): value for key, value in message.footer.items()}  # a peer wrote strings
    assert says_the_same(again.sections, replace(message.sections, footer=footer))
    assert len(again.encode()) <= len(octets), "the same in its shortest form"
    assert Message.from_json(again.to_json()).encode() == again.encode()


def test_json_by_hand_may_leave_types_to_the_nature_of_the_values() -> None:
    text = """{"type": "message", "sections": [
        {"type": "properties", "fields": {"subject": "s", "user-id": {"type": "binary", "value": "00ff"}}},
        {"type": "amqp-value", "value": ["a", 1, {"type": "uint", "value": 2}]}]}"""
    message = Message.from_json(text)
    assert (message.subject, message.user_id, message.body) == ("s", b"\x00\xff", ["a", 1, 2])
    assert same(message.body[2], UInt(2))
    assert Message.from_json(text.encode()) == message


def test_json_lets_reserved_annotations_in_as_a_peer_does() -> None:
    octets = encode_message(amqp.Message(message_annotations=dict(RECEIVED), body=AmqpValue("x")))
    again = Message.from_json(Message.from_octets(octets).to_json())
    assert same(dict(again.annotations), RECEIVED)


def sections(*given: Any) -> str:
    return json.dumps({"type": "message", "sections": given})


VALUE = {"type": "amqp-value", "value": None}
NO_MESSAGE: list[tuple[str, str]] = [
    ("", "not JSON"),
    ("[" * 100_000, "not JSON"),
    ('{"type": "message", "sections": [{"type": "amqp-value", "value": NaN}]}', "NaN is no JSON"),
    ("7", "7 is no message"),
    ("{}", "is no message"),
    ('{"type": "data", "value": {"type": "binary", "value": ""}}', "is no message"),
    ('{"type": "message"}', "is no message"),
    ('{"type": "message", "sections": [], "octets": ""}', "is no message"),
    ('{"type": "message", "sections": [], "body": 1}', "is no message"),
    ('{"type": "message", "sections": {}}', "are an array"),
    ('{"type": "message", "octets": 7, "message-format": 256}', "no message"),
    ('{"type": "message", "octets": "0g", "message-format": 256}', "no message"),
    ('{"type": "message", "octets": "00", "message-format": -1}', "message_format: -1"),
    ('{"type": "message", "octets": "00", "message-format": "1"}', "message_format: '1'"),
    ('{"type": "message", "octets": "00"}', "no message"),
    (sections("text"), "section 0: not a section of a message; those are header, delivery-annotations"),
    (sections(VALUE, {"type": "open", "fields": {"container-id": "c"}}), "section 1: not a section"),
    (sections({"type": "nothing", "value": 1}), "section 0: there is no type 'nothing'"),
    (sections({"type": "header", "fields": {"priorty": 1}}), "section 0: header has no field 'priorty'"),
    (sections({"type": "header", "fields": {"priority": 256}}, VALUE), "section 0: header.priority"),
    (sections({"type": "data", "value": "text"}), "section 0: data"),
    (sections(VALUE, VALUE), "amqp-value is repeated"),
]


@pytest.mark.parametrize(("text", "problem"), NO_MESSAGE, ids=[problem for _, problem in NO_MESSAGE])
def test_json_that_is_no_message_is_refused(text: str, problem: str) -> None:
    with pytest.raises(NotationError, match=re.escape(problem)):
        Message.from_json(text)


# ---- the page about it ----

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "messages.md").read_text(encoding="utf-8")
TOURS = re.findall(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", PAGE, re.DOTALL)


def test_every_example_of_the_page_says_what_it_prints() -> None:
    assert len(TOURS) == PAGE.count("```python") > 2


@pytest.mark.parametrize(("source", "printed"), TOURS)
def test_an_example_prints_what_the_page_says(source: str, printed: str) -> None:
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert run.stdout == printed
