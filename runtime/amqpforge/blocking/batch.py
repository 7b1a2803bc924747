"""Many messages sent one behind the other from one thread, with a bounded number under way."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from amqpforge.client import Outcome
from amqpforge.client.waiting import fresh, timed_out
from amqpforge.errors import AmqpforgeError, LocalError
from amqpforge.message import Message

from .calls import acquired

if TYPE_CHECKING:
    from amqpforge import client
    from amqpforge.client.sent import Sent

    from .io_thread import IoThread

__all__ = ["Batch"]

_NEVER: Final = 1 << 63


class Batch:
    """Messages on their way from a thread, over the I/O thread, to a sender; used once.

    Threads that take turns for each message are slow. So the I/O thread takes all messages that it finds when
    it looks, which it is asked to once: a quick thread hands over many at a time, a slow one each as soon as
    it has it. The other way a thread is woken for many outcomes at once, unless it wants each.
    """

    def __init__(
        self,
        thread: IoThread,
        sender: client.Sender,
        *,
        window: int,
        settled: bool | None,
        transaction: client.Transaction | None,
        timeout: float | None,
        wants_each: bool,
    ) -> None:
        """Describe the sending.

        Args:
            thread: the I/O thread.
            sender: that of the asyncio client.
            window: messages under way.
            settled: as for ``Sender.send``.
            transaction: as for ``Sender.send``.
            timeout: seconds without progress; None: no limit.
            wants_each: whether outcomes are wanted as soon as they are known.

        Raises:
            LocalError: there is no room in the window.
        """
        if window < 1:
            raise LocalError(f"a window has room for at least 1 message, not {window}")
        self._thread = thread
        self._sender = sender
        self._window = window
        self._settled = settled
        self._transaction = transaction
        self._timeout = timeout
        self._step = 1 if wants_each else max(window // 2, 1)
        self._given: deque[Message] = deque()
        self._sent: deque[Sent] = deque()
        self._will_look = False
        self._number_given = 0
        self._number_told = 0
        self._number_out = 0
        self._wake_at = _NEVER
        self._bell = threading.Lock()
        self._bell.acquire()
        self._error: Exception | None = None

    # --- in the thread that sends -----------------------------------------------------------------------

    def run(self, messages: Iterator[Message]) -> Iterator[Outcome]:
        """Send messages; gives the outcomes in order.

        Raises:
            AmqpforgeError: as ``Sender.send``; or nothing moved for as long as the time-out.
        """
        thread, sent = self._thread, self._sent
        thread.check()
        thread.stay_for(self)
        is_last = False
        try:
            while True:
                is_last = is_last or self._fill(messages)
                if is_last and self._number_out == self._number_given:
                    return
                told = self._number_told
                if not (sent and sent[0].is_told):
                    self._wait(told, is_last)
                while sent and sent[0].is_told:
                    result = sent.popleft().result
                    if isinstance(result, AmqpforgeError):
                        raise fresh(result)
                    self._number_out += 1
                    yield result
        finally:
            thread.submit(self._stop)

    def _fill(self, messages: Iterator[Message]) -> bool:
        """Hand over messages as long as there is room, or until there is an outcome, if each is wanted.

        Returns:
            Whether there are no more messages.
        """
        sent = self._sent
        while self._number_given - self._number_out < self._window and self._error is None:
            if self._step == 1 and sent and sent[0].is_told:
                return False
            message = next(messages, None)
            if message is None:
                return True
            self._number_given += 1
            self._given.append(message)
            if not self._will_look:
                self._will_look = True
                self._thread.submit(self._look)
        return False

    def _wait(self, told: int, is_last: bool) -> None:
        """Wait until more than ``told`` outcomes are known, and so many that it is worth to go on."""
        given = self._number_given
        worth = given if is_last else given - self._window + self._step
        self._wake_at = target = max(told + 1, 0 if self._step == 1 else worth)
        while self._number_told < target and self._error is None:
            told = self._number_told
            if not acquired(self._bell, self._timeout) and self._number_told == told:
                number = given - told
                raise timed_out(self._timeout, f"sending {number} messages over {self._sender!r}")
        self._wake_at = _NEVER
        if self._error is not None:
            raise self._error

    # --- in the I/O thread ------------------------------------------------------------------------------

    def _told(self, sent: Sent) -> None:
        """It is known what became of a message."""
        self._number_told += 1
        if self._number_told >= self._wake_at:
            self._ring()

    def _look(self) -> None:
        """Send what is there."""
        self._will_look = False
        given = self._given
        try:
            while given and self._error is None:
                self._sent.append(
                    self._sender._enqueue(given.popleft(), self._settled, self._transaction, self)
                )
        except Exception as error:  # Whatever it is: the thread that waits has to know.
            self._error = error
            self._ring()

    def _stop(self) -> None:
        """Nobody waits any more: what is not sent yet is taken back."""
        self._given.clear()
        for sent in self._sent:
            self._sender._withdraw(sent)
        self._thread.release(self)

    def _ring(self) -> None:
        if self._bell.locked() and not self._thread.is_ending:
            self._bell.release()
