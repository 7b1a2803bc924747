"""Questions and answers: requests to a node, whose answers come to an address of our own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable
from types import TracebackType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from amqpforge.errors import AmqpforgeError, ConnectionLost, LocalError
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import DecodeError

from .outcomes import Outcome, checked
from .waiting import DEFAULT, Timeout, fresh, time_limit

if TYPE_CHECKING:
    from .receiver import Receiver
    from .sender import Sendable, Sender

__all__ = ["Requester"]

_log = logging.getLogger("amqpforge.link")


class Requester:
    """Sends requests to a node, and gives each its answer; any number may be under way.

    An answer belongs to the request whose message-id, or correlation-id if it has one, is the answer's
    correlation-id. Answers that nobody waits for are accepted and dropped.

    When the connection is lost, the address of the answers is lost with it, unless it is one that was named:
    requests under way fail then, because nobody knows what became of them.
    """

    def __init__(self, sender: Sender, receiver: Receiver) -> None:
        self._sender = sender
        self._receiver = receiver
        self._waiting: dict[Hashable, asyncio.Future[Message]] = {}
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def __aenter__(self) -> Requester:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def reply_address(self) -> Any:
        """Where the answers come to."""
        return self._receiver.address

    async def request(self, message: Sendable, *, timeout: Timeout = DEFAULT) -> Message:
        """Send a request, and wait for its answer. Cancelled, its answer is dropped.

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
        request = _copy(message)
        if request.message_id is None:
            request.message_id = str(uuid4())
        key = _key(request.correlation_id if request.correlation_id is not None else request.message_id)
        if key in self._waiting:
            raise LocalError("another request with the same identifier is under way")
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[key] = answer
        limit = self._sender._connection._limit(timeout)
        try:
            async with time_limit(limit, f"the answer to a request over {self._sender!r}"):
                await self._receiver.wait_attached(timeout=None)
                request.reply_to = self._receiver.address
                await self._send(request, answer)
                return await answer
        finally:
            del self._waiting[key]

    async def _send(self, request: Message, answer: asyncio.Future[Message]) -> None:
        """Send a request, and wait until it is accepted, or its answer is there."""
        accepted: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        sent = self._sender._enqueue(request, None, None, accepted)
        try:
            await asyncio.wait((accepted, answer), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                checked(accepted.result())
        finally:
            if not accepted.done():
                accepted.cancel()
                self._sender._withdraw(sent)
            elif not accepted.cancelled():
                accepted.exception()  # The answer, or why there is none, counts more.

    async def close(self) -> None:
        """Close both links; requests under way fail."""
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        self._fail(ConnectionLost("the requester was closed"))
        await self._sender.close()
        await self._receiver.close()

    async def _read(self) -> None:
        receiver = self._receiver
        receiver._renewed = self._lost_address
        try:
            async for delivery in receiver:
                self._take(delivery.message)
        except AmqpforgeError as error:
            self._fail(error)

    def _take(self, message: Message) -> None:
        try:
            key = _key(message.correlation_id)
        except (AmqpforgeError, DecodeError):
            _log.warning("%r: an answer cannot be decoded", self._receiver)
            return
        answer = self._waiting.get(key)
        if answer is not None and not answer.done():
            answer.set_result(message)
        else:
            _log.debug("an answer that nobody waits for: %r", key)

    def _lost_address(self) -> None:
        self._fail(ConnectionLost("the connection was lost, and with it the address of the answer"))

    def _fail(self, error: AmqpforgeError) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(fresh(error))


def _copy(message: Sendable) -> Message:
    if not isinstance(message, Message):
        return Message(message)
    return Message.from_octets(message.encode(), message.message_format)


def _key(identifier: Any) -> Hashable:
    """An identifier with its type, which is a part of it (section 3.2.4)."""
    return type(identifier).__name__, identifier if isinstance(identifier, Hashable) else repr(identifier)
