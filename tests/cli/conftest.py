"""A node for the commands that talk to a peer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from amqpforge.testing import ThreadedNode


@pytest.fixture
def node() -> Iterator[ThreadedNode]:
    with ThreadedNode("node") as node:
        yield node
