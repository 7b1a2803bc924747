"""The work that routing takes does not grow with bindings that cannot match: steps are counted, not timed."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from amqpforge.broker.exchanges import Chain, Step, Wiring
from tests.broker.exchanges.hosts import QueueName, bound, host, message

FEW, MORE, MANY = 10, 10_000, 100_000


def steps(work: Callable[[], object]) -> int:
    """How many instructions of the interpreter some work takes."""
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return note

    before = sys.gettrace()
    gc.disable()  # Collecting would call functions that have nothing to do with the work.
    sys.settrace(note)
    try:
        work()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def test_steps_are_counted() -> None:
    def work(count: int) -> None:
        for _ in range(count):
            pass

    assert steps(lambda: work(1000)) - steps(lambda: work(0)) >= 1000


def of_route(wiring: Wiring[QueueName], exchange: str, key: str = "", **headers: object) -> int:
    sent = message(exchange, key, headers)
    assert [queue.name for queue in wiring.route(sent)] == ["q"]
    return steps(lambda: wiring.route(sent))


@pytest.mark.parametrize("pattern", ["a.{}", "{}.a.b", "#.{}.#", "*.{}", "a.b.{}.#"])
def test_topics_that_cannot_match(pattern: str) -> None:
    wiring = host("q")
    bound(wiring, "amq.topic", "q", "a.b")
    counts: list[int] = []
    first = 0
    for last in (FEW, MORE):
        for number in range(first, last):
            bound(wiring, "amq.topic", "q", pattern.format(f"w{number}"))
        first = last
        counts.append(of_route(wiring, "amq.topic", "a.b"))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("kind", "most"), [("topic", MANY), ("all", MANY), ("any", MORE), ("exists", MORE), ("mixed", MORE)]
)
def test_conditions_that_cannot_match(kind: str, most: int) -> None:
    wiring = host("q")
    exchange = "amq.topic" if kind == "topic" else "amq.headers"
    bound(wiring, exchange, "q", "a.b", a=1)
    counts: list[int] = []
    first = 0
    for last in (FEW, most):
        for number in range(first, last):
            conditions: dict[str, dict[str, Any]] = {
                "topic": {},
                "all": {"type": "order", "id": number},
                "any": {"x_match": "any", "id": number, "other": number},
                "exists": {f"name{number}": None},
                "mixed": {"id": -number - 2, "type": None, "a": 1},
            }
            bound(wiring, exchange, "q", f"a.w{number}.#", **conditions[kind])
        first = last
        counts.append(of_route(wiring, exchange, "a.b", a=1, type="order", id=-1))
    assert counts[0] == counts[1]


def test_equal_conditions_are_looked_at_once() -> None:
    def of(queues: int) -> int:
        wiring = host("q", *map(str, range(queues)))
        bound(wiring, "amq.headers", "q", "", c=1)
        for number in range(queues):
            bound(wiring, "amq.headers", str(number), "", a=1, b=1)
        return of_route(wiring, "amq.headers", "", a=1, b=2, c=1)

    assert of(10) == of(1000)


def test_the_work_of_the_default_exchange_does_not_depend_on_queues() -> None:
    few, many = (host("q", *map(str, range(count))) for count in (FEW, MANY))
    assert of_route(few, "", "q") == of_route(many, "", "q")


def test_patterns_of_many_wildcards_take_few_steps() -> None:
    """At most places of the tree times words of the key, each a few instructions; not all ways to fit."""
    words = 127
    wiring = host("q")
    bound(wiring, "amq.topic", "q", ".".join(["#", "a"] * 63))
    bound(wiring, "amq.topic", "q", ".".join(["#", "*"] * 63))
    bound(wiring, "amq.topic", "q", ".".join(["#"] * 127))
    places = 63 * 4 + 1
    sent = message("amq.topic", ".".join(["a"] * words))
    assert steps(lambda: wiring.route(sent)) < places * words * 120
    sent = message("amq.topic", ".".join(["a"] * 62 + ["b"] * 65))
    assert steps(lambda: wiring.route(sent)) < places * words * 120


def test_what_is_unbound_costs_nothing_any_more() -> None:
    asked: dict[str, Any] = {"x_match": "any", "a": 1}
    for exchange, arguments in (("amq.topic", {}), ("amq.headers", asked)):
        wiring = host("q")
        kept = {"b": 1} if arguments else {}
        bound(wiring, exchange, "q", "#.z", **kept)
        before = of_route(wiring, exchange, "x.y.z", a=1, b=1)
        for pattern in ("#.*.#.y", "*.y.#", "x.#.*", "x"):
            wiring.unbind(bound(wiring, exchange, "q", pattern, **arguments))
        assert of_route(wiring, exchange, "x.y.z", a=1, b=1) == before


@pytest.mark.parametrize(
    "arguments", [{}, {"a": None}, {"x_match": "any", "a": 1, "b": 2}, {"id": None}], ids=str
)
@pytest.mark.parametrize("exchange", ["amq.direct", "amq.fanout", "amq.headers", "amq.topic"])
def test_what_is_unbound_leaves_nothing_behind(exchange: str, arguments: dict[str, Any]) -> None:
    wiring = host("q")
    rounds = 200

    def bind_and_unbind(number: int) -> None:
        named = {f"id{number}" if name == "id" else name: value for name, value in arguments.items()}
        wiring.unbind(bound(wiring, exchange, "q", f"a.{number}.*.#.b", **named))

    bind_and_unbind(0)
    gc.collect()
    before = sys.getallocatedblocks()
    for number in range(rounds):
        bind_and_unbind(number)
    gc.collect()
    assert sys.getallocatedblocks() - before < rounds / 2


def test_queues_that_are_removed_leave_nothing_behind() -> None:
    wiring = host(x="headers")
    rounds = 200

    def add_and_remove(number: int) -> None:
        name = f"queue {number}"
        wiring.add_queue(QueueName(name))
        bound(wiring, "amq.topic", name, f"a.{number}")
        wiring.bind_chain(Chain(name, [Step("x", arguments={"a": number}), Step("amq.topic", "#")]))
        wiring.remove_queue(name)

    add_and_remove(0)
    gc.collect()
    before = sys.getallocatedblocks()
    for number in range(1, rounds):
        add_and_remove(number)
    gc.collect()
    assert sys.getallocatedblocks() - before < rounds / 2
