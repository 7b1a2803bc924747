"""Reading a file of TOML table by table: values are checked, and a key that nobody asked for is refused."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from amqpforge.errors import LocalError

if TYPE_CHECKING:
    from enum import Enum

__all__ = ["Table", "TomlError", "file_at", "read_toml"]

E = TypeVar("E", bound="Enum")
T = TypeVar("T")

_MOST_OCTETS: Final = 1 << 24
_MOST_SECONDS: Final = 1000 * 366 * 86_400.0
_BARE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_TYPES: Final[Mapping[type, str]] = {
    bool: "true or false",
    str: "a string",
    int: "a whole number",
    float: "a number",
    list: "an array",
    dict: "a table",
}


class TomlError(LocalError):
    """A file that does not say what it should; the text begins with the file and the place in it."""


def read_toml(path: str | os.PathLike[str]) -> Table:
    """The topmost table of a file.

    Raises:
        TomlError: it cannot be read, has more than 16 MiB, or is no TOML in UTF-8.
    """
    import tomllib  # Loaded where it is used: most programs read no such file.

    path = Path(path)
    try:
        with path.open("rb") as file:
            octets = file.read(_MOST_OCTETS + 1)
    except OSError as error:
        raise TomlError(f"{path}: cannot be read: {error.strerror}") from error
    if len(octets) > _MOST_OCTETS:
        raise TomlError(f"{path}: has more than {_MOST_OCTETS} octets")
    try:
        return Table(path, (), tomllib.loads(octets.decode()))
    except UnicodeDecodeError as error:
        raise TomlError(f"{path}: is not UTF-8 at octet {error.start}") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise TomlError(f"{path}: is no TOML: {error}") from None


def file_at(text: str, folder: Path) -> Path:
    """The path of a file; a relative one begins in ``folder``, and ``~`` is the home of a user.

    Raises:
        ValueError: there can be no such file.
    """
    if not text or "\0" in text:
        raise ValueError("is empty or holds a NUL character, and should name a file")
    try:
        return folder / Path(text).expanduser()
    except RuntimeError:
        raise ValueError(f"names the home of a user who is not known: {text!r}") from None


class Table:
    """One table of a file, read key by key; :meth:`finish` refuses what was not read.

    The methods that read a key return ``default`` where the key is missing, and raise TomlError for a value
    of another type or out of its range.

    Attributes:
        file: the file, for errors and for names of files beside it.
        path: the names of the tables from the topmost one down to this.
    """

    def __init__(self, file: Path, path: tuple[str, ...], values: Mapping[str, Any]) -> None:
        self.file = file
        self.path = path
        self._values = values
        self._read: set[str] = set()

    def error(self, problem: str, *names: str) -> TomlError:
        """An error about this table, or about what lies below it under ``names``."""
        place = ".".join(_shown(name) for name in (*self.path, *names))
        return TomlError(f"{self.file}: {place}: {problem}" if place else f"{self.file}: {problem}")

    def __contains__(self, name: str) -> bool:
        """Whether a key is there, which is known then."""
        self._read.add(name)
        return name in self._values

    def names(self) -> Iterable[str]:
        """The keys of the table, in the order of the file."""
        return self._values.keys()

    def text(self, name: str, default: T) -> str | T:
        value: str | T = self._value(name, str, default)
        return value

    def required(self, name: str) -> str:
        """A string that has to be there."""
        text = self.text(name, None)
        if text is None:
            raise self.error("is missing: it has to be said", name)
        return text

    def flag(self, name: str, default: bool) -> bool:
        value: bool = self._value(name, bool, default)
        return value

    def integer(self, name: str, default: T, least: int, most: int) -> int | T:
        number: int | T = self._value(name, int, default)
        if name in self._values and not least <= self._values[name] <= most:
            raise self.error(f"is {number}; possible is {least} to {most}", name)
        return number

    def seconds(self, name: str, default: T, *, above: bool = False) -> float | T:
        """A time of at most a thousand years; 0 too, unless it has to be ``above`` it."""
        number: float | T = self._value(name, float, default)
        if name in self._values:
            value = float(self._values[name])
            if not 0 <= value <= _MOST_SECONDS or (above and value == 0):
                least = "above 0" if above else "0 or more"
                raise self.error(f"is {value:g}; possible are seconds, {least}, at most 1000 years", name)
            return value
        return number

    def texts(self, name: str, default: T) -> tuple[str, ...] | T:
        if name not in self._values:
            return default
        values = self._value(name, list, [])
        for index, value in enumerate(values):
            if not isinstance(value, str):
                raise self.error(f"is {_kind(value)}, not a string", f"{name}[{index}]")
        return tuple(values)

    def choice(self, name: str, default: E) -> E:
        """A member of an enumeration whose values are strings."""
        kind = type(default)
        text = self.text(name, default.value)
        try:
            return kind(text)
        except ValueError:
            known = ", ".join(repr(member.value) for member in kind)
            raise self.error(f"is {text!r}; possible is {known}", name) from None

    def file_name(self, name: str) -> Path | None:
        """The path of another file; a relative one begins where this file lies."""
        text = self.text(name, None)
        try:
            return None if text is None else file_at(text, self.file.parent)
        except ValueError as error:
            raise self.error(str(error), name) from None

    def values(self, name: str) -> Mapping[str, Any]:
        """A table as it is, with whatever it holds; empty if it is missing."""
        values: Mapping[str, Any] = self._value(name, dict, {})
        return values

    def table(self, name: str) -> Table:
        """A table inside this one; empty if it is missing."""
        return Table(self.file, (*self.path, name), self._value(name, dict, {}))

    def tables(self, name: str) -> list[Table]:
        """The tables of an array, ``[[name]]``; none if it is missing."""
        values = self._value(name, list, [])
        tables: list[Table] = []
        for index, value in enumerate(values):
            place = f"{name}[{index}]"
            if not isinstance(value, dict):
                raise self.error(f"is {_kind(value)}, not a table: write it as [[{name}]]", place)
            tables.append(Table(self.file, (*self.path, place), value))
        return tables

    def finish(self) -> None:
        """Refuse what has not been read.

        Raises:
            TomlError: there is a key that nobody asked for.
        """
        unknown = [name for name in self._values if name not in self._read]
        if unknown:
            known = ", ".join(sorted(self._read)) or "none"
            raise self.error(f"is not known here; known are {known}", unknown[0])

    def _value(self, name: str, kind: type, default: object) -> Any:
        self._read.add(name)
        if name not in self._values:
            return default
        value = self._values[name]
        fits = isinstance(value, int | float) if kind is float else isinstance(value, kind)
        if not fits or (isinstance(value, bool) and kind is not bool):
            raise self.error(f"is {_kind(value)}, not {_TYPES[kind]}", name)
        return value


def _kind(value: object) -> str:
    """The type of a value as people know it."""
    return next((shown for kind, shown in _TYPES.items() if isinstance(value, kind)), "a date or a time")


def _shown(name: str) -> str:
    """A key as it stands in a file, with quotes where it needs them."""
    plain = name.partition("[")[0] if name.endswith("]") else name
    return name if plain and _BARE.issuperset(plain) else f'"{name}"'
