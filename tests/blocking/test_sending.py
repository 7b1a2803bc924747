"""Senders of the blocking twin."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count, islice

import pytest

from amqpforge.blocking import Connection, Message, connect
from amqpforge.errors import ConnectionClosed, LinkDetached, LocalError, NotAccepted, OperationTimedOut
from amqpforge.testing import ThreadedNode
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Disposition,
    EncodeError,
    Modified,
    Rejected,
    Released,
    SenderSettleMode,
    Transfer,
)


def bodies(node: ThreadedNode, address: str = "q") -> list[object]:
    return [message.body for message in node.messages(address)]


def test_send_returns_the_outcome(node: ThreadedNode, connection: Connection) -> None:
    sender = connection.sender("q")
    assert sender.send("hello") == Accepted()
    assert sender.send(Message({"a": 1}, subject="map")) == Accepted()
    assert bodies(node) == ["hello", {"a": 1}]
    assert sender.counters.accepted == 2
    assert (sender.address, sender.is_open, sender.is_attached) == ("q", True, True)
    assert sender.connection is connection


def test_what_is_not_accepted_is_an_error_or_a_result(node: ThreadedNode, connection: Connection) -> None:
    sender = connection.sender("q")
    node.queue("q").answer = Released()
    with pytest.raises(NotAccepted) as caught:
        sender.send("x")
    assert caught.value.outcome == Released()
    assert sender.send("x", check=False) == Released()


def test_a_message_that_is_sent_settled_has_no_outcome(node: ThreadedNode, connection: Connection) -> None:
    sender = connection.sender("q", snd_settle_mode=SenderSettleMode.SETTLED)
    assert sender.send("x") is None
    node.wait_for(lambda: bodies(node) == ["x"])


def test_a_message_without_an_outcome_in_time_is_given_up(node: ThreadedNode, connection: Connection) -> None:
    sender = connection.sender("q")
    gate = node.script.before(Disposition).hold()
    with pytest.raises(OperationTimedOut, match=r"sending over .* took longer than 0\.05 s"):
        sender.send("x", timeout=0.05)
    gate.open()
    assert sender.send("y") == Accepted()


def test_a_message_without_credit_is_taken_back_when_its_time_is_over() -> None:
    with ThreadedNode(credit=0) as node, connect(node.url) as connection, connection.sender("q") as sender:
        with pytest.raises(OperationTimedOut):
            sender.send("x", timeout=0.05)
        assert sender.counters.queued == 0


def test_a_value_that_cannot_be_encoded_is_told_where_it_is_sent(connection: Connection) -> None:
    sender = connection.sender("q")
    for send in (sender.send, sender.post):
        with pytest.raises(EncodeError):
            send(Message(object()))
    with pytest.raises(EncodeError):
        sender.send_many(["x", object()])
    assert sender.send("x") == Accepted()


def test_a_message_that_is_too_large_is_not_sent() -> None:
    with ThreadedNode(max_message_size=100) as node, connect(node.url) as connection:
        sender = connection.sender("q")
        assert sender.max_message_size == 100
        with pytest.raises(LocalError, match="100"):
            sender.send(b"x" * 200)
        with pytest.raises(LocalError, match="100"):
            sender.post(b"x" * 200).result(5)
        with pytest.raises(LocalError, match="100"):
            sender.send_many([b"x", b"x" * 200])


# ---- many ----


def test_send_many_returns_all_outcomes_in_order(node: ThreadedNode, connection: Connection) -> None:
    sender = connection.sender("q")
    outcomes = sender.send_many(range(1500), window=100)
    assert outcomes == [Accepted()] * 1500
    assert bodies(node) == list(range(1500))
    assert sender.send_many([]) == []


@pytest.mark.parametrize("window", [1, 2, 3])
def test_a_window_bounds_what_is_under_way(node: ThreadedNode, connection: Connection, window: int) -> None:
    sender = connection.sender("q")
    gate = node.script.before(Disposition, times=1).hold()
    given: list[int] = []

    def messages() -> Iterator[int]:
        for number in range(20):
            given.append(number)
            yield number

    thread = threading.Thread(target=sender.send_many, args=[messages()], kwargs={"window": window})
    thread.start()
    node.wait_for(lambda: gate.held)
    node.wait_for(lambda: node.queue("q").arrived == window)
    assert len(given) == window
    gate.open()
    thread.join(10)
    assert bodies(node) == list(range(20))


def test_a_slow_source_sends_each_message_as_soon_as_it_is_there(
    node: ThreadedNode, connection: Connection
) -> None:
    sender = connection.sender("q")

    def messages() -> Iterator[int]:
        for number in range(5):
            yield number
            node.wait_for(lambda: len(node.queue("q")) == number + 1)  # noqa: B023 - called at once

    assert len(sender.send_many(messages())) == 5


def test_a_message_that_is_changed_after_it_was_given_is_sent_as_it_was(
    node: ThreadedNode, connection: Connection
) -> None:
    sender = connection.sender("q")
    message = Message("x")

    def messages() -> Iterator[Message]:
        for number in range(100):
            message.body = number
            yield message

    sender.send_many(messages())
    future = sender.post(message)
    message.body = "changed"
    assert future.result(5) == Accepted()
    assert bodies(node) == [*range(100), 99]


def test_send_many_tells_the_first_outcome_that_is_not_accepted(
    node: ThreadedNode, connection: Connection
) -> None:
    sender = connection.sender("q")
    node.queue("q").answer = lambda message: Rejected() if message.body == 3 else Accepted()
    with pytest.raises(NotAccepted) as caught:
        sender.send_many(range(6))
    assert caught.value.outcome == Rejected()
    assert bodies(node) == [0, 1, 2, 4, 5]
    outcomes = sender.send_many(range(5), check=False)
    assert [type(outcome) for outcome in outcomes] == [Accepted, Accepted, Accepted, Rejected, Accepted]


def test_send_each_gives_outcomes_of_an_endless_source(node: ThreadedNode, connection: Connection) -> None:
    sender = connection.sender("q")
    outcomes = sender.send_each(count(), window=10)
    assert list(islice(outcomes, 25)) == [Accepted()] * 25
    outcomes.close()  # type: ignore[attr-defined]
    sender.flush()
    arrived = len(node.messages("q"))
    assert 25 <= arrived <= 35
    assert bodies(node) == list(range(arrived))


def test_send_each_shows_an_outcome_before_the_next_is_known(
    node: ThreadedNode, connection: Connection
) -> None:
    sender = connection.sender("q")
    gate = node.script.before(Disposition, skip=1).hold()
    outcomes = sender.send_each(["a", "b"], window=10)
    assert next(outcomes) == Accepted()
    gate.open()
    assert list(outcomes) == [Accepted()]


def test_an_error_of_the_source_stops_the_sending(node: ThreadedNode, connection: Connection) -> None:
    sender = connection.sender("q")

    def messages() -> Iterator[str]:
        yield "a"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        sender.send_many(messages())
    assert sender.send("b") == Accepted()


def test_send_many_without_progress_is_out_of_time(node: ThreadedNode, connection: Connection) -> None:
    sender = connection.sender("q")
    node.script.before(Disposition).drop()
    with pytest.raises(OperationTimedOut, match="sending 3 messages"):
        sender.send_many("abc", timeout=0.05)


def test_a_link_that_is_detached_ends_send_many(node: ThreadedNode, connection: Connection) -> None:
    sender = connection.sender("q")
    node.script.on(Transfer, skip=5).detach("amqp:resource-deleted", closed=True)
    with pytest.raises(LinkDetached, match="resource-deleted"):
        sender.send_many(range(10_000))


def test_a_window_has_room(connection: Connection) -> None:
    with pytest.raises(LocalError, match="at least 1"):
        connection.sender("q").send_many([], window=0)


# ---- posts ----


def test_post_gives_a_future_of_the_outcome(node: ThreadedNode, connection: Connection) -> None:
    sender = connection.sender("q")
    node.queue("q").answer = lambda message: Modified() if message.body == 1 else Accepted()
    futures = [sender.post(number) for number in range(3)]
    assert [future.result(5) for future in futures] == [Accepted(), Modified(), Accepted()]
    sender.flush()


def test_a_cancelled_post_goes_its_way(node: ThreadedNode, connection: Connection) -> None:
    sender = connection.sender("q")
    gate = node.script.before(Disposition).hold()
    future = sender.post("x")
    assert future.cancel()
    gate.open()
    sender.flush()
    assert bodies(node) == ["x"]
    assert future.cancelled()


def test_a_callback_of_a_post_must_not_wait(node: ThreadedNode, connection: Connection) -> None:
    sender = connection.sender("q")
    gate = node.script.before(Disposition, times=1).hold()
    told: list[str] = []
    done = threading.Event()

    def wait_in_the_io_thread(_: object) -> None:
        try:
            sender.send("y")
        except LocalError as error:
            told.append(str(error))
        done.set()

    sender.post("x").add_done_callback(wait_in_the_io_thread)
    gate.open()
    assert done.wait(5)
    assert "I/O thread" in told[0]


# ---- pieces ----


def test_a_message_is_streamed(node: ThreadedNode, connection: Connection) -> None:
    sender = connection.sender("q")
    with sender.stream(Message(subject="film"), size=300_000) as stream:
        for _ in range(3):
            stream.write(b"x" * 100_000)
    assert stream.outcome == Accepted()
    (message,) = node.messages("q")
    assert (message.subject, message.body) == ("film", b"x" * 300_000)


def test_a_stream_whose_block_fails_is_aborted(node: ThreadedNode, connection: Connection) -> None:
    sender = connection.sender("q")

    def fail_inside() -> None:
        with sender.stream() as stream:
            stream.write(b"x" * 100_000)
            node.wait_for(lambda: node.received(Transfer))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    sender.send("next")
    assert bodies(node) == ["next"]
    assert [transfer.aborted for transfer in node.received(Transfer)].count(True) == 1
    with pytest.raises(LocalError, match="block"):
        sender.stream().write(b"x")


# ---- transactions ----


def test_a_transaction_takes_effect_at_the_end_of_its_block(
    node: ThreadedNode, connection: Connection
) -> None:
    with connection.sender("q") as sender:

        def fail_inside() -> None:
            with connection.transaction() as transaction:
                sender.send("e", transaction=transaction)
                raise ZeroDivisionError

        with connection.transaction() as transaction:
            assert transaction.id
            sender.send("a", transaction=transaction)
            sender.send_many(["b", "c"], transaction=transaction)
            sender.post("d", transaction=transaction).result(5)
            assert bodies(node) == []
        assert bodies(node) == ["a", "b", "c", "d"]
        with pytest.raises(ZeroDivisionError):
            fail_inside()
        assert len(bodies(node)) == 4
        with pytest.raises(LocalError):
            transaction.commit()


def test_deliveries_are_part_of_a_transaction(node: ThreadedNode, connection: Connection) -> None:
    for number in range(3):
        node.put("q", number)
    with connection.receiver("q", auto_accept=False) as receiver:
        deliveries = [receiver.receive() for _ in range(3)]
        with connection.transaction() as transaction:
            deliveries[0].accept(transaction=transaction)
            deliveries[1].reject("x:y", transaction=transaction)
            assert len(node.messages("q")) == 3
        assert bodies(node) == [2]
        with connection.transaction() as transaction:
            deliveries[2].accept(transaction=transaction)
            transaction.rollback()
        assert bodies(node) == [2]


def test_a_transaction_that_cannot_be_carried_out_is_an_error(
    node: ThreadedNode, connection: Connection
) -> None:
    sender = connection.sender("q")
    node.script.on(Transfer, when=lambda seen: b"\x00\x53\x32" in seen.payload).drop()
    with pytest.raises(OperationTimedOut), connection.transaction(timeout=0.05) as transaction:
        sender.send("x", transaction=transaction)
    with pytest.raises((LocalError, ConnectionClosed), match="closed"), connection.transaction():
        connection.close()
