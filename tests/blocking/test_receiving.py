"""Receivers of the blocking twin, deliveries and their outcomes, requests."""

from __future__ import annotations

import gc
import threading

import pytest

from amqpforge.blocking import Connection, Message, MessageAborted, StreamedDelivery
from amqpforge.errors import LinkDetached, LocalError, OperationTimedOut
from amqpforge.testing import ThreadedNode
from amqpforge.testing.rule import error_of
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Flow,
    Modified,
    Rejected,
    Released,
    SenderSettleMode,
    Transfer,
)


def fill(node: ThreadedNode, number: int) -> None:
    for body in range(number):
        node.put("q", body)


def outcomes(node: ThreadedNode) -> list[object]:
    return [stored.outcome for stored in node.queue("q").retired]


def test_messages_come_in_order(node: ThreadedNode, connection: Connection) -> None:
    fill(node, 500)
    with connection.receiver("q", credit=20) as receiver:
        assert (receiver.address, receiver.is_attached, receiver.filters) == ("q", True, {})
        got = [receiver.receive().message.body for _ in range(500)]
        assert got == list(range(500))
        assert receiver.counters.handed_over == 500
    assert outcomes(node) == [Accepted()] * 500


def test_a_receiver_without_messages_is_out_of_time(connection: Connection) -> None:
    with connection.receiver("q") as receiver, pytest.raises(OperationTimedOut, match=r"0\.05 s"):
        receiver.receive(timeout=0.05)


def test_iterating_accepts_what_is_dealt_with(node: ThreadedNode, connection: Connection) -> None:
    fill(node, 4)
    with connection.receiver("q") as receiver:
        for delivery in receiver:
            assert delivery.receiver is receiver
            if delivery.message.body == 1:
                delivery.reject("x:y", "no")
            if delivery.message.body == 3:
                break
        node.wait_for(lambda: len(outcomes(node)) >= 3)
    assert [type(outcome) for outcome in outcomes(node)] == [Accepted, Rejected, Accepted, Accepted]


def test_a_loop_that_is_left_accepts_the_last_one(node: ThreadedNode, connection: Connection) -> None:
    fill(node, 1)
    receiver = connection.receiver("q")
    for _ in receiver:
        break
    gc.collect()
    node.wait_for(lambda: outcomes(node) == [Accepted()])


def test_a_block_that_fails_leaves_the_message_at_hand(node: ThreadedNode, connection: Connection) -> None:
    fill(node, 2)

    def fail_at_the_second() -> None:
        with connection.receiver("q") as receiver:
            for delivery in receiver:
                assert delivery.message.body == 0

    with pytest.raises(AssertionError):
        fail_at_the_second()
    assert outcomes(node) == [Accepted()]
    assert [message.body for message in node.messages("q")] == [1]


def test_a_loop_ends_when_the_receiver_is_closed(node: ThreadedNode, connection: Connection) -> None:
    fill(node, 3)
    receiver = connection.receiver("q")
    got = []
    for delivery in receiver:
        got.append(delivery.message.body)
        if len(got) == 3:
            receiver.close()
    assert got == [0, 1, 2]
    with pytest.raises((LocalError, LinkDetached), match="closed"):
        receiver.receive()


def test_what_nobody_has_taken_is_released(node: ThreadedNode, connection: Connection) -> None:
    fill(node, 5)
    receiver = connection.receiver("q")
    assert receiver.receive().message.body == 0
    node.wait_for(lambda: node.queue("q").depth == 0)
    receiver.close()
    node.wait_for(lambda: node.queue("q").depth == 4)


def test_each_outcome_reaches_the_sender(node: ThreadedNode, connection: Connection) -> None:
    fill(node, 4)
    with connection.receiver("q", auto_accept=False) as receiver:
        deliveries = [receiver.receive() for _ in range(4)]
        assert deliveries[0]._is_undecided
        assert not deliveries[0].settled
        deliveries[0].accept()
        deliveries[1].reject("amqp:decode-error", "what?")
        deliveries[2].modify(delivery_failed=True, undeliverable_here=True)
        deliveries[3].release()
        shown = [delivery.outcome for delivery in deliveries]
        assert [type(outcome) for outcome in shown] == [Accepted, Rejected, Modified, Released]
        assert all(delivery.settled for delivery in deliveries)
        assert not any(delivery._is_undecided for delivery in deliveries)
        assert receiver.receive().message.body == 3
    node.wait_for(lambda: len(outcomes(node)) == 2)


def test_a_delivery_gets_one_outcome(node: ThreadedNode, connection: Connection) -> None:
    fill(node, 1)
    with connection.receiver("q", auto_accept=False) as receiver:
        delivery = receiver.receive()
        delivery.accept()
        delivery.accept()
        with pytest.raises(LocalError, match="already"):
            delivery.release()
        with pytest.raises(LocalError, match="already"):
            delivery.reject()


