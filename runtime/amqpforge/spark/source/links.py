"""Links of the receiver: each is attached once, under a name that no other attachment ever has.

So a delivery-tag means one message for as long as anybody remembers the name: a link that is lost is attached
once more only to tell the peer what is in the spool (see :mod:`.recovery`), and then closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqpforge.client.connection import Connection
from amqpforge.client.delivery import Delivery
from amqpforge.client.receiver import Receiver
from amqpforge.client.termini import MAX_MESSAGE_SIZE, TARGET, link_name, missing_filters, source
from amqpforge.engine.receiver import Receiver as ReceiverEnd
from amqpforge.errors import EndpointClosed, LinkDetached
from amqpforge.management import Management
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    ReceiverSettleMode,
    SenderSettleMode,
    Source,
    StdDistMode,
    TerminusExpiryPolicy,
)

from .share import Share, ShareEnd

if TYPE_CHECKING:
    from amqpforge.engine.delivery import IncomingDelivery

    from .options import ReadOptions
    from .share import Limit

__all__ = [
    "OnceReceiver",
    "UnsuitablePeer",
    "attach",
    "attach_again",
    "confirms",
    "find_addresses",
    "new_name",
]

KEPT: Final = 60
"""Seconds for which the peer is asked to keep a link that was lost."""

_ACCEPTED: Final = Accepted()
_PATTERN: Final = re.compile(r"[*?]")


class UnsuitablePeer(LinkDetached):
    """The peer has not what is asked for, so that it is of no use to ask again."""


class OnceReceiver(Receiver):
    """A receiver that is over when it is lost. What is beyond its share goes back to the peer at the end."""

    __slots__ = ("_surplus",)

    _recovers = False

    def __init__(self, connection: Connection, end: ReceiverEnd, **options: Any) -> None:
        super().__init__(connection, end, **options)
        self._surplus: list[IncomingDelivery] = []

    @property
    def is_partial(self) -> bool:
        """Whether a message is coming in of which a part is here."""
        return self.end._current is not None

    def take(self) -> list[IncomingDelivery]:
        """All messages that wait here. Those that were sent settled are settled here too."""
        taken = list(self._ready_deliveries)
        self._ready_deliveries.clear()
        self._handed_over += len(taken)
        for delivery in taken:
            if delivery.remote_settled:
                self._own(delivery)
        return taken

    @property
    def share(self) -> Share | None:
        """What may come over the link in all; None: there is no limit."""
        return self._end.share if isinstance(self._end, ShareEnd) else None

    def _line_up(self, deliveries: Sequence[IncomingDelivery]) -> None:
        share = self.share
        if share is None or not deliveries:
            super()._line_up(deliveries)
            return
        count = share.take(deliveries)
        super()._line_up(deliveries[:count])
        self._surplus += deliveries[count:]
        if not share.is_full:
            self._end.grant()  # It is better known now how many more are worth asking for.
        elif self.end.link_credit:
            self.end.flow(0)
        self._connection._wake()

    def _before_close(self) -> None:
        super()._before_close()
        for delivery in self._surplus:
            if not delivery.settled and not delivery.remote_settled:
                Delivery(self, delivery).release()
        self._surplus = []

    @property
    def end(self) -> ReceiverEnd:
        """The engine's end."""
        return self._end


def new_name(address: str) -> str:
    """A name that no link has had."""
    return link_name(address)


async def attach(
    connection: Connection,
    options: ReadOptions,
    address: str,
    name: str,
    *,
    credit: int,
    limit: Limit | None = None,
    asks: bool = True,
) -> OnceReceiver:
    """A receiver as the options say. Where the peer can, it settles only after the outcome is safe with it.

    Args:
        connection: what it belongs to.
        options: what is to be read, and how.
        address: its node.
        name: of the link.
        credit: messages that may be under way.
        limit: what may come in all; None: there is no limit.
        asks: ask for settle mode second. Of those who refuse it some end the session, and with it the links
            that are there.

    Raises:
        UnsuitablePeer: it does not copy, does not wait for outcomes, or does not filter.
        LinkDetached: the peer refuses the link.
        AmqpforgeError: the connection is over, or the peer does not answer.
    """
    if not options.consumes:
        receiver = await _attach(connection, _end(options, address, name), credit)
        if not _copies(receiver):
            await receiver.close()
            raise UnsuitablePeer(
                f"the peer does not copy messages from {address!r}: it would hand them out for good, which "
                "is mode=consume"
            )
        return receiver
    end = _end(options, address, name, credit, limit)
    if not asks:
        return await _attach(connection, end, credit)
    end.rcv_settle_mode = ReceiverSettleMode.SECOND
    try:
        receiver = await _attach(connection, end, credit)
    except EndpointClosed as refused:
        if not connection.is_connected or refused.condition in _ABOUT_THE_NODE:
            raise
    else:
        remote = receiver.end.remote
        if remote is not None and remote.rcv_settle_mode is ReceiverSettleMode.SECOND:
            return receiver
        await receiver.close()
    return await _attach(connection, _end(options, address, name, credit, limit), credit)


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


async def find_addresses(connection: Connection, addresses: Iterable[str]) -> list[str]:
    """Addresses, with the names of queues in the place of patterns.

    Raises:
        UnsuitablePeer: no queue fits a pattern.
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
            raise UnsuitablePeer(f"no queue of the peer fits the pattern {address!r}")
        found += fitting
    return list(dict.fromkeys(found))


def _end(
    options: ReadOptions, address: str, name: str, window: int = 0, limit: Limit | None = None
) -> ReceiverEnd:
    make = ReceiverEnd if limit is None else partial(ShareEnd, share=Share(limit), window=window)
    return make(
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


async def _attach(connection: Connection, end: ReceiverEnd, credit: int) -> OnceReceiver:
    asked = end.source
    receiver = OnceReceiver(connection, end, window=credit, auto_accept=False)
    await connection._attach(receiver, connection._options.timeout)
    if receiver.end.snd_settle_mode is SenderSettleMode.SETTLED:
        await receiver.close()
        raise UnsuitablePeer("the peer sends messages as settled: what it sends is lost if this process is")
    if isinstance(asked, Source):
        missing = missing_filters(receiver, asked)
        if missing:
            await receiver.close()
            raise UnsuitablePeer(
                f"the peer does not apply the filter {missing[0]}: leave the option 'filter' out"
            )
    return receiver


def _copies(receiver: OnceReceiver) -> bool:
    remote = receiver.end.remote
    told = remote.source if remote is not None else None
    return isinstance(told, Source) and told.distribution_mode == StdDistMode.COPY


_ABOUT_THE_NODE: Final = frozenset(
    (AmqpError.NOT_FOUND, AmqpError.UNAUTHORIZED_ACCESS, AmqpError.RESOURCE_DELETED, AmqpError.INVALID_FIELD)
)
"""Conditions of a refused link that another settle mode does not help against."""
