"""The receiver with RabbitMQ, which refuses settle mode second, keeps no links, and is better not drained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop import rabbitmq
from tests.interop.certificates import make
from tests.interop.stacks import need

from .scene import bodies, options, receiving, until

N = 500


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rabbitmq.Broker]:
    """A RabbitMQ broker."""
    need(rabbitmq.what_is_missing())
    certificates = make(tmp_path_factory.mktemp("certificates"))
    with rabbitmq.broker(tmp_path_factory.mktemp("rabbitmq"), certificates) as running:
        yield running


def test_each_message_once(rabbit: rabbitmq.Broker, tmp_path: Path) -> None:
    address = rabbit.declare("spooled")
    for number in range(N):
        rabbit.publish("spooled", b"%d" % number, message_id=str(number))
    given = options(
        rabbit.url, tmp_path / "spool", address=address, user="guest", password="guest", credit=100
    )
    with receiving(given) as live:
        until(lambda: live.intake.progress.rows > N // 2, "some rows", live)
    with receiving(given, once=True) as live:
        until(lambda: live.is_over, "the end", live)
        live.check()
        assert not live.spool.unconfirmed
    assert sorted(bodies(tmp_path / "spool")) == list(range(N))
    assert rabbit.depth("spooled") == 0
