"""The public API is what the snapshot says: no name goes, and no signature changes, unnoticed."""

from __future__ import annotations

import difflib
import importlib
from enum import Enum
from types import ModuleType

import pytest

from tests import public_api

REFRESH = "if the change is meant, write it into CHANGELOG.md and refresh the snapshot with: make api"


@pytest.mark.parametrize("name", public_api.MODULES)
def test_the_api_is_the_snapshot(name: str) -> None:
    now = public_api.describe(importlib.import_module(name)).splitlines()
    file = public_api.snapshot_file(name)
    then = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    changes = "\n".join(difflib.unified_diff(then, now, "snapshot", name, lineterm="", n=0))
    assert not changes, f"the public API has changed; {REFRESH}\n{changes}"


@pytest.mark.parametrize("name", public_api.MODULES)
def test_every_name_is_there_once(name: str) -> None:
    module = importlib.import_module(name)
    assert len(module.__all__) == len(set(module.__all__)) > 0
    assert not [public for public in module.__all__ if not hasattr(module, public)]


class Colour(Enum):
    RED = 1


class Base:
    def shared(self, times: int = 1) -> str:
        return "x" * times


class Thing(Base):
    def __init__(self, size: int, *, colour: Colour = Colour.RED, extra: object = Base) -> None:
        self.size = size

    @property
    def area(self) -> int:
        return self.size**2

    @classmethod
    def make(cls) -> Thing:
        return cls(1)

    def _hidden(self) -> None: ...


def measure(thing: Thing | None, /, *rest: bytes) -> dict[str, int]:
    return {"": len(rest)}


def test_what_a_line_says() -> None:
    module = ModuleType("sample")
    module.__dict__.update(Thing=Thing, Colour=Colour, measure=measure, PORT=5672, LIMITS=Base())
    module.__dict__["__all__"] = ["measure", "Thing", "PORT", "LIMITS", "Colour"]
    assert public_api.describe(module).splitlines() == [
        "class Colour(Enum)",
        "    RED = 1",
        "LIMITS: Base",
        "PORT: int = 5672",
        "class Thing(Base)",
        "    __init__(self, size: int, *, colour: Colour = <Colour.RED: 1>, "
        "extra: object = <class 'tests.test_public_api.Base'>) -> None",
        "    property area",
        "    classmethod make(cls) -> Thing",
        "    def shared(self, times: int = 1) -> str",
        "def measure(thing: Thing | None, /, *rest: bytes) -> dict[str, int]",
    ]
