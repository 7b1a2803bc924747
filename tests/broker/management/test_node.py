"""The node ``$management``: how requests come, and where replies go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from amqpforge.broker.access import Access, Permissions
from amqpforge.broker.amqp_1_0.management import manage
from amqpforge.broker.errors import StoreError
from amqpforge.broker.management import Manager
from amqpforge.broker.store import Recovered, Store
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    ReceiverSettleMode,
    SenderSettleMode,
    Source,
    Target,
    TransactionalState,
)
from tests.broker.amqp_1_0.ground import Ground, a_ground
from tests.broker.amqp_1_0.peer import Peer, condition_of, message_of, rejection

NODE = "$management"


class SlowStore(Store):
    """A store that commits when the test says so."""

    def __init__(self) -> None:
        self.open_units: list[Any] = []

    @property
    def is_durable(self) -> bool:
        return True

    def open(self) -> Recovered:
        return Recovered(definitions=(), messages=iter(()), entries=iter(()), remembered=iter(()))

    def commit(self, unit: Any, done: Any) -> None:
        self.open_units.append(done)

    def finish(self, error: StoreError | None = None) -> None:
        units, self.open_units = self.open_units, []
        for done in units:
            done(error)

    def read(self, messages: Iterable[int]) -> dict[int, bytes]:
        raise AssertionError("nothing is read here")

    async def close(self) -> None:
        """There is nothing to finish."""


def managed(*queues: str, **options: Any) -> Ground:
    ground = a_ground(*queues, **options)
    manager = Manager(cast("Any", ground))
    manage(ground.service, manager)
    manager.start()
    return ground


def links(peer: Peer, *, credit: int = 100, address: str = "me") -> tuple[Sender, Receiver]:
    """A link for requests, and one for replies whose target the client calls ``address``."""
    replies = peer.receiver(NODE, "replies", target=Target(address=address), credit=credit)
    return peer.sender(NODE, "requests"), replies


def request(
    operation: str = "READ", type: str = "vhost", body: Any = None, *, to: str | None = "me", **options: Any
) -> Message:
    properties: dict[str, Any] = {"operation": operation, "type": type}
    properties |= {name: options.pop(name) for name in ("name", "count", "offset") if name in options}
    return Message(body, reply_to=to, application_properties=properties, **options)


def replies_of(peer: Peer, receiver: Receiver) -> list[Message]:
    return [message_of(delivery) for delivery in peer.got(receiver)]


def test_a_reply_goes_to_the_link_that_has_its_address() -> None:
    peer = managed().peer()
    requests, replies = links(peer)
    other = peer.receiver(NODE, "other", target=Target(address="other"), credit=9)
    assert peer.send(requests, request(message_id="a")).remote_state == Accepted()
    peer.send(requests, request(message_id="b", correlation_id=b"c"))
    peer.send(requests, request("CREATE", "queue", {"max_length": 3}, name="q", message_id=None))
    first, second, third = replies_of(peer, replies)
    assert (first.correlation_id, second.correlation_id, third.correlation_id) == ("a", b"c", None)
    told = first.application_properties
    assert (told["statusCode"], told["statusDescription"]) == (200, "OK")
    assert type(told["statusCode"]).__name__ == "Int"
    assert first.body["name"] == "/"
    assert third.application_properties["statusCode"] == 201
    assert third.body["max_length"] == 3
    assert peer.got(other) == []


def test_replies_come_settled() -> None:
    peer = managed().peer()
    requests, replies = links(peer)
    assert replies.snd_settle_mode is SenderSettleMode.SETTLED
    peer.send(requests, request())
    (delivery,) = peer.got(replies)
    assert delivery.remote_settled


def test_a_reply_goes_to_the_link_with_the_name_of_that_of_the_request() -> None:
    peer = managed().peer()
    pairs = []
    for name in ("one", "two"):
        receiver = peer.receiver(NODE, name, credit=5)
        pairs.append((peer.sender(NODE, name), receiver))
    for number, (sender, _) in enumerate(pairs):
        peer.send(sender, request(to=NODE, message_id=str(number)))
    assert [[reply.correlation_id for reply in replies_of(peer, receiver)] for _, receiver in pairs] == [
        ["0"],
        ["1"],
    ]
    lonely = peer.sender(NODE, "three")
    assert rejection(peer.send(lonely, request(to=NODE)))[0] == "amqp:not-found"


def test_a_reply_goes_to_a_queue() -> None:
    peer = managed("answers").peer()
    requests = peer.sender(NODE)
    dynamic = peer.receiver(None, "dynamic", source=Source(dynamic=True), credit=5)
    assert isinstance(dynamic.source, Source)
    for to in ("answers", "/queues/answers", str(dynamic.source.address)):
        assert peer.send(requests, request(to=to, message_id=to)).remote_state == Accepted()
    named = peer.receiver("answers", credit=5)
    assert [reply.correlation_id for reply in replies_of(peer, named)] == ["answers", "/queues/answers"]
    (reply,) = replies_of(peer, dynamic)
    assert reply.application_properties["statusCode"] == 200


@pytest.mark.parametrize(
    ("to", "condition", "text"),
    [
        (None, "amqp:invalid-field", "no reply-to"),
        ("q", "amqp:not-found", "'q' is no queue"),
        ("nowhere", "amqp:unauthorized-access", "'me' may not write 'nowhere'"),
        ("/exchanges/amq.topic", "amqp:not-found", "is no queue"),
        ("/planets/mars", "amqp:invalid-field", "none of the known forms"),
        (NODE, "amqp:not-found", "no link"),
        ("locked", "amqp:unauthorized-access", "'me' may not write 'locked'"),
    ],
)
def test_who_cannot_be_answered_changes_nothing(to: str | None, condition: str, text: str) -> None:
    access = Access({("me", "/"): Permissions.of(configure=".*", read=".*", write="q|amq.*")})
    ground = managed("locked", access=access)
    peer = ground.peer(user="me")
    delivery = peer.send(peer.sender(NODE), request("CREATE", "queue", name="new", to=to))
    found = rejection(delivery)
    assert (found[0], text in found[1]) == (condition, True), found
    assert list(ground.host.queues) == ["locked"]


def test_a_malformed_request_is_answered_and_octets_that_are_no_message_are_rejected() -> None:
    peer = managed().peer()
    requests, replies = links(peer)
    for body in (b"octets", "text", [1], {1: 2}):
        assert peer.send(requests, request(body=body)).remote_state == Accepted()
    assert peer.send(requests, Message(reply_to="me")).remote_state == Accepted()
    told = [reply.application_properties for reply in replies_of(peer, replies)]
    assert [one["statusCode"] for one in told] == [400] * 5
    assert "another section" in told[0]["statusDescription"]
    assert "'operation' is missing" in told[4]["statusDescription"]
    broken = requests.send(b"\x00\x53\x73\xff")
    peer.bench.run()
    assert rejection(broken)[0] == "amqp:decode-error"
    peer.send(requests, request())
    assert len(peer.got(replies)) == 1


def test_a_request_that_is_too_large_ends_the_link() -> None:
    peer = managed().peer()
    requests, _ = links(peer)
    remote = requests.remote
    assert remote is not None
    assert remote.max_message_size == 256 << 10


def test_a_request_is_no_part_of_a_transaction() -> None:
    ground = managed()
    peer = ground.peer()
    requests, replies = links(peer)
    id = peer.declare(peer.controller())
    delivery = peer.send(requests, request("CREATE", "queue", name="q"), state=TransactionalState(txn_id=id))
    assert rejection(delivery)[0] == "amqp:not-implemented"
    assert not ground.host.queues
    assert peer.got(replies) == []


def test_what_is_changed_is_answered_once_it_is_safe() -> None:
    store = SlowStore()
    ground = managed(store=store)
    peer = ground.peer()
    requests, replies = links(peer)
    delivery = peer.send(requests, request("CREATE", "queue", {"durable": True}, name="q"))
    peer.send(requests, request(message_id="read"))
    assert [reply.correlation_id for reply in replies_of(peer, replies)] == ["read"]
    assert delivery.remote_state is None
    store.finish()
    ground.run()
    (reply,) = replies_of(peer, replies)
    assert reply.application_properties["statusCode"] == 201
    assert delivery.remote_state == Accepted()


def test_what_cannot_be_made_safe_has_failed() -> None:
    store = SlowStore()
    ground = managed(store=store)
    peer = ground.peer()
    requests, replies = links(peer)
    peer.send(requests, request("CREATE", "queue", {"durable": True}, name="q"))
    store.finish(StoreError("the disk is full"))
    ground.run()
    (reply,) = replies_of(peer, replies)
    told = reply.application_properties
    assert (told["statusCode"], told["statusDescription"]) == (500, "the disk is full")


def test_a_client_that_leaves_before_the_store_is_done() -> None:
    store = SlowStore()
    ground = managed(store=store)
    peer = ground.peer()
    requests, _ = links(peer)
    peer.send(requests, request("CREATE", "queue", {"durable": True}, name="q"))
    peer.lose()
    store.finish()
    ground.run()
    assert "q" in ground.host.queues


def test_a_client_that_takes_no_replies_has_no_credit_for_requests_soon() -> None:
    ground = managed()
    peer = ground.peer()
    requests, replies = links(peer, credit=0)
    sent = [requests.send(request(message_id=str(number)).encode()) for number in range(500)]
    ground.run()
    answered = sum(delivery.remote_state is not None for delivery in sent)
    assert 100 <= answered <= 250
    other = ground.peer(container="other")
    others, replies_of_others = links(other)
    other.send(others, request())
    assert len(other.got(replies_of_others)) == 1
    peer.flow(replies, 1000)
    ground.run()
    assert [reply.correlation_id for reply in replies_of(peer, replies)] == [str(n) for n in range(500)]
    assert all(delivery.remote_state == Accepted() for delivery in sent)


def test_requests_whose_replies_have_nowhere_to_go_any_more() -> None:
    ground = managed()
    peer = ground.peer()
    requests, replies = links(peer, credit=0)
    sent = [requests.send(request().encode()) for _ in range(150)]
    ground.run()
    replies.close()
    ground.run()
    outcomes = {type(delivery.remote_state).__name__ for delivery in sent}
    assert outcomes == {"Accepted", "Rejected"}
    assert not ground.service.management._replies  # type: ignore[union-attr]
    assert not ground.service.management._pairs  # type: ignore[union-attr]


def test_a_reply_that_the_link_does_not_take() -> None:
    ground = managed(*(f"q{number}" for number in range(50)))
    peer = ground.peer()
    replies = peer.attach(
        Receiver(
            "small",
            source=Source(address=NODE),
            target=Target(address="small"),
            max_message_size=4096,
        )
    )
    peer.flow(replies, 10)
    requests = peer.sender(NODE)
    peer.send(requests, request("QUERY", "queue", to="small"))
    peer.send(requests, request("QUERY", "queue", {"attributeNames": ["name"]}, to="small", count=3))
    large, small = replies_of(peer, replies)
    assert large.application_properties["statusCode"] == 409
    assert "ask for less" in large.application_properties["statusDescription"]
    assert small.body["results"] == [["q0"], ["q1"], ["q2"]]
    assert small.application_properties["count"] == 3


def test_a_receiver_that_settles_second_is_served_too() -> None:
    peer = managed().peer()
    requests = peer.sender(NODE, rcv_settle_mode=ReceiverSettleMode.SECOND)
    _, replies = links(peer)
    delivery = peer.send(requests, request())
    assert delivery.remote_state == Accepted()
    assert len(peer.got(replies)) == 1


def test_connections() -> None:
    ground = managed("q")
    mine, other = ground.peer(container="mine"), ground.peer(container="other")
    elsewhere = ground.peer(container="elsewhere", hostname="vhost:other")
    requests, replies = links(mine)
    other.receiver("q")
    mine.send(requests, request("QUERY", "connection"))
    mine.send(requests, request("QUERY", "consumer"))
    connections, consumers = replies_of(mine, replies)
    names = connections.body["attributeNames"]
    shown = [dict(zip(names, row, strict=True)) for row in connections.body["results"]]
    by_peer = {one["peer"]: one for one in shown}
    assert set(by_peer) == {"mine", "other"}
    assert (by_peer["mine"]["links"], by_peer["other"]["links"], by_peer["mine"]["sessions"]) == (2, 1, 1)
    assert by_peer["mine"]["frames_received"] > 0
    assert (by_peer["mine"]["address"], by_peer["mine"]["since"]) == ("local", ground.clock.now())
    (consumer,) = consumers.body["results"]
    assert consumer[:3] == ["q", "other/in", by_peer["other"]["id"]]
    id = by_peer["other"]["id"]
    mine.send(requests, request("DELETE", "connection", {"reason": "so there"}, name=id))
    mine.send(requests, request("DELETE", "connection", name=id))
    mine.send(requests, request("DELETE", "connection", name=by_peer["mine"]["id"]))
    assert [reply.application_properties["statusCode"] for reply in replies_of(mine, replies)] == [
        204,
        404,
        403,
    ]
    assert str(other.closed.condition) == "amqp:connection:forced"
    assert other.closed.description == "so there"
    assert mine.closed is None
    assert elsewhere.closed is None


def test_whose_connections_one_sees_and_may_close() -> None:
    access = Access(
        {
            ("user", "/"): Permissions.of(read="q"),
            ("reader", "/"): Permissions.of(read=".*"),
            ("boss", "/"): Permissions.of(configure=".*", read=".*"),
        }
    )
    ground = managed(access=access)
    peers = {user: ground.peer(container=user, user=user) for user in ("user", "reader", "boss")}
    ground.peer(container="second", user="user")
    ids: dict[str, str] = {}

    def ask(user: str, message: Message) -> Message:
        peer = peers[user]
        requests, replies = links(peer)
        peer.send(requests, message)
        (reply,) = replies_of(peer, replies)
        for link in (requests, replies):
            link.close()
        ground.run()
        return reply

    for user in peers:
        names = {"attributeNames": ["peer", "id"]}
        reply = ask(user, request("QUERY", "connection", names))
        ids |= dict(reply.body["results"])
        seen = {peer for peer, _ in reply.body["results"]}
        assert seen == ({"user", "second"} if user == "user" else {*peers, "second"})
    closing = [
        ("user", "boss", 404),
        ("reader", "boss", 403),
        ("user", "second", 204),
        ("boss", "reader", 204),
    ]
    for user, whose, status in closing:
        reply = ask(user, request("DELETE", "connection", name=ids[whose]))
        assert reply.application_properties["statusCode"] == status


def test_there_is_no_such_node_on_a_broker_that_is_not_managed() -> None:
    peer = a_ground().peer()
    assert condition_of(peer.sender(NODE)) == "amqp:not-found"


# --- what a client can take --------------------------------------------------------------------------------


def test_requests_that_wait_count_as_memory_and_are_rejected_where_there_is_none() -> None:
    ground = managed()
    bodies = ground.core.bodies
    peer = ground.peer()
    requests, replies = links(peer, credit=0)
    told = [peer.send(requests, request()) for _ in range(100)]
    assert bodies.used == 0  # as all are answered, and the replies wait
    told.append(peer.send(requests, request(name="x" * 1000)))
    waiting = bodies.used
    assert waiting > 1000
    taken = 0
    while bodies.come(1000):
        taken += 1000
    refused = peer.send(requests, request(name="x" * 1000))
    assert rejection(refused)[0] == "amqp:resource-limit-exceeded"
    assert told[-1].remote_state is None
    peer.flow(replies, 200)
    ground.run()
    assert [one.remote_state for one in told] == [Accepted()] * 101
    assert bodies.used == taken


def test_requests_that_wait_are_forgotten_with_their_link() -> None:
    ground = managed()
    peer = ground.peer()
    requests, _ = links(peer, credit=0)
    for _ in range(99):
        peer.send(requests, request())
    for _ in range(3):
        peer.send(requests, request(name="x" * 1000))
    assert ground.core.bodies.used > 0
    requests.close()
    ground.run()
    assert ground.core.bodies.used == 0


def test_large_replies_wait_in_smaller_number() -> None:
    ground = managed(*(f"{number:0200}" for number in range(500)))
    peer = ground.peer()
    requests, replies = links(peer, credit=0)
    told = [peer.send(requests, request("QUERY", "queue")) for _ in range(10)]
    answered = [one.remote_state for one in told].count(Accepted())
    assert 1 <= answered < 10
    peer.flow(replies, 100)
    ground.run()
    assert [one.remote_state for one in told] == [Accepted()] * 10


def test_a_connection_has_so_many_links_to_the_node() -> None:
    peer = managed().peer()
    kept = [peer.sender(NODE, f"to {number}") for number in range(64)]
    assert condition_of(peer.sender(NODE, "one more")) == "amqp:resource-limit-exceeded"
    kept[0].close()
    assert peer.sender(NODE, "another").is_attached
    assert peer.receiver(NODE, "replies").is_attached
