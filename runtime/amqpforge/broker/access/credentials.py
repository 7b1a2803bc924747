"""What a broker keeps of a user's password: enough to check it, and never the password itself."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from amqpforge.errors import LocalError
from amqpforge.sasl import ScramKeys, saslprep

__all__ = [
    "ANONYMOUS",
    "DEFAULT_KINDS",
    "KINDS",
    "SCRAM_KINDS",
    "ScryptKey",
    "StoredUser",
    "check_name",
    "make_credentials",
]

ANONYMOUS: Final = "anonymous"
"""Whom SASL ANONYMOUS makes of a client; so no user can have this name."""

SCRAM_KINDS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256")
KINDS: Final = (*SCRAM_KINDS, "scrypt")
"""In what forms a password can be kept. From a scrypt key alone only PLAIN can be checked, which needs TLS;
in return somebody who has got hold of the file needs far more memory for each password that he tries."""

DEFAULT_KINDS: Final = SCRAM_KINDS
"""What every mechanism can be checked from."""

DEFAULT_ITERATIONS: Final = 65_536
MOST_NAME: Final = 255  # octets
_SALT_SIZE: Final = 16
_KEY_SIZE: Final = 32


@dataclass(frozen=True, slots=True)
class ScryptKey:
    """A password hashed with scrypt (RFC 7914).

    One check takes ``128 * n * r`` octets of memory, and time in proportion to ``n * r * p``.

    Attributes:
        salt: octets that make the keys of equal passwords differ, 8 to 64.
        key: what the password was hashed to, 32 octets.
        n: a power of two, at least 2^14.
        r: at least 8.
        p: at least 1. ``n * r * p`` is at most 2^20, so a check takes at most 128 MiB.
    """

    salt: bytes = field(repr=False)
    key: bytes = field(repr=False)
    n: int = 1 << 14
    r: int = 8
    p: int = 5

    def __post_init__(self) -> None:
        """Raises ValueError for a number out of its range."""
        if self.n < 1 << 14 or self.n & (self.n - 1):
            raise ValueError(f"n of scrypt is a power of two from 16384 on, not {self.n}")
        if self.r < 8 or self.p < 1:
            raise ValueError(
                f"scrypt has an r of at least 8 and a p of at least 1, not {self.r} and {self.p}"
            )
        if self.n * self.r * self.p > 1 << 20:
            raise ValueError(f"n * r * p of scrypt is at most {1 << 20}, not {self.n * self.r * self.p}")
        if not 8 <= len(self.salt) <= 64 or len(self.key) != _KEY_SIZE:
            raise ValueError(f"scrypt has a salt of 8 to 64 octets and a key of {_KEY_SIZE}")

    @classmethod
    def derive(cls, password: str) -> ScryptKey:
        """The key for a password, with a new salt.

        Raises:
            LocalError: the password is empty or cannot be prepared.
        """
        blank = cls(secrets.token_bytes(_SALT_SIZE), bytes(_KEY_SIZE))
        return replace(blank, key=blank.hashed(password))

    def hashed(self, password: str) -> bytes:
        """What a password comes to with this salt and these numbers; takes some 0.2 s for the default ones.

        Raises:
            LocalError: the password is empty or cannot be prepared.
        """
        memory = 128 * self.r * (self.n + self.p + 2)
        octets = _prepared("password", password).encode()
        return hashlib.scrypt(
            octets, salt=self.salt, n=self.n, r=self.r, p=self.p, maxmem=memory + 65_536, dklen=_KEY_SIZE
        )


@dataclass(frozen=True, slots=True)
class StoredUser:
    """One user as the broker keeps it.

    Attributes:
        name: prepared by SASLprep, 1 to 255 octets, and not ``anonymous``.
        scram: by mechanism, the keys of the password.
        scrypt: another form of the same password, None without.
        certificates: names in TLS certificates of clients which stand for this user.
    """

    name: str
    scram: Mapping[str, ScramKeys] = field(default_factory=dict[str, ScramKeys])
    scrypt: ScryptKey | None = None
    certificates: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises LocalError if the name is not possible."""
        check_name(self.name)
        object.__setattr__(self, "scram", MappingProxyType(dict(self.scram)))

    @property
    def has_password(self) -> bool:
        return bool(self.scram) or self.scrypt is not None

    def with_password(self, password: str, *, kinds: Iterable[str] | None = None) -> StoredUser:
        """The same user with another password, kept in the same forms, or in those that are given.

        Raises:
            LocalError: see :func:`make_credentials`.
        """
        kept = (*self.scram, *(["scrypt"] if self.scrypt else []))
        made = make_credentials(self.name, password, kinds=kinds or kept or DEFAULT_KINDS)
        return replace(made, certificates=self.certificates)

    def fits(self, password: str) -> bool:
        """Whether this is the user's password; hashes it once, as the strongest form that is kept asks.

        Raises:
            LocalError: no password can be so.
        """
        if self.scrypt is not None:
            return hmac.compare_digest(self.scrypt.hashed(password), self.scrypt.key)
        for mechanism in SCRAM_KINDS:
            keys = self.scram.get(mechanism)
            if keys is not None:
                shown = ScramKeys.derive(mechanism, password, salt=keys.salt, iterations=keys.iterations)
                return hmac.compare_digest(shown.stored_key, keys.stored_key)
        return False


def make_credentials(
    user: str, password: str, *, kinds: Iterable[str] = DEFAULT_KINDS, iterations: int = DEFAULT_ITERATIONS
) -> StoredUser:
    """What to keep of a user and a password; takes some tenths of a second.

    Args:
        user: the name.
        password: the password.
        kinds: the forms to keep it in, out of :data:`KINDS`.
        iterations: of SCRAM, at least 4096.

    Raises:
        LocalError: the name or the password is empty, holds what SASLprep prohibits, or is too long; or a
            kind is not known.
    """
    kinds = tuple(kinds)
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise LocalError(f"a password is kept as one or more of {', '.join(KINDS)}, not {', '.join(unknown)}")
    name = _prepared("user name", user)
    check_name(name)
    scram = {
        kind: ScramKeys.derive(kind, password, iterations=iterations) for kind in kinds if kind != "scrypt"
    }
    return StoredUser(name, scram, ScryptKey.derive(password) if "scrypt" in kinds else None)


def check_name(name: str) -> None:
    """Raises LocalError unless a user can have this name, which is to be in the form that SASLprep gives."""
    if _prepared("user name", name) != name:
        raise LocalError(f"the user name {name!r} is not in the form that SASLprep gives it (RFC 4013)")
    if len(name.encode()) > MOST_NAME:
        raise LocalError(f"the user name has {len(name.encode())} octets; at most {MOST_NAME} are possible")
    if name == ANONYMOUS:
        raise LocalError(f"no user can be named {ANONYMOUS!r}: that is who clients without a name are")


def _prepared(what: str, text: str) -> str:
    if not text or "\0" in text:
        raise LocalError(f"the {what} is empty or holds a NUL character")
    try:
        prepared = saslprep(text)
    except ValueError as error:
        raise LocalError(f"the {what} has {error}") from None
    if not prepared:
        raise LocalError(f"the {what} is empty once it is prepared by SASLprep")
    return prepared
