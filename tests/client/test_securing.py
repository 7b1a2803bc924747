"""TLS from the start and by a protocol header, certificates of clients, and tokens."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from amqpforge.client import Credentials, connect
from amqpforge.errors import AmqpforgeError, ConnectionLost, LocalError, NegotiationFailed
from amqpforge.sasl import Authenticator
from amqpforge.testing import ScriptedNode
from amqpforge.url import parse_url
from amqpforge_protocol.amqp_1_0 import Accepted, Open, ProtocolHeader, SaslInit
from tests.interop import certificates

from .loops import in_loop


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> certificates.Certificates:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


def server_context(files: certificates.Certificates, *, asks: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.server, files.server_key)
    if asks:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(files.authority)
    return context


def client_context(files: certificates.Certificates, *, shows: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(files.authority))
    if shows:
        context.load_cert_chain(files.client, files.client_key)
    return context


async def works(url: str, **options: Any) -> None:
    """Messages go there and back, large ones too."""
    async with (
        connect(url, **options) as connection,
        connection.sender("q") as sender,
        connection.receiver("q") as receiver,
    ):
        assert await sender.send(b"x" * 500_000) == Accepted()
        assert (await receiver.receive()).message.body == b"x" * 500_000


@in_loop
async def test_tls_from_the_start(files: certificates.Certificates) -> None:
    async with ScriptedNode(ssl=server_context(files), users={"me": "secret"}) as node:
        assert node.url.startswith("amqps://")
        await works(node.url, ssl=client_context(files), username="me", password="secret")


@pytest.mark.parametrize("tls", ["offered", "required"])
@in_loop
async def test_tls_that_a_protocol_header_asks_for(files: certificates.Certificates, tls: Any) -> None:
    async with ScriptedNode(ssl=server_context(files), tls=tls, users={"me": "secret"}) as node:
        assert node.url.startswith("amqp://")
        url = node.url.replace("127.0.0.1", "localhost")
        await works(url, ssl=client_context(files), username="me", password="secret")


@pytest.mark.spec("T-CONN-065")
@pytest.mark.parametrize("tls", [None, "offered"])
@in_loop
async def test_open_names_the_host_that_tls_has_named(files: certificates.Certificates, tls: Any) -> None:
    names: list[str | None] = []
    context = server_context(files)
    context.sni_callback = lambda connection, name, context: names.append(name)
    async with ScriptedNode(ssl=context, tls=tls) as node:
        url = node.url.replace("127.0.0.1", "localhost")
        async with connect(url, ssl=client_context(files)):
            pass
        assert names == ["localhost"]
        assert [open.hostname for open in node.received(Open)] == names
        assert {init.hostname for init in node.received(SaslInit)} <= {None, "localhost"}


@pytest.mark.spec("T-CONN-065")
@pytest.mark.parametrize("hostname", [None, "vhost:a"])
@in_loop
async def test_open_names_the_host_that_sasl_has_named(hostname: str | None) -> None:
    async with ScriptedNode() as node, connect(node.url, hostname=hostname):
        [init], [open] = node.received(SaslInit), node.received(Open)
        assert init.hostname == open.hostname == (hostname or "127.0.0.1")


@pytest.mark.spec("T-HDR-024")
@in_loop
async def test_a_listener_with_tls_looks_for_no_header_before_it(files: certificates.Certificates) -> None:
    async with ScriptedNode(ssl=server_context(files)) as node:
        assert parse_url("amqps://host").port == 5671
        reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
        writer.write(b"AMQP\x00\x01\x00\x00")
        assert not (await reader.read()).startswith(b"AMQP")  # At most an alert of TLS.
        writer.close()
        assert not node.received(ProtocolHeader)
        async with connect(node.url, ssl=client_context(files)):
            assert node.received(ProtocolHeader)


@in_loop
async def test_a_certificate_that_nobody_trusts_is_refused(files: certificates.Certificates) -> None:
    async with ScriptedNode(ssl=server_context(files)) as node:
        with pytest.raises(NegotiationFailed, match="CERTIFICATE_VERIFY_FAILED") as caught:
            await connect(node.url)
        assert isinstance(caught.value.__cause__, ssl.SSLError)
    async with ScriptedNode(ssl=server_context(files), tls="required") as node:
        with pytest.raises(AmqpforgeError) as refused:
            await connect(node.url, ssl=ssl.create_default_context())
        assert isinstance(refused.value.__cause__, ssl.SSLError)


@in_loop
async def test_a_peer_without_tls_is_named() -> None:
    async with ScriptedNode() as node:
        with pytest.raises((NegotiationFailed, ConnectionLost)):
            await connect(node.url.replace("amqp://", "amqps://"), timeout=5)
        with pytest.raises(NegotiationFailed, match="TLS"):
            await connect(node.url, ssl=ssl.create_default_context())


class Certified(Authenticator):
    """Whoever shows a certificate is its name."""

    mechanisms = ("EXTERNAL",)

    def check_peer(self, peer_name: str) -> str | None:
        return peer_name


@in_loop
async def test_a_certificate_tells_who_the_client_is(files: certificates.Certificates) -> None:
    async with ScriptedNode(ssl=server_context(files, asks=True), authenticator=Certified()) as node:
        context = client_context(files, shows=True)
        async with connect(node.url, ssl=context, credentials=Credentials(external=True)) as connection:
            assert connection.mechanism == "EXTERNAL"
            assert node.connections[0].user == "guest"


class Tokens(Authenticator):
    """Takes one token."""

    mechanisms = ("OAUTHBEARER",)

    def check_token(self, token: str, username: str) -> str | None:
        return "robot" if token == "valid" * 200 else None


@in_loop
async def test_a_token_is_fetched_off_the_loop_for_each_connection(files: certificates.Certificates) -> None:
    fetched: list[bool] = []

    def token() -> str:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            fetched.append(True)
        return "valid" * 200

    async with ScriptedNode(ssl=server_context(files), authenticator=Tokens()) as node:
        node.security = type(node.security)(authenticator=Tokens(), max_sasl_frame_size=4096)
        options: dict[str, Any] = {"ssl": client_context(files), "credentials": Credentials(token=token)}
        with pytest.raises(LocalError, match="max_sasl_frame_size"):
            await connect(node.url, **options)
        async with connect(node.url, max_sasl_frame_size=4096, **options) as connection:
            assert connection.mechanism == "OAUTHBEARER"
            assert node.connections[0].user == "robot"
    assert fetched == [True, True]


@in_loop
async def test_a_server_that_goes_while_hands_are_shaken_for_tls(files: certificates.Certificates) -> None:
    header = ProtocolHeader(2).encode()

    async def go_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(header))
        writer.write(header)
        await reader.readexactly(1)
        writer.transport.abort()

    server = await asyncio.start_server(go_away, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises((ConnectionLost, NegotiationFailed)):
            await connect(f"amqp://127.0.0.1:{port}", ssl=client_context(files), timeout=5)
