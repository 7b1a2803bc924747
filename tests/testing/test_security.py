"""SASL and TLS at the test node."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, Literal

import pytest

from amqpforge.broker.config import BrokerConfig, ListenerConfig, Start, TlsFiles
from amqpforge.engine.layers import AuthenticationRefused, LayerFailed
from amqpforge.errors import AuthenticationFailed, ConnectionLost, LocalError, NegotiationFailed
from amqpforge.sasl import Authenticator, Credentials
from amqpforge.testing import ScriptedBroker, ScriptedNode
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Open,
    ProtocolHeader,
    ProtocolId,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Transfer,
)
from tests.interop import certificates

from .peer import Peer, asynchronous, bodies

USERS = {"alice": "wonderland"}
ALICE = Credentials(username="alice", password="wonderland")


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


async def works(peer: Peer) -> None:
    """Messages go there and back, large ones too."""
    body = b"x" * 300_000
    sender, receiver = await peer.sender(), await peer.receiver(credit=1)
    assert await peer.send(sender, body) == [Accepted()]
    assert bodies(await peer.receive(receiver)) == [body]


async def failure(peer: Peer) -> Exception:
    """Why the layers of a client fail."""
    await peer.connect()
    peer.engine.open()
    peer.pump()
    await peer.until(lambda: peer.told(LayerFailed))
    await peer.drop()
    return peer.told(LayerFailed)[0].error


# ---- SASL ----


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
def test_users_log_in(mechanism: str) -> None:
    @asynchronous
    async def check() -> None:
        async with ScriptedNode(users=USERS, mechanisms=[mechanism]) as node:
            peer = await Peer(node, credentials=ALICE).open()
            assert [str(one) for one in node.sent(SaslMechanisms)[0].sasl_server_mechanisms] == [mechanism]
            assert node.received(SaslInit)[0].mechanism == mechanism
            assert node.connections[0].user == "alice"
            await works(peer)
            await peer.drop()

    check()


@asynchronous
async def test_a_wrong_password_and_no_sasl_are_refused() -> None:
    async with ScriptedNode(users=USERS) as node:
        wrong = Credentials(username="alice", password="looking glass")
        assert isinstance(await failure(Peer(node, credentials=wrong)), AuthenticationRefused)
        plain = await Peer(node).connect()
        plain.engine.open()
        plain.pump()
        await plain.until(lambda: plain.engine.error)
        assert isinstance(plain.engine.error, NegotiationFailed)
        assert "SASL" in str(plain.engine.error)
        await plain.drop()
        assert not node.sent(Open)


@asynchronous
async def test_without_users_everybody_is_taken() -> None:
    async with ScriptedNode() as node:
        for credentials, user in ((None, None), (ALICE, "alice"), (Credentials(), "anonymous")):
            peer = await Peer(node, credentials=credentials).open()
            assert node.connections[0].user == user
            await peer.drop()
            await node.wait_for(lambda: not node.connections)


@asynchronous
async def test_an_authenticator_of_the_test_decides() -> None:
    class Tokens(Authenticator):
        mechanisms = ("OAUTHBEARER",)

        def check_token(self, token: str, username: str) -> str | None:
            return "somebody" if token == "good" else None

    async with ScriptedNode(authenticator=Tokens()) as node:
        peer = await Peer(node, credentials=Credentials(token=lambda: "good")).open()
        assert node.connections[0].user == "somebody"
        await peer.drop()
        assert isinstance(
            await failure(Peer(node, credentials=Credentials(token=lambda: "bad"))), AuthenticationFailed
        )


@asynchronous
async def test_the_script_sees_sasl_too() -> None:
    async with ScriptedNode() as node:
        node.script.before(SaslOutcome).cut()
        assert isinstance(await failure(Peer(node, credentials=ALICE)), AuthenticationFailed)
        node.script.clear()
        node.script.on(ProtocolHeader, protocol_id=ProtocolId.SASL).send(b"AMQP\x00\x01\x00\x00").cut()
        assert isinstance(await failure(Peer(node, credentials=ALICE)), NegotiationFailed)


# ---- TLS ----


@pytest.mark.parametrize("users", [None, USERS])
def test_tls_from_the_start(files: certificates.Certificates, users: dict[str, str] | None) -> None:
    @asynchronous
    async def check() -> None:
        async with ScriptedNode(ssl=server_context(files), users=users) as node:
            assert node.url == f"amqps://127.0.0.1:{node.port}"
            peer = await Peer(node, credentials=ALICE if users else None).open(client_context(files))
            await works(peer)
            (connection,) = node.connections
            await peer.close()
            await node.wait_for(lambda: not node.connections)
            assert connection.error is None

    check()


@pytest.mark.parametrize("tls", ["offered", "required"])
def test_tls_that_a_header_asks_for(
    files: certificates.Certificates, tls: Literal["offered", "required"]
) -> None:
    @asynchronous
    async def check() -> None:
        async with ScriptedNode(ssl=server_context(files), tls=tls, users=USERS) as node:
            assert node.url == f"amqp://127.0.0.1:{node.port}"
            peer = await Peer(node, credentials=ALICE, header_tls=client_context(files)).open()
            await works(peer)
            await peer.close()
            ids = [header.protocol_id for header in node.received(ProtocolHeader)]
            assert ids == [ProtocolId.TLS, ProtocolId.SASL, ProtocolId.AMQP]
            plain = Peer(node, credentials=ALICE)
            if tls == "required":
                assert isinstance(await failure(plain), NegotiationFailed)
            else:
                await plain.open()
                await plain.drop()

    check()


def test_a_certificate_of_the_client(files: certificates.Certificates) -> None:
    class Certified(Authenticator):
        mechanisms = ("EXTERNAL",)

        def check_peer(self, peer_name: str) -> str | None:
            return f"{peer_name} with a certificate"

    @asynchronous
    async def check() -> None:
        async with ScriptedNode(ssl=server_context(files, asks=True), authenticator=Certified()) as node:
            credentials = Credentials(external=True)
            peer = await Peer(node, credentials=credentials).open(client_context(files, shows=True))
            assert node.connections[0].user == f"{certificates.CLIENT_NAME} with a certificate"
            await works(peer)
            await peer.drop()

    check()


def test_a_client_that_does_not_speak_tls(files: certificates.Certificates) -> None:
    @asynchronous
    async def check() -> None:
        async with ScriptedNode(ssl=server_context(files)) as node:
            peer = await Peer(node).connect()
            peer.engine.open()
            peer.pump()
            await peer.until(lambda: peer.is_lost)
            assert isinstance(peer.engine.error, ConnectionLost)
            assert not node.frames

    check()


@pytest.mark.parametrize("place", [1, 8, 9, 40])
def test_cuts_are_counted_inside_tls(files: certificates.Certificates, place: int) -> None:
    @asynchronous
    async def check() -> None:
        async with ScriptedNode(ssl=server_context(files)) as node:
            node.script.cut(after_written=place)
            peer = await Peer(node).connect(client_context(files))
            peer.engine.open()
            peer.pump()
            await peer.until(lambda: peer.is_lost)
            assert len(peer.octets) == place

    check()


def test_a_node_with_tls_needs_a_context(tmp_path: Path) -> None:
    options: dict[str, Any] = {"tls": "required"}
    with pytest.raises(LocalError, match="needs ssl"):
        ScriptedNode(**options)


# ---- a broker under a script ----


@pytest.mark.parametrize("start", Start)
def test_a_script_sees_what_is_inside_the_tls_of_a_broker(
    files: certificates.Certificates, start: Start
) -> None:
    tls = TlsFiles(certificate=files.server, key=files.server_key, client_ca=files.authority, start=start)
    config = BrokerConfig(listeners=(ListenerConfig(port=0, tls=tls),), store="memory")

    @asynchronous
    async def check() -> None:
        context = client_context(files, shows=True)
        async with ScriptedBroker(config, passwords=USERS) as broker:
            broker.declare_queue("q")
            if start is Start.AT_ONCE:
                peer = await Peer(broker, credentials=ALICE).open(context)
            else:
                peer = await Peer(broker, credentials=ALICE, header_tls=context).open()
            await works(peer)
            (connection,) = broker.connections
            assert connection.user == "alice"
            assert (
                b"".join(
                    seen.payload
                    for seen in broker.frames
                    if seen.is_sent and isinstance(seen.performative, Transfer)
                )[-300_000:]
                == b"x" * 300_000
            )
            await peer.close()
            await broker.wait_for(lambda: not broker.connections)

    check()
