"""The relay in front of our broker: what it passes on, what it records, and that faults are seen in that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path

import pytest

from amqpforge import ConnectionLost, Message, connect
from amqpforge.cli import main
from amqpforge.testing import ScriptedNode
from amqpforge_protocol.amqp_1_0 import (
    Begin,
    Open,
    ProtocolHeader,
    ProtocolId,
    SequenceNo,
    TransferNumber,
    UShort,
    encode_frame,
)
from tests.interop.relay import HOST, Relay

PATIENCE = 10.0
BIG = 1 << 20


def run(scenario: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, PATIENCE))


def checked(capture: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    """What ``amqpforge decode --check`` says of a recording."""
    main(["decode", "--check", "--json", str(capture)])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_what_passes_is_recorded_without_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = tmp_path / "both.pcap"

    async def play() -> None:
        async with ScriptedNode(users={"ann": "hush hush"}) as node, Relay(node.port, capture) as relay:
            for _ in range(2):
                async with connect(relay.url, username="ann", password="hush hush") as connection:
                    async with connection.sender("q") as sender:
                        await sender.send(b"x" * BIG)
                    async with connection.receiver("q") as receiver:
                        assert (await receiver.receive()).message.body == b"x" * BIG

    run(play())
    said = checked(capture, capsys)
    checks = [each for each in said if each["kind"] == "check"]
    assert [(each["violations"], each["deliveries"]) for each in checks] == [(0, 2), (0, 2)]
    assert b"hush" not in capture.read_bytes()


def test_a_rule_that_a_server_breaks_is_blamed_on_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = tmp_path / "wrong.pcap"
    header = ProtocolHeader(ProtocolId.AMQP).encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(header))
        begin = encode_frame(
            Begin(
                remote_channel=UShort(7),
                next_outgoing_id=TransferNumber(SequenceNo(0)),
                incoming_window=1,
                outgoing_window=1,
            )
        )
        writer.write(header + encode_frame(Open(container_id="wrong")) + begin)
        await reader.read()
        writer.close()

    async def play() -> None:
        async with (
            await asyncio.start_server(serve, HOST, 0) as server,
            Relay(server.sockets[0].getsockname()[1], capture) as relay,
        ):
            reader, writer = await asyncio.open_connection(HOST, relay.port)
            writer.write(header + encode_frame(Open(container_id="right")))
            await reader.readexactly(len(header) + 1)
            writer.write_eof()
            await reader.read()
            writer.close()

    run(play())
    [check] = [each for each in checked(capture, capsys) if each["kind"] == "check"]
    seen = check["seen_violations"]
    assert isinstance(seen, list)
    assert "server" in [violation["end"] for violation in seen]


def test_a_deaf_relay_keeps_answers_back_and_a_cut_ends_both_sides(tmp_path: Path) -> None:
    async def play() -> None:
        async with ScriptedNode() as node, Relay(node.port, tmp_path / "cut.pcap") as relay:
            connection = await connect(relay.url, reconnect=None)
            sender = await connection.sender("q")
            relay.is_deaf = True
            outcome = sender.post(Message("x"))
            await node.wait_for(lambda: node.messages("q"))
            assert not outcome.done()
            relay.cut()
            with pytest.raises(ConnectionLost):
                await outcome
            await node.wait_for(lambda: not node.connections)
            with pytest.raises(ConnectionLost):
                await connection.wait_closed()

    run(play())
