"""SCRAM: the vectors of RFC 5802 and RFC 7677, both sides joined, and what either side must not believe."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from amqpforge.errors import AuthenticationFailed, LocalError
from amqpforge.sasl import Authenticated, Authenticator, ScramClient, ScramKeys, ScramServer, UserStore
from tests.sasl.exchange import authenticate, done

MECHANISMS = ["SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512"]

#: Mechanism, client nonce, server nonce, salt, proof, server signature; user "user", password "pencil", 4096.
VECTORS = [
    (
        "SCRAM-SHA-1",
        "fyko+d2lbbFgONRv9qkxdawL",
        "3rfcNHYJY1ZVvWVs7j",
        "QSXCR+Q6sek8bf92",
        "v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        "rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    ),
    (
        "SCRAM-SHA-256",
        "rOprNGfwEbeRWgbNEkqO",
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        "W22ZaJ0SNY7soEsUEjb6gQ==",
        "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
]


class OneUser(Authenticator):
    """Knows one user's keys."""

    def __init__(self, username: str, keys: ScramKeys) -> None:
        self.username, self.keys = username, keys

    def scram_keys(self, mechanism: str, username: str) -> ScramKeys | None:
        return self.keys if username == self.username else None


def store(**users: str) -> UserStore:
    return UserStore(users, iterations=4096)


# ---- the vectors ----


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector[0])
def test_the_exchange_of_the_rfc_as_a_client(vector: tuple[str, ...]) -> None:
    name, client_nonce, server_nonce, salt, proof, server_proof = vector
    client = ScramClient(name, "user", "pencil", nonce=client_nonce)
    nonce = client_nonce + server_nonce
    assert client.start() == f"n,,n=user,r={client_nonce}".encode()
    final = done(client.step(f"r={nonce},s={salt},i=4096".encode()))
    assert final == f"c=biws,r={nonce},p={proof}".encode()
    client.finish(f"v={server_proof}".encode())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector[0])
