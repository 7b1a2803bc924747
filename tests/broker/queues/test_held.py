"""Entries that are held, against a dictionary; and what their order costs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqpforge.broker.message import Message
from amqpforge.broker.queues.entry import Entry
from amqpforge.broker.queues.held import Held
from amqpforge.broker.queues.stock import Stock
from tests.broker.queues.peers import FORM
from tests.broker.queues.test_work import calls

KEYS = st.integers(1, 60)
STEPS = st.lists(st.tuples(st.sampled_from(["add", "remove", "look"]), KEYS), max_size=200)


def an_entry() -> Entry:
    return Entry(Message(FORM, b""))


ONE = an_entry()


@settings(max_examples=300)
@given(steps=STEPS, patience=st.sampled_from([0, 1, 5, 1000]))
def test_it_does_what_a_sorted_dictionary_does(steps: list[tuple[str, int]], patience: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("amqpforge.broker.queues.held._PATIENCE", patience)
        held, plain = Held(), dict[int, Entry]()
        for step, key in steps:
            if step == "look":
                above = min((one for one in plain if one > key), default=None)
                assert held.after(key) == (None if above is None else (above, plain[above]))
            elif step == "add" and key not in plain:
                plain[key] = an_entry()
                held.add(key, plain[key])
            elif step == "remove" and key in plain:
                del plain[key]
                held.remove(key)
            elif step == "remove":
                with pytest.raises(KeyError):
                    held.remove(key)
            assert len(held) == len(plain)
            assert (key in held) is (key in plain)
        assert list(held.clear()) == [plain[key] for key in sorted(plain)]
        assert not held
        assert held.after(0) is None


def test_who_looks_while_others_come_and_go_costs_little() -> None:
    def look(count: int) -> None:
        for key in range(1, 2000, 2):
            held.add(count + key, ONE)
            held.after(key)
            held.remove(key)

    taken = []
    for count in (2000, 20_000):
        held = Held()
        for key in range(1, count + 1):
            held.add(key, ONE)
        held.after(0)
        taken.append(calls(lambda count=count: look(count)))  # type: ignore[misc]
    assert taken[1] < 1.2 * taken[0]


def test_the_order_is_kept_no_longer_than_it_is_looked_at() -> None:
    def change() -> None:
        for key in range(1, 101):
            held.add(key, ONE)
        for key in range(1, 101):
            held.remove(key)

    held = Held()
    before = calls(change)
    held.add(1000, ONE)
    assert held.after(0) == (1000, ONE)
    assert calls(change) > before
    for _ in range(10):
        change()
    assert calls(change) == before
    assert held.after(0) == (1000, ONE)


def test_queues_with_as_many_levels_share_their_ranks() -> None:
    one, other = Stock(10), Stock(10)
    assert one._bases is other._bases
    assert Stock(1)._bases is not one._bases
