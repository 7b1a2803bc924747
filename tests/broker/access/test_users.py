"""Who a client is: every mechanism against the users, and answers that do not tell who exists."""

from __future__ import annotations

import hashlib
import threading

import pytest

from amqpforge.broker.access import PasswordFile, StoredUser, Users, UsersAuthenticator, make_credentials
from amqpforge.errors import AuthenticationFailed, LocalError
from amqpforge.sasl import (
    AnonymousClient,
    Authenticated,
    Authenticator,
    ClientMechanism,
    Computed,
    ExternalClient,
    PlainClient,
    ScramClient,
    ScramKeys,
    Work,
    offer,
    serve,
)
from tests.sasl.exchange import authenticate, done

FAST = 4096
WRONG = r"^the user does not exist, or what proves it is wrong$"
EVERY = ("EXTERNAL", "SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
USERS = Users.from_passwords({"alice": "pencil", "bob": "rubber"})
SCRYPT_ONLY = make_credentials("carol", "paper", kinds=["scrypt"])


def log_in(client: ClientMechanism, authenticator: Authenticator, peer_name: str | None = None) -> str:
    return authenticate(client, serve(client.name, authenticator, peer_name))


# ---- who gets in ----


@pytest.mark.parametrize("name", ["SCRAM-SHA-512", "SCRAM-SHA-256"])
def test_scram_from_what_is_kept(name: str) -> None:
    authenticator = USERS.authenticator()
    assert log_in(ScramClient(name, "alice", "pencil"), authenticator) == "alice"
    with pytest.raises(AuthenticationFailed):
        log_in(ScramClient(name, "alice", "rubber"), authenticator)


@pytest.mark.parametrize("kinds", [["scrypt"], ["SCRAM-SHA-256"], ["SCRAM-SHA-512", "scrypt"]])
def test_plain_against_either_form(kinds: list[str]) -> None:
    users = Users([make_credentials("alice", "pencil", kinds=kinds, iterations=FAST)])
    authenticator = users.authenticator()
    assert log_in(PlainClient("alice", "pencil"), authenticator) == "alice"
    for name, password in [("alice", "x"), ("nobody", "pencil"), ("alice\x07", "pencil"), ("alice", "\x07")]:
        with pytest.raises(AuthenticationFailed, match=WRONG):
            log_in(PlainClient(name, password), authenticator)


def test_passwords_are_checked_off_the_loop() -> None:
    step = serve("PLAIN", USERS.authenticator(), None).step(b"\0alice\0pencil")
    assert isinstance(step, Work)
    results: list[Computed] = []
    thread = threading.Thread(target=lambda: results.append(step.run()))
    thread.start()
    thread.join(30)
    assert step.resume(results[0]) == Authenticated("alice")


def test_names_are_compared_in_the_form_of_saslprep() -> None:
    users = Users.from_passwords({"\u2163": "pencil"})
    authenticator = users.authenticator()
    assert log_in(PlainClient("IV", "pencil"), authenticator) == "IV"
    assert log_in(ScramClient("SCRAM-SHA-256", "\u2163", "pencil"), authenticator) == "IV"


def test_nobody_acts_for_another_one() -> None:
    authenticator = USERS.authenticator()
    assert log_in(PlainClient("alice", "pencil", "alice"), authenticator) == "alice"
    with pytest.raises(AuthenticationFailed, match="may not act as another"):
        log_in(PlainClient("alice", "pencil", "bob"), authenticator)


def test_a_certificate_stands_for_who_lists_it_or_has_its_name() -> None:
    users = Users([StoredUser("device", certificates=("d1.example", "d2.example")), *USERS])
    authenticator = users.authenticator()
    assert log_in(ExternalClient(), authenticator, "d2.example") == "device"
    assert log_in(ExternalClient(), authenticator, "alice") == "alice"
    with pytest.raises(AuthenticationFailed):
        log_in(ExternalClient(), authenticator, "d3.example")


def test_who_has_a_certificate_only_has_no_password() -> None:
    users = Users([StoredUser("device", certificates=("d1.example",)), SCRYPT_ONLY])
    authenticator = users.authenticator()
    for password in ("x", "paper"):
        assert authenticator.check_password("device", password) is None
    alone = Users([StoredUser("device", certificates=("d1.example",))]).authenticator()
    assert alone.check_password("device", "x") is None


def test_anonymous_clients_are_the_user_of_that_name() -> None:
    authenticator = Users().authenticator(allow_anonymous=True)
    assert log_in(AnonymousClient("alice"), authenticator) == "anonymous"


def test_users_can_be_replaced_while_the_broker_runs() -> None:
    authenticator = USERS.authenticator()
    authenticator.users = Users.from_passwords({"dave": "ink"})
    assert authenticator.check_password("alice", "pencil") is None
    assert authenticator.check_password("dave", "ink") == "dave"
    assert authenticator.scram_keys("SCRAM-SHA-256", "alice") is None


# ---- what is offered ----


def test_what_is_offered_where_others_can_read_and_where_not() -> None:
    authenticator = USERS.authenticator()
    scram = ["SCRAM-SHA-512", "SCRAM-SHA-256"]
    assert offer(authenticator, is_private=False, peer_name=None) == scram
    assert offer(authenticator, is_private=True, peer_name=None) == [*scram, "PLAIN"]
    assert offer(authenticator, is_private=True, peer_name="c") == ["EXTERNAL", *scram, "PLAIN"]
    assert offer(authenticator, is_private=False, peer_name=None, allow_insecure_plain=True) == [
        *scram,
        "PLAIN",
    ]


def test_anonymous_is_offered_only_where_it_is_allowed() -> None:
    assert "ANONYMOUS" not in USERS.authenticator().mechanisms
    assert USERS.authenticator(allow_anonymous=True).mechanisms == (*EVERY, "ANONYMOUS")
    assert USERS.authenticator(["ANONYMOUS", "PLAIN"], allow_anonymous=True).mechanisms == (
        "ANONYMOUS",
        "PLAIN",
    )
    with pytest.raises(LocalError, match="only where anonymous clients are allowed: allow_anonymous"):
        USERS.authenticator(["ANONYMOUS"])


@pytest.mark.parametrize("name", ["SCRAM-SHA-1", "OAUTHBEARER", "LOGIN"])
def test_what_a_broker_cannot_offer(name: str) -> None:
    with pytest.raises(LocalError, match=f"and not {name}$"):
        USERS.authenticator([name])


def test_scram_is_offered_if_it_is_good_for_all() -> None:
    both = Users([*USERS, StoredUser("device", certificates=("d1.example",))])
    assert both.authenticator().mechanisms == EVERY
    mixed = Users([*USERS, SCRYPT_ONLY])
    assert mixed.authenticator().mechanisms == ("EXTERNAL", "PLAIN")
    assert mixed.authenticator(["SCRAM-SHA-256"]).mechanisms == ("SCRAM-SHA-256",)


# ---- who exists is not told ----


class Costs:
    """Counts what is hashed, by the numbers of each hash."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spent: list[tuple[object, ...]] = []
        scrypt, pbkdf2 = hashlib.scrypt, hashlib.pbkdf2_hmac

        def counted_scrypt(password: bytes, *, salt: bytes, n: int, r: int, p: int, **more: int) -> bytes:
            self.spent.append(("scrypt", n, r, p))
            return scrypt(password, salt=salt, n=n, r=r, p=p, **more)

        def counted_pbkdf2(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
            self.spent.append((name, iterations))
            return pbkdf2(name, password, salt, iterations)

        monkeypatch.setattr(hashlib, "scrypt", counted_scrypt)
        monkeypatch.setattr(hashlib, "pbkdf2_hmac", counted_pbkdf2)

    def of(self, authenticator: UsersAuthenticator, name: str) -> list[tuple[object, ...]]:
        self.spent.clear()
        assert authenticator.check_password(name, "wrong") is None
        return list(self.spent)


@pytest.mark.parametrize("users", [USERS, Users([SCRYPT_ONLY])], ids=["SCRAM", "scrypt"])
def test_a_wrong_user_costs_as_much_as_a_wrong_password(
    users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs, authenticator = Costs(monkeypatch), users.authenticator()
    known = costs.of(authenticator, next(iter(users)).name)
    assert len(known) == 1
    assert costs.of(authenticator, "nobody") == known
    assert costs.of(authenticator, "anonymous") == known


def test_where_costs_differ_users_who_do_not_exist_differ_too(monkeypatch: pytest.MonkeyPatch) -> None:
    users = Users([*USERS, SCRYPT_ONLY], secret=bytes(32))
    costs, authenticator = Costs(monkeypatch), users.authenticator()
    spent = {name: tuple(costs.of(authenticator, name)) for name in (f"nobody{i}" for i in range(12))}
    assert set(spent.values()) == {tuple(costs.of(authenticator, name)) for name in ("alice", "carol")}
    assert all(tuple(costs.of(authenticator, name)) == cost for name, cost in list(spent.items())[:3])


def first_answer(authenticator: Authenticator, name: str) -> tuple[bytes, bytes]:
    """Salt and count that SCRAM tells to a client."""
    answer = done(serve("SCRAM-SHA-256", authenticator, None).step(f"n,,n={name},r=abc".encode()))
    assert isinstance(answer, bytes)
    _, salt, count = answer.split(b",")
    return salt, count


def test_scram_answers_alike_for_users_who_do_not_exist() -> None:
    slow = make_credentials("slow", "p", kinds=["SCRAM-SHA-256"], iterations=5000)
    users = Users([slow])
    known, unknown = (first_answer(users.authenticator(), name) for name in ("slow", "nobody"))
    assert known[1] == unknown[1] == b"i=5000"
    assert len(known[0]) == len(unknown[0])
    assert unknown != first_answer(users.authenticator(), "somebody")
    with pytest.raises(AuthenticationFailed, match=WRONG):
        log_in(ScramClient("SCRAM-SHA-256", "nobody", "p"), users.authenticator())


def test_the_salt_of_a_user_who_does_not_exist_outlives_a_restart(tmp_path: object) -> None:
    file = PasswordFile(f"{tmp_path}/users.toml")
    file.add(make_credentials("alice", "p", kinds=["SCRAM-SHA-256"], iterations=FAST))
    before = first_answer(file.authenticator(), "nobody")
    file.add(make_credentials("bob", "p", kinds=["SCRAM-SHA-256"], iterations=FAST))
    assert first_answer(file.authenticator(), "nobody") == before


def test_scram_without_any_keys_answers_too() -> None:
    authenticator = Users([SCRYPT_ONLY]).authenticator(["SCRAM-SHA-256"])
    assert first_answer(authenticator, "carol")[1] == first_answer(authenticator, "nobody")[1]


def test_a_fifth_password_waits_until_one_of_four_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    authenticator = USERS.authenticator()
    five, met = threading.Barrier(5), threading.Event()
    checked: list[str] = []

    def slow(mechanism: str, password: str, *, salt: bytes, iterations: int) -> ScramKeys:
        try:
            five.wait(0.3)
            met.set()
        except threading.BrokenBarrierError:
            checked.append(mechanism)
        return ScramKeys(salt, iterations, bytes(64), bytes(64))

    monkeypatch.setattr(ScramKeys, "derive", slow)
    threads = [threading.Thread(target=authenticator.check_password, args=("alice", "x")) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not met.is_set()
    assert len(checked) == 5


def test_a_user_who_does_not_exist_never_gets_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Users, "decoy", lambda self, name, mechanism=None: USERS.get("alice"))
    authenticator = USERS.authenticator()
    assert authenticator.check_password("nobody", "pencil") is None
    with pytest.raises(AuthenticationFailed, match=WRONG):
        log_in(ScramClient("SCRAM-SHA-256", "nobody", "pencil"), authenticator)


def test_no_password_is_kept_and_none_is_shown() -> None:
    users = Users.from_passwords({"alice": "tiptopsecret"})
    assert "tiptopsecret" not in f"{users!r} {[repr(user) for user in users]} {vars(users)}"
    assert repr(users) == "Users(1 users)"