def test_the_exchange_of_the_rfc_as_a_server(vector: tuple[str, ...]) -> None:
    name, client_nonce, server_nonce, salt, proof, server_proof = vector
    keys = ScramKeys.derive(name, "pencil", salt=base64.b64decode(salt), iterations=4096)
    server = ScramServer(name, OneUser("user", keys), nonce=server_nonce)
    nonce = client_nonce + server_nonce
    challenge = done(server.step(f"n,,n=user,r={client_nonce}".encode()))
    assert challenge == f"r={nonce},s={salt},i=4096".encode()
    ended = done(server.step(f"c=biws,r={nonce},p={proof}".encode()))
    assert ended == Authenticated("user", f"v={server_proof}".encode())


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_keys_are_what_the_formulas_say(name: str) -> None:
    def mac(key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, algorithm).digest()

    algorithm = {"SCRAM-SHA-1": "sha1", "SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[name]
    block = last = mac(b"pencil", b"salt" + b"\0\0\0\1")
    for _ in range(2):
        last = mac(b"pencil", last)
        block = bytes(a ^ b for a, b in zip(block, last, strict=True))
    keys = ScramKeys.derive(name, "pencil", salt=b"salt", iterations=3)
    assert keys.stored_key == hashlib.new(algorithm, mac(block, b"Client Key")).digest()
    assert keys.server_key == mac(block, b"Server Key")


# ---- both sides ----


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize(
    ("username", "password"),
    [("user", "pencil"), ("a,b=c", "p,=w"), ("=2C", "x"), ("\u2168", "\u00aa\u00adz"), ("ü", "→")],
)
def test_both_sides_believe_each_other(name: str, username: str, password: str) -> None:
    client = ScramClient(name, username, password)
    server = ScramServer(name, UserStore({username: password}, iterations=4096))
    assert authenticate(client, server) == ("IX" if username == "\u2168" else username)


def test_prepared_forms_are_equal() -> None:
    client = ScramClient("SCRAM-SHA-256", "IX", "a")
    assert (
        authenticate(client, ScramServer("SCRAM-SHA-256", UserStore({"\u2168": "\u00aa"}, iterations=4096)))
        == "IX"
    )


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize(("username", "password"), [("user", "pen"), ("nobody", "pencil")])
def test_a_wrong_password_and_a_wrong_user_fail_alike(name: str, username: str, password: str) -> None:
    client = ScramClient(name, username, password)
    with pytest.raises(AuthenticationFailed, match=r"^the user does not exist, or what proves it is wrong$"):
        authenticate(client, ScramServer(name, store(user="pencil")))


def test_the_servers_final_message_may_come_as_a_challenge() -> None:
    name = "SCRAM-SHA-256"
    client, server = ScramClient(name, "user", "pencil"), ScramServer(name, store(user="pencil"))
    challenge = done(server.step(done(client.start())))
    assert isinstance(challenge, bytes)
    ended = done(server.step(done(client.step(challenge))))
    assert isinstance(ended, Authenticated)
    assert ended.additional_data is not None
    assert client.step(ended.additional_data) == b""
    client.finish(None)
    with pytest.raises(AuthenticationFailed, match="SCRAM-SHA-256 has none"):
        client.step(ended.additional_data)


def test_acting_for_somebody_else_is_for_the_authenticator_to_allow() -> None:
    class Lenient(UserStore):
        def may_act_as(self, identity: str, authorization_id: str) -> bool:
            return (identity, authorization_id) == ("root", "a,b")

    for kind, works in ((Lenient, True), (UserStore, False)):
        users = kind({"root": "pencil"}, iterations=4096)
        client = ScramClient("SCRAM-SHA-1", "root", "pencil", "a,b")
        if works:
            assert authenticate(client, ScramServer("SCRAM-SHA-1", users)) == "a,b"
        else:
            with pytest.raises(AuthenticationFailed, match="'root' may not act"):
                authenticate(client, ScramServer("SCRAM-SHA-1", users))


# ---- what the client does not believe ----


def client() -> ScramClient:
    made = ScramClient("SCRAM-SHA-256", "user", "pencil", nonce="abc")
    assert made.start() == b"n,,n=user,r=abc"
    return made


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"r=abcd,s=QSXC,i=4095", "4095 iterations of SCRAM-SHA-256; we take 4096 to 10000000"),
        (b"r=abcd,s=QSXC,i=10000001", "10000001 iterations"),
        (b"r=abcd,s=QSXC,i=99999999999999999999", "no number of at most ten digits"),
        (b"r=abcd,s=QSXC,i=-5000", "no number"),
        (b"r=abcd,s=QSXC,i=5_000", "no number"),
        ("r=abcd,s=QSXC,i=\u0665\u0665\u0665\u0665".encode(), "no number"),
        (b"r=abcd,s=QSXC,i=", "no number"),
        (b"r=abc,s=QSXC,i=4096", "nonce does not begin with ours"),
        (b"r=xabcd,s=QSXC,i=4096", "nonce does not begin with ours"),
        (b"r=abcd,s=,i=4096", "salt is empty"),
        (b"r=abcd,s=Q!XC,i=4096", "salt in a SCRAM message is not base64"),
        (b"r=abcd,s=QSXCA,i=4096", "salt in a SCRAM message is not base64"),
        (b"s=QSXC,r=abcd,i=4096", "has not the attributes r, s, i in front"),
        (b"m=new,r=abcd,s=QSXC,i=4096", "has not the attributes"),
        (b"r=abcd,s=QSXC", "has not the attributes"),
        (b"r=abc\xff,s=QSXC,i=4096", "has not the attributes"),
        (b"", "has not the attributes"),
    ],
)
def test_a_challenge_that_is_refused(challenge: bytes, reason: str) -> None:
    with pytest.raises(AuthenticationFailed, match=reason):
        client().step(challenge)


