"""`amqpforge send`, from the command line to the queue."""

from __future__ import annotations

import builtins
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from amqpforge.message import Message
from amqpforge.testing import ThreadedNode
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Disposition,
    Open,
    Rejected,
    Released,
    Transfer,
    UInt,
)

from .commands import Terminal, run


def bodies(node: ThreadedNode, address: str = "q") -> list[object]:
    return [message.body for message in node.messages(address)]


# ---- bodies ----


def test_each_body_becomes_a_message(node: ThreadedNode) -> None:
    ended = run("send", node.url, "q", "hello", "wörld")
    assert (ended.code, ended.complaints) == (0, "")
    (report,) = ended.objects
    assert report.pop("seconds") > 0
    assert report == {"messages": 2, "outcomes": {"accepted": 2}}
    assert bodies(node) == ["hello", "wörld"]


def test_bodies_may_stand_behind_options(node: ThreadedNode) -> None:
    assert run("send", node.url, "q", "--count", "3", "--subject", "s", "tick", "tack").code == 0
    assert run("send", node.url, "q", "--", "--count").code == 0
    assert bodies(node) == ["tick", "tack", "tick", "--count"]


@pytest.mark.parametrize(
    ("kind", "given", "body"),
    [
        ("text", "7", "7"),
        ("data", "7", b"7"),
        ("json", "7", 7),
        ("json", '[1, {"type": "uint", "value": 7}]', [1, UInt(7)]),
    ],
)
def test_the_type_of_a_body(node: ThreadedNode, kind: str, given: str, body: object) -> None:
    assert run("send", node.url, "q", "--type", kind, given).code == 0
    assert bodies(node) == [body]


def test_without_a_body_standard_input_is_one_of_octets(node: ThreadedNode) -> None:
    assert run("send", node.url, "q", stdin=b"\x00\xff\n").code == 0
    assert run("send", node.url, "q", "--type", "text", stdin=b"text\n").code == 0
    assert bodies(node) == [b"\x00\xff\n", "text\n"]


