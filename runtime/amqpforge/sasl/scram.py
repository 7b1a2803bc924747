"""SCRAM: both sides prove that they know a password, and neither tells it (RFC 5802, RFC 7677).

Channel binding is not offered: the client's GS2 header begins with ``n``. Names and passwords are prepared by
SASLprep. What a server can ask of its clients, the count of iterations, is bounded.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from dataclasses import dataclass, field
from typing import Final

from amqpforge.errors import AuthenticationFailed, LocalError

from .saslprep import saslprep
from .steps import ClientMechanism, Work, to_utf8

__all__ = [
    "ALGORITHMS",
    "MAX_ITERATIONS",
    "MIN_ITERATIONS",
    "ScramClient",
    "ScramKeys",
    "attributes",
    "decode_name",
    "encode_name",
    "from_base64",
    "new_nonce",
    "prepare_name",
    "proof_for",
    "signature",
    "to_base64",
]

ALGORITHMS: Final = {"SCRAM-SHA-512": "sha512", "SCRAM-SHA-256": "sha256", "SCRAM-SHA-1": "sha1"}
"""The mechanisms, the strongest first, and their hash functions."""

MIN_ITERATIONS: Final = 4096
"""The least count of iterations that RFC 7677 section 4 lets a server have."""

MAX_ITERATIONS: Final = 10_000_000
"""A count that takes some seconds: with a greater one a server would only waste its clients' time."""

_COUNT_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """What a server keeps of a user's password for one mechanism (RFC 5802 section 3).

    Attributes:
        salt: octets that make the keys of equal passwords differ.
        iterations: how often the password was hashed.
        stored_key: checks the client's proof.
        server_key: makes the server's proof. Who knows both keys can play the server.
    """

    salt: bytes = field(repr=False)
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def derive(
        cls, mechanism: str, password: str, *, salt: bytes | None = None, iterations: int = MIN_ITERATIONS
    ) -> ScramKeys:
        """The keys for a password; takes milliseconds for thousands of iterations.

        Args:
            mechanism: one of :data:`ALGORITHMS`.
            password: the password, which SASLprep has to allow.
            salt: None for 16 new random octets.
            iterations: how often to hash, at least 1.

        Raises:
            LocalError: the password is empty or cannot be prepared.
        """
        algorithm = ALGORITHMS[mechanism]
        salt = secrets.token_bytes(16) if salt is None else salt
        salted = hashlib.pbkdf2_hmac(algorithm, _prepare("password", password), salt, iterations)
        _, stored_key, server_key = _keys(algorithm, salted)
        return cls(salt, iterations, stored_key, server_key)


class ScramClient(ClientMechanism):
    """Proves the password to the server, and has the server prove that it knows it too."""

    def __init__(
        self,
        name: str,
        username: str,
        password: str,
        authorization_id: str | None = None,
        *,
        min_iterations: int = MIN_ITERATIONS,
        max_iterations: int = MAX_ITERATIONS,
        nonce: str | None = None,
    ) -> None:
        """``nonce``: printable ASCII without a comma; None for a new random one, which is right but in tests.

        Raises:
            LocalError: a credential is empty or cannot be prepared.
        """
        self.name = name
        self._algorithm = ALGORITHMS[name]
        self._password = _prepare("password", password)
        self._bounds = min_iterations, max_iterations
        self._nonce = nonce or new_nonce()
        acting = f"a={encode_name('authorization id', authorization_id)}" if authorization_id else ""
        self._gs2_header = f"n,{acting},"
        self._first_bare = f"n={encode_name('user name', username)},r={self._nonce}"
        self._signature: bytes | None = None
        self._is_answered = self._is_proven = False

    def start(self) -> bytes:
        return (self._gs2_header + self._first_bare).encode()

    def step(self, challenge: bytes) -> bytes | Work[bytes]:
        if not self._is_answered:
            self._is_answered = True
            return self._answer(challenge)
        if self._signature is None or self._is_proven:
            return super().step(challenge)
        self._verify(challenge)
        return b""

    def finish(self, additional_data: bytes | None) -> None:
        if self._is_proven:
            return
        if self._signature is None or additional_data is None:
            raise AuthenticationFailed(
                f"the server reports success without the proof that {self.name} asks of it: "
                "it may not know the password"
            )
        self._verify(additional_data)

    def _answer(self, server_first: bytes) -> Work[bytes]:
        nonce, salt_text, count = attributes("server-first-message", server_first, "rsi")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise AuthenticationFailed("the server's nonce does not begin with ours, or adds nothing to it")
        salt, iterations = from_base64("salt", salt_text), self._iterations(count)
        if not salt:
            raise AuthenticationFailed("the server's salt is empty")
        final = f"c={to_base64(self._gs2_header.encode())},r={nonce}".encode()
        message = b",".join((self._first_bare.encode(), server_first, final))
        algorithm, password = self._algorithm, self._password

        def prove(salted: bytes) -> bytes:
            client_key, stored_key, server_key = _keys(algorithm, salted)
            self._signature = signature(algorithm, server_key, message)
            proof = proof_for(algorithm, stored_key, message, client_key)
            return final + b",p=" + to_base64(proof).encode()

        return Work("PBKDF2", lambda: hashlib.pbkdf2_hmac(algorithm, password, salt, iterations), prove)

    def _iterations(self, count: str) -> int:
        least, most = self._bounds
        is_number = count.isascii() and count.isdigit() and len(count) <= _COUNT_DIGITS
        if is_number and least <= int(count) <= most:
            return int(count)
        shown = count if is_number else "a count that is no number of at most ten digits"
        raise AuthenticationFailed(
            f"the server asks for {shown} iterations of {self.name}; we take {least} to {most}: "
            "set min_iterations or max_iterations if the server is to be trusted"
        )

    def _verify(self, server_final: bytes) -> None:
        if server_final.startswith(b"e="):
            error = "".join(c for c in server_final[2:42].decode("ascii", "ignore") if c.isprintable())
            raise AuthenticationFailed(f"the server refused the {self.name} exchange: {error}")
        (proof,) = attributes("server-final-message", server_final, "v")
        if not hmac.compare_digest(from_base64("signature", proof), self._signature or b""):
            raise AuthenticationFailed("the server's signature is wrong: it does not know the password")
        self._is_proven = True