def test_extensions_of_the_server_are_ignored() -> None:
    assert done(client().step(b"r=abcd,s=QSXC,i=4096,x=new")).startswith(b"c=biws,r=abcd,p=")


def test_the_bounds_of_iterations_can_be_moved() -> None:
    low = ScramClient("SCRAM-SHA-1", "u", "p", nonce="abc", min_iterations=1)
    assert done(low.step(b"r=abcd,s=QSXC,i=1")).startswith(b"c=biws")
    capped = ScramClient("SCRAM-SHA-1", "u", "p", nonce="abc", max_iterations=5000)
    with pytest.raises(
        AuthenticationFailed, match=r"5001 iterations .* 4096 to 5000: set min_iterations or max"
    ):
        capped.step(b"r=abcd,s=QSXC,i=5001")


@pytest.mark.parametrize(
    ("final", "reason"),
    [
        (None, "without the proof that SCRAM-SHA-256 asks of it"),
        (b"v=AAAA", "does not know the password"),
        (b"v=" + base64.b64encode(bytes(32)), "does not know the password"),
        (b"v=?", "signature in a SCRAM message is not base64"),
        (b"x=AAAA", "server-final-message of SCRAM has not the attributes v"),
        (b"", "server-final-message"),
        (b"e=unknown-user\x1b[31m" + b"x" * 99, r"refused the SCRAM-SHA-256 exchange: unknown-user\[31mx+$"),
    ],
)
def test_a_success_that_is_not_proven(final: bytes | None, reason: str) -> None:
    proving = client()
    done(proving.step(b"r=abcd,s=QSXC,i=4096"))
    with pytest.raises(AuthenticationFailed, match=reason):
        proving.finish(final)


def test_a_success_before_the_exchange_is_not_believed() -> None:
    with pytest.raises(AuthenticationFailed, match="may not know the password"):
        client().finish(None)
    with pytest.raises(AuthenticationFailed, match="may not know the password"):
        client().finish(b"v=" + base64.b64encode(bytes(32)))


def test_a_success_while_the_work_is_not_done_is_not_believed() -> None:
    waiting = client()
    waiting.step(b"r=abcd,s=QSXC,i=4096")
    with pytest.raises(AuthenticationFailed, match="may not know the password"):
        waiting.finish(b"v=" + base64.b64encode(b""))


@pytest.mark.parametrize(
    ("username", "password", "reason"),
    [
        ("", "p", "the user name is empty"),
        ("u", "", "the password is empty"),
        ("u", "\u00ad", "the password is empty"),
        ("u", "\U0001f600", "the password has a character that Unicode 3.2 has not got"),
        ("u", "a\0", "the password has a character that SASLprep prohibits"),
        ("\u0007", "p", "the user name has a character that SASLprep prohibits"),
    ],
)
def test_credentials_that_scram_cannot_carry(username: str, password: str, reason: str) -> None:
    with pytest.raises(LocalError, match=reason):
        ScramClient("SCRAM-SHA-256", username, password)


def test_the_clients_nonces_differ() -> None:
    first, second = (ScramClient("SCRAM-SHA-1", "u", "p").start() for _ in range(2))
    assert first != second
    assert len(first.rpartition(b"r=")[2]) == 24


# ---- what the server does not believe ----


def server(users: UserStore | None = None) -> ScramServer:
    return ScramServer("SCRAM-SHA-256", users or store(user="pencil"), nonce="SERVER")


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"p=tls-unique,,n=user,r=abc", "channel binding"),
        (b"n,x=y,n=user,r=abc", "GS2 header"),
        (b"n,,n=user", "has not the attributes n, r"),
        (b"n,,m=x,n=user,r=abc", "has not the attributes n, r"),
        (b"n,,n=us\xffer,r=abc", "has not the attributes n, r"),
        (b"n,,n=u=ser,r=abc", "no escape"),
        (b"n,,n=u=2cser,r=abc", "no escape"),
        (b"n,a=\xff,n=user,r=abc", "authorization id is not UTF-8"),
        (b"n,,n=\x07,r=abc", "the user name has a character that SASLprep prohibits"),
        (b"n,,n=user,r=", "nonce is empty"),
        (b"n,,n=user,r=a b", "nonce is empty or not printable"),
        ("n,,n=user,r=\u00e9".encode(), "nonce is empty or not printable"),
        (b"n", "attributes"),
        (b"", "GS2"),
    ],
)
def test_a_first_message_that_is_refused(first: bytes, reason: str) -> None:
    with pytest.raises(AuthenticationFailed, match=reason):
        server().step(first)


