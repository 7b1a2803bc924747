"""How long a peer is waited for that is away, and which of its errors end that at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from amqpforge.client import Reconnect
from amqpforge.client.reconnecting import is_final
from amqpforge.engine.headers import HeaderRefused
from amqpforge.errors import AmqpforgeError, EndpointClosed
from amqpforge_protocol.amqp_1_0 import AmqpError

from .links import UnsuitablePeer
from .segment import SpoolError

__all__ = ["Patience", "ReceivingFailed"]


class ReceivingFailed(AmqpforgeError):
    """Messages cannot be received any more; those in the spool are safe, the others are with the peer."""


class Patience:
    """The pauses between attempts, which grow, and the time that they may take in all."""

    def __init__(self, limit: float) -> None:
        """Begin to wait; ``limit``: seconds for which a peer may be away."""
        self._limit = limit
        self._since: float | None = time.monotonic()
        self._pauses: Iterator[float] = iter(())

    def renew(self) -> None:
        """The peer is there: what comes next is waited for anew."""
        self._since = None

    def pause(self, error: AmqpforgeError) -> float:
        """Seconds to wait before the next attempt, as the latest one has failed.

        Raises:
            AmqpforgeError: it is of no use to try again, or the time for that is up.
        """
        if (
            isinstance(error, (SpoolError, UnsuitablePeer))
            or (is_final(error) and not _is_silence(error))
            or _is_refusal(error)
        ):
            raise error
        now = time.monotonic()
        if self._since is None:
            self._since = now
            self._pauses = iter(())
        pause = next(self._pauses, None)
        if pause is None:
            self._pauses = Reconnect(first_delay=0.1, max_delay=5.0)._delays()
            pause = next(self._pauses)
        if now + pause - self._since > self._limit:
            raise ReceivingFailed(
                f"there was no way to receive for {self._limit:g} s, which the option 'startTimeout' sets: "
                f"{error}"
            ) from error
        return pause


def _is_silence(error: AmqpforgeError) -> bool:
    """Whether the peer has answered with nothing that is AMQP, as one does that is just ending."""
    return isinstance(error, HeaderRefused) and error.received is None


def _is_refusal(error: AmqpforgeError) -> bool:
    """Whether the peer has said what is wrong with what we ask for."""
    return isinstance(error, EndpointClosed) and error.condition in _REFUSALS


_REFUSALS: Final = frozenset(
    (
        AmqpError.NOT_FOUND,
        AmqpError.NOT_ALLOWED,
        AmqpError.UNAUTHORIZED_ACCESS,
        AmqpError.INVALID_FIELD,
        AmqpError.NOT_IMPLEMENTED,
        AmqpError.RESOURCE_DELETED,
        AmqpError.PRECONDITION_FAILED,
    )
)
