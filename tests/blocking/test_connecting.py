"""Connections of the blocking twin, and the thread that they share."""

from __future__ import annotations

import threading

import pytest

from amqpforge.blocking import Connection, connect
from amqpforge.errors import (
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionLost,
    LinkDetached,
    LocalError,
    OperationTimedOut,
)
from amqpforge.testing import ThreadedNode
from amqpforge_protocol.amqp_1_0 import Attach, Begin, Close, Detach, Open


def io_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "amqpforge I/O"]


def test_a_connection_opens_and_closes_with_its_block(node: ThreadedNode) -> None:
    with connect(node.url, container_id="me", hostname="vhost:a") as connection:
        assert connection.is_open
        assert connection.is_connected
        assert connection.remote is not None
        assert connection.remote.container_id == "node"
        assert connection.mechanism == "ANONYMOUS"
        assert str(connection.url) == node.url
        assert "'me'" in repr(connection)
    assert [(open.container_id, open.hostname) for open in node.received(Open)] == [("me", "vhost:a")]
    assert len(node.received(Close)) == 1
    assert not connection.is_open
    assert connection.error is None
    assert connection.counters.links == 0


def test_connections_share_one_thread_which_ends_with_the_last(node: ThreadedNode) -> None:
    assert not io_threads()
    first, second = connect(node.url), connect(node.url)
    assert len(io_threads()) == 1
    assert io_threads()[0].daemon
    first.close()
    assert len(io_threads()) == 1
    assert second.round_trip() > 0
    second.close()
    assert not io_threads()
    with connect(node.url) as third:
        assert third.round_trip() > 0


def test_closing_twice_does_nothing(node: ThreadedNode) -> None:
    connection = connect(node.url)
    sender = connection.sender("q")
    connection.close()
    connection.close()
    sender.close()
    with connection:
        pass
    for operation in (
        lambda: connection.sender("q"),
        lambda: sender.send("x"),
        lambda: sender.post("x"),
        lambda: sender.send_many(["x"]),
        connection.round_trip,
    ):
        with pytest.raises((LocalError, ConnectionClosed, LinkDetached), match="closed"):
            operation()


def test_a_failed_connect_leaves_no_thread() -> None:
    with ThreadedNode(users={"me": "right"}) as node:
        with pytest.raises(AuthenticationFailed):
            connect(node.url, username="me", password="wrong")
        assert not io_threads()
    with pytest.raises(ConnectionLost, match="cannot connect"):
        connect(node_url(node))
    assert not io_threads()


def node_url(node: ThreadedNode) -> str:
    return f"amqp://127.0.0.1:{node.port}"


def test_wrong_arguments_are_told_at_once() -> None:
    with pytest.raises(LocalError):
        connect("http://localhost")
    with pytest.raises(LocalError):
        connect("amqp://localhost", timeout=0)
    assert not io_threads()


def test_a_refused_link_says_why(node: ThreadedNode, connection: Connection) -> None:
    node.script.on(Attach).refuse("amqp:not-found", "no such queue")
    with pytest.raises(LinkDetached, match="no such queue") as caught:
        connection.sender("q")
    assert caught.value.condition == "amqp:not-found"
    assert connection.is_open


def test_time_outs_are_those_of_the_client(node: ThreadedNode, connection: Connection) -> None:
    node.script.on(Attach).drop()
    with pytest.raises(OperationTimedOut, match="attaching"):
        connection.receiver("q", timeout=0.05)
    node.script.clear()
    node.script.on(Begin).drop()
    with pytest.raises(OperationTimedOut, match="beginning a session"):
        connection.round_trip(timeout=0.05)


def test_a_peer_that_never_answers_a_detach_does_not_hang_close(
    node: ThreadedNode, connection: Connection
) -> None:
    node.script.on(Detach).drop()
    sender = connection.sender("q")
    sender.close(timeout=0.05)
    assert not sender.is_open


def test_a_connection_that_is_given_up_says_why_and_leaves_no_thread(node: ThreadedNode) -> None:
    connection = connect(node.url, reconnect=None)
    receiver = connection.receiver("q")
    waiting = threading.Thread(target=node.connections[0].close)
    waiting.start()
    with pytest.raises(ConnectionClosed, match="closed the connection"):
        receiver.receive()
    waiting.join()
    assert not connection.is_open
    assert isinstance(connection.error, ConnectionClosed)
    with pytest.raises(ConnectionClosed, match="closed the connection"):
        connection.sender("q")
    connection.close()
    assert not io_threads()


def test_waiting_for_the_end_tells_why_it_came(node: ThreadedNode) -> None:
    with connect(node.url, reconnect=None) as connection:
        node.connections[0].cut()
        with pytest.raises(ConnectionLost):
            connection.wait_closed()


def test_a_lost_connection_comes_back(node: ThreadedNode, connection: Connection) -> None:
    with connection.sender("q") as sender, connection.receiver("q") as receiver:
        sender.send("before")
        assert receiver.receive().message.body == "before"
        node.wait_for(lambda: not node.queue("q"))
        node.connections[0].cut()
        sender.send("after")
        assert receiver.receive().message.body == "after"
        assert connection.counters.reconnects == 1


def test_a_block_that_ends_sends_what_was_posted(node: ThreadedNode) -> None:
    with connect(node.url) as connection:
        sender = connection.sender("q")
        for number in range(200):
            sender.post(number)
    assert [message.body for message in node.messages("q")] == list(range(200))