def test_an_outcome_that_no_frame_holds_is_told_where_it_is_given(
    node: ThreadedNode, connection: Connection
) -> None:
    fill(node, 1)
    with connection.receiver("q", auto_accept=False) as receiver:
        delivery = receiver.receive()
        with pytest.raises(LocalError):
            delivery.reject("x:y", "much" * 100_000)
        delivery.accept()
    assert outcomes(node) == [Accepted()]


def test_messages_that_were_sent_settled_make_room_as_they_are_taken(
    node: ThreadedNode, connection: Connection
) -> None:
    fill(node, 10)
    with connection.receiver("q", credit=2, snd_settle_mode=SenderSettleMode.SETTLED) as receiver:
        got = [receiver.receive() for _ in range(10)]
        assert all(delivery.settled for delivery in got)
        assert receiver.counters.unsettled == 0
    assert not node.queue("q")


def test_without_a_window_each_call_asks_for_one(node: ThreadedNode, connection: Connection) -> None:
    fill(node, 3)
    with connection.receiver("q", credit=0) as receiver:
        assert node.queue("q").depth == 3
        assert [receiver.receive().message.body for _ in range(2)] == [0, 1]
        assert node.queue("q").depth == 1
    assert max(flow.link_credit or 0 for flow in node.received(Flow)) == 1


def test_draining_and_going_on(node: ThreadedNode, connection: Connection) -> None:
    fill(node, 3)
    with connection.receiver("q", credit=10) as receiver:
        assert receiver.drain() == 3
        assert [receiver.receive().message.body for _ in range(3)] == [0, 1, 2]
        node.put("q", "later")
        with pytest.raises(OperationTimedOut):
            receiver.receive(timeout=0.05)
        receiver.resume()
        assert receiver.receive().message.body == "later"


def test_browsing_leaves_messages(node: ThreadedNode, connection: Connection) -> None:
    fill(node, 2)
    with connection.receiver("q", mode="copy") as receiver:
        assert [receiver.receive().message.body for _ in range(2)] == [0, 1]
    assert len(node.queue("q")) == 2


def test_a_link_that_is_detached_ends_the_loop_with_an_error(
    node: ThreadedNode, connection: Connection
) -> None:
    receiver = connection.receiver("q")
    detaching = threading.Thread(
        target=lambda: node.connections[0].detach(
            receiver.name, error_of("amqp:resource-deleted"), closed=True
        )
    )
    detaching.start()
    with pytest.raises(LinkDetached, match="resource-deleted"):
        list(receiver)
    detaching.join()
    assert isinstance(receiver.error, LinkDetached)


# ---- pieces ----


def test_a_message_is_read_piece_by_piece(node: ThreadedNode, connection: Connection) -> None:
    size = 6_000_000  # more than what is sent ahead of the reader
    node.put("q", Message(b"x" * size, subject="film"))
    with connection.receiver("q", stream=True) as receiver:
        delivery = receiver.receive()
        assert isinstance(delivery, StreamedDelivery)
        assert delivery.head().subject == "film"
        pieces = list(delivery.data())
        assert len(pieces) > 1
        assert b"".join(pieces) == b"x" * size
        delivery.accept()
    assert outcomes(node) == [Accepted()]


def test_a_loop_over_pieces_that_is_left_can_be_taken_up(node: ThreadedNode, connection: Connection) -> None:
    node.put("q", Message(bytes(300_000)))
    with connection.receiver("q", stream=True) as receiver:
        delivery = receiver.receive()
        assert isinstance(delivery, StreamedDelivery)
        size = len(next(iter(delivery.octets())))
        size += sum(map(len, delivery.octets()))
        assert size == len(Message(bytes(300_000)).encode())


def test_a_message_that_is_broken_off_is_an_error(node: ThreadedNode, connection: Connection) -> None:
    node.put("q", Message(b"x" * 6_000_000))
    node.script.before(Transfer, skip=3, times=1).replace(
        lambda seen: Transfer(handle=seen.performative.handle, aborted=True)
    )
    node.script.before(Transfer, skip=4).drop()
    with connection.receiver("q", stream=True) as receiver:
        delivery = receiver.receive()
        assert isinstance(delivery, StreamedDelivery)
        with pytest.raises(MessageAborted):
            list(delivery.data())


# ---- requests ----


def test_a_request_is_answered(node: ThreadedNode, connection: Connection) -> None:
    with connection.requester("service") as requester, connection.receiver("service") as service:
        assert requester.reply_address
        promise = connection.sender("x").post("x")

        def answer() -> None:
            request = service.receive().message
            reply = Message(f"{request.body}!", correlation_id=request.message_id)
            with connection.sender(request.reply_to) as sender:
                sender.send(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        assert requester.request("hello").body == "hello!"
        thread.join()
        promise.result(5)
        with pytest.raises(OperationTimedOut, match="answer"):
            requester.request("silence", timeout=0.05)
