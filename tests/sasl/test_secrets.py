"""No password, token or key is shown: not by a repr, not by an error, not by what caused the error."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest

from amqpforge.errors import AmqpforgeError
from amqpforge.sasl import (
    AnonymousServer,
    Credentials,
    OAuthClient,
    OAuthServer,
    PlainClient,
    PlainServer,
    ScramClient,
    ScramKeys,
    ScramServer,
    UserStore,
    choose,
)
from tests.sasl.exchange import authenticate, done

SECRET = "tiptopsecret"
CREDENTIALS = Credentials(username="u", password=SECRET, token=lambda: SECRET)
USERS = UserStore({"u": SECRET}, iterations=4096)


def shown(*objects: object) -> str:
    return " ".join(f"{one!r} {one!s} {one:}" for one in objects)


def test_objects_do_not_show_secrets() -> None:
    clients = [
        choose([name], CREDENTIALS, is_private=True)
        for name in ("PLAIN", "SCRAM-SHA-512", "OAUTHBEARER", "XOAUTH2")
    ]
    started = [done(client.start()) for client in clients]
    assert sum(SECRET.encode() in message for message in started) == 3
    keys = USERS.scram_keys("SCRAM-SHA-256", "u")
    assert keys is not None
    work = PlainServer(USERS).step(b"\0u\0" + SECRET.encode())
    text = shown(CREDENTIALS, USERS, keys, work, work.run(), *clients)
    assert SECRET not in text
    assert repr(keys.stored_key) not in text
    assert repr(keys.server_key) not in text
    assert "username='u'" in text


def wrong_password(client_secret: str) -> Callable[[], object]:
    return lambda: authenticate(PlainClient("u", client_secret), PlainServer(USERS))


@pytest.mark.parametrize(
    "action",
    [
        wrong_password(SECRET + "x"),
        wrong_password(SECRET + "\0"),
        wrong_password(SECRET + chr(0xDC00)),
        lambda: ScramClient("SCRAM-SHA-1", "u", SECRET + "\x07"),
        lambda: ScramClient("SCRAM-SHA-1", "u", SECRET + chr(0xDC00)),
        lambda: UserStore({"u": SECRET + "\x07"}),
        lambda: ScramKeys.derive("SCRAM-SHA-1", SECRET + "\x07"),
        lambda: authenticate(
            ScramClient("SCRAM-SHA-1", "u", SECRET + "x"), ScramServer("SCRAM-SHA-1", USERS)
        ),
        lambda: PlainServer(USERS).step(b"\0u\0" + SECRET.encode() + b"\xff"),
        lambda: PlainServer(USERS).step(SECRET.encode()),
        lambda: AnonymousServer().step(SECRET.encode() + b"\xff"),
        lambda: done(OAuthClient("OAUTHBEARER", lambda: SECRET + "\x01").start()),
        lambda: done(OAuthClient("OAUTHBEARER", lambda: SECRET + chr(0xDC00)).start()),
        lambda: OAuthServer("XOAUTH2", USERS).step(SECRET.encode()),
        lambda: OAuthServer("XOAUTH2", USERS).step(
            b"user=\xff\x01auth=Bearer " + SECRET.encode() + b"\x01\x01"
        ),
        lambda: choose(["PLAIN"], CREDENTIALS, is_private=False),
        lambda: choose(["ANONYMOUS"], CREDENTIALS, is_private=False),
    ],
)
def test_errors_do_not_show_secrets(action: Callable[[], object]) -> None:
    with pytest.raises(AmqpforgeError) as caught:
        action()
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in f"{caught.value!r} {vars(caught.value)}"
