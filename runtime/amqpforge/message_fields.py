"""What the attributes of a message accept: checks that name the attribute, typed fields, annotations.

:mod:`amqpforge.message` is built of these; users meet :class:`MessageError` and :class:`AnnotationsView`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload
from uuid import UUID

from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import Described, Header, Properties, Symbol, Timestamp, ULong, Value

if TYPE_CHECKING:
    from amqpforge.message import Message

__all__ = ["AnnotationsView", "Field", "MessageError", "shown"]

_Got = TypeVar("_Got")
_Given = TypeVar("_Given")
_Check = Callable[[str, object], object]

STANDARD_HEADER = Header()
"""What a message without a header says where no other default is configured (section 3.2.1)."""


class MessageError(LocalError, ValueError):
    """A message cannot hold what it was given, or has not what it was asked for.

    Attributes:
        field: the attribute of the message that this is about.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


# ---- values as people read them ----


class _Short(reprlib.Repr):
    """Representations that never write in full what is long."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 80
        self.maxlevel, self.maxdict, self.maxlist = 3, 8, 8

    def repr_bytes(self, value: bytes, level: int) -> str:
        """The first octets, and how many there are if there are more."""
        if len(value) <= self.maxstring // 2:
            return repr(value)
        return f"<{len(value)} octets: {value[: self.maxstring // 4]!r}...>"


_SHORT = _Short()
_MOST_SHOWN = 240


def shown(value: object) -> str:
    """A value for people to read: its repr, cut where it is long."""
    told = _SHORT.repr(value)
    return told if len(told) <= _MOST_SHOWN else f"{told[:_MOST_SHOWN]}..."


# ---- what fits a field, as the codec wants it ----


def flag(name: str, value: object) -> bool:
    """``value`` if it is a boolean."""
    if type(value) is bool:
        return value
    raise MessageError(name, f"{shown(value)} is not a flag; give True or False")


def number(most: int) -> _Check:
    """A check for whole numbers from 0 to ``most``."""

    def check(name: str, value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most:
            return int(value)
        raise MessageError(name, f"{shown(value)} does not fit; give a whole number from 0 to {most}")

    return check


def milliseconds(name: str, value: object) -> int:
    """Seconds, or a timedelta, in milliseconds."""
    if isinstance(value, timedelta):
        length: float = value / timedelta(milliseconds=1)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        length = value * 1000
    else:
        raise MessageError(name, f"{shown(value)} is no length of time; give seconds or a timedelta")
    if not 0 <= length <= 0xFFFF_FFFF:
        raise MessageError(name, f"{shown(value)} does not fit; give 0 to 4294967.295 seconds (49 days)")
    return round(length)


def text(name: str, value: object) -> str:
    """Text as a plain ``str``, whatever class of text it is."""
    if isinstance(value, str):
        return value if type(value) is str else str.__str__(value)
    raise MessageError(name, f"{shown(value)} is not text; give a str")


def symbol(name: str, value: object) -> Symbol:
    """ASCII text as a symbol."""
    if isinstance(value, str) and value.isascii():
        return value if isinstance(value, Symbol) else Symbol(value)
    raise MessageError(name, f"{shown(value)} is not a symbol; give a str of ASCII characters")


def octets(name: str, value: object) -> bytes:
    """Octets of any kind as bytes."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise MessageError(name, f"{shown(value)} is not octets; give bytes")


def identifier(name: str, value: object) -> object:
    """What can be a message-id. Its type is part of it: the text 1 and the number 1 are two identifiers."""
    if isinstance(value, str):
        return text(name, value)
    if isinstance(value, (UUID, ULong, Described)):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise MessageError(name, f"{shown(value)} is no identifier; give a str, bytes, a UUID, or a ULong")


def address(name: str, value: object) -> object:
    """What can be the address of a node."""
    if isinstance(value, Described):
        return value
    if isinstance(value, str):
        return text(name, value)
    raise MessageError(name, f"{shown(value)} is not an address; give a str")


def moment(name: str, value: object) -> Timestamp:
    """A moment in whole milliseconds, rounded down."""
    if isinstance(value, Timestamp):
        return value
    if not isinstance(value, datetime):
        raise MessageError(name, f"{shown(value)} is no moment; give a datetime with a time zone")
    if value.tzinfo is None:
        raise MessageError(name, f"{shown(value)} has no time zone; give one, such as datetime.now(UTC)")
    return Timestamp.from_datetime(value)


# ---- and back ----


def as_it_is(name: str, value: _Got) -> _Got:
    """``value``."""
    return value


