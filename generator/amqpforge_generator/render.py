"""Templates in, texts out: one dialect, or what a target renders once, at a time.

Nothing is decided here that a target could decide: `Render` entries say which items there are and where each
goes. Templates see the model and the filters, and nothing of the machine they run on.
"""

from __future__ import annotations

import re
import string
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar

from jinja2 import FileSystemLoader, StrictUndefined, TemplateError, TemplateSyntaxError, Undefined
from jinja2.bccache import Bucket, BytecodeCache
from jinja2.sandbox import SandboxedEnvironment

from amqpforge_generator.filters import make_filters, plain
from amqpforge_generator.freshness import sha256, target_files
from amqpforge_generator.model import Archetype, Class, Dialect, Machine, Module, Section, Type
from amqpforge_generator.names import SpecText
from amqpforge_generator.target import Render, Target, TargetErrors
from amqpforge_generator.write import header_mark

_T = TypeVar("_T")
Item = Dialect | Module | Section | Type | Class | Machine
_Each = Callable[[Dialect], Iterator[tuple[Module | None, Item, dict[str, Item]]]]

# The filters of Jinja that neither guess, nor format for people, nor draw lots.
_KEPT_FILTERS = frozenset(
    "abs attr batch d default dictsort first groupby indent int items join last length list lower map max "
    "min reject rejectattr replace reverse round select selectattr slice sort sum trim unique upper".split()
)


@dataclass(frozen=True, slots=True)
class Source:
    """An input of an output: its name as the header shows it, and the digest of its octets."""

    label: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """One output before formatting: path relative to the output root, text with its header."""

    path: str
    text: str
    origin: str


