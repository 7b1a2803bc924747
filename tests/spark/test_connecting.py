"""Connecting as the options say, to a peer that is there, comes late, or never. No Spark is needed."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

import amqpforge
from amqpforge.spark.connecting import ConnectionOptions
from amqpforge.spark.options import OptionError, OptionReader
from amqpforge.spark.patience import PeerAway
from amqpforge.spark.sink.errors import WriteFailed
from amqpforge.spark.sink.options import BATCH_OPTIONS, SinkOptions
from amqpforge.spark.sink.sending import Row
from amqpforge.spark.sink.task import write_partition
from amqpforge.testing import ScriptedBroker
from amqpforge_protocol.amqp_1_0 import Open


def given(url: str, **more: str) -> ConnectionOptions:
    return ConnectionOptions.read(OptionReader({"url": url} | more, BATCH_OPTIONS, purpose="a test"))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def reach(options: ConnectionOptions) -> None:
    async def work() -> None:
        async with await options.reach():
            pass

    asyncio.run(asyncio.wait_for(work(), 30))


def test_both_kinds_of_connections_are_made_alike() -> None:
    options = {"user": "me", "password": "pass", "hostname": "vhost:/"}
    with ScriptedBroker.threaded(passwords={"me": "pass"}) as broker:
        reach(given(broker.url, **options))
        with given(broker.url, **options).open_blocking(container_id="mine"):
            pass
        opens = broker.received(Open)
    assert [one.hostname for one in opens] == ["vhost:/"] * 2
    assert opens[1].container_id == "mine"
    told = [{str(key): value for key, value in (one.properties or {}).items()} for one in opens]
    assert told[0] == told[1]
    assert told[0].items() >= {"product": "amqpforge", "platform": "Spark", "pid": os.getpid()}.items()


def test_a_peer_that_comes_late_is_waited_for() -> None:
    """The first line is cut before there is a connection, the second one holds."""
    with ScriptedBroker.threaded() as broker:
        broker.script.on(Open, times=1).cut()
        reach(given(broker.url, startTimeout="20"))
        assert broker.accepted == 2


def test_a_peer_that_never_comes_is_given_up() -> None:
    says = r"no way to connect for 0.2 s, which the option 'startTimeout' sets: cannot connect to amqp://127"
    with pytest.raises(PeerAway, match=says):
        reach(given(f"amqp://127.0.0.1:{free_port()}", startTimeout="0.2"))


def test_what_cannot_help_is_not_tried_again(tmp_path: Path) -> None:
    with ScriptedBroker.threaded(passwords={"me": "right"}) as broker:
        with pytest.raises(amqpforge.AuthenticationFailed):
            reach(given(broker.url, user="me", password="wrong"))
        assert broker.accepted == 1
        with pytest.raises(OptionError, match="passwordFile"):
            reach(given(broker.url, user="me", passwordFile=str(tmp_path / "none")))
        assert broker.accepted == 1


@pytest.mark.parametrize(
    ("wrong", "says"),
    [("adress", "'address'"), ("passwordfile1", "'passwordFile'"), ("Windw", "'window'")],
)
def test_a_name_that_is_nearly_right_gets_a_hint(wrong: str, says: str) -> None:
    with pytest.raises(
        OptionError, match=rf"not known for a test; known are .*, writeId\. Is {says} meant\?$"
    ):
        given("amqp://h", **{wrong: "x"})
    with pytest.raises(OptionError, match=r"not known for a test; known are address, .*, writeId$"):
        given("amqp://h", zzz="x")


def test_a_row_for_a_queue_that_is_not_there_says_so() -> None:
    with ScriptedBroker.threaded() as broker:
        options = SinkOptions.for_batch({"url": broker.url, "address": "absent"})
        row = Row(0, "absent", amqpforge.Message("x").encode())
        with pytest.raises(WriteFailed, match="released by 'absent'; nobody takes it there now, as where a"):
            write_partition(options, 0, [row])
