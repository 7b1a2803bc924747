"""A certification authority of one test run, made by the ``openssl`` command."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

SECONDS = 20.0
CLIENT_NAME = "guest"
"""The common name of the client's certificate, which is a user of RabbitMQ."""
CONFIGURATION = "openssl.cnf"
EXTENSIONS = """
[req]
distinguished_name = subject
[subject]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[client]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""
"""What strict verifiers ask for: Python does so from 3.13 on."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files in PEM form: the authority, a server for ``localhost``, a client called ``guest``."""

    authority: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path

    def for_client(self, shows_certificate: bool) -> dict[str, str]:
        """What a client needs, as the programs in ``peers`` take it."""
        files = {"authority": str(self.authority)}
        if shows_certificate:
            files |= {"certificate": str(self.client), "key": str(self.client_key)}
        return files

    def for_server(self) -> dict[str, str]:
        """What a server needs, as the programs in ``peers`` take it."""
        return {
            "authority": str(self.authority),
            "certificate": str(self.server),
            "key": str(self.server_key),
        }


def make(folder: Path) -> Certificates:
    """Make keys and certificates in ``folder``, good for a day.

    Raises:
        FileNotFoundError: there is no ``openssl`` command.
        subprocess.CalledProcessError: it refused.
    """
    (folder / CONFIGURATION).write_text(EXTENSIONS, encoding="ascii")
    _make(folder, "authority", "amqpforge test authority")
    _make(folder, "server", "localhost", "-CA", "authority.pem", "-CAkey", "authority.key")
    _make(folder, "client", CLIENT_NAME, "-CA", "authority.pem", "-CAkey", "authority.key")
    return Certificates(
        folder / "authority.pem",
        folder / "server.pem",
        folder / "server.key",
        folder / "client.pem",
        folder / "client.key",
    )


def _make(folder: Path, name: str, common_name: str, *signed_by: str) -> None:
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 1".split()
    command += ["-config", CONFIGURATION, "-extensions", name, "-subj", f"/CN={common_name}"]
    command += ["-keyout", f"{name}.key", "-out", f"{name}.pem", *signed_by]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=SECONDS)
