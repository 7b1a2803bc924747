"""What a selector sees of an AMQP 1.0 message."""

from __future__ import annotations

from uuid import UUID

import pytest

from amqpforge.broker.selector import Selector, facts_of
from amqpforge_protocol.amqp_1_0 import (
    AmqpValue,
    Data,
    Described,
    Header,
    Message,
    Milliseconds,
    Properties,
    SequenceNo,
    Symbol,
    Timestamp,
    ULong,
    decode_message,
    encode_message,
)

FULL = Message(
    header=Header(durable=True, priority=9, ttl=Milliseconds(60_000), first_acquirer=True, delivery_count=2),
    message_annotations={
        Symbol("x-opt-rank"): 3,
        Symbol("x-both"): "annotation",
        Symbol("x-hidden"): "annotation",
        Symbol("other"): 1,
    },
    properties=Properties(
        message_id="m-1",
        user_id=b"ann",
        to="/queues/q",
        subject="order",
        reply_to="/queues/r",
        correlation_id=ULong(7),
        content_type=Symbol("text/plain"),
        content_encoding=Symbol("gzip"),
        absolute_expiry_time=Timestamp(2_000),
        creation_time=Timestamp(1_000),
        group_id="g",
        group_sequence=SequenceNo(5),
        reply_to_group_id="h",
    ),
    application_properties={
        "region": "eu",
        "x-both": "property",
        "x-hidden": None,
        "JMSPriority": 1,
        "amqp.subject": "mine",
        "amqp.own": "mine",
        "subject": "mine",
    },
    body=[Data(b"x")],
)
EMPTY = Message(body=AmqpValue("x"))

SEEN = {
    "region": "eu",
    "JMSCorrelationID": "7",
    "JMSDeliveryMode": "PERSISTENT",
    "JMSDestination": "/queues/q",
    "JMSExpiration": 2_000,
    "JMSMessageID": "m-1",
    "JMSPriority": 9,
    "JMSRedelivered": True,
    "JMSReplyTo": "/queues/r",
    "JMSTimestamp": 1_000,
    "JMSType": "order",
    "JMSXDeliveryCount": 3,
    "JMSXGroupID": "g",
    "JMSXGroupSeq": 5,
    "JMSXUserID": "ann",
    "amqp.durable": True,
    "amqp.priority": 9,
    "amqp.ttl": 60_000,
    "amqp.first_acquirer": True,
    "amqp.first-acquirer": True,
    "amqp.delivery_count": 2,
    "amqp.delivery-count": 2,
    "amqp.delivery_mode": "PERSISTENT",
    "amqp.redelivered": True,
    "amqp.message_id": "m-1",
    "amqp.message-id": "m-1",
    "amqp.user_id": "ann",
    "amqp.to": "/queues/q",
    "amqp.subject": "order",
    "amqp.jms_type": "order",
    "amqp.reply_to": "/queues/r",
    "amqp.correlation_id": "7",
    "amqp.content_type": "text/plain",
    "amqp.content_encoding": "gzip",
    "amqp.absolute_expiry_time": 2_000,
    "amqp.creation_time": 1_000,
    "amqp.group_id": "g",
    "amqp.group_sequence": 5,
    "amqp.reply_to_group_id": "h",
    "amqp.own": "mine",
    "subject": "mine",
    "x-opt-rank": 3,
    "x-both": "property",
    "x-hidden": None,
    "other": None,
    "Region": None,
    "jmspriority": None,
}
OF_AN_EMPTY_ONE = {
    "JMSDeliveryMode": "NON_PERSISTENT",
    "JMSPriority": 4,
    "JMSRedelivered": False,
    "JMSXDeliveryCount": 1,
    "amqp.durable": False,
    "amqp.priority": 4,
    "amqp.first_acquirer": False,
    "amqp.first-acquirer": False,
    "amqp.delivery_count": 0,
    "amqp.delivery-count": 0,
    "amqp.delivery_mode": "NON_PERSISTENT",
    "amqp.redelivered": False,
}


@pytest.mark.parametrize(("name", "value"), SEEN.items())
def test_a_name_stands_for_a_value_of_the_message(name: str, value: object) -> None:
    received = decode_message(encode_message(FULL))
    assert facts_of(FULL)(name) == value
    assert facts_of(received)(name) == value
    assert facts_of(EMPTY)(name) == OF_AN_EMPTY_ONE.get(name)


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("id", "id"),
        (ULong(18), "18"),
        (UUID(int=255), "00000000-0000-0000-0000-0000000000ff"),
        (b"octets", "octets"),
        (b"\xff\x00", "ff00"),
        (Described(Symbol("x:id"), "id"), None),
        (None, None),
    ],
)
def test_an_id_is_seen_as_text(
    given: str | bytes | ULong | UUID | Described | None, seen: str | None
) -> None:
    message = Message(properties=Properties(message_id=given, correlation_id=given), body=AmqpValue("x"))
    facts = facts_of(message)
    assert facts("JMSMessageID") == facts("amqp.message_id") == seen
    assert facts("JMSCorrelationID") == facts("amqp.correlation_id") == seen


def test_without_a_subject_the_type_comes_from_the_annotation() -> None:
    annotated = Message(message_annotations={Symbol("x-opt-jms-type"): "order"}, body=AmqpValue("x"))
    assert facts_of(annotated)("JMSType") == "order"
    annotated.properties = Properties(subject="s")
    assert facts_of(annotated)("JMSType") == "s"
    annotated.properties = Properties(group_id="g")
    assert facts_of(annotated)("JMSType") == "order"


def test_facts_are_those_of_the_message_as_it_is_now() -> None:
    message = Message(message_annotations={Symbol("x-state"): "new"}, body=AmqpValue("x"))
    selector = Selector("\"x-state\" = 'new' AND JMSXDeliveryCount = 1")
    facts = facts_of(message)
    assert [selector.admits(facts) for _ in range(3)] == [True] * 3
    message.message_annotations[Symbol("x-state")] = "old"
    assert not selector.admits(facts)


def test_a_selector_judges_a_received_message() -> None:
    facts = facts_of(decode_message(encode_message(FULL)))
    for text in (
        "region = 'eu' AND JMSPriority > 4 AND amqp.subject LIKE 'ord%'",
        "JMSTimestamp + 1000 = JMSExpiration",
        "JMSXUserID = 'ann' AND JMSXGroupSeq BETWEEN 1 AND 5",
        "\"x-opt-rank\" IN (1, 2, 3) AND JMSDeliveryMode = 'PERSISTENT'",
        "amqp.durable AND JMSRedelivered AND absent IS NULL",
    ):
        assert Selector(text).admits(facts), text
        assert not Selector(f"NOT ({text})").admits(facts), text
