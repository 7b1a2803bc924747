"""Fixtures: foreign clients and servers, a RabbitMQ broker, certificates.

A test that needs a peer which is not installed is skipped, or fails where ``AMQPFORGE_REQUIRE_PEERS`` is 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.interop import rabbitmq
from tests.interop.certificates import Certificates, make
from tests.interop.handles import ForeignClient, ForeignServer
from tests.interop.rabbitmq import Broker
from tests.interop.stacks import KINDS, Kind, client_of, need, server_of

StartClient = Callable[[Kind], ForeignClient]
StartServer = Callable[[Kind], ForeignServer]


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A certification authority, a server's and a client's certificate, made for this run."""
    return make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def start_client() -> Iterator[StartClient]:
    """A function that starts a client of a kind; all end with the test."""
    with ExitStack() as running:
        yield lambda kind: running.enter_context(client_of(kind))


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """A function that starts a server of a kind; all end with the test."""
    with ExitStack() as running:
        yield lambda kind: running.enter_context(server_of(kind))


@pytest.fixture(params=KINDS)
def foreign_client(request: pytest.FixtureRequest) -> Iterator[ForeignClient]:
    """A client of each kind, not yet connected."""
    with client_of(request.param) as client:
        yield client


@pytest.fixture(params=KINDS)
def foreign_server(request: pytest.FixtureRequest) -> Iterator[ForeignServer]:
    """A server of each kind, not yet listening."""
    with server_of(request.param) as server:
        yield server


@pytest.fixture(scope="session")
def running_broker(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Broker]:
    """The one broker of this run."""
    need(rabbitmq.what_is_missing())
    with rabbitmq.broker(tmp_path_factory.mktemp("rabbitmq"), certificates) as broker:
        yield broker


@pytest.fixture
def broker(running_broker: Broker) -> Iterator[Broker]:
    """The broker; what it logged during the test is shown if the test fails."""
    before = running_broker.process.lines
    yield running_broker
    sys.stderr.write(running_broker.process.last_words(before) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "interop: talks with somebody else's AMQP software, where it is installed"
    )
