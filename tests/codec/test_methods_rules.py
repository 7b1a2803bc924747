"""What the tables say of methods: who sends them, what answers them, which carry contents."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.codec.method_objects import DIALECTS, dialect_name, every, method_classes, name_of, preview, v091

METHODS = every(method_classes)


@pytest.mark.parametrize("dialect", DIALECTS, ids=dialect_name)
def test_all_tables_know_the_same_methods(dialect: Any) -> None:
    numbers = {kind.CLASS_ID << 16 | kind.METHOD_ID for kind in dialect.RULES}
    assert numbers == set(dialect.METHODS)
    assert len(numbers) == len(dialect.RULES)
    exported = {name for name in dialect.__all__ if hasattr(getattr(dialect, name), "METHOD_ID")}
    assert exported == {kind.__name__ for kind in dialect.RULES}


@pytest.mark.spec("A-CLASS-006")
@pytest.mark.parametrize(("dialect", "kind"), METHODS, ids=name_of)
def test_every_method_has_a_kind_and_a_sender(dialect: Any, kind: Any) -> None:
    rule = dialect.RULES[kind]
    assert rule.kind in ("request", "reply", "asynchronous")
    assert rule.sent_by
    assert set(rule.sent_by) <= {"client", "server"}
    assert (rule.kind == "reply") == bool(rule.requests)
    assert rule.kind != "asynchronous" or not (rule.responses or rule.is_synchronous)
    assert rule.sent_by == kind.SENT_BY
    assert (rule.is_synchronous, rule.has_content) == (kind.IS_SYNCHRONOUS, kind.HAS_CONTENT)
    assert tuple(response.XML_NAME for response in rule.responses) == kind.RESPONSES


@pytest.mark.parametrize(("dialect", "kind"), METHODS, ids=name_of)
def test_a_reply_comes_from_the_other_side(dialect: Any, kind: Any) -> None:
    for response in dialect.RULES[kind].responses:
        assert kind in dialect.RULES[response].requests
        other = {"client": "server", "server": "client"}
        assert {other[side] for side in kind.SENT_BY} & set(response.SENT_BY)


@pytest.mark.spec("A-CLASS-004")
def test_no_two_requests_share_a_reply() -> None:
    answered = Counter(response for rule in v091.RULES.values() for response in rule.responses)
    assert set(answered.values()) == {1}
    assert all(rule.requests == () or len(rule.requests) == 1 for rule in v091.RULES.values())


def test_the_preview_shares_one_reply() -> None:
    """The document itself has two requests for a session answered alike."""
    answered = Counter(response for rule in preview.RULES.values() for response in rule.responses)
    assert [kind.XML_NAME for kind, count in answered.items() if count > 1] == ["session.attached"]
    assert preview.RULES[preview.SessionAttached].requests == (preview.SessionOpen, preview.SessionResume)


def test_what_the_tables_say_of_some_methods() -> None:
    get = v091.RULES[v091.BasicGet]
    assert (get.kind, get.sent_by, get.is_synchronous) == ("request", ("client",), True)
    assert get.responses == (v091.BasicGetOk, v091.BasicGetEmpty)
    assert v091.RULES[v091.BasicGetOk] == v091.MethodRule(
        "reply", ("server",), (), (v091.BasicGet,), v091.BasicGetOk.IS_SYNCHRONOUS, True
    )
    assert v091.RULES[v091.BasicPublish].kind == "asynchronous"
    assert v091.RULES[v091.ChannelClose].sent_by == ("client", "server")
    assert v091.RULES[v091.BasicAck].sent_by == ("client", "server")  # brokers confirm publications with it


def test_which_methods_carry_contents() -> None:
    def names(dialect: Any) -> set[str]:
        return {kind.XML_NAME for kind, rule in dialect.RULES.items() if rule.has_content}

    assert names(v091) == {"basic.publish", "basic.return", "basic.deliver", "basic.get-ok"}
    assert names(preview) == {
        *("basic.publish", "basic.deliver", "basic.get-ok", "file.stage", "file.return"),
        *("stream.publish", "stream.return", "stream.deliver", "tunnel.request", "message.transfer"),
    }


@pytest.mark.spec("A-CONTENT-014")
def test_stream_content_is_neither_acknowledged_nor_fetched() -> None:
    names = {kind.XML_NAME for kind in preview.RULES if kind.XML_NAME.startswith("stream.")}
    assert names >= {f"stream.{name}" for name in ("publish", "consume", "cancel", "deliver", "return")}
    assert not any(word in name for name in names for word in ("ack", "reject", "get"))


@pytest.mark.parametrize("dialect", DIALECTS, ids=dialect_name)
def test_an_unknown_method_is_told_from_an_unknown_class(dialect: Any) -> None:
    with pytest.raises(dialect.DecodeError, match="there is no class 65535") as caught:
        dialect.decode_method(b"\xff\xff\x00\x0a")
    assert caught.value.offset == 0
    with pytest.raises(dialect.DecodeError, match="class 10 has no method 99") as caught:
        dialect.decode_method(b"..\x00\x0a\x00\x63", 2)
    assert caught.value.offset == 4


def test_reply_codes_are_soft_or_hard() -> None:
    codes = v091.ReplyCode
    assert (codes.NOT_FOUND.is_soft, codes.NOT_FOUND.is_hard) == (True, False)
    assert (codes.UNEXPECTED_FRAME.is_soft, codes.UNEXPECTED_FRAME.is_hard) == (False, True)
    assert (codes.REPLY_SUCCESS.is_soft, codes.REPLY_SUCCESS.is_hard) == (False, False)
