"""Many messages sent one behind the other, with a bounded number under way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from amqpforge.errors import AmqpforgeError, LocalError

from .outcomes import Outcome, checked
from .waiting import fresh, timed_out

if TYPE_CHECKING:
    from .sender import Sendable, Sender
    from .sent import Sent
    from .transactions import Transaction

__all__ = ["Batch"]

_UNKNOWN: Any = object()


class Batch:
    """What :meth:`.sender.Sender.send_many` returns: await it once, or iterate once."""

    def __init__(
        self,
        sender: Sender,
        messages: Iterable[Sendable] | AsyncIterable[Sendable],
        window: int,
        settled: bool | None,
        transaction: Transaction | None,
        check: bool,
        timeout: float | None,
    ) -> None:
        if window < 1:
            raise LocalError(f"a window has room for at least 1 message, not {window}")
        self._sender = sender
        self._messages = messages
        self._window = window
        self._settled = settled
        self._transaction = transaction
        self._check = check
        self._timeout = timeout
        self._sent: deque[Sent] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._coming: asyncio.Future[Sendable] | None = None

    def __await__(self) -> Generator[Any, None, list[Outcome]]:
        return self._collect().__await__()

    def __aiter__(self) -> AsyncGenerator[Outcome, None]:
        return self._run()

    async def _collect(self) -> list[Outcome]:
        outcomes = [outcome async for outcome in self._run()]
        if self._check:
            for outcome in outcomes:
                checked(outcome)
        return outcomes

    def _told(self, sent: Sent) -> None:
        """It is known what became of a message."""
        waiter = self._waiter
        if waiter is not None and self._sent and sent is self._sent[0] and not waiter.done():
            waiter.set_result(None)

    async def _run(self) -> AsyncGenerator[Outcome, None]:
        messages = self._messages
        source: Iterator[Sendable] | AsyncIterator[Sendable]
        source = aiter(messages) if isinstance(messages, AsyncIterable) else iter(messages)
        sent = self._sent
        is_last = False
        try:
            while True:
                if not is_last:
                    is_last = self._fill(source) if isinstance(source, Iterator) else self._take(source)
                if not sent[0].is_told if sent else not is_last:
                    await self._wait()
                while sent and sent[0].is_told:
                    result = sent.popleft().result
                    if isinstance(result, AmqpforgeError):
                        raise fresh(result)
                    yield result
                if is_last and not sent:
                    return
        finally:
            if self._coming is not None:
                self._coming.cancel()
            for one in sent:
                self._sender._withdraw(one)
            sent.clear()

    def _send(self, message: Sendable) -> None:
        self._sent.append(self._sender._enqueue(message, self._settled, self._transaction, self))

    def _fill(self, source: Iterator[Sendable]) -> bool:
        """Send as long as there is room; returns whether there is nothing left to send."""
        for _ in range(self._window - len(self._sent)):
            message = next(source, _UNKNOWN)
            if message is _UNKNOWN:
                return True
            self._send(message)
        return False

    def _take(self, source: AsyncIterator[Sendable]) -> bool:
        """Send the message that has come, and ask for the next one; returns whether there is none."""
        coming = self._coming
        if coming is not None and coming.done():
            self._coming = None
            try:
                self._send(coming.result())
            except StopAsyncIteration:
                return True
        if self._coming is None and len(self._sent) < self._window:
            self._coming = asyncio.ensure_future(_next(source))
        return False

    async def _wait(self) -> None:
        """Wait until the oldest message has its outcome, or the next one to send is there."""
        loop = asyncio.get_running_loop()
        self._waiter = waiter = loop.create_future()
        coming = self._coming
        if coming is not None:
            coming.add_done_callback(self._nudge)
        timer = None
        if self._timeout is not None and self._sent:
            timer = loop.call_later(self._timeout, self._expire, waiter)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
            if coming is not None:
                coming.remove_done_callback(self._nudge)

    def _nudge(self, coming: asyncio.Future[Sendable]) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _expire(self, waiter: asyncio.Future[None]) -> None:
        if not waiter.done():
            doing = f"sending {len(self._sent)} messages over {self._sender!r}"
            waiter.set_exception(timed_out(self._timeout, doing))


async def _next(source: AsyncIterator[Sendable]) -> Sendable:
    return await anext(source)
