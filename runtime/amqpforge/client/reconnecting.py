"""How a lost connection comes back."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from amqpforge.engine.layers import AuthenticationRefused
from amqpforge.errors import (
    AmqpforgeError,
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionLost,
    EndpointClosed,
    LocalError,
    NegotiationFailed,
)
from amqpforge_protocol.amqp_1_0 import AmqpError, SaslCode

from .waiting import time_limit

if TYPE_CHECKING:
    from amqpforge.url import Url

    from .lifeline import Lifeline
    from .options import Reconnect

__all__ = ["come_back", "is_final"]

_REFUSALS: Final = frozenset((AmqpError.NOT_ALLOWED, AmqpError.NOT_FOUND, AmqpError.UNAUTHORIZED_ACCESS))
_PASSING: Final = frozenset((SaslCode.SYS, SaslCode.SYS_TEMP))

_log = logging.getLogger("amqpforge.connection")


def is_final(error: AmqpforgeError) -> bool:
    """Whether it is of no use to try again: what is wrong is what we ask for, or whom."""
    if isinstance(error, AuthenticationRefused):
        return error.code not in _PASSING
    if isinstance(error, ConnectionClosed) and error.condition in _REFUSALS:
        return True
    return isinstance(error, LocalError | NegotiationFailed | AuthenticationFailed)


def _ends_trying(error: AmqpforgeError) -> bool:
    """Whether a round through all URLs has shown that others are of no use: also, that we shall go elsewhere
    and do not follow.
    """
    return is_final(error) or (isinstance(error, EndpointClosed) and error.redirect is not None)


async def come_back(
    connection: Lifeline, policy: Reconnect, lost: AmqpforgeError, onward: Url | None
) -> None:
    """Try all URLs in turn, with pauses, until there is a connection again; tells the connection how it
    ended. ``onward`` is where the peer that was lost sends us, if it does: it is tried ahead of the others.
    """
    loop = connection._loop
    last = lost
    begun = loop.time()
    for delay in connection._pauses(policy):
        if policy.give_up_after is not None and loop.time() + delay - begun > policy.give_up_after:
            break
        await asyncio.sleep(delay)
        try:
            await try_each(connection, onward)
        except AmqpforgeError as error:
            last = error
            _log.info("no connection yet: %s", error)
            if _ends_trying(error):
                break
        except Exception as error:  # A fault of ours must not leave everybody waiting for ever.
            _log.exception("connecting again failed")
            last = LocalError(f"the connection was lost and cannot be made again: {error}")
            last.__cause__ = error
            break
        else:
            connection._returned()
            return
    if not _ends_trying(last):
        cause = last
        last = ConnectionLost(f"the connection was lost and does not come back: {cause}")
        last.__cause__ = cause
    connection._give_up(last)


async def try_each(connection: Lifeline, onward: Url | None = None) -> None:
    """Try each URL once, ``onward`` ahead of all, and stay with the first that answers.

    Raises:
        AmqpforgeError: what the last of them said; what the others said is noted there.
    """
    problems: list[AmqpforgeError] = []
    for url in connection._urls if onward is None else [onward, *connection._urls]:
        try:
            async with time_limit(connection._options.timeout, f"connecting to {url}"):
                await connection._establish(url)
        except AmqpforgeError as error:
            problems.append(error)
        else:
            return
    for problem in problems[:-1]:
        problems[-1].add_note(f"another URL: {problem}")
    raise problems[-1]
