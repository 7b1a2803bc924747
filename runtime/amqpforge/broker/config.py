"""How a broker is set up: a file of TOML, and the options of the command line that override it.

A file that uses everything is ``docs/broker.toml``. Names of files are relative to the folder of the file
that has them. A key that is not known is refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amqpforge.errors import LocalError
from amqpforge.sasl import Anybody, Authenticator
from amqpforge_protocol.amqp_1_0 import PORT

from .access import ANONYMOUS, Access, PasswordFile, Permissions
from .errors import InvalidArgument
from .limits import BrokerLimits
from .settings import ExchangeSettings, QueueSettings
from .toml_tables import Table, file_at, read_toml

if TYPE_CHECKING:
    import ssl

__all__ = [
    "DEFAULT_VHOST",
    "BindingConfig",
    "BrokerConfig",
    "Grace",
    "ListenerConfig",
    "LogLevel",
    "Start",
    "TlsFiles",
    "VirtualHostConfig",
    "read_config",
]

DEFAULT_VHOST: Final = "/"
"""The virtual host that is always there, for clients that name none."""

_MOST_NAME: Final = 255
_MOST_COUNT: Final = 1 << 53
_SQLITE: Final = "sqlite:"
_MEMORY: Final = "memory"


class LogLevel(Enum):
    """What is logged at least."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Start(Enum):
    """When TLS begins on a connection."""

    AT_ONCE = "at-once"
    """With the first octet, as ``amqps://`` has it."""
    OFFERED = "offered"
    """Where a protocol header asks for it; connections without it are served too."""
    REQUIRED = "required"
    """Where a protocol header asks for it; connections without it are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """What TLS of a listener needs; all files are PEM.

    Attributes:
        certificate: the broker's own, and those of the authorities between it and the root.
        key: its key, not encrypted; None: it is in the file of the certificate.
        client_ca: who signs certificates of clients, which EXTERNAL takes; None: none are asked for.
        client_required: refuse clients without a certificate; needs ``client_ca``.
        start: when TLS begins.
    """

    certificate: Path
    key: Path | None = None
    client_ca: Path | None = None
    client_required: bool = False
    start: Start = Start.AT_ONCE

    def context(self) -> ssl.SSLContext:
        """Load the files.

        Raises:
            LocalError: one cannot be read, or is not what it should be; names it.
        """
        import ssl

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        shown = str(self.certificate) if self.key is None else f"{self.certificate} with the key {self.key}"
        try:
            # An empty password keeps OpenSSL from asking for one at the terminal.
            context.load_cert_chain(self.certificate, self.key, password=lambda: b"")
        except (OSError, ValueError) as error:
            raise LocalError(f"the TLS certificate {shown} cannot be used: {_reason(error)}") from error
        if self.client_ca is not None:
            try:
                context.load_verify_locations(self.client_ca)
            except OSError as error:
                reason = _reason(error)
                raise LocalError(f"the authorities in {self.client_ca} cannot be used: {reason}") from error
            context.verify_mode = ssl.CERT_REQUIRED if self.client_required else ssl.CERT_OPTIONAL
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerConfig:
    """Where to listen.

    Attributes:
        host: a name or an address of this machine.
        port: 0 to 65535; 0: any that is free.
        tls: None without TLS.
    """

    host: str = "127.0.0.1"
    port: int = PORT
    tls: TlsFiles | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return ip_address(self.host.partition("%")[0]).is_loopback
        except ValueError:
            return self.host == "localhost"


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingConfig:
    """A binding to make when the broker starts.

    Attributes:
        exchange: where messages come from.
        queue: where they go; None: to an exchange.
        to_exchange: where they go instead; None: to a queue.
        key: the binding key.
        arguments: what the exchange's type needs to know, as ``x-match``.
    """

    exchange: str
    queue: str | None = None
    to_exchange: str | None = None
    key: str = ""
    arguments: Mapping[str, str | int | float | bool] = field(
        default_factory=dict[str, str | int | float | bool]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualHostConfig:
    """What a virtual host has from the start.

    Attributes:
        queues: to declare, by name.
        exchanges: to declare, by name.
        bindings: to make, once those are there.
        permissions: by user.
    """

    queues: Mapping[str, QueueSettings] = field(default_factory=dict[str, QueueSettings])
    exchanges: Mapping[str, ExchangeSettings] = field(default_factory=dict[str, ExchangeSettings])
    bindings: Sequence[BindingConfig] = ()
    permissions: Mapping[str, Permissions] = field(default_factory=dict[str, Permissions])


@dataclass(frozen=True, slots=True, kw_only=True)
class Grace:
    """How long the broker waits, in seconds.

    Attributes:
        idle: for a sign of life of a client, before its connection is given up; above 0.
        shutdown: for clients to end by themselves, when the broker is asked to stop; 0 or more.
    """

    idle: float = 120.0
    shutdown: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """All about a broker; without anything said one for this machine only, open to everybody on it.

    Attributes:
        listeners: at least one.
        store: ``memory`` or ``sqlite:PATH``; None: not said.
        users: the file of users; None: there are none, and every client is let in as whoever it says.
        mechanisms: of SASL, the most wanted first; None: what the users' credentials are good for.
        allow_anonymous: clients without a name are let in beside the users.
        allow_insecure_plain: PLAIN is offered also where others can read it.
        strict_durability: durable messages are refused where they would not survive a restart, as AMQP 1.0
            asks for (section 3.2.1). Without it a queue or a store that is not durable takes them as well.
        virtual_hosts: by name; the one named ``/`` is always there.
        limits: what peers can take.
        grace: how long to wait for what.
        log_level: what is logged at least.
    """

    listeners: Sequence[ListenerConfig] = (ListenerConfig(),)
    store: str | None = None
    users: Path | None = None
    mechanisms: Sequence[str] | None = None
    allow_anonymous: bool = False
    allow_insecure_plain: bool = False
    strict_durability: bool = False
    virtual_hosts: Mapping[str, VirtualHostConfig] = field(
        default_factory=lambda: {DEFAULT_VHOST: VirtualHostConfig()}
    )
    limits: BrokerLimits = field(default_factory=BrokerLimits)
    grace: Grace = Grace()
    log_level: LogLevel = LogLevel.INFO

    @property
    def has_permissions(self) -> bool:
        """Whether any are given; without any, every user may do everything."""
        return any(vhost.permissions for vhost in self.virtual_hosts.values())

    def overridden(
        self,
        *,
        host: str | None = None,
        port: int | None = None,
        store: str | None = None,
        users: Path | None = None,
        tls_certificate: Path | None = None,
        tls_key: Path | None = None,
        log_level: LogLevel | None = None,
    ) -> BrokerConfig:
        """The same with what the command line says; None: it does not.

        A host or a port leaves the first listener only, there. A certificate is for all listeners.

        Raises:
            LocalError: a value is not possible, or a key comes without its certificate.
        """
        listeners = list(self.listeners)
        if host is not None or port is not None:
            first = listeners[0]
            port = first.port if port is None else port
            if not 0 <= port <= 0xFFFF:
                raise LocalError(f"a port is 0 to 65535, not {port}")
            listeners = [replace(first, host=host or first.host, port=port)]
        if tls_certificate is not None:
            listeners = [_with_certificate(one, tls_certificate, tls_key) for one in listeners]
        elif tls_key is not None:
            raise LocalError("a TLS key needs its certificate beside it")
        return replace(
            self,
            listeners=tuple(listeners),
            store=self.store if store is None else store_at(store, Path()),
            users=users or self.users,
            log_level=log_level or self.log_level,
        )

    def check(self, *, has_users: bool = False) -> None:
        """Check that the whole lets nobody in who is not meant.

        Args:
            has_users: the program that embeds the broker brings users itself.

        Raises:
            LocalError: it would; says what to do.
        """
        if self.users is None and not has_users:
            exposed = [one for one in self.listeners if not one.is_loopback]
            if exposed and not self.allow_anonymous:
                raise LocalError(
                    f"without users everybody who reaches {exposed[0].host} may do everything: name a file "
                    "of users, or set allow_anonymous if that is what you want"
                )
            if self.mechanisms is not None:
                raise LocalError("mechanisms are for users, and no file of users is named")
        elif self.allow_anonymous and not self.has_permissions:
            raise LocalError(
                "with allow_anonymous clients without a name may do everything that users may: give "
                f"permissions to each user, and to {ANONYMOUS!r}"
            )

    def authenticator(self) -> Authenticator:
        """What decides who a client is; reads the file of users.

        Without one everybody is let in, with any name and password, such as programs bring that were written
        for another broker.

        Raises:
            LocalError: the file is not as it should be, or a mechanism is not known.
        """
        if self.users is None:
            return Anybody()
        return PasswordFile(self.users).authenticator(self.mechanisms, allow_anonymous=self.allow_anonymous)

    def access(self) -> Access:
        """What decides who may do what."""
        if not self.has_permissions:
            return Access()
        return Access(
            {
                (user, name): permissions
                for name, vhost in self.virtual_hosts.items()
                for user, permissions in vhost.permissions.items()
            }
        )


def read_config(path: str | os.PathLike[str]) -> BrokerConfig:
    """Read a file. What it leaves out is as :class:`BrokerConfig` has it.

    Raises:
        amqpforge.broker.toml_tables.TomlError: it cannot be read, or says something impossible; names the
            file and the place in it.
    """
    top = read_toml(path)
    vhosts_table = top.table("virtual_hosts")
    vhosts = {name: _read_vhost(name, vhosts_table.table(name)) for name in vhosts_table.names()}
    vhosts_table.finish()
    config = BrokerConfig(
        listeners=tuple(map(_read_listener, top.tables("listeners"))) or (ListenerConfig(),),
        store=_read_store(top),
        users=top.file_name("users"),
        mechanisms=top.texts("mechanisms", None),
        allow_anonymous=top.flag("allow_anonymous", False),
        allow_insecure_plain=top.flag("allow_insecure_plain", False),
        strict_durability=top.flag("strict_durability", False),
        virtual_hosts={DEFAULT_VHOST: VirtualHostConfig(), **vhosts},
        limits=_read_limits(top.table("limits")),
        grace=_read_grace(top.table("grace")),
        log_level=top.choice("log_level", LogLevel.INFO),
    )
    top.finish()
    return config


def store_at(text: str, folder: Path) -> str:
    """A store as it is written, with the path of its file completed.

    Raises:
        LocalError: it is none.
    """
    if text == _MEMORY:
        return text
    if not text.startswith(_SQLITE):
        raise LocalError(f"a store is memory, or sqlite: and the name of a file, not {text!r}")
    try:
        return f"{_SQLITE}{file_at(text.removeprefix(_SQLITE), folder)}"
    except ValueError as error:
        raise LocalError(f"the file of the store {error}") from None


def _with_certificate(listener: ListenerConfig, certificate: Path, key: Path | None) -> ListenerConfig:
    tls = listener.tls or TlsFiles(certificate=certificate)
    return replace(listener, tls=replace(tls, certificate=certificate, key=key))


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)


# --- the tables of the file --------------------------------------------------------------------------------


def _read_store(top: Table) -> str | None:
    text = top.text("store", None)
    try:
        return None if text is None else store_at(text, top.file.parent)
    except LocalError as error:
        raise top.error(str(error), "store") from None


def _read_listener(table: Table) -> ListenerConfig:
    listener = ListenerConfig(
        host=table.text("host", "127.0.0.1"),
        port=table.integer("port", PORT, 0, 0xFFFF),
        tls=_read_tls(table.table("tls")) if "tls" in table else None,
    )
    if not listener.host:
        raise table.error("is empty; for all interfaces write 0.0.0.0 or ::", "host")
    table.finish()
    return listener


def _read_tls(table: Table) -> TlsFiles:
    table.required("certificate")
    tls = TlsFiles(
        certificate=table.file_name("certificate") or Path(),
        key=table.file_name("key"),
        client_ca=table.file_name("client_ca"),
        client_required=table.flag("client_required", False),
        start=table.choice("start", Start.AT_ONCE),
    )
    if tls.client_required and tls.client_ca is None:
        raise table.error("needs client_ca, which says whose certificates are good", "client_required")
    table.finish()
    return tls


def _read_limits(table: Table) -> BrokerLimits:
    values: dict[str, Any] = {}
    for one in fields(BrokerLimits):
        if one.type == "float":
            values[one.name] = table.seconds(one.name, one.default, above=True)
        else:
            values[one.name] = table.integer(one.name, one.default, 1, _MOST_COUNT)
    table.finish()
    try:
        return BrokerLimits(**values)
    except LocalError as error:
        raise table.error(str(error)) from None


def _read_grace(table: Table) -> Grace:
    grace = Grace(idle=table.seconds("idle", 120.0, above=True), shutdown=table.seconds("shutdown", 10.0))
    table.finish()
    return grace


def _read_vhost(name: str, table: Table) -> VirtualHostConfig:
    _check_name(name, table)
    queues, exchanges, permissions = (table.table(one) for one in ("queues", "exchanges", "permissions"))
    vhost = VirtualHostConfig(
        queues={one: _read_queue(one, queues.table(one)) for one in queues.names()},
        exchanges={one: _read_exchange(one, exchanges.table(one)) for one in exchanges.names()},
        bindings=tuple(map(_read_binding, table.tables("bindings"))),
        permissions={one: _read_permissions(permissions.table(one)) for one in permissions.names()},
    )
    table.finish()
    return vhost


def _read_queue(name: str, table: Table) -> QueueSettings:
    _check_name(name, table)
    usual = QueueSettings()
    values: dict[str, Any] = {
        "durable": table.flag("durable", usual.durable),
        "private": table.flag("private", usual.private),
        "auto_delete": table.flag("auto_delete", usual.auto_delete),
        "grace": table.seconds("grace", usual.grace),
        "max_length": table.integer("max_length", None, 1, _MOST_COUNT),
        "max_bytes": table.integer("max_bytes", None, 1, _MOST_COUNT),
        "overflow": table.choice("overflow", usual.overflow),
        "message_ttl": table.seconds("message_ttl", None),
        "expires": table.seconds("expires", None, above=True),
        "priority_levels": table.integer("priority_levels", usual.priority_levels, 1, 256),
        "dead_letter_exchange": table.text("dead_letter_exchange", None),
        "dead_letter_key": table.text("dead_letter_key", None),
        "delivery_limit": table.integer("delivery_limit", None, 1, 0xFFFF_FFFF),
        "duplicate_window": table.integer("duplicate_window", usual.duplicate_window, 0, 1_000_000),
        "acquisition_timeout": table.seconds("acquisition_timeout", None, above=True),
    }
    table.finish()
    try:
        return QueueSettings(**values)
    except InvalidArgument as error:
        raise table.error(str(error)) from None


def _read_exchange(name: str, table: Table) -> ExchangeSettings:
    _check_name(name, table)
    usual = ExchangeSettings()
    settings = ExchangeSettings(
        type=table.text("type", usual.type),
        durable=table.flag("durable", usual.durable),
        auto_delete=table.flag("auto_delete", usual.auto_delete),
        internal=table.flag("internal", usual.internal),
        arguments=_read_arguments(table),
    )
    table.finish()
    return settings


def _read_binding(table: Table) -> BindingConfig:
    binding = BindingConfig(
        exchange=table.required("exchange"),
        queue=table.text("queue", None),
        to_exchange=table.text("to_exchange", None),
        key=table.text("key", ""),
        arguments=_read_arguments(table),
    )
    if (binding.queue is None) is (binding.to_exchange is None):
        raise table.error("needs either queue or to_exchange, where messages go")
    table.finish()
    return binding


def _read_arguments(table: Table) -> dict[str, str | int | float | bool]:
    arguments: dict[str, str | int | float | bool] = {}
    for name, value in table.values("arguments").items():
        if not isinstance(value, str | int | float):
            raise table.error("is no string, number, true or false", "arguments", name)
        arguments[name] = value
    return arguments


def _read_permissions(table: Table) -> Permissions:
    patterns = {one: table.text(one, "") for one in ("configure", "write", "read")}
    table.finish()
    try:
        return Permissions.of(**patterns)
    except ValueError as error:
        raise table.error(str(error)) from None


def _check_name(name: str, table: Table) -> None:
    if not name or not name.isprintable() or len(name.encode()) > _MOST_NAME:
        raise table.error(f"a name is 1 to {_MOST_NAME} octets of printable characters")
