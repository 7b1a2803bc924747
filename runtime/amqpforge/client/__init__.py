"""The asyncio client: connections, senders and receivers of AMQP 1.0.

::

    async with connect("amqp://localhost") as connection:
        async with connection.sender("queue") as sender:
            await sender.send("hello")
        async with connection.receiver("queue") as receiver:
            async for delivery in receiver:
                print(delivery.message.body)

Everything here belongs to one event loop, and starts no thread. The engine that it drives is
:mod:`amqpforge.engine`; ``docs/client.md`` says what applications see when a connection is lost.
"""

from __future__ import annotations

import os
import ssl as tls
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from amqpforge.errors import LocalError
from amqpforge.message import Message
from amqpforge.sasl import Credentials
from amqpforge.url import Url

from .batch import Batch
from .connection import Connection
from .counters import ConnectionCounters, ReceiverCounters, SenderCounters
from .delivery import Delivery
from .options import Options, Reconnect, parse_urls
from .outcomes import Outcome
from .receiver import Receiver
from .reconnecting import try_each
from .requests import Requester
from .sender import Sender
from .streams import MessageAborted, OutgoingStream, StreamedDelivery
from .transactions import Transaction, TransactionFailed
from .waiting import DEFAULT, Opening, Timeout

__all__ = [
    "DEFAULT",
    "Batch",
    "Connection",
    "ConnectionCounters",
    "Credentials",
    "Delivery",
    "Message",
    "MessageAborted",
    "Opening",
    "Outcome",
    "OutgoingStream",
    "Receiver",
    "ReceiverCounters",
    "Reconnect",
    "Requester",
    "Sender",
    "SenderCounters",
    "StreamedDelivery",
    "Timeout",
    "Transaction",
    "TransactionFailed",
    "connect",
]

_RECONNECT = Reconnect()


def connect(
    url: str | Url | Sequence[str | Url],
    *,
    username: str | None = None,
    password: str | None = None,
    credentials: Credentials | None = None,
    ssl: tls.SSLContext | None = None,
    container_id: str | None = None,
    hostname: str | None = None,
    timeout: float | None = 30.0,
    idle_time_out: float | None = 120.0,
    max_frame_size: int = 65_536,
    channel_max: int = 1023,
    handle_max: int = 65_535,
    properties: Mapping[str, Any] | None = None,
    offered_capabilities: Sequence[str] = (),
    desired_capabilities: Sequence[str] = (),
    reconnect: Reconnect | None = _RECONNECT,
    allow_insecure_plain: bool = False,
    max_sasl_frame_size: int = 512,
    record: str | os.PathLike[str] | None = None,
) -> Opening[Connection]:
    """A connection: ``await`` it, or use it with ``async with``, which closes it.

    Args:
        url: where to, see :mod:`amqpforge.url`; or several URLs, of which the first that answers will do, now
            and whenever the connection is lost.
        username: who we are, instead of the one in the URL. Without one the SASL mechanism is ANONYMOUS, and
            there is no SASL layer at all with a peer that has none.
        password: goes with it; a user without one needs credentials of another kind.
        credentials: other ways to show who we are: tokens, certificates, a choice of mechanisms.
        ssl: how TLS is to be done. With ``amqp://`` it is asked for by a protocol header; with ``amqps://``
            it is there from the start, and None is the default context of Python, which checks names and
            certificates.
        container_id: our name among containers, by which links are known again; None: one that nobody has.
        hostname: the host or virtual host that is wanted, instead of the one in the URL.
        timeout: seconds for each step that waits, unless it says otherwise; None: no limit.
        idle_time_out: seconds of silence after which the peer is taken for lost; half of it is announced.
        max_frame_size: octets of the largest frame that we take, 512 or more.
        channel_max: the highest channel that the peer may use.
        handle_max: the highest handle that the peer may use on a session.
        properties: what else to tell about us.
        offered_capabilities: extensions that we have.
        desired_capabilities: extensions that we would use.
        reconnect: how to come back when the connection is lost; None: not at all, everything on it is over.
        allow_insecure_plain: send a password as it is where others may read it: beyond this machine, without
            TLS.
        max_sasl_frame_size: octets of the largest SASL frame; tokens may need more than the specification
            allows.
        record: a file to which all that goes over the connection is added, as a packet capture that
            ``amqpforge decode`` reads. It shows no secret of SASL, but messages as they are.

    Raises:
        ConnectionLost: there is nobody, or the peer drops the connection.
        NegotiationFailed: the peer speaks something else, which the text names; or TLS has failed.
        AuthenticationFailed: the peer does not take us for who we say.
        ConnectionClosed: the peer closed instead of opening: ``condition`` says why.
        OperationTimedOut: the peer does not answer.
        LocalError: a URL or an argument is wrong.
    """
    if credentials is None and (username is not None or password is not None):
        credentials = Credentials(
            username=username, password=password, allow_insecure_plain=allow_insecure_plain
        )
    elif username is not None or password is not None:
        raise LocalError("username and password are part of the credentials, if these are given")
    options = Options(
        credentials=credentials,
        allow_insecure_plain=allow_insecure_plain,
        ssl=ssl,
        container_id=container_id or "",
        hostname=hostname,
        timeout=timeout,
        idle_time_out=idle_time_out,
        max_frame_size=max_frame_size,
        channel_max=channel_max,
        handle_max=handle_max,
        properties=properties or {},
        offered_capabilities=offered_capabilities,
        desired_capabilities=desired_capabilities,
        reconnect=reconnect,
        max_sasl_frame_size=max_sasl_frame_size,
        record=None if record is None else Path(record),
    )
    urls = parse_urls(url)
    for one in urls:
        options.credentials_for(one)

    async def open() -> Connection:
        connection = Connection(urls, options)
        try:
            await try_each(connection)
        except BaseException:
            await connection.close()
            raise
        return connection

    return Opening(open)
