"""A recorded session is played again through the engine, which writes what it wrote then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amqpforge.client import connect
from amqpforge.client.replay import replay
from amqpforge.engine.events import Closed, Deliveries, Updates
from amqpforge.errors import LocalError
from amqpforge.testing import ScriptedNode
from amqpforge_protocol.amqp_1_0 import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    ReceiverSettleMode,
    Transfer,
)

from .loops import in_loop


async def record(path: Path) -> None:
    """A session with all that a client does."""
    async with ScriptedNode() as node, connect(node.url, record=path, properties={"a": 1}) as connection:
        async with (
            connection.sender("q") as sender,
            connection.receiver("q", credit=5, auto_accept=False) as receiver,
        ):
            await sender.send_many([b"x" * 200, b"y" * 200_000, "text"])
            await sender.send("settled", settled=True)
            (await receiver.receive()).accept()
            (await receiver.receive()).reject("my:error")
            (await receiver.receive()).modify(delivery_failed=True)
            await receiver.drain()

            async def failing() -> None:
                async with sender.stream() as stream:
                    await stream.write(b"z" * 100_000)
                    await node.wait_for(lambda: len(node.received(Transfer)) > 7)
                    raise ValueError("abort")

            with pytest.raises(ValueError, match="abort"):
                await failing()
        async with connection.sender("q", rcv_settle_mode=ReceiverSettleMode.SECOND) as second:
            await second.send("twice told")
        await connection.round_trip()


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "session.pcap"

    @in_loop
    async def run() -> None:
        await record(path)

    run()
    return path


@pytest.mark.parametrize("kind", [Open, Begin, Attach, Transfer, Detach, End, Close])
@pytest.mark.parametrize("end", ["client", "server"])
def test_the_engine_writes_the_frames_that_it_wrote_when_it_was_recorded(
    recording: Path, end: Any, kind: type
) -> None:
    recorded, written = replay(recording, end=end).of(kind)
    assert recorded
    assert written == recorded


@pytest.mark.parametrize("end", ["client", "server"])
def test_flows_and_dispositions_say_the_same(recording: Path, end: Any) -> None:
    replayed = replay(recording, end=end)
    then, now = replayed.of(Disposition)
    assert [(one.first, one.last, one.settled, one.state) for one in now] == [
        (one.first, one.last, one.settled, one.state) for one in then
    ]
    then, now = replayed.of(Flow)
    assert [(one.link_credit, one.drain) for one in now if one.handle is not None] == [
        (one.link_credit, one.drain) for one in then if one.handle is not None
    ]


def test_what_the_engine_tells_can_be_looked_at(recording: Path) -> None:
    events = replay(recording).events
    received = [event for event in events if isinstance(event, Deliveries)]
    assert sum(len(event.deliveries) for event in received) >= 3
    assert [event for event in events if isinstance(event, Updates)]
    assert [event.error for event in events if isinstance(event, Closed)] == [None]


def test_a_connection_that_is_not_there_is_an_error(recording: Path) -> None:
    with pytest.raises(LocalError, match="no connection 7"):
        replay(recording, stream=7)
