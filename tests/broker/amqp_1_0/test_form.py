"""What the broker reads of a message that comes, and writes of one that goes."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from amqpforge.broker.amqp_1_0.form import FORM, arrive, dead_letter, depart, merged, opened
from amqpforge.broker.selector import Selector
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import (
    AmqpValue,
    DecodeError,
    Described,
    Symbol,
    ULong,
    decode_message,
    encode_value,
)

NOW = 1_000_000.0
KEY: Any = Symbol("x-opt-a")


def octets(body: Any = "m", **fields: Any) -> bytes:
    return Message(body, **fields).encode()


def test_what_came_is_kept_and_goes_out_as_it_was() -> None:
    whole = octets(
        durable=True,
        priority=9,
        message_id="m-1",
        annotations={"x-opt-b": 1},
        application_properties={"a": 1},
    )
    arrival = arrive(whole)
    assert (arrival.payload, arrival.durable, arrival.priority, arrival.ttl) == (whole, True, 9, None)
    assert depart(whole) == whole


@pytest.mark.spec("M-HEADER-001")
def test_without_a_header_a_message_has_the_standard_values() -> None:
    arrival = arrive(octets())
    assert (arrival.durable, arrival.priority, arrival.expires_at(NOW)) == (False, 4, None)


@pytest.mark.spec("M-ANNOT-002")
def test_delivery_annotations_go_no_further() -> None:
    with_them = octets(durable=True, delivery_annotations={"x-opt-d": 1}, message_id="m", to="q")
    arrival = arrive(with_them)
    assert arrival.payload == octets(durable=True, message_id="m", to="q")
    assert (arrival.message_id, arrival.to) == (b"sm", "q")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", ULong(1)),
        ("abc", b"abc"),
        (UUID(int=1), (1).to_bytes(16, "big")),
        (ULong(1), ULong(256)),
        ("a", "b"),
    ],
)
def test_message_ids_of_different_types_are_told_apart(one: Any, other: Any) -> None:
    assert arrive(octets(message_id=one)).message_id != arrive(octets(message_id=other)).message_id


def test_the_same_message_id_in_a_longer_form_is_the_same() -> None:
    long = "i" * 300
    assert arrive(octets(message_id=long)).message_id == b"s" + long.encode()
    short = b"\x00\x53\x73\xc0\x03\x01\x53\x07\x00\x53\x77\x40"
    full = b"\x00\x53\x73\xc0\x0a\x01\x80\x00\x00\x00\x00\x00\x00\x00\x07\x00\x53\x77\x40"
    assert arrive(short).message_id == arrive(full).message_id
    assert arrive(octets(to="q")).message_id is None


@pytest.mark.spec("M-HEADER-013", "M-PROPS-016")
def test_the_earlier_of_ttl_and_absolute_expiry_time_counts() -> None:
    end = datetime.fromtimestamp(NOW + 5, UTC)
    assert arrive(octets(ttl=2)).expires_at(NOW) == NOW + 2
    assert arrive(octets(absolute_expiry_time=end)).expires_at(NOW) == NOW + 5
    assert arrive(octets(ttl=2, absolute_expiry_time=end)).expires_at(NOW) == NOW + 2
    assert arrive(octets(ttl=9, absolute_expiry_time=end)).expires_at(NOW) == NOW + 5
    assert arrive(octets(subject="s")).expires_at(NOW) is None


@pytest.mark.spec("M-HEADER-015", "M-HEADER-013")
def test_only_a_ttl_that_was_set_is_cut_to_the_life_that_is_left() -> None:
    left = decode_message(depart(octets(ttl=1), life=0.7)).header
    assert left is not None
    assert left.ttl == 700
    gone = decode_message(depart(octets(ttl=1), life=-3.0)).header
    assert gone is not None
    assert gone.ttl == 0
    longer = decode_message(depart(octets(ttl=1), life=5.0)).header
    assert longer is not None
    assert longer.ttl == 1000
    assert depart(octets(), life=0.7) == octets()
    unset = decode_message(depart(octets(priority=5), life=0.7)).header
    assert unset is not None
    assert unset.ttl is None


def test_the_header_tells_of_failures_and_of_earlier_acquisition() -> None:
    changed = Message.from_octets(depart(octets(first_acquirer=True, delivery_count=2), failures=3))
    assert (changed.delivery_count, changed.first_acquirer) == (5, True)
    later = Message.from_octets(depart(octets(first_acquirer=True), was_acquired=True))
    assert later.first_acquirer is False
    fresh = Message.from_octets(depart(octets(), failures=1))
    assert (fresh.delivery_count, fresh.priority) == (1, 4)


@pytest.mark.spec("M-OUTCOME-025", "M-OUTCOME-026", "M-OUTCOME-027")
def test_added_annotations_are_merged_into_their_own_section() -> None:
    added = merged(merged(None, {KEY: 1}), {KEY: 2, Symbol("x-opt-c"): 3})
    known = octets({"a": [1]}, annotations={"x-opt-a": 0, "x-opt-b": "b"}, message_id="m")
    changed = decode_message(depart(known, annotations=added))
    assert changed.message_annotations == {"x-opt-a": 2, "x-opt-b": "b", "x-opt-c": 3}
    assert changed.header is None
    assert changed.bare == decode_message(known).bare
    bare = octets(message_id="m")
    fresh = depart(bare, annotations=added)
    assert decode_message(fresh).message_annotations == {"x-opt-a": 2, "x-opt-c": 3}
    assert fresh.endswith(bare)


def test_a_dead_letter_tells_where_it_died_first_and_how_often() -> None:
    once = dead_letter(octets(ttl=9), failures=2, annotations=None, queue="q", reason="rejected")
    message = Message.from_octets(once)
    assert message.delivery_count == 2
    assert dict(message.annotations) == {
        "x-opt-first-death-queue": "q",
        "x-opt-first-death-reason": "rejected",
        "x-opt-death-count": 1,
    }
    twice = Message.from_octets(
        dead_letter(once, failures=1, annotations=merged(None, {KEY: 7}), queue="r", reason="expired")
    )
    assert twice.delivery_count == 3
    assert twice.annotations["x-opt-first-death-queue"] == "q"
    assert (twice.annotations["x-opt-death-count"], twice.annotations["x-opt-a"]) == (2, 7)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (2**64 - 2, 2**64 - 1),
        (2**64 - 1, 2**64 - 1),
        (-1, 1),
        ("many", 1),
        (Decimal("sNaN"), 1),
        ([1], 1),
        (None, 1),
    ],
)
def test_a_count_of_deaths_that_a_publisher_has_made_up(before: object, after: int) -> None:
    told = ULong(before) if isinstance(before, int) and before > 0 else before
    sent = Message("m", annotations={"x-opt-death-count": told}).encode()
    dead = FORM.dead_letter(sent, 0, None, "q", "rejected")
    assert Message.from_octets(dead).annotations["x-opt-death-count"] == after


def test_a_message_in_another_format_is_kept_as_it_is() -> None:
    payload = arrive(b"anything", 0x1234).payload
    assert opened(payload) == (0x1234, b"anything")
    assert opened(octets()) == (0, octets())
    assert FORM.headers(payload) == {}
    assert FORM.facts(payload)("x") is None
    assert dead_letter(payload, failures=1, annotations=None, queue="q", reason="expired") == payload


SECTION = encode_value(Described(ULong(0x99), []))
VALUE = AmqpValue(value="m").encode()


@pytest.mark.parametrize(
    "malformed",
    [
        b"hello",
        VALUE[:-1],
        VALUE + VALUE,
        VALUE + octets(durable=True),
        SECTION + VALUE,
        b"\x00\x53\x70\xc0\x02\x01\x57" + VALUE,
        b"\x00\x53\x72\xc1\x03\x02\x40\x40" + VALUE,
        b"\x00\x53\x75\xa1\x01a",
        b"\x00\x53\x77\x0f",
        b"\x00\x53",
        b"\x00",
        b"\x00\x53\x77",
    ],
)
def test_what_is_no_message_is_a_decode_error(malformed: bytes) -> None:
    with pytest.raises(DecodeError):
        arrive(malformed)


def _read(whole: bytes) -> None:
    """Read all that the broker reads, and what a receiver does."""
    arrival = arrive(whole)
    arrival.expires_at(NOW)
    decode_message(arrival.payload)


def test_any_cut_of_a_message_is_refused_or_a_message() -> None:
    whole = octets(
        {"a": [1, "b"]},
        durable=True,
        ttl=1,
        message_id="m",
        annotations={"x-opt-a": 1},
        footer={"x-opt-f": 1},
    )
    for end in range(len(whole)):
        try:
            decode_message(whole[:end])
        except DecodeError:
            with pytest.raises(DecodeError):
                _read(whole[:end])


def test_descriptors_in_their_long_forms_are_understood() -> None:
    long = b"\x00\x80" + (0x70).to_bytes(8, "big") + b"\xc0\x02\x01\x41"
    assert arrive(long + VALUE).durable is True
    symbolic = b"\x00\xa3\x11amqp:amqp-value:*" + VALUE[3:]
    assert arrive(long + symbolic).payload == long + symbolic


def test_selectors_and_headers_exchanges_see_what_they_ask_for() -> None:
    payload = octets(application_properties={"region": "eu", "n": 2}, priority=7)
    assert Selector("region = 'eu' AND n > 1 AND JMSPriority = 7").admits(FORM.facts(payload))
    assert dict(FORM.headers(payload)) == {"region": "eu", "n": 2}
    assert FORM.headers(b"\x00\x53") == {}
    assert FORM.facts(b"\x00\x53")("JMSPriority") is None
