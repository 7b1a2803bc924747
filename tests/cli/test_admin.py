"""`amqpforge admin`: a broker is looked at and changed, and a file of users."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqpforge.blocking import connect
from amqpforge.broker.access import PasswordFile
from amqpforge.testing import ThreadedNode
from tests.broker.management.managed import managed_in_thread

from .commands import Ended, Terminal, run


@pytest.fixture
def url() -> Iterator[str]:
    """Where a broker listens."""
    with managed_in_thread() as url:
        yield url


@pytest.fixture(params=["rich", "plain"])
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With rich, and without."""
    if request.param == "plain":
        monkeypatch.setitem(sys.modules, "rich.table", None)
    return str(request.param)


def done(*argv: object, **options: bool) -> Ended:
    ended = run("admin", *argv, **options)  # type: ignore[arg-type]
    assert (ended.code, ended.complaints) == (0, "")
    return ended


# --- a broker ----------------------------------------------------------------------------------------------


def test_queues(url: str) -> None:
    assert done(url, "declare", "queue", "orders", "--durable", "--max-length", 5).output == ""
    assert done(url, "declare", "queue", "orders", "--durable", "--max-length", 5).output == ""
    (name,) = done(url, "declare", "queue", "--overflow", "drop-oldest", "--message-ttl", "1.5").lines
    orders, found = done(url, "list", "queues").objects
    assert (orders["name"], orders["durable"], orders["max_length"]) == ("orders", True, 5)
    assert (found["name"], found["overflow"], found["message_ttl"]) == (name, "drop-oldest", 1.5)
    with connect(url) as connection, connection.sender("orders") as sender:
        sender.send_many(["one", "two"])
    refused = run("admin", url, "delete", "queue", "orders", "--if-empty")
    assert (refused.code, refused.output) == (1, "")
    assert "it has 2 messages (status 412)" in refused.complaints
    assert done(url, "purge", "orders").objects == [{"messages": 2}]
    assert done(url, "delete", "queue", "orders", "--if-empty", "--if-unused", on_terminal=True).lines == [
        "0 messages gone"
    ]
    assert [queue["name"] for queue in done(url, "list", "queues").objects] == [name]


def test_exchanges_and_bindings(url: str) -> None:
    done(url, "declare", "queue", "q")
    done(url, "declare", "exchange", "events", "--type", "headers", "--durable", "--internal")
    done(url, "bind", "q", "events", "-a", "x-match=all", "-a", "size:=3")
    done(url, "bind", "events", "amq.topic", "order.#", "--to-exchange")
    (events,) = [one for one in done(url, "list", "exchanges").objects if one["name"] == "events"]
    assert (events["type"], events["durable"], events["internal"], events["bindings"]) == (
        "headers",
        True,
        True,
        1,
    )
    first, second = done(url, "list", "bindings").objects
    assert (first["source"], first["key"], first["destination_type"]) == ("amq.topic", "order.#", "exchange")
    assert second["arguments"] == {"x-match": "all", "size": {"type": "long", "value": "3"}}
    done(url, "unbind", "q", "events", "-a", "size:=3", "-a", "x-match=all")
    again = run("admin", url, "unbind", "q", "events")
    assert (again.code, "no such binding" in again.complaints) == (1, True)
    done(url, "delete", "exchange", "events")
    assert done(url, "list", "bindings").objects == []


def test_connections_and_consumers(url: str) -> None:
    done(url, "declare", "queue", "q")
    with connect(url, container_id="victim", reconnect=None) as connection:
        connection.receiver("q")
        (consumer,) = done(url, "list", "consumers").objects
        itself, victim = sorted(done(url, "list", "connections").objects, key=lambda one: str(one["peer"]))
        assert (victim["peer"], consumer["connection"]) == ("victim", victim["id"])
        assert itself["product"] == "amqpforge"
        done(url, "close", victim["id"], "--reason", "enough")
        gone = run("admin", url, "close", victim["id"])
        assert (gone.code, "(status 404)" in gone.complaints) == (1, True)


def test_the_broker_in_sums(url: str, table: str) -> None:
    done(url, "declare", "queue", "q")
    (sums,) = done(url, "overview").objects
    assert (sums["broker"]["product"], sums["vhost"]["queues"]) == ("amqpforge", 1)
    shown = done(url, "overview", on_terminal=True).output
    assert "memory: nothing survives a restart" in shown
    assert "queues in use" in shown
    assert done(url, "overview", "--json", on_terminal=True).objects[0]["vhost"]["queues"] == 1


def test_tables_for_people(url: str, table: str) -> None:
    for name in ("zebra", "ant"):
        done(url, "declare", "queue", name)
    done(url, "bind", "ant", "amq.topic", "tab\tbed")
    lines = done(url, "list", "queues", on_terminal=True).lines
    names = [line.split()[0] for line in lines if line.split()]
    assert names.index("ant") < names.index("zebra")
    assert any("READY" in line for line in lines)
    assert "(default)" in done(url, "list", "exchanges", on_terminal=True).output
    assert "tab\\tbed" in done(url, "list", "bindings", on_terminal=True).output
    assert "amqpforge" in done(url, "list", "connections", on_terminal=True).output
    assert "CONSUMER" in done(url, "list", "consumers", on_terminal=True).output