def test_a_file_is_a_body(node: ThreadedNode, tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8" * 100_000)
    ended = run("send", node.url, "q", "--file", tmp_path / "photo.jpg", "--content-type", "image/jpeg")
    assert ended.code == 0
    (message,) = node.messages("q")
    assert (message.body, message.content_type) == (b"\xff\xd8" * 100_000, "image/jpeg")


def test_fields_and_properties(node: ThreadedNode) -> None:
    options = "--subject s --to t --reply-to r --message-id m --correlation-id c --group-id g".split()
    more = ["--ttl", "1.5", "--priority", "9", "--durable"]
    properties = ["-p", "region=eu=1", "--property", 'size:={"type": "uint", "value": 7}', "-p", "empty="]
    assert run("send", node.url, "q", *options, *more, *properties, "x").code == 0
    (message,) = node.messages("q")
    assert (message.subject, message.to, message.reply_to) == ("s", "t", "r")
    assert (message.message_id, message.correlation_id, message.group_id) == ("m", "c", "g")
    assert (message.ttl, message.priority, message.durable) == (1.5, 9, True)
    assert message.application_properties == {"region": "eu=1", "size": UInt(7), "empty": ""}
    assert isinstance(message.application_properties["size"], UInt)


def test_json_lines_are_messages(node: ThreadedNode) -> None:
    given = [Message("a", subject="x"), Message(b"\x00", durable=True), Message({"k": UInt(1)})]
    lines = "\n\n".join(message.to_json() for message in given) + "\n"
    assert run("send", node.url, "q", "--json", stdin=lines.encode()).code == 0
    assert node.messages("q") == given
    assert run("send", node.url, "r", "--json", "-n", "2", "--subject", "y", stdin=lines.encode()).code == 0
    assert [(message.body, message.subject) for message in node.messages("r")] == [("a", "y"), (b"\x00", "y")]


def test_json_lines_of_a_file(node: ThreadedNode, tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text(Message("a").to_json())
    assert run("send", node.url, "q", "--json", "--file", tmp_path / "m.jsonl").code == 0
    assert bodies(node) == ["a"]


def test_a_line_is_sent_before_the_next_one_is_there(node: ThreadedNode) -> None:
    class Lines(io.RawIOBase):
        """Two lines; the second is there once the first has been sent."""

        def __init__(self) -> None:
            self.given = 0

        def readable(self) -> bool:
            return True

        def readline(self, size: int | None = -1, /) -> bytes:
            node.wait_for(lambda: len(node.queue("q")) == self.given)
            self.given += 1
            return f"{Message(self.given).to_json()}\n".encode() if self.given < 3 else b""

    assert run("send", node.url, "q", "--json", stdin=Lines()).code == 0
    assert bodies(node) == [1, 2]


# ---- how many, how fast ----


def test_a_count_and_a_rate(node: ThreadedNode) -> None:
    waited: list[float] = []
    ended = run("send", node.url, "q", "tick", "-n", "4", "--rate", "0.5", wait=waited.append)
    assert ended.objects[0]["messages"] == 4
    assert [round(seconds) for seconds in waited] == [2, 4, 6]


def test_settled_messages_have_no_outcome(node: ThreadedNode) -> None:
    ended = run("send", node.url, "q", "--settled", "x", "y")
    assert (ended.code, ended.objects[0]["outcomes"]) == (0, {"no outcome": 2})
    assert all(transfer.settled for transfer in node.received(Transfer))


def test_the_sum_for_people(node: ThreadedNode) -> None:
    ended = run("send", node.url, "q", "x", on_terminal=True)
    assert ended.output.startswith("1 message in ")
    assert ended.output.endswith(" s: 1 accepted\n")
    ended = run("send", node.url, "q", "x", "-n", "1500", on_terminal=True)
    assert "1,500 messages in " in ended.output
    assert " a second: 1,500 accepted" in ended.output


@pytest.mark.parametrize("has_rich", [True, False])
def test_progress_is_shown_to_people(
    node: ThreadedNode, monkeypatch: pytest.MonkeyPatch, has_rich: bool
) -> None:
    if has_rich:
        pytest.importorskip("rich")
    else:
        _hide_rich(monkeypatch)
    monkeypatch.setattr("amqpforge.commands.showing._PAUSE", 0)
    monkeypatch.setenv("TERM", "xterm-256color")
    ended = run("send", node.url, "q", "x", "-n", "20", is_watched=True)
    assert ended.code == 0
    assert "messages sent" in ended.complaints
    assert "20/20" in ended.complaints if has_rich else "20 of 20" in ended.complaints
    assert run("send", node.url, "q", "x", "-n", "20").complaints == ""


def _hide_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without_rich(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if name.partition(".")[0] == "rich":
            raise ImportError(name)
        return original(name, globals, locals, fromlist or (), level)

    monkeypatch.setattr(builtins, "__import__", without_rich)


# ---- what goes wrong ----


def test_a_message_that_is_released_is_explained(node: ThreadedNode) -> None:
    node.queue("q").answer = lambda message: Released()
    ended = run("send", node.url, "q", "a")
    assert ended.complaints.startswith("amqpforge: message 1 was not accepted: released(); nobody takes it")


def test_messages_that_are_not_accepted_are_told(node: ThreadedNode) -> None:
    node.queue("q").answer = lambda message: Accepted() if message.body == "0" else Rejected()
    ended = run("send", node.url, "q", *range(15))
    assert (ended.code, ended.objects[0]["outcomes"]) == (1, {"accepted": 1, "rejected": 14})
    complaints = ended.complaints.splitlines()
    assert complaints[0] == "amqpforge: message 2 was not accepted: rejected()"
    assert len(complaints) == 11
    assert "more" in complaints[-1]


def test_an_interrupt_ends_with_the_sum(node: ThreadedNode) -> None:
    waited: list[float] = []

    def interrupt_at_the_third(seconds: float) -> None:
        waited.append(seconds)
        node.wait_for(lambda: len(node.queue("q")) == len(waited))
        if len(waited) == 2:
            raise KeyboardInterrupt

    ended = run("send", node.url, "q", "x", "-n", "9", "--rate", "0.1", wait=interrupt_at_the_third)
    assert ended.code == 130
    assert ended.objects[0]["messages"] == 2
    node.wait_for(lambda: not node.connections)


def test_no_outcome_in_time(node: ThreadedNode) -> None:
    node.script.before(Disposition).drop()
    ended = run("send", node.url, "q", "x", "--timeout", "0.05")
    assert (ended.code, ended.objects[0]["outcomes"]) == (1, {"no outcome": 1})
    assert "took longer than 0.05 s" in ended.complaints


@pytest.mark.parametrize(
    ("stdin", "reason"),
    [
        (b'{"type": "message"}\n', "line 1"),
        (b'\n{"type": "message", "sections": []}\n', "line 2: no message"),
        (b'{"type": "message", "octets": "00", "message-format": 512}\nhello\n', "line 2: not JSON"),
    ],
)
def test_lines_that_are_no_messages(node: ThreadedNode, stdin: bytes, reason: str) -> None:
    ended = run("send", node.url, "q", "--json", stdin=stdin)
    assert ended.code == 1
    assert reason in ended.complaints


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--type", "json", "{"], "no JSON"),
        (["--type", "json", '{"type": "ubyte", "value": 256}'], "ubyte"),
        (["--ttl", "-1", "x"], "ttl"),
        (["--priority", "256", "x"], "priority"),
        (["--file", "/no/such/file"], "/no/such/file: No such file"),
        (["--json", "--file", "/no/such/file"], "/no/such/file: No such file"),
        (["-p", 'a:={"type": "list", "value": []}', "x"], "application-properties"),
    ],
)
def test_what_cannot_be_sent(node: ThreadedNode, argv: list[str], reason: str) -> None:
    ended = run("send", node.url, "q", *argv)
    assert (ended.code, bodies(node)) == (1, [])
    assert reason in ended.complaints
    assert len(ended.complaints.splitlines()) == 1


def test_text_that_is_none(node: ThreadedNode) -> None:
    ended = run("send", node.url, "q", "--type", "text", stdin=b"ab\xff")
    assert (ended.code, ended.output) == (1, "")
    assert "octet 2" in ended.complaints


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ([], "required: URL, ADDRESS"),
        (["http://localhost", "q"], "scheme"),
        (["amqp://localhost", "q", "--count", "0"], "'0'"),
        (["amqp://localhost", "q", "--rate", "inf"], "'inf'"),
        (["amqp://localhost", "q", "--timeout", "no"], "'no'"),
        (["amqp://localhost", "q", "-p", "novalue"], "NAME=VALUE"),
        (["amqp://localhost", "q", "-p", "a:={"], "a: the value is no JSON"),
        (["amqp://localhost", "q", "--json", "body"], "--json"),
        (["amqp://localhost", "q", "--file", "f", "body"], "--file"),
        (["amqp://localhost", "q", "--key", "k", "body"], "--cert"),
        (["amqp://me@localhost", "q", "body"], "AMQPFORGE_PASSWORD"),
    ],
)
def test_wrong_usage(argv: list[str], reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AMQPFORGE_PASSWORD", raising=False)
    ended = run("send", *argv)
    assert (ended.code, ended.output) == (2, "")
    assert reason in ended.complaints


# ---- passwords ----


@pytest.fixture
def guarded() -> Any:
    with ThreadedNode(users={"me": "sesame"}) as node:
        yield node


def with_user(node: ThreadedNode, user: str) -> str:
    return node.url.replace("amqp://", f"amqp://{user}@")


def test_the_password_is_in_the_url(guarded: ThreadedNode) -> None:
    assert run("send", with_user(guarded, "me:sesame"), "q", "x").code == 0


def test_the_password_is_in_the_environment(guarded: ThreadedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMQPFORGE_PASSWORD", "sesame")
    assert run("send", with_user(guarded, "me"), "q", "x").code == 0
    assert run("send", with_user(guarded, "me:wrong"), "q", "x").code == 1


def test_the_password_is_asked_for_on_a_terminal(
    guarded: ThreadedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AMQPFORGE_PASSWORD", raising=False)
    asked: list[str] = []

    def getpass(prompt: str) -> str:
        asked.append(prompt)
        return "sesame"

    monkeypatch.setattr("getpass.getpass", getpass)
    assert run("send", with_user(guarded, "me"), "q", "x", stdin=Terminal()).code == 0
    assert asked == ["Password of me at 127.0.0.1: "]


def test_a_wrong_password_is_not_shown(guarded: ThreadedNode) -> None:
    ended = run("send", with_user(guarded, "me:open-barley"), "q", "x")
    assert (ended.code, ended.output) == (1, "")
    assert "refused the credentials" in ended.complaints
    assert "barley" not in ended.complaints


# ---- the connection ----


def test_options_of_the_connection(node: ThreadedNode, tmp_path: Path) -> None:
    record = tmp_path / "session.pcap"
    argv = ["--container-id", "me", "--hostname", "vhost:a", "--record", str(record), "--reconnect"]
    assert run("send", node.url, "q", *argv, "x").code == 0
    (open,) = node.received(Open)
    assert (open.container_id, open.hostname) == ("me", "vhost:a")
    shown = run("decode", "--json", "--performative", "transfer", record)
    assert len(shown.objects) == 1


def test_a_connection_that_is_lost_ends_the_sending(node: ThreadedNode) -> None:
    node.script.on(Transfer, skip=3).cut()
    ended = run("send", node.url, "q", "x", "-n", "5")
    assert ended.code == 1
    assert ended.objects[0]["outcomes"]["no outcome"] >= 1
    assert len(ended.complaints.splitlines()) == 1


def test_a_connection_that_is_lost_comes_back_if_wished(node: ThreadedNode) -> None:
    node.script.on(Transfer, skip=3, times=1).cut()
    ended = run("send", node.url, "q", "x", "-n", "5", "--reconnect")
    assert (ended.code, ended.objects[0]["outcomes"]) == (0, {"accepted": 5})


def test_help_has_examples() -> None:
    ended = run("send", "--help")
    assert ended.code == 0
    assert "amqpforge send amqp://localhost orders hello" in ended.output
    assert max(map(len, ended.lines)) <= 110
    assert "usage: amqpforge send" in ended.output
