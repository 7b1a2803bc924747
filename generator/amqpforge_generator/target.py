"""A target: what ``target.toml`` says about one kind of output, read strictly and frozen.

Everything that differs between languages is data here: which template renders how often and to which path,
how a comment or a literal is spelled, which names are reserved. A new language is a folder of templates and
this file. Only the standard library is imported, because an up-to-date tree must be recognised quickly.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import cast

TARGET_FILE = "target.toml"
EACH = ("once", "dialect", "module", "section", "type", "class", "machine")
STYLES = ("snake", "upper", "pascal", "camel", "kebab", "lower")
FORMATTERS = ("none", "black", "prettier")
CONTENTS = (
    *("types", "primitives", "restricted", "composites", "described", "parts", "definitions", "classes"),
    *("machines", "fields", "choices", "encodings", "methods", "guards"),
)

Pairs = tuple[tuple[str, str], ...]


class TargetErrors(Exception):
    """Everything wrong with a target or with what it renders, one message a line; nothing was written."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Which items a template is for. An empty condition holds always; several conditions must all hold.

    ``has`` and ``lacks`` name what an item contains (`render.contents`); ``has`` wants all, ``lacks`` none.
    ``provides`` names archetypes that types of the item must provide.
    """

    grammar: tuple[str, ...] = ()
    dialects: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    except_modules: tuple[str, ...] = ()
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()

    def admits(self, *, grammar: str, dialect: str, module: str | None, contents: frozenset[str]) -> bool:
        """Whether an item of this dialect (and module, when it is in one) with these contents is meant."""
        return (
            (not self.grammar or grammar in self.grammar)
            and (not self.dialects or dialect in self.dialects)
            and (not self.modules or module in self.modules)
            and module not in self.except_modules
            and contents.issuperset(self.has)
            and contents.issuperset(f"provides {archetype}" for archetype in self.provides)
            and contents.isdisjoint(self.lacks)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Render:
    """One template, the items it renders for, and where the result goes (relative to the output root).

    ``has_header``: the notice goes in front of the output; otherwise the template prints it, from ``notice``.
    """

    template: str
    each: str
    path: str
    when: Selector = Selector()
    has_header: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A file or folder of the target that is copied with the header, contents unchanged."""

    source: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """How the notice of an output is spelled: ``before`` goes first (say ``<?php``), lines get ``prefix``."""

    before: str = ""
    open: str = ""
    prefix: str = "# "
    close: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatting:
    """The formatter for outputs that end in one of ``suffixes``.

    ``versions`` are the versions of Python that black writes for, or the one version of prettier to use.
    """

    tool: str = "none"
    suffixes: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Spelling of identifiers: a style per kind of name, and what the language keeps for itself.

    A name in ``reserved`` gets ``reserved_suffix``; a class name in ``reserved_classes`` gets the prefix
    ``class_prefix_when_reserved``.
    """

    value: str = "snake"
    type: str = "pascal"
    constant: str = "upper"
    file: str = "snake"
    reserved: frozenset[str] = frozenset()
    reserved_suffix: str = "_"
    reserved_classes: frozenset[str] = frozenset()
    class_prefix_when_reserved: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """A comment or documentation block.

    ``first`` precedes the first line and ``prefix`` every further one; a text of one line is ``first + text +
    close``, a longer one has ``close`` on a line of its own, and so it has ``open``, where there is one, in
    place of ``first``. ``escapes`` apply everywhere; ``end_escapes`` to
    the last characters of the text, where they would touch ``close``.
    """

    first: str = "# "
    open: str = ""
    prefix: str = "# "
    close: str = ""
    blank: str = "#"
    escapes: Pairs = ()
    end_escapes: Pairs = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Literals:
    """The words and escapes of literals; ``{0}`` patterns are ``str.format`` patterns that get one number.

    ``wide_escape`` is for code points above U+FFFF; without it they become a surrogate pair of ``escape``.
    ``escape_also`` lists printable characters that must not appear as they are in a quoted string.
    """

    true: str = "true"
    false: str = "false"
    none: str = "null"
    nan: str = "NaN"
    infinity: str = "Infinity"
    minus_infinity: str = "-Infinity"
    escape: str = "\\u{0:04x}"
    wide_escape: str = ""
    escape_also: str = ""
    octets_open: str = "["
    octet: str = "0x{0:02x}"
    octet_separator: str = ", "
    octets_close: str = "]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """All of ``target.toml``; ``output`` is the output root relative to the project, ``values`` free data.

    ``foreign`` names files and folders below the output root that are left alone, whoever made them.
    """

    name: str
    folder: Path
    output: str
    line_length: int = 100
    foreign: tuple[str, ...] = ()
    reference: str = ""
    renders: tuple[Render, ...] = ()
    copies: tuple[Copy, ...] = ()
    header: Header = Header()
    format: Formatting = Formatting()
    names: Names = Names()
    comment: Prose = Prose()
    docstring: Prose = Prose()
    literals: Literals = Literals()
    values: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


def load_target(folder: Path) -> Target:
    """Read ``folder/target.toml``.

    Raises ``TargetErrors`` listing every mistake: unreadable file, unknown or missing key, wrong kind of
    value, a template or support file that is not there, a path that leaves the output root.
    """
    file = folder / TARGET_FILE
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TargetErrors(f"{file}: no such file; a target is a folder with a {TARGET_FILE}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TargetErrors(f"{file}: {error}") from None
    problems: list[str] = []
    target = _target(_Table(f"{file}:", data, problems), folder)
    if problems:
        raise TargetErrors(*problems)
    return target


def _target(top: _Table, folder: Path) -> Target:
    text = top.table("text")
    target = Target(
        name=top.name("name"),
        folder=folder,
        output=top.path("output"),
        line_length=top.number("line_length", 100),
        foreign=top.texts("foreign"),
        reference=text.text("reference", ""),
        renders=tuple(_render(table, folder) for table in top.tables("render")),
        copies=tuple(_copy(table, folder) for table in top.tables("copy")),
        header=_header(top.table("header")),
        format=_formatting(top.table("format")),
        names=_names(top.table("names")),
        comment=_prose(text.table("comment"), Prose()),
        docstring=_prose(text.table("docstring"), Prose()),
        literals=_literals(top.table("literals")),
        values=cast(Mapping[str, object], _frozen(top.mapping("values"))),
    )
    text.close()
    top.close()
    return target


def _render(table: _Table, folder: Path) -> Render:
    conditions = table.table("when")
    when = Selector(
        grammar=conditions.texts("grammar"),
        dialects=conditions.texts("dialects"),
        modules=conditions.texts("modules"),
        except_modules=conditions.texts("except_modules"),
        has=conditions.texts("has", CONTENTS),
        lacks=conditions.texts("lacks", CONTENTS),
        provides=conditions.texts("provides"),
    )
    conditions.close()
    render = Render(
        template=table.file("template", folder),
        each=table.one_of("each", EACH, None),
        path=table.path("path"),
        when=when,
        has_header=table.truth("header", True),
    )
    table.close()
    return render


def _copy(table: _Table, folder: Path) -> Copy:
    copy = Copy(source=table.file("source", folder), path=table.path("path"))
    table.close()
    return copy


def _header(table: _Table) -> Header:
    usual = Header()
    header = Header(
        before=table.text("before", usual.before),
        open=table.text("open", usual.open),
        prefix=table.text("prefix", usual.prefix),
        close=table.text("close", usual.close),
    )
    table.close()
    return header


def _formatting(table: _Table) -> Formatting:
    formatting = Formatting(
        tool=table.one_of("tool", FORMATTERS, "none"),
        suffixes=table.texts("suffixes"),
        versions=table.texts("versions"),
    )
    if formatting.tool == "prettier" and len(formatting.versions) != 1:
        table.complain("prettier needs versions to name the one to use, such as 3.6.2")
    table.close()
    return formatting


def _names(table: _Table) -> Names:
    usual = Names()
    names = Names(
        value=table.one_of("value", STYLES, usual.value),
        type=table.one_of("type", STYLES, usual.type),
        constant=table.one_of("constant", STYLES, usual.constant),
        file=table.one_of("file", STYLES, usual.file),
        reserved=frozenset(table.texts("reserved")),
        reserved_suffix=table.text("reserved_suffix", usual.reserved_suffix),
        reserved_classes=frozenset(table.texts("reserved_classes")),
        class_prefix_when_reserved=table.text("class_prefix_when_reserved", usual.class_prefix_when_reserved),
    )
    if names.reserved_classes and not names.class_prefix_when_reserved:
        table.complain("reserved_classes needs class_prefix_when_reserved")
    table.close()
    return names


def _prose(table: _Table, usual: Prose) -> Prose:
    prefix = table.text("prefix", usual.prefix)
    prose = Prose(
        first=table.text("first", prefix),
        open=table.text("open", usual.open),
        prefix=prefix,
        close=table.text("close", usual.close),
        blank=table.text("blank", prefix.rstrip()),
        escapes=table.pairs("escapes"),
        end_escapes=table.pairs("end_escapes"),
    )
    table.close()
    return prose


def _literals(table: _Table) -> Literals:
    usual = Literals()
    patterns = ("escape", "wide_escape", "octet")
    words = {key: table.text(key, cast(str, getattr(usual, key))) for key in Literals.__dataclass_fields__}
    for key in patterns:
        try:
            words[key].format(0)
        except (ValueError, LookupError, AttributeError):
            table.complain(f"{key}: {words[key]!r} is not a pattern for one number, such as 0x{{0:02x}}")
    table.close()
    return Literals(**words)


def _frozen(value: object) -> object:
    """Read-only copy of free TOML data, so that no template can change what the next one sees."""
    if isinstance(value, dict):
        return MappingProxyType({str(key): _frozen(item) for key, item in value.items()})
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value


class _Table:
    """A TOML table taken apart key by key; whatever is missing, mistyped or left over is a problem."""

    def __init__(self, where: str, data: dict[str, object], problems: list[str]) -> None:
        self._where = where
        self._data = dict(data)
        self._known: list[str] = []
        self._problems = problems

    def complain(self, message: str) -> None:
        self._problems.append(f"{self._where} {message}")

    def _take(self, key: str, default: object) -> object:
        self._known.append(key)
        if key in self._data:
            return self._data.pop(key)
        if default is None:
            self.complain(f"{key} is missing")
        return default

    def text(self, key: str, default: str | None = None) -> str:
        value = self._take(key, default)
        if isinstance(value, str):
            return value
        if value is not None:
            self.complain(f"{key} must be a string")
        return default or ""

    def number(self, key: str, default: int) -> int:
        value = self._take(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and 40 <= value <= 1000:
            return value
        self.complain(f"{key} must be a whole number from 40 to 1000")
        return default

    def truth(self, key: str, default: bool) -> bool:
        value = self._take(key, default)
        if isinstance(value, bool):
            return value
        self.complain(f"{key} must be true or false")
        return default

    def texts(self, key: str, words: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A string or several; each must be one of ``words`` where there are any."""
        value = self._take(key, ())
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
            self.complain(f"{key} must be a string or a list of strings")
            return ()
        found = tuple(cast("list[str]", items))
        for word in found:
            if words and word not in words:
                self.complain(f"{key}: {word!r} is not one of {', '.join(words)}")
        return found

    def pairs(self, key: str) -> Pairs:
        value = self._take(key, [])
        if isinstance(value, list) and all(
            isinstance(pair, list)
            and len(pair) == 2
            and all(isinstance(part, str) for part in pair)
            and pair[0]
            for pair in value
        ):
            return tuple((pair[0], pair[1]) for pair in value)
        self.complain(f"{key} must be a list of pairs of strings: what to replace, and by what")
        return ()

    def one_of(self, key: str, words: tuple[str, ...], default: str | None) -> str:
        value = self.text(key, default)
        if value and value not in words:
            self.complain(f"{key}: {value!r} is not one of {', '.join(words)}")
        return value

    def name(self, key: str) -> str:
        value = self.text(key)
        if value and not (value.isascii() and value.replace("-", "_").isidentifier()):
            self.complain(f"{key}: {value!r} is not a plain word")
        return value

    def path(self, key: str) -> str:
        """A path below the output root, with ``/`` between its parts on every system."""
        value = self.text(key)
        parts = value.split("/")
        if (
            value
            and value != "."
            and ("\\" in value or value[1:2] == ":" or any(part in ("", ".", "..") for part in parts))
        ):
            self.complain(f"{key}: {value!r} is not a relative path without '..'")
        return value

    def file(self, key: str, folder: Path) -> str:
        value = self.path(key)
        if value and not (folder / value).exists():
            self.complain(f"{key}: there is no {value} in {folder}")
        return value

    def mapping(self, key: str) -> dict[str, object]:
        value = self._take(key, {})
        if isinstance(value, dict):
            return cast("dict[str, object]", value)
        self.complain(f"{key} must be a table")
        return {}

    def table(self, key: str) -> _Table:
        return _Table(f"{self._where} [{key}]", self.mapping(key), self._problems)

    def tables(self, key: str) -> list[_Table]:
        value = self._take(key, [])
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            return [
                _Table(
                    f"{self._where} [[{key}]] number {number}:",
                    cast("dict[str, object]", item),
                    self._problems,
                )
                for number, item in enumerate(value, 1)
            ]
        self.complain(f"{key} must be an array of tables: [[{key}]]")
        return []

    def close(self) -> None:
        """Report the keys that nobody asked for."""
        for key in self._data:
            self.complain(f"{key} is not a known key; known: {', '.join(sorted(self._known))}")
