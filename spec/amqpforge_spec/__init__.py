"""Protocol definitions as data: where the XML of each dialect lies, and the schemas it follows.

Each dialect is a folder of definition files with a ``PROVENANCE.toml`` that says where their facts come from.
The package only answers with paths; reading the files is the generator's business.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["DIALECTS", "SCHEMAS", "dialect_folder", "schema"]

_ROOT = Path(__file__).resolve().parent
_SCHEMA_FOLDER = _ROOT / "schemas"

#: Names of the dialects that are defined here, sorted; a dialect is a folder that holds definition files.
DIALECTS: tuple[str, ...] = tuple(sorted({file.parent.name for file in _ROOT.glob("*/*.xml")}))

#: Names of the grammars that have a RELAX NG schema here, sorted.
SCHEMAS: tuple[str, ...] = tuple(sorted(file.stem for file in _SCHEMA_FOLDER.glob("*.rng")))


def dialect_folder(name: str) -> Path:
    """Return the folder of the dialect ``name``, such as ``amqp_1_0``.

    Raises ValueError, naming the dialects there are, when it is none of `DIALECTS`.
    """
    if name not in DIALECTS:
        raise ValueError(f"no dialect is called {name!r}; there are: {', '.join(DIALECTS) or 'none'}")
    return _ROOT / name


def schema(name: str) -> Path:
    """Return the RELAX NG schema (XML syntax) of the grammar ``name``, such as ``amqp-1.0``.

    Raises ValueError, naming the schemas there are, when it is none of `SCHEMAS`.
    """
    if name not in SCHEMAS:
        raise ValueError(f"no schema is called {name!r}; there are: {', '.join(SCHEMAS) or 'none'}")
    return _SCHEMA_FOLDER / f"{name}.rng"
