"""`amqpforge ping`: who answers, with what, and how fast."""

from __future__ import annotations

import socketserver
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Literal

import pytest

from amqpforge.engine.settings import ConnectionSettings
from amqpforge.sasl import Authenticator
from amqpforge.testing import ThreadedNode
from amqpforge_protocol.amqp_1_0 import Begin, Symbol
from tests.interop import certificates

from .commands import run

SETTINGS = ConnectionSettings(
    hostname="far",
    max_frame_size=4096,
    channel_max=7,
    idle_time_out=20,
    offered_capabilities=(Symbol("queue"),),
    properties={"product": "Node", "version": "1\x1b[2J"},
)


def test_all_about_a_peer_as_json() -> None:
    with ThreadedNode("broker", settings=SETTINGS, mechanisms=["ANONYMOUS", "PLAIN"]) as node:
        ended = run("ping", node.url, "--count", "2")
        assert len(node.received(Begin)) == 2
    assert (ended.code, ended.complaints) == (0, "")
    (found,) = ended.objects
    assert found.pop("connect-seconds") > 0
    times = found.pop("round-trip-seconds")
    assert len(times) == 2
    assert min(times) > 0
    assert found == {
        "url": node.url,
        "protocol": "AMQP 1.0.0",
        "tls": None,
        "sasl": {"mechanism": "ANONYMOUS", "offered": ["ANONYMOUS", "PLAIN"]},
        "open": {
            "container-id": "broker",
            "hostname": "far",
            "max-frame-size": 4096,
            "channel-max": 7,
            "idle-time-out": 10_000,
            "offered-capabilities": ["queue", "ANONYMOUS-RELAY"],
            "properties": found["open"]["properties"],
        },
    }
    assert "Node" in str(found["open"]["properties"])


def test_all_about_a_peer_for_people() -> None:
    with ThreadedNode("broker", settings=SETTINGS, users={"me": "sesame"}) as node:
        ended = run("ping", node.url.replace("//", "//me:sesame@"), on_terminal=True)
        port = node.port
    assert ended.code == 0
    rows = [line.split(maxsplit=1) for line in ended.lines]
    assert ended.lines[0] == f"amqp://me@127.0.0.1:{port}"
    shown = {name: rest for name, rest in rows[1:] if name not in ("properties:", "round", "connect")}
    assert shown == {
        "protocol": "AMQP 1.0.0",
        "TLS": "none",
        "SASL": "SCRAM-SHA-256, offered: SCRAM-SHA-256, PLAIN",
        "container-id": '"broker"',
        "hostname": '"far"',
        "max-frame-size": "4096",
        "channel-max": "7",
        "idle-time-out": "10000 ms",
        "offered-capabilities": "[queue, ANONYMOUS-RELAY]",
    }
    assert [line.split() for line in ended.lines if "properties" in line] == [
        ["properties:", "product", '"Node"'],
        ["properties:", "version", r'"1\u001b[2J"'],
    ]
    assert ended.lines[-1].count(" ms") == 3
    assert "sesame" not in ended.output


def test_a_peer_without_sasl() -> None:
    with ThreadedNode() as node:
        node.security = type(node.security)()
        ended = run("ping", node.url)
    assert ended.objects[0]["sasl"] is None


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server that answers whatever comes with the same octets, and closes; gives its URL."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(8)
            self.request.sendall(answer)

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield f"amqp://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("answer", "peer"),
    [
        (b"AMQP\x00\x00\x09\x01", "AMQP 0-9-1"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"),
        (b"", "sends nothing"),
    ],
)
def test_who_is_no_peer_is_named(answer: bytes, peer: str) -> None:
    with answering(answer) as url:
        ended = run("ping", url)
    assert (ended.code, ended.output) == (1, "")
    assert peer in ended.complaints


def test_nobody_is_there() -> None:
    with ThreadedNode() as node:
        url = node.url
    ended = run("ping", url)
    assert (ended.code, ended.output) == (1, "")
    assert ended.complaints == f"amqpforge: cannot connect to {url}: Connection refused\n"


def test_a_peer_that_does_not_answer(node: ThreadedNode) -> None:
    node.script.on(Begin).drop()
    ended = run("ping", node.url, "--connect-timeout", "0.1")
    assert ended.code == 1
    assert "took longer than 0.1 s" in ended.complaints
    assert ended.objects[0]["round-trip-seconds"] == []


# ---- TLS ----


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> certificates.Certificates:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


def server_context(files: certificates.Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.server, files.server_key)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(files.authority)
    return context


@pytest.mark.parametrize("tls", [None, "required"])
def test_tls(files: certificates.Certificates, tls: Literal["required"] | None) -> None:
    with ThreadedNode(ssl=server_context(files), tls=tls, users={"me": "sesame"}) as node:
        url = node.url.replace("//127.0.0.1", "//me:sesame@localhost")
        ended = run("ping", url, "--ca", files.authority)
        assert (ended.code, ended.complaints) == (0, "")
        assert ended.objects[0]["tls"].startswith("TLSv1.")
        assert run("ping", url, "--no-verify").code == 0


def test_a_certificate_that_is_not_trusted(files: certificates.Certificates) -> None:
    with ThreadedNode(ssl=server_context(files)) as node:
        ended = run("ping", node.url)
    assert (ended.code, ended.output) == (1, "")
    assert "the certificate is not trusted (" in ended.complaints


def test_a_port_without_tls(node: ThreadedNode) -> None:
    ended = run("ping", node.url.replace("amqp:", "amqps:"))
    assert ended.code == 1
    assert "does not speak TLS on this port" in ended.complaints


def test_a_certificate_shows_who_we_are(files: certificates.Certificates) -> None:
    class Certified(Authenticator):
        mechanisms = ("EXTERNAL",)

        def check_peer(self, peer_name: str) -> str | None:
            return peer_name

    with ThreadedNode(ssl=server_context(files), authenticator=Certified()) as node:
        url = node.url.replace("127.0.0.1", "localhost")
        argv = ["--ca", files.authority, "--cert", files.client, "--key", files.client_key]
        ended = run("ping", url, *argv)
        assert ended.objects[0]["sasl"] == {"mechanism": "EXTERNAL", "offered": ["EXTERNAL"]}
        ended = run("ping", url, "--ca", files.authority)
        assert ended.code == 1


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--ca", "/no/such/file"], "no certificates in /no/such/file: No such file"),
        (["--cert", "/no/such/file"], "no certificate with its key in /no/such/file: No such file"),
    ],
)
def test_files_that_are_not_there(argv: list[str], complaint: str) -> None:
    ended = run("ping", "amqps://localhost", *argv)
    assert ended.code == 1
    assert complaint in ended.complaints
