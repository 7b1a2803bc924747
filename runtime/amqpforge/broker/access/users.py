"""The users of a broker, and who a client is that logs in."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from amqpforge.errors import AuthenticationFailed, LocalError
from amqpforge.sasl import Authenticator, ScramKeys
from amqpforge.sasl.scram import MIN_ITERATIONS, prepare_name

from .credentials import DEFAULT_KINDS, SCRAM_KINDS, ScryptKey, StoredUser, make_credentials

__all__ = ["MECHANISMS", "Users", "UsersAuthenticator"]

MECHANISMS: Final = ("EXTERNAL", *SCRAM_KINDS, "PLAIN", "ANONYMOUS")
"""What a broker can offer, the most wanted first."""

_MOST_AT_ONCE: Final = 4  # checks of passwords: so they take at most 512 MiB, however many clients log in


class Users:
    """Users by name; never changes, so that every thread can read it.

    Attributes:
        secret: makes what users who do not exist are told. Kept beside the users, or a client would find
            that a salt is another one after a restart, and know that there is no such user.
    """

    def __init__(self, users: Iterable[StoredUser] = (), *, secret: bytes | None = None) -> None:
        """``secret``: None for new random octets.

        Raises:
            LocalError: a name, or the name of a certificate, stands for two users.
        """
        self.secret = secret or secrets.token_bytes(32)
        self._users: dict[str, StoredUser] = {}
        self._by_certificate: dict[str, str] = {}
        for user in users:
            if user.name in self._users:
                raise LocalError(f"there are two users named {user.name!r}")
            self._users[user.name] = user
        for user in self:
            self._take_certificates(user)
        self._shapes = _shapes(self)

    @classmethod
    def from_passwords(
        cls,
        passwords: Mapping[str, str],
        *,
        kinds: Iterable[str] = DEFAULT_KINDS,
        iterations: int = MIN_ITERATIONS,
    ) -> Users:
        """Users with these passwords, which are not kept; a few milliseconds each.

        ``iterations`` is small by default: what is made here is in memory only, where nobody can take it to
        try passwords at leisure.

        Raises:
            LocalError: see :func:`.credentials.make_credentials`.
        """
        kinds = tuple(kinds)
        made = (make_credentials(*pair, kinds=kinds, iterations=iterations) for pair in passwords.items())
        return cls(made)

    def __repr__(self) -> str:
        return f"Users({len(self)} users)"

    def __len__(self) -> int:
        return len(self._users)

    def __iter__(self) -> Iterator[StoredUser]:
        return iter(self._users.values())

    def __contains__(self, name: object) -> bool:
        return name in self._users

    def get(self, name: str) -> StoredUser | None:
        """The user of that name, which is prepared by SASLprep; None if there is none."""
        return self._users.get(name)

    def of_certificate(self, name: str) -> str | None:
        """The user whom the name in a certificate stands for: who lists it, or has it for a name."""
        return self._by_certificate.get(name) or (name if name in self._users else None)

    def authenticator(
        self, mechanisms: Sequence[str] | None = None, *, allow_anonymous: bool = False
    ) -> UsersAuthenticator:
        """What decides who a client is. See :class:`UsersAuthenticator`."""
        return UsersAuthenticator(self, mechanisms, allow_anonymous=allow_anonymous)

    def decoy(self, name: str, mechanism: str | None = None) -> StoredUser | None:
        """What no password fits, the same for the same name, at the cost of a user who exists.

        Args:
            name: a name that nobody has.
            mechanism: of SCRAM, which the user is to have keys for; None: any form of a password.

        Returns:
            Its own name means nothing. None if no user has keys for the mechanism.
        """
        shapes = [shape for shape in self._shapes if mechanism is None or mechanism in shape.scram]
        if not shapes:
            return None
        shape = shapes[int.from_bytes(self._octets("shape", name, 8)) % len(shapes)]
        scram = {
            kind: ScramKeys(
                self._octets(f"{kind} salt", name, len(keys.salt)),
                keys.iterations,
                self._octets(f"{kind} key", name, len(keys.stored_key)),
                self._octets(f"{kind} key", name, len(keys.server_key)),
            )
            for kind, keys in shape.scram.items()
        }
        kept = shape.scrypt
        scrypt = kept and ScryptKey(
            self._octets("scrypt salt", name, len(kept.salt)),
            self._octets("scrypt key", name, len(kept.key)),
            kept.n,
            kept.r,
            kept.p,
        )
        return replace(shape, scram=scram, scrypt=scrypt, certificates=())

    def _octets(self, purpose: str, name: str, size: int) -> bytes:
        seed = f"{purpose} {name}".encode()
        return hashlib.shake_256(hmac.digest(self.secret, seed, "sha512")).digest(size)

    def _take_certificates(self, user: StoredUser) -> None:
        for name in user.certificates:
            other = self._by_certificate.setdefault(name, user.name)
            if other != user.name or (name in self._users and name != user.name):
                other = other if other != user.name else name
                raise LocalError(f"the certificate name {name!r} stands for both {user.name!r} and {other!r}")


class UsersAuthenticator(Authenticator):
    """Answers for a broker's users; every answer costs as much for users who do not exist.

    EXTERNAL takes the user that the name in the client's certificate stands for. ANONYMOUS makes a client
    the user ``anonymous``. PLAIN is left out by :func:`amqpforge.sasl.offer` where others can read it.

    Attributes:
        users: who there is; may be replaced at any time, as when the file has changed.
    """

    def __init__(
        self, users: Users, mechanisms: Sequence[str] | None = None, *, allow_anonymous: bool = False
    ) -> None:
        """Decide for these users.

        Args:
            users: who there is.
            mechanisms: what to offer, out of :data:`MECHANISMS`. None: EXTERNAL, PLAIN, and those of SCRAM
                for which all users with a password have keys: clients prefer SCRAM wherever it is offered,
                so a user without keys could not log in.
            allow_anonymous: offer ANONYMOUS; without it, it cannot be among ``mechanisms``.

        Raises:
            LocalError: a mechanism is not known here, or is ANONYMOUS and that is not allowed.
        """
        self.users = users
        if mechanisms is None:
            mechanisms = [
                name for name in MECHANISMS[:-1] if name not in SCRAM_KINDS or _have_all(users, name)
            ]
        unknown = [name for name in mechanisms if name not in MECHANISMS]
        if unknown:
            raise LocalError(f"a broker offers {', '.join(MECHANISMS)}, and not {', '.join(unknown)}")
        if "ANONYMOUS" in mechanisms and not allow_anonymous:
            raise LocalError("ANONYMOUS is offered only where anonymous clients are allowed: allow_anonymous")
        added = ["ANONYMOUS"] if allow_anonymous and "ANONYMOUS" not in mechanisms else []
        self.mechanisms = (*mechanisms, *added)
        self.secret = users.secret
        self._slots = threading.BoundedSemaphore(_MOST_AT_ONCE)

    def scram_keys(self, mechanism: str, username: str) -> ScramKeys | None:
        user = self.users.get(username)
        return None if user is None else user.scram.get(mechanism)

    def decoy_keys(self, mechanism: str, username: str) -> ScramKeys:
        decoy = self.users.decoy(username, mechanism)
        return super().decoy_keys(mechanism, username) if decoy is None else decoy.scram[mechanism]

    def check_password(self, username: str, password: str) -> str | None:
        users = self.users
        try:
            name = prepare_name(username)
            user = users.get(name)
            is_known = user is not None and user.has_password
            shown = user if is_known else users.decoy(name)
            if shown is None:
                return None
            with self._slots:
                is_right = shown.fits(password)
        except (AuthenticationFailed, LocalError):
            return None  # The name or the password is one that nobody can have.
        return name if is_right and is_known else None

    def check_peer(self, peer_name: str) -> str | None:
        return self.users.of_certificate(peer_name)


def _have_all(users: Users, mechanism: str) -> bool:
    return all(mechanism in user.scram for user in users if user.has_password)


def _shapes(users: Users) -> list[StoredUser]:
    """One user for every way in which passwords are kept, in an order that does not hang on names."""
    found: dict[tuple[object, ...], StoredUser] = {}
    for user in users:
        if user.has_password:
            scram = tuple(
                (kind, keys.iterations, len(keys.salt)) for kind, keys in sorted(user.scram.items())
            )
            kept = user.scrypt
            found.setdefault((scram, kept and (kept.n, kept.r, kept.p, len(kept.salt))), user)
    return [found[shape] for shape in sorted(found, key=repr)]
