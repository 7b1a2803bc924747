"""What a server asks of its application: who the users are, and whether what a client shows is right."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from amqpforge.errors import AuthenticationFailed, LocalError

from .saslprep import saslprep
from .scram import ALGORITHMS, ScramKeys

__all__ = ["Anybody", "Authenticator", "UserStore"]

_PLAIN_CHECK: Final = "SCRAM-SHA-256"
_SALT_SIZE: Final = 16


class Authenticator:
    """Answers the questions of a server's SASL exchanges; a subclass answers those that its mechanisms ask.

    The methods may be called in any thread and may take their time. What they raise fails the exchange, and
    is told to the client as a failure of the system; :class:`.steps.SystemFailure` can say of which kind.

    Attributes:
        mechanisms: what the server offers, the most wanted first. EXTERNAL is left out for a client without a
            TLS certificate; PLAIN and tokens are where others can read the transport.
        iterations: the count for users who do not exist; should be that of users who do.
    """

    mechanisms: Sequence[str] = ()
    iterations: int = 65_536

    def scram_keys(self, mechanism: str, username: str) -> ScramKeys | None:
        """The keys of a user for one mechanism, None if there are none; the name is prepared by SASLprep."""
        return None

    def check_password(self, username: str, password: str) -> str | None:
        """The identity that PLAIN proves; None, after the same time, if user name or password is wrong."""
        return None

    def check_token(self, token: str, username: str) -> str | None:
        """The identity that an OAuth token proves, None if it is not valid.

        ``username`` is whom the client wants to be, empty if it does not say; it is for this method to see
        that the token covers it.
        """
        return None

    def check_peer(self, peer_name: str) -> str | None:
        """The identity of a client with this name in its TLS certificate; None if it has none."""
        return None

    def may_act_as(self, identity: str, authorization_id: str) -> bool:
        """Whether a user may act for another one."""
        return identity == authorization_id

    @cached_property
    def secret(self) -> bytes:
        """Makes the salts of users who do not exist; servers that share their users should share it too."""
        return secrets.token_bytes(32)

    def decoy_keys(self, mechanism: str, username: str) -> ScramKeys:
        """Keys that no password fits, the same ones for the same name."""
        seed = f"{mechanism} {username}".encode()
        salt = hmac.digest(self.secret, b"salt " + seed, "sha256")[:_SALT_SIZE]
        stored_key = hmac.digest(self.secret, b"key " + seed, ALGORITHMS[mechanism])
        return ScramKeys(salt, self.iterations, stored_key, stored_key)

    def acting(self, identity: str | None, authorization_id: str) -> str:
        """For whom a client acts that was found to be ``identity``, None for nobody.

        Raises:
            AuthenticationFailed: nobody, or may not act for ``authorization_id``.
        """
        if identity is None:
            raise AuthenticationFailed("the user does not exist, or what proves it is wrong")
        if authorization_id and not self.may_act_as(identity, authorization_id):
            raise AuthenticationFailed(f"the user {identity!r} may not act as another one")
        return authorization_id or identity


class Anybody(Authenticator):
    """Takes every client, also with any name and password."""

    mechanisms: Sequence[str] = ("ANONYMOUS", "PLAIN")

    def check_password(self, username: str, password: str) -> str | None:
        return username

    def may_act_as(self, identity: str, authorization_id: str) -> bool:
        return True


class UserStore(Authenticator):
    """Users and the keys of their passwords, in memory; a password itself is not kept.

    The name in a client's certificate is a user if there is one of that name.
    """

    def __init__(
        self,
        users: Mapping[str, str] | None = None,
        *,
        mechanisms: Iterable[str] = (*ALGORITHMS, "PLAIN"),
        iterations: int = Authenticator.iterations,
    ) -> None:
        """``users``: passwords by user name. Each costs some milliseconds for every SCRAM mechanism.

        Raises:
            LocalError: a name or a password is empty or SASLprep prohibits it.
        """
        self.mechanisms = tuple(mechanisms)
        self.iterations = iterations
        self._keys: dict[str, dict[str, ScramKeys]] = {}
        for username, password in (users or {}).items():
            self.add(username, password)

    def __repr__(self) -> str:
        return f"UserStore({len(self._keys)} users)"

    def add(self, username: str, password: str) -> None:
        """Add a user, or give one a new password.

        Raises:
            LocalError: the name or the password is empty or SASLprep prohibits it.
        """
        name = _prepared(username)
        if not name:
            raise LocalError("the user name is empty")
        wanted = {_PLAIN_CHECK, *ALGORITHMS.keys() & self.mechanisms}
        derive, iterations = ScramKeys.derive, self.iterations
        self._keys[name] = {one: derive(one, password, iterations=iterations) for one in wanted}

    def remove(self, username: str) -> None:
        """Remove a user, if there is one of that name."""
        self._keys.pop(_prepared(username), None)

    def scram_keys(self, mechanism: str, username: str) -> ScramKeys | None:
        return self._keys.get(username, {}).get(mechanism)

    def check_password(self, username: str, password: str) -> str | None:
        try:
            name = _prepared(username)
            kept = self.scram_keys(_PLAIN_CHECK, name)
            keys = kept or self.decoy_keys(_PLAIN_CHECK, name)
            shown = ScramKeys.derive(_PLAIN_CHECK, password, salt=keys.salt, iterations=keys.iterations)
        except LocalError:
            return None
        is_right = hmac.compare_digest(shown.stored_key, keys.stored_key)
        return name if is_right and kept is not None else None

    def check_peer(self, peer_name: str) -> str | None:
        return peer_name if peer_name in self._keys else None


def _prepared(username: str) -> str:
    try:
        return saslprep(username)
    except ValueError as error:
        raise LocalError(f"the user name has {error}") from None
