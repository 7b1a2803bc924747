"""TLS on a transport that begins without it, or with octets of it that were read already."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Final

__all__ = ["TlsLayer"]

_CHUNK: Final = 65_536


class TlsLayer:
    """The server's side of TLS, without I/O: octets of the transport in, octets of the application out.

    Attributes:
        is_established: whether the handshake is done.
        is_ended: whether the client has ended it.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_established = False
        self.is_ended = False

    @property
    def peer_name(self) -> str | None:
        """The common name in the client's certificate, None without one."""
        certificate = self._object.getpeercert() or {}
        for part in certificate.get("subject", ()):
            for entry in part:
                if entry[0] == "commonName":
                    return str(entry[1])
        return None

    def receive(self, octets: bytes) -> bytes:
        """Take octets of the transport; returns the application's.

        Raises:
            ssl.SSLError: they are not what TLS allows; what :meth:`to_send` gives tells the client.
        """
        self._incoming.write(octets)
        if not self.is_established:
            try:
                self._object.do_handshake()
            except ssl.SSLWantReadError:
                return b""
            self.is_established = True
        parts: list[bytes] = []
        while not self.is_ended:
            try:
                part = self._object.read(_CHUNK)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                part = b""
            self.is_ended = not part
            parts.append(part)
        return b"".join(parts)

    def send(self, octets: bytes) -> bytes:
        """Octets of the application; returns those for the transport."""
        self._object.write(octets)
        return self.to_send()

    def end(self) -> bytes:
        """The octets that end our direction."""
        with suppress(ssl.SSLError):  # The client may not have ended its direction yet.
            self._object.unwrap()
        return self.to_send()

    def to_send(self) -> bytes:
        """Octets for the transport, of handshakes and alerts too."""
        return self._outgoing.read()
