"""The plugin of pytest: a fixture that is a test node, made when a test asks for it.

pytest imports this module whenever it starts, so nothing else is imported before that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from amqpforge.testing import ThreadedNode

__all__ = ["amqp_node", "pytest_configure"]


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers", "amqp_node(**options): how the fixture amqp_node is made; the arguments of ScriptedNode"
    )


@pytest.fixture
def amqp_node(request: pytest.FixtureRequest) -> Iterator[ThreadedNode]:
    """A listening AMQP 1.0 container in a thread of its own, for sync and async tests alike.

    The marker ``amqp_node`` gives its options. What the functions raise that a test gave to its script, the
    fixture raises when the test is over.
    """
    from amqpforge.testing import ThreadedNode

    marker = request.node.get_closest_marker("amqp_node")
    with ThreadedNode(*(marker.args if marker else ()), **(marker.kwargs if marker else {})) as node:
        yield node
