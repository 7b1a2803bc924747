"""How a test tells the node to misbehave: rules for frames, gates that hold them, and cuts.

A rule is made for frames that come in (:meth:`Script.on`) or for frames that the node is about to send
(:meth:`Script.before`), and then told what to do with them::

    node.script.on(Attach, name="orders").refuse("amqp:not-found")
    node.script.on(Detach).drop()
    node.script.before(Detach, closed=True).replace(lambda seen: Detach(handle=seen.performative.handle))
    gate = node.script.before(Disposition).hold()
    node.script.cut(after_read=100)

All rules that fit a frame are followed, in the order in which they were made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from amqpforge.errors import LocalError

from .gate import Passage
from .rule import Rule
from .seen import SeenFrame

if TYPE_CHECKING:
    from .stand import Stand

__all__ = ["Script"]


Kind = TypeVar("Kind")


@dataclass(slots=True)
class _Cut:
    """A place in the stream of a connection."""

    offset: int
    is_written: bool
    left: int


class Script:
    """What a node does beside what it should.

    Attributes:
        rules: the rules for frames, in the order in which they are followed.
    """

    def __init__(self, stand: Stand[Any]) -> None:
        self.stand = stand
        self.rules: list[Rule[Any]] = []
        self._cuts: list[_Cut] = []

    def on(
        self,
        kind: type[Kind],
        *,
        skip: int = 0,
        times: int | None = None,
        when: Callable[[SeenFrame[Kind]], bool] | None = None,
        **fields: object,
    ) -> Rule[Kind]:
        """A rule for frames that come in from a client.

        Args:
            kind: the class of the performative, or ProtocolHeader; object: any frame.
            skip: how many frames to let pass first.
            times: how many frames to act on then; None: all.
            when: a further condition.
            fields: values that fields of the performative have to have.

        Raises:
            LocalError: the performative has no such field.
        """
        return self._add(kind, False, skip, times, when, fields)

    def before(
        self,
        kind: type[Kind],
        *,
        skip: int = 0,
        times: int | None = None,
        when: Callable[[SeenFrame[Kind]], bool] | None = None,
        **fields: object,
    ) -> Rule[Kind]:
        """A rule for frames that the node is about to send; the arguments are those of :meth:`on`."""
        return self._add(kind, True, skip, times, when, fields)

    def _add(
        self,
        kind: type[Kind],
        is_sent: bool,
        skip: int,
        times: int | None,
        when: Callable[[SeenFrame[Kind]], bool] | None,
        fields: dict[str, object],
    ) -> Rule[Kind]:
        rule: Rule[Kind] = Rule(self, kind, is_sent=is_sent, skip=skip, times=times, when=when, fields=fields)
        self.rules.append(rule)
        return rule

    def cut(self, *, after_read: int | None = None, after_written: int | None = None, times: int = 1) -> None:
        """Cut a TCP connection where so many octets of it were read, or written, inside TLS if there is any.

        What was read up to there is dealt with, but nothing more is written. The next connection that gets so
        far is cut, and after ``times`` of them no more.

        Raises:
            LocalError: not exactly one place is given, or it is negative.
        """
        offset = after_read if after_written is None else after_written
        if offset is None or offset < 0 or (after_read is not None and after_written is not None):
            raise LocalError("a cut has one place: after_read or after_written, 0 or more octets")
        self._cuts.append(_Cut(offset, after_written is not None, times))

    def clear(self) -> None:
        """Forget all rules and cuts; frames that are held stay with their gates."""
        self.rules.clear()
        self._cuts.clear()

    def meet(self, passage: Passage) -> None:
        """Let a frame pass all rules."""
        for rule in list(self.rules):
            rule.meet(passage)

    def take_cut(self, *, is_written: bool, start: int, size: int) -> int | None:
        """How many of the octets from ``start`` on may pass before a cut, which counts now; None: all."""
        due = [
            cut
            for cut in self._cuts
            if cut.is_written is is_written
            and (start < cut.offset <= start + size or cut.offset == start == 0)
        ]
        if not due:
            return None
        first = min(due, key=lambda cut: cut.offset)
        first.left -= 1
        if not first.left:
            self._cuts.remove(first)
        return first.offset - start
