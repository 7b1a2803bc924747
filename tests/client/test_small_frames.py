"""The smallest frames that there are: what does not fit into one is cut up, or told in part."""

from __future__ import annotations

import asyncio

import pytest

from amqpforge.client import Reconnect, connect
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.testing import ScriptedNode
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Attach,
    Close,
    Detach,
    Disposition,
    End,
    ReceiverSettleMode,
    TerminusExpiryPolicy,
    Transfer,
)

from .loops import in_loop

COUNT = 150


@pytest.mark.spec("T-ERR-017")
@in_loop
async def test_frames_are_never_too_small() -> None:
    async with ScriptedNode(settings=ConnectionSettings(max_frame_size=512), credit=COUNT + 1) as node:
        gate = node.script.before(Disposition).hold()
        reconnect = Reconnect(first_delay=0.001)
        async with connect(node.url, max_frame_size=512, reconnect=reconnect) as connection:
            sender = await connection.sender(
                "q", expiry_policy=TerminusExpiryPolicy.NEVER, rcv_settle_mode=ReceiverSettleMode.SECOND
            )
            posted = [sender.post(b"x" * 10_240), *(sender.post(number) for number in range(COUNT))]
            await node.wait_for(lambda: len(node.queue("q")) == COUNT + 1)
            assert sum(transfer.more for transfer in node.received(Transfer)) >= 20
            node.connections[0].cut()
            gate.open()
            assert await asyncio.gather(*posted) == [Accepted()] * (COUNT + 1)
        assert any(attach.incomplete_unsettled for attach in node.received(Attach))
        ends: list[Close | End | Detach] = [
            *node.received(Close),
            *node.received(End),
            *node.received(Detach),
        ]
        ends += [*node.sent(Close), *node.sent(End), *node.sent(Detach)]
        assert ends
        assert not any(end.error for end in ends)
        assert [message.body for message in node.messages("q")] == [b"x" * 10_240, *range(COUNT)]
