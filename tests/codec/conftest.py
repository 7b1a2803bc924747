"""How hypothesis runs here: few examples, the same ones every time; the environment may ask for more.

``HYPOTHESIS_PROFILE=thorough`` draws many times as many, and new ones each time.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SLOW_TO_DRAW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile(
    "quick",
    deadline=None,
    max_examples=25,
    derandomize=True,
    database=None,
    suppress_health_check=SLOW_TO_DRAW,
)
settings.register_profile("thorough", deadline=None, max_examples=1000, suppress_health_check=SLOW_TO_DRAW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
