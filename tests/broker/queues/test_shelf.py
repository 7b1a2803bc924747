"""Sorted entries, against a dictionary."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqpforge.broker.message import Message
from amqpforge.broker.queues.entry import Entry
from amqpforge.broker.queues.shelf import Shelf
from tests.broker.queues.peers import FORM


def an_entry() -> Entry:
    return Entry(Message(FORM, b""))


ONE = an_entry()
KEYS = st.integers(1, 60)


@settings(max_examples=300)
@given(steps=st.lists(st.tuples(st.booleans(), KEYS), max_size=200), size=st.sampled_from([1, 2, 3, 512]))
def test_it_does_what_a_sorted_dictionary_does(steps: list[tuple[bool, int]], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("amqpforge.broker.queues.shelf._BOARD", size)
        shelf, plain = Shelf(), dict[int, Entry]()
        for adds, key in steps:
            if adds and key not in plain:
                plain[key] = an_entry()
                shelf.add(key, plain[key])
            elif not adds and key in plain:
                del plain[key]
                shelf.remove(key)
            elif not adds:
                with pytest.raises(KeyError):
                    shelf.remove(key)
        order = sorted(plain)
        assert len(shelf) == len(plain)
        assert shelf.first() is (plain[order[0]] if plain else None)
        for key in range(62):
            assert shelf.get(key) is plain.get(key)
            above = next((one for one in order if one > key), None)
            assert shelf.after(key) == (None if above is None else (above, plain[above]))
        assert list(shelf.clear()) == [plain[key] for key in order]
        assert not shelf
        assert shelf.after(0) is None


@pytest.mark.parametrize("count", [0, 1, 511, 512, 513, 5000])
def test_many_at_once(count: int) -> None:
    shelf = Shelf()
    shelf.extend(range(1, count + 1), [ONE] * count)
    assert len(shelf) == count
    seen, key = 0, 0
    while (found := shelf.after(key)) is not None:
        seen, key = seen + 1, found[0]
    assert (seen, key) == (count, count)
    shelf.add(count + 1, ONE)
    assert count + 1 in shelf
