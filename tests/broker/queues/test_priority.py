"""Levels of priority (AMQP 1.0, section 3.2.1)."""

from __future__ import annotations

from math import ceil, floor

import pytest

from amqpforge.broker.queues import ACCEPTED, level
from tests.broker.queues.peers import Taker, a_queue, put


@pytest.mark.spec("M-HEADER-008", "M-HEADER-009")
@pytest.mark.parametrize("levels", range(1, 10))
def test_few_levels_lie_around_the_middle(levels: int) -> None:
    lowest, highest = 5 - ceil(levels / 2), 4 + floor(levels / 2)
    table = [level(priority, levels) for priority in range(256)]
    assert set(table[: lowest + 1]) == {0}
    assert set(table[highest:]) == {levels - 1}
    assert table[lowest : highest + 1] == list(range(levels))


@pytest.mark.spec("M-HEADER-010")
@pytest.mark.parametrize("levels", [10, 11, 200, 256])
def test_many_levels_count_from_zero(levels: int) -> None:
    assert [level(priority, levels) for priority in range(256)] == [
        min(priority, levels - 1) for priority in range(256)
    ]


@pytest.mark.spec("M-HEADER-011")
def test_the_worked_cases() -> None:
    assert [level(priority, 2) for priority in (*range(10), 200)] == [0] * 5 + [1] * 6
    assert [level(priority, 3) for priority in (*range(10), 200)] == [0] * 4 + [1] + [2] * 6


@pytest.mark.spec("M-HEADER-012")
def test_more_levels_never_merge_priorities() -> None:
    for fewer in range(1, 20):
        apart = [one for one in range(255) if level(one, fewer) != level(one + 1, fewer)]
        for more in range(fewer + 1, 21):
            assert all(level(one, more) < level(one + 1, more) for one in apart)


@pytest.mark.parametrize(("priority", "levels"), [(-1, 4), (256, 4), (4, 0), (4, 257)])
def test_what_is_out_of_range(priority: int, levels: int) -> None:
    with pytest.raises(ValueError, match="priority"):
        level(priority, levels)


@pytest.mark.spec("M-HEADER-007")
def test_the_higher_level_goes_first_and_within_it_the_earlier_message() -> None:
    queue = a_queue(priority_levels=3)
    for number, priority in enumerate([1, 9, 4, 5, 0, 4], 1):
        put(queue, number, priority=priority)
    taker = Taker(queue)
    assert taker.got == [2, 4, 3, 6, 1, 5]
    taker.flow(0)
    for _ in range(6):
        taker.settle(ACCEPTED)
    put(queue, 7, priority=0)
    put(queue, 8, priority=200)
    taker.flow(2)
    assert taker.got[6:] == [8, 7]


def test_a_queue_without_levels_keeps_the_order_of_arrival() -> None:
    queue = a_queue()
    for number, priority in enumerate([1, 9, 4, 255, 0], 1):
        put(queue, number, priority=priority)
    assert Taker(queue).got == [1, 2, 3, 4, 5]
