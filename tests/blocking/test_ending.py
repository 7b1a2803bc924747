"""The end of the interpreter, forks and interrupts: nothing hangs, and nothing is left in between."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from amqpforge.blocking import Connection, connect
from amqpforge.testing import ThreadedNode
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Attach,
    Close,
    Declared,
    Disposition,
    Flow,
    Open,
)

from .scripts import run

needs_signals = pytest.mark.skipif(os.name != "posix", reason="needs signals as POSIX has them")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


# ---- the end of the interpreter ----


def test_a_connection_that_is_left_open_is_closed_at_exit(node: ThreadedNode) -> None:
    node.put("q", "x")
    ended = run(
        """
        import sys
        from amqpforge.blocking import connect
        connection = connect(sys.argv[1])
        receiver = connection.receiver("q", auto_accept=False)
        sender = connection.sender("q")
        delivery = receiver.receive()
        print(delivery.message.body)
        """,
        node.url,
    )
    assert (ended.code, ended.output, ended.complaints) == (0, "x\n", "")
    assert len(node.received(Close)) == 1
    node.wait_for(lambda: node.queue("q").depth == 1)


def test_a_peer_that_does_not_answer_does_not_hang_the_exit(node: ThreadedNode) -> None:
    node.script.on(Close).drop()
    ended = run(
        """
        import sys
        from amqpforge.blocking import connect
        connection = connect(sys.argv[1], timeout=None)
        connection.sender("q").post("x")
        """,
        node.url,
    )
    assert (ended.code, ended.complaints) == (0, "")
    node.wait_for(lambda: not node.connections)


def test_an_error_that_ends_the_program_closes_what_is_open(node: ThreadedNode) -> None:
    ended = run(
        """
        import sys
        from amqpforge.blocking import connect
        with connect(sys.argv[1]) as connection, connection.sender("q") as sender:
            sender.send("x")
            sys.exit(7)
        """,
        node.url,
    )
    assert (ended.code, ended.complaints) == (7, "")
    assert len(node.received(Close)) == 1


def test_daemon_threads_that_wait_end_quietly_with_the_interpreter(node: ThreadedNode) -> None:
    ended = run(
        """
        import sys, threading
        from amqpforge.blocking import connect
        connection = connect(sys.argv[1])
        receiver = connection.receiver("q")
        sender = connection.sender("full")
        waits = [
            lambda: receiver.receive(timeout=None),
            lambda: list(receiver),
            lambda: sender.send("x", timeout=None),
            lambda: sender.send_many("xyz", timeout=None),
            lambda: connection.wait_closed(),
        ]
        for wait in waits:
            threading.Thread(target=wait, daemon=True).start()
        while connection.counters.links < 2 or sender.counters.messages < 4:
            pass
        """,
        node.url,
        env={"AMQPFORGE_TRACE": ""},
    )
    assert (ended.code, ended.complaints) == (0, "")


def test_other_threads_go_on_after_the_main_thread_has_ended(node: ThreadedNode) -> None:
    ended = run(
        """
        import sys, threading
        from amqpforge.blocking import connect
        connection = connect(sys.argv[1].replace("127.0.0.1", "localhost"))
        sender = connection.sender("q")
        main = threading.current_thread()
        def work():
            main.join()
            sender.send("late")
            with connect(sys.argv[1].replace("127.0.0.1", "localhost")) as other:
                other.sender("q").send("later")
            print(threading.main_thread().is_alive())
        threading.Thread(target=work).start()
        """,
        node.url,
    )
    assert (ended.code, ended.complaints) == (0, "")
    assert [message.body for message in node.messages("q")] == ["late", "later"]


def test_a_connect_under_way_does_not_hang_the_exit(node: ThreadedNode) -> None:
    node.script.on(Open).drop()
    ended = run(
        """
        import sys, threading
        from amqpforge.blocking import connect
        threading.Thread(target=lambda: connect(sys.argv[1], timeout=None), daemon=True).start()
        while not any(thread.name == "amqpforge I/O" for thread in threading.enumerate()):
            pass
        """,
        node.url,
    )
    assert (ended.code, ended.complaints) == (0, "")


# ---- forks ----


@needs_fork
def test_after_a_fork_the_child_is_told_and_the_parent_goes_on(node: ThreadedNode) -> None:
    ended = run(
        """
        import os, sys, warnings
        from amqpforge.blocking import connect
        from amqpforge.errors import LocalError
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork in a process with threads
        child = None
        with connect(sys.argv[1]) as connection, connection.sender("q") as sender:
            receiver = connection.receiver("q")
            sender.send("before")
            delivery = receiver.receive()
            child = os.fork()
            if child == 0:
                for operation in (
                    lambda: sender.send("x"),
                    lambda: sender.post("x"),
                    lambda: sender.send_many(["x"]),
                    lambda: receiver.receive(),
                    lambda: next(iter(receiver)),
                    lambda: delivery.accept(),
                    lambda: connection.sender("q"),
                    lambda: connection.counters,
                    lambda: connection.transaction().__enter__(),
                ):
                    try:
                        operation()
                    except LocalError as error:
                        print(error)
                    else:
                        print("no error")
                sender.close()
                connection.close()
                with connect(sys.argv[1]) as own:
                    own.sender("q").send("child")
                print("child", flush=True)
            else:
                os.waitpid(child, 0)
                sender.send("after")
        print("end of", "parent" if child else "child", flush=True)
        """,
        node.url,
    )
    assert (ended.code, ended.complaints) == (0, "")
    *told, done, end_of_child, end_of_parent = ended.output.splitlines()
    assert len(told) == 9
    assert len(set(told)) == 1
    assert "from which this one was forked" in told[0]
    assert (done, end_of_child, end_of_parent) == ("child", "end of child", "end of parent")
    assert [message.body for message in node.messages("q")] == ["child", "after"]
    assert node.accepted == 2


# ---- interrupts ----


@contextmanager
def interrupted(ready: Callable[[], object]) -> Iterator[None]:
    """Interrupt the main thread as soon as something is so, which is not so before it waits."""
    over = threading.Event()

    def interrupt() -> None:
        for _ in range(5000):
            if ready():
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                return
            if over.wait(0.002):
                return

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        over.set()
        thread.join()


@needs_signals
def test_an_interrupted_receive_loses_no_message(node: ThreadedNode, connection: Connection) -> None:
    with connection.receiver("q", credit=0) as receiver:
        with interrupted(lambda: node.container.links and receiver.counters.credit):
            receiver.receive(timeout=None)
        node.put("q", "x")
        assert receiver.receive().message.body == "x"


@needs_signals
def test_an_interrupted_send_drops_the_outcome_only(node: ThreadedNode, connection: Connection) -> None:
    gate = node.script.before(Disposition).hold()
    with connection.sender("q") as sender:
        with interrupted(lambda: gate.held):
            sender.send("x", timeout=None)
        gate.open()
        assert sender.send("y") == Accepted()
        assert [message.body for message in node.messages("q")] == ["x", "y"]
        assert sender.counters.unsettled == 0


@needs_signals
def test_an_interrupted_send_without_credit_takes_the_message_back() -> None:
    with ThreadedNode(credit=0) as node, connect(node.url) as connection, connection.sender("q") as sender:
        with interrupted(lambda: sender.counters.queued):
            sender.send("x", timeout=None)
        assert sender.counters.queued == 0


@needs_signals
def test_an_interrupted_send_many_leaves_the_rest_unsent(node: ThreadedNode, connection: Connection) -> None:
    gate = node.script.before(Disposition).hold()
    with connection.sender("q") as sender:
        with interrupted(lambda: gate.held):
            sender.send_many(range(1000), window=5, timeout=None)
        gate.open()
        sender.send("last")
        arrived = [message.body for message in node.messages("q")]
        assert arrived[-1] == "last"
        assert arrived[:-1] == list(range(len(arrived) - 1))
        assert len(arrived) <= 6


@needs_signals
def test_an_interrupted_connect_leaves_no_connection(node: ThreadedNode) -> None:
    rule = node.script.on(Open).drop()
    with interrupted(lambda: rule.met):
        connect(node.url, timeout=None)
    node.wait_for(lambda: not node.connections)


@needs_signals
def test_an_interrupted_attach_leaves_no_link(node: ThreadedNode, connection: Connection) -> None:
    gate = node.script.on(Attach, times=1).hold()
    with interrupted(lambda: gate.held):
        connection.sender("q", timeout=None)
    gate.open()
    connection.round_trip()
    assert connection.counters.links == 0


@needs_signals
def test_an_interrupted_transaction_is_not_begun(node: ThreadedNode, connection: Connection) -> None:
    gate = node.script.before(
        Disposition, when=lambda seen: isinstance(seen.performative.state, Declared), times=1
    ).hold()
    with interrupted(lambda: gate.held):
        connection.transaction(timeout=None).__enter__()
    gate.open()
    with connection.transaction() as transaction, connection.sender("q") as sender:
        sender.send("x", transaction=transaction)
    assert len(node.queue("q")) == 1


@needs_signals
def test_an_interrupt_in_a_block_closes_all(node: ThreadedNode) -> None:
    def work() -> None:
        with connect(node.url) as connection, connection.receiver("q", name="in") as receiver:
            list(receiver)

    attached = node.script.on(Flow)
    with interrupted(lambda: attached.met):
        work()
    assert len(node.received(Close)) == 1
    node.wait_for(lambda: not node.connections)
