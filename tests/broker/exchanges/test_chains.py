"""Chained bindings: conditions of several exchanges that a message has to meet together."""

from __future__ import annotations

import random

import pytest

from amqpforge.broker.errors import AccessRefused, BrokerError, InvalidArgument, NotAllowed, NotFound
from amqpforge.broker.exchanges import Binding, Chain, Destination, Step, Wiring
from amqpforge.broker.settings import ExchangeSettings
from tests.broker.exchanges.hosts import QueueName, bound, host, message, routed

TOPIC = Step("amq.topic", "STOCK.USD.*")
PDF = Step("content", arguments={"content-type": "application/x-pdf"})
OTHER_DIRECT = Step("direct", "STOCK.USD.IBM")


def a_host() -> Wiring[QueueName]:
    return host("q", "r", content="headers", direct="direct")


def declared(wiring: Wiring[QueueName]) -> set[str]:
    return {name for name, exchange in wiring.exchanges.items() if exchange.part_of is None}


@pytest.mark.spec("A-BIND-009")
def test_only_what_meets_all_conditions_arrives() -> None:
    wiring = a_host()
    assert wiring.bind_chain(Chain("q", [TOPIC, PDF]))
    pdf, text = {"content-type": "application/x-pdf"}, {"content-type": "text/plain"}
    assert routed(wiring, "amq.topic", "STOCK.USD.IBM", pdf) == ["q"]
    assert routed(wiring, "amq.topic", "STOCK.USD.IBM", text) == []
    assert routed(wiring, "amq.topic", "STOCK.EUR.IBM", pdf) == []
    assert routed(wiring, "content", "STOCK.USD.IBM", pdf) == []


@pytest.mark.spec("A-BIND-010")
def test_one_condition_is_made_of_several_plain_ones() -> None:
    wiring = a_host()
    wiring.bind_chain(Chain("q", [TOPIC, PDF]))
    bound(wiring, "amq.topic", "r", "STOCK.USD.* AND content-type=application/x-pdf")
    pdf = {"content-type": "application/x-pdf"}
    assert routed(wiring, "amq.topic", "STOCK.USD.IBM", pdf) == ["q"]
    with pytest.raises(InvalidArgument, match="x-match"):
        wiring.bind(Binding("content", Destination.queue("r"), "", {"x-match": "a OR b"}))


@pytest.mark.spec("A-BIND-011")
def test_the_order_of_steps_makes_no_difference() -> None:
    steps = [TOPIC, PDF, OTHER_DIRECT]
    orders = [steps, steps[::-1], [PDF, TOPIC, OTHER_DIRECT]]
    results: list[list[int]] = []
    for order in orders:
        wiring = a_host()
        wiring.bind_chain(Chain("q", order))
        chosen = random.Random(7)
        sent = [
            (
                chosen.choice(["STOCK.USD.IBM", "STOCK.USD.X", "STOCK.EUR.IBM"]),
                {"content-type": chosen.choice(["application/x-pdf", "text/plain"])},
            )
            for _ in range(100)
        ]
        root = order[0].exchange
        results.append([number for number, (key, held) in enumerate(sent) if routed(wiring, root, key, held)])
    assert results[0] == results[1] == results[2]
    assert 0 < len(results[0]) < 100


def test_other_bindings_of_the_exchanges_are_not_touched() -> None:
    wiring = a_host()
    bound(wiring, "content", "r")
    chain = Chain("q", [TOPIC, PDF])
    wiring.bind_chain(chain)
    pdf = {"content-type": "application/x-pdf"}
    assert routed(wiring, "amq.topic", "STOCK.USD.IBM", pdf) == ["q"]
    assert routed(wiring, "content", "", pdf) == ["r"]
    assert wiring.exchanges["content"].incoming == 1
    assert wiring.unbind_chain(chain).chains == [chain]
    assert routed(wiring, "amq.topic", "STOCK.USD.IBM", pdf) == []
    assert routed(wiring, "content", "", pdf) == ["r"]


