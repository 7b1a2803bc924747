"""The server's side of SCRAM (RFC 5802).

A user who does not exist goes through the same exchange as one who does, with a salt that stays the same from
one attempt to the next, and fails only at its end.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from amqpforge.errors import AuthenticationFailed

from .scram import (
    ALGORITHMS,
    ScramKeys,
    attributes,
    decode_name,
    from_base64,
    new_nonce,
    prepare_name,
    proof_for,
    signature,
    to_base64,
)
from .steps import Authenticated, ServerMechanism, ServerReply, Work, from_utf8

if TYPE_CHECKING:
    from .authenticator import Authenticator

__all__ = ["ScramServer"]


class ScramServer(ServerMechanism):
    """Checks the client's proof with the keys that the authenticator has, and proves that it has them."""

    def __init__(self, name: str, authenticator: Authenticator, *, nonce: str | None = None) -> None:
        """``nonce``: our part of it; None for a new random one, which is right but in tests."""
        self.name = name
        self._algorithm = ALGORITHMS[name]
        self._authenticator = authenticator
        self._nonce = nonce or new_nonce()
        self._gs2_header = self._first_bare = self._server_first = b""
        self._username = self._acting = ""
        self._keys: ScramKeys | None = None
        self._is_known = False

    def step(self, response: bytes) -> Work[ServerReply]:
        return self._begin(response) if self._keys is None else self._check(response, self._keys)

    def _begin(self, client_first: bytes) -> Work[ServerReply]:
        binding, acting, bare = [*client_first.split(b",", 2), b"", b""][:3]
        if binding not in (b"n", b"y") or not (acting == b"" or acting.startswith(b"a=")):
            raise AuthenticationFailed("the GS2 header of SCRAM asks for channel binding, or is malformed")
        name, nonce = attributes("client-first-message", bare, "nr")
        if not nonce.isascii() or not nonce.isprintable() or " " in nonce or not nonce:
            raise AuthenticationFailed("the client's nonce is empty or not printable ASCII")
        self._gs2_header, self._first_bare = client_first[: -len(bare)], bare
        self._acting = decode_name(from_utf8("authorization id", acting[2:]))
        self._username = prepare_name(decode_name(name))
        self._nonce = nonce + self._nonce
        authenticator, username = self._authenticator, self._username
        return Work("the look-up of a user", lambda: authenticator.scram_keys(self.name, username), self._ask)

    def _ask(self, keys: ScramKeys | None) -> bytes:
        self._is_known = keys is not None
        self._keys = keys or self._authenticator.decoy_keys(self.name, self._username)
        salt = to_base64(self._keys.salt)
        self._server_first = f"r={self._nonce},s={salt},i={self._keys.iterations}".encode()
        return self._server_first

    def _check(self, client_final: bytes, keys: ScramKeys) -> Work[ServerReply]:
        without_proof, _, proof_text = client_final.rpartition(b",p=")
        binding, nonce = attributes("client-final-message", without_proof, "cr")
        if from_base64("channel binding", binding) != self._gs2_header or nonce != self._nonce:
            raise AuthenticationFailed("the client's last message does not belong to its first")
        algorithm = self._algorithm
        message = b",".join((self._first_bare, self._server_first, without_proof))
        proof = from_base64("proof", from_utf8("proof", proof_text))
        if len(proof) != len(keys.stored_key):
            raise AuthenticationFailed("the client's proof has the wrong length")
        client_key = proof_for(algorithm, keys.stored_key, message, proof)
        is_right = hmac.compare_digest(hashlib.new(algorithm, client_key).digest(), keys.stored_key)
        final = b"v=" + to_base64(signature(algorithm, keys.server_key, message)).encode()
        identity = self._username if is_right and self._is_known else None
        act, acting = self._authenticator.acting, self._acting
        return Work(
            "the check of a user", lambda: act(identity, acting), lambda who: Authenticated(who, final)
        )
