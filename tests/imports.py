"""Which modules a source file imports, found without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module: its absolute dotted name, the line, and whether importing the file imports it too.

    ``deferred`` is true inside a function, whose import happens at use, and under ``if TYPE_CHECKING``,
    where none happens.
    """

    module: str
    line: int
    deferred: bool

    @property
    def top(self) -> str:
        """The first part of the dotted name."""
        return self.module.partition(".")[0]


def imports_of(source: str, module: str, *, is_package: bool = False) -> list[Import]:
    """Return the imports of a module's source, statements and calls with a literal name alike.

    Relative names are resolved against ``module``, the dotted name of the source, which is a package's
    ``__init__`` if ``is_package``. A ``from`` import yields the module and each ``module.name``, since
    the name may be a module.
    """
    package = module if is_package else module.rpartition(".")[0]
    return list(_walk(ast.parse(source), package, deferred=False))


def imports_in(root: Path, package: str) -> Iterator[tuple[Path, Import]]:
    """Yield the imports of every source file of ``package`` under ``root``, in the order of the paths."""
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        for found in imports_of(path.read_text(encoding="utf-8"), name, is_package=is_package):
            yield path, found


def _walk(node: ast.AST, package: str, *, deferred: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        later = deferred or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(child, ast.stmt | ast.expr):
            for name in _names(child, package):
                yield Import(name, child.lineno, later)
        if isinstance(child, ast.If) and _is_type_checking(child.test):
            for statement in child.body:
                yield from _walk(ast.Module([statement], []), package, deferred=True)
            for statement in child.orelse:
                yield from _walk(ast.Module([statement], []), package, deferred=later)
        else:
            yield from _walk(child, package, deferred=later)


def _names(node: ast.AST, package: str) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = _absolute(node.module or "", node.level, package)
        return [base, *(f"{base}.{alias.name}" for alias in node.names if alias.name != "*")]
    if isinstance(node, ast.Call) and _is_import_call(node.func) and node.args:
        name = node.args[0]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            level = len(name.value) - len(name.value.lstrip("."))
            return [_absolute(name.value.lstrip("."), level, package)]
    return []


def _absolute(name: str, level: int, package: str) -> str:
    if not level:
        return name
    parts = package.split(".")
    base = parts[: len(parts) - level + 1]
    return ".".join([*base, name] if name else base)


def _is_import_call(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute):
        return function.attr == "import_module"
    return isinstance(function, ast.Name) and function.id in ("__import__", "import_module")


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return name == "TYPE_CHECKING"
