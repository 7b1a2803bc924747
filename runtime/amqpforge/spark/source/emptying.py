"""Taking what a node has now, and no more: when is it empty?"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from amqpforge.errors import OperationTimedOut

if TYPE_CHECKING:
    from amqpforge.client.connection import Connection

    from .links import OnceReceiver

__all__ = ["available", "drain", "empty"]

_ANSWER: Final = 5.0
"""Seconds for which a peer may leave a drain unanswered; some never answer."""
_WHOLE: Final = 60.0
"""Seconds for which the rest of a message is waited for."""
_QUIET: Final = 1.0
"""Seconds without a message after which a node of such a peer counts as empty."""
_ROUND: Final = 10.0
"""Seconds after which no more is taken where there is a limit: some nodes are never empty."""
_LOOKS: Final = 0.02
"""Seconds between looks at whether credit is used up."""


async def empty(connection: Connection, receivers: Sequence[OnceReceiver]) -> bool:
    """Have the peer send what it has now: until it tells that a node is empty, or as many messages as it
    said; with a limit, as far as that goes, and nothing comes behind it.

    Returns:
        Whether it had no more.

    Raises:
        AmqpforgeError: a link or the connection is over.
    """
    shares = [one.share for one in receivers if one.share is not None]
    is_dry = False
    with suppress(TimeoutError):
        async with asyncio.timeout(_ROUND if shares else None):
            for receiver in receivers:
                await _empty(connection, receiver)
            is_dry = not any(share.is_full for share in shares)
    for share in shares:
        share.is_full = True
    return is_dry


async def _empty(connection: Connection, receiver: OnceReceiver) -> None:
    """Have what there is for one link."""
    share = receiver.share
    most = await available(connection, receiver)
    seen = -1
    while (most is None or receiver._messages < most) and not (share is not None and share.is_full):
        # A drain holds everything up: where it is known how much comes, only a quiet link is asked.
        is_quiet, seen = receiver._messages == seen, receiver._messages
        if receiver.end.link_credit and (is_quiet or most is None):
            if await drain(connection, receiver):
                return
            receiver.resume()
        await asyncio.sleep(_LOOKS)


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
    left = receiver.end.flow_state.available + receiver.is_partial  # It does not count what it has begun.
    return receiver._messages + left if left else None


async def drain(connection: Connection, receiver: OnceReceiver) -> bool:
    """Have the peer send what it has, as far as the credit goes; returns whether there is no more.

    If the peer cannot say, it counts as empty when nothing came for a second.

    Raises:
        AmqpforgeError: the link or the connection is over.
    """
    if not _drains(connection):
        return await _is_quiet(receiver)
    end = receiver.end
    before, credit, held = receiver._messages, end.link_credit, end.held
    try:
        await receiver.drain(timeout=_ANSWER)
    except OperationTimedOut:
        receiver.resume()
        return await _is_quiet(receiver)
    await _complete(receiver)
    came = receiver._messages - before
    # A peer that limits what is unsettled has more, and says so; so may one that filters, of what it keeps.
    is_held_back = end.flow_state.available > 0 and (came > 0 or held > 0)
    return came < credit and not is_held_back


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
        await _complete(receiver)
    return True


async def _complete(receiver: OnceReceiver) -> None:
    """Wait for the rest of a message that has begun to come: it counts once it is whole.

    Raises:
        AmqpforgeError: the link or the connection is over.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(_WHOLE):
            while receiver.is_partial:
                receiver._check()
                await asyncio.sleep(0.01)
