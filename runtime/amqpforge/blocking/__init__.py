"""The asyncio client for code without asyncio: the same names, the same arguments, for threads.

::

    with blocking.connect("amqp://localhost") as connection:
        with connection.sender("queue") as sender:
            sender.send("hello")
        with connection.receiver("queue") as receiver:
            for delivery in receiver:
                print(delivery.message.body)

All that can be done with one of these objects, many threads may do at once. What they wait for happens in one
I/O thread, which all connections of the process share: it starts with the first of them, ends with the last
one, and sends what keeps connections alive however long the threads of the application take.
``docs/blocking.md`` says more.
"""

from __future__ import annotations

import os
import ssl as tls
from collections.abc import Mapping, Sequence
from typing import Any

from amqpforge import client
from amqpforge.client import (
    DEFAULT,
    ConnectionCounters,
    Credentials,
    Message,
    MessageAborted,
    Outcome,
    ReceiverCounters,
    Reconnect,
    SenderCounters,
    Timeout,
    TransactionFailed,
)
from amqpforge.url import Url

from .connection import Connection
from .delivery import Delivery, StreamedDelivery
from .io_thread import IoThread
from .receiver import Receiver
from .requests import Requester
from .sender import Sender
from .streams import OutgoingStream
from .transactions import Transaction

__all__ = [
    "DEFAULT",
    "Connection",
    "ConnectionCounters",
    "Credentials",
    "Delivery",
    "Message",
    "MessageAborted",
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
) -> Connection:
    """A connection, open; use it in a ``with`` block, which closes it.

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
    opening = client.connect(
        url,
        username=username,
        password=password,
        credentials=credentials,
        ssl=ssl,
        container_id=container_id,
        hostname=hostname,
        timeout=timeout,
        idle_time_out=idle_time_out,
        max_frame_size=max_frame_size,
        channel_max=channel_max,
        handle_max=handle_max,
        properties=properties,
        offered_capabilities=offered_capabilities,
        desired_capabilities=desired_capabilities,
        reconnect=reconnect,
        allow_insecure_plain=allow_insecure_plain,
        max_sasl_frame_size=max_sasl_frame_size,
        record=record,
    )

    async def open() -> client.Connection:
        return await opening

    thread, twin = IoThread.connect(open)
    return Connection(thread, twin)
