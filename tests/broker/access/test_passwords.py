"""The file of users: what it holds, what is refused with its place, and changes that are whole or not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import stat
from pathlib import Path

import pytest

from amqpforge.broker.access import PasswordFile, StoredUser, Users, make_credentials
from amqpforge.broker.toml_tables import TomlError
from amqpforge.errors import LocalError
from amqpforge.sasl import Authenticated, ScramServer
from tests.sasl.exchange import done

FAST = 4096
B16, B32, B64 = (base64.b64encode(bytes(size)).decode() for size in (16, 32, 64))
SCRAM_256 = f'{{ salt = "{B16}", iterations = 4096, stored_key = "{B32}", server_key = "{B32}" }}'
SCRYPT = f'{{ salt = "{B16}", n = 16384, r = 8, p = 1, key = "{B32}" }}'


def entry(name: str, password: str = "p") -> StoredUser:
    return make_credentials(name, password, kinds=["SCRAM-SHA-256"], iterations=FAST)


@pytest.fixture
def file(tmp_path: Path) -> PasswordFile:
    return PasswordFile(tmp_path / "users.toml")


# ---- what is read ----


def test_the_exchange_of_rfc_7677_with_keys_from_a_file(file: PasswordFile) -> None:
    salt = "W22ZaJ0SNY7soEsUEjb6gQ=="
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", base64.b64decode(salt), 4096)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    stored_text, server_text = (base64.b64encode(key).decode() for key in (stored, server_key))
    file.path.write_text(
        f'[users.user]\nSCRAM-SHA-256 = {{ salt = "{salt}", iterations = 4096, stored_key = "{stored_text}", '
        f'server_key = "{server_text}" }}\n'
    )
    server = ScramServer("SCRAM-SHA-256", file.authenticator(), nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert done(server.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")) == f"r={nonce},s={salt},i=4096".encode()
    final = f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    proven = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert done(server.step(final.encode())) == Authenticated("user", proven)


A = "[users.a]\n"
CERT = 'certificates = ["{}"]\n'


def scram(old: str, new: str) -> str:
    """A user whose keys are not as they should be."""
    return f"{A}SCRAM-SHA-256 = {SCRAM_256.replace(old, new)}"


def scrypt(old: str, new: str) -> str:
    return f"{A}scrypt = {SCRYPT.replace(old, new)}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = 1", "x: is not known here; known are secret, users"),
        ('secret = "!"', "secret: is not base64"),
        ('secret = "AAAA"', "secret: has 3 octets; possible is 16 to 64"),
        ("users = 5", "users: is a whole number, not a table"),
        ("[users]\na = 5", "users.a: is a whole number, not a table"),
        (A, "users.a: needs one of SCRAM-SHA-512, SCRAM-SHA-256, scrypt, certificates"),
        (A + 'password = "x"', "users.a.password: a password is never kept as it is"),
        (f"{A}scrypt = {SCRYPT}\nnote = 1", "users.a.note: is not known here; known are SCRAM-SHA-256, "),
        (f'[users."a\\u00ad"]\nscrypt = {SCRYPT}', "is not in the form that SASLprep gives it"),
        (f"[users.anonymous]\nscrypt = {SCRYPT}", "users.anonymous: no user can be named"),
        (scrypt("16384", "268435456"), "users.a.scrypt.n: is 268435456; possible is 1 to 1048576"),
        (scrypt("16384", "1048576"), "users.a.scrypt: n * r * p of scrypt is at most 1048576"),
        (scrypt("n = 16384, ", ""), "users.a.scrypt: n of scrypt is a power of two"),
        (scrypt(B32, B16), "users.a.scrypt.key: has 16 octets; possible is 32"),
        (scram("4096", "4095"), "users.a.SCRAM-SHA-256.iterations: is 4095; possible is 4096 to 1000000"),
        (scram("4096", "1000001"), "users.a.SCRAM-SHA-256.iterations: is 1000001; possible is 4096 to"),
        (scram("4096", "true"), "iterations: is true or false, not a whole number"),
        (
            scram("SCRAM", "SCRAM").replace("256", "512"),
            "SCRAM-SHA-512.stored_key: has 32 octets; possible is 64",
        ),
        (scram("SCRAM", "SCRAM").replace("256", "1"), "users.a.SCRAM-SHA-1: is not known here"),
        (A + "SCRAM-SHA-256 = {}", "users.a.SCRAM-SHA-256.iterations: is missing"),
        (A + CERT.format("a\\n"), "users.a.certificates: a name is 1 to 255 octets of printable"),
        (A + "certificates = [1]", "users.a.certificates[0]: is a whole number, not a string"),
        (A + CERT.format("c") + "[users.b]\n" + CERT.format("c"), "'c' stands for both 'b' and 'a'"),
        (A + CERT.format("b") + "[users.b]\n" + CERT.format("c"), "'b' stands for both 'a' and 'b'"),
        (A + A, "is no TOML: "),
        ("= 1", "is no TOML: Invalid statement (at line 1, column 1)"),
    ],
)
def test_what_is_refused_with_its_place(file: PasswordFile, text: str, problem: str) -> None:
    file.path.write_text(text)
    with pytest.raises(TomlError) as caught:
        file.read()
    assert str(caught.value).startswith(f"{file.path}: ")
    assert problem in str(caught.value)


def test_a_file_that_is_not_there_not_text_or_too_large(file: PasswordFile) -> None:
    with pytest.raises(TomlError, match=r"users\.toml: cannot be read: No such file"):
        file.read()
    file.path.write_bytes(b"# \xff")
    with pytest.raises(TomlError, match="is not UTF-8 at octet 2"):
        file.read()
    with file.path.open("wb") as large:
        large.truncate((1 << 24) + 1)
    with pytest.raises(TomlError, match="has more than 16777216 octets"):
        file.read()


# ---- what is written ----


def test_users_are_added_changed_and_removed(file: PasswordFile) -> None:
    file.add(entry("alice", "one"))
    file.add(
        make_credentials("böb \"the\" \\ 'man'", "two", kinds=["scrypt", "SCRAM-SHA-512"], iterations=FAST)
    )
    first = file.read()
    file.change("alice", lambda user: user.with_password("three"))
    users = file.read()
    assert [user.name for user in users] == ["alice", "böb \"the\" \\ 'man'"]
    assert users.secret == first.secret
    bob = users.get("böb \"the\" \\ 'man'")
    assert bob is not None
    assert bob == first.get(bob.name)
    assert bob.fits("two")
    authenticator = file.authenticator()
    assert authenticator.check_password("alice", "three") == "alice"
    assert authenticator.check_password("alice", "one") is None
    file.remove("alice")
    assert [user.name for user in file.read()] == [bob.name]


def test_what_is_written_is_read_the_same(file: PasswordFile) -> None:
    made = make_credentials("alice", "p", kinds=["scrypt", "SCRAM-SHA-512", "SCRAM-SHA-256"], iterations=FAST)
    user = StoredUser("alice", made.scram, made.scrypt, ("a.example", "CN=ä"))
    file.add(user)
    assert file.read().get("alice") == user
    assert '"p"' not in file.path.read_text(encoding="utf-8")


def test_only_the_owner_can_read_the_file(file: PasswordFile) -> None:
    file.path.write_text("")
    file.path.chmod(0o644)
    file.add(entry("alice"))
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_the_file_keeps_its_owner(file: PasswordFile) -> None:
    file.add(entry("alice"))
    os.chown(file.path, 12345, 54321)
    file.remove("alice")
    assert (file.path.stat().st_uid, file.path.stat().st_gid) == (12345, 54321)


def test_a_change_that_is_not_possible_changes_nothing(file: PasswordFile) -> None:
    file.add(entry("alice"))
    before = file.path.read_bytes()
    with pytest.raises(LocalError, match="has a user 'alice' already"):
        file.add(entry("alice"))
    with pytest.raises(LocalError, match="has no user 'bob'"):
        file.remove("bob")
    with pytest.raises(LocalError, match="has no user 'bob'"):
        file.change("bob", lambda user: user)
    assert file.path.read_bytes() == before
    assert [path.name for path in file.path.parent.iterdir()] == ["users.toml"]


def test_a_file_with_a_fault_is_not_written_over(file: PasswordFile) -> None:
    file.path.write_text("[users.a]\n")
    with pytest.raises(TomlError, match=r"users\.a: needs one of"):
        file.add(entry("alice"))
    assert file.path.read_text() == "[users.a]\n"
    assert [path.name for path in file.path.parent.iterdir()] == ["users.toml"]


def test_two_changes_at_once_lose_nothing(file: PasswordFile) -> None:
    file.add(entry("alice"))

    def meanwhile(user: StoredUser) -> StoredUser:
        with pytest.raises(
            LocalError, match=r"is being changed by another process.*remove .*users\.toml\.new"
        ):
            file.add(entry("bob"))
        return user.with_password("new")

    file.change("alice", meanwhile)
    file.add(entry("bob"))
    assert [user.name for user in file.read()] == ["alice", "bob"]
    assert file.authenticator().check_password("alice", "new") == "alice"


def test_the_file_is_on_the_disk_before_it_takes_the_name(
    file: PasswordFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, os.replace

    def noted_fsync(handle: int) -> None:
        calls.append("fsync")
        fsync(handle)

    def noted_rename(old: Path, new: Path) -> None:
        calls.append("replace")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_rename)
    file.add(entry("alice"))
    assert calls[:2] == ["fsync", "replace"]


def test_a_full_disk_leaves_the_old_file(file: PasswordFile, monkeypatch: pytest.MonkeyPatch) -> None:
    file.add(entry("alice"))

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LocalError, match="cannot be changed: No space left on device"):
        file.add(entry("bob"))
    assert [user.name for user in file.read()] == ["alice"]
    assert [path.name for path in file.path.parent.iterdir()] == ["users.toml"]


def test_a_link_to_the_file_stays_a_link(file: PasswordFile, tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(file.path)
    PasswordFile(link).add(entry("alice"))
    assert link.is_symlink()
    assert "alice" in file.read()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"users\.toml cannot be changed: .*No such file or directory"):
        PasswordFile(tmp_path / "none" / "users.toml").add(entry("alice"))


def test_no_user_is_in_it_twice() -> None:
    with pytest.raises(LocalError, match="two users named 'alice'"):
        Users([entry("alice"), entry("alice")])
