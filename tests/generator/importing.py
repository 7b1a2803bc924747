"""Imports from text, for the tests of the import command."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqpforge_generator.errors import SpecErrors
from amqpforge_generator.importer import ImportResult, import_definitions


class Reader:
    """Imports text, or octets, from a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self, source: str | bytes) -> ImportResult:
        self.file.write_bytes(source if isinstance(source, bytes) else source.encode())
        return import_definitions(self.file)

    def fails(self, source: str | bytes) -> list[str]:
        """The problems of a source, with the folder left out of the file's name."""
        with pytest.raises(SpecErrors) as caught:
            self(source)
        return [str(problem).replace(self.file.as_posix(), "source.txt") for problem in caught.value.problems]


def lines(result: ImportResult) -> list[str]:
    """The remarks of an import as they print."""
    return [str(remark) for remark in result.remarks]
