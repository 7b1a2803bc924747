"""The test node in a thread of its own, and the fixture of pytest."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from amqpforge.errors import LocalError, OperationTimedOut
from amqpforge.message import Message
from amqpforge.testing import ScriptedNode, ThreadedNode
from amqpforge_protocol.amqp_1_0 import Accepted, Attach, Disposition, Open

from .peer import Peer, asynchronous, bodies
from .plugin import run_pytest

ROOT = Path(__file__).resolve().parents[2]


def in_thread(function: Any) -> list[BaseException]:
    """Run an async function in another thread; returns what it has raised, when it is over."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(function())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised


def test_a_sync_test_needs_no_event_loop() -> None:
    with ScriptedNode.threaded() as node:

        async def client() -> None:
            async with Peer(node) as peer:
                await peer.send(await peer.sender(), "m")

        assert in_thread(client) == []
        assert [message.body for message in node.messages("q")] == ["m"]
        assert node.wait_for(lambda: node.received(Attach))[0].name == "out"
        node.wait_for(lambda: not node.connections)
        with pytest.raises(OperationTimedOut):
            node.wait_for(lambda: False, timeout=0)
    assert not [thread for thread in threading.enumerate() if "test node" in thread.name]


@asynchronous
async def test_an_async_test_may_use_it_too() -> None:
    with ScriptedNode.threaded() as node:
        async with Peer(node) as peer:
            gate = node.script.before(Disposition).hold()
            sender, receiver = await peer.sender(), await peer.receiver("other", credit=1)
            delivery = sender.send(Message("m").encode())
            peer.pump()
            await node.wait_for_async(lambda: gate.held)
            assert not delivery.settled
            gate.open()
            await peer.until(lambda: delivery.settled)
            assert delivery.remote_state == Accepted()
            node.put("other", "put from outside")
            assert bodies(await peer.receive(receiver)) == ["put from outside"]
            node.connections[0].cut()
            await peer.until(lambda: peer.is_lost)


def test_it_can_be_entered_once() -> None:
    node = ThreadedNode()
    with pytest.raises(LocalError, match="not entered"):
        node.wait_for(lambda: True)
    with node, pytest.raises(LocalError, match="entered already"):
        node.__enter__()


def meet_an_error_in_the_script() -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError("in the script")

    async def client() -> None:
        peer = await Peer(node).connect()
        peer.engine.open()
        peer.pump()
        await peer.until(lambda: peer.is_lost)

    with ThreadedNode() as node:
        node.script.on(Open).do(fail)
        assert in_thread(client) == []


def test_what_a_function_of_the_test_raises_is_told() -> None:
    with pytest.raises(ZeroDivisionError, match="in the script"):
        meet_an_error_in_the_script()


# ---- the plugin ----

TESTS = """
import asyncio
import socket
import pytest

def test_sync(amqp_node):
    with socket.create_connection(("127.0.0.1", amqp_node.port)) as client:
        amqp_node.wait_for(lambda: amqp_node.connections)
        client.sendall(b"AMQP\\x00\\x01\\x00\\x00")
        assert client.recv(8) == b"AMQP\\x00\\x01\\x00\\x00"

def test_async(amqp_node):
    async def check():
        reader, writer = await asyncio.open_connection("127.0.0.1", amqp_node.port)
        await amqp_node.wait_for_async(lambda: amqp_node.connections)
        writer.close()
        await writer.wait_closed()
    asyncio.run(check())

@pytest.mark.amqp_node("mine", queues=["a"], makes_queues=False)
def test_options(amqp_node):
    assert amqp_node.container.id == "mine"
    assert amqp_node.queues == ["a"]

def test_script_that_fails(amqp_node):
    amqp_node.script.on(object).do(lambda seen: 1 // 0)
    with socket.create_connection(("127.0.0.1", amqp_node.port)) as client:
        client.sendall(b"AMQP\\x00\\x01\\x00\\x00")
        assert client.recv(8) == b""
"""


def test_the_fixture_serves_sync_and_async_tests(tmp_path: Path) -> None:
    output = run_pytest(tmp_path, TESTS, "-q")
    assert "4 passed, 1 error" in output, output
    assert "ZeroDivisionError" in output
    assert "ERROR at teardown of test_script_that_fails" in output


def test_the_plugin_loads_nothing_else_before_the_fixture_is_used(tmp_path: Path) -> None:
    source = (
        "import sys\n"
        "def test_it():\n"
        "    print(sorted(name for name in sys.modules if name.startswith('amqpforge')))\n"
    )
    output = run_pytest(tmp_path, source, "-s", "-q")
    loaded = re.findall(r"'(amqpforge[^']*)'", output)
    assert loaded == ["amqpforge", "amqpforge.pytest_plugin"], output


BROKERS = """
import pytest

seen = []

def test_leaves_something(amqp_broker_session, amqp_broker):
    seen.append(amqp_broker_session)
    amqp_broker_session.declare_queue("left")
    amqp_broker.declare_queue("gone")

def test_finds_it(amqp_broker_session, amqp_broker):
    assert amqp_broker_session is seen[0]
    assert amqp_broker_session.queues == ["left"]
    assert amqp_broker.queues == []
    assert amqp_broker.url != amqp_broker_session.url

@pytest.mark.amqp_broker(keep_frames=3)
def test_options(amqp_broker):
    assert amqp_broker.frames.maxlen == 3

def test_script_that_fails(amqp_broker):
    import socket
    amqp_broker.script.on(object).do(lambda seen: 1 // 0)
    with socket.create_connection(("127.0.0.1", amqp_broker.port)) as client:
        client.sendall(b"AMQP\\x00\\x01\\x00\\x00")
        assert client.recv(8) == b""
"""


def test_a_broker_is_for_one_test_or_for_the_session(tmp_path: Path) -> None:
    output = run_pytest(tmp_path, BROKERS, "-q")
    assert "4 passed, 1 error" in output, output
    assert "ERROR at teardown of test_script_that_fails" in output


def test_pytest_tells_what_fixtures_and_markers_there_are(tmp_path: Path) -> None:
    fixtures = run_pytest(tmp_path, "", "--fixtures")
    for name in ("amqp_node", "amqp_broker", r"amqp_broker_session \[session scope\]"):
        assert re.search(rf"^{name} -- .*\n    \w", fixtures, re.MULTILINE), fixtures
    markers = run_pytest(tmp_path, "", "--markers")
    for name in ("amqp_node", "amqp_broker"):
        assert f"@pytest.mark.{name}(**options): how the fixture" in markers
