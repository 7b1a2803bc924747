"""The targets that ship with amqpforge: one folder each, holding templates and a ``target.toml``."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent


def target_folder(name: str) -> Path:
    """The folder of the target ``name``; it exists only for the names that ``target_names`` lists."""
    return ROOT / name


def target_names() -> tuple[str, ...]:
    """The names of all targets, sorted."""
    return tuple(sorted(entry.parent.name for entry in ROOT.glob("*/target.toml")))
