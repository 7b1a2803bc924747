"""OAUTHBEARER (RFC 7628) and XOAUTH2: tokens, both sides."""

from __future__ import annotations

import pytest

from amqpforge.errors import AuthenticationFailed, LocalError
from amqpforge.sasl import Authenticated, Authenticator, OAuthClient, OAuthServer, SystemFailure
from tests.sasl.exchange import authenticate, done

TOKEN = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="
NAMES = ["OAUTHBEARER", "XOAUTH2"]


class Tokens(Authenticator):
    """Takes one token, of one user."""

    def check_token(self, token: str, username: str) -> str | None:
        return "user@example.com" if token == TOKEN and username in ("", "user@example.com") else None


def test_the_message_of_the_rfc() -> None:
    client = OAuthClient("OAUTHBEARER", lambda: TOKEN, "user@example.com")
    assert done(client.start()) == f"n,a=user@example.com,\x01auth=Bearer {TOKEN}\x01\x01".encode()
    assert done(OAuthClient("OAUTHBEARER", lambda: "t").start()) == b"n,,\x01auth=Bearer t\x01\x01"
    assert done(OAuthClient("OAUTHBEARER", lambda: "t", "a,b=").start()).startswith(b"n,a=a=2Cb=3D,")


def test_the_message_of_xoauth2() -> None:
    client = OAuthClient("XOAUTH2", lambda: TOKEN, "user@example.com")
    assert done(client.start()) == f"user=user@example.com\x01auth=Bearer {TOKEN}\x01\x01".encode()
    with pytest.raises(LocalError, match="XOAUTH2 needs a user name"):
        OAuthClient("XOAUTH2", lambda: TOKEN)


@pytest.mark.parametrize("name", NAMES)
def test_a_valid_token(name: str) -> None:
    client = OAuthClient(name, lambda: TOKEN, "user@example.com")
    assert authenticate(client, OAuthServer(name, Tokens())) == "user@example.com"


def test_a_token_may_name_its_user_itself() -> None:
    client = OAuthClient("OAUTHBEARER", lambda: TOKEN)
    assert authenticate(client, OAuthServer("OAUTHBEARER", Tokens())) == "user@example.com"


@pytest.mark.parametrize(("name", "farewell"), [("OAUTHBEARER", b"\x01"), ("XOAUTH2", b"")])
def test_a_refused_token_is_told_in_a_challenge(name: str, farewell: bytes) -> None:
    client, server = OAuthClient(name, lambda: "old", "user@example.com"), OAuthServer(name, Tokens())
    challenge = done(server.step(done(client.start())))
    assert challenge == b'{"status":"invalid_token"}'
    assert client.step(b'{"status":"invalid_token"}') == farewell
    assert client.remark == "the token was not accepted, status invalid_token"
    with pytest.raises(AuthenticationFailed, match="the token was not accepted"):
        server.step(farewell)
    with pytest.raises(AuthenticationFailed, match="reports success, although the token was not accepted"):
        client.finish(None)
    with pytest.raises(AuthenticationFailed, match="a challenge of 0 octets"):
        client.step(b"")


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b'{"status":7}',
        b'{"status":"\\u001b[31m"}',
        b"\xff",
        b"[" * 100_000,
        b'{"x":1}',
    ],
)
def test_a_refusal_that_says_nothing_fit_to_show(challenge: bytes) -> None:
    client = OAuthClient("OAUTHBEARER", lambda: "old")
    assert client.step(challenge) == b"\x01"
    assert client.remark == "the token was not accepted"


def test_a_long_status_is_cut() -> None:
    client = OAuthClient("OAUTHBEARER", lambda: "old")
    client.step(b'{"status":"' + b"x" * 400 + b'"}')
    assert client.remark == "the token was not accepted, status " + "x" * 60


@pytest.mark.parametrize(
    ("token", "reason"), [("", "the token is empty"), ("a\x01b", "no OAuth token"), ("é", "no OAuth token")]
)
def test_a_token_that_cannot_be_sent(token: str, reason: str) -> None:
    with pytest.raises(LocalError, match=reason):
        done(OAuthClient("OAUTHBEARER", lambda: token).start())


def test_a_callback_that_fails_shows_its_class_only() -> None:
    def fail() -> str:
        raise OSError(f"cannot send {TOKEN}")

    with pytest.raises(SystemFailure, match=r"^the token callback failed with OSError$") as caught:
        done(OAuthClient("OAUTHBEARER", fail).start())
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("OAUTHBEARER", b""),
        ("OAUTHBEARER", b"n,,"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer \x01\x01"),
        ("OAUTHBEARER", b"n,,\x01auth=Basic abc\x01\x01"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer abc\x01"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01"),
        ("OAUTHBEARER", b"n,,\x01host=x\x01\x01"),
        ("OAUTHBEARER", b"p=x,,\x01auth=Bearer abc\x01\x01"),
        ("OAUTHBEARER", b"n,b=c,\x01auth=Bearer abc\x01\x01"),
        ("OAUTHBEARER", b"n,a=b,c,\x01auth=Bearer abc\x01\x01"),
        ("OAUTHBEARER", b"n,a=b=,\x01auth=Bearer abc\x01\x01"),
        ("OAUTHBEARER", b"n\x01auth=Bearer abc\x01\x01"),
        ("OAUTHBEARER", b"n,a=\xff,\x01auth=Bearer abc\x01\x01"),
        ("XOAUTH2", b"n,,\x01auth=Bearer abc\x01\x01"),
        ("XOAUTH2", b"user=x\x01auth=Bearer \xff\x01\x01"),
    ],
)
def test_a_malformed_message_is_refused(name: str, message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        OAuthServer(name, Tokens()).step(message)


def test_host_and_port_may_stand_beside_the_token() -> None:
    message = f"n,a=user@example.com,\x01host=h\x01port=5671\x01auth=bearer {TOKEN}\x01\x01".encode()
    assert done(OAuthServer("OAUTHBEARER", Tokens()).step(message)) == Authenticated("user@example.com")
