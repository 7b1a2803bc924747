"""OAUTHBEARER (RFC 7628) and XOAUTH2, its forerunner: an OAuth 2.0 token instead of a password.

A server that refuses a token says why in a challenge; the client answers that with a message without content,
and then the exchange fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from amqpforge.errors import AuthenticationFailed, LocalError

from .scram import decode_name, encode_name
from .steps import Authenticated, ClientMechanism, ServerMechanism, ServerReply, Work, from_utf8, to_utf8

if TYPE_CHECKING:
    from .authenticator import Authenticator

__all__ = ["OAUTH_MECHANISMS", "OAuthClient", "OAuthServer"]

OAUTH_MECHANISMS: Final = ("OAUTHBEARER", "XOAUTH2")
"""The mechanisms that carry a token, the standard one first."""

_SEPARATOR: Final = b"\x01"
_REFUSAL: Final = b'{"status":"invalid_token"}'
_LONGEST_STATUS: Final = 60


class OAuthClient(ClientMechanism):
    """Sends a token as it is: only for a transport that nobody else can read."""

    def __init__(self, name: str, token: Callable[[], str], username: str | None = None) -> None:
        """``token`` gives a token that is valid now; it may take its time.

        Raises:
            LocalError: XOAUTH2 has no user name.
        """
        self.name = name
        self._token = token
        if name == "OAUTHBEARER":
            acting = f"a={encode_name('user name', username)}" if username else ""
            self._front = f"n,{acting},".encode()
        elif username:
            self._front = b"user=" + to_utf8("user name", username)
        else:
            raise LocalError("XOAUTH2 needs a user name beside the token")

    def start(self) -> Work[bytes]:
        return Work("the token callback", self._token, self._message)

    def step(self, challenge: bytes) -> bytes:
        if self.remark:
            super().step(challenge)
        self.remark = _status(challenge)
        return _SEPARATOR if self.name == "OAUTHBEARER" else b""

    def _message(self, token: str) -> bytes:
        octets = to_utf8("token", token)
        if not token.isascii() or not token.isprintable():
            raise LocalError("the token holds characters that no OAuth token has")
        return _SEPARATOR.join((self._front, b"auth=Bearer " + octets, b"", b""))


class OAuthServer(ServerMechanism):
    """Lets the authenticator check a token."""

    def __init__(self, name: str, authenticator: Authenticator) -> None:
        self.name = name
        self._authenticator = authenticator
        self._is_refused = False

    def step(self, response: bytes) -> Work[ServerReply]:
        if self._is_refused:
            raise AuthenticationFailed("the token was not accepted")
        front, *pairs = response.split(_SEPARATOR)
        credential = [pair[5:] for pair in pairs if pair.startswith(b"auth=")]
        scheme, _, token_octets = credential[0].partition(b" ") if len(credential) == 1 else (b"", b"", b"")
        if scheme.lower() != b"bearer" or not token_octets or pairs[-2:] != [b"", b""]:
            raise AuthenticationFailed(f"the {self.name} message holds no bearer token, or is malformed")
        username, token = self._username(front), from_utf8("token", token_octets)
        check = self._authenticator.check_token
        return Work("the check of a token", lambda: check(token, username), self._decide)

    def _username(self, front: bytes) -> str:
        text = from_utf8("user name", front)
        if self.name == "XOAUTH2":
            if text.startswith("user="):
                return text.removeprefix("user=")
        elif text.endswith(","):
            binding, _, acting = text[:-1].partition(",")
            if binding in ("n", "y") and (acting == "" or acting.startswith("a=")) and "," not in acting:
                return decode_name(acting.removeprefix("a="))
        raise AuthenticationFailed(f"the {self.name} message does not begin as it must")

    def _decide(self, identity: str | None) -> ServerReply:
        if identity is None:
            self._is_refused = True
            return _REFUSAL
        return Authenticated(identity)


def _status(challenge: bytes) -> str:
    """What a refusal says in its JSON, bounded and printable."""
    try:
        status = json.loads(challenge)["status"]
    except (ValueError, KeyError, TypeError, RecursionError):
        status = None
    if not isinstance(status, str) or not (status.isascii() and status.isprintable() and status):
        return "the token was not accepted"
    return f"the token was not accepted, status {status[:_LONGEST_STATUS]}"
