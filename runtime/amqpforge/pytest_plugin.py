"""The plugin of pytest: fixtures that are a test node or a broker, made when a test asks for one.

pytest imports this module whenever it starts, so nothing else is imported before that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from amqpforge.testing import ThreadedBroker, ThreadedNode

__all__ = ["amqp_broker", "amqp_broker_session", "amqp_node", "pytest_configure"]


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known."""
    for name, kind in (("amqp_node", "ScriptedNode"), ("amqp_broker", "ScriptedBroker")):
        config.addinivalue_line(
            "markers", f"{name}(**options): how the fixture {name} is made; the arguments of {kind}"
        )


@pytest.fixture
def amqp_node(request: pytest.FixtureRequest) -> Iterator[ThreadedNode]:
    """A listening AMQP 1.0 container in a thread of its own, for sync and async tests alike.

    The marker ``amqp_node`` gives its options. What the functions raise that a test gave to its script, the
    fixture raises when the test is over.
    """
    from amqpforge.testing import ThreadedNode

    args, options = _given(request, "amqp_node")
    with ThreadedNode(*args, **options) as node:
        yield node


@pytest.fixture
def amqp_broker(request: pytest.FixtureRequest) -> Iterator[ThreadedBroker]:
    """A running broker in a thread of its own, for sync and async tests alike, with nothing in it.

    The marker ``amqp_broker`` gives its options. Clients connect to its ``url``; ``declare_queue`` and
    ``queue`` have and show its queues; its ``script`` makes it misbehave. What the functions raise that a
    test gave to that, the fixture raises when the test is over.
    """
    from amqpforge.testing import ThreadedBroker

    args, options = _given(request, "amqp_broker")
    with ThreadedBroker(*args, **options) as broker:
        yield broker


@pytest.fixture(scope="session")
def amqp_broker_session() -> Iterator[ThreadedBroker]:
    """One running broker for all tests that ask for it; it keeps what they leave until ``reset()``."""
    from amqpforge.testing import ThreadedBroker

    with ThreadedBroker() as broker:
        yield broker


def _given(request: pytest.FixtureRequest, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a marker of the test; none without it."""
    marker = request.node.get_closest_marker(name)
    return (marker.args, dict(marker.kwargs)) if marker else ((), {})
