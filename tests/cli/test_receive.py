"""`amqpforge receive`, from the queue to the output."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import pytest

from amqpforge import cli
from amqpforge.message import Message
from amqpforge.testing import StoredMessage, ThreadedNode
from amqpforge_protocol.amqp_1_0 import Accepted, Flow, Rejected, UInt

from .commands import interrupt_main_thread, run

needs_signals = pytest.mark.skipif(os.name != "posix", reason="needs signals as POSIX has them")


def fill(node: ThreadedNode, number: int) -> None:
    for body in range(number):
        node.put("q", body)


def outcomes(node: ThreadedNode) -> list[object]:
    return [stored.outcome for stored in node.queue("q").retired]


def test_messages_are_json_lines_on_a_pipe(node: ThreadedNode) -> None:
    given = [Message("a", subject="x"), Message(b"\x00"), Message({"k": UInt(1)}, durable=True)]
    for message in given:
        node.put("q", message)
    ended = run("receive", node.url, "q", "--timeout", "0.1")
    assert (ended.code, ended.complaints) == (0, "")
    assert [Message.from_json(line) for line in ended.lines] == given
    assert outcomes(node) == [Accepted()] * 3


def test_messages_are_lines_for_people_on_a_terminal(node: ThreadedNode) -> None:
    node.put("q", Message("a\n\x1b[2J", subject="x", ttl=1, application_properties={"size": UInt(7)}))
    node.put("q", Message(b"text", annotations={"x-opt-a": 1}))
    node.put("q", b"\xff\x00")
    ended = run("receive", node.url, "q", "-n", "3", on_terminal=True)
    assert ended.lines == [
        r'"a\n\u001b[2J"  header(ttl=1000)  properties(subject="x")  application-properties{"size": 7}',
        'data "text"  message-annotations{x-opt-a: 1}',
        "0xff00",
    ]
    assert ended.complaints.startswith("3 messages in ")


def test_bodies_alone(node: ThreadedNode) -> None:
    for body in ("text", b"octets", {"k": [1, None]}, None):
        node.put("q", body)
    ended = run("receive", node.url, "q", "--timeout", "0.1", "--body")
    assert ended.lines[:2] == ["text", "octets"]
    assert '"type": "map"' in ended.lines[2]
    assert ended.lines[3] == "null"


def test_octets_of_bodies_are_written_as_they_are(node: ThreadedNode) -> None:
    node.put("q", b"\xff\x00\xfe")
    buffer = io.BytesIO()
    out = io.TextIOWrapper(buffer, encoding="utf-8")
    argv = ["receive", node.url, "q", "-n", "1", "--body"]
    assert cli.main(argv, io.BytesIO(), out, io.StringIO()) == 0
    assert buffer.getvalue() == b"\xff\x00\xfe\n"


def test_bodies_on_a_terminal_control_nothing(node: ThreadedNode) -> None:
    node.put("q", "two\nlines\x1b[2J")
    ended = run("receive", node.url, "q", "-n", "1", "--body", on_terminal=True)
    assert ended.lines == ["two", "lines\\x1b[2J"]


def test_a_count_takes_no_more_than_that(node: ThreadedNode) -> None:
    fill(node, 5)
    ended = run("receive", node.url, "q", "--count", "2", "--body")
    assert (ended.code, ended.output) == (0, _numbers(0, 1))
    assert [message.body for message in node.messages("q")] == [2, 3, 4]
    assert [stored.message.delivery_count for stored in node.queue("q").stored()] == [0, 0, 0]
    assert sum(flow.link_credit or 0 for flow in node.received(Flow)) == 2


def _numbers(*numbers: int) -> str:
    return "".join(f'{{"type": "long", "value": "{number}"}}\n' for number in numbers)


def test_too_few_messages_are_told(node: ThreadedNode) -> None:
    fill(node, 1)
    ended = run("receive", node.url, "q", "-n", "3", "--timeout", "0.05")
    assert (ended.code, len(ended.lines)) == (1, 1)
    assert ended.complaints == "amqpforge: only 1 of 3 messages came\n"


def test_many_messages(node: ThreadedNode) -> None:
    fill(node, 300)
    ended = run("receive", node.url, "q", "-n", "250", "--credit", "50", "--body")
    assert ended.output == _numbers(*range(250))
    node.wait_for(lambda: node.queue("q").depth == 50)


def test_outcomes(node: ThreadedNode) -> None:
    fill(node, 4)
    assert len(run("receive", node.url, "q", "-n", "2", "--outcome", "reject").lines) == 2
    assert outcomes(node) == [Rejected()] * 2
    ended = run("receive", node.url, "q", "--timeout", "0.05", "--outcome", "release", "--body")
    assert ended.output == _numbers(2, 3)
    assert node.queue("q").depth == 2
    ended = run("receive", node.url, "q", "--credit", "1", "--outcome", "release", "--body")
    assert (ended.code, ended.output) == (0, _numbers(2))


def test_browsing_leaves_the_messages(node: ThreadedNode) -> None:
    fill(node, 3)
    ended = run("receive", node.url, "q", "--browse", "--timeout", "0.05", "--body")
    assert ended.output == _numbers(0, 1, 2)
    assert node.queue("q").depth == 3


def test_a_selector_is_asked_for() -> None:
    def fits(message: Message, selector: object) -> bool:
        return f"colour = '{message.application_properties['colour']}'" == selector

    with ThreadedNode(filters={"apache.org:selector-filter:string": fits}) as node:
        for colour in ("red", "blue", "red"):
            node.put("q", Message(colour, application_properties={"colour": colour}))
        argv = ["--selector", "colour = 'red'", "--timeout", "0.05", "--body"]
        assert run("receive", node.url, "q", *argv).lines == ["red", "red"]
        assert [message.body for message in node.messages("q")] == ["blue"]


def test_bodies_become_files(node: ThreadedNode, tmp_path: Path) -> None:
    for body in ("text", b"\xff", [1]):
        node.put("q", body)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "000001.txt").write_text("older")
    ended = run("receive", node.url, "q", "--timeout", "0.05", "--save", tmp_path / "new")
    names = [Path(line).name for line in ended.lines]
    assert names == ["000002.txt", "000003.bin", "000004.json"]
    contents = [(tmp_path / "new" / name).read_bytes() for name in names]
    assert contents[:2] == [b"text", b"\xff"]
    assert b'"long"' in contents[2]
    assert (tmp_path / "new" / "000001.txt").read_text() == "older"


def test_a_message_that_cannot_be_shown_stays_at_its_node(node: ThreadedNode) -> None:
    node.put("q", "first")
    node.queue("q").add(StoredMessage(b"\x00\x53\x75\xa0\x05ab", 0))
    node.put("q", "last")
    ended = run("receive", node.url, "q", "--timeout", "0.05", "--body")
    assert (ended.code, ended.lines) == (1, ["first", "last"])
    assert "message 2 cannot be shown" in ended.complaints
    node.wait_for(lambda: len(node.queue("q")) == 1)


def test_a_reader_that_ends_early_loses_no_message(node: ThreadedNode) -> None:
    class Broken(io.StringIO):
        """A pipe whose reader goes after the first line."""

        def write(self, text: str, /) -> int:
            if "\n" in self.getvalue():
                raise BrokenPipeError
            return super().write(text)

    fill(node, 5)
    out = Broken()
    assert cli.main(["receive", node.url, "q"], io.BytesIO(), out, io.StringIO()) == 0
    node.wait_for(lambda: node.queue("q").depth == 4)
    assert outcomes(node) == [Accepted()]


class Interrupting(io.StringIO):
    """A stream that has the command interrupted once it has written so many lines, and waits for more."""

    def __init__(self, node: ThreadedNode, lines: int) -> None:
        super().__init__()
        self._node = node
        self._lines = lines

    def flush(self) -> None:
        if self.getvalue().count("\n") == self._lines:
            self._lines = -1
            threading.Thread(target=self._interrupt).start()

    def _interrupt(self) -> None:
        self._node.wait_for(lambda: not self._node.queue("q"))
        interrupt_main_thread()


@needs_signals
@pytest.mark.parametrize(("argv", "code"), [([], 0), (["--count", "9"], 130)])
def test_an_interrupt_ends_with_the_sum(node: ThreadedNode, argv: list[str], code: int) -> None:
    """It is the usual end of what has no other, and untimely for what has."""
    fill(node, 2)
    out, err = Interrupting(node, 2), io.StringIO()
    assert cli.main(["receive", node.url, "q", "--body", *argv], io.BytesIO(), out, err) == code
    assert out.getvalue() == _numbers(0, 1)
    assert err.getvalue().startswith("2 messages in ")
    node.wait_for(lambda: not node.connections)


def test_progress_is_shown_where_the_messages_are_not(
    node: ThreadedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amqpforge.commands.showing._PAUSE", 0)
    fill(node, 20)
    ended = run("receive", node.url, "q", "-n", "20", is_watched=True)
    assert "messages received" in ended.complaints
    assert "20 messages in " in ended.complaints
    assert len(ended.objects) == 20


def test_a_node_that_is_not_there() -> None:
    with ThreadedNode(makes_queues=False) as node:
        ended = run("receive", node.url, "q")
    assert (ended.code, ended.output) == (1, "")
    assert "amqp:not-found" in ended.complaints


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--browse", "--outcome", "reject"], "--browse"),
        (["--save", "x", "--body"], "--save"),
        (["--json", "--body"], "not allowed with"),
        (["--outcome", "modify"], "invalid choice"),
    ],
)
def test_wrong_usage(argv: list[str], reason: str) -> None:
    ended = run("receive", "amqp://localhost", "q", *argv)
    assert (ended.code, ended.output) == (2, "")
    assert reason in ended.complaints


def test_what_is_received_can_be_sent(node: ThreadedNode) -> None:
    given = [
        Message("a", subject="x", message_id=b"\x01"),
        Message([1, UInt(2)], annotations={"x-opt-a": "b"}),
    ]
    for message in given:
        node.put("q", message)
    received = run("receive", node.url, "q", "-n", "2")
    assert run("send", node.url, "r", "--json", stdin=received.output.encode()).code == 0
    assert node.messages("r") == given
