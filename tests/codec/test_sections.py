"""The sections of a message: their order, what they may hold, and the octets of the bare message (section
3.2).
"""

from __future__ import annotations

import hashlib
from itertools import combinations
from typing import Any
from uuid import UUID

import pytest

from amqpforge_protocol.amqp_1_0 import (
    AmqpSequence,
    AmqpValue,
    Array,
    Data,
    DecodeError,
    Described,
    EncodeError,
    Limits,
    Map,
    Message,
    Symbol,
    ULong,
    decode_message,
    decode_value,
    encode_message,
    encode_value,
)
from tests.codec.objects import amqp
from tests.codec.sameness import same
from tests.codec.strategies import SIMPLE

STRICT = Limits(strict=True)
ORDER = [0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x78]
PARTS: dict[str, Any] = {
    "header": amqp.Header(durable=True),
    "delivery_annotations": {Symbol("x-opt-d"): 1},
    "message_annotations": {Symbol("x-opt-m"): 2},
    "properties": amqp.Properties(subject="s"),
    "application_properties": {"a": 3},
    "footer": {Symbol("x-f"): 4},
}


def section(code: int, value: object) -> bytes:
    """A section by its number, its value encoded as a free-standing one."""
    return bytes((0x00, 0x53, code)) + encode_value(value)


HEADER = section(0x70, [])
PROPERTIES = section(0x73, [])
BODY = section(0x77, None)


def made(**sections: Any) -> Message:
    """A message with a body and some other sections."""
    return Message(body=AmqpValue(None), **sections)


def codes(octets: bytes) -> list[int]:
    """The numbers of the sections in a message, in order."""
    found, pos = [], 0
    while pos < len(octets):
        value, pos = decode_value(octets, pos)
        found.append(int(type(value).DESCRIPTOR))
    return found


# ---- order ----


@pytest.mark.spec("M-FORMAT-003")
def test_sections_are_encoded_in_their_order_whichever_are_there() -> None:
    for size in range(len(PARTS) + 1):
        for names in combinations(PARTS, size):
            message = Message(body=[Data(b"x")], **{name: PARTS[name] for name in reversed(names)})
            octets = encode_message(message)
            expected = [
                code for code, name in zip(ORDER, _NAMES, strict=True) if name in names or name == "body"
            ]
            assert codes(octets) == expected
            assert decode_message(octets) == message


_NAMES = ["header", "delivery_annotations", "message_annotations", "properties", "application_properties"]
_NAMES += ["body", "footer"]


@pytest.mark.spec("M-FORMAT-003")
def test_sections_out_of_order_are_refused_by_strict_decoding_and_read_by_default() -> None:
    sections = {code: section(code, [] if code in (0x70, 0x73) else {}) for code in ORDER}
    sections[0x75] = section(0x75, b"x")
    for first, second in combinations(ORDER, 2):
        body = b"" if 0x75 in (first, second) else sections[0x75]
        octets = sections[second] + sections[first] + body
        assert decode_message(octets).body == [Data(b"x")]
        with pytest.raises(DecodeError, match="is out of order"):
            decode_message(octets, limits=STRICT)
        assert (
            decode_message(sections[first] + sections[second] + (body if second != 0x78 else b"")) is not None
        )


@pytest.mark.spec("M-FORMAT-008")
@pytest.mark.parametrize("code", [0x70, 0x71, 0x72, 0x73, 0x74, 0x77, 0x78])
def test_a_section_occurs_once(code: int) -> None:
    one = section(code, [] if code in (0x70, 0x73) else {})
    body = b"" if code == 0x77 else BODY
    assert decode_message(one + body).body is not None
    for octets in (one + one + body, one + body + one):
        for limits in (Limits(), STRICT):
            with pytest.raises(DecodeError, match=r"repeated|out of order"):
                decode_message(octets, limits=limits)


@pytest.mark.spec("M-FORMAT-008")
def test_every_section_but_the_body_may_be_absent() -> None:
    assert decode_message(BODY, limits=STRICT) == Message(body=AmqpValue(None))
    assert encode_message(Message(body=AmqpValue(None))) == BODY
    with pytest.raises(DecodeError, match="has no body"):
        decode_message(HEADER + PROPERTIES, limits=STRICT)
    assert decode_message(HEADER + PROPERTIES).body is None
    with pytest.raises(EncodeError, match="a message has a body"):
        encode_message(Message(header=amqp.Header()))


