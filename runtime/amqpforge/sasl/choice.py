"""Which mechanisms a server offers, which of them a client takes, and what then plays either side."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from amqpforge.errors import AuthenticationFailed, LocalError

from .authenticator import Authenticator
from .oauth import OAUTH_MECHANISMS, OAuthClient, OAuthServer
from .scram import ALGORITHMS, MAX_ITERATIONS, MIN_ITERATIONS, ScramClient
from .scram_server import ScramServer
from .simple import AnonymousClient, AnonymousServer, ExternalClient, ExternalServer, PlainClient, PlainServer
from .steps import ClientMechanism, ServerMechanism

__all__ = ["MECHANISMS", "READABLE", "Credentials", "choose", "offer", "serve"]

MECHANISMS: Final = ("EXTERNAL", *OAUTH_MECHANISMS, *ALGORITHMS, "PLAIN", "ANONYMOUS")
"""The mechanisms that are known here, in the order in which a client prefers them."""

READABLE: Final = frozenset(("PLAIN", *OAUTH_MECHANISMS))
"""The mechanisms that show the secret itself to whoever reads the transport, and to the server."""

_MOST_NAMED: Final = 12
_NAME: Final = re.compile(r"[A-Z0-9_-]{1,20}", re.ASCII)  # RFC 4422 section 3.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a client can show to a server.

    Attributes:
        username: who the client is.
        password: for SCRAM and PLAIN.
        token: gives a valid OAuth 2.0 token whenever it is called, in any thread.
        external: the client's TLS certificate tells who it is.
        authorization_id: for whom to act, if that is somebody else.
        mechanisms: take one of these only, the first that the server offers; None: the best one that the
            credentials are good for. Credentials are never given up for ANONYMOUS unless it is named here.
        allow_insecure_plain: send password or token also where others can read the transport.
        min_iterations: refuse SCRAM with a lower count of iterations.
        max_iterations: refuse SCRAM with a higher count, which would only burn our time.
    """

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: Callable[[], str] | None = field(default=None, repr=False)
    external: bool = False
    authorization_id: str | None = None
    mechanisms: tuple[str, ...] | None = None
    allow_insecure_plain: bool = False
    min_iterations: int = MIN_ITERATIONS
    max_iterations: int = MAX_ITERATIONS

    def __post_init__(self) -> None:
        """Raises LocalError if ``mechanisms`` names one that is not known."""
        _check_names(self.mechanisms or ())


def _check_names(names: Iterable[str]) -> None:
    unknown = [name for name in names if name not in MECHANISMS]
    if unknown:
        known = ", ".join(MECHANISMS)
        raise LocalError(f"no such SASL mechanism: {', '.join(unknown)}; known are {known}")


def choose(offered: Iterable[str], credentials: Credentials, *, is_private: bool) -> ClientMechanism:
    """The client's side of the mechanism that the client prefers among those that the server offers.

    Args:
        offered: the names that the server listed.
        credentials: what the client has.
        is_private: nobody else can read the transport: it is encrypted, or does not leave this machine.

    Raises:
        LocalError: the credentials would have to be sent where others can read them; or they are not usable.
        AuthenticationFailed: none of the mechanisms fits the credentials.
    """
    names = set(offered)
    obstacles: dict[str, str] = {}
    is_readable = not (is_private or credentials.allow_insecure_plain)
    for name in credentials.mechanisms or MECHANISMS:
        if name not in names:
            continue
        obstacle = _obstacle(name, credentials)
        if obstacle is None and not (is_readable and name in READABLE):
            return _make(name, credentials)
        obstacles[name] = obstacle or ""
    exposed = [name for name, obstacle in obstacles.items() if not obstacle]
    if exposed:
        raise LocalError(
            f"of what the server offers only {' or '.join(exposed)} would do, which sends the secret as it "
            "is, and the connection has no TLS: use TLS (amqps), or set allow_insecure_plain if you trust "
            "the network"
        )
    raise AuthenticationFailed(_no_match(names, credentials, obstacles))


def _obstacle(name: str, credentials: Credentials) -> str | None:
    """Why the credentials are no good for a mechanism."""
    if name == "EXTERNAL":
        return None if credentials.external else "a client certificate, and external to be set"
    if name in OAUTH_MECHANISMS:
        if credentials.token is None:
            return "a token"
        return "a user name" if name == "XOAUTH2" and not credentials.username else None
    if name == "ANONYMOUS":
        has_any = credentials.password is not None or credentials.token is not None or credentials.external
        is_meant = not has_any or credentials.mechanisms
        return None if is_meant else "to be named in mechanisms, because there are credentials"
    return None if credentials.username and credentials.password else "a user name and a password"


def _no_match(names: set[str], credentials: Credentials, obstacles: dict[str, str]) -> str:
    shown = sorted(name for name in names if _NAME.fullmatch(name))[:_MOST_NAMED]
    parts = [f"{name} needs {need}" for name, need in obstacles.items()]
    if credentials.mechanisms:
        parts.append(f"mechanisms allows {', '.join(credentials.mechanisms)}")
    reasons = f": {'; '.join(parts)}" if parts else ""
    return f"no SASL mechanism in common; the server offers {', '.join(shown) or 'none'}{reasons}"


def _make(name: str, credentials: Credentials) -> ClientMechanism:
    username, password = credentials.username, credentials.password
    if name in OAUTH_MECHANISMS and credentials.token is not None:
        return OAuthClient(name, credentials.token, username)
    if name in ALGORITHMS:
        return ScramClient(
            name,
            username or "",
            password or "",
            credentials.authorization_id,
            min_iterations=credentials.min_iterations,
            max_iterations=credentials.max_iterations,
        )
    if name == "PLAIN":
        return PlainClient(username or "", password or "", credentials.authorization_id)
    if name == "EXTERNAL":
        return ExternalClient(credentials.authorization_id)
    return AnonymousClient(username)


def offer(
    authenticator: Authenticator,
    *,
    is_private: bool,
    peer_name: str | None,
    allow_insecure_plain: bool = False,
) -> list[str]:
    """The mechanisms that a server offers to one client.

    Args:
        authenticator: names the mechanisms.
        is_private: nobody else can read the transport.
        peer_name: the name that the client's TLS certificate has proven, None without one.
        allow_insecure_plain: offer PLAIN and tokens also where others can read the transport.

    Raises:
        LocalError: the authenticator names a mechanism that is not known.
    """
    _check_names(authenticator.mechanisms)
    return [
        name
        for name in authenticator.mechanisms
        if (name not in READABLE or is_private or allow_insecure_plain)
        and (name != "EXTERNAL" or peer_name is not None)
    ]


def serve(name: str, authenticator: Authenticator, peer_name: str | None) -> ServerMechanism:
    """The server's side of a mechanism out of :func:`offer`."""
    if name in OAUTH_MECHANISMS:
        return OAuthServer(name, authenticator)
    if name in ALGORITHMS:
        return ScramServer(name, authenticator)
    if name == "PLAIN":
        return PlainServer(authenticator)
    if name == "EXTERNAL":
        return ExternalServer(authenticator, peer_name or "")
    return AnonymousServer()
