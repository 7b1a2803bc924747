"""Values that a field cannot hold, and what the definitions assert: refused by method, field and rule."""

from __future__ import annotations

from typing import Any

import pytest

from tests.codec.method_objects import example_of, preview, v091


def refused(method: Any) -> tuple[str | None, str | None, str]:
    """Where and why a method cannot be encoded."""
    dialect = preview if type(method) in preview.RULES else v091
    with pytest.raises(dialect.EncodeError) as caught:
        method.encode()
    return caught.value.type, caught.value.field, caught.value.reason


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ticket", "1"),
        ("ticket", 65536),
        ("ticket", None),
        ("queue", None),
        ("queue", b"octets"),
        ("queue", "x" * 256),
        ("queue", "\ud800"),
        ("passive", "no"),
        ("durable", 2),
        ("nowait", None),
        ("arguments", None),
        ("arguments", [1]),
        ("arguments", {"key": object()}),
        ("arguments", {1: "number"}),
    ],
)
def test_the_method_and_the_field_are_named(field: str, value: Any) -> None:
    method = v091.QueueDeclare(**{field: value})
    assert refused(method)[:2] == ("queue.declare", field)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (v091.ConnectionSecure, "challenge", "text"),
        (v091.ConnectionSecure, "challenge", 5),
        (v091.BasicDeliver, "delivery_tag", 1.5),
        (v091.BasicDeliver, "delivery_tag", -1),
        (v091.BasicDeliver, "redelivered", "yes"),
        (v091.ConnectionTune, "frame_max", 1 << 32),
        (v091.ConnectionTune, "heartbeat", "60"),
        (preview.SessionAttached, "session_id", "00112233"),
        (preview.SessionAck, "seen_frame_set", [(1, 2, 3)]),
        (preview.SessionAck, "seen_frame_set", [(1, -2)]),
        (preview.MessageTransfer, "execution_header", True),
        (preview.ExecutionResult, "data", {"no": "struct"}),
    ],
)
def test_a_value_of_another_type_is_refused(kind: Any, field: str, value: Any) -> None:
    dialect = preview if kind in preview.RULES else v091
    method = example_of(dialect, kind)
    setattr(method, field, value)
    type_, named, _ = refused(method)
    assert (type_, named) == (kind.XML_NAME, field.replace("_", "-"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("content_type", b"octets"),
        ("headers", "text"),
        ("priority", 256),
        ("timestamp", -1),
        ("app_id", "x" * 256),
    ],
)
def test_a_property_of_another_type_is_refused(field: str, value: Any) -> None:
    properties = v091.BasicProperties(**{"content_type": "text/plain", field: value})
    with pytest.raises(v091.EncodeError) as caught:
        properties.encode()
    assert (caught.value.type, caught.value.field) == ("basic.properties", field.replace("_", "-"))


def test_long_strings_take_anything_that_holds_octets() -> None:
    expected = v091.ConnectionSecure(challenge=b"octets").encode()
    for octets in (bytearray(b"octets"), memoryview(b"octets")):
        assert v091.ConnectionSecure(challenge=octets).encode() == expected


def test_what_has_no_default_has_to_be_given() -> None:
    with pytest.raises(TypeError, match="exchange"):
        v091.ExchangeDeclare()
    with pytest.raises(TypeError, match="positional"):
        v091.ConnectionSecure(b"challenge")


def test_defaults_are_those_of_the_definitions() -> None:
    assert v091.ExchangeDeclare(exchange="e").type == "direct"
    assert v091.BasicReject(delivery_tag=1).requeue is True
    assert v091.ConnectionOpen().virtual_host == "/"
    assert v091.ConnectionStart().mechanisms == b"PLAIN"
    assert preview.MessageTransfer(
        ticket=1, destination="", confirm_mode=0, acquire_mode=0
    ).execution_header == preview.ExecutionHeader(sync=False)


def test_no_two_methods_share_what_they_hold() -> None:
    first, second = v091.QueueDeclare(), v091.QueueDeclare()
    first.arguments["x-max-length"] = 5
    assert second.arguments == {}
    asking, silent = preview.TxSelect(), preview.TxSelect()
    asking.execution_header.sync = True
    assert silent.execution_header.sync is False


# ---- assertions ----


def broken(kind: Any, **values: Any) -> tuple[Any, bytes]:
    """A method of the preview with values that its definition forbids, and the octets it would have."""
    whole = example_of(preview, kind)
    octets = whole.encode()
    for name, value in values.items():
        before = getattr(whole, name)
        setattr(whole, name, value)
        octets = octets.replace(_plain(before), _plain(value), 1)
    return whole, octets


def _plain(value: Any) -> bytes:
    """A short string or a short number as it travels."""
    if isinstance(value, int):
        return value.to_bytes(2, "big")
    octets = value if isinstance(value, bytes) else value.encode()
    return len(octets).to_bytes(4 if isinstance(value, bytes) else 1, "big") + octets


@pytest.mark.parametrize(
    ("kind", "field", "value", "rule"),
    [
        (preview.QueuePurge, "ticket", 0, "ne 0"),
        (preview.ConnectionStartOk, "mechanism", "", "notnull"),
        (preview.ConnectionOpen, "virtual_host", "/" + "a" * 127, "length 127"),
        (preview.ConnectionOpen, "virtual_host", "//", "syntax path"),
        (preview.ExchangeDeclare, "exchange", "two words", "regexp"),
        (preview.ExchangeDeclare, "exchange", "x" * 128, "regexp"),
        (preview.DtxDemarcationStart, "xid", b"", "notnull"),
    ],
)
def test_what_is_asserted_is_checked_both_ways(kind: Any, field: str, value: Any, rule: str) -> None:
    method, octets = broken(kind, **{field: value})
    type_, named, reason = refused(method)
    assert (type_, named) == (kind.XML_NAME, field.replace("_", "-"))
    assert f"breaks the rule '{rule}" in reason
    with pytest.raises(preview.DecodeError) as caught:
        preview.decode_method(octets)
    assert (caught.value.type, caught.value.field) == (kind.XML_NAME, field.replace("_", "-"))
    assert f"breaks the rule '{rule}" in caught.value.reason


@pytest.mark.spec("P-exchange.delete.exchange/exchange-name-required")
def test_an_exchange_is_not_deleted_without_a_name() -> None:
    method, octets = broken(preview.ExchangeDelete, exchange="")
    assert refused(method)[1] == "exchange"
    with pytest.raises(preview.DecodeError, match=r"exchange\.delete\.exchange: '' breaks the rule"):
        preview.decode_method(octets)