@pytest.mark.parametrize(
    "octets",
    [
        section(0x79, None),
        section(0x24, []),
        b"\x00\xa3\x03a:b\x40",
        b"\x40",
        b"\x00\x45\x40",
        b"\x00\x82\x40\x5c\x00\x00\x00\x00\x00\x00\x45",
        b"\x00\x52\x77\x40",
    ],
)
def test_nothing_but_sections(octets: bytes) -> None:
    for message in (octets, octets + BODY, BODY + octets):
        with pytest.raises(DecodeError) as caught:
            decode_message(message)
        assert caught.value.type == "message"


# ---- the bare message ----

BARE = section(0x73, ["id"]) + section(0x74, {"k": 1}) + section(0x75, b"body")


@pytest.mark.spec("M-FORMAT-002", "M-FORMAT-004")
def test_the_bare_message_is_properties_application_properties_and_body() -> None:
    head = HEADER + section(0x71, {Symbol("a"): 1}) + section(0x72, {Symbol("b"): 1})
    foot = section(0x78, {Symbol("c"): 1})
    message = decode_message(head + BARE + foot)
    assert message.bare == BARE
    for around in (HEADER + BARE, BARE + foot, BARE, head + BARE):
        assert decode_message(around).bare == BARE


@pytest.mark.spec("M-FORMAT-004")
def test_what_an_intermediary_rewrites_leaves_the_bare_message_alone() -> None:
    digest = hashlib.sha256(BARE).digest()
    octets = HEADER + BARE
    for hop in range(3):
        message = decode_message(octets)
        message.header = amqp.Header(ttl=100 - hop, delivery_count=hop)
        message.message_annotations = {Symbol(f"x-opt-{hop}"): hop}
        message.footer = {Symbol("x-hop"): hop}
        octets = encode_message(message)
        assert BARE in octets
        received = decode_message(octets).bare
        assert received is not None
        assert hashlib.sha256(received).digest() == digest


LONG_FORMS = {
    "list32": b"\x00\x53\x73\xd0\x00\x00\x00\x08\x00\x00\x00\x02\xa1\x02id" + BODY,
    "trailing nulls": b"\x00\x53\x73\xc0\x06\x03\xa1\x01i\x40\x40" + BODY,
    "ulong descriptor": b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x73\xc0\x04\x01\xa1\x01i" + BODY,
    "symbolic descriptors": b"\x00\xa3\x14amqp:properties:list\xc0\x04\x01\xa1\x01i"
    + b"\x00\xa3\x17amqp:amqp-value:*\x40".replace(b"\x17", b"\x11"),
    "map32": b"\x00\x53\x74\xd1\x00\x00\x00\x08\x00\x00\x00\x02\xa1\x01k\x41" + BODY,
    "empty map": b"\x00\x53\x74\xc1\x01\x00" + BODY,
    "empty properties": b"\x00\x53\x73\x45" + BODY,
    "binary32": b"\x00\x53\x75\xb0\x00\x00\x00\x01x",
    "boolean octet": b"\x00\x53\x77\x56\x01",
    "uint of four octets": b"\x00\x53\x77\x70\x00\x00\x00\x01",
}


@pytest.mark.spec("M-FORMAT-006")
@pytest.mark.parametrize("name", LONG_FORMS)
def test_forms_that_we_would_not_choose_are_forwarded_as_they_came(name: str) -> None:
    bare = LONG_FORMS[name]
    if name == "list32":
        bare = bare.replace(b"\x00\x00\x00\x02\xa1", b"\x00\x00\x00\x01\xa1")
    message = decode_message(HEADER + bare)
    message.header = amqp.Header(priority=9)
    again = encode_message(message)
    assert again.endswith(bare)
    assert codes(again) == [0x70, *codes(bare)]


def test_a_changed_message_is_written_anew() -> None:
    message = decode_message(LONG_FORMS["binary32"])
    message.body = [Data(b"y")]
    assert encode_message(message) == section(0x75, b"y")
    message = decode_message(LONG_FORMS["trailing nulls"])
    assert message.properties is not None
    message.properties.subject = "s"
    assert decode_message(encode_message(message)).properties == message.properties


