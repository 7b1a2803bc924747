"""The public API as text: every public name of the packages that people import, with its signature.

    python -m tests.public_api        writes the snapshot anew

The snapshot is what a change of the API shows up in: a name that goes, or a signature that takes less than it
did, is a breaking change (see the head of ``CHANGELOG.md``).
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import NewType

MODULES = (
    "amqpforge",
    "amqpforge.blocking",
    "amqpforge.broker",
    "amqpforge.testing",
    "amqpforge_protocol.amqp_0_10_preview",
    "amqpforge_protocol.amqp_0_9_1",
    "amqpforge_protocol.amqp_1_0",
    "amqpforge_protocol.amqp_1_0_draft",
)
FOLDER = Path(__file__).resolve().parent / "data" / "public_api"

_PLAIN = (bool, int, float, str, bytes)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class _Bare(str):
    """An annotation that is written as it stands, without the quotes of a string."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def snapshot_file(module: str) -> Path:
    """Where the snapshot of one module lies."""
    return FOLDER / f"{module}.txt"


def describe(module: ModuleType) -> str:
    """Return one line for each name in ``__all__``, and indented lines for the members of classes."""
    lines: list[str] = []
    for name in sorted(module.__all__):
        lines += _describe(name, getattr(module, name))
    return "\n".join(lines) + "\n"


def _describe(name: str, value: object) -> Iterator[str]:
    if isinstance(value, ModuleType):
        yield f"module {name}"
    elif isinstance(value, type):
        yield from _describe_class(name, value)
    elif isinstance(value, NewType):
        yield f"{name} = NewType({value.__supertype__.__name__})"
    elif callable(value) and isinstance(inspect.unwrap(value), FunctionType):
        yield f"def {name}{signature(value)}"
    elif isinstance(value, enum.Enum) or not isinstance(value, _PLAIN):
        yield f"{name}: {type(value).__name__}"
    else:
        yield f"{name}: {type(value).__name__} = {value!r}"


def _describe_class(name: str, cls: type) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in cls.__bases__ if base is not object)
    yield f"class {name}({bases})" if bases else f"class {name}"
    if issubclass(cls, enum.Enum):
        yield from (f"    {member.name} = {member.value!r}" for member in cls)
    else:
        for maker in ("__new__", "__init__"):
            function = getattr(cls, maker)
            if isinstance(function, FunctionType):
                yield f"    {maker}{signature(function)}"
    yield from (f"    {line}" for line in _describe_members(cls))


def _describe_members(cls: type) -> Iterator[str]:
    own = cls.__module__.partition(".")[0]
    members = {
        name: value
        for base in reversed(cls.__mro__)
        if base.__module__.partition(".")[0] == own
        for name, value in vars(base).items()
        if not name.startswith("_")
    }
    for name in sorted(members):
        value = members[name]
        if isinstance(value, property):
            yield f"property {name}"
        elif isinstance(value, classmethod | staticmethod):
            yield f"{type(value).__name__} {name}{signature(value.__func__)}"
        elif isinstance(value, FunctionType):
            yield f"def {name}{signature(value)}"


def signature(function: object) -> str:
    """Return parameters and result as the source has them; addresses of default objects are left out."""
    assert callable(function)
    found = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=_bare(parameter.annotation)) for parameter in found.parameters.values()
    ]
    text = str(found.replace(parameters=parameters, return_annotation=_bare(found.return_annotation)))
    return _ADDRESS.sub("", text)


def _bare(annotation: object) -> object:
    return _Bare(annotation) if isinstance(annotation, str) else annotation


def write() -> list[Path]:
    """Write the snapshot of each module; returns the files that changed."""
    FOLDER.mkdir(exist_ok=True)
    changed = []
    for name in MODULES:
        text, file = describe(importlib.import_module(name)), snapshot_file(name)
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            changed.append(file)
    return changed


if __name__ == "__main__":
    sys.stdout.writelines(f"wrote {file}\n" for file in write())
