"""The two errors of every codec."""

from __future__ import annotations


class CodecError(ValueError):
    """What a codec cannot read or write; :class:`DecodeError` and :class:`EncodeError` say which.

    Attributes:
        reason: what is wrong, without the place.
        type: the specification's name of the type in question, or None.
        field: the specification's name of the field in question, or None.
        offset: for decoding, octets from the start of the data to the first octet that cannot be read; for
            encoding, None.
    """

    def __init__(
        self, reason: str, *, type: str | None = None, field: str | None = None, offset: int | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.type = type
        self.field = field
        self.offset = offset

    def __str__(self) -> str:
        place = ".".join(part for part in (self.type, self.field) if part)
        text = f"{place}: {self.reason}" if place else self.reason
        return text if self.offset is None else f"{text} (at octet {self.offset})"


class DecodeError(CodecError):
    """Octets that are not what the protocol says they should be."""


class EncodeError(CodecError):
    """A value that the protocol cannot carry in this place."""


def shown(value: object) -> str:
    """A value as messages show it: its repr, cut short where a peer or a user made it long."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


_MOST_SHOWN = 120

BEYOND_STACK = "is nested deeper than the interpreter's stack allows"


def truncated(data: bytes) -> DecodeError:
    """The error for data that ends inside a value."""
    return DecodeError("the data ends inside a value", offset=len(data))


def stopped(error: Exception, data: bytes) -> DecodeError:
    """The error for what ended a decoder: the data, or the interpreter's stack."""
    if isinstance(error, RecursionError):
        return DecodeError(BEYOND_STACK)
    return truncated(data)
