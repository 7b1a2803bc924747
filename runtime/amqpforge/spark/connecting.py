"""The options of ``format("amqp")`` that say where to connect and as whom, for reading and writing alike.

The client is imported when something connects: most tasks have these options, and never do.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import amqpforge
from amqpforge.errors import AmqpforgeError, LocalError
from amqpforge.sasl import Credentials
from amqpforge.url import UrlError, parse_url

from .options import OptionError, OptionReader

if TYPE_CHECKING:
    from amqpforge import blocking

__all__ = ["CONNECTION_OPTIONS", "ConnectionOptions"]

CONNECTION_OPTIONS: Final = (
    "url",
    "user",
    "password",
    "passwordFile",
    "passwordEnv",
    "saslMechanisms",
    "allowInsecurePlain",
    "hostname",
    "tlsCa",
    "tlsCert",
    "tlsKey",
    "tlsVerify",
    "startTimeout",
)
"""The names of the options that :meth:`ConnectionOptions.read` takes, as the guide writes them."""

_MOST_SECRET: Final = 1 << 16
"""Octets of the longest file that is read as a password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """Where to connect and as whom.

    Attributes:
        urls: where to, without a user; the first that answers is taken.
        user: who we are; None: nobody in particular.
        password: as it was given; never shown.
        password_file: the file that holds it, read by the process that connects.
        password_env: the environment variable that holds it, in the process that connects.
        mechanisms: the SASL mechanisms that may be taken; None: the best one.
        allow_insecure_plain: send a password as it is where others may read it.
        hostname: the host or virtual host that is wanted, instead of the one in the URL.
        tls_ca: certificates to trust, instead of those of the system.
        tls_cert: our certificate.
        tls_key: its key, if that is in another file.
        tls_verify: whether the peer's certificate is checked.
        start_timeout: seconds for which a peer may be absent.
    """

    urls: tuple[str, ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: str | None = None
    password_env: str | None = None
    mechanisms: tuple[str, ...] | None = None
    allow_insecure_plain: bool = False
    hostname: str | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_verify: bool = True
    start_timeout: float = 60.0

    @classmethod
    def read(cls, options: OptionReader) -> ConnectionOptions:
        """Take them out of the options of a data source.

        Raises:
            OptionError: one is wrong, or they do not go together.
        """
        urls = tuple(
            _checked_url(url.strip())
            for url in options.required("url", "where to connect, such as amqp://localhost").split(",")
        )
        secrets = [name for name in ("password", "passwordFile", "passwordEnv") if options.text(name)]
        if len(secrets) > 1:
            raise OptionError(secrets[1], f"says again what {secrets[0]!r} says: give one of them")
        user = options.text("user")
        if secrets and user is None:
            raise OptionError(secrets[0], "goes with the option 'user'")
        if options.text("tlsKey") and not options.text("tlsCert"):
            raise OptionError("tlsKey", "goes with the option 'tlsCert'")
        mechanisms = options.text("saslMechanisms")
        made = cls(
            urls=urls,
            user=user,
            password=options.text("password"),
            password_file=options.text("passwordFile"),
            password_env=options.text("passwordEnv"),
            mechanisms=None if mechanisms is None else tuple(mechanisms.replace(",", " ").upper().split()),
            allow_insecure_plain=options.flag("allowInsecurePlain", default=False),
            hostname=options.text("hostname"),
            tls_ca=options.text("tlsCa"),
            tls_cert=options.text("tlsCert"),
            tls_key=options.text("tlsKey"),
            tls_verify=options.flag("tlsVerify", default=True),
            start_timeout=options.seconds("startTimeout", 60.0),
        )
        if user is not None and not secrets and not made.tls_cert and made.mechanisms is None:
            raise OptionError("user", "needs one of 'password', 'passwordFile', 'passwordEnv' or 'tlsCert'")
        try:
            Credentials(mechanisms=made.mechanisms)
        except LocalError as error:
            raise OptionError("saslMechanisms", f"is wrong: {error}") from None
        return made

    def without_password(self) -> ConnectionOptions:
        """The same for those who do not connect."""
        return replace(self, password=None)

    def open(self, **arguments: Any) -> amqpforge.Opening[amqpforge.Connection]:
        """A connection that is not made again when it is lost; ``arguments`` are those of ``connect``.

        Raises:
            OptionError: a password or a certificate is not where an option says.
        """
        return amqpforge.connect(list(self.urls), reconnect=None, **self._arguments(), **arguments)

    async def reach(self) -> amqpforge.Connection:
        """A connection as :meth:`open` makes it, to a peer that may be absent for a while.

        Raises:
            OptionError: a password or a certificate is not where an option says.
            AmqpforgeError: the peer is still absent after ``start_timeout``, or takes no connection of ours.
        """
        from .patience import Patience

        patience = Patience(self.start_timeout, "connect")
        while True:
            try:
                connection: amqpforge.Connection = await self.open()
            except AmqpforgeError as error:
                await asyncio.sleep(patience.pause(error))
            else:
                return connection

    def open_blocking(self, **arguments: Any) -> blocking.Connection:
        """A connection for threads, open; ``arguments`` are those of ``connect``.

        Raises:
            OptionError: a password or a certificate is not where an option says.
            AmqpforgeError: there is no connection.
        """
        return amqpforge.blocking.connect(list(self.urls), **self._arguments(), **arguments)

    def _arguments(self) -> dict[str, Any]:
        """What both kinds of connections are made with."""
        return {
            "credentials": self.credentials(),
            "ssl": self.context(),
            "hostname": self.hostname,
            "properties": {"product": "amqpforge", "platform": "Spark", "pid": os.getpid()},
        }

    def credentials(self) -> Credentials | None:
        """What to show to the server; None: nothing."""
        if self.user is None and self.tls_cert is None and self.mechanisms is None:
            return None
        return Credentials(
            username=self.user,
            password=self._secret(),
            external=self.tls_cert is not None and self.user is None,
            mechanisms=self.mechanisms,
            allow_insecure_plain=self.allow_insecure_plain,
        )

    def context(self) -> ssl.SSLContext | None:
        """How TLS is to be done; None: as usual, if the URL asks for it."""
        if not (self.tls_ca or self.tls_cert) and self.tls_verify:
            return None
        try:
            context = ssl.create_default_context(cafile=self.tls_ca)
        except OSError as error:
            raise OptionError("tlsCa", f"names no certificates: {error.strerror or error}") from None
        if not self.tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.tls_cert is not None:
            try:
                context.load_cert_chain(self.tls_cert, self.tls_key)
            except OSError as error:
                raise OptionError(
                    "tlsCert", f"names no certificate with its key: {error.strerror or error}"
                ) from None
        return context

    def _secret(self) -> str | None:
        if self.password_env is not None:
            found = os.environ.get(self.password_env)
            if not found:
                raise OptionError("passwordEnv", f"names {self.password_env!r}, which is not set here")
            return found
        if self.password_file is None:
            return self.password
        try:
            with Path(self.password_file).open("rb") as file:
                found = file.read(_MOST_SECRET).decode().strip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(
                "passwordFile", f"names {self.password_file!r}, which cannot be read: {_reason(error)}"
            ) from None
        if not found:
            raise OptionError("passwordFile", f"names {self.password_file!r}, which is empty")
        return found


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or "input or output failed") if isinstance(error, OSError) else "it is no text"


def _checked_url(text: str) -> str:
    """A URL that shows nobody anything.

    Raises:
        OptionError: it is malformed, or has a user.
    """
    authority = text.split("://", 1)[-1].split("/", 1)[0]
    if "@" in authority:
        raise OptionError(
            "url", "names a user: give that as 'user', with 'passwordFile' or another of its kind"
        )
    try:
        url = parse_url(text)
    except UrlError as error:
        raise OptionError("url", f"is wrong: {error}") from None
    if url.username is not None or url.password is not None:
        raise OptionError(
            "url", "names a user: give that as 'user', with 'passwordFile' or another of its kind"
        )
    return text