@pytest.mark.spec("M-FORMAT-010")
def test_a_footer_is_made_after_the_whole_bare_message_has_gone_by() -> None:
    digest = hashlib.sha256()
    stream = b""
    for chunk in (b"one", b"two", b""):
        part = section(0x75, chunk)
        digest.update(part)
        stream += part
    stream += section(0x78, {Symbol("x-sha256"): digest.digest()})
    message = decode_message(stream, limits=STRICT)
    assert message.bare is not None
    assert hashlib.sha256(message.bare).digest() == message.footer["x-sha256"]
    assert encode_message(message) == stream
    assert codes(encode_message(message))[-1] == 0x78


# ---- annotations ----

ANNOTATIONS = {"delivery_annotations": 0x71, "message_annotations": 0x72, "footer": 0x78}


@pytest.mark.spec("M-ANNOT-004")
def test_rejected_in_delivery_annotations_is_an_error() -> None:
    error = amqp.Error(condition="amqp:not-found")
    octets = encode_message(Message(delivery_annotations={Symbol("rejected"): error}, body=AmqpValue(None)))
    assert decode_message(octets).delivery_annotations == {"rejected": error}
    for wrong in ("amqp:not-found", None, amqp.Accepted(), [error], Described(ULong(1), None)):
        with pytest.raises(EncodeError, match="the value of 'rejected'"):
            encode_message(Message(delivery_annotations={Symbol("rejected"): wrong}, body=AmqpValue(None)))
        with pytest.raises(DecodeError, match="the value of 'rejected'"):
            decode_message(section(0x71, {Symbol("rejected"): wrong}) + BODY)
    assert decode_message(section(0x72, {Symbol("rejected"): "any"}) + BODY).message_annotations == {
        "rejected": "any"
    }


@pytest.mark.spec("M-ANNOT-005")
@pytest.mark.parametrize("name", ["delivery_annotations", "message_annotations"])
def test_no_annotations_are_as_much_as_empty_ones(name: str) -> None:
    absent = decode_message(BODY)
    for empty in (b"\xc1\x01\x00", b"\xd1\x00\x00\x00\x04\x00\x00\x00\x00"):
        present = decode_message(bytes((0x00, 0x53, ANNOTATIONS[name])) + empty + BODY)
        assert present == absent
        assert getattr(present, name) == {}
        assert encode_message(present) == BODY


@pytest.mark.spec("M-ANNOT-008")
@pytest.mark.parametrize("name", ANNOTATIONS)
def test_keys_of_annotations_are_symbols_or_ulongs(name: str) -> None:
    code = ANNOTATIONS[name]

    def message(entries: object) -> bytes:
        one = section(code, entries)
        return BODY + one if code == 0x78 else one + BODY

    for lawful in ({Symbol("s"): 1}, {ULong(1): 1}, {Symbol("s"): 1, ULong(1): None}):
        assert same(getattr(decode_message(message(lawful), limits=STRICT), name), lawful)
        assert encode_message(made(**{name: lawful})) == message(lawful)
    for unlawful in (None, 1, amqp.UInt(1), True, b"s", amqp.Char("s")):
        for limits in (Limits(), STRICT):
            with pytest.raises(DecodeError, match="not all of type symbol or ulong"):
                decode_message(message(Map([(unlawful, 1)])), limits=limits)
        if not isinstance(unlawful, str):
            with pytest.raises(EncodeError):
                encode_message(made(**{name: {unlawful: 1}}))
    with pytest.raises(DecodeError, match="not all of type symbol or ulong"):
        decode_message(message({"text": 1}), limits=STRICT)
    assert getattr(decode_message(message({"text": 1})), name) == {"text": 1}
    with pytest.raises(DecodeError, match="a key occurs twice"):
        decode_message(message(Map([("text", 1), (Symbol("text"), 2)])))


# ---- properties ----

IDS = [ULong(1), ULong(2**64 - 1), UUID(int=1), b"1", "1", b"", ""]


@pytest.mark.spec("M-PROPS-001")
@pytest.mark.parametrize("name", ["message_id", "correlation_id"])
def test_an_id_keeps_its_type(name: str) -> None:
    seen = set()
    for one in IDS:
        properties = amqp.Properties(**{name: one})
        again = decode_value(properties.encode())[0]
        assert same(getattr(again, name), one)
        seen.add(properties.encode())
    assert len(seen) == len(IDS)
    code = 0 if name == "message_id" else 5
    for wrong in (1, True, amqp.UInt(1), Symbol("1"), 1.0, ["1"]):
        with pytest.raises(EncodeError) as caught:
            amqp.Properties(**{name: wrong}).encode()
        assert (caught.value.type, caught.value.field) == ("properties", name.replace("_", "-"))
        with pytest.raises(DecodeError, match="does not provide message-id"):
            decode_value(section(0x73, [None] * code + [wrong]))


