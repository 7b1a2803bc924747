"""`amqpforge broker`: a real process, its first line, its logs, its end, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from amqpforge import Message, blocking
from amqpforge.broker.access import PasswordFile, make_credentials
from amqpforge.errors import AmqpforgeError, ConnectionClosed
from amqpforge_protocol.amqp_1_0 import Accepted, AmqpConnectionError
from tests.interop import certificates

from .commands import run

SECONDS = 30.0
FIRST_LINE = re.compile(r"amqpforge \S+ listens at (\S+) for (.+); it keeps messages (.+)\n")
QUEUE = '[virtual_hosts."/".queues.orders]\ndurable = true\n'


class Child:
    """The command in a process of its own, once it listens."""

    def __init__(self, folder: Path, *options: object, port: int = 0) -> None:
        command = [sys.executable, "-m", "amqpforge", "broker", "--port", str(port), *map(str, options)]
        self._log = (folder / "log").open("w+", encoding="utf-8")
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)},
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline()
        found = FIRST_LINE.fullmatch(self.first_line)
        assert found, self.log
        self.url, self.whom, self.kept = found.groups()

    @property
    def log(self) -> str:
        return Path(self._log.name).read_text(encoding="utf-8")

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Have it end, and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(SECONDS)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """Start a broker in a folder of the test."""
    children: list[Child] = []

    def make(*options: object, port: int = 0) -> Child:
        children.append(Child(tmp_path, *options, port=port))
        return children[-1]

    yield make
    for child in children:
        child.close()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration with the durable queue ``orders``, in a store beside it."""
    file = tmp_path / "broker.toml"
    file.write_text(f'store = "sqlite:orders.db"\n{QUEUE}', encoding="utf-8")
    return file


Start = Callable[..., Child]


def test_without_options_it_keeps_messages_where_its_first_line_says(start: Start, tmp_path: Path) -> None:
    child = start()
    assert re.fullmatch(r"amqp://127\.0\.0\.1:\d+", child.url)
    assert child.whom == "everybody on this machine"
    assert child.kept == f"in {tmp_path / 'state' / 'amqpforge' / 'broker.db'}"
    assert (tmp_path / "state" / "amqpforge").stat().st_mode & 0o777 == 0o700
    with blocking.connect(child.url) as connection, connection.receiver(None) as receiver:
        assert receiver.address
    assert child.end() == 0


def test_in_memory_it_says_how_long_messages_are_kept(start: Start) -> None:
    assert start("--store", "memory").kept == "in memory, for as long as it runs"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_connections_with_a_reason(start: Start, number: signal.Signals) -> None:
    child = start("--store", "memory")
    connection = blocking.connect(child.url, reconnect=None)
    receiver = connection.receiver(None)
    assert child.end(number) == 0
    with pytest.raises(ConnectionClosed, match="the broker is shut down") as raised:
        receiver.receive(timeout=SECONDS)
    assert raised.value.condition == AmqpConnectionError.CONNECTION_FORCED
    connection.close()


@contextmanager
def sending(url: str) -> Iterator[tuple[list[int], threading.Event]]:
    """Send durable messages from a thread; gives those that were accepted, and says when there are some."""
    accepted: list[int] = []
    is_going = threading.Event()

    def send() -> None:
        try:
            with blocking.connect(url, reconnect=None) as connection:
                sender = connection.sender("orders")
                numbers = (Message(number, durable=True) for number in range(1_000_000))
                for number, outcome in enumerate(sender.send_each(numbers, window=50)):
                    if isinstance(outcome, Accepted):
                        accepted.append(number)
                    if number > 200:
                        is_going.set()
        except AmqpforgeError:
            pass

    thread = threading.Thread(target=send)
    thread.start()
    yield accepted, is_going
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_what_was_accepted_while_it_was_told_to_stop_is_there_again(start: Start, config: Path) -> None:
    child = start("--config", config)
    with sending(child.url) as (accepted, is_going):
        assert is_going.wait(SECONDS)
        assert child.end() == 0
    assert accepted == list(range(len(accepted)))
    child = start("--config", config)
    with blocking.connect(child.url) as connection, connection.receiver("orders") as receiver:
        found = [receiver.receive(timeout=SECONDS).message.body for _ in accepted]
    assert found == accepted
    assert child.end() == 0


def test_a_second_signal_cuts_off_who_does_not_answer(start: Start) -> None:
    child = start("--store", "memory")
    host, port = child.url.removeprefix("amqp://").split(":")
    with socket.create_connection((host, int(port)), SECONDS) as client:
        client.sendall(bytes.fromhex("414d515000010000 0000001102000000005310c00401a10178".replace(" ", "")))
        seen = b""
        while b"platform" not in seen:  # Of the broker's open.
            seen += client.recv(4096)
        child.process.send_signal(signal.SIGTERM)
        while b"amqp:connection:forced" not in seen:
            seen += client.recv(4096)
        assert child.process.poll() is None
        assert child.end() == 0
    assert "event=stopped" in child.log


def test_its_port_is_free_at_once_for_the_next_one(start: Start) -> None:
    first = start("--store", "memory")
    port = int(first.url.rpartition(":")[2])
    with blocking.connect(first.url, reconnect=None):
        first.process.kill()
        first.process.wait(SECONDS)
    assert start("--store", "memory", port=port).url == first.url