class Compiled(BytecodeCache):
    """Compiled templates, for those who render one target for several dialects."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Give the template its code, if it was compiled before from the same text."""
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code of a template."""
        if bucket.code is not None:
            self._codes[bucket.key, bucket.checksum] = bucket.code


def render_dialect(target: Target, dialect: Dialect, compiled: Compiled | None = None) -> list[Rendered]:
    """Render everything that ``target`` makes of ``dialect``, in the order of its entries.

    Raises TargetErrors with every template that failed.
    """
    environment = make_environment(target, compiled)
    environment.globals |= _questions(dialect)
    sources = {module.name.xml: _sources(module) for module in dialect.modules}
    everything = tuple(source for files in sources.values() for source in files)
    results: list[Rendered] = []
    problems: list[str] = []
    for render in target.renders:
        if render.each == "once":
            continue
        for module, item, variables in _EACH[render.each](dialect):
            if render.when.admits(
                grammar=dialect.grammar,
                dialect=dialect.name,
                module=module.name.xml if module else None,
                contents=contents(item),
            ):
                used = sources[module.name.xml] if module else everything
                _render_one(
                    environment, target, render, variables | {"dialect": dialect}, used, results, problems
                )
    if problems:
        raise TargetErrors(*dict.fromkeys(problems))  # a slip of syntax is the same for every item
    return results


def render_once(
    target: Target, dialects: tuple[str, ...], compiled: Compiled | None = None
) -> list[Rendered]:
    """Render the entries that do not depend on a definition, and copy the support files.

    Templates see the names of all ``dialects``. Raises TargetErrors with every template that failed.
    """
    environment = make_environment(target, compiled)
    files = target_files(target.folder)
    results: list[Rendered] = []
    problems: list[str] = []
    for render in target.renders:
        if render.each == "once":
            source = _own_source(target, render.template, files[render.template])
            _render_one(environment, target, render, {"dialects": dialects}, (source,), results, problems)
    for copy in target.copies:
        for path, file in files.items():
            if path == copy.source or path.startswith(copy.source + "/"):
                header = header_text(target, (_own_source(target, path, file),))
                text = file.read_text(encoding="utf-8")
                results.append(
                    Rendered(copy.path + path.removeprefix(copy.source), _joined(header, text), path)
                )
    if problems:
        raise TargetErrors(*problems)
    return results


def _sources(module: Module) -> tuple[Source, ...]:
    """The files that a module comes from: its definition file, and what was laid over it."""
    overlays = (Source(overlay.file, overlay.sha256) for overlay in module.overlays)
    return Source(module.file, module.sha256), *overlays


def _own_source(target: Target, path: str, file: Path) -> Source:
    return Source(f"{target.name}/{path}", sha256(file.read_bytes()))


def make_environment(target: Target, compiled: Compiled | None = None) -> SandboxedEnvironment:
    """The Jinja environment of a target: strict, sandboxed, and printing only what a filter has made safe."""
    environment = SandboxedEnvironment(
        loader=FileSystemLoader(target.folder, encoding="utf-8"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        finalize=_finalize,
        extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
        bytecode_cache=compiled,
    )
    kept = {name: filter_ for name, filter_ in environment.filters.items() if name in _KEPT_FILTERS}
    environment.filters = {**kept, **make_filters(target)}
    safe = {name: environment.globals[name] for name in ("range", "dict", "namespace", "joiner")}
    environment.globals = {**safe, "values": target.values, "line_length": target.line_length, "fail": _fail}
    return environment


def _finalize(value: object) -> object:
    if isinstance(value, SpecText):
        raise TypeError(f"text of a definition needs a filter (quote, inline, comment, docstring): {value!r}")
    # A plain Undefined is the missing "else" of a conditional expression, and prints as nothing.
    if isinstance(value, (str, Undefined)) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise TypeError(
        f"{type(value).__name__} cannot be printed as it is; use a filter (value_name, literal, ...)"
    )


def _fail(message: str) -> str:
    raise ValueError(message)


def _questions(dialect: Dialect) -> dict[str, Callable[[str], object]]:
    """What templates may ask about the whole dialect, by names as the definition spells them."""
    types = {type_.name.xml: type_ for type_ in dialect.types}
    modules = {module.name.xml: module for module in dialect.modules}
    archetypes = {archetype.name.xml: archetype for archetype in dialect.archetypes}

    def archetype(name: object) -> Archetype:
        return _known(archetypes, plain(name), "archetype")

    def type_named(name: object) -> Type:
        return _known(types, plain(name), "type")

    def module_named(name: object) -> Module:
        return _known(modules, plain(name), "module")

    def has_type(name: object) -> bool:
        return plain(name) in types

    return {
        "archetype": archetype,
        "type_named": type_named,
        "module_named": module_named,
        "has_type": has_type,
    }


def _known(table: Mapping[str, _T], name: str, what: str) -> _T:
    if name not in table:
        raise LookupError(f"there is no {what} {name!r}")
    return table[name]


def contents(item: Item) -> frozenset[str]:
    """What an item contains, in the words that ``has`` and ``lacks`` use.

    Of a dialect, module or section: ``types``, ``primitives``, ``restricted``, ``composites``, ``described``,
    ``parts`` (message sections), ``definitions``, ``classes``, ``machines``. Of a type: the same words for
    itself, and ``fields``, ``choices``, ``encodings``. Of a class: ``methods``, ``fields``. Of a
    machine: ``guards``. For each archetype that a type provides, there is ``provides`` and its name.
    """
    if isinstance(item, Dialect):
        return frozenset().union(*map(contents, item.modules))
    if isinstance(item, (Module, Section)):
        found = frozenset().union(*map(contents, item.types)) - {"fields", "choices", "encodings"}
        return found | _filled(item, "types", "definitions", "classes", "machines")
    if isinstance(item, Type):
        kind = {"primitive": "primitives", "composite": "composites"}.get(item.kind, item.kind)
        marks = {"described" if item.descriptor else "", "parts" if item.part else "", kind} - {""}
        provided = {f"provides {archetype}" for archetype in item.provides}
        return _filled(item, "fields", "choices", "encodings") | marks | provided
    return _filled(item, "methods", "fields", "guards")


def _filled(item: object, *attributes: str) -> frozenset[str]:
    return frozenset(attribute for attribute in attributes if getattr(item, attribute, ()))


def _dialects(dialect: Dialect) -> Iterator[tuple[Module | None, Item, dict[str, Item]]]:
    yield None, dialect, {}


def _modules(dialect: Dialect) -> Iterator[tuple[Module | None, Item, dict[str, Item]]]:
    for module in dialect.modules:
        yield module, module, {"module": module}


def _sections(dialect: Dialect) -> Iterator[tuple[Module | None, Item, dict[str, Item]]]:
    for module in dialect.modules:
        for section in module.sections:
            yield module, section, {"module": module, "section": section}


def _types(dialect: Dialect) -> Iterator[tuple[Module | None, Item, dict[str, Item]]]:
    for module in dialect.modules:
        for section in module.sections:
            for type_ in section.types:
                yield module, type_, {"module": module, "section": section, "type": type_}


def _classes(dialect: Dialect) -> Iterator[tuple[Module | None, Item, dict[str, Item]]]:
    for module in dialect.modules:
        for class_ in module.classes:
            yield module, class_, {"module": module, "class": class_}


def _machines(dialect: Dialect) -> Iterator[tuple[Module | None, Item, dict[str, Item]]]:
    for module in dialect.modules:
        for machine in module.machines:
            yield module, machine, {"module": module, "machine": machine}


_EACH: Mapping[str, _Each] = {
    "dialect": _dialects,
    "module": _modules,
    "section": _sections,
    "type": _types,
    "class": _classes,
    "machine": _machines,
}


def _render_one(
    environment: SandboxedEnvironment,
    target: Target,
    render: Render,
    variables: Mapping[str, Any],
    sources: tuple[Source, ...],
    results: list[Rendered],
    problems: list[str],
) -> None:
    path = render.path
    try:
        path = _path(environment, render.path, variables)
        notice = notice_lines(target, sources)
        text = environment.get_template(render.template).render({**variables, "notice": notice})
        if not render.has_header and notice[0] not in text:
            raise ValueError("has no header, so it has to print the notice: {{ notice[0] | quote }}")
    except TemplateSyntaxError as error:
        problems.append(
            f"{error.filename or target.folder / render.template}:{error.lineno}: {error.message}"
        )
    except (TemplateError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        problems.append(f"{_place(error, target.folder, render)}: {_message(error)} [{path}]")
    else:
        header = header_text(target, sources) if render.has_header else ""
        results.append(Rendered(path, _joined(header, text), render.template))


def _place(error: Exception, folder: Path, render: Render) -> str:
    """``file:line`` of the innermost template line that the error passed through."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).is_relative_to(folder):
            return f"{frame.filename}:{frame.lineno}"
    return str(folder / render.template)


