"""Resolution of state machines: rows of names become a total table, every gap and contradiction a problem."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from amqpforge_generator.document import Doc, Location, RawMachine, RawTransition
from amqpforge_generator.errors import Problems, suggestion
from amqpforge_generator.model import Cell, Event, Guard, Machine, Name, State, Type
from amqpforge_generator.names import make_name

#: The archetype whose providers, where there are any, define the conditions that a row may name.
ERROR_CONDITION = "error-condition"

_ALL = ("*",)


class _Described(Protocol):
    """A raw state, event or guard."""

    @property
    def at(self) -> Location: ...
    @property
    def name(self) -> str: ...
    @property
    def doc(self) -> Doc: ...


_Raw = TypeVar("_Raw", bound=_Described)
_Named = TypeVar("_Named", State, Event, Guard)


def error_conditions(types: Collection[Type]) -> frozenset[str]:
    """What may be reported as a peer's error, in the words of a row.

    The symbols that a type lists which provides ``error-condition``; in a dialect without such a type, the
    numbers that a domain lists, told as ``domain:choice`` (``close-code:framing-error``).
    """
    providers = [type_ for type_ in types if ERROR_CONDITION in type_.provides]
    if not providers:
        return frozenset(
            f"{type_.name.xml}:{choice.name.xml}"
            for type_ in types
            for choice in type_.choices
            if isinstance(choice.value, int)
        )
    return frozenset(
        choice.value for type_ in providers for choice in type_.choices if isinstance(choice.value, str)
    )


def resolve_machines(
    raws: Sequence[RawMachine], conditions: Collection[str], problems: Problems
) -> tuple[Machine, ...]:
    """The machines whose tables are complete, in document order; what is wrong with the others is a problem.

    ``conditions`` are the error conditions of the dialect (see `error_conditions`).
    """
    list(_named("machine", raws, problems))
    machines = (_resolve(raw, conditions, problems) for raw in raws)
    return tuple(machine for machine in machines if machine is not None)


def _resolve(raw: RawMachine, conditions: Collection[str], problems: Problems) -> Machine | None:
    table = _Table(
        raw=raw,
        states={
            item.name: State(name=name, index=index, doc=item.doc)
            for index, (item, name) in enumerate(_named("state", raw.states, problems))
        },
        events={
            item.name: Event(name=name, index=index, direction=item.direction, doc=item.doc)
            for index, (item, name) in enumerate(_named("event", raw.events, problems))
        },
        guards={
            item.name: Guard(name=name, doc=item.doc) for item, name in _named("guard", raw.guards, problems)
        },
        conditions=conditions,
        problems=problems,
    )
    initial = table.find("state", raw.initial, table.states, raw.at)
    is_whole = table.fill()
    table.check_use()
    if initial is not None and is_whole:
        table.check_totality()
        table.check_reach(initial)
    rows = table.rows()
    if initial is None or rows is None:
        return None
    return Machine(
        name=make_name(raw.name, "machine", raw.at, problems),
        at=raw.at,
        doc=raw.doc,
        initial=initial,
        states=tuple(table.states.values()),
        events=tuple(table.events.values()),
        guards=tuple(table.guards.values()),
        rows=rows,
    )


def _named(what: str, items: Iterable[_Raw], problems: Problems) -> Iterator[tuple[_Raw, Name]]:
    """The items with their names, but for those that no language could tell from an earlier one."""
    seen: dict[tuple[str, ...], _Described] = {}
    for item in items:
        name = make_name(item.name, what, item.at, problems)
        if not name.words:
            continue
        first = seen.setdefault(name.words, item)
        if first is not item:
            problems.add(item.at, f"{what} {item.name!r} has the name of {what} {first.name!r} at {first.at}")
            continue
        yield item, name


@dataclass(kw_only=True)
class _Table:
    """A machine while its rows are laid out; names of states, events and guards lead to what they name."""

    raw: RawMachine
    states: dict[str, State]
    events: dict[str, Event]
    guards: dict[str, Guard]
    conditions: Collection[str]
    problems: Problems
    cells: dict[tuple[int, int], Cell] = field(default_factory=dict)

    def fill(self) -> bool:
        """Lay out the rows: those that name their pairs first, then the defaults on what is left.

        False when a row names something unknown; gaps are not worth reporting then.
        """
        rows = [(row, self._pairs(row), self._result(row)) for row in self.raw.transitions]
        for row, pairs, cell in rows:
            if row.default is None and pairs is not None and cell is not None:
                self._lay(row, pairs, cell)
        given = frozenset(self.cells)
        for row, pairs, cell in rows:
            if row.default is None or pairs is None or cell is None:
                continue
            left = [(state, event) for state, event in pairs if (state.index, event.index) not in given]
            self._lay(row, left, cell)
            if not left:
                self.problems.add(row.at, "this default covers nothing: other rows give every pair of it")
        return all(pairs is not None and cell is not None for _, pairs, cell in rows)

    def _pairs(self, row: RawTransition) -> list[tuple[State, Event]] | None:
        states = self._each("state", row.states, self.states, row.at)
        events = self._each("event", row.events, self.events, row.at)
        if states is None or events is None:
            return None
        return [(state, event) for state in states for event in events]

    def _lay(self, row: RawTransition, pairs: Iterable[tuple[State, Event]], result: Cell) -> None:
        for state, event in pairs:
            cell = replace(result, target=state) if row.result == "stay" else result
            first = self.cells.setdefault((state.index, event.index), cell)
            if first is not cell:
                pair = f"state {state.name.xml!r} on {event.name.xml!r}"
                self.problems.add(row.at, f"{pair} is answered already at {first.at}")

    def _result(self, row: RawTransition) -> Cell | None:
        """The cell of a row, without a target when the row stays; None when something in it is unknown."""
        target = None if row.target is None else self.find("state", row.target, self.states, row.at)
        guards = self._each("guard", row.guards, self.guards, row.at)
        if row.condition is not None and row.condition not in self.conditions:
            near = suggestion(row.condition, self.conditions)
            message = f"error condition {row.condition!r} is not defined by any type"
            self.problems.add_unknown(row.at, message, near)
        if guards is None or not row.result or (row.target is not None and target is None):
            return None
        return Cell(
            result="next" if row.result == "stay" else row.result,
            target=target,
            condition=row.condition,
            guards=guards,
            reason=row.reason,
            at=row.at,
        )

    def _each(
        self, what: str, names: tuple[str, ...], known: dict[str, _Named], at: Location
    ) -> tuple[_Named, ...] | None:
        """What the names of a list name, all of it for ``*``; None when one is unknown or there twice."""
        if names == _ALL:
            return tuple(known.values())
        found = [self.find(what, name, known, at) for name in names]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.problems.add(at, f"{what} {name!r} is listed twice")
            return None
        complete = tuple(item for item in found if item is not None)
        return complete if len(complete) == len(found) else None

    def find(self, what: str, name: str, known: dict[str, _Named], at: Location) -> _Named | None:
        """What a name names, or None and a problem."""
        if name not in known:
            self.problems.add(
                at, f"machine {self.raw.name!r} has no {what} {name!r}{suggestion(name, known)}"
            )
        return known.get(name)

    def check_use(self) -> None:
        """Report events and guards that no row names."""
        events = {name for row in self.raw.transitions for name in row.events}
        guards = {name for row in self.raw.transitions for name in row.guards}
        for event in self.raw.events:
            if event.name not in events:
                self.problems.add(event.at, f"event {event.name!r} is named by no transition")
        for guard in self.raw.guards:
            if guard.name not in guards:
                self.problems.add(guard.at, f"guard {guard.name!r} is named by no transition")

    def check_totality(self) -> None:
        """Report the pairs that no row answers, in one message a state."""
        for raw in self.raw.states:
            state = self.states.get(raw.name)
            if state is None:
                continue
            pairs = ((name, (state.index, event.index)) for name, event in self.events.items())
            gaps = [repr(name) for name, pair in pairs if pair not in self.cells]
            if gaps:
                self.problems.add(raw.at, f"state {raw.name!r} gives no answer to {', '.join(gaps)}")

    def check_reach(self, initial: State) -> None:
        """Report the states to which no sequence of events leads."""
        reached = self._reached(initial)
        for raw in self.raw.states:
            state = self.states.get(raw.name)
            if state is not None and state.index not in reached:
                self.problems.add(raw.at, f"state {raw.name!r} cannot be reached from {self.raw.initial!r}")

    def _reached(self, initial: State) -> set[int]:
        """The indices of the states that some sequence of events leads to."""
        reached = {initial.index}
        waiting = [initial.index]
        while waiting:
            here = waiting.pop()
            for (state, _), cell in self.cells.items():
                if state == here and cell.target is not None and cell.target.index not in reached:
                    reached.add(cell.target.index)
                    waiting.append(cell.target.index)
        return reached

    def rows(self) -> tuple[tuple[Cell, ...], ...] | None:
        """The whole table by state and event, or None while a pair has no answer."""
        if len(self.cells) != len(self.states) * len(self.events):
            return None
        return tuple(
            tuple(self.cells[state.index, event.index] for event in self.events.values())
            for state in self.states.values()
        )
