"""Messages that clients receive: who gets what, in which state it is meanwhile, and what outcomes do."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import pytest

from amqpforge.broker.amqp_1_0.form import FORM
from amqpforge.broker.message import Message as StoredMessage
from amqpforge.broker.settings import QueueSettings
from amqpforge.engine.sender import Sender
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    Described,
    Error,
    MessageState,
    Modified,
    ReceiverSettleMode,
    Rejected,
    Released,
    SenderSettleMode,
    Source,
    StdDistMode,
    Symbol,
)
from tests.broker.queues.test_work import calls

from .ground import Ground, a_ground
from .peer import Peer, condition_of, message_of

KEY: Any = Symbol("x-opt-a")
SELECTOR = Symbol("apache.org:selector-filter:string")
COPY = StdDistMode.COPY


def a_queue(*messages: Any, name: str = "q", **settings: Any) -> tuple[Ground, Peer]:
    """A queue with messages, and a client."""
    ground = a_ground()
    ground.admin.declare_queue(name, QueueSettings(**settings))
    peer = ground.peer()
    sender = peer.sender(name, "fill")
    for message in messages:
        peer.send(sender, message)
    sender.close()
    ground.run()
    return ground, peer


def states(ground: Ground, queue: str = "q") -> list[MessageState]:
    return [entry.state for entry in ground.host.queues[queue]]


@pytest.mark.spec("M-NODE-002", "M-NODE-003", "M-NODE-012")
def test_a_message_is_acquired_by_one_link_and_archived_once_accepted() -> None:
    ground, peer = a_queue("m")
    assert states(ground) == [MessageState.AVAILABLE]
    one = peer.receiver("q", "one", credit=5)
    other = peer.receiver("q", "other", credit=5)
    (delivery,) = peer.got(one) + peer.got(other)
    assert states(ground) == [MessageState.ACQUIRED]
    peer.settle(delivery, Accepted())
    assert states(ground) == []
    assert peer.got(one) + peer.got(other) == []


def test_who_asks_is_told_how_many_messages_there_are_just_now() -> None:
    _, peer = a_queue("a", "b")
    receiver = peer.receiver("q")
    sender = peer.sender("q", "more")
    for expected in (2, 3):
        receiver.flow(echo=True)
        peer.bench.run()
        assert receiver.flow_state.available == expected
        peer.send(sender, "c")


@pytest.mark.spec("M-NODE-005", "M-NODE-009")
def test_the_message_is_acquired_until_the_delivery_is_settled() -> None:
    for outcome in (Accepted(), Rejected()):
        ground, peer = a_queue("m")
        receiver = peer.receiver("q", credit=5)
        (delivery,) = peer.got(receiver)
        assert states(ground) == [MessageState.ACQUIRED]
        peer.settle(delivery, outcome)
        assert states(ground) == []
        assert peer.got(peer.receiver("q", "other", credit=1)) == []


@pytest.mark.spec("M-OUTCOME-011", "M-OUTCOME-012", "M-NODE-010")
def test_released_frees_the_message_unchanged_for_anybody() -> None:
    original = Message("m", annotations={"x-opt-a": 1}, priority=7)
    _, peer = a_queue(original)
    receiver = peer.receiver("q", credit=9)
    for _ in range(5):
        (delivery,) = peer.got(receiver)
        assert message_of(delivery) == original
        peer.settle(delivery, Released())
    (delivery,) = peer.got(receiver)
    peer.flow(receiver, 0)
    other = peer.receiver("q", "other", credit=1)
    peer.settle(delivery, Released())
    (again,) = peer.got(other)
    assert message_of(again) == original


@pytest.mark.spec("M-OUTCOME-017", "M-OUTCOME-021", "M-OUTCOME-022", "M-OUTCOME-018")
@pytest.mark.parametrize(("failed", "here", "annotates"), list(product((False, True), repeat=3)))
def test_each_part_of_modified_counts_by_itself(failed: bool, here: bool, annotates: bool) -> None:
    _, peer = a_queue(Message({"a": 1}, annotations={"x-opt-b": 1}, message_id="m"))
    receiver = peer.receiver("q", credit=9)
    (delivery,) = peer.got(receiver)
    bare = message_of(delivery).sections.bare
    changes = {KEY: 2} if annotates else None
    peer.settle(
        delivery, Modified(delivery_failed=failed, undeliverable_here=here, message_annotations=changes)
    )
    again = peer.got(receiver)
    assert len(again) == (0 if here else 1)
    if here:
        again = peer.got(peer.receiver("q", "other", credit=1))
    message = message_of(again[0])
    assert message.delivery_count == int(failed)
    assert dict(message.annotations) == {"x-opt-b": 1} | ({"x-opt-a": 2} if annotates else {})
    assert message.sections.bare == bare


@pytest.mark.spec("M-OUTCOME-023", "M-OUTCOME-024")
def test_undeliverable_here_bars_one_link_and_no_other() -> None:
    _, peer = a_queue("m")
    receiver = peer.receiver("q", credit=5)
    (delivery,) = peer.got(receiver)
    peer.settle(delivery, Modified(undeliverable_here=True))
    peer.flow(receiver, 50)
    assert peer.got(receiver) == []
    assert peer.bodies(peer.receiver("q", "other", credit=1)) == ["m"]


@pytest.mark.spec("M-HEADER-018", "M-OUTCOME-009")
def test_the_delivery_count_is_seen_by_the_next_receiver_and_on_a_dead_letter() -> None:
    ground = a_ground("dead")
    ground.admin.declare_queue("q", QueueSettings(dead_letter_exchange="", dead_letter_key="dead"))
    peer = ground.peer()
    peer.send(peer.sender("q"), Message("m", durable=False))
    receiver = peer.receiver("q", credit=9)
    for count in range(3):
        (delivery,) = peer.got(receiver)
        assert message_of(delivery).delivery_count == count
        peer.settle(delivery, Modified(delivery_failed=True))
    (delivery,) = peer.got(receiver)
    peer.settle(delivery, Rejected(error=Error(condition=AmqpError.INVALID_FIELD)))
    (letter,) = peer.got(peer.receiver("dead", "graves", credit=1))
    message = message_of(letter)
    assert (message.body, message.delivery_count) == ("m", 4)
    assert message.annotations["x-opt-first-death-queue"] == "q"
    assert message.annotations["x-opt-first-death-reason"] == "rejected"


@pytest.mark.spec("M-HEADER-016")
def test_first_acquirer_is_told_only_as_long_as_no_other_link_had_the_message() -> None:
    _, peer = a_queue(Message("m", first_acquirer=True))
    one = peer.receiver("q", "one", credit=1)
    (delivery,) = peer.got(one)
    assert message_of(delivery).first_acquirer is True
    other = peer.receiver("q", "other", credit=1)
    peer.settle(delivery, Released())
    (again,) = peer.got(other)
    assert message_of(again).first_acquirer is False


@pytest.mark.spec("M-HEADER-014", "M-NODE-007", "M-HEADER-013")
def test_a_message_that_has_outlived_its_ttl_is_not_delivered() -> None:
    ground, peer = a_queue(Message("short", ttl=1), "long")
    ground.advance(0.9)
    assert len(states(ground)) == 2
    ground.advance(0.2)
    assert len(states(ground)) == 1
    assert peer.bodies(peer.receiver("q", credit=5)) == ["long"]


@pytest.mark.spec("M-HEADER-015")
def test_ttl_goes_out_cut_to_what_is_left_so_that_a_loop_ends() -> None:
    ground = a_ground("a", "b")
    peer = ground.peer()
    peer.send(peer.sender("a", "to-a"), Message("m", ttl=1.0))
    ttls: list[int | None] = []
    for place in ("a", "b", "a", "b", "a"):
        ground.advance(0.3)
        receiver = peer.receiver(place, f"from-{len(ttls)}", credit=1)
        deliveries = peer.got(receiver)
        if not deliveries:
            break
        header = message_of(deliveries[0]).sections.header
        assert header is not None
        ttls.append(header.ttl)
        peer.settle(deliveries[0], Accepted())
        onward = peer.sender("b" if place == "a" else "a", f"on-{len(ttls)}")
        onward.send(deliveries[0].payload)
        ground.run()
    assert ttls == [700, 400, 100]


@pytest.mark.spec("M-NODE-006", "M-TERM-010")
@pytest.mark.parametrize(("default", "failures"), [(Released(), 0), (Modified(delivery_failed=True), 1)])
def test_the_default_outcome_applies_when_the_source_goes(default: Any, failures: int) -> None:
    ground, peer = a_queue("m")
    source = Source(address="q", default_outcome=default)
    receiver = peer.receiver(source=source, credit=1)
    assert len(peer.got(receiver)) == 1
    peer.lose()
    other = ground.peer(container="other")
    (again,) = other.got(other.receiver("q", credit=1))
    assert message_of(again).delivery_count == failures


@pytest.mark.spec("M-TERM-012", "M-TERM-013")
def test_settling_without_a_state_takes_the_default_outcome() -> None:
    for default, left in ((None, 0), (Released(), 1)):
        ground, peer = a_queue("m")
        receiver = peer.receiver(source=Source(address="q", default_outcome=default), credit=1)
        (delivery,) = peer.got(receiver)
        peer.settle(delivery, None)
        assert len(states(ground)) == left


@pytest.mark.spec("M-NODE-013", "M-NODE-014", "M-NODE-015", "M-NODE-016")
def test_a_link_that_copies_takes_nothing_and_sees_each_message_once() -> None:
    ground, peer = a_queue("a", "b", "c", "d")
    copies = peer.receiver(source=Source(address="q", distribution_mode=COPY), credit=10)
    deliveries = peer.got(copies)
    assert [message_of(one).body for one in deliveries] == ["a", "b", "c", "d"]
    for delivery, outcome in zip(
        deliveries, (Accepted(), Rejected(), Released(), Modified(delivery_failed=True)), strict=True
    ):
        peer.settle(delivery, outcome)
    assert states(ground) == [MessageState.AVAILABLE] * 4
    peer.flow(copies, 20)
    assert peer.got(copies) == []
    copies.detach()
    ground.run()
    peer.attach(copies)
    peer.flow(copies, 20)
    assert peer.got(copies) == []
    moves = peer.receiver("q", "moves", credit=1)
    (first,) = peer.got(moves)
    assert message_of(first).delivery_count == 0
    peer.settle(first, Accepted())
    assert len(states(ground)) == 3


@pytest.mark.spec("M-TERM-008", "M-TERM-009", "M-FILTER-008")
def test_the_answer_tells_the_mode_in_use_and_the_filters_that_there_are() -> None:
    _, peer = a_queue()
    for asked, told in ((None, "move"), (StdDistMode.MOVE, "move"), (COPY, "copy")):
        receiver = peer.receiver(source=Source(address="q", distribution_mode=asked), name=f"in-{asked}")
        assert receiver.source.distribution_mode == told
        assert SELECTOR in receiver.source.capabilities


@pytest.mark.spec("M-FILTER-001", "M-FILTER-003", "M-FILTER-006", "M-FILTER-007")
def test_only_what_passes_each_filter_goes_out() -> None:
    messages = [
        Message(f"{a}{b}", application_properties={"a": a, "b": b}) for a, b in product((0, 1), repeat=2)
    ]
    _, peer = a_queue(*messages)
    one = Described(SELECTOR, "a = 1")
    other = Described(0x0000_468C_0000_0004, "b = 1")
    unknown = Described(Symbol("example:unknown"), "x")
    asked: Any = {Symbol("one"): one, Symbol("other"): other, Symbol("no"): None, Symbol("what"): unknown}
    receiver = peer.receiver(source=Source(address="q", filter=asked), credit=9)
    assert receiver.source.filter == {Symbol("one"): one, Symbol("other"): other}
    assert peer.bodies(receiver) == ["11"]
    rest = peer.receiver("q", "rest", credit=9)
    assert peer.bodies(rest) == ["00", "01", "10"]
    assert rest.source.filter is None


@pytest.mark.parametrize("value", ["a = = 1", 7])
def test_a_selector_that_is_none_refuses_the_link(value: Any) -> None:
    _, peer = a_queue()
    source = Source(address="q", filter={Symbol("s"): Described(SELECTOR, value)})
    assert condition_of(peer.receiver(source=source)) == "amqp:invalid-field"


def test_the_order_of_a_queue_holds_and_consumers_take_turns() -> None:
    ground, peer = a_queue(*range(6))
    one = peer.receiver("q", "one")
    other = peer.receiver("q", "other")
    one.flow(3)
    other.flow(3)
    ground.run()
    got = peer.bodies(one), peer.bodies(other)
    assert sorted(got[0] + got[1]) == list(range(6))
    assert got[0] == sorted(got[0])
    assert got[1] == sorted(got[1])


def test_a_drain_uses_up_the_credit_that_the_queue_has_nothing_for() -> None:
    _, peer = a_queue("a", "b")
    receiver = peer.receiver("q")
    peer.flow(receiver, 5, drain=True)
    assert peer.bodies(receiver) == ["a", "b"]
    assert receiver.link_credit == 0
    empty = peer.receiver("q", "empty")
    peer.flow(empty, 5, drain=True)
    assert empty.link_credit == 0


def test_a_drain_with_a_selector_looks_at_the_whole_queue_first() -> None:
    messages = [Message(n, application_properties={"n": n}) for n in range(2500)]
    ground, peer = a_queue(*messages)
    last = Described(SELECTOR, "n = 2499")
    receiver = peer.receiver(source=Source(address="q", filter={Symbol("s"): last}))
    peer.flow(receiver, 5, drain=True)
    for _ in range(10):
        ground.advance(0.001)
    assert peer.bodies(receiver) == [2499]
    assert receiver.link_credit == 0


def damage(ground: Ground, queue: str, **fields: Any) -> None:
    """Have something in a queue that is no message, as a store may give it back."""
    message = StoredMessage(FORM, b"\x00\x53\x70\xc0\x05", exchange="", key=queue, **fields)
    ground.host.traffic.publish(message, None, lambda refused, queues: None)


@pytest.mark.parametrize("fields", [{"expires_at": 1e12}, {}], ids=["with an end", "delivered before"])
def test_what_is_no_message_holds_up_nobody(fields: Any, caplog: pytest.LogCaptureFixture) -> None:
    ground, peer = a_queue(dead_letter_exchange="amq.fanout")
    ground.admin.declare_queue("dead", QueueSettings())
    ground.admin.bind("amq.fanout", "dead")
    damage(ground, "q", **fields)
    for entry in ground.host.queues["q"]:
        entry.was_acquired = not fields
    peer.send(peer.sender("q"), "m")
    receiver = peer.receiver("q", credit=5)
    assert peer.bodies(receiver) == ["m"]
    assert receiver.is_attached
    assert ground.host.queues["q"].counters.rejected == 1
    (letter,) = ground.host.queues["dead"]
    assert letter.message.payload == b"\x00\x53\x70\xc0\x05"
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "is damaged" in caplog.text


def test_who_copies_is_not_held_up_by_what_is_no_message() -> None:
    ground, peer = a_queue()
    damage(ground, "q", expires_at=1e12)
    peer.send(peer.sender("q"), "m")
    receiver = peer.receiver(source=Source(address="q", distribution_mode=COPY), credit=5)
    assert peer.bodies(receiver) == ["m"]
    assert len(states(ground)) == 2


def test_a_selector_sees_nothing_in_what_is_no_message() -> None:
    ground, peer = a_queue()
    damage(ground, "q")
    for entry in ground.host.queues["q"]:
        entry.delivery_count = 1
    peer.send(peer.sender("q"), Message("m", application_properties={"n": 1}))
    chosen = Source(address="q", filter={Symbol("s"): Described(SELECTOR, "n = 1")})
    assert peer.bodies(peer.receiver(source=chosen, credit=5)) == ["m"]


def test_what_is_sent_settled_is_gone_at_once() -> None:
    ground, peer = a_queue("m")
    receiver = peer.receiver("q", snd_settle_mode=SenderSettleMode.SETTLED, credit=5)
    assert peer.bodies(receiver) == ["m"]
    assert states(ground) == []


def test_in_settle_mode_second_the_broker_settles_once_the_outcome_is_safe() -> None:
    ground, peer = a_queue("m")
    receiver = peer.receiver("q", rcv_settle_mode=ReceiverSettleMode.SECOND, credit=1, auto_settle=False)
    (delivery,) = peer.got(receiver)
    delivery.update(Accepted())
    ground.run()
    assert delivery.remote_settled
    assert states(ground) == []


def test_outcomes_that_come_together_hold_each_for_its_message() -> None:
    ground, peer = a_queue(*range(8))
    receiver = peer.receiver("q", rcv_settle_mode=ReceiverSettleMode.SECOND, credit=8, auto_settle=False)
    deliveries = peer.got(receiver)
    outcomes: list[Any] = [Accepted(), Accepted(), Released(), Accepted(), Rejected(), *[Accepted()] * 2]
    for delivery, outcome in zip(deliveries, outcomes, strict=False):
        delivery.update(outcome)
    ground.run()
    queue = ground.host.queues["q"]
    assert (queue.counters.accepted, queue.counters.rejected) == (5, 1)
    assert [delivery.remote_settled for delivery in deliveries] == [True] * 7 + [False]
    assert [delivery.remote_state for delivery in deliveries[:7]] == outcomes
    assert (queue.ready, queue.unacknowledged) == (1, 1)
    assert peer.bodies(peer.receiver("q", "other", credit=8)) == [2]


def test_what_is_accepted_and_settled_at_once_is_so_once() -> None:
    ground, peer = a_queue(*range(4))
    receiver = peer.receiver("q", credit=4)
    deliveries = peer.got(receiver)
    for delivery in deliveries:
        delivery.update(Accepted())
    peer.engine.sessions[0].tell_gathered()
    for delivery in deliveries[1:3]:
        delivery.settle()
    ground.run()
    assert ground.host.queues["q"].counters.accepted == 4
    assert states(ground) == []
    (sender,) = [known.link for known in peer.head.links if isinstance(known.link, Sender)]
    assert sender.unsettled == {}
    assert all(delivery.settled or delivery.remote_settled for delivery in deliveries)


def test_what_is_accepted_of_copies_is_settled_and_stays() -> None:
    ground, peer = a_queue("a", "b")
    receiver = peer.receiver(
        source=Source(address="q", distribution_mode=COPY),
        rcv_settle_mode=ReceiverSettleMode.SECOND,
        credit=2,
        auto_settle=False,
    )
    deliveries = peer.got(receiver)
    for delivery in deliveries:
        delivery.update(Accepted())
    ground.run()
    assert [delivery.remote_settled for delivery in deliveries] == [True, True]
    assert states(ground) == [MessageState.AVAILABLE] * 2


@pytest.mark.parametrize(("mode", "most"), [(ReceiverSettleMode.FIRST, 36), (ReceiverSettleMode.SECOND, 45)])
def test_the_work_of_a_message_that_is_accepted_with_others(mode: ReceiverSettleMode, most: int) -> None:
    """Calls are counted, with a share of those that decode and encode frames; alone it takes hundreds."""
    ground, peer = a_queue(*range(100))
    receiver = peer.receiver("q", rcv_settle_mode=mode, credit=100, auto_settle=False)
    for delivery in peer.got(receiver):
        delivery.update(Accepted(), settled=mode is ReceiverSettleMode.FIRST)
    counted = calls(partial(_settled, ground, peer, peer.engine.data_to_send(0.0)))
    assert states(ground) == []
    assert counted < most * 100


def _settled(ground: Ground, peer: Peer, octets: bytes) -> None:
    """What the broker does with outcomes, to the last octet of its answer."""
    peer.head.engine.receive(octets, 0.0)
    for event in peer.head.engine.events():
        peer.head.on_event(event)
    ground.advance(0)
    peer.head.engine.data_to_send(0.0)


def test_a_message_that_is_too_large_for_one_receiver_goes_to_another() -> None:
    _, peer = a_queue(b"x" * 1000, b"y")
    small = peer.receiver("q", "small", max_message_size=100, credit=5)
    assert peer.bodies(small) == [b"y"]
    assert peer.bodies(peer.receiver("q", "large", credit=5)) == [b"x" * 1000]


def test_a_client_that_does_not_read_holds_back_little_and_nobody_else() -> None:
    ground, peer = a_queue(*[b"x" * 10_000] * 200)
    lazy = ground.peer(container="lazy")
    receiver = lazy.receiver("q")
    receiver.flow(1000)
    lazy.head.engine.receive(lazy.engine.data_to_send(0.0), 0.0)
    for event in lazy.head.engine.events():
        lazy.head.on_event(event)
    held = ground.host.queues["q"].unacknowledged
    assert 0 < held < 60
    ground.bench.peers.remove(lazy)
    quick = peer.receiver("q", "quick", credit=1000)
    assert len(peer.got(quick)) == 200 - held
    ground.bench.peers.append(lazy)
    ground.run()
    assert len(lazy.got(receiver)) == held


def test_all_of_a_long_queue_goes_through_a_narrow_transport() -> None:
    _, peer = a_queue(*[b"x" * 10_000] * 100)
    receiver = peer.receiver("q", credit=1000)
    assert len(peer.got(receiver)) == 100


def test_deleting_the_queue_closes_its_links() -> None:
    ground, peer = a_queue("m")
    receiver = peer.receiver("q", credit=1)
    assert len(peer.got(receiver)) == 1
    ground.admin.delete_queue("q")
    ground.run()
    assert condition_of(receiver) == "amqp:resource-deleted"
    assert not peer.head.links


@pytest.mark.spec("M-OUTCOME-019", "M-OUTCOME-010")
def test_what_is_held_too_long_is_taken_back() -> None:
    ground, peer = a_queue("m", acquisition_timeout=10.0)
    receiver = peer.receiver("q", credit=1)
    (delivery,) = peer.got(receiver)
    other = peer.receiver("q", "other", credit=1)
    ground.advance(11)
    (again,) = peer.got(other)
    assert message_of(again).delivery_count == 1
    assert delivery.remote_settled
    assert not isinstance(delivery.remote_state, Rejected)


@pytest.mark.spec("M-HEADER-007")
def test_a_message_of_higher_priority_goes_first_where_the_queue_has_levels() -> None:
    _, peer = a_queue(Message("low", priority=1), Message("high", priority=9), priority_levels=10)
    assert peer.bodies(peer.receiver("q", credit=2)) == ["high", "low"]


@pytest.mark.spec("M-NODE-001")
def test_one_message_in_two_queues_has_a_state_in_each() -> None:
    ground = a_ground("a", "b")
    for queue in ("a", "b"):
        ground.admin.bind("amq.fanout", queue)
    peer = ground.peer()
    peer.send(peer.sender("/exchanges/amq.fanout"), "m")
    (delivery,) = peer.got(peer.receiver("a", "from-a", credit=1))
    peer.settle(delivery, Accepted())
    assert states(ground, "a") == []
    assert states(ground, "b") == [MessageState.AVAILABLE]
