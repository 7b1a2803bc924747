"""How hypothesis runs here: the same examples every time, and no time limit on a busy machine."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

MANY = settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
