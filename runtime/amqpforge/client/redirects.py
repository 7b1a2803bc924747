"""Where a peer sends us instead: to another machine, and perhaps under another name (section 2.8.16)."""

from __future__ import annotations

from dataclasses import dataclass, fields

from amqpforge.errors import EndpointClosed
from amqpforge.url import Url, UrlError, parse_url

__all__ = ["RedirectedUrl", "redirected", "tls_name"]


@dataclass(frozen=True, slots=True, repr=False)
class RedirectedUrl(Url):
    """A URL whose host is the machine to connect to, while open, SASL and TLS name another one.

    Attributes:
        named: what they name; it counts more than the ``hostname`` of ``connect``.
    """

    named: str = ""

    @property
    def hostname(self) -> str:
        return self.named


def redirected(url: Url, error: EndpointClosed) -> RedirectedUrl | None:
    """Where the peer at a URL sends us, by the error that ends a connection, or refuses or ends a link.

    The scheme stays, and with it TLS; so do user name and password. What the error leaves out stays too, but
    for the name: without one it is that of the machine.

    Args:
        url: of the connection.
        error: what the peer said; of a link, ``error.redirect.address`` is the node in the other container.

    Returns:
        A URL for ``connect``; None if the error is no redirect, or cannot be followed: it does not say where
        to, or what it says is no host, or the connection is a WebSocket, whose resource no redirect can name.
    """
    redirect = error.redirect
    if redirect is None or url.websocket:
        return None
    host = redirect.network_host or redirect.hostname or url.host
    port = redirect.port or url.port
    if redirect.network_host is None and redirect.hostname is None and redirect.port is None:
        return None
    try:
        parsed = parse_url(f"{url.scheme}://{f'[{host}]' if ':' in host else host}:{port}")
    except UrlError:
        return None
    if parsed.host != host:
        return None
    place = {part.name: getattr(url, part.name) for part in fields(Url)}
    place.update(host=host, port=port, virtual_host=None)
    return RedirectedUrl(**place, named=redirect.hostname or host)


def tls_name(url: Url) -> str:
    """The name that TLS asks for, and that the certificate has to show."""
    return url.named if isinstance(url, RedirectedUrl) else url.host
