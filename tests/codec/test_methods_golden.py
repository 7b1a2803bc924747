"""Methods octet by octet, written by hand from the documents: what a round trip cannot show."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.codec.method_objects import preview, v091

#: AMQP 0-9-1: class and method in two octets each, then the arguments in the order of the definitions.
GOLDEN_091: list[tuple[Any, str]] = [
    (
        v091.ConnectionStart(
            version_major=0,
            version_minor=9,
            server_properties={"product": "x", "up": True},
            mechanisms=b"PLAIN",
            locales=b"en_US",
        ),
        "000a 000a"  # connection, start
        "00 09"  # version: two octets
        "00000013"  # a table of 19 octets:
        "07 70726f64756374 53 00000001 78"  # "product", S, a text of one octet
        "02 7570 74 01"  # "up", t, true
        "00000005 504c41494e"  # long strings: a size of four octets, then PLAIN and en_US
        "00000005 656e5f5553",
    ),
    (
        v091.ConnectionTune(channel_max=2047, frame_max=131072, heartbeat=60),
        "000a 001e 07ff 00020000 003c",  # short, long, short: nothing is aligned
    ),
    (
        v091.QueueDeclare(queue="q", durable=True, auto_delete=True),
        "0032 000a"
        "0000"  # the ticket nobody uses any more
        "01 71"  # a short string: a size of one octet, then the text
        "0a"  # passive 1, durable 2, exclusive 4, auto-delete 8, nowait 16: from the lowest bit
        "00000000",  # a table without entries
    ),
    (
        v091.QueueDeclare(queue="", passive=True, exclusive=True, nowait=True),
        "0032 000a 0000 00 15 00000000",
    ),
    (
        v091.BasicPublish(exchange="amq.topic", routing_key="a.b", mandatory=True),
        "003c 0028 0000 09 616d712e746f706963 03 612e62 01",
    ),
    (v091.BasicPublish(immediate=True), "003c 0028 0000 00 00 02"),
    (
        v091.BasicDeliver(consumer_tag="c", delivery_tag=17, redelivered=True, exchange="", routing_key="é"),
        "003c 003c 01 63"
        "0000000000000011"  # a number of eight octets at offset 6
        "01"  # a lone bit takes an octet
        "00 02 c3a9",  # the size counts octets, not characters
    ),
    (v091.BasicAck(delivery_tag=(1 << 64) - 1, multiple=True), "003c 0050 ffffffffffffffff 01"),
    (v091.BasicNack(delivery_tag=1, multiple=False, requeue=True), "003c 0078 0000000000000001 02"),
    (
        v091.BasicReturn(reply_code=312, reply_text="NO_ROUTE", exchange="e", routing_key="k"),
        "003c 0032 0138 08 4e4f5f524f555445 01 65 01 6b",
    ),
    (v091.TxSelect(), "005a 000a"),
    (
        v091.ConnectionSecureOk(response=b"\x00guest\xff"),
        "000a 0015 00000007 00 6775657374 ff",
    ),
]

#: The preview: an execution header in front of the arguments of some classes, structs, serial numbers, sets.
GOLDEN_PREVIEW: list[tuple[Any, str]] = [
    (
        preview.MessageTransfer(
            execution_header=preview.ExecutionHeader(sync=True),
            ticket=1,
            destination="d",
            confirm_mode=1,
            acquire_mode=0,
        ),
        "0078 000a"  # message, transfer
        "01 01"  # a struct whose size is one octet, and counts one octet of flags: sync
        "0001 01 64 01 00",
    ),
    (
        preview.MessageTransfer(ticket=2, destination="", confirm_mode=0, acquire_mode=1),
        "0078 000a 01 00 0002 00 00 01",  # without a word of it, nothing is asked for in the header
    ),
    (
        preview.SessionAck(cumulative_seen_mark=5, seen_frame_set=((7, 9), (12, 12))),
        "0014 006e"
        "00000005"  # a serial number
        "0010"  # a set of 16 octets: pairs of numbers, each with its first and last
        "00000007 00000009 0000000c 0000000c",
    ),
    (
        preview.ExecutionResult(
            command_id=3,
            data=preview.QueueQueryResult(
                queue="q",
                alternate_exchange="x",
                durable=True,
                exclusive=False,
                auto_delete=True,
                arguments={},
                message_count=1,
                consumer_count=2,
            ),
        ),
        "008c 0028"
        "00000003"
        "00000013"  # a struct of any kind: its size in four octets counts the code
        "323d"  # the code: class 50, struct 61
        "01 71 01 78"  # laid out like arguments: the fields in their order
        "05"  # durable 1, exclusive 2, auto-delete 4
        "00000000 00000001 00000002",
    ),
    (
        preview.SessionAttached(
            session_id=UUID("00112233-4455-6677-8899-aabbccddeeff"), detached_lifetime=60
        ),
        "0014 000b 00112233445566778899aabbccddeeff 0000003c",
    ),
]


@pytest.mark.spec("A-FRAME-001", "A-FRAME-003", "A-FRAME-010")
@pytest.mark.parametrize(("method", "octets"), GOLDEN_091, ids=lambda value: getattr(value, "XML_NAME", ""))
def test_0_9_1(method: Any, octets: str) -> None:
    assert method.encode().hex(" ") == bytes.fromhex(octets).hex(" ")
    assert v091.decode_method(bytes.fromhex(octets)) == method


@pytest.mark.parametrize(
    ("method", "octets"), GOLDEN_PREVIEW, ids=lambda value: getattr(value, "XML_NAME", "")
)
def test_the_preview(method: Any, octets: str) -> None:
    assert method.encode().hex(" ") == bytes.fromhex(octets).hex(" ")
    assert preview.decode_method(bytes.fromhex(octets)) == method


def test_bits_that_no_field_has_are_ignored() -> None:
    octets = bytes.fromhex("003c 0028 0000 00 00 ff")
    assert v091.decode_method(octets) == v091.BasicPublish(mandatory=True, immediate=True)


def test_a_short_string_holds_255_octets() -> None:
    longest = v091.BasicCancel(consumer_tag="é" * 127 + "x")
    assert longest.encode()[4:6] == b"\xff\xc3"
    assert v091.decode_method(longest.encode()) == longest
    with pytest.raises(v091.EncodeError, match=r"basic\.cancel\.consumer-tag") as caught:
        v091.BasicCancel(consumer_tag="é" * 128).encode()
    assert caught.value.field == "consumer-tag"


@pytest.mark.spec("A-FRAME-001", "A-FRAME-003")
@pytest.mark.parametrize(
    ("bits", "name"), [(8, "priority"), (16, "ticket"), (32, "prefetch_size"), (64, "delivery_tag")]
)
def test_whole_numbers_are_unsigned_and_wherever_they_are(bits: int, name: str) -> None:
    """Behind a long string of every octet, or a short string, at odd offsets."""
    kind = {8: v091.BasicProperties, 16: v091.QueuePurge, 32: v091.BasicQos, 64: v091.BasicDeliver}[bits]
    others: dict[str, Any] = {"consumer_tag": "odd", "exchange": "", "routing_key": ""} if bits == 64 else {}
    for number in (0, 1, (1 << bits) - 1):
        made = kind(**others, **{name: number})
        if bits == 8:
            header = v091.ContentHeader(made, 0)
            assert v091.decode_content_header(header.encode()).properties.priority == number
        else:
            assert getattr(v091.decode_method(made.encode()), name) == number
    for number in (-1, 1 << bits):
        with pytest.raises(v091.EncodeError) as caught:
            kind(**others, **{name: number}).encode()
        assert caught.value.field == name.replace("_", "-")


@pytest.mark.spec("A-FRAME-003")
def test_a_long_string_holds_a_mebibyte_of_any_octets() -> None:
    every_octet = bytes(range(256)) * 4096
    method = v091.ConnectionSecure(challenge=every_octet)
    assert method.encode()[4:8] == (1 << 20).to_bytes(4, "big")
    assert v091.decode_method(method.encode()).challenge == every_octet
