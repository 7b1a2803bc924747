"""What the tests of the blocking twin share: a node in a thread of its own, and an eye on our thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from amqpforge.blocking import Connection, connect
from amqpforge.testing import ThreadedNode


@pytest.fixture
def node() -> Iterator[ThreadedNode]:
    with ThreadedNode("node") as node:
        yield node


@pytest.fixture
def connection(node: ThreadedNode) -> Iterator[Connection]:
    with connect(node.url, timeout=10) as connection:
        yield connection


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    assert not [thread for thread in threading.enumerate() if thread.name == "amqpforge I/O"]
