"""Lengths of time as the page says them."""

from __future__ import annotations

import pytest

from amqpforge.spark.report.times import duration


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "–"),
        (0.0, "0 µs"),
        (2e-6, "2 µs"),
        (999.4e-6, "999 µs"),
        (999.6e-6, "1 ms"),
        (0.0123, "12.3 ms"),
        (0.9996, "1 s"),
        (59.9, "59.9 s"),
        (59.96, "1 min"),
        (61.0, "1 min 1 s"),
        (1000.0, "16 min 40 s"),
        (3599.7, "1 h"),
        (3600.0 * 30 + 59.0, "30 h"),
        (3600.0 * 30 + 90.0, "30 h 1 min"),
    ],
)
def test_a_length_of_time_has_the_unit_that_suits_it(seconds: float | None, said: str) -> None:
    """Also where it is rounded to the next unit: 1 s, not 1e+03 ms."""
    assert duration(seconds) == said
