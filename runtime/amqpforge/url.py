"""Where to connect, as a URL: scheme, user, host, port, virtual host.

    amqp://user:password@host:5672/virtual-host        TCP
    amqps://user:password@host:5671/virtual-host       TLS
    amqp+ws://host:80/resource                         WebSocket
    amqp+wss://host:443/resource                       WebSocket over TLS

Only scheme and host are needed. ``%xx`` is decoded in user name, password and virtual host; there ``/``,
``?``, ``#`` and ``@`` have to be written so. An IPv6 address stands in brackets.

The path of ``amqp`` and ``amqps`` is the virtual host, not the address of a node. It travels as it is given,
in the hostname of open; without one the hostname is the host. What peers make of it differs. RabbitMQ looks
for ``vhost:`` and a name, and silently takes every other hostname for its default virtual host, so it wants
``amqp://host/vhost:name``. Qpid Broker-J looks it up among the names and aliases of its virtual hosts.
Services that many share know by it whose part is meant.

There are no options behind ``?``: they are arguments of what the URL is given to. The path and the query of a
WebSocket URL are what its HTTP request asks for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import PORT, SECURE_PORT

__all__ = ["Url", "UrlError", "parse_url"]


class UrlError(LocalError, ValueError):
    """A URL that says not clearly where to connect. The text quotes nothing of what may be a password.

    Attributes:
        part: what is wrong: ``scheme``, ``user name``, ``password``, ``host``, ``port``, ``path``...
    """

    def __init__(self, part: str, problem: str) -> None:
        super().__init__(f"the {part} of the URL {problem}")
        self.part = part


class _Scheme(NamedTuple):
    tls: bool
    websocket: bool
    port: int


_SCHEMES = {
    "amqp": _Scheme(tls=False, websocket=False, port=PORT),
    "amqps": _Scheme(tls=True, websocket=False, port=SECURE_PORT),
    "amqp+ws": _Scheme(tls=False, websocket=True, port=80),
    "amqp+wss": _Scheme(tls=True, websocket=True, port=443),
}
_KNOWN = "amqp://, amqps://, amqp+ws:// or amqp+wss://"
_ESCAPES = 'a "/", "?", "#" or "@" in a user name or password is written %2F, %3F, %23, %40'

_PARTS = re.compile(r"(?:([^:/?#]*)://)?([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_HOST = re.compile(r"[\w.~-]+")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]+(%[\w.~-]+)?")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_BLANK = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True, repr=False)
class Url:
    """Where to connect.

    ``str()`` gives a URL that can be shown, and so does ``repr()``: without the password, and without the
    values of a query, which often are tokens. :meth:`with_secrets` gives all of it.

    Attributes:
        scheme: ``amqp``, ``amqps``, ``amqp+ws`` or ``amqp+wss``.
        host: a name or an address; an IPv6 address without brackets.
        port: 1 to 65535.
        username: None if there is none.
        password: None if there is none.
        virtual_host: None if there is none; never for WebSocket.
        resource: what the HTTP request of a WebSocket asks for, path and query; None for TCP.
    """

    scheme: str
    host: str
    port: int
    username: str | None = None
    password: str | None = None
    virtual_host: str | None = None
    resource: str | None = None

    @property
    def tls(self) -> bool:
        """Whether TLS comes first."""
        return _SCHEMES[self.scheme].tls

    @property
    def websocket(self) -> bool:
        """Whether frames travel in a WebSocket."""
        return _SCHEMES[self.scheme].websocket

    @property
    def hostname(self) -> str:
        """What open says in its hostname: the virtual host as it is given, else the host."""
        return self.virtual_host if self.virtual_host is not None else self.host

    def __str__(self) -> str:
        path, mark, query = (self.resource or "").partition("?")
        return self._text("", path + mark + "&".join(map(_without_value, query.split("&"))))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def with_secrets(self) -> str:
        """The whole URL, as :func:`parse_url` takes it: with the password, and all of the query. Do not show
        it.
        """
        password = f":{quote(self.password, safe='')}" if self.password is not None else ""
        return self._text(password, self.resource or "")

    def _text(self, password: str, resource: str) -> str:
        user = f"{quote(self.username, safe='')}{password}@" if self.username is not None else ""
        host = f"[{self.host.replace('%', '%25')}]" if ":" in self.host else self.host
        path = resource if self.virtual_host is None else "/" + quote(self.virtual_host, safe=":")
        return f"{self.scheme}://{user}{host}:{self.port}{path}"


def parse_url(url: str) -> Url:
    """Take a URL apart.

    Raises:
        UrlError: a part is missing, malformed, or one that these URLs do not have; the error names it.
    """
    if not isinstance(url, str):
        raise UrlError("text", f"is of type {type(url).__name__}; give a str")
    if _BLANK.search(url):
        raise UrlError("text", "has a blank or a control character, which is written as % and two digits")
    found = _PARTS.fullmatch(url)
    name, authority, path, query, fragment = found.groups() if found else (None, "", "", None, None)
    if name is None or name.lower() not in _SCHEMES:
        raise UrlError("scheme", f"is missing or not known; a URL begins with {_KNOWN}")
    if "@" in f"{path}{query}{fragment}":
        raise UrlError("path", f'has an "@"; {_ESCAPES}')
    if fragment is not None:
        raise UrlError("fragment", f"means nothing here; {_ESCAPES}")
    scheme = _SCHEMES[name.lower()]
    user, at, place = authority.rpartition("@")
    username, colon, password = user.partition(":")
    host, port = _place(place)
    if at and not username:
        raise UrlError("user name", "is empty")
    if query is not None and not scheme.websocket:
        raise UrlError("query", "means nothing here; options are arguments of what the URL is given to")
    return Url(
        scheme=name.lower(),
        host=host,
        port=port or scheme.port,
        username=_decoded("user name", username) if at else None,
        password=_decoded("password", password) if colon else None,
        virtual_host=None if scheme.websocket else _virtual_host(path),
        resource=(path or "/") + (query or "") if scheme.websocket else None,
    )


def _place(place: str) -> tuple[str, int | None]:
    """Host and port; the port is None if it is left out."""
    if place.startswith("["):
        host, bracket, rest = place[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise UrlError("host", "opens a bracket and does not close it before the port")
        return _ipv6(host), _port(rest[1:])
    if place.count(":") > 1:
        raise UrlError("host", f"has more than one colon; an IPv6 address stands in brackets, and {_ESCAPES}")
    host, _, digits = place.partition(":")
    port = _port(digits)
    if not host:
        raise UrlError("host", "is missing")
    if not _HOST.fullmatch(host):
        raise UrlError("host", f"has a character that no name of a host has; {_ESCAPES}")
    return host, port


def _ipv6(text: str) -> str:
    """An IPv6 address, with its zone behind a ``%`` if it has one."""
    address = _decoded("host", text)
    try:
        IPv6Address(address)
        is_fit = _IPV6.fullmatch(address) is not None
    except AddressValueError:
        is_fit = False
    if not is_fit:
        raise UrlError("host", "is in brackets but not an IPv6 address")
    return address


def _port(digits: str) -> int | None:
    if not digits:
        return None
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 5 and 1 <= int(digits) <= 65535):
        raise UrlError("port", f"is not a number from 1 to 65535; {_ESCAPES}")
    return int(digits)


def _virtual_host(path: str) -> str | None:
    name = path[1:]
    if "/" in name:
        raise UrlError(
            "path", 'has several parts, and names one virtual host; a "/" in its name is written %2F'
        )
    return _decoded("path", name) or None


def _without_value(part: str) -> str:
    """A part of a query, to be shown: what has no name may be a value too."""
    name, sign, _ = part.partition("=")
    return f"{name}=..." if sign else part and "..."


def _decoded(part: str, text: str) -> str:
    if _BAD_ESCAPE.search(text):
        raise UrlError(part, 'has a "%" without two hexadecimal digits behind it; a "%" is written %25')
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeError:
        raise UrlError(part, "is not UTF-8 behind its %") from None
