"""ANONYMOUS (RFC 4505), PLAIN (RFC 4616) and EXTERNAL (RFC 4422 appendix A): the client sends one message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqpforge.errors import AuthenticationFailed

from .steps import Authenticated, ClientMechanism, ServerMechanism, ServerReply, Work, from_utf8, to_utf8

if TYPE_CHECKING:
    from .authenticator import Authenticator

__all__ = [
    "AnonymousClient",
    "AnonymousServer",
    "ExternalClient",
    "ExternalServer",
    "PlainClient",
    "PlainServer",
]

_ANONYMOUS = "anonymous"


class AnonymousClient(ClientMechanism):
    """Says nothing but a name for the server's log."""

    name = "ANONYMOUS"

    def __init__(self, trace: str | None = None) -> None:
        self._trace = trace or _ANONYMOUS

    def start(self) -> bytes:
        return to_utf8("user name", self._trace)


class AnonymousServer(ServerMechanism):
    """Takes everyone."""

    name = "ANONYMOUS"

    def step(self, response: bytes) -> Authenticated:
        from_utf8("trace information", response)
        return Authenticated(_ANONYMOUS)


class PlainClient(ClientMechanism):
    """Sends user name and password as they are: only for a transport that nobody else can read."""

    name = "PLAIN"

    def __init__(self, username: str, password: str, authorization_id: str | None = None) -> None:
        self._username = username
        self._password = password
        self._authorization_id = authorization_id

    def start(self) -> bytes:
        acting = to_utf8("authorization id", self._authorization_id) if self._authorization_id else b""
        return b"\0".join((acting, to_utf8("user name", self._username), to_utf8("password", self._password)))


class PlainServer(ServerMechanism):
    """Lets the authenticator check a user name and a password."""

    name = "PLAIN"

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    def step(self, response: bytes) -> Work[ServerReply]:
        parts = response.split(b"\0")
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise AuthenticationFailed("the PLAIN message is not three parts, the last two of them not empty")
        acting, username, password = (
            from_utf8(what, part)
            for what, part in zip(("authorization id", "user name", "password"), parts, strict=True)
        )
        check, act = self._authenticator.check_password, self._authenticator.acting
        return Work("the check of a password", lambda: act(check(username, password), acting), Authenticated)


class ExternalClient(ClientMechanism):
    """Points to what the transport has proven: the TLS certificate of the client."""

    name = "EXTERNAL"

    def __init__(self, authorization_id: str | None = None) -> None:
        self._authorization_id = authorization_id

    def start(self) -> bytes:
        return to_utf8("authorization id", self._authorization_id) if self._authorization_id else b""


class ExternalServer(ServerMechanism):
    """Takes the name that TLS has proven."""

    name = "EXTERNAL"

    def __init__(self, authenticator: Authenticator, peer_name: str) -> None:
        self._authenticator = authenticator
        self._peer_name = peer_name

    def step(self, response: bytes) -> Work[ServerReply]:
        acting = from_utf8("authorization id", response)
        check, act, peer_name = self._authenticator.check_peer, self._authenticator.acting, self._peer_name
        return Work("the check of a certificate", lambda: act(check(peer_name), acting), Authenticated)