def new_nonce() -> str:
    """A random nonce of 24 characters."""
    return to_base64(secrets.token_bytes(18))


def attributes(what: str, message: bytes, names: str) -> list[str]:
    """The values of the attributes with which a message begins; extensions behind them are ignored.

    Args:
        what: the message's name, for errors.
        message: ``a=value,b=value``.
        names: the one-letter names of the attributes, in the order that they must have.

    Raises:
        AuthenticationFailed: an attribute is missing, or another is in its place; or the text is not UTF-8.
    """
    try:
        parts = message.decode().split(",")[: len(names)]
    except UnicodeDecodeError:
        parts = []
    if [part[:2] for part in parts] != [f"{name}=" for name in names]:
        raise AuthenticationFailed(f"the {what} of SCRAM has not the attributes {', '.join(names)} in front")
    return [part[2:] for part in parts]


def prepare_name(name: str) -> str:
    """A user name in the one form in which names are compared.

    Raises:
        AuthenticationFailed: SASLprep does not allow it.
    """
    try:
        return saslprep(name)
    except ValueError as error:
        raise AuthenticationFailed(f"the user name has {error}") from None


def decode_name(name: str) -> str:
    """A name as it stands in a message (``saslname``), without its escapes.

    Raises:
        AuthenticationFailed: an equals sign is no escape.
    """
    if name.count("=") != name.count("=2C") + name.count("=3D"):
        raise AuthenticationFailed("a name in a SCRAM message has an equals sign that is no escape")
    return name.replace("=2C", ",").replace("=3D", "=")


def encode_name(what: str, name: str) -> str:
    """A name as it stands in a message (``saslname``): prepared, and with commas and equals signs escaped.

    Raises:
        LocalError: it is empty or cannot be prepared.
    """
    return _prepare(what, name).decode().replace("=", "=3D").replace(",", "=2C")


def to_base64(octets: bytes) -> str:
    """Base64 without line ends."""
    return b2a_base64(octets, newline=False).decode()


def from_base64(what: str, text: str) -> bytes:
    """The octets of strict base64.

    Raises:
        AuthenticationFailed: it is not base64.
    """
    try:
        return a2b_base64(text.encode(), strict_mode=True)
    except (Base64Error, ValueError):
        raise AuthenticationFailed(f"the {what} in a SCRAM message is not base64") from None


def signature(algorithm: str, key: bytes, message: bytes) -> bytes:
    """The HMAC of a message: with the server key it is the server's proof."""
    return hmac.digest(key, message, algorithm)


def proof_for(algorithm: str, stored_key: bytes, message: bytes, masked: bytes) -> bytes:
    """``masked`` exclusive-or the client's signature: makes a proof of the client key, a key of a proof."""
    mask = signature(algorithm, stored_key, message)
    return bytes(a ^ b for a, b in zip(masked, mask, strict=True))


def _keys(algorithm: str, salted: bytes) -> tuple[bytes, bytes, bytes]:
    """The client key, the stored key and the server key of a salted password."""
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    return (
        client_key,
        hashlib.new(algorithm, client_key).digest(),
        hmac.digest(salted, b"Server Key", algorithm),
    )


def _prepare(what: str, text: str) -> bytes:
    try:
        return to_utf8(what, saslprep(text))
    except ValueError as error:
        raise LocalError(f"the {what} has {error}") from None
