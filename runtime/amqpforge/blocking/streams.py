"""A message that is written piece by piece, for threads."""

from __future__ import annotations

from amqpforge import client
from amqpforge.client import Outcome

from .twin import Ending

__all__ = ["OutgoingStream"]


class OutgoingStream(Ending[client.OutgoingStream]):
    """A message that is being sent; see ``Sender.stream``.

    If the block ends with an exception, the message is aborted: the receiver throws away what it has got.
    """

    @property
    def outcome(self) -> Outcome:
        """What became of the message, once the block is through; None if it was sent settled."""
        return self._twin.outcome

    def write(self, octets: bytes) -> None:
        """Send a piece of the data; waits as long as too much is not out.

        Raises:
            LocalError: this is more than the size that was told.
            OperationTimedOut: credit, or room, did not come in time.
            ConnectionLost: the connection was lost, and the receiver does not resume the message.
            AmqpforgeError: the link is over.
        """
        piece = bytes(octets)
        self._thread.run(lambda: self._twin.write(piece))