@pytest.mark.spec("M-PROPS-007")
@pytest.mark.parametrize("text", ['text/plain; charset="utf-8"', "application/json;a=b;c=d", "x/y"])
def test_a_content_type_keeps_its_parameters(text: str) -> None:
    again = decode_value(amqp.Properties(content_type=text).encode())[0]
    assert same(again.content_type, Symbol(text))


@pytest.mark.spec("M-PROPS-008")
def test_an_unknown_content_type_stays_unset() -> None:
    octets = encode_message(Message(properties=amqp.Properties(to="q"), body=[Data(b"?")]))
    properties = decode_message(octets).properties
    assert properties is not None
    assert properties.content_type is None
    assert codes(octets) == [0x73, 0x75]
    assert octets.startswith(section(0x73, [None, None, "q"]))


@pytest.mark.spec("M-PROPS-012")
def test_content_encoding_is_for_data_only() -> None:
    properties = amqp.Properties(content_encoding="gzip")
    encode_message(Message(properties=properties, body=[Data(b"x")]))
    for body in (AmqpValue(b"x"), [AmqpSequence([b"x"])]):
        with pytest.raises(EncodeError) as caught:
            encode_message(Message(properties=properties, body=body))
        assert (caught.value.type, caught.value.field) == ("properties", "content-encoding")


@pytest.mark.spec("M-PROPS-013")
@pytest.mark.parametrize("text", ["identity", "Identity"])
def test_identity_is_never_sent(text: str) -> None:
    properties = amqp.Properties(content_encoding=text)
    with pytest.raises(EncodeError, match="left out rather than identity"):
        encode_message(Message(properties=properties, body=[Data(b"x")]))
    received = decode_message(properties.encode() + section(0x75, b"x"))
    assert received.properties == properties


@pytest.mark.spec("M-PROPS-020")
def test_keys_of_application_properties_are_strings() -> None:
    lawful = {"a": 1, "": 2, "é": 3}
    octets = encode_message(Message(application_properties=lawful, body=AmqpValue(None)))
    assert octets == section(0x74, lawful) + BODY
    assert decode_message(octets, limits=STRICT).application_properties == lawful
    for unlawful in (None, Symbol("a"), 1, amqp.UInt(1), ULong(1), True, b"a", amqp.Char("a")):
        with pytest.raises(DecodeError, match="not all of type string"):
            decode_message(section(0x74, Map([("a", 1), (unlawful, 1)])) + BODY)
        with pytest.raises(EncodeError):
            encode_message(made(application_properties={unlawful: 1}))


COMPOUND = [
    [],
    [1],
    {},
    {"k": 1},
    Array([], "int"),
    Array([1], "long"),
    Described(Symbol("a:b"), 1),
    amqp.Accepted(),
]


@pytest.mark.spec("M-PROPS-021")
@pytest.mark.parametrize("value", COMPOUND, ids=repr)
def test_application_properties_hold_no_compound_values(value: object) -> None:
    message = Message(application_properties={"k": value}, body=AmqpValue(None))
    with pytest.raises(EncodeError, match="holds simple types only"):
        encode_message(message)
    for one in (section(0x74, {"k": value}), section(0x74, {"k": value, "long": "x" * 300})):
        with pytest.raises(DecodeError, match="holds simple types only"):
            decode_message(one + BODY)


SIMPLE_VALUES = [
    *(
        None,
        True,
        amqp.UByte(1),
        amqp.UShort(1),
        amqp.UInt(1),
        ULong(1),
        amqp.Byte(1),
        amqp.Short(1),
        amqp.Int(1),
        1,
    ),
    *(amqp.Float(1.5), 1.5, amqp.Decimal32(1), amqp.Decimal64(1), amqp.types.Decimal(1), amqp.Char("c")),
    *(amqp.Timestamp(1), UUID(int=1), b"b", "s", Symbol("s")),
]


@pytest.mark.spec("M-PROPS-021")
def test_application_properties_hold_every_simple_type() -> None:
    assert len(SIMPLE_VALUES) == len(SIMPLE)
    entries = {str(at): value for at, value in enumerate(SIMPLE_VALUES)}
    octets = encode_message(Message(application_properties=entries, body=AmqpValue(None)))
    assert same(decode_message(octets, limits=STRICT).application_properties, entries)


