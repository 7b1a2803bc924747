"""Questions and answers, for threads."""

from __future__ import annotations

from typing import Any

from amqpforge import client
from amqpforge.client import DEFAULT, Timeout
from amqpforge.client.sender import Sendable
from amqpforge.message import Message

from .twin import Closing

__all__ = ["Requester"]


class Requester(Closing[client.Requester]):
    """Sends requests to a node, and gives each its answer: :class:`amqpforge.client.Requester` for threads,
    of which many may have requests under way.
    """

    __slots__ = ()

    @property
    def reply_address(self) -> Any:
        """Where the answers come to."""
        return self._twin.reply_address

    def request(self, message: Sendable, *, timeout: Timeout = DEFAULT) -> Message:
        """Send a request, and wait for its answer. Interrupted, its answer is dropped.

        Args:
            message: the request; what it says of reply-to is replaced, and a message-id is added if it has
                none.
            timeout: seconds, for all of it.

        Raises:
            OperationTimedOut: no answer came in time.
            NotAccepted: the node does not take the request.
            ConnectionLost: the connection was lost meanwhile.
            LinkDetached, ConnectionClosed: the link or the connection is over.
            LocalError: another request with the same identifier is under way.
        """
        return self._thread.run(lambda: self._twin.request(message, timeout=timeout))

    def close(self) -> None:
        """Close both links; requests under way fail."""
        self._thread.run_last(self._twin.close)
