"""What is kept of a password: enough to check it, bounded, and never the password itself."""

from __future__ import annotations

import hashlib
import traceback

import pytest

from amqpforge.broker.access import ScryptKey, StoredUser, make_credentials
from amqpforge.errors import LocalError
from amqpforge.sasl import ScramKeys

FAST = 4096


def scrypt_of(password: str, key: ScryptKey) -> bytes:
    return hashlib.scrypt(
        password.encode(), salt=key.salt, n=key.n, r=key.r, p=key.p, dklen=32, maxmem=1 << 27
    )


def test_a_password_is_kept_as_scram_keys_by_default() -> None:
    user = make_credentials("alice", "pencil", iterations=FAST)
    assert set(user.scram) == {"SCRAM-SHA-512", "SCRAM-SHA-256"}
    assert user.scrypt is None
    for mechanism, keys in user.scram.items():
        assert keys == ScramKeys.derive(mechanism, "pencil", salt=keys.salt, iterations=FAST)
    assert user.scram["SCRAM-SHA-512"].salt != user.scram["SCRAM-SHA-256"].salt


def test_a_scrypt_key_is_what_scrypt_gives() -> None:
    user = make_credentials("alice", "pencil", kinds=["scrypt"])
    assert not user.scram
    assert user.scrypt is not None
    assert user.scrypt.key == scrypt_of("pencil", user.scrypt)
    assert (user.scrypt.n, user.scrypt.r) >= (1 << 14, 8)


@pytest.mark.parametrize(
    "kinds", [["scrypt"], ["SCRAM-SHA-256"], ["SCRAM-SHA-512"], ["SCRAM-SHA-256", "scrypt"]]
)
def test_only_the_password_fits(kinds: list[str]) -> None:
    user = make_credentials("alice", "pencil", kinds=kinds, iterations=FAST)
    assert user.fits("pencil")
    assert not user.fits("Pencil")
    assert not StoredUser("alice").fits("pencil")


def test_passwords_are_prepared_alike_in_all_forms() -> None:
    user = make_credentials("\u2163", "\u00aax", kinds=["scrypt"])
    assert user.name == "IV"
    assert user.fits("ax")


@pytest.mark.parametrize(
    ("name", "password", "reason"),
    [
        ("", "p", "user name is empty"),
        ("\u00ad", "p", "user name is empty once"),
        ("a\0b", "p", "user name is empty or holds a NUL"),
        ("\x07", "p", "user name has a character that SASLprep prohibits"),
        ("anonymous", "p", "no user can be named 'anonymous'"),
        ("u" * 256, "p", "256 octets; at most 255"),
        ("u", "", "password is empty"),
        ("u", "tip\x07top", "password has a character that SASLprep prohibits"),
    ],
)
def test_what_cannot_be_kept(name: str, password: str, reason: str) -> None:
    with pytest.raises(LocalError, match=reason) as caught:
        make_credentials(name, password, iterations=FAST)
    assert "tip" not in "".join(traceback.format_exception(caught.value)).replace("tip\\x07top", "")


@pytest.mark.parametrize("kinds", [[], ["md5"], ["SCRAM-SHA-1"]])
def test_a_form_that_is_not_known(kinds: list[str]) -> None:
    with pytest.raises(LocalError, match="kept as one or more of SCRAM-SHA-512, SCRAM-SHA-256, scrypt"):
        make_credentials("u", "p", kinds=kinds)


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ({"n": 1 << 13}, "power of two from 16384"),
        ({"n": (1 << 14) + 1}, "power of two"),
        ({"r": 7}, "r of at least 8"),
        ({"p": 0}, "p of at least 1"),
        ({"n": 1 << 18, "p": 1}, "at most 1048576, not 2097152"),
        ({"r": 1 << 20, "p": 1}, "at most 1048576"),
        ({"p": 9}, "at most 1048576"),
    ],
)
def test_numbers_of_scrypt_are_bounded(numbers: dict[str, int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ScryptKey(bytes(16), bytes(32), **numbers)


def test_the_greatest_numbers_of_scrypt_can_be_computed() -> None:
    key = ScryptKey(bytes(16), bytes(32), 1 << 17, 8, 1)
    assert len(key.hashed("pencil")) == 32


def test_a_new_password_keeps_the_rest() -> None:
    old = make_credentials("alice", "old", kinds=["SCRAM-SHA-256"], iterations=FAST)
    user = StoredUser("alice", old.scram, certificates=("a.example",)).with_password("new")
    assert user.certificates == ("a.example",)
    assert set(user.scram) == {"SCRAM-SHA-256"}
    assert user.fits("new")
    assert not user.fits("old")
    assert set(user.with_password("new", kinds=["SCRAM-SHA-512"]).scram) == {"SCRAM-SHA-512"}


def test_nothing_shows_a_key() -> None:
    user = make_credentials("alice", "pencil", kinds=["scrypt", "SCRAM-SHA-256"], iterations=FAST)
    shown = f"{user!r} {user}"
    assert user.scrypt is not None
    for secret in (user.scrypt.key, user.scrypt.salt, user.scram["SCRAM-SHA-256"].stored_key):
        assert repr(secret) not in shown
    assert "pencil" not in shown