def test_a_table_of_text_is_lined_up(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.table", None)
    done(url, "declare", "queue", "a-long-name", "--durable")
    done(url, "declare", "queue", "q")
    head, first, second = done(url, "list", "queues", on_terminal=True).lines
    assert head.index("READY") + len("READY") == first.index(" 0") + 2
    assert first.startswith("a-long-name  ")
    assert first.endswith("durable")
    assert second.startswith("q            ")


def test_again_and_again(url: str) -> None:
    pauses: list[float] = []

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    ended = run("admin", url, "overview", "--every", 2, wait=wait)
    assert (ended.code, len(ended.objects), pauses) == (130, 3, [2.0] * 3)


def test_a_broker_that_refuses_and_a_peer_that_is_no_broker(url: str) -> None:
    done(url, "declare", "queue", "q")
    other = run("admin", url, "declare", "queue", "q", "--durable")
    assert (other.code, other.output) == (1, "")
    assert "its durable is False, not True: declare it like that" in other.complaints
    assert "(status 409)" in other.complaints


def test_a_peer_without_management() -> None:
    from amqpforge_protocol.amqp_1_0 import Attach

    with ThreadedNode() as node:
        node.script.on(Attach).refuse("amqp:not-found", "no such node")
        ended = run("admin", node.url, "list", "queues")
    assert (ended.code, ended.output) == (1, "")
    assert "no such node" in ended.complaints


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "say what to do"),
        (["list"], "required: WHAT"),
        (["list", "planets"], "choose from 'bindings'"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["declare"], "required: queue|exchange"),
        (["declare", "planet", "mars"], "invalid choice: 'planet'"),
        (["declare", "queue", "q", "--max-length", "many"], "invalid int value: 'many'"),
        (["delete", "queue"], "required: NAME"),
        (["bind", "q"], "required: EXCHANGE"),
        (["bind", "q", "e", "-a", "novalue"], "'novalue' is not NAME=TEXT"),
        (["bind", "q", "e", "-a", "n:=nothing"], "no JSON"),
        (["overview", "--every", "0"], "seconds above 0"),
        (["amqp://localhost", "users", "list"], "give no URL"),
        (["users", "list"], "required: --file"),
    ],
)
def test_wrong_usage(words: list[str], text: str) -> None:
    ended = run("admin", *words)
    assert (ended.code, ended.output) == (2, "")
    assert text in ended.complaints


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "list WHAT"),
        (["list"], "--every S"),
        (["declare"], "an exchange"),
        (["declare", "queue"], "--dead-letter-exchange NAME"),
        (["users"], "is never an argument"),
    ],
)
def test_help(words: list[str], text: str) -> None:
    ended = run("admin", *words, "--help")
    assert (ended.code, ended.complaints) == (0, "")
    assert text in ended.output


# --- the file of users -------------------------------------------------------------------------------------


def test_the_file_of_users(tmp_path: Path) -> None:
    file = tmp_path / "users.toml"
    assert run("admin", "users", "add", "alice", "--file", file, stdin=b"wonder\nland\n").code == 0
    assert run("admin", "users", "add", "bob", "--kind", "scrypt", "--file", file, stdin=b"b").code == 0
    again = run("admin", "users", "add", "alice", "--file", file, stdin=b"x\n")
    assert (again.code, "has a user 'alice' already" in again.complaints) == (1, True)
    alice, bob = done("users", "list", "--file", file).objects
    assert alice == {"name": "alice", "kinds": ["SCRAM-SHA-512", "SCRAM-SHA-256"], "certificates": []}
    assert bob["kinds"] == ["scrypt"]
    assert "scrypt" in done("users", "list", "--file", file, on_terminal=True).output
    users = PasswordFile(file).read()
    assert [user.fits(password) for user, password in zip(users, ("wonder", "b"), strict=True)] == [True] * 2
    assert run("admin", "users", "passwd", "alice", "--file", file, stdin=b"glass\r\n").code == 0
    changed = PasswordFile(file).read().get("alice")
    assert changed is not None
    assert (changed.fits("glass"), changed.fits("wonder")) == (True, False)
    done("users", "remove", "bob", "--file", file)
    assert [user["name"] for user in done("users", "list", "--file", file).objects] == ["alice"]
    assert "glass" not in file.read_text()


@pytest.mark.parametrize(
    ("words", "stdin", "text"),
    [
        (["passwd", "nobody"], b"x\n", "no user 'nobody'"),
        (["remove", "nobody"], b"", "no user 'nobody'"),
        (["add", "carol"], b"", "the password is empty"),
        (["add", "carol"], b"\xff\n", "no text in UTF-8"),
        (["add", "carol"], b"x" * 5000, "4096 octets or more"),
        (["add", "anonymous"], b"x\n", "no user can be named 'anonymous'"),
    ],
)
def test_what_cannot_be_done_to_users(words: list[str], stdin: bytes, text: str, tmp_path: Path) -> None:
    file = tmp_path / "users.toml"
    assert run("admin", "users", "add", "alice", "--file", file, stdin=b"wonder\n").code == 0
    before = file.read_text()
    ended = run("admin", "users", *words, "--file", file, stdin=stdin)
    assert (ended.code, ended.output) == (1, "")
    assert text in ended.complaints
    assert file.read_text() == before


def test_a_password_that_is_typed_is_typed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "users.toml"
    typed = iter(["first", "second", "third", "third"])
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(typed))
    ended = run("admin", "users", "add", "alice", "--file", file, stdin=Terminal())
    assert (ended.code, "two different passwords" in ended.complaints, file.exists()) == (1, True, False)
    assert run("admin", "users", "add", "alice", "--file", file, stdin=Terminal()).code == 0
    (alice,) = PasswordFile(file).read()
    assert alice.fits("third")
