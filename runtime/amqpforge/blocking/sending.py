"""Single messages on their way from threads, over the I/O thread, to a sender of the asyncio client."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from amqpforge.client import Outcome
from amqpforge.client.waiting import fresh
from amqpforge.errors import AmqpforgeError
from amqpforge.message import Message

from .calls import Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqpforge import client
    from amqpforge.client.sender import Sendable
    from amqpforge.client.sent import Sent

    from .io_thread import IoThread

__all__ = ["Promise", "Sending", "fixed"]


def fixed(message: Sendable) -> Message:
    """A message that nobody can change any more: it is encoded by the thread that sends it.

    Raises:
        EncodeError: a value has no AMQP type, or is not allowed where it is.
    """
    whole = message if isinstance(message, Message) else Message(message)
    return Message.from_octets(whole.encode(), whole.message_format)


class Sending(Call[Outcome]):
    """A message that a thread waits for: there is no task for it, because round trips should be short."""

    def __init__(
        self,
        thread: IoThread,
        sender: client.Sender,
        message: Message,
        settled: bool | None,
        transaction: client.Transaction | None,
    ) -> None:
        super().__init__(thread)
        self._sender = sender
        self._message = message
        self._settled = settled
        self._transaction = transaction
        self._sent: Sent | None = None

    def start(self) -> None:
        if self.is_done:
            return
        try:
            self._sent = self._sender._enqueue(self._message, self._settled, self._transaction, self)
        except Exception as error:
            self._error = error
            self.finish()

    def _told(self, sent: Sent) -> None:
        """It is known what became of the message."""
        if isinstance(sent.result, AmqpforgeError):
            self._error = fresh(sent.result)
        else:
            self._result = sent.result
        self.finish()

    def cancel(self) -> None:
        """Nobody waits any more: take the message back, if nothing of it is sent."""
        if self._sent is not None:
            self._sender._withdraw(self._sent)
        self.finish()


class Promise(Future[Outcome]):
    """The outcome of a message that nobody waits for yet."""

    def keep(self, enqueue: Callable[[Promise], object]) -> None:
        """Send the message, in the I/O thread; if that is not possible, the future tells why."""
        try:
            enqueue(self)
        except Exception as error:
            self._tell(None, error)

    def _told(self, sent: Sent) -> None:
        """It is known what became of the message."""
        if isinstance(sent.result, AmqpforgeError):
            self._tell(None, fresh(sent.result))
        else:
            self._tell(sent.result, None)

    def _tell(self, outcome: Outcome, error: Exception | None) -> None:
        if not self.set_running_or_notify_cancel():
            return  # Somebody has cancelled it: the message goes its way all the same.
        if error is None:
            self.set_result(outcome)
        else:
            self.set_exception(error)