def seconds(name: str, value: int | None) -> float | None:
    """Milliseconds as seconds."""
    return None if value is None else value / 1000


def to_datetime(name: str, value: Timestamp | None) -> datetime | None:
    """A timestamp as a datetime in UTC."""
    try:
        return None if value is None else value.to_datetime()
    except OverflowError:
        held = f"sections.properties.{name} has the number"
        raise MessageError(name, f"{shown(value)} is beyond what a datetime holds; {held}") from None


# ---- fields as attributes ----

_KINDS: dict[str, type[Header | Properties]] = {"header": Header, "properties": Properties}
_ABSENT = {"header": STANDARD_HEADER, "properties": Properties()}


class Field(property, Generic[_Got, _Given]):
    """A field of the header or the properties as an attribute of a message.

    What is read may be of another type than what is set: a timestamp is read as a datetime. Setting makes the
    section if it is not there. Being a property, it is listed where properties are.

    Args:
        section: ``header`` or ``properties``.
        name: of the attribute, here and in the section.
        doc: what the field says.
        check: makes what the codec wants of what was given, or raises MessageError.
        show: makes what is read of what the section holds.
        is_optional: None may be set, for a field without a value.
    """

    def __init__(
        self,
        section: str,
        name: str,
        doc: str,
        check: _Check,
        *,
        show: Callable[[str, Any], Any] = as_it_is,
        is_optional: bool = True,
    ) -> None:
        super().__init__(self._get, self._set)
        self.__doc__ = doc
        self._section, self._name = section, name
        self._check, self._show, self._is_optional = check, show, is_optional

    if TYPE_CHECKING:

        @overload
        def __get__(self, message: None, owner: type | None = None, /) -> Self: ...

        @overload
        def __get__(self, message: Message, owner: type | None = None, /) -> _Got: ...

        def __get__(self, message: Message | None, owner: type | None = None, /) -> Any: ...

        def __set__(self, message: Message, value: _Given, /) -> None: ...

    def _get(self, message: Message) -> Any:
        section = getattr(message.sections, self._section) or _ABSENT[self._section]
        return self._show(self._name, getattr(section, self._name))

    def _set(self, message: Message, value: object) -> None:
        is_cleared = value is None and self._is_optional
        fit = None if is_cleared else self._check(self._name, value)
        sections = message.sections
        section = getattr(sections, self._section)
        if section is None:
            if is_cleared:
                return
            section = _KINDS[self._section]()
            setattr(sections, self._section, section)
        setattr(section, self._name, fit)


# ---- annotations ----

_OWN = "keys of your own are text that begins with x-, best x-opt-"


class AnnotationsView(MutableMapping["str | ULong", Value]):
    """The annotations of a message, as a mapping that lets only private keys in.

    All keys but the symbols that begin with ``x-`` are reserved (section 3.2.10). A ``str`` becomes a symbol.
    Keys that a peer wrote, reserved ones among them, are there to be read and deleted.

    Raises:
        MessageError: on setting, a key is reserved.
    """

    __slots__ = ("_entries", "_field")

    def __init__(self, field: str, entries: dict[Any, Value]) -> None:
        self._field, self._entries = field, entries

    def __getitem__(self, key: str | ULong) -> Value:
        return self._entries[key]

    def __setitem__(self, key: str | ULong, value: Value) -> None:
        self._entries[own_key(self._field, key)] = value

    def __delitem__(self, key: str | ULong) -> None:
        del self._entries[key]

    def __iter__(self) -> Iterator[str | ULong]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return self._entries == (other._entries if isinstance(other, AnnotationsView) else other)

    def __repr__(self) -> str:
        return f"AnnotationsView({self._entries!r})"


def own_key(field: str, key: object) -> Symbol:
    """A key of annotations as a symbol."""
    if not isinstance(key, str) or not key.isascii():
        raise MessageError(field, f"the key {shown(key)} is reserved or none; {_OWN}")
    if not key.startswith("x-"):
        raise MessageError(field, f"the key {shown(key)} is reserved; {_OWN}: {shown('x-opt-' + key)}")
    return key if type(key) is Symbol else Symbol(key)


def own_entries(field: str, entries: object) -> dict[Any, Value]:
    """A mapping of private annotations with its keys as symbols."""
    return {own_key(field, key): value for key, value in mapping(field, entries).items()}


def mapping(field: str, entries: object) -> Mapping[Any, Value]:
    """``entries`` if they are a mapping."""
    if type(entries) is dict or isinstance(entries, Mapping):
        return entries
    raise MessageError(field, f"{shown(entries)} is not a mapping; give a dict")
