"""The file of users: what is kept of their passwords, as TOML that commands write and people can read.

    secret = "..."

    [users."alice"]
    SCRAM-SHA-512 = { salt = "...", iterations = 65536, stored_key = "...", server_key = "..." }
    scrypt = { salt = "...", n = 16384, r = 8, p = 5, key = "..." }
    certificates = ["alice.example"]

Octets are in base64. A user has at least one of ``SCRAM-SHA-512``, ``SCRAM-SHA-256``, ``scrypt`` and
``certificates``. ``secret`` is what answers for users who do not exist are made from. There is no place for a
password. Each number is bounded, so that no file makes a login cost more than 128 MiB or some seconds.
"""

from __future__ import annotations

import json
import os
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from amqpforge.broker.toml_tables import Table, read_toml
from amqpforge.errors import LocalError
from amqpforge.sasl import ScramKeys
from amqpforge.sasl.scram import ALGORITHMS, MIN_ITERATIONS, to_base64

from .credentials import MOST_NAME, SCRAM_KINDS, ScryptKey, StoredUser, check_name
from .users import Users, UsersAuthenticator

__all__ = ["MOST_ITERATIONS", "PasswordFile"]

MOST_ITERATIONS: Final = 1_000_000
"""Of SCRAM in a file: about a second for a login with PLAIN."""

_HASH_SIZES: Final = {"sha512": 64, "sha256": 32}
_HEAD: Final = """\
# The users of an amqpforge broker, and what checks their passwords; no password itself.
# Commands write this file anew, and keep no comment but this one.
"""


class PasswordFile:
    """A file of users. A change replaces it as a whole, and who reads it meanwhile reads the old one.

    Two changes at the same time are told apart by the file ``NAME.new``, which the first one makes: the other
    fails, and nothing of either is lost.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"PasswordFile({str(self.path)!r})"

    def read(self) -> Users:
        """The users in the file.

        Raises:
            TomlError: it cannot be read, or says something impossible; names the file and the place in it.
        """
        top = read_toml(self.path)
        secret = _octets(top, "secret", 16, 64) if "secret" in top else None
        table = top.table("users")
        names = list(table.names())
        users = [_read_user(name, table.table(name)) for name in names]
        table.finish()
        top.finish()
        try:
            return Users(users, secret=secret)
        except LocalError as error:
            raise table.error(str(error)) from None

    def authenticator(
        self, mechanisms: Sequence[str] | None = None, *, allow_anonymous: bool = False
    ) -> UsersAuthenticator:
        """What decides for the users who are in the file now. See :class:`.users.UsersAuthenticator`.

        Raises:
            LocalError: as :meth:`read` and the authenticator.
        """
        return self.read().authenticator(mechanisms, allow_anonymous=allow_anonymous)

    def add(self, user: StoredUser) -> None:
        """Add a user; the file is made if it is not there.

        Raises:
            LocalError: there is one of that name; or the file cannot be read or written.
        """
        with self._changing() as users:
            if user.name in users:
                raise LocalError(f"{self.path} has a user {user.name!r} already: change or remove that one")
            users[user.name] = user

    def change(self, name: str, change: Callable[[StoredUser], StoredUser]) -> None:
        """Put what ``change`` makes of a user in his place.

        Raises:
            LocalError: there is none of that name; or the file cannot be read or written.
        """
        with self._changing() as users:
            users[name] = replace(change(self._found(users, name)), name=name)

    def remove(self, name: str) -> None:
        """Remove a user.

        Raises:
            LocalError: there is none of that name; or the file cannot be read or written.
        """
        with self._changing() as users:
            del users[self._found(users, name).name]

    def _found(self, users: dict[str, StoredUser], name: str) -> StoredUser:
        if name not in users:
            raise LocalError(f"{self.path} has no user {name!r}")
        return users[name]

    @contextmanager
    def _changing(self) -> Iterator[dict[str, StoredUser]]:
        """Give the users by name; write what has been made of them unless there was an error."""
        target = self.path.resolve()  # Behind a symbolic link it is the file that is replaced, not the link.
        aside = target.with_name(target.name + ".new")
        try:
            # Made before the users are read: so nobody changes them in between.
            handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise LocalError(
                f"{self.path} is being changed by another process; if there is none, that one was "
                f"interrupted: remove {aside}"
            ) from None
        except OSError as error:
            raise LocalError(f"{self.path} cannot be changed: {aside}: {error.strerror}") from error
        try:
            with open(handle, "wb") as file:
                known = self.read() if target.exists() else Users()
                users = {user.name: user for user in known}
                yield users
                file.write(_written(Users(users.values(), secret=known.secret)).encode())
                file.flush()
                _keep_owner(target, handle)
                os.fsync(handle)
            os.replace(aside, target)
            _sync_folder(target.parent)
        except OSError as error:
            raise LocalError(f"{self.path} cannot be changed: {error.strerror}") from error
        finally:
            with suppress(FileNotFoundError):
                aside.unlink()


def _keep_owner(target: Path, handle: int) -> None:
    """Give the new file the owner of the old one: who may be a broker, while root changes the file."""
    if hasattr(os, "fchown") and target.exists():
        old, new = target.stat(), os.fstat(handle)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            os.fchown(handle, old.st_uid, old.st_gid)


def _sync_folder(folder: Path) -> None:
    """See to it that the new name survives a failure of power, where folders can be synchronised."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# --- the entry of a user -----------------------------------------------------------------------------------


