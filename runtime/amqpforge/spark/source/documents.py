"""Documents of a spool as values of the types that they were made of.

Another version may have written them, or another program: what is not as it should be is an error that says
so, and never a value that is half right.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args, get_origin, get_type_hints

from .segment import SpoolError

if TYPE_CHECKING:
    from .storage import Storage

__all__ = ["load_document"]

T = TypeVar("T")

_NAMES: Final[dict[Any, str]] = {
    NoneType: "null",
    bool: "true or false",
    int: "a number",
    float: "a fraction",
    str: "a text",
    list: "a list",
    dict: "an object",
}
"""What JSON calls the types that it is read as."""


class _Misfit(Exception):
    """A document has not the shape that it should have: where, and why."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place or 'it'} {problem}")


def load_document(storage: Storage, name: str, kind: type[T]) -> T | None:
    """The document of a name; None: there is none.

    Args:
        storage: which has it.
        name: its name.
        kind: what it was made of: a dataclass, a list or tuple, a dict with texts as keys, a text, a number,
            true or false, and unions with None. A field with a default may be missing: earlier versions have
            not written it.

    Raises:
        SpoolError: it is damaged, or was made of something else.
        OSError: it cannot be read; where the storage is no folder, also ``pyarrow.ArrowException``.
    """
    document = storage.load(name)
    if document is None:
        return None
    try:
        made: T = _made(kind, document, "")
    except _Misfit as misfit:
        raise SpoolError(
            f"the file {storage.place(name)} of the spool is not as this version of amqpforge writes it: "
            f"{misfit}. Go on with the version that has written it, or restore it: what the spool holds was "
            "taken from the peer, and is nowhere else"
        ) from None
    return made


def _made(kind: Any, value: Any, place: str) -> Any:
    """A value of a type.

    Args:
        kind: the type.
        value: what JSON has in its place.
        place: where that is, for people; empty: it is the whole document.

    Raises:
        _Misfit: it is not made of such a value.
    """
    origin, of = get_origin(kind) or kind, get_args(kind)
    if origin is UnionType:
        return None if value is None else _made(_but_none(of), value, place)
    expected: Any = {tuple: list}.get(origin, dict if is_dataclass(kind) else origin)
    if type(value) is not expected:
        raise _Misfit(place, f"is {_NAMES[type(value)]}, not {_NAMES[expected]}")
    if is_dataclass(kind):
        return _made_of_fields(kind, value, place)
    if origin is list:
        return [_made(of[0], one, _inside(f"item {number}", place)) for number, one in enumerate(value)]
    if origin is tuple:
        if len(value) != len(of):
            raise _Misfit(place, f"is a list of {len(value)}, not of {len(of)}")
        items = enumerate(zip(of, value, strict=True))
        return tuple(_made(each, one, _inside(f"item {number}", place)) for number, (each, one) in items)
    if origin is dict:
        return {key: _made(of[1], one, _inside(f"{key!r:.40}", place)) for key, one in value.items()}
    return value


def _made_of_fields(kind: Any, value: dict[str, Any], place: str) -> Any:
    """A dataclass, of an object that has its fields and no others."""
    kinds = _kinds(kind)
    for one in fields(kind):
        if one.name not in value and one.default is MISSING:
            raise _Misfit(place, f"has no {one.name!r}")
    for name in value:
        if name not in kinds:
            raise _Misfit(place, f"has {name!r:.40}, which is not known")
    return kind(**{name: _made(kinds[name], one, _inside(repr(name), place)) for name, one in value.items()})


@cache
def _kinds(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _but_none(kinds: tuple[Any, ...]) -> Any:
    return next(kind for kind in kinds if kind is not NoneType)


def _inside(part: str, place: str) -> str:
    return f"{part} of {place}" if place else part
