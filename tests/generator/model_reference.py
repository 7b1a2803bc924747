"""The part of ``docs/templates.md`` that says what a template sees, made from the model's own docstrings.

Run as ``python -m tests.generator.model_reference`` to write it anew.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from amqpforge_generator import document, model

PAGE = Path(__file__).resolve().parents[2] / "docs" / "templates.md"
BEGIN = "<!-- begin: model (written by python -m tests.generator.model_reference) -->"
END = "<!-- end: model -->"

ORDER = (
    *(model.Dialect, model.Module, model.Section, model.Type, model.Field, model.Choice, model.Encoding),
    *(model.Layout, model.Restriction, model.Descriptor, model.Archetype, model.Definition),
    *(model.Enumeration, model.Class, model.Method, model.Failure, model.Rule, model.Chassis),
    *(model.Assertion, model.Machine, model.State, model.Event, model.Cell, model.Guard),
    *(model.FormatRange, model.Name, document.Doc, document.Location),
)
"""Every class of objects that a template can get hold of, from the whole to its parts."""


def reference() -> str:
    """The section, without its marks."""
    return "\n".join(line for kind in ORDER for line in _object(kind))


def missing() -> set[str]:
    """Classes of the model that the section leaves out."""
    known = {name for name, kind in vars(model).items() if dataclasses.is_dataclass(kind)}
    return known - {kind.__name__ for kind in ORDER} - {"Digest"}


def _object(kind: type) -> Iterator[str]:
    yield f"### {kind.__name__}"
    yield ""
    yield _prose(inspect.getdoc(kind) or "")
    yield ""
    yield "| attribute | holds |"
    yield "| --- | --- |"
    for name, held in _attributes(kind):
        yield f"| `{name}` | {held} |"
    yield ""


def _attributes(kind: type) -> Iterator[tuple[str, str]]:
    for field in dataclasses.fields(kind):
        yield field.name, f"`{field.type}`".replace("|", "\\|")
    for name, member in vars(kind).items():
        getter = member.func if isinstance(member, cached_property) else getattr(member, "fget", None)
        if getter is not None:
            held = str(getter.__annotations__["return"]).replace("|", "\\|")
            said = " ".join((inspect.getdoc(getter) or "").split())
            yield name, f"`{held}`" + (f": {_prose(said)}" if said else "")


def _prose(text: str) -> str:
    return re.sub(r"``([^`]*)``", r"`\1`", re.sub(r"(?<!`)`([^`]+)`(?!`)", r"`\1`", text))


def page(text: str) -> str:
    """The page with the section put between its marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{reference()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
