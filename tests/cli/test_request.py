"""`amqpforge request`: a question, and its answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from amqpforge.blocking import connect
from amqpforge.message import Message
from amqpforge.testing import ThreadedNode
from amqpforge_protocol.amqp_1_0 import Attach

from .commands import run


@pytest.fixture
def shouting(node: ThreadedNode) -> Iterator[ThreadedNode]:
    """A node with a service that answers in capitals."""
    with connect(node.url) as connection:
        requests, answers = connection.receiver("shout"), connection.sender(None)

        def serve() -> None:
            for delivery in requests:
                request = delivery.message
                answer = Message(
                    str(request.body).upper(),
                    to=request.reply_to,
                    correlation_id=request.correlation_id or request.message_id,
                    subject=request.subject,
                )
                answers.send(answer)

        service = Thread(target=serve)
        service.start()
        yield node
    service.join()


def test_the_answer_is_shown(shouting: ThreadedNode) -> None:
    ended = run("request", shouting.url, "shout", "hello", "--subject", "s")
    assert (ended.code, ended.complaints) == (0, "")
    (answer,) = map(Message.from_json, ended.lines)
    assert (answer.body, answer.subject) == ("HELLO", "s")
    assert run("request", shouting.url, "shout", "--body", "hello").output == "HELLO\n"
    ended = run("request", shouting.url, "shout", "hello", on_terminal=True)
    assert ended.output.startswith('"HELLO"  properties(')


def test_the_request_comes_from_standard_input_or_a_file(shouting: ThreadedNode, tmp_path: Path) -> None:
    argv = ["request", shouting.url, "shout", "--body", "--type", "text"]
    assert run(*argv, stdin=b"in").output == "IN\n"
    (tmp_path / "question").write_text("file")
    assert run(*argv, "--file", tmp_path / "question").output == "FILE\n"


def test_the_answer_comes_to_a_node_that_is_named(shouting: ThreadedNode) -> None:
    argv = ["--reply-to", "answers", "--correlation-id", "c", "--body"]
    assert run("request", shouting.url, "shout", *argv, "hello").output == "HELLO\n"
    assert "answers" in shouting.queues


def test_no_answer(node: ThreadedNode) -> None:
    ended = run("request", node.url, "silence", "hello", "--timeout", "0.05")
    assert (ended.code, ended.output) == (1, "")
    assert "took longer than 0.05 s" in ended.complaints


def test_a_peer_that_makes_no_nodes(node: ThreadedNode) -> None:
    node.script.on(Attach).refuse("amqp:not-implemented", "no dynamic nodes")
    ended = run("request", node.url, "shout", "hello")
    assert (ended.code, ended.output) == (1, "")
    assert "no dynamic nodes" in ended.complaints
    assert "--reply-to" in ended.complaints


def test_wrong_usage() -> None:
    ended = run("request", "amqp://localhost", "shout", "one", "two")
    assert (ended.code, ended.output) == (2, "")
    assert "two" in ended.complaints
