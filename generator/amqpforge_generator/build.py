"""One run: find out what is stale, render and format just that, and say what has to change.

The first half (`survey`) needs the standard library only and ends the run when nothing is stale; parser,
template engine and formatter are imported by the second half (`forge`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from amqpforge_generator.freshness import (
    ONCE,
    Digests,
    Manifest,
    Unit,
    files_around,
    find_dialects,
    is_intact,
    read_manifest,
    sha256,
    unit_digests,
)
from amqpforge_generator.target import Target, TargetErrors, load_target
from amqpforge_generator.write import Changes, compare, header_mark

if TYPE_CHECKING:
    from amqpforge_generator.render import Rendered


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to render: ``dialects`` empty means all of those in ``spec``; all paths are absolute.

    ``is_forced``: what is up to date counts as stale too.
    """

    spec: Path
    schemas: Path
    targets: tuple[Path, ...]
    out: Path
    dialects: tuple[str, ...] = ()
    is_forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one target has to do: ``stale`` are the units to render again, ``selected`` all of this run."""

    target: Target
    root: Path
    folders: Mapping[str, Path]
    selected: tuple[str, ...]
    is_whole: bool
    inputs: Mapping[str, str]
    manifest: Manifest
    stale: tuple[str, ...]

    @property
    def mark(self) -> str:
        """The words by which the outputs of this target are known."""
        return header_mark(self.target.name)


def survey(request: Request) -> list[Plan]:
    """Compare the inputs with what the manifests remember.

    Raises TargetErrors for a bad target, an unknown dialect, or a place without definitions.
    """
    folders = find_dialects(request.spec)
    if not folders:
        raise TargetErrors(
            f"{request.spec}: holds no definitions: neither *.xml files nor folders with such files"
        )
    for name in request.dialects:
        if name not in folders:
            close = get_close_matches(name, folders, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(folders)}"
            raise TargetErrors(f"{request.spec}: there is no dialect {name!r}{hint}")
    selected = (ONCE, *(name for name in folders if not request.dialects or name in request.dialects))
    digests = Digests()
    plans: list[Plan] = []
    for folder in request.targets:
        target = load_target(folder)
        root = request.out / target.output
        manifest = read_manifest(root, target.name)
        inputs = unit_digests(digests, target, folders, request.schemas, _formatter(target))
        stale = tuple(
            unit
            for unit in selected
            if request.is_forced or not _is_fresh(root, manifest.units.get(unit), inputs[unit])
        )
        plans.append(
            Plan(
                target=target,
                root=root,
                folders=folders,
                selected=selected,
                is_whole=len(selected) == len(folders) + 1,
                inputs=inputs,
                manifest=manifest,
                stale=stale,
            )
        )
    return plans


def _formatter(target: Target) -> str:
    """Name and version of the formatter, so that a change of version makes its outputs stale."""
    tool = target.format.tool
    if tool == "prettier":  # no package of Python: the target says which version it is
        return " ".join((tool, *target.format.versions))
    try:
        return tool if tool == "none" else f"{tool} {version(tool)}"
    except PackageNotFoundError:
        return f"{tool} absent"


def _is_fresh(root: Path, unit: Unit | None, inputs: str) -> bool:
    return unit is not None and unit.inputs == inputs and is_intact(root, unit.files)


def forge(plans: Sequence[Plan], processes: int = 0) -> list[Changes]:
    """Render and format what is stale, and return what has to change for each plan. Writes nothing.

    Raises SpecErrors for bad definitions and TargetErrors for all that went wrong later, both complete.
    """
    texts = _formatted(plans, processes) if any(plan.stale for plan in plans) else [{} for _ in plans]
    results: list[Changes] = []
    problems: list[str] = []
    for plan, units in zip(plans, texts, strict=True):
        try:
            results.append(_changes(plan, units))
        except TargetErrors as error:
            problems += error.problems
    if problems:
        raise TargetErrors(*problems)
    return results


def outputs(plans: Sequence[Plan]) -> list[list[str]]:
    """The paths of all outputs of the selected units of each plan, sorted; renders those that are stale."""
    rendered = _render(plans) if any(plan.stale for plan in plans) else [{} for _ in plans]
    result: list[list[str]] = []
    for plan, units in zip(plans, rendered, strict=True):
        fresh = [
            path for unit in plan.selected if unit not in units for path in plan.manifest.units[unit].files
        ]
        result.append(sorted([*fresh, *(item.path for items in units.values() for item in items)]))
    return result


def _render(
    plans: Sequence[Plan], take: Callable[[Plan, list[Rendered]], None] | None = None
) -> list[dict[str, list[Rendered]]]:
    """For each plan, the texts of its stale units; a dialect is loaded once for all targets.

    ``take`` is given the texts of a plan as soon as they are rendered, unit by unit.
    """
    from amqpforge_generator.load import load_dialects
    from amqpforge_generator.render import Compiled, render_dialect, render_once

    stale = {name: plan.folders[name] for plan in plans for name in plan.stale if name != ONCE}
    dialects = {dialect.name: dialect for dialect in load_dialects(stale.values())}
    results: list[dict[str, list[Rendered]]] = []
    problems: list[str] = []
    compiled = Compiled()
    for plan in plans:
        units: dict[str, list[Rendered]] = {}
        for unit in plan.stale:
            try:
                if unit == ONCE:
                    units[unit] = render_once(plan.target, tuple(plan.folders), compiled)
                else:
                    units[unit] = render_dialect(plan.target, dialects[unit], compiled)
            except TargetErrors as error:
                problems += error.problems
            else:
                if take is not None:
                    take(plan, units[unit])
        problems += _collisions(plan, units)
        results.append(units)
    if problems:
        raise TargetErrors(*problems)
    return results


def _collisions(plan: Plan, units: Mapping[str, list[Rendered]]) -> Iterator[str]:
    """Outputs that would overwrite each other, also where file names do not tell upper from lower case."""
    makers: dict[str, str] = {plan.manifest.file_name: "the manifest"}
    for unit, known in _kept(plan, units).items():
        makers |= {path.casefold(): f"what is made for {unit or plan.target.name}" for path in known.files}
    for items in units.values():
        for item in items:
            if item.path.casefold() in makers:
                other = makers[item.path.casefold()]
                yield f"{plan.target.folder}: {other} and {item.origin} both make {item.path}"
            makers[item.path.casefold()] = item.origin


def _kept(plan: Plan, renewed: Mapping[str, object]) -> dict[str, Unit]:
    """The units of the manifest that stay as they are; a whole run drops those of dialects that are gone."""
    units = plan.manifest.units
    return {
        name: unit
        for name, unit in units.items()
        if name not in renewed and (name in plan.selected or not plan.is_whole)
    }


def _formatted(plans: Sequence[Plan], processes: int) -> list[dict[str, dict[str, bytes]]]:
    """Render what is stale, and format it meanwhile; contents by plan, unit and path."""
    from amqpforge_generator.format import Formatter, Job

    with Formatter(processes) as formatter:

        def take(plan: Plan, items: list[Rendered]) -> None:
            target = plan.target
            formatter.add(
                [
                    Job(
                        f"{target.folder / item.origin}: its output {item.path}",
                        item.text,
                        target.line_length,
                        target.format.versions,
                        target.format.tool,
                        Path(item.path).suffix,
                    )
                    for item in items
                    if _is_formatted(target, item)
                ]
            )

        rendered = _render(plans, take)
        texts = iter(formatter.finish())
    return [
        {
            unit: {
                item.path: (next(texts) if _is_formatted(plan.target, item) else item.text).encode()
                for item in items
            }
            for unit, items in units.items()
        }
        for plan, units in zip(plans, rendered, strict=True)
    ]


def _is_formatted(target: Target, item: Rendered) -> bool:
    return target.format.tool != "none" and item.path.endswith(target.format.suffixes)


def _changes(plan: Plan, units: Mapping[str, Mapping[str, bytes]]) -> Changes:
    """What separates the output root from the new contents of ``units`` and the files that stay."""
    kept = _kept(plan, units)
    new = {
        name: Unit(inputs=plan.inputs[name], files={path: sha256(data) for path, data in contents.items()})
        for name, contents in units.items()
    }
    manifest = Manifest(plan.target.name, {**kept, **new})
    expected = manifest.files
    contents = {path: data for files in units.values() for path, data in sorted(files.items())}
    if units or set(plan.manifest.units) != set(kept):
        contents[manifest.file_name] = manifest.encode()
    before = {
        path
        for unit in plan.selected
        if unit in plan.manifest.units
        for path in plan.manifest.units[unit].files
    }
    around = (
        files_around(plan.root, {*expected, *plan.manifest.files}, plan.target.foreign)
        if plan.is_whole
        else ()
    )
    gone = plan.manifest.files if plan.is_whole else before
    leftovers = sorted({*around, *(path for path in gone if path not in expected)})
    return compare(plan.root, contents, leftovers, mark=plan.mark, own=manifest.file_name)
