"""Methods put together with the contents that follow them, and what must not follow what."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codec.method_objects import (
    DIALECTS,
    dialect_name,
    every,
    example_of,
    method_classes,
    name_of,
    preview,
    v091,
)

PUBLISH = v091.BasicPublish(routing_key="k")
DELIVER = v091.BasicDeliver(consumer_tag="c", delivery_tag=1, exchange="", routing_key="k")
PROPERTIES = v091.BasicProperties(content_type="text/plain")
CODES = v091.ReplyCode


def header(size: int, weight: int = 0) -> Any:
    return v091.ContentHeader(PROPERTIES, size, weight)


def feed(assembler: Any, *payloads: Any) -> list[Any]:
    """What comes out of an assembler for some payloads."""
    return [result for payload in payloads if (result := assembler.feed(payload)) is not None]


def refused(assembler: Any, payload: Any) -> Any:
    """The error for a payload; what was awaited before it is awaited behind it."""
    before = assembler.method
    with pytest.raises(v091.SequenceError) as caught:
        assembler.feed(payload)
    assert assembler.method is before
    return caught.value


# ---- what comes out ----


def test_methods_without_content_come_out_at_once() -> None:
    assembler = v091.Assembler("client")
    declare = v091.QueueDeclare(queue="q")
    assert assembler.feed(declare) == (declare, None)
    assert assembler.feed(None) is None
    assert assembler.method is None


@pytest.mark.spec("A-FRAME-014")
@pytest.mark.parametrize("pieces", [1, 7, 1000])
def test_a_body_in_any_number_of_pieces(pieces: int) -> None:
    body = bytes(range(256)) * 4096
    size = -(-len(body) // pieces)
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    assembler = v091.Assembler("client")
    assert feed(assembler, PUBLISH, header(len(body)), *parts[:-1]) == []
    assert assembler.method is PUBLISH
    assert assembler.feed(parts[-1]) == (PUBLISH, v091.Content(PROPERTIES, body))
    assert assembler.method is None


@pytest.mark.spec("A-FRAME-014")
def test_an_empty_body_in_none() -> None:
    assembler = v091.Assembler("client")
    assert feed(assembler, PUBLISH, header(0), PUBLISH, header(1), b"x") == [
        (PUBLISH, v091.Content(PROPERTIES, b"")),
        (PUBLISH, v091.Content(PROPERTIES, b"x")),
    ]


@pytest.mark.spec("A-CHAN-004")
def test_two_channels_interleaved_frame_by_frame() -> None:
    contents = {
        1: v091.Content(PROPERTIES, b"one" * 3000),
        2: v091.Content(v091.BasicProperties(), b"two" * 2000),
    }
    streams = {
        channel: v091.FrameReader().feed(v091.encode_content(PUBLISH, content, channel, max_frame_size=1000))
        for channel, content in contents.items()
    }
    mixed = [
        frames[index]
        for index in range(max(map(len, streams.values())))
        for frames in streams.values()
        if index < len(frames)
    ]
    assert len(mixed) > 10
    assemblers = {channel: v091.Assembler("client") for channel in contents}
    found: dict[int, list[Any]] = {1: [], 2: []}
    for octets in v091.FrameReader().feed(b"".join(mixed)):
        frame, _ = v091.decode_frame(octets)
        found[frame.channel] += feed(assemblers[frame.channel], frame.payload)
    assert found == {channel: [(PUBLISH, content)] for channel, content in contents.items()}


@pytest.mark.spec("A-FRAME-016")
def test_contents_inside_contents() -> None:
    """Two children, one of them with a child: each behind the body of the one it is in."""
    tree = v091.Content(
        PROPERTIES,
        b"root",
        [
            v091.Content(PROPERTIES, b"first", [v091.Content(PROPERTIES, b"")]),
            v091.Content(PROPERTIES, b"second"),
        ],
    )
    frames = v091.FrameReader().feed(v091.encode_content(PUBLISH, tree, 1))
    payloads = [v091.decode_frame(octets)[0].payload for octets in frames]
    assert payloads == [
        PUBLISH,
        *(header(4, 2), b"root"),
        *(header(5, 1), b"first"),
        header(0),
        *(header(6), b"second"),
    ]
    assert feed(v091.Assembler("client"), *payloads) == [(PUBLISH, tree)]


trees: Any = st.deferred(
    lambda: st.builds(v091.Content, st.just(PROPERTIES), st.binary(max_size=150), st.lists(trees, max_size=2))
)


@pytest.mark.spec("A-FRAME-016")
@given(trees, st.integers(70, 140))
def test_any_tree_of_contents(tree: Any, max_frame_size: int) -> None:
    assembler = v091.Assembler("server", max_depth=100)
    try:
        octets = v091.encode_content(DELIVER, tree, 3, max_frame_size=max_frame_size)
    except v091.EncodeError as error:
        assert "deeper than" in error.reason  # noqa: PT017
        return
    frames = v091.FrameReader().feed(octets)
    assert all(len(frame) <= max_frame_size for frame in frames)
    payloads = [v091.decode_frame(frame)[0].payload for frame in frames]
    assert feed(assembler, *payloads) == [(DELIVER, tree)]


@pytest.mark.spec("A-FRAME-015")
@pytest.mark.parametrize("kept", [0, 1])
def test_an_unwanted_content_is_dropped_behind_its_header(kept: int) -> None:
    assembler = v091.Assembler("server")
    pieces = [b"four", b"more", b"!"]
    assert feed(assembler, DELIVER, header(9, 1), *pieces[:kept]) == []
    assembler.discard()
    assert feed(assembler, *pieces[kept:], header(3), b"sub") == []
    assert assembler.method is None
    assert feed(assembler, DELIVER, header(2), b"ok") == [(DELIVER, v091.Content(PROPERTIES, b"ok"))]


def test_what_is_not_there_cannot_be_dropped() -> None:
    assembler = v091.Assembler("client")
    for payload in (None, PUBLISH):
        assembler.feed(payload)
        with pytest.raises(ValueError, match="the header of a content comes first"):
            assembler.discard()


def test_a_body_without_octets_breaks_the_content_off() -> None:
    assembler = v091.Assembler("server")
    (result,) = feed(assembler, DELIVER, header(9, 2), b"whole 9 !", header(5), b"part", b"")
    inner = v091.Content(PROPERTIES, b"part", [], is_complete=False)
    assert result == (DELIVER, v091.Content(PROPERTIES, b"whole 9 !", [inner], is_complete=False))
    assert feed(assembler, DELIVER, header(0)) == [(DELIVER, v091.Content(PROPERTIES))]
    with pytest.raises(v091.EncodeError, match="was broken off"):
        v091.encode_content(*result, 1)
    assembler.feed(DELIVER)
    assembler.feed(header(5))
    assembler.discard()
    assert assembler.feed(b"") is None
    assert assembler.method is None


# ---- what must not come ----


@pytest.mark.spec("A-FRAME-012", "A-CHAN-005")
def test_only_what_is_awaited_may_come() -> None:
    assembler = v091.Assembler("client")
    error = refused(assembler, b"body")
    assert error.reply_code == CODES.UNEXPECTED_FRAME
    assert "a content body came without a method that carries it" in error.reason
    assert "a content header came without a method" in refused(assembler, header(1)).reason

    assembler.feed(PUBLISH)
    wanted = "expected the header of its content, not "
    for payload, what in (
        (v091.QueueDeclare(), "queue.declare"),
        (PUBLISH, "basic.publish"),
        (b"x", "a content body"),
    ):
        error = refused(assembler, payload)
        assert (error.type, error.reason) == ("basic.publish", wanted + what)
        assert error.reply_code == CODES.UNEXPECTED_FRAME

    assembler.feed(header(4, 1))
    assembler.feed(b"bo")
    wanted = "expected 2 more octets of its content's body, not "
    for payload, what in (
        (PUBLISH, "basic.publish"),
        (header(1), "a content header"),
        (b"dy!", "a content body of 3 octets"),
    ):
        assert refused(assembler, payload).reason == wanted + what

    assembler.feed(b"dy")
    wanted = "expected the header of one of 1 more contents inside its content, not "
    for payload, what in ((PUBLISH, "basic.publish"), (b"x", "a content body")):
        assert refused(assembler, payload).reason == wanted + what
    child = v091.Content(PROPERTIES, b"")
    assert assembler.feed(header(0)) == (PUBLISH, v091.Content(PROPERTIES, b"body", [child]))


@pytest.mark.spec("A-FRAME-012")
def test_other_methods_are_never_followed_by_content() -> None:
    for dialect in DIALECTS:
        for kind in method_classes(dialect):
            assembler = dialect.Assembler(kind.SENT_BY[0])
            method = example_of(dialect, kind)
            assert (assembler.feed(method) is None) == kind.HAS_CONTENT
            with pytest.raises(dialect.SequenceError):
                assembler.feed(b"body")


@pytest.mark.spec("A-CLASS-006")
@pytest.mark.parametrize(("dialect", "kind"), every(method_classes), ids=name_of)
def test_a_method_comes_from_the_side_that_sends_it(dialect: Any, kind: Any) -> None:
    method = example_of(dialect, kind)
    for side in ("client", "server"):
        assembler = dialect.Assembler(side)
        if side in kind.SENT_BY:
            assembler.feed(method)
            continue
        with pytest.raises(
            dialect.SequenceError, match=f"{kind.XML_NAME}: a {side} does not send it"
        ) as caught:
            assembler.feed(method)
        assert caught.value.reply_code == dialect.ReplyCode.COMMAND_INVALID
        assert assembler.method is None


def test_a_header_is_of_the_class_of_its_method() -> None:
    assembler = preview.Assembler("client")
    method = example_of(preview, preview.StreamPublish)
    assembler.feed(method)
    other = preview.ContentHeader(preview.BasicProperties(), 0)
    with pytest.raises(preview.SequenceError, match="contents of class 80, not of class 60") as caught:
        assembler.feed(other)
    assert (
        caught.value.reply_code == preview.ReplyCode.COMMAND_INVALID
    )  # there is no code for unexpected frames
    right = preview.ContentHeader(preview.StreamProperties(), 0)
    assert assembler.feed(right) == (method, preview.Content(preview.StreamProperties()))


def test_a_size_beyond_the_limit_is_refused_before_there_is_anything_to_keep() -> None:
    assembler = v091.Assembler("client", max_body_size=10)
    assembler.feed(PUBLISH)
    error = refused(assembler, header(11))
    assert error.reply_code == CODES.CONTENT_TOO_LARGE
    assert error.reason == "its content has 11 octets of body, at most 10 are taken"
    assert refused(assembler, header((1 << 64) - 1)).reply_code == CODES.CONTENT_TOO_LARGE
    assert feed(assembler, header(10), bytes(10)) == [(PUBLISH, v091.Content(PROPERTIES, bytes(10)))]
    feed(assembler, PUBLISH, header(6, 2), bytes(6), header(3), bytes(3))
    assert refused(assembler, header(2)).reply_code == CODES.CONTENT_TOO_LARGE
    assert len(feed(assembler, header(1), b"1")) == 1
    assert len(feed(assembler, PUBLISH, header(10), bytes(10))) == 1


def test_contents_inside_contents_are_bounded() -> None:
    assembler = v091.Assembler("client", max_contents=3, max_depth=2)
    assembler.feed(PUBLISH)
    error = refused(assembler, header(0, 3))
    assert (error.reply_code, error.reason) == (
        CODES.RESOURCE_ERROR,
        "it comes with 4 contents, at most 3 are taken",
    )
    assert feed(assembler, header(0, 1), header(0, 1)) == []
    assert "deeper than 2" in refused(assembler, header(0)).reason


def test_a_frame_that_is_refused_leaves_the_rest_as_it_was() -> None:
    assembler = v091.Assembler("client")
    feed(assembler, PUBLISH, header(4), b"bo")
    refused(assembler, b"far too much")
    assert assembler.feed(b"dy") == (PUBLISH, v091.Content(PROPERTIES, b"body"))


def test_there_are_two_sides() -> None:
    with pytest.raises(ValueError, match="'client' or 'server', not 'broker'"):
        v091.Assembler("broker")


# ---- sending ----


@pytest.mark.spec("A-CLIENT-004")
@pytest.mark.parametrize(("dialect", "kind"), every(method_classes), ids=name_of)
def test_content_goes_with_the_methods_that_carry_it(dialect: Any, kind: Any) -> None:
    method = example_of(dialect, kind)
    properties = next(
        (
            member()
            for name in dialect.__all__
            if getattr(member := getattr(dialect, name), "CLASS_ID", None) == kind.CLASS_ID
            and not hasattr(member, "METHOD_ID")
        ),
        v091.BasicProperties(),
    )
    content = dialect.Content(properties, b"x" * 1000)
    if not kind.HAS_CONTENT:
        with pytest.raises(dialect.EncodeError, match=f"{kind.XML_NAME}: carries no content"):
            dialect.encode_content(method, content, 1)
        return
    frames = dialect.FrameReader().feed(dialect.encode_content(method, content, 1, max_frame_size=608))
    payloads = [dialect.decode_frame(octets)[0].payload for octets in frames]
    assert payloads == [method, dialect.ContentHeader(properties, 1000), b"x" * 600, b"x" * 400]
    assert feed(dialect.Assembler(kind.SENT_BY[0]), *payloads) == [(method, content)]


@pytest.mark.parametrize(
    ("dialect", "kind", "properties", "reason"),
    [
        (preview, preview.StreamPublish, preview.BasicProperties(), "contents of class 80, not of class 60"),
        (v091, v091.BasicAck, v091.BasicProperties(), "carries no content"),
        (v091, v091.BasicProperties, v091.BasicProperties(), "carries no content"),
    ],
    ids=lambda value: getattr(value, "XML_NAME", None),
)
def test_content_does_not_go_with_others(dialect: Any, kind: Any, properties: Any, reason: str) -> None:
    with pytest.raises(dialect.EncodeError, match=reason):
        dialect.encode_content(example_of(dialect, kind), dialect.Content(properties), 1)


@pytest.mark.parametrize("dialect", DIALECTS, ids=dialect_name)
def test_frames_without_room_and_contents_without_end(dialect: Any) -> None:
    method = example_of(dialect, dialect.BasicPublish)
    content = dialect.Content(dialect.BasicProperties(), b"x")
    with pytest.raises(dialect.EncodeError, match="frames of 8 octets have no room for a body"):
        dialect.encode_content(method, content, 1, max_frame_size=8)
    content.children = [content]
    with pytest.raises(dialect.EncodeError, match="deeper than 16"):
        dialect.encode_content(method, content, 1)
