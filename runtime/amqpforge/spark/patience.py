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

__all__ = ["Patience", "PeerAway"]


class PeerAway(AmqpforgeError):
    """The peer was away for longer than ``startTimeout``."""


class Patience:
    """The pauses between attempts, which grow, and the time that they may take in all."""

    def __init__(self, limit: float, purpose: str, *, final: tuple[type[AmqpforgeError], ...] = ()) -> None:
        """Begin to wait.

        Args:
            limit: seconds for which a peer may be away.
            purpose: what it is wanted for, a verb.
            final: errors that end the waiting, beside those that always do.
        """
        self._limit = limit
        self._purpose = purpose
        self._final = final
        self._since: float | None = time.monotonic()
        self._pauses = _growing()

    def renew(self) -> None:
        """The peer is there: what comes next is waited for anew."""
        self._since = None

    def pause(self, error: AmqpforgeError) -> float:
        """Seconds to wait before the next attempt, as the latest one has failed.

        Raises:
            PeerAway: the time for that is up.
            AmqpforgeError: the same one: it is of no use to try again.
        """
        if isinstance(error, self._final) or _is_of_no_use(error):
            raise error
        now = time.monotonic()
        if self._since is None:
            self._since = now
            self._pauses = _growing()
        pause = next(self._pauses)
        if now + pause - self._since > self._limit:
            raise PeerAway(
                f"there was no way to {self._purpose} for {self._limit:g} s, which the option 'startTimeout' "
                f"sets: {error}"
            ) from error
        return pause


def _growing() -> Iterator[float]:
    """The pauses; they do not end."""
    return Reconnect(first_delay=0.1, max_delay=5.0)._delays()


def _is_of_no_use(error: AmqpforgeError) -> bool:
    """Whether it is of no use to try again, whatever for."""
    if isinstance(error, HeaderRefused) and error.received is None:
        return False  # A peer that is just ending answers with nothing that is AMQP.
    return is_final(error) or (isinstance(error, EndpointClosed) and error.condition in _REFUSALS)


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
"""With these the peer says what is wrong with what we ask for."""
