"""How a WebSocket is opened: what is asked of the library ``websockets``, and what servers say instead.

The library is an extra: nothing here imports it before a WebSocket is asked for.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from amqpforge.engine.headers import describe
from amqpforge.errors import ConnectionClosed, ConnectionLost, LocalError, NegotiationFailed

if TYPE_CHECKING:
    from websockets.client import ClientProtocol
    from websockets.exceptions import InvalidStatus

    from amqpforge.url import Url

__all__ = ["SUBPROTOCOL", "client_protocol", "refusal", "shown"]

SUBPROTOCOL: Final = "amqp"
"""By this name WebSockets carry AMQP."""

_VISIBLE: Final = "".join(map(chr, range(0x21, 0x7F)))
_SHOWN: Final = 200

_PASSING: Final = (429, 500, 502, 503, 504)
"""Codes of HTTP with which the same may well succeed later."""

_HINTS: Final = {
    401: "it wants a password by HTTP, and the one of a URL is for SASL only",
    404: "the path of the URL has to say where the WebSocket is",
    407: "a proxy in between wants a password",
}

_log = logging.getLogger("amqpforge.transport")


def client_protocol(url: Url, max_size: int) -> ClientProtocol:
    """The client's end of a WebSocket that takes frames of up to ``max_size`` octets.

    Raises:
        LocalError: the library is missing or too old, or the name of the host is none.
    """
    try:
        from websockets.client import ClientProtocol
        from websockets.typing import Subprotocol
        from websockets.uri import WebSocketURI
    except ImportError as error:
        text = f'{url.scheme}:// needs the library websockets: pip install "amqpforge[websocket]"'
        raise LocalError(text) from error
    try:
        name = url.host if url.host.isascii() else url.host.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise LocalError(f"the host of {url} is no name of a host: {error}") from error
    path, _, query = quote(url.resource or "/", safe=_VISIBLE).partition("?")
    return ClientProtocol(
        # No user: the header of HTTP would show the password ahead of SASL. No zone: it means nothing there.
        WebSocketURI(url.tls, name.partition("%")[0], url.port, path, query),
        subprotocols=[Subprotocol(SUBPROTOCOL)],
        max_size=(None, max_size),
        logger=_Discreet(_log, {}),
    )


class _Discreet(logging.LoggerAdapter[logging.Logger]):
    """Keeps the library from logging what travels: there are passwords in it."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - it overrides that of the base
        return level > logging.DEBUG and super().isEnabledFor(level)


def refusal(url: Url, error: Exception, first: bytes) -> ConnectionClosed:
    """What to raise when the handshake has failed.

    Args:
        url: of the server.
        error: what the library says.
        first: what the server said first.
    """
    from websockets.exceptions import InvalidMessage, InvalidStatus

    if isinstance(error, InvalidStatus):
        return _status_refusal(url, error)
    asked = f"a WebSocket for {SUBPROTOCOL!r} was asked for at {url}"
    if first and not first.startswith(b"HTTP/"):
        return NegotiationFailed(f"{asked}, but the peer is {describe(first)}")
    if not isinstance(error, InvalidMessage):
        return NegotiationFailed(f"{asked}, and the answer does not do: {shown(str(error))}")
    if isinstance(error.__cause__, EOFError):
        return ConnectionLost(f"{asked}, and the peer ended the transport instead of answering")
    return NegotiationFailed(f"{asked}, and the answer is malformed: {shown(str(error.__cause__))}")


def _status_refusal(url: Url, error: InvalidStatus) -> ConnectionClosed:
    response = error.response
    status = f"{response.status_code} {shown(response.reason_phrase)}".rstrip()
    text = f"there is no WebSocket at {url}: it answers HTTP {status}"
    if response.status_code in _PASSING:
        return ConnectionLost(text)
    places = response.headers.get_all("Location")
    if places and 300 <= response.status_code < 400:
        hint = f"it is at {shown(places[0])} now"
    else:
        hint = _HINTS.get(response.status_code, "")
    return NegotiationFailed(f"{text}: {hint}" if hint else text)


def shown(text: str) -> str:
    """A text that the server chose, short and harmless."""
    shown = text[:_SHOWN]
    return shown if shown.isprintable() else ascii(shown)
