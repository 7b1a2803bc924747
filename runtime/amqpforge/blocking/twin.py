"""What the blocking classes share: each object has a twin, one of the asyncio client, in the I/O thread."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from .io_thread import IoThread

__all__ = ["Blocking", "Closing", "Ending"]


class Block(Protocol):
    """A twin that ``async with`` is for."""

    async def __aenter__(self) -> object: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


A = TypeVar("A")
B = TypeVar("B", bound=Block)


class Blocking(Generic[A]):
    """A blocking object: what it is asked for, its twin does in the I/O thread.

    What cannot change, or is one reference, is read from the twin at once; all else goes to its thread.
    """

    __slots__ = ("_thread", "_twin")

    def __init__(self, thread: IoThread, twin: A) -> None:
        self._thread = thread
        self._twin = twin

    def __repr__(self) -> str:
        return repr(self._twin)


class Closing(Blocking[B]):
    """A blocking object that a ``with`` block closes at its end. In a forked process that does nothing."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.run_last(lambda: self._twin.__aexit__(kind, error, trace))


class Ending(Blocking[B]):
    """A blocking object whose ``with`` block decides, by the way it ends, what becomes of something.

    An exception can come, as an interrupt does, where the block has begun and its end is not called any more:
    then the end is made up for when the object is thrown away.
    """

    _has_begun = False  # In the class, because __init__ may be interrupted too.

    def __del__(self) -> None:
        if self._has_begun:
            self._thread.submit(self._abandon)

    def __enter__(self) -> Self:
        self._has_begun = True
        self._thread.run(self._twin.__aenter__, undo=self._break_off)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.end_block(lambda: self._twin.__aexit__(kind, error, trace), error)
        self._has_begun = False

    def _abandon(self) -> None:
        self._thread.spawn(self._break_off(self._twin))

    async def _break_off(self, twin: object) -> None:
        error = GeneratorExit()
        await self._twin.__aexit__(type(error), error, None)