def test_a_client_that_could_bind_channels_is_served() -> None:
    assert done(server().step(b"y,,n=user,r=abc,x=ignored")).__class__ is bytes


@pytest.mark.parametrize(
    ("final", "reason"),
    [
        (b"c=biws,r=abcSERVER,p=", "wrong length"),
        (b"c=biws,r=abcSERVER,p=AAAA", "wrong length"),
        (b"c=biws,r=abcSERVER,p=?", "proof in a SCRAM message is not base64"),
        (b"c=biws,r=abcSERVER,p=\xff", "proof is not UTF-8"),
        (b"c=eSws,r=abcSERVER,p=" + base64.b64encode(bytes(32)), "does not belong to its first"),
        (b"c=biws,r=abcSERVERx,p=" + base64.b64encode(bytes(32)), "does not belong to its first"),
        (b"c=biws,r=abcSERVER", "client-final-message of SCRAM has not the attributes c, r"),
        (b"", "client-final-message"),
    ],
)
def test_a_final_message_that_is_refused(final: bytes, reason: str) -> None:
    begun = server()
    done(begun.step(b"n,,n=user,r=abc"))
    with pytest.raises(AuthenticationFailed, match=reason):
        begun.step(final)


def test_a_proof_of_zeros_fails_for_user_and_nobody() -> None:
    for username in (b"user", b"nobody"):
        begun = server()
        done(begun.step(b"n,,n=" + username + b",r=abc"))
        with pytest.raises(AuthenticationFailed, match="does not exist, or"):
            done(begun.step(b"c=biws,r=abcSERVER,p=" + base64.b64encode(bytes(32))))


class Lax(UserStore):
    """Gives those who do not exist keys that a password fits."""

    def decoy_keys(self, mechanism: str, username: str) -> ScramKeys:
        return ScramKeys.derive(mechanism, "pencil")


def test_nobody_is_let_in_by_whatever_keys() -> None:
    users = Lax(iterations=4096)
    assert users.check_password("nobody", "pencil") is None
    with pytest.raises(AuthenticationFailed, match="does not exist, or"):
        authenticate(ScramClient("SCRAM-SHA-1", "nobody", "pencil"), ScramServer("SCRAM-SHA-1", users))


# ---- no enumeration of users ----


def test_an_unknown_user_gets_the_same_salt_each_time_and_as_many_iterations() -> None:
    users = store(user="pencil")
    challenges = [done(server(users).step(b"n,,n=nobody,r=abc")) for _ in range(2)]
    other = done(server(users).step(b"n,,n=nobody2,r=abc"))
    real = done(server(users).step(b"n,,n=user,r=abc"))
    assert challenges[0] == challenges[1] != other
    assert isinstance(real, bytes)
    assert isinstance(other, bytes)
    assert len(real) == len(other)
    assert real.endswith(b",i=4096")
    assert other.endswith(b",i=4096")


def test_the_salts_of_unknown_users_differ_between_mechanisms_and_secrets() -> None:
    users = store()
    salts = {users.decoy_keys(name, "nobody").salt for name in MECHANISMS}
    salts.add(store().decoy_keys("SCRAM-SHA-1", "nobody").salt)
    assert len(salts) == 4
    first, second = store(), store()
    first.secret = second.secret = b"shared"
    assert first.decoy_keys("SCRAM-SHA-1", "x") == second.decoy_keys("SCRAM-SHA-1", "x")
