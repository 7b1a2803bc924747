"""From a URL to a transport that is driven: name, socket, TLS, and the layers that are asked for."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from amqpforge.engine.layers import ClientSecurity, ClientStack
from amqpforge.errors import ConnectionLost, LocalError, NegotiationFailed

from .redirects import tls_name
from .tap import Tap
from .transport import Driver

if TYPE_CHECKING:
    from amqpforge.engine.connection import Connection
    from amqpforge.sasl import Credentials
    from amqpforge.url import Url

    from .options import Options

__all__ = ["dial"]

_log = logging.getLogger("amqpforge.transport")


async def dial(
    url: Url,
    options: Options,
    engine: Connection,
    report: Callable[[Sequence[Any]], None],
    *,
    credentials: Credentials | None,
) -> Driver:
    """Connect a transport, and put the engine on it; what the layers need is negotiated from there on.

    Args:
        url: where to.
        options: how.
        engine: the connection.
        report: takes what the engine tells.
        credentials: for the SASL layer; None: without such a layer.

    Raises:
        ConnectionLost: there is nobody at this address, or the network does not let us through.
        LocalError: TLS is wanted inside of a WebSocket.
        NegotiationFailed: TLS could not be established: most often the certificate is not trusted.
    """
    in_band = options.ssl is not None and not url.tls
    if in_band and url.websocket:
        raise LocalError("a WebSocket with TLS has the scheme amqp+wss")
    stack = ClientStack(
        engine,
        ClientSecurity(
            credentials=credentials,
            hostname=None if url.tls else options.hostname_for(url),
            tls="header" if in_band else None,
            max_sasl_frame_size=options.max_sasl_frame_size,
        ),
        is_private=url.tls,
    )
    context = options.ssl
    if context is None and url.tls:
        context = ssl.create_default_context()
    tap = Tap.wanted(options.record, url)

    def make() -> Driver:
        tls = (context, tls_name(url)) if in_band and context is not None else None
        return Driver(stack, report, tls=tls, tap=tap)

    _log.debug("connecting to %s", url)
    try:
        if url.websocket:
            from .websocket import open_websocket

            return await open_websocket(url, make, context, max_frame_size=options.max_frame_size)
        _, driver = await asyncio.get_running_loop().create_connection(
            make,
            url.host,
            url.port,
            ssl=context if url.tls else None,
            server_hostname=tls_name(url) if url.tls else None,
        )
    except ssl.SSLError as error:
        raise NegotiationFailed(f"TLS with {url} failed: {error.reason or error}") from error
    except OSError as error:
        raise ConnectionLost(f"cannot connect to {url}: {error.strerror or error}") from error
    return driver
