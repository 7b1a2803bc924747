"""Many threads at one connection, and threads that are slow."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from amqpforge.blocking import Connection, connect
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.errors import EndpointClosed, LocalError
from amqpforge.testing import ThreadedNode
from amqpforge_protocol.amqp_1_0 import Accepted


def in_threads(number: int, work: Callable[[int], object]) -> None:
    """Run something in many threads at once; what one of them raises is raised."""
    errors: list[BaseException] = []
    begin = threading.Barrier(number)

    def run(index: int) -> None:
        begin.wait(10)
        try:
            work(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[index]) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    for error in errors:
        raise error


def test_a_sender_is_shared_by_many_threads(node: ThreadedNode, connection: Connection) -> None:
    with connection.sender("q") as sender:

        def send(index: int) -> None:
            for number in range(20):
                assert sender.send([index, number]) == Accepted()
            sender.send_many([[index, number] for number in range(20, 40)])
            futures = [sender.post([index, number]) for number in range(40, 50)]
            assert all(future.result(10) == Accepted() for future in futures)

        in_threads(8, send)
    arrived = [message.body for message in node.messages("q")]
    assert len(arrived) == 400
    for index in range(8):  # What one thread sends stays in order.
        assert [number for sender_index, number in arrived if sender_index == index] == list(range(50))


def test_a_receiver_is_shared_by_many_threads(node: ThreadedNode, connection: Connection) -> None:
    for number in range(400):
        node.put("q", number)
    got: Counter[object] = Counter()
    with connection.receiver("q", credit=7) as receiver:

        def receive(index: int) -> None:
            for _ in range(50):
                delivery = receiver.receive(timeout=20)
                got[delivery.message.body] += 1

        in_threads(8, receive)
        assert receiver.counters.handed_over == 400
    assert got == Counter(range(400))
    assert not node.queue("q")


def test_threads_that_wait_for_one_message_each_get_one(node: ThreadedNode, connection: Connection) -> None:
    got: list[object] = []
    with connection.receiver("q", credit=0) as receiver:

        def receive(index: int) -> None:
            if index == 0:
                for number in range(5):
                    node.put("q", number)
            else:
                got.append(receiver.receive(timeout=20).message.body)

        in_threads(6, receive)
    assert sorted(got, key=str) == [0, 1, 2, 3, 4]


def test_threads_open_and_close_connections_at_once(node: ThreadedNode) -> None:
    def come_and_go(index: int) -> None:
        for number in range(5):
            with connect(node.url, timeout=20) as connection, connection.sender("q") as sender:
                sender.send([index, number])

    in_threads(6, come_and_go)
    assert len(node.queue("q")) == 30


def test_closing_ends_the_waiting_of_other_threads(node: ThreadedNode) -> None:
    connection = connect(node.url)
    receiver = connection.receiver("q")
    ended: list[object] = []

    def work(index: int) -> None:
        if index == 0:
            connection.close()
        elif index == 1:
            ended.append(list(receiver))
        else:
            try:
                receiver.receive()
            except (LocalError, EndpointClosed) as error:
                ended.append(str(error))

    in_threads(3, work)
    assert len(ended) == 2
    assert [] in ended


def test_slow_user_code_starves_no_heartbeat() -> None:
    """A main thread that never asks us for anything, and never waits, keeps its connection."""
    settings = ConnectionSettings(idle_time_out=0.4)
    with ThreadedNode(settings=settings) as node, connect(node.url, idle_time_out=0.4) as connection:
        empty = node.script.on(object, when=lambda seen: seen.performative is None)
        begun = time.monotonic()
        number = 0
        while empty.met < 6 and time.monotonic() - begun < 5:
            number += sum(range(1000))  # It works: nothing lets go of the interpreter here.
        assert empty.met >= 6
        assert connection.is_connected
        assert connection.counters.reconnects == 0
        assert node.accepted == 1
