"""Redirects: followed where that was asked for, and told where it was not."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from amqpforge.client import Reconnect, connect
from amqpforge.client.redirects import RedirectedUrl, redirected
from amqpforge.errors import ConnectionClosed, LinkDetached, LocalError, NegotiationFailed
from amqpforge.testing import ScriptedNode
from amqpforge.url import parse_url
from amqpforge_protocol.amqp_1_0 import Attach, Error, Open, SaslInit, Source, Symbol, Target, UShort
from tests.interop import certificates

from .loops import in_loop

FOLLOW = Reconnect(first_delay=0.001, redirects=1)


def redirect(**info: Any) -> Error:
    """The error of a peer that closes the connection, and says where to go."""
    entries: dict[str, Any] = {Symbol(name.replace("_", "-")): value for name, value in info.items()}
    return Error(condition="amqp:connection:redirect", info=entries)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> certificates.Certificates:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


def server_context(files: certificates.Certificates, names: list[str | None]) -> ssl.SSLContext:
    """A context that notes which names clients ask for."""

    def note(connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        names.append(name)

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.server, files.server_key)
    context.sni_callback = note
    return context


@pytest.mark.spec("T-ERR-021")
@in_loop
async def test_a_redirect_names_the_host_for_open_and_sasl_and_the_machine_apart_from_it() -> None:
    async with ScriptedNode() as node, ScriptedNode(users={"me": "secret"}) as other:
        node.script.on(Open).redirect(other.port, hostname="shop.example")
        url = node.url.replace("amqp://", "amqp://me:secret@")
        async with connect(url, hostname="vhost:a", reconnect=FOLLOW) as connection:
            assert (connection.url.host, connection.url.port) == ("127.0.0.1", other.port)
            assert other.connections[0].user == "me"
        assert [open.hostname for open in node.received(Open)] == ["vhost:a"]
        assert [open.hostname for open in other.received(Open)] == ["shop.example"]
        assert [init.hostname for init in other.received(SaslInit)] == ["shop.example"]


@pytest.mark.spec("T-ERR-021", "T-CONN-065")
@pytest.mark.parametrize("tls", [None, "required"])
@in_loop
async def test_a_redirect_names_the_host_for_tls(files: certificates.Certificates, tls: Any) -> None:
    names: list[str | None] = []
    trusting = ssl.create_default_context(cafile=str(files.authority))
    async with (
        ScriptedNode(ssl=server_context(files, []), tls=tls) as node,
        ScriptedNode(ssl=server_context(files, names), tls=tls) as other,
    ):
        rule = node.script.on(Open).redirect(other.port, hostname="localhost")
        async with connect(node.url, ssl=trusting, reconnect=FOLLOW):
            assert names == ["localhost"]
            assert [open.hostname for open in other.received(Open)] == ["localhost"]
        rule.cancel()
        node.script.on(Open).redirect(other.port, hostname="shop.example")
        with pytest.raises(ConnectionClosed) as caught:  # The certificate is for others.
            await connect(node.url, ssl=trusting, reconnect=FOLLOW)
        assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
        assert names == ["localhost", "shop.example"]
        assert len(other.received(Open)) == 1


@in_loop
async def test_what_began_with_tls_stays_within_tls(files: certificates.Certificates) -> None:
    trusting = ssl.create_default_context(cafile=str(files.authority))
    async with ScriptedNode(ssl=server_context(files, [])) as node, ScriptedNode() as other:
        node.script.on(Open).redirect(other.port)
        with pytest.raises(ConnectionClosed):
            await connect(node.url, ssl=trusting, username="me", password="secret", reconnect=FOLLOW)
        assert other.accepted == 1
        assert not other.received(SaslInit)


@pytest.mark.parametrize("reconnect", [None, Reconnect()])
@in_loop
async def test_a_redirect_is_not_followed_unless_that_was_asked_for(reconnect: Reconnect | None) -> None:
    async with ScriptedNode() as node, ScriptedNode() as other:
        node.script.on(Open).redirect(other.port, hostname="shop.example")
        with pytest.raises(ConnectionClosed) as caught:
            await connect(node.url, reconnect=reconnect)
        told = caught.value.redirect
        assert told is not None
        assert (told.hostname, told.network_host, told.port) == ("shop.example", "127.0.0.1", other.port)
        assert (node.accepted, other.accepted) == (1, 0)


@in_loop
async def test_redirects_in_a_circle_come_to_an_end() -> None:
    async with ScriptedNode() as node:
        node.script.on(Open).redirect(node.port)
        with pytest.raises(ConnectionClosed, match="redirect"):
            await connect(node.url, reconnect=Reconnect(redirects=3))
        assert node.accepted == 4
    with pytest.raises(LocalError, match="redirects"):
        Reconnect(redirects=-1)


@in_loop
async def test_a_connection_that_is_open_moves_with_its_links() -> None:
    async with ScriptedNode() as node, ScriptedNode() as other:
        async with connect(node.url, reconnect=FOLLOW) as connection, connection.sender("q") as sender:
            await sender.send("before")
            node.connections[0].close(redirect(network_host="127.0.0.1", port=UShort(other.port)))
            await node.wait_for(lambda: not node.connections)
            await sender.send("after")
        assert [message.body for message in node.messages("q")] == ["before"]
        assert [message.body for message in other.messages("q")] == ["after"]


@in_loop
async def test_a_connection_that_is_sent_away_for_good_is_given_up() -> None:
    async with ScriptedNode() as node:
        connection = await connect(node.url, reconnect=Reconnect(first_delay=0.001))
        node.script.on(Open).redirect(1, hostname="shop.example")
        node.connections[0].cut()
        with pytest.raises(ConnectionClosed) as caught:
            await connection.wait_closed()
        assert caught.value.redirect is not None
        assert caught.value.redirect.hostname == "shop.example"
        assert node.accepted == 2


@pytest.mark.spec("T-ERR-030")
@pytest.mark.parametrize("is_sender", [True, False])
@in_loop
async def test_a_link_that_is_elsewhere_is_followed_by_a_connection_to_there(is_sender: bool) -> None:
    async with ScriptedNode() as node, ScriptedNode() as other:
        node.script.on(Attach).redirect(other.port, hostname="shop.example", address="elsewhere")
        async with connect(node.url) as connection:
            with pytest.raises(LinkDetached) as caught:
                await (connection.sender("q") if is_sender else connection.receiver("q"))
            assert connection.is_connected
            told = caught.value.redirect
            there = redirected(connection.url, caught.value)
        assert told is not None
        assert there is not None
        async with connect(there) as connection:
            await (connection.sender(told.address) if is_sender else connection.receiver(told.address))
        assert [open.hostname for open in other.received(Open)] == ["shop.example"]
        [attach] = other.received(Attach)
        terminus = attach.target if is_sender else attach.source
        assert isinstance(terminus, Source | Target)
        assert terminus.address == "elsewhere"


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"hostname": "a", "network_host": "10.0.0.1", "port": 7}, ("10.0.0.1", 7, "a")),
        ({"hostname": "a"}, ("a", 5673, "a")),
        ({"network_host": "::1"}, ("::1", 5673, "::1")),
        ({"port": 7}, ("here", 7, "here")),
        ({}, None),
        ({"network_host": "a/b", "hostname": "a"}, None),
        ({"network_host": "me@evil"}, None),
        ({"network_host": "a\r\nb"}, None),
        ({"network_host": "a]:1"}, None),
    ],
)
def test_where_a_redirect_leads(info: dict[str, Any], expected: tuple[str, int, str] | None) -> None:
    url = parse_url("amqps://me:secret@here:5673/vhost")
    there = redirected(url, ConnectionClosed("closed", redirect(**info)))
    if expected is None:
        assert there is None
        return
    assert isinstance(there, RedirectedUrl)
    assert (there.host, there.port, there.hostname) == expected
    assert (there.scheme, there.username, there.password, there.virtual_host) == (
        "amqps",
        "me",
        "secret",
        None,
    )
    assert "secret" not in f"{there} {there!r}"


def test_what_cannot_be_followed() -> None:
    web = parse_url("amqp+wss://here/path")
    assert redirected(web, ConnectionClosed("closed", redirect(hostname="a"))) is None
    assert redirected(parse_url("amqp://here"), NegotiationFailed("closed")) is None