# ---- the body ----


@pytest.mark.spec("M-BODY-001")
def test_the_boundaries_of_sections_are_kept() -> None:
    for body in (
        [Data(b"a"), Data(b""), Data(b"bc")],
        [AmqpSequence([1]), AmqpSequence([]), AmqpSequence([2, 3])],
    ):
        octets = encode_message(Message(body=body))
        message = decode_message(octets)
        assert message.body == body
        assert encode_message(message) == octets
        message.bare = None
        assert encode_message(message) == octets


BODIES = {"data": section(0x75, b""), "amqp-sequence": section(0x76, []), "amqp-value": BODY}


@pytest.mark.spec("M-BODY-002")
def test_the_body_is_of_one_kind_and_only_a_value_stands_alone() -> None:
    for first in BODIES:
        for second in BODIES:
            octets = BODIES[first] + BODIES[second]
            if first == second != "amqp-value":
                assert len(codes(encode_message(decode_message(octets, limits=STRICT)))) == 2
                continue
            for limits in (Limits(), STRICT):
                with pytest.raises(DecodeError, match=r"mixes kinds|repeated|out of order"):
                    decode_message(octets, limits=limits)
    wrong: list[Any] = [[Data(b""), AmqpSequence([])], [AmqpValue(1)], [], [1], Data(b""), "text"]
    for body in wrong:
        with pytest.raises(EncodeError):
            encode_message(Message(body=body))


@pytest.mark.spec("M-BODY-003")
@pytest.mark.parametrize("octets", [b"", bytes(range(256)), bytes(70_000), b"\x00\x53\x77\x40", b"\xff"])
def test_data_is_handed_over_without_interpretation(octets: bytes) -> None:
    message = decode_message(encode_message(Message(body=[Data(octets)])))
    assert message.body == [Data(octets)]


@pytest.mark.spec("M-BODY-004")
@pytest.mark.parametrize("size", [0, 1, 300])
def test_a_sequence_holds_elements_of_any_types(size: int) -> None:
    kinds = [
        None,
        1,
        "s",
        b"b",
        [[], [1]],
        {"k": [1]},
        Array([1], "long"),
        Described(ULong(2**40), 1),
        amqp.Accepted(),
    ]
    elements = [kinds[at % len(kinds)] for at in range(size)]
    message = decode_message(encode_message(Message(body=[AmqpSequence(elements)])))
    assert isinstance(message.body, list)
    assert same(message.body[0].value, elements)


@pytest.mark.spec("M-BODY-004")
@pytest.mark.parametrize("value", [None, "text", {}, Array([1], "long")])
def test_a_sequence_is_a_list(value: Any) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_message(section(0x76, value))
    assert caught.value.type == "amqp-sequence"
    with pytest.raises(EncodeError):
        encode_message(Message(body=[AmqpSequence(value)]))


@pytest.mark.spec("M-BODY-005")
@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"k": 1},
        Map([(1, 2), (amqp.UInt(1), 3)]),
        Described(Symbol("a:b"), [1]),
        [1],
        amqp.Released(),
    ],
)
def test_a_value_body_wraps_one_value_of_any_type(value: object) -> None:
    octets = encode_message(Message(body=AmqpValue(value)))
    body = decode_message(octets, limits=STRICT).body
    assert isinstance(body, AmqpValue)
    assert same(body.value, value)
    with pytest.raises(DecodeError):
        decode_message(octets + encode_value(value))


def test_what_is_no_section_is_refused() -> None:
    with pytest.raises(EncodeError, match="is not a Header"):
        encode_message(Message(header=amqp.Properties(), body=AmqpValue(1)))
    with pytest.raises(EncodeError):
        encode_message(made(message_annotations=1))


def test_fields_of_a_header_that_are_not_there_have_their_defaults() -> None:
    header = decode_message(HEADER + BODY).header
    assert header is not None
    assert header == amqp.Header()
    assert (header.durable, header.priority, header.ttl) == (False, 4, None)
    assert (header.first_acquirer, header.delivery_count) == (False, 0)
    assert decode_message(BODY).header is None


def test_a_relayed_message_keeps_its_octets_under_limits_of_its_own() -> None:
    value = b"\x40"
    for _ in range(80):
        value = b"\xd0" + (len(value) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + value
    octets = b"\x00\x53\x77" + value
    assert encode_message(decode_message(octets, limits=Limits(depth=100))) == octets