def _read_user(name: str, table: Table) -> StoredUser:
    try:
        check_name(name)
    except LocalError as error:
        raise table.error(str(error)) from None
    scram = {kind: _read_scram(kind, table.table(kind)) for kind in SCRAM_KINDS if kind in table}
    scrypt = _read_scrypt(table.table("scrypt")) if "scrypt" in table else None
    certificates = table.texts("certificates", ())
    for certificate in certificates:
        if not certificate or not certificate.isprintable() or len(certificate.encode()) > MOST_NAME:
            raise table.error(f"a name is 1 to {MOST_NAME} octets of printable characters", "certificates")
    if "password" in table.names():
        raise table.error("a password is never kept as it is: let a command write this file", "password")
    table.finish()
    if not (scram or scrypt or certificates):
        raise table.error(f"needs one of {', '.join(SCRAM_KINDS)}, scrypt, certificates")
    return StoredUser(name, scram, scrypt, certificates)


def _read_scram(mechanism: str, table: Table) -> ScramKeys:
    size = _HASH_SIZES[ALGORITHMS[mechanism]]
    iterations = table.integer("iterations", None, MIN_ITERATIONS, MOST_ITERATIONS)
    if iterations is None:
        raise table.error("is missing: it has to be said", "iterations")
    salt = _octets(table, "salt", 8, 64)
    stored_key, server_key = (_octets(table, name, size, size) for name in ("stored_key", "server_key"))
    table.finish()
    return ScramKeys(salt, iterations, stored_key, server_key)


def _read_scrypt(table: Table) -> ScryptKey:
    numbers = [table.integer(name, None, 1, 1 << 20) for name in ("n", "r", "p")]
    salt, key = _octets(table, "salt", 8, 64), _octets(table, "key", 32, 32)
    table.finish()
    n, r, p = (0 if number is None else number for number in numbers)
    try:
        return ScryptKey(salt, key, n, r, p)
    except ValueError as error:
        raise table.error(str(error)) from None


def _octets(table: Table, name: str, least: int, most: int) -> bytes:
    """Octets in base64; an error tells their number, and never what they are."""
    text = table.required(name)
    try:
        octets = a2b_base64(text.encode(), strict_mode=True)
    except (Base64Error, ValueError):
        raise table.error("is not base64", name) from None
    if not least <= len(octets) <= most:
        possible = f"{least}" if least == most else f"{least} to {most}"
        raise table.error(f"has {len(octets)} octets; possible is {possible}", name)
    return octets


def _written(users: Users) -> str:
    lines = [_HEAD, f"secret = {_quoted(to_base64(users.secret))}\n"]
    for user in users:
        lines.append(f"\n[users.{_quoted(user.name)}]\n")
        for kind, keys in user.scram.items():
            lines.append(
                f"{kind} = {{ salt = {_quoted(to_base64(keys.salt))}, iterations = {keys.iterations}, "
                f"stored_key = {_quoted(to_base64(keys.stored_key))}, "
                f"server_key = {_quoted(to_base64(keys.server_key))} }}\n"
            )
        kept = user.scrypt
        if kept is not None:
            lines.append(
                f"scrypt = {{ salt = {_quoted(to_base64(kept.salt))}, n = {kept.n}, r = {kept.r}, "
                f"p = {kept.p}, key = {_quoted(to_base64(kept.key))} }}\n"
            )
        if user.certificates:
            lines.append(f"certificates = [{', '.join(map(_quoted, user.certificates))}]\n")
    return "".join(lines)


def _quoted(text: str) -> str:
    """A basic string of TOML: what JSON has, as long as there are no control characters, as in names here."""
    return json.dumps(text, ensure_ascii=False)
