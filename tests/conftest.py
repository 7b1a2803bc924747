"""What every test may ask for: the committed test data, and the shared material where it is at hand."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester", "tests.conformance.plugin"]

MATERIAL_VARIABLE = "AMQPFORGE_MATERIAL"

# A machine may be busy: no example fails for the time it takes.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture(scope="session", autouse=True)
def _interrupts_count() -> None:
    """An interrupt raises KeyboardInterrupt: what a shell starts in the background ignores it otherwise."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder ``tests/data``: vectors and captures that every clone has."""
    return Path(__file__).resolve().parent / "data"


@pytest.fixture(scope="session")
def material() -> Path:
    """The folder with ``seeds``, ``facts``, ``traffic``, ``requirements`` that ``AMQPFORGE_MATERIAL`` names.

    Skips the test when the environment does not name one; fails it when the named folder is not there.
    """
    named = os.environ.get(MATERIAL_VARIABLE)
    if not named:
        pytest.skip(f"{MATERIAL_VARIABLE} does not name the folder of the shared material")
    folder = Path(named).resolve()
    if not folder.is_dir():
        pytest.fail(f"{MATERIAL_VARIABLE} names {named}, which is not a folder")
    return folder
