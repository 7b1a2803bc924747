"""The standard types of exchanges: which keys and headers meet which conditions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqpforge.broker.errors import InvalidArgument
from amqpforge.broker.exchanges import Binding, Destination
from amqpforge_protocol.amqp_1_0 import Symbol, Timestamp, UByte
from tests.broker.exchanges.hosts import bound, host, message, routed
from tests.broker.exchanges.model import fits, meets

# ---- direct and fanout ----


@pytest.mark.spec("A-EXCH-009")
def test_direct_takes_the_same_key_alone() -> None:
    wiring = host("q", direct="direct")
    bound(wiring, "direct", "q", "k")
    assert [key for key in ("k", "K", "k.x", "", "#") if routed(wiring, "direct", key)] == ["k"]


def test_fanout_takes_all() -> None:
    wiring = host("q", "r", all="fanout")
    bound(wiring, "all", "r", "a", x=1)
    bound(wiring, "all", "q", "b")
    bound(wiring, "all", "r", "c")
    assert routed(wiring, "all", "any") == ["r", "q"]


# ---- topic ----


@pytest.mark.spec("A-EXCH-010")
def test_topic_takes_one_word_for_a_star() -> None:
    wiring = host("q")
    bound(wiring, "amq.topic", "q", "STOCK.USD.*")
    keys = ["STOCK.USD.NYSE", "STOCK.EUR.X", "STOCK.USD", "STOCK.USD.NYSE.X", "stock.usd.nyse"]
    assert [key for key in keys if routed(wiring, "amq.topic", key)] == ["STOCK.USD.NYSE"]


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("#", ["", "a", "a.b", "..", "#"], []),
        ("*", ["a", "*", "#"], ["", "a.b"]),
        ("", [""], ["a", "."]),
        ("a.#", ["a", "a.b", "a.b.c", "a."], ["", "ab", "b.a"]),
        ("#.a", ["a", "b.a", "a.a", ".a"], ["", "a.b"]),
        ("#.a.#", ["a", "b.a.c", "a.a.a"], ["", "b"]),
        ("*.#", ["a", "a.b"], [""]),
        ("#.#", ["", "a", "a.b"], []),
        ("a.*.c", ["a.b.c", "a..c"], ["a.c", "a.b.b.c"]),
        ("a*", ["a*"], ["ab", "a.b"]),
    ],
)
def test_topic_patterns(pattern: str, fitting: list[str], others: list[str]) -> None:
    wiring = host("q")
    bound(wiring, "amq.topic", "q", pattern)
    assert [key for key in fitting + others if routed(wiring, "amq.topic", key)] == fitting


WORDS = st.sampled_from(["a", "b", "", "*", "#"])
PATTERNS = st.lists(WORDS, max_size=5).map(".".join)


@given(st.lists(PATTERNS, max_size=12, unique=True), st.data())
@settings(max_examples=200)
def test_topic_agrees_with_the_definition(patterns: list[str], data: st.DataObject) -> None:
    wiring = host(*[f"q{pattern}" for pattern in patterns])
    bindings = {pattern: bound(wiring, "amq.topic", f"q{pattern}", pattern) for pattern in patterns}
    for gone in data.draw(st.sets(st.sampled_from(patterns)) if patterns else st.just(set())):
        wiring.unbind(bindings.pop(gone))
    for key in data.draw(st.lists(PATTERNS, max_size=5)):
        assert sorted(routed(wiring, "amq.topic", key)) == sorted(
            f"q{pattern}" for pattern in bindings if fits(pattern, key)
        )


def test_a_topic_exchange_refuses_a_key_that_is_too_long() -> None:
    wiring = host("q")
    bound(wiring, "amq.topic", "q", "#")
    assert routed(wiring, "amq.topic", "." * 255) == ["q"]
    with pytest.raises(InvalidArgument, match="255"):
        routed(wiring, "amq.topic", "." * 256)
    with pytest.raises(InvalidArgument, match="255"):
        wiring.bind(Binding("amq.topic", Destination.queue("q"), "#." * 128))
    assert wiring.exchanges["amq.topic"].refused == 1


# ---- headers ----


@pytest.mark.parametrize(
    ("arguments", "headers", "is_met"),
    [
        ({}, {}, True),
        ({"x-match": "all"}, {"a": 1}, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
        ({"x-match": "any", "a": 1, "b": 2}, {"a": 1}, True),
        ({"x-match": Symbol("any"), "a": 1, "b": 2}, {"a": 2, "b": 2}, True),
        ({"x-match": "any", "a": 1, "b": 2}, {"a": 2}, False),
        ({"a": None}, {"a": 5}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {"a": [[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]}, True),
        ({"a": None}, {}, False),
        ({"a": 5}, {"a": None}, False),
        ({"x-match": "any", "a": None, "b": 1}, {"a": False}, True),
        ({"a": 1, "x-other": 2}, {"a": 1}, True),
        ({"x-match": "any", "x-other": 2}, {"x-other": 2}, False),
        ({"x-match": "all-with-x", "a": 1, "x-other": 2}, {"a": 1}, False),
        ({"x-match": "all-with-x", "a": 1, "x-other": 2}, {"a": 1, "x-other": 2}, True),
        ({"x-match": "any-with-x", "a": 1, "x-other": 2}, {"x-other": 2}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": UByte(1)}, {"a": 1.0}, True),
        ({"a": "x"}, {"a": Symbol("x")}, True),
        ({"a": "x"}, {"a": b"x"}, False),
        ({"a": 1}, {"a": Timestamp(1)}, False),
        ({"a": 1}, {"A": 1}, False),
    ],
    ids=str,
)
def test_headers(arguments: dict[str, Any], headers: dict[str, Any], is_met: bool) -> None:
    wiring = host("q")
    binding = Binding("amq.headers", Destination.queue("q"), "not looked at", arguments)
    wiring.bind(binding)
    assert routed(wiring, "amq.headers", "", headers) == ["q"] * is_met
    assert meets(arguments, headers) == is_met
    assert wiring.unbind(binding).bindings == [binding]
    assert routed(wiring, "amq.headers", "", headers) == []


@pytest.mark.parametrize("mode", ["some", "", None, True, 1, b"all"])
def test_headers_refuse_another_way_of_matching(mode: object) -> None:
    wiring = host("q")
    with pytest.raises(InvalidArgument, match="x-match is one of all, any"):
        wiring.bind(Binding("amq.match", Destination.queue("q"), "", {"x-match": mode}))
    assert not wiring.exchanges["amq.match"].bindings


HEADERS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "x-a"]), st.sampled_from([None, 1, True, 2, "s"]), max_size=4
)
CONDITIONS = st.tuples(HEADERS, st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"])).map(
    lambda drawn: drawn[0] if drawn[1] is None else {**drawn[0], "x-match": drawn[1]}
)


@given(st.lists(CONDITIONS, max_size=12), st.data())
@settings(max_examples=200)
def test_headers_agree_with_the_definition(conditions: list[dict[str, Any]], data: st.DataObject) -> None:
    wiring = host(*map(str, range(len(conditions))))
    bindings = [
        bound(wiring, "amq.headers", str(number), **condition) for number, condition in enumerate(conditions)
    ]
    gone = data.draw(st.sets(st.sampled_from(bindings)) if bindings else st.just(set()))
    for binding in gone:
        wiring.unbind(binding)
    for headers in data.draw(st.lists(HEADERS, max_size=5)):
        assert sorted(routed(wiring, "amq.headers", "", headers)) == sorted(
            binding.destination.name
            for binding in bindings
            if binding not in gone and meets(binding.arguments, headers)
        )


def test_headers_need_the_payload() -> None:
    on_disk = message("amq.headers")
    on_disk.payload = None
    with pytest.raises(ValueError, match="read first"):
        host().route(on_disk)