def test_the_parts_of_a_chain_are_listed_and_go_with_it() -> None:
    wiring = a_host()
    before = set(wiring.exchanges)
    chain = Chain("q", [TOPIC, PDF, OTHER_DIRECT])
    assert wiring.bind_chain(chain)
    assert not wiring.bind_chain(Chain("q", [TOPIC, PDF, OTHER_DIRECT]))
    parts = [wiring.exchanges[name] for name in wiring.exchanges if name not in before]
    assert [(part.settings.type, part.settings.internal, part.part_of) for part in parts] == [
        ("headers", True, chain),
        ("direct", True, chain),
    ]
    assert wiring.chains == {chain: (wiring.exchanges["amq.topic"], *parts)}
    removed = wiring.unbind_chain(Chain("q", list(chain.steps)))
    assert removed.chains[0] is chain
    assert (removed.exchanges, removed.bindings) == ([], [])
    assert set(wiring.exchanges) == before
    assert not wiring.unbind_chain(chain)
    assert not wiring.exchanges["amq.topic"].is_used
    assert not wiring.exchanges["direct"].is_used


def test_the_parts_of_a_chain_are_its_own() -> None:
    wiring = a_host()
    wiring.bind_chain(Chain("q", [TOPIC, PDF]))
    (name,) = set(wiring.exchanges) - declared(wiring)
    (link,) = wiring.exchanges["amq.topic"].bindings
    for refused in (
        lambda: wiring.bind(Binding(name, Destination.queue("r"))),
        lambda: wiring.bind(Binding("direct", Destination.exchange(name))),
        lambda: wiring.unbind(link),
        lambda: wiring.delete(name),
        lambda: wiring.bind_chain(Chain("r", [TOPIC, Step(name)])),
    ):
        with pytest.raises(NotAllowed, match="part of"):
            refused()
    with pytest.raises(AccessRefused, match="internal"):
        wiring.route(message(name))
    assert routed(wiring, "amq.topic", "STOCK.USD.IBM", dict(PDF.arguments)) == ["q"]


@pytest.mark.parametrize("gone", ["q", "content", "source"])
def test_a_chain_goes_with_what_it_needs(gone: str) -> None:
    wiring = a_host()
    wiring.declare("source", ExchangeSettings(type="topic"))
    chain = Chain("q", [Step("source", "#"), PDF])
    wiring.bind_chain(chain)
    removed = wiring.remove_queue(gone) if gone == "q" else wiring.delete(gone)
    assert removed.chains == [chain]
    assert removed.bindings == []
    assert not wiring.chains
    assert set(wiring.exchanges) == declared(wiring)


def test_an_exchange_with_a_condition_of_a_chain_is_used() -> None:
    wiring = host("q")
    for name in ("first", "second"):
        wiring.declare(name, ExchangeSettings(type="topic", auto_delete=True))
    chain = Chain("q", [Step("first", "#"), Step("second", "#")])
    other = Chain("q", [Step("first", "a"), Step("first", "#.a")])
    wiring.bind_chain(chain)
    wiring.bind_chain(other)
    for name in ("first", "second"):
        with pytest.raises(BrokerError, match="used"):
            wiring.delete(name, if_unused=True)
    assert routed(wiring, "first", "a") == ["q"]
    assert [exchange.name for exchange in wiring.unbind_chain(chain).exchanges] == ["second"]
    assert [exchange.name for exchange in wiring.unbind_chain(other).exchanges] == ["first"]


@pytest.mark.parametrize(
    ("queue", "steps", "error"),
    [
        ("none", [TOPIC, PDF], NotFound),
        ("q", [TOPIC, Step("none")], NotFound),
        ("q", [Step("none"), TOPIC], NotFound),
        ("q", [Step("", "q"), TOPIC], NotAllowed),
        ("q", [TOPIC, Step("", "q")], NotAllowed),
        ("q", [TOPIC, Step("content", arguments={"x-match": 1})], InvalidArgument),
        ("q", [Step("amq.topic", "k" * 256), PDF], InvalidArgument),
    ],
    ids=["queue", "inner", "first", "from default", "in default", "headers", "key"],
)
def test_what_cannot_be_chained(queue: str, steps: list[Step], error: type[BrokerError]) -> None:
    wiring = a_host()
    before = list(wiring.exchanges)
    with pytest.raises(error):
        wiring.bind_chain(Chain(queue, steps))
    assert list(wiring.exchanges) == before
    assert not any(exchange.is_used for name, exchange in wiring.exchanges.items() if name)


@pytest.mark.parametrize("count", [0, 1, 17])
def test_chains_are_bounded(count: int) -> None:
    with pytest.raises(InvalidArgument, match=f"not {count}"):
        Chain("q", [TOPIC] * count)
