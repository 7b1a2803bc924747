"""Links of the receiver: each is attached once, under a name that no other attachment ever has.

So a delivery-tag means one message for as long as anybody remembers the name: a link that is lost is attached
once more only to tell the peer what is in the spool (see :mod:`.recovery`), and then closed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from amqpforge.client.connection import Connection
from amqpforge.client.receiver import Receiver
from amqpforge.client.termini import MAX_MESSAGE_SIZE, TARGET, link_name, missing_filters, source
from amqpforge.engine.receiver import Receiver as ReceiverEnd
from amqpforge.errors import EndpointClosed, LinkDetached, LocalError, OperationTimedOut
from amqpforge.management import Management
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    Attach,
    ReceiverSettleMode,
    SenderSettleMode,
    Source,
    StdDistMode,
    TerminusExpiryPolicy,
)

if TYPE_CHECKING:
    from amqpforge.engine.peer_end import PeerEnd

    from .options import ReadOptions

__all__ = [
    "OnceReceiver",
    "attach",
    "attach_again",
    "available",
    "confirms",
    "drain",
    "find_addresses",
    "new_name",
]

KEPT: Final = 60
"""Seconds for which the peer is asked to keep a link that was lost."""

_ANSWER: Final = 5.0
"""Seconds for which a peer may leave a drain unanswered; some never answer."""
_QUIET: Final = 1.0
"""Seconds without a message after which a node of such a peer counts as empty."""
_ACCEPTED: Final = Accepted()
_PATTERN: Final = re.compile(r"[*?]")


class OnceEnd(ReceiverEnd):
    """The engine's end of such a link; it keeps whether the peer agrees to settle first."""

    __slots__ = ("peer_settles_first",)

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self.peer_settles_first = False

    def learn(self, attach: Attach, remote: PeerEnd) -> None:
        super().learn(attach, remote)
        self.peer_settles_first = attach.rcv_settle_mode is ReceiverSettleMode.SECOND


class OnceReceiver(Receiver):
    """A receiver that is over when it is lost."""

    __slots__ = ()

    _recovers = False

    @property
    def end(self) -> OnceEnd:
        """The engine's end."""
        if not isinstance(self._end, OnceEnd):
            raise LocalError(f"{self!r} was not made by attach")
        return self._end


def new_name(address: str) -> str:
    """A name that no link has had."""
    return link_name(address)


async def attach(
    connection: Connection, options: ReadOptions, address: str, name: str, *, credit: int
) -> OnceReceiver:
    """A receiver as the options say. Where the peer can, it settles only after the outcome is safe with it.

    Raises:
        LinkDetached: the peer refuses the link, or does not copy where it should.
        AmqpforgeError: the connection is over, or the peer does not answer.
    """
    if not options.consumes:
        receiver = await _attach(connection, _end(options, address, name), credit)
        if not _copies(receiver):
            await receiver.close()
            raise LinkDetached(
                f"the peer does not copy messages from {address!r}: it would hand them out for good, which "
                "is mode=consume"
            )
        return receiver
    end = _end(options, address, name)
    end.rcv_settle_mode = ReceiverSettleMode.SECOND
    try:
        receiver = await _attach(connection, end, credit)
    except EndpointClosed as refused:
        if not connection.is_connected or refused.condition in _ABOUT_THE_NODE:
            raise
    else:
        if receiver.end.peer_settles_first:
            return receiver
        await receiver.close()
    return await _attach(connection, _end(options, address, name), credit)


async def attach_again(
    connection: Connection, options: ReadOptions, address: str, name: str, tags: Iterable[bytes]
) -> OnceReceiver:
    """Attach a link that was lost, to say that the messages with these tags are accepted. It gets no credit.

    Raises:
        AmqpforgeError: the peer does not take it.
    """
    end = _end(options, address, name)
    end.rcv_settle_mode = ReceiverSettleMode.SECOND
    for tag in tags:
        end.restore(tag, b"", state=_ACCEPTED)
    return await _attach(connection, end, 0)


def confirms(receiver: OnceReceiver) -> bool:
    """Whether the peer settles a message only once its outcome is safe, so that its settling confirms it."""
    return receiver.end.rcv_settle_mode is ReceiverSettleMode.SECOND


