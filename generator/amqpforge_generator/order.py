"""The order of the definition files of a dialect: what is referred to comes first.

Only references to types count, because archetypes cross files in circles (a transfer requires a delivery
state, which messaging provides, which refers to types of the transport). Where references leave a choice,
the file with the lowest descriptor code comes first (the published parts are numbered in their order), a
file without descriptors before those with some, one that holds only machines last, and then the file name
decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from amqpforge_generator.document import Document, RawField, RawType

_LAST = 1 << 65


def order_documents(documents: Sequence[Document]) -> tuple[Document, ...]:
    """The documents, each after those whose types it refers to; a circle is cut at its first file by rank."""
    home: dict[str, str] = {}
    for document in documents:
        for raw in types_of(document):
            home.setdefault(raw.name, document.at.file)
    needs = {
        document.at.file: {home[name] for name in _references(document) if name in home} - {document.at.file}
        for document in documents
    }
    waiting = sorted(documents, key=_rank)
    ordered: list[Document] = []
    done: set[str] = set()
    while waiting:
        ready = (index for index, document in enumerate(waiting) if needs[document.at.file] <= done)
        chosen = waiting.pop(next(ready, 0))
        done.add(chosen.at.file)
        ordered.append(chosen)
    return tuple(ordered)


def types_of(document: Document) -> Iterator[RawType]:
    """Every type of a document in document order, those of classes and the results of methods included."""
    for section in document.sections:
        yield from section.types
        for class_ in section.classes:
            yield from (method.result for method in class_.methods if method.result is not None)


def _references(document: Document) -> Iterator[str]:
    for raw in types_of(document):
        if raw.source is not None:
            yield raw.source
        yield from _field_types((*raw.fields, *raw.entries))
    for section in document.sections:
        for class_ in section.classes:
            yield from _field_types(class_.fields)
            for method in class_.methods:
                yield from _field_types(method.fields)
                yield from filter(None, (method.header, class_.header))


def _field_types(fields: Iterable[RawField]) -> Iterator[str]:
    return (field.type for field in fields)


def _rank(document: Document) -> tuple[int, str]:
    types = tuple(types_of(document))
    if not types and any(section.machines for section in document.sections):
        return _LAST, document.at.file
    codes = [raw.descriptor.code for raw in types if raw.descriptor and raw.descriptor.code]
    return min((_number(code) for code in codes), default=-1), document.at.file


def _number(code: str) -> int:
    """A descriptor code for sorting only; a malformed one, which is reported elsewhere, sorts late."""
    try:
        domain, _, number = code.partition(":")
        return (int(domain, 16) << 32) | int(number, 16)
    except ValueError:
        return _LAST - 1
