"""Which mechanism a client takes, what a server offers, and when secrets are not sent."""

from __future__ import annotations

import pytest

from amqpforge.errors import AuthenticationFailed, LocalError
from amqpforge.sasl import MECHANISMS, Authenticator, Credentials, UserStore, choose, offer, serve

USER = Credentials(username="u", password="p")
TOKEN = Credentials(username="u", token=lambda: "t")
ALL = [*reversed(MECHANISMS), "GSSAPI"]


def chosen(credentials: Credentials, *offered: str, is_private: bool = True) -> str:
    return choose(offered, credentials, is_private=is_private).name


@pytest.mark.parametrize(
    ("credentials", "name"),
    [
        (Credentials(), "ANONYMOUS"),
        (Credentials(username="u"), "ANONYMOUS"),
        (USER, "SCRAM-SHA-512"),
        (TOKEN, "OAUTHBEARER"),
        (Credentials(username="u", password="p", token=lambda: "t"), "OAUTHBEARER"),
        (Credentials(external=True), "EXTERNAL"),
        (Credentials(username="u", password="p", external=True), "EXTERNAL"),
        (Credentials(username="u", password="p", mechanisms=("PLAIN", "SCRAM-SHA-1")), "PLAIN"),
        (Credentials(username="u", password="p", mechanisms=("ANONYMOUS",)), "ANONYMOUS"),
    ],
)
def test_the_best_of_all_mechanisms(credentials: Credentials, name: str) -> None:
    assert chosen(credentials, *ALL) == name


def test_the_preference_is_the_clients() -> None:
    order = ["SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN"]
    for index, name in enumerate(order):
        assert chosen(USER, *reversed(order[index:]), "ANONYMOUS") == name
    assert chosen(TOKEN, "XOAUTH2", "PLAIN") == "XOAUTH2"


@pytest.mark.parametrize("name", ["PLAIN", "OAUTHBEARER", "XOAUTH2"])
def test_a_secret_is_not_sent_where_others_can_read_it(name: str) -> None:
    given = Credentials(username="u", password="p", token=lambda: "t")
    with pytest.raises(
        LocalError, match=rf"only {name} would do, .* use TLS \(amqps\), or set allow_insecure_plain"
    ):
        chosen(given, name, "ANONYMOUS", is_private=False)
    assert chosen(given, name, is_private=True) == name
    insecure = Credentials(username="u", password="p", token=lambda: "t", allow_insecure_plain=True)
    assert chosen(insecure, name, is_private=False) == name


def test_scram_is_taken_instead_where_others_can_read() -> None:
    assert chosen(USER, "PLAIN", "SCRAM-SHA-1", is_private=False) == "SCRAM-SHA-1"
    both = Credentials(username="u", password="p", token=lambda: "t")
    assert chosen(both, "OAUTHBEARER", "SCRAM-SHA-1", is_private=False) == "SCRAM-SHA-1"


@pytest.mark.parametrize(
    ("credentials", "offered", "reason"),
    [
        (
            USER,
            ["ANONYMOUS"],
            "offers ANONYMOUS: ANONYMOUS needs to be named in mechanisms, because there are",
        ),
        (USER, ["EXTERNAL"], "EXTERNAL needs a client certificate"),
        (USER, ["GSSAPI", "MSSBCBS"], "the server offers GSSAPI, MSSBCBS$"),
        (USER, [], "the server offers none$"),
        (
            Credentials(),
            ["PLAIN", "XOAUTH2"],
            "XOAUTH2 needs a token; PLAIN needs a user name and a password",
        ),
        (Credentials(token=lambda: "t"), ["XOAUTH2"], "XOAUTH2 needs a user name"),
        (Credentials(username="u"), ["SCRAM-SHA-1"], "SCRAM-SHA-1 needs a user name and a password"),
        (Credentials(mechanisms=("PLAIN",)), ["ANONYMOUS"], "offers ANONYMOUS: mechanisms allows PLAIN"),
        (Credentials(external=True), ["ANONYMOUS"], "ANONYMOUS needs to be named"),
        (USER, ["\x1b[31m", "low", "X" * 21], "the server offers none$"),
    ],
)
def test_why_nothing_fits(credentials: Credentials, offered: list[str], reason: str) -> None:
    with pytest.raises(AuthenticationFailed, match=reason):
        choose(offered, credentials, is_private=True)


def test_an_unknown_name_is_an_error_at_once() -> None:
    with pytest.raises(
        LocalError, match="no such SASL mechanism: SCRAM-SHA-224; known are EXTERNAL, OAUTHBEARER"
    ):
        Credentials(mechanisms=("PLAIN", "SCRAM-SHA-224"))


def test_the_bounds_of_iterations_reach_scram() -> None:
    given = Credentials(username="u", password="p", min_iterations=10, max_iterations=20)
    client = choose(["SCRAM-SHA-1"], given, is_private=True)
    first = client.start()
    assert isinstance(first, bytes)
    nonce = first.rpartition(b"r=")[2]
    with pytest.raises(AuthenticationFailed, match="21 iterations of SCRAM-SHA-1; we take 10 to 20"):
        client.step(b"r=" + nonce + b"x,s=QSXC,i=21")


@pytest.mark.parametrize(
    ("is_private", "peer_name", "allowed", "names"),
    [
        (False, None, False, ["ANONYMOUS", "SCRAM-SHA-1"]),
        (False, None, True, ["ANONYMOUS", "PLAIN", "XOAUTH2", "SCRAM-SHA-1"]),
        (True, None, False, ["ANONYMOUS", "PLAIN", "XOAUTH2", "SCRAM-SHA-1"]),
        (True, "CN=x", False, ["ANONYMOUS", "PLAIN", "EXTERNAL", "XOAUTH2", "SCRAM-SHA-1"]),
    ],
)
def test_what_a_server_offers(
    is_private: bool, peer_name: str | None, allowed: bool, names: list[str]
) -> None:
    users = UserStore(mechanisms=["ANONYMOUS", "PLAIN", "EXTERNAL", "XOAUTH2", "SCRAM-SHA-1"])
    assert offer(users, is_private=is_private, peer_name=peer_name, allow_insecure_plain=allowed) == names


def test_a_server_cannot_offer_what_is_not_known() -> None:
    with pytest.raises(LocalError, match="no such SASL mechanism: LOGIN"):
        offer(UserStore(mechanisms=["LOGIN"]), is_private=True, peer_name=None)
    assert offer(Authenticator(), is_private=True, peer_name=None) == []


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_has_a_servers_side(name: str) -> None:
    assert serve(name, Authenticator(), "peer").name == name
