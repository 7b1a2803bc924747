"""ANONYMOUS, PLAIN and EXTERNAL: their one message, both sides."""

from __future__ import annotations

import pytest

from amqpforge.errors import AuthenticationFailed, LocalError
from amqpforge.sasl import (
    AnonymousClient,
    AnonymousServer,
    Authenticated,
    Authenticator,
    ExternalClient,
    ExternalServer,
    PlainClient,
    PlainServer,
    UserStore,
)
from tests.sasl.exchange import authenticate, done

USERS = UserStore({"tim": "tanstaaftanstaaf", "ü": "→"}, iterations=4096)


class Acting(UserStore):
    """Lets root act for everyone."""

    def may_act_as(self, identity: str, authorization_id: str) -> bool:
        return identity == "root"


# ---- ANONYMOUS ----


def test_anonymous() -> None:
    assert AnonymousClient().start() == b"anonymous"
    assert AnonymousClient("tim").start() == b"tim"
    assert authenticate(AnonymousClient("tim"), AnonymousServer()) == "anonymous"
    assert AnonymousServer().step(b"") == Authenticated("anonymous")
    with pytest.raises(AuthenticationFailed, match="not UTF-8"):
        AnonymousServer().step(b"\xff")


# ---- PLAIN ----


def test_the_messages_of_the_rfc() -> None:
    assert PlainClient("tim", "tanstaaftanstaaf").start() == b"\0tim\0tanstaaftanstaaf"
    assert PlainClient("Kurt", "xipj3plmq", "Ursel").start() == b"Ursel\0Kurt\0xipj3plmq"


@pytest.mark.parametrize(("username", "password"), [("tim", "tanstaaftanstaaf"), ("ü", "→")])
def test_a_right_password(username: str, password: str) -> None:
    assert authenticate(PlainClient(username, password), PlainServer(USERS)) == username


@pytest.mark.parametrize(
    ("username", "password"),
    [("tim", "wrong"), ("nobody", "tanstaaftanstaaf"), ("tim", "\x07"), ("\x07", "x"), ("tim", "\u00ad")],
)
def test_a_wrong_password_or_user(username: str, password: str) -> None:
    with pytest.raises(AuthenticationFailed, match=r"^the user does not exist, or what proves it is wrong$"):
        authenticate(PlainClient(username, password), PlainServer(USERS))


def test_plain_for_somebody_else() -> None:
    users = Acting({"root": "r", "tim": "t"}, iterations=4096)
    assert authenticate(PlainClient("root", "r", "tim"), PlainServer(users)) == "tim"
    with pytest.raises(AuthenticationFailed, match="'tim' may not act as another one"):
        authenticate(PlainClient("tim", "t", "root"), PlainServer(users))
    assert authenticate(PlainClient("tim", "tanstaaftanstaaf", "tim"), PlainServer(USERS)) == "tim"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"tim",
        b"\0tim",
        b"\0tim\0",
        b"\0\0x",
        b"\0tim\0x\0",
        b"\xff\0tim\0x",
        b"\0\xff\0x",
        b"\0tim\0\xff",
    ],
)
def test_a_malformed_message_is_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed, match=r"PLAIN message|not UTF-8"):
        PlainServer(USERS).step(message)


@pytest.mark.parametrize(
    ("username", "password", "reason"),
    [
        ("", "p", "the user name is empty"),
        ("u", "", "the password is empty"),
        ("u\0", "p", "the user name holds a NUL"),
        ("u", "p\0w", "the password holds a NUL"),
        ("u", "p" + chr(0xD800), "the password holds a surrogate"),
    ],
)
def test_credentials_that_plain_cannot_carry(username: str, password: str, reason: str) -> None:
    with pytest.raises(LocalError, match=reason):
        PlainClient(username, password).start()


def test_plain_has_no_challenge() -> None:
    with pytest.raises(AuthenticationFailed, match="a challenge of 3 octets, and PLAIN has none"):
        PlainClient("tim", "x").step(b"why")


# ---- EXTERNAL ----


def test_external_takes_the_name_that_tls_has_proven() -> None:
    assert ExternalClient().start() == b""
    assert ExternalClient("tim").start() == b"tim"
    assert authenticate(ExternalClient(), ExternalServer(USERS, "tim")) == "tim"
    assert authenticate(ExternalClient("tim"), ExternalServer(USERS, "tim")) == "tim"


def test_external_of_a_stranger_or_for_somebody_else() -> None:
    with pytest.raises(AuthenticationFailed, match="does not exist"):
        authenticate(ExternalClient(), ExternalServer(USERS, "eve"))
    with pytest.raises(AuthenticationFailed, match="'tim' may not act"):
        authenticate(ExternalClient("ü"), ExternalServer(USERS, "tim"))
    with pytest.raises(AuthenticationFailed, match="does not exist"):
        authenticate(ExternalClient("tim"), ExternalServer(Authenticator(), "tim"))


def test_a_work_is_done_apart_from_the_exchange() -> None:
    asked: list[str] = []

    class Recording(Authenticator):
        def check_peer(self, peer_name: str) -> str | None:
            asked.append(peer_name)
            return "mapped"

    work = ExternalServer(Recording(), "CN=tim").step(b"")
    assert asked == []
    assert done(work) == Authenticated("mapped")
    assert asked == ["CN=tim"]
