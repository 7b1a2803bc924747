"""Any program of declarations, bindings and removals, beside a model in which every binding is looked at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from amqpforge.broker.errors import BrokerError, NotAllowed, NotFound, PreconditionFailed
from amqpforge.broker.exchanges import Binding, Chain, Destination, Removed, Step
from amqpforge.broker.settings import ExchangeSettings
from tests.broker.exchanges.hosts import QueueName, host, routed
from tests.broker.exchanges.model import Model

TYPES = {
    "": "direct",
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.headers": "headers",
    "amq.match": "headers",
    "amq.topic": "topic",
}
EXCHANGES = st.sampled_from(["x", "y", "z", "amq.topic", "amq.headers"])
QUEUES = st.sampled_from(["a", "b", "a.b", "*"])
KEYS = st.sampled_from(["", "a", "b", "a.b", "a.a.b", "*", "#", "a.*", "#.b", "*.#", "#.a.#"])
ARGUMENTS = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from([None, 1, True, "s"]), max_size=2)
CONDITIONS = st.builds(
    lambda pairs, mode: {**pairs, "x-match": mode} if mode else pairs,
    ARGUMENTS,
    st.sampled_from([None, "all", "any"]),
)
DESTINATIONS = st.one_of(QUEUES.map(Destination.queue), EXCHANGES.map(Destination.exchange))
BINDINGS = st.builds(Binding, EXCHANGES, DESTINATIONS, KEYS, CONDITIONS)
CHAINS = st.builds(
    Chain, QUEUES, st.lists(st.builds(Step, EXCHANGES, KEYS, CONDITIONS), min_size=2, max_size=3)
)
PICKS = st.integers(0, 20)


class Programs(RuleBasedStateMachine):
    """A wiring and a model, which have to agree."""

    def __init__(self) -> None:
        super().__init__()
        self.wiring = host()
        self.model = Model(dict(TYPES))

    @rule(name=EXCHANGES, type_=st.sampled_from(sorted(set(TYPES.values()))), auto_delete=st.booleans())
    def declare(self, name: str, type_: str, auto_delete: bool) -> None:
        asked = ExchangeSettings(type=type_, durable=name in TYPES, auto_delete=auto_delete)
        known = self.model.types.get(name)
        if known not in (None, type_) or (known and auto_delete != (name in self.model.auto_delete)):
            with pytest.raises(PreconditionFailed):
                self.wiring.declare(name, asked)
            return
        self.wiring.declare(name, asked)
        self.model.types[name] = type_
        if auto_delete:
            self.model.auto_delete.add(name)

    @rule(name=EXCHANGES, if_unused=st.booleans())
    def delete(self, name: str, if_unused: bool) -> None:
        problem: type[BrokerError] | None = None
        if name not in self.model.types:
            problem = NotFound
        elif name in TYPES:
            problem = NotAllowed
        elif if_unused and self.model.is_used(name):
            problem = PreconditionFailed
        if problem is not None:
            with pytest.raises(problem):
                self.wiring.delete(name, if_unused=if_unused)
            return
        before = self.before()
        removed = self.wiring.delete(name, if_unused=if_unused)
        used = self.model.used()
        self.model.drop(name)
        self.model.prune(used - {name})
        self.account(before, removed)

    @rule(name=QUEUES)
    def add_queue(self, name: str) -> None:
        if name in self.model.queues:
            with pytest.raises(PreconditionFailed):
                self.wiring.add_queue(QueueName(name))
        else:
            self.wiring.add_queue(QueueName(name))
            self.model.queues.add(name)

    @rule(name=QUEUES)
    def remove_queue(self, name: str) -> None:
        if name not in self.model.queues:
            with pytest.raises(NotFound):
                self.wiring.remove_queue(name)
            return
        before, used = self.before(), self.model.used()
        removed = self.wiring.remove_queue(name)
        self.model.remove_queue(name)
        self.model.prune(used)
        self.account(before, removed)

    @rule(binding=BINDINGS)
    def bind(self, binding: Binding) -> None:
        if not self.is_there(binding.destination) or binding.source not in self.model.types:
            with pytest.raises(NotFound):
                self.wiring.bind(binding)
            return
        assert self.wiring.bind(binding) == (binding not in self.model.bindings)
        if binding not in self.model.bindings:
            self.model.bindings.append(binding)

    @rule(pick=PICKS)
    def unbind(self, pick: int) -> None:
        if not self.model.bindings:
            return
        binding = self.model.bindings[pick % len(self.model.bindings)]
        before, used = self.before(), self.model.used()
        removed = self.wiring.unbind(Binding.from_data(binding.to_data()))
        self.model.bindings.remove(binding)
        self.model.prune(used)
        self.account(before, removed)

    @rule(chain=CHAINS)
    def bind_chain(self, chain: Chain) -> None:
        names = [step.exchange for step in chain.steps]
        if chain.queue not in self.model.queues or not self.model.types.keys() >= set(names):
            with pytest.raises(NotFound):
                self.wiring.bind_chain(chain)
            return
        assert self.wiring.bind_chain(chain) == (chain not in self.model.chains)
        if chain not in self.model.chains:
            self.model.chains.append(chain)

    @rule(pick=PICKS)
    def unbind_chain(self, pick: int) -> None:
        if not self.model.chains:
            return
        chain = self.model.chains[pick % len(self.model.chains)]
        before, used = self.before(), self.model.used()
        removed = self.wiring.unbind_chain(Chain.from_data(chain.to_data()))
        self.model.chains.remove(chain)
        self.model.prune(used)
        self.account(before, removed)

    @rule(exchange=EXCHANGES | st.just(""), key=KEYS, headers=ARGUMENTS)
    def publish(self, exchange: str, key: str, headers: dict[str, Any]) -> None:
        if exchange not in self.model.types:
            with pytest.raises(NotFound):
                routed(self.wiring, exchange, key, headers)
            return
        queues = routed(self.wiring, exchange, key, headers)
        assert sorted(queues) == sorted(self.model.route(exchange, key, headers))
        assert queues == routed(self.wiring, exchange, key, headers)

    @invariant()
    def what_there_is_agrees(self) -> None:
        exchanges = self.wiring.exchanges.values()
        declared = [exchange for exchange in exchanges if exchange.part_of is None]
        assert {exchange.name: exchange.settings.type for exchange in declared} == self.model.types
        assert set(self.wiring.chains) == set(self.model.chains)
        assert len(exchanges) - len(declared) == sum(len(chain.steps) - 1 for chain in self.model.chains)
        assert self.plain() == set(self.model.bindings)
        assert set(self.wiring.queues) == self.model.queues
        for exchange in declared:
            assert not exchange.name or exchange.is_used == self.model.is_used(exchange.name)

    def is_there(self, destination: Destination) -> bool:
        held: Iterable[str] = self.model.types
        if destination.kind.value == "queue":
            held = self.model.queues
        return destination.name in held

    def plain(self) -> set[Binding]:
        """The bindings that were bound one by one."""
        names = [*self.model.types, *self.model.queues]
        kinds = (Destination.queue, Destination.exchange)
        return {
            binding for name in names for kind in kinds for binding in self.wiring.bindings_to(kind(name))
        }

    def before(self) -> tuple[set[str], list[Binding], list[Chain]]:
        return set(self.model.types), list(self.model.bindings), list(self.model.chains)

    def account(self, before: tuple[set[str], list[Binding], list[Chain]], removed: Removed) -> None:
        """All that is gone was reported, each thing once."""
        exchanges, bindings, chains = before
        gone = [exchange.name for exchange in removed.exchanges]
        assert sorted(gone) == sorted(exchanges - self.model.types.keys())
        assert len(removed.bindings) == len(bindings) - len(self.model.bindings)
        assert set(removed.bindings) == set(bindings) - set(self.model.bindings)
        assert len(removed.chains) == len(chains) - len(self.model.chains)
        assert set(removed.chains) == set(chains) - set(self.model.chains)


def run(examples: int, length: int, *, derandomize: bool) -> None:
    run_state_machine_as_test(
        Programs,
        settings=settings(
            max_examples=examples,
            stateful_step_count=length,
            deadline=None,
            derandomize=derandomize,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )


def test_any_program() -> None:
    run(150, 40, derandomize=True)


@pytest.mark.slow
def test_any_program_for_long() -> None:
    run(4000, 60, derandomize=False)
