"""Rules: what the node does with frames of one kind, beside what it should or instead of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    AmqpConnectionError,
    Attach,
    Begin,
    Error,
    LinkError,
    Open,
    Symbol,
    Transfer,
    UShort,
)

from .gate import Delay, Gate, Passage
from .seen import AnySeen, GivenFrame, SeenFrame, encode_given

if TYPE_CHECKING:
    from .script import Script

__all__ = ["Rule", "error_of"]

Kind = TypeVar("Kind")

Replacement: TypeAlias = GivenFrame | list[GivenFrame]


def error_of(error: Error | str, description: str | None = None) -> Error:
    """An error, given as one or by its condition."""
    return error if isinstance(error, Error) else Error(condition=Symbol(error), description=description)


class Rule(Generic[Kind]):
    """What to do with frames of one kind. The methods add an action each, and can be put in a chain.

    Attributes:
        met: how many frames it was for so far, those that it skipped included.
        acted: how often it acted.
    """

    def __init__(
        self,
        script: Script,
        kind: type[Kind],
        *,
        is_sent: bool,
        skip: int,
        times: int | None,
        when: Callable[[SeenFrame[Kind]], bool] | None,
        fields: dict[str, object],
    ) -> None:
        self.met = 0
        self.acted = 0
        self.is_sent = is_sent
        self._script = script
        self._kind = kind
        self._skip = skip
        self._times = times
        self._when = when
        self._fields = fields
        self._actions: list[Callable[[Passage], None]] = []
        for name in fields:
            if not hasattr(kind, name):
                raise LocalError(f"{kind.__name__} has no field {name!r}")

    def cancel(self) -> None:
        """The rule is for no frame any more."""
        if self in self._script.rules:
            self._script.rules.remove(self)

    # --- any frame -----------------------------------------------------------------------------------------

    def drop(self) -> Rule[Kind]:
        """The frame goes no further: a client's is never seen by the node, which so keeps silent about it,
        and the node's own is never sent.
        """
        return self.do_passage(lambda passage: passage.pieces.clear())

    def send(self, *frames: GivenFrame) -> Rule[Kind]:
        """The node sends these frames to the client at once, on the channel of the frame that is met."""
        return self.do_passage(lambda passage: passage.seen.connection.send(*frames, channel=passage.channel))

    def replace(self, function: Callable[[SeenFrame[Kind]], Replacement]) -> Rule[Kind]:
        """What the function makes of the frame goes on instead of it: a frame, or a list of them."""

        def act(passage: Passage) -> None:
            made = function(passage.seen)
            frames = made if isinstance(made, list) else [made]
            passage.pieces = [encode_given(frame, passage.channel) for frame in frames]

        return self.do_passage(act)

    def do(self, function: Callable[[SeenFrame[Kind]], object]) -> Rule[Kind]:
        """Call a function for each frame, before it goes on."""

        def act(passage: Passage) -> None:
            function(passage.seen)

        return self.do_passage(act)

    def hold(self, gate: Gate | None = None) -> Gate:
        """Hold each frame until the gate lets it go; returns the gate, a new one if none is given."""
        held = gate or Gate(self._script.stand)
        self.do_passage(lambda passage: passage.gates.append(held))
        return held

    def delay(self, seconds: float) -> Rule[Kind]:
        """Hold each frame for so many seconds.

        Raises:
            LocalError: they are fewer than none.
        """
        if seconds < 0:
            raise LocalError(f"a frame can be delayed by 0 seconds or more, not by {seconds}")
        self.hold(Delay(self._script.stand, seconds))
        return self

    def cut(self) -> Rule[Kind]:
        """Cut the TCP connection; the frame gets nowhere."""

        def act(passage: Passage) -> None:
            passage.pieces.clear()
            passage.seen.connection.cut()

        return self.do_passage(act)

    def stop_reading(self) -> Rule[Kind]:
        """Read nothing more of the connection, once the frame is through."""
        return self._afterwards(lambda seen: seen.connection.stop_reading())

    def close(self, error: Error | str | None = None, description: str | None = None) -> Rule[Kind]:
        """Close the connection, once the frame is through."""
        told = None if error is None else error_of(error, description)
        return self._afterwards(lambda seen: seen.connection.close(told))

    def end(self, error: Error | str | None = None, description: str | None = None) -> Rule[Kind]:
        """End the session of the frame, once the frame is through."""
        told = None if error is None else error_of(error, description)
        return self._afterwards(lambda seen: seen.connection.end(seen.channel, told, is_sent=seen.is_sent))

    def detach(
        self, error: Error | str | None = None, description: str | None = None, *, closed: bool = False
    ) -> Rule[Kind]:
        """Detach the link of the frame, once the frame is through: of an attach, a flow or a transfer."""
        told = None if error is None else error_of(error, description)
        return self._afterwards(lambda seen: seen.connection.detach_link_of(seen, told, closed=closed))

    # --- what a client asks for ----------------------------------------------------------------------------

    def refuse(self, error: Error | str, description: str | None = None) -> Rule[Kind]:
        """Refuse what the client asks for: a connection is closed at once, a session is ended, a link gets no
        terminus. A message is rejected, and gets nowhere: what counts is the transfer that begins it.

        Raises:
            LocalError: the rule is for other frames than open, begin, attach or transfer of a client.
        """
        if self.is_sent or self._kind not in (Open, Begin, Attach, Transfer):
            raise LocalError("only an open, a begin, an attach or a transfer of a client can be refused")
        told = error_of(error, description)
        return self.do_passage(lambda passage: passage.seen.connection.will_refuse(passage.seen, told))

    def redirect(
        self,
        port: int,
        host: str = "127.0.0.1",
        *,
        hostname: str | None = None,
        address: str | None = None,
    ) -> Rule[Kind]:
        """Refuse a connection or a link, and tell the client where to go instead.

        Args:
            port: where the client is to connect to.
            host: the machine.
            hostname: what the client is to name in its open, and in TLS; None: ``host``.
            address: for a link, the node there; None: the same.

        Raises:
            LocalError: the rule is for other frames than open or attach of a client.
        """
        if self._kind not in (Open, Attach):
            raise LocalError("only a connection or a link can be redirected")
        info: dict[str, Any] = {
            Symbol("hostname"): hostname or host,
            Symbol("network-host"): host,
            Symbol("port"): UShort(port),
        }
        if self._kind is Open:
            condition: AmqpConnectionError | LinkError = AmqpConnectionError.REDIRECT
        else:
            condition = LinkError.REDIRECT
            if address is not None:
                info[Symbol("address")] = address
        return self.refuse(Error(condition=condition, description="it is elsewhere", info=info))

    # --- how a frame meets it ------------------------------------------------------------------------------

    def meet(self, passage: Passage) -> None:
        """Act, if the frame is one that the rule is for."""
        seen = passage.seen
        if seen.is_sent is not self.is_sent or not self._fits(seen):
            return
        self.met += 1
        if self.met <= self._skip or (self._times is not None and self.acted >= self._times):
            return
        self.acted += 1
        for action in self._actions:
            action(passage)

    def _fits(self, seen: AnySeen) -> bool:
        if not isinstance(seen.performative, self._kind):
            return False
        if any(getattr(seen.performative, name) != value for name, value in self._fields.items()):
            return False
        return self._when is None or self._when(seen)

    def do_passage(self, action: Callable[[Passage], None]) -> Rule[Kind]:
        """Add an action that looks at the way of the frame."""
        self._actions.append(action)
        return self

    def _afterwards(self, action: Callable[[AnySeen], None]) -> Rule[Kind]:
        return self.do_passage(
            lambda passage: passage.after.append(lambda: action(passage.seen)),
        )
