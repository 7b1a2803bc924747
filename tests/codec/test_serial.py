"""Serial numbers of 32 bits (RFC 1982): what transfer-number, delivery-number and sequence-no count with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpforge_protocol.amqp_1_0 import SerialNumber

HALF = 1 << 31
LAST = (1 << 32) - 1
numbers = st.integers(0, LAST).map(SerialNumber)


@pytest.mark.spec("T-WIN-025")
def test_zero_follows_the_last_number() -> None:
    assert SerialNumber(LAST) + 1 == 0
    assert SerialNumber(LAST) < SerialNumber(0)
    assert SerialNumber(0) > SerialNumber(LAST)
    assert SerialNumber(LAST) + 5 == 4
    assert SerialNumber(2) - SerialNumber(LAST) == 3
    assert SerialNumber(LAST) - SerialNumber(2) == -3
    assert sorted(map(SerialNumber, (1, LAST, 0, LAST - 1))) == [LAST - 1, LAST, 0, 1]


@pytest.mark.spec("T-WIN-025")
@pytest.mark.parametrize("start", [0, 1, HALF - 1, HALF, HALF + 1, LAST])
def test_the_shorter_way_round_decides(start: int) -> None:
    number = SerialNumber(start)
    for steps in (1, 2, HALF - 1):
        later = number + steps
        assert number < later
        assert number <= later
        assert later > number
        assert later >= number
        assert not later < number
        assert not later <= number
        assert (later - number, number - later) == (steps, -steps)


@pytest.mark.spec("T-WIN-025")
@pytest.mark.parametrize("start", [0, 1, HALF, LAST])
def test_opposite_numbers_are_not_comparable(start: int) -> None:
    number = SerialNumber(start)
    opposite = SerialNumber((start + HALF) % (LAST + 1))
    assert not number < opposite
    assert not number > opposite
    assert not number <= opposite
    assert not number >= opposite
    assert number != opposite
    with pytest.raises(ValueError, match="neither is ahead"):
        _ = number - opposite


@pytest.mark.parametrize("steps", [-1, HALF, LAST])
def test_more_steps_than_half_the_circle_cannot_be_taken(steps: int) -> None:
    with pytest.raises(ValueError, match="steps on"):
        _ = SerialNumber(0) + steps


@pytest.mark.parametrize("value", [-1, LAST + 1])
def test_a_number_has_32_bits(value: int) -> None:
    with pytest.raises(ValueError, match="SerialNumber holds 0 to 4294967295"):
        SerialNumber(value)
    with pytest.raises(ValueError, match="SerialNumber holds"):
        _ = value - SerialNumber(0)


def test_a_serial_number_is_an_int() -> None:
    number = SerialNumber(7)
    assert number == 7
    assert hash(number) == hash(7)
    assert number <= 7 <= number
    assert {7: "seven"}[number] == "seven"
    assert (repr(number), str(number), f"{number}") == ("SerialNumber(7)", "7", "7")
    assert type(number + 1) is type(1 + number) is SerialNumber
    assert type(9 - number) is int
    assert 9 - number == 2
    assert SerialNumber() == 0


@given(numbers, st.integers(0, HALF - 1))
def test_going_on_and_coming_back(number: SerialNumber, steps: int) -> None:
    later = number + steps
    assert 0 <= int(later) < 1 << 32
    assert later - number == steps
    assert number - later == -steps


@given(numbers, numbers)
def test_exactly_one_order_unless_opposite(one: SerialNumber, other: SerialNumber) -> None:
    orders = [one < other, one == other, one > other]
    assert sum(orders) == (0 if (one ^ other) == HALF else 1)
    assert (one <= other) == (orders[0] or orders[1])
    assert (one >= other) == (orders[2] or orders[1])
