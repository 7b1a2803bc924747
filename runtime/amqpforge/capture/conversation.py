"""One connection: what its two directions say first decides how the rest is decoded."""

from __future__ import annotations

from amqpforge.capture.dialects import (
    HEADER_SIZE,
    MAGIC,
    Dialect,
    FrameDecoder,
    dialect_of,
    guess,
    parse_header,
)
from amqpforge.capture.record import Header, Record
from amqpforge.capture.tcp import Direction

__all__ = ["Conversation"]

_FIRST_OCTETS = {
    b"\x16\x03": "TLS",
    b"GET ": "HTTP, perhaps a WebSocket",
    b"HTTP": "HTTP, perhaps a WebSocket",
    b"POST": "HTTP",
    b"SSH-": "SSH",
}


class Conversation:
    """The decoders of both directions of a stream, and what tells them that they are needed.

    `beginning` says whether the first octets of a direction are the first of the connection. If so, they must
    be a protocol header; if not, they are searched for frames. A `dialect` that is given holds whatever the
    headers say.
    """

    __slots__ = ("_is_forced", "beginning", "dialect", "foreign", "number", "openings")

    def __init__(self, number: int, *, beginning: bool, dialect: Dialect | None = None) -> None:
        self.number = number
        self.beginning = beginning
        self.dialect = dialect
        self._is_forced = dialect is not None
        self.foreign = False
        """Whether the stream was reported not to be decoded, so that it is not reported twice."""
        self.openings: dict[Direction, _Opening] = {}

    def data(self, direction: Direction, offset: int, time: int | None, data: bytes) -> list[Record]:
        """The next octets of a direction."""
        opening = self._opening(direction)
        if opening.decoder is not None:
            return opening.decoder.data(offset, time, data)
        return opening.data(offset, time, data)

    def gap(self, direction: Direction, offset: int, time: int | None, length: int) -> list[Record]:
        """Octets of a direction that the capture has not got."""
        opening = self._opening(direction)
        return [] if opening.ignored else opening.decide().gap(offset, time, length)

    def end(self, direction: Direction, offset: int, time: int | None, closed: bool) -> list[Record]:
        """No more octets of a direction."""
        opening = self._opening(direction)
        if opening.ignored or (opening.decoder is None and not opening.held):
            return []
        held = opening.flush(time)
        return held if opening.decoder is None else held + opening.decoder.end(offset, time, closed)

    def announced(self, header: Header) -> Dialect:
        """The dialect from a protocol header on."""
        if not self._is_forced:
            self.dialect = dialect_of(header)
        return self.dialect or dialect_of(header)

    def _opening(self, direction: Direction) -> _Opening:
        opening = self.openings.get(direction)
        if opening is None:
            opening = self.openings[direction] = _Opening(self, direction)
        return opening


class _Opening:
    """A direction until its protocol is known: holds less than a protocol header."""

    __slots__ = ("conversation", "decoder", "direction", "held", "ignored", "offset")

    def __init__(self, conversation: Conversation, direction: Direction) -> None:
        self.conversation = conversation
        self.direction: Direction = direction
        self.decoder: FrameDecoder | None = None
        self.ignored = False
        self.held = b""
        self.offset = 0

    def data(self, offset: int, time: int | None, data: bytes) -> list[Record]:
        if self.ignored:
            return []
        if not self.held:
            self.offset = offset
        self.held += data
        if len(self.held) < HEADER_SIZE and MAGIC.startswith(self.held[: len(MAGIC)]):
            return []
        return self.flush(time)

    def flush(self, time: int | None) -> list[Record]:
        """Decide from the octets held, and hand them on."""
        held, self.held = self.held, b""
        if not held:
            return []
        if not held.startswith(MAGIC) or len(held) < HEADER_SIZE:
            return self._without_header(held, time)
        header = parse_header(held)
        dialect = self.conversation.announced(header)
        if not dialect.package:
            number, direction = self.conversation.number, self.direction
            self.ignored = True
            first = Record(time, number, direction, self.offset, "header", value=header)
            return [
                first,
                *self._foreign(time, self.offset + HEADER_SIZE, f"{dialect.name} is not decoded here"),
            ]
        self.decoder = dialect.decoder(self.conversation.number, self.direction, searching=False)
        return self.decoder.data(self.offset, time, held)

    def decide(self, first: bytes = b"", *, searching: bool = True) -> FrameDecoder:
        """The decoder for a direction without a protocol header; what is there begins with `first`."""
        if self.decoder is None:
            self.held = b""
            dialect = self.conversation.dialect
            if dialect is None or not dialect.package:
                dialect = guess(first)
            self.decoder = dialect.decoder(self.conversation.number, self.direction, searching=searching)
        return self.decoder

    def _without_header(self, held: bytes, time: int | None) -> list[Record]:
        conversation = self.conversation
        dialect = conversation.dialect
        if dialect is None and conversation.beginning:
            name = next((name for start, name in _FIRST_OCTETS.items() if held.startswith(start)), None)
            guess = f" ({name})" if name else ""
            self.ignored = True
            return self._foreign(
                time, self.offset, f"not AMQP{guess}: it does not begin with a protocol header"
            )
        if conversation.foreign or (dialect is not None and not dialect.package):
            self.ignored = True
            return []
        # A server of a class/method dialect answers the header of its client with a frame at once.
        is_answer = conversation.beginning and dialect is not None and dialect.grammar == "class-method"
        searching = not is_answer or self.offset > 0
        return self.decide(held, searching=searching).data(self.offset, time, held)

    def _foreign(self, time: int | None, offset: int, reason: str) -> list[Record]:
        """Report once per stream that it is not decoded."""
        if self.conversation.foreign:
            return []
        self.conversation.foreign = True
        return [Record(time, self.conversation.number, self.direction, offset, "error", reason=reason)]