async def drain(connection: Connection, receiver: OnceReceiver) -> bool:
    """Have the peer send what it has, as far as the credit goes; returns whether there is no more.

    If the peer cannot say, it counts as empty when nothing came for a second.

    Raises:
        AmqpforgeError: the link or the connection is over.
    """
    if not _drains(connection):
        return await _is_quiet(receiver)
    before = receiver._messages
    credit = receiver.end.link_credit
    try:
        await receiver.drain(timeout=_ANSWER)
    except OperationTimedOut:
        receiver.resume()
        return await _is_quiet(receiver)
    return credit > 0 and receiver._messages - before < credit


async def available(connection: Connection, receiver: OnceReceiver) -> int | None:
    """How many messages will have come over a link that is new once it has sent what its node has now; None:
    the peer does not tell.

    Raises:
        AmqpforgeError: the link or the connection is over.
    """
    receiver._check()
    receiver.end.flow(echo=True)
    connection._wake()
    await connection.round_trip()  # Its answer comes behind the one to the flow.
    left = receiver.end.flow_state.available
    return receiver._messages + left if left else None


async def find_addresses(connection: Connection, addresses: Iterable[str]) -> list[str]:
    """Addresses, with the names of queues in the place of patterns.

    Raises:
        LinkDetached: no queue fits a pattern.
        AmqpforgeError: the peer has no management node, or refuses to tell.
    """
    found: list[str] = []
    names: list[str] | None = None
    for address in addresses:
        if not _PATTERN.search(address):
            found.append(address)
            continue
        if names is None:
            async with Management(connection) as management:
                names = sorted(queue.name for queue in await management.queues())
        fitting = [name for name in names if fnmatchcase(name, address)]
        if not fitting:
            raise LinkDetached(f"no queue of the peer fits the pattern {address!r}")
        found += fitting
    return list(dict.fromkeys(found))


def _end(options: ReadOptions, address: str, name: str) -> OnceEnd:
    return OnceEnd(
        name,
        source=source(
            address,
            mode=None if options.consumes else StdDistMode.COPY.value,
            selector=options.selector,
            filter=None,
            expiry_policy=TerminusExpiryPolicy.SESSION_END,
            expiry=KEPT if options.consumes else 0,
        ),
        target=TARGET,
        snd_settle_mode=SenderSettleMode.UNSETTLED,
        max_message_size=MAX_MESSAGE_SIZE,
    )


async def _attach(connection: Connection, end: OnceEnd, credit: int) -> OnceReceiver:
    asked = end.source
    receiver = OnceReceiver(connection, end, window=credit, auto_accept=False)
    await connection._attach(receiver, connection._options.timeout)
    if receiver.end.snd_settle_mode is SenderSettleMode.SETTLED:
        await receiver.close()
        raise LinkDetached("the peer sends messages as settled: what it sends is lost if this process is")
    if isinstance(asked, Source):
        missing = missing_filters(receiver, asked)
        if missing:
            await receiver.close()
            raise LinkDetached(
                f"the peer does not apply the filter {missing[0]}: leave the option 'filter' out"
            )
    return receiver


def _copies(receiver: OnceReceiver) -> bool:
    remote = receiver.end.remote
    told = remote.source if remote is not None else None
    return isinstance(told, Source) and told.distribution_mode == StdDistMode.COPY


def _drains(connection: Connection) -> bool:
    """Whether it is safe to ask the peer to drain: RabbitMQ before 4.0 ends the session of who does."""
    remote = connection.remote
    about: Mapping[str, Any] = (remote.properties if remote is not None else None) or {}
    told = {str(key): value for key, value in about.items()}
    major = str(told.get("version", "")).partition(".")[0]
    return told.get("product") != "RabbitMQ" or (major.isdecimal() and int(major) >= 4)


async def _is_quiet(receiver: OnceReceiver) -> bool:
    before = -1
    while receiver._messages != before:
        before = receiver._messages
        await asyncio.sleep(_QUIET)
        receiver._check()
    return True


_ABOUT_THE_NODE: Final = frozenset(
    (AmqpError.NOT_FOUND, AmqpError.UNAUTHORIZED_ACCESS, AmqpError.RESOURCE_DELETED, AmqpError.INVALID_FIELD)
)
"""Conditions of a refused link that another settle mode does not help against."""
