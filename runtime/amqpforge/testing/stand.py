"""What all servers for tests have in common: they listen, see frames pass, and misbehave as a script says."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from traceback import format_exception
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from amqpforge.errors import LocalError, OperationTimedOut
from amqpforge.message import Message

from .loop import call_in
from .script import Script
from .seen import AnySeen
from .waiting import Waiting

if TYPE_CHECKING:
    from .served import ServedConnection

__all__ = ["Stand"]

C = TypeVar("C", bound="ServedConnection")
R = TypeVar("R")
F = TypeVar("F")

_PATIENCE: Final = 10.0


class Stand(ABC, Generic[C]):
    """A server for tests, in some event loop.

    Attributes:
        script: how it is told to misbehave.
        frames: the frames that passed, oldest first; of many the last ones.
        accepted: how many connections were accepted so far.
        connections: those whose transport is there, oldest first.
    """

    def __init__(self, keep_frames: int) -> None:
        """``keep_frames``: how many frames :attr:`frames` holds at most."""
        self.script = Script(self)
        self.frames: deque[AnySeen] = deque(maxlen=keep_frames)
        self.accepted = 0
        self._connections: dict[C, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: int | None = None
        self._errors: list[Exception] = []
        self._waiting = Waiting()

    # --- what each kind is ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def title(self) -> str:
        """What it is called, for messages and threads."""

    @property
    @abstractmethod
    def port(self) -> int:
        """The port that it listens on.

        Raises:
            LocalError: it has not been entered.
        """

    @property
    @abstractmethod
    def url(self) -> str:
        """Where to connect to, with amqps if TLS is there from the start."""

    @abstractmethod
    def messages(self, address: str) -> list[Message]:
        """The messages in a queue, in order, with those that are on their way to a receiver."""

    @abstractmethod
    def put(self, address: str, message: Message | Any) -> None:
        """Put a message into a queue; what is no Message becomes the body of one."""

    @abstractmethod
    async def _open(self) -> None:
        """Begin to listen."""

    @abstractmethod
    async def _shut(self) -> None:
        """Listen no longer."""

    @abstractmethod
    async def _close(self) -> None:
        """End what is left, now that nobody listens and all connections are gone."""

    # --- what it has seen ----------------------------------------------------------------------------------

    @property
    def connections(self) -> list[C]:
        return self.run(lambda: list(self._connections))

    def received(self, kind: type[F]) -> list[F]:
        """The performatives of one class that clients have sent, as far as frames are kept."""
        return self._kept(kind, is_sent=False)

    def sent(self, kind: type[F]) -> list[F]:
        """The performatives of one class that were to be sent to clients, as far as frames are kept."""
        return self._kept(kind, is_sent=True)

    def _kept(self, kind: type[F], *, is_sent: bool) -> list[F]:
        frames = self.run(lambda: list(self.frames))
        return [
            seen.performative
            for seen in frames
            if seen.is_sent is is_sent and isinstance(seen.performative, kind)
        ]

    # --- for its connections -------------------------------------------------------------------------------

    def accepted_connection(self, connection: C) -> None:
        """A client has connected."""
        self.accepted += 1
        connection.number = self.accepted
        self._connections[connection] = None
        self.changed()

    def lost_connection(self, connection: C) -> None:
        """The transport of a connection is gone."""
        self._connections.pop(connection, None)
        self.changed()

    def record(self, seen: AnySeen) -> None:
        """A frame passes."""
        self.frames.append(seen)

    def failed(self, error: Exception) -> None:
        """Something of the test went wrong: it is raised where the test leaves the stand."""
        self._errors.append(error)
        self.changed()

    def changed(self) -> None:
        """Something happened that somebody may wait for."""
        self._waiting.look()

    def run(self, function: Callable[[], R]) -> R:
        """Call a function in the thread of the stand's event loop, and wait for what it returns."""
        if self._loop is None or self._thread == threading.get_ident():
            return function()
        return call_in(self._loop, function)

    # --- its life ------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        if self._loop is not None:
            raise LocalError(f"the {self.title} has been entered already")
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        await self._open()

    async def _stop(self) -> None:
        """Stop listening, cut all connections, and wait until all is over."""
        await self._end()
        self._loop = None

    async def _end(self) -> None:
        await self._shut()
        for connection in list(self._connections):
            connection.wire.abandon()
        await self._wait(lambda: not self._connections, _PATIENCE)
        await self._close()

    def _tell_errors(self, error: BaseException | None = None) -> None:
        """Raise what went wrong inside, or add it to the error that the test has come to."""
        failures, self._errors = self._errors, []
        for failure in failures:
            if error is None:
                raise failure
            error.add_note(f"the {self.title} has failed:\n" + "".join(format_exception(failure)))

    async def _wait(self, predicate: Callable[[], R], timeout: float) -> R:
        """Wait until a function returns what is true; it is asked whenever something happens."""
        value = await self._waiting.wait(predicate, timeout)
        if value is None:
            frames = ", ".join(_shown(seen) for seen in list(self.frames)[-8:])
            raise OperationTimedOut(
                f"what was waited for did not happen in {timeout} s; the latest frames: {frames or 'none'}"
            )
        return value


def _shown(seen: AnySeen) -> str:
    performative = seen.performative
    name = type(performative).__name__ if performative is not None else f"{len(seen.octets)} octets"
    return f"{'->' if seen.is_sent else '<-'} {name}"
