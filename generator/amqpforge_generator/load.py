"""Loading a dialect: a folder of definition files in, its checked model out, or every problem there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lxml import etree

from amqpforge_generator.checks import check_dialect, check_documents
from amqpforge_generator.document import Document, Location
from amqpforge_generator.errors import Problems, SpecErrors, suggestion
from amqpforge_generator.model import Dialect
from amqpforge_generator.names import split_words
from amqpforge_generator.overlay import apply_overlays
from amqpforge_generator.readers import amqp, class_method, control_command, overlay, states
from amqpforge_generator.readers.overlay import Overlay
from amqpforge_generator.resolve import resolve
from amqpforge_generator.xmlsource import Source, parse, read_octets
from amqpforge_spec import schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """A grammar: its name (the schema's too), its reader, and whether it only accompanies another one."""

    name: str
    read: Callable[[etree._Element, Source], Document | Overlay]
    is_companion: bool = False


#: Readers by the qualified name of the root element: the content of a file, never its name, decides.
GRAMMARS: Mapping[str, Grammar] = {
    amqp.ROOT: Grammar(name=amqp.GRAMMAR, read=amqp.read_amqp),
    class_method.ROOT: Grammar(name=class_method.GRAMMAR, read=class_method.read_class_method),
    control_command.ROOT: Grammar(name=control_command.GRAMMAR, read=control_command.read_control_command),
    states.ROOT: Grammar(name=states.GRAMMAR, read=states.read_states, is_companion=True),
    overlay.ROOT: Grammar(name=overlay.GRAMMAR, read=overlay.read_overlay, is_companion=True),
}


@dataclass(frozen=True, slots=True)
class _Read:
    """A file that was read, and what its schema says about it where nothing else does."""

    content: Document | Overlay
    grammar: Grammar
    schema_problems: tuple[tuple[Location, str], ...]


def load_dialect(folder: Path, *, problems: Problems | None = None) -> Dialect:
    """The model of the dialect whose definition files (``*.xml``) lie in ``folder``, which gives it its name.

    Messages and model name a file by folder and file name (``amqp_1_0/types.xml``), wherever the folder
    lies. Raises SpecErrors with every problem of every file, in file and line order; they are added to
    ``problems`` too when it is given, for a caller that collects them over several dialects.
    """
    found = Problems()
    dialect = _load(folder, folder.resolve().name, found)
    if problems is not None:
        for problem in found.sorted():
            problems.add(problem.at, problem.message)
    found.raise_if_any()
    return dialect


def load_dialects(folders: Iterable[Path]) -> tuple[Dialect, ...]:
    """The models of several dialects, sorted by name. Raises SpecErrors once, with all their problems."""
    problems = Problems()
    dialects: list[Dialect] = []
    for folder in folders:
        try:
            dialects.append(load_dialect(folder, problems=problems))
        except SpecErrors:
            continue  # reported below, with the problems of the others
    problems.raise_if_any()
    return tuple(sorted(dialects, key=lambda dialect: dialect.name))


def read_document(path: Path, file: str, problems: Problems) -> Document | None:
    """The raw document of one definition file; ``file`` is its name in messages.

    None when it cannot be read, and for an overlay, which is no document of its own.
    """
    read = _read(path, file, problems)
    return read.content if read is not None and isinstance(read.content, Document) else None


def _load(folder: Path, name: str, problems: Problems) -> Dialect:
    place = Location(name, 1)
    if not split_words(name) or not name.replace("-", "_").isidentifier():
        problems.add(place, f"the folder name {name!r} cannot name a dialect")
    paths = sorted(path for path in folder.glob("*.xml") if path.is_file())
    if not paths:
        problems.add(place, "holds no definition files (*.xml)")
    reads = [read for path in paths if (read := _read(path, f"{name}/{path.name}", problems)) is not None]
    grammar = _grammar(reads, problems)
    problems.is_partial = len(reads) < len(paths)
    documents = apply_overlays(
        [read.content for read in reads if isinstance(read.content, Document)],
        [read.content for read in reads if isinstance(read.content, Overlay)],
        problems,
    )
    check_documents(documents, problems)
    dialect = resolve(name, grammar, documents, problems)
    check_dialect(dialect, problems)
    for read in reads:
        # The schema's own words name neither the cause nor the cure, so they are only the last resort.
        if not problems.has_file(read.content.at.file):
            for at, message in read.schema_problems:
                problems.add(at, message)
    return dialect


def _read(path: Path, file: str, problems: Problems) -> _Read | None:
    data = read_octets(path, file, problems)
    parsed = parse(data, file, problems) if data is not None else None
    if parsed is None:
        return None
    root, source = parsed
    grammar = GRAMMARS.get(str(root.tag))
    if grammar is None:
        near = suggestion(str(root.tag), GRAMMARS)
        source.complain(root, f"root element {str(root.tag)!r} belongs to no known grammar{near}")
        return None
    return _Read(grammar.read(root, source), grammar, _schema_problems(root, grammar, source))


def _schema_problems(
    root: etree._Element, grammar: Grammar, source: Source
) -> tuple[tuple[Location, str], ...]:
    validator = etree.RelaxNG(etree.parse(schema(grammar.name)))
    if validator.validate(root.getroottree()):
        return ()
    return tuple(
        (Location(source.file, max(entry.line, 1)), f"against the schema {grammar.name}.rng: {entry.message}")
        for entry in validator.error_log
    )


def _grammar(reads: list[_Read], problems: Problems) -> str:
    """The one grammar of a dialect; machines may accompany any."""
    main = [read for read in reads if not read.grammar.is_companion]
    for read in main[1:]:
        if read.grammar is not main[0].grammar:
            problems.add(
                read.content.at,
                f"written in the grammar {read.grammar.name!r}, but {main[0].content.at.file} "
                f"in {main[0].grammar.name!r}; a dialect has one",
            )
    return main[0].grammar.name if main else (reads[0].grammar.name if reads else "")