def test_logs_are_lines_of_keys_and_values(start: Start) -> None:
    child = start("--store", "memory")
    with blocking.connect(child.url, container_id="the app", username="me", password="sesame"):
        pass
    assert child.end() == 0
    lines = [dict(re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)', line)) for line in child.log.splitlines()]
    events = [line["event"].strip('"') for line in lines]
    assert events == ["listening", "connection opened", "connection closed", "stopping", "stopped"]
    assert lines[1]["container"] == '"the app"'
    assert (lines[1]["user"], lines[1]["vhost"], lines[1]["level"]) == ("me", "/", "info")
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    assert "sesame" not in child.log


def test_logs_may_be_json(start: Start) -> None:
    child = start("--store", "memory", "--log-format", "json")
    with pytest.raises(AmqpforgeError):
        blocking.connect(child.url, hostname="vhost:\u00fcber\nall", reconnect=None)
    assert child.end() == 0
    assert child.log.isascii()
    objects = [json.loads(line) for line in child.log.splitlines()]
    (refused,) = (one for one in objects if one["event"] == "connection refused")
    assert (refused["level"], refused["vhost"]) == ("warning", "vhost:\u00fcber\nall")
    assert refused["logger"] == "amqpforge.broker.amqp_1_0"


def test_with_a_certificate_and_users(start: Start, tmp_path: Path) -> None:
    tls = certificates.make(tmp_path)
    users = PasswordFile(tmp_path / "users.toml")
    users.add(make_credentials("alice", "wonderland"))
    options = ("--users", users.path, "--tls-cert", tls.server, "--tls-key", tls.server_key)
    child = start("--store", "memory", *options, "--log-level", "warning")
    assert child.url.startswith("amqps://")
    assert child.whom == f"1 user of {users.path}"
    ping = ("ping", child.url.replace("//", "//alice:{}@"), "--ca", tls.authority, "--count", 1)
    assert run(*(str(word).format("wonderland") for word in ping)).code == 0
    assert run(*(str(word).format("looking-glass") for word in ping)).code == 1
    assert child.end() == 0
    (line,) = child.log.splitlines()
    assert 'event="login refused"' in line
    assert "looking-glass" not in line


# --- what is refused -------------------------------------------------------------------------------------


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("broker", "--port", port, "--store", "memory")
    assert (ended.code, ended.output) == (1, "")
    said = "the port is taken: stop what has it, or choose another one"
    assert ended.complaints == f"amqpforge: cannot listen at amqp://127.0.0.1:{port}: {said}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("port = 1", "port: is not known here"),
        ("[[listeners]]\nport = 70000", "listeners[0].port: "),
        ("store = 'disk'", "store: a store is memory, or sqlite: and the name of a file, not 'disk'"),
        ("[virtual_hosts.'/'.queues.orders]\nmax_length = 0", 'virtual_hosts."/".queues.orders.max_length: '),
        ("[listeners", "is no TOML: "),
    ],
)
def test_a_configuration_that_is_wrong_is_refused_with_its_place(
    tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(text, encoding="utf-8")
    ended = run("broker", "--config", file)
    assert (ended.code, ended.output) == (1, "")
    assert ended.complaints.startswith(f"amqpforge: {file}: {problem}")
    assert len(ended.complaints.splitlines()) == 1


def test_a_configuration_that_is_not_there(tmp_path: Path) -> None:
    ended = run("broker", "--config", tmp_path / "broker.toml")
    assert (
        ended.complaints == f"amqpforge: {tmp_path}/broker.toml: cannot be read: No such file or directory\n"
    )
    assert ended.code == 1


def test_a_store_that_is_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(b"dear diary")
    ended = run("broker", "--port", 0, "--store", f"sqlite:{file}")
    assert ended.code == 1
    assert f"store {file}: not a store of this broker; name another file" in ended.complaints
    assert file.read_bytes() == b"dear diary"


def test_a_store_in_use(start: Start, config: Path) -> None:
    start("--config", config)
    ended = run("broker", "--config", config, "--port", 0)
    assert ended.code == 1
    assert "in use by another broker; stop that one, or name another store" in ended.complaints


def test_a_certificate_that_is_missing(tmp_path: Path) -> None:
    ended = run("broker", "--port", 0, "--store", "memory", "--tls-cert", tmp_path / "broker.pem")
    assert ended.code == 1
    assert f"the TLS certificate {tmp_path}/broker.pem cannot be used: No such file" in ended.complaints


def test_everybody_on_the_network_needs_to_be_meant(tmp_path: Path) -> None:
    ended = run("broker", "--host", "0.0.0.0", "--port", 0, "--store", "memory")
    assert ended.code == 1
    assert "without users everybody who reaches 0.0.0.0 may do everything" in ended.complaints


def test_a_place_for_the_store_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state").write_bytes(b"")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ended = run("broker", "--port", 0)
    assert ended.code == 1
    assert f"the folder {tmp_path}/state/amqpforge of the store cannot be made" in ended.complaints
    assert ended.complaints.endswith("name a store with --store\n")


@pytest.mark.parametrize("options", [("--log-level", "loud"), ("--port", "http"), ("--log-format", "xml")])
def test_wrong_usage(options: tuple[str, ...]) -> None:
    ended = run("broker", *options)
    assert ended.code == 2
    assert options[0] in ended.complaints