def _message(error: Exception) -> str:
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return " ".join(text.split()) or type(error).__name__


def _path(environment: SandboxedEnvironment, pattern: str, variables: Mapping[str, Any]) -> str:
    """Fill the ``{name}`` and ``{name:filter}`` parts of an output path."""
    parts: list[str] = []
    for fixed, name, filter_, _ in string.Formatter().parse(pattern):
        parts.append(fixed)
        if name is not None:
            if name not in variables:
                raise LookupError(
                    f"path {pattern!r}: no {{{name}}} here; there are: {', '.join(sorted(variables))}"
                )
            spell = environment.filters.get(filter_ or "file_name")
            if spell is None:
                raise LookupError(f"path {pattern!r}: no filter {filter_!r}")
            parts.append(spell(variables[name]))
    return "".join(parts)


def notice_lines(target: Target, sources: tuple[Source, ...]) -> list[str]:
    """The lines of the notice: what made the output, and the digests of what it was made from."""
    made = f"{header_mark(target.name)}: do not edit, change the sources and generate again."
    return [made, *(f"source {source.label} sha256 {source.sha256}" for source in sources)]


def header_text(target: Target, sources: tuple[Source, ...]) -> str:
    """The notice at the top of an output, spelled as the target wants it."""
    header = target.header
    lines = notice_lines(target, sources)
    opening = [header.open] if header.open else []
    closing = [header.close] if header.close else []
    return header.before + "\n".join([*opening, *(header.prefix + line for line in lines), *closing]) + "\n"


def _joined(header: str, text: str) -> str:
    """Header, an empty line and the text, with one kind of line ending and exactly one at the end."""
    body = re.sub(r"\r\n?", "\n", text).strip("\n")
    return f"{header}\n{body}\n" if header and body else header or f"{body}\n"
