"""From a URL to a transport that is driven: name, socket, TLS, and the layers that are asked for."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from amqpforge.engine.layers import ClientSecurity, ClientStack
from amqpforge.errors import ConnectionLost, LocalError, NegotiationFailed
from amqpforge.transport import Driver

from .redirects import tls_name
from .tap import Tap

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
        LocalError: TLS is wanted inside of a WebSocket; or the host is no name of a host; or the recording
            cannot be written.
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
    try:
        tap = Tap.wanted(options.record, url)
    except OSError as error:
        raise LocalError(f"cannot record to {options.record}: {error.strerror or error}") from error

    def make() -> Driver:
        tls = (context, tls_name(url)) if in_band and context is not None else None
        return Driver(stack, report, tls=tls, tap=tap)

    _log.debug("connecting to %s", url)
    try:
        driver = await _connect(url, options, make, context)
    except BaseException:
        if tap is not None:
            tap.ended()
        raise
    return driver


async def _connect(
    url: Url, options: Options, make: Callable[[], Driver], context: ssl.SSLContext | None
) -> Driver:
    """The driver that ``make`` makes, on a transport. Raises what :func:`dial` does."""
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
    except UnicodeError as error:
        raise LocalError(f"the host of {url} is no name of a host: {error}") from error
    except ssl.SSLError as error:
        raise NegotiationFailed(f"TLS with {url} failed: {_tls_problem(error)}") from error
    except OSError as error:
        raise ConnectionLost(f"cannot connect to {url}: {_problem(error)}") from error
    return driver


def _tls_problem(error: ssl.SSLError) -> str:
    """What is wrong with TLS, and of a certificate what is wrong with that."""
    if error.reason == "WRONG_VERSION_NUMBER":
        return "the peer does not speak TLS on this port"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not trusted ({error.reason}): {error.verify_message}"
    return error.reason or str(error)


def _problem(error: OSError) -> str:
    """What the system says; asyncio says in its place which address it has tried."""
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    return error.strerror or str(error)
