"""What can be asked for, without any encoding: maps in, maps out."""

from __future__ import annotations

from typing import Any, cast

import pytest

from amqpforge.broker.access import Access, Permissions
from amqpforge.broker.actor import Actor
from amqpforge.broker.management import Manager, Reply, Request
from amqpforge.broker.settings import QueueSettings
from tests.broker.amqp_1_0.ground import Ground, a_ground


class Asked:
    """A manager, and a user who asks it."""

    def __init__(self, ground: Ground | None = None, user: str = "me") -> None:
        self.ground = ground or a_ground()
        self.manager = Manager(cast("Any", self.ground))
        self.manager.start()
        self.actor: Actor = self.ground.actor(user, None, object())

    def ask(self, operation: str, kind: str, name: str | None = None, /, **body: Any) -> Reply:
        return self.manager.handle(Request(operation=operation, type=kind, name=name, body=body), self.actor)

    def query(self, type: str, offset: int = 0, count: int | None = None, **body: Any) -> Reply:
        request = Request(operation="QUERY", type=type, offset=offset, count=count, body=body)
        return self.manager.handle(request, self.actor)

    def names(self, type: str, **options: Any) -> list[Any]:
        """The first attribute of what a query finds."""
        reply = self.query(type, **options)
        assert reply.status == 200, reply.told
        return [row[0] for row in reply.body["results"]]


def test_a_queue_is_declared_asserted_and_deleted() -> None:
    asked = Asked()
    made = asked.ask("CREATE", "queue", "q", durable=True, max_length=7, message_ttl=2)
    assert (made.status, made.told, made.is_change) == (201, "Created", True)
    assert (made.body["name"], made.body["durable"], made.body["max_length"]) == ("q", True, 7)
    assert asked.ground.host.queue("q").settings == QueueSettings(durable=True, max_length=7, message_ttl=2.0)
    again = asked.ask("CREATE", "queue", "q", durable=True, max_length=7, message_ttl=2.0)
    assert (again.status, again.told) == (200, "OK")
    other = asked.ask("CREATE", "queue", "q", durable=True, max_length=8, message_ttl=2)
    assert other.status == 409
    assert "its max_length is 7, not 8:" in other.told
    gone = asked.ask("DELETE", "queue", "q")
    assert (gone.status, gone.body) == (200, {"messages": 0})
    assert asked.ask("READ", "queue", "q").status == 404


def test_the_broker_finds_a_name() -> None:
    asked = Asked()
    name = asked.ask("CREATE", "queue").body["name"]
    assert name in asked.ground.host.queues


def test_a_queue_that_is_used_or_not_empty_is_kept_if_that_is_asked_for() -> None:
    asked = Asked(a_ground("q"))
    peer = asked.ground.peer()
    peer.send(peer.sender("q"))
    kept = asked.ask("DELETE", "queue", "q", if_empty=True)
    assert (kept.status, kept.is_change) == (412, False)
    purged = asked.ask("PURGE", "queue", "q")
    assert (purged.status, purged.body) == (200, {"messages": 1})
    receiver = peer.receiver("q")
    assert asked.ask("DELETE", "queue", "q", if_unused=True).status == 412
    receiver.close()
    asked.ground.run()
    assert asked.ask("DELETE", "queue", "q", if_unused=True, if_empty=True).status == 200


def test_counts() -> None:
    asked = Asked(a_ground("q"))
    peer = asked.ground.peer()
    sender = peer.sender("q")
    for _ in range(3):
        peer.send(sender, "12345")
    peer.receiver("q", credit=1)
    body = asked.ask("READ", "queue", "q").body
    assert (body["messages"], body["messages_ready"], body["messages_unacknowledged"]) == (3, 2, 1)
    assert body["consumers"] == 1
    assert body["bytes"] > 3 * 5
    assert (body["totals"]["published"], body["totals"]["delivered"], body["totals"]["accepted"]) == (3, 1, 0)
    vhost = asked.ask("READ", "vhost").body
    assert (vhost["queues"], vhost["messages"], vhost["consumers"]) == (1, 3, 1)
    assert vhost["totals"] == {"published": 3, "delivered": 1, "accepted": 0}
    broker = asked.ask("READ", "broker", None).body
    assert (broker["product"], broker["user"], broker["vhost"]) == ("amqpforge", "me", "/")
    assert broker["usage"]["queues"] == {"used": 1, "limit": asked.ground.limits.queues}
    assert broker["usage"]["memory"]["used"] == body["bytes"]


def test_exchanges() -> None:
    asked = Asked()
    made = asked.ask("CREATE", "exchange", "e", type="topic", durable=True)
    assert (made.status, made.body["type"], made.body["durable"]) == (201, "topic", True)
    assert asked.ask("CREATE", "exchange", "e", type="topic", durable=True).status == 200
    other = asked.ask("CREATE", "exchange", "e", type="fanout", durable=True)
    assert other.status == 409
    assert "its type is 'topic', not 'fanout':" in other.told
    assert asked.ask("READ", "exchange", "e").body["bindings"] == 0
    assert asked.names("exchange")[-1] == "e"
    assert asked.ask("DELETE", "exchange", "e", if_unused=True).status == 204
    assert asked.ask("READ", "exchange", "e").status == 404
    assert asked.ask("CREATE", "exchange", "e", type="square").status == 501
    assert asked.ask("DELETE", "exchange", "amq.direct").status == 403
    assert asked.ask("CREATE", "exchange", "amq.mine").status == 403
    assert asked.ask("CREATE", "exchange").status == 400


def test_bindings() -> None:
    asked = Asked(a_ground("q", "other"))
    asked.ask("CREATE", "exchange", "e", type="topic")
    made = asked.ask("BIND", "queue", "q", source="e", key="a.#")
    assert (made.status, made.body["source"], made.body["key"]) == (201, "e", "a.#")
    assert asked.ask("BIND", "queue", "q", source="e", key="a.#").status == 200
    assert asked.ask("BIND", "exchange", "e", source="amq.fanout").status == 201
    arguments = {"x-match": "any", "size": 3}
    assert asked.ask("BIND", "queue", "other", source="amq.headers", arguments=arguments).status == 201
    body = asked.query("binding").body
    found = [dict(zip(body["attributeNames"], row, strict=True)) for row in body["results"]]
    assert [(one["source"], one["destination_type"], one["destination"]) for one in found] == [
        ("amq.fanout", "exchange", "e"),
        ("amq.headers", "queue", "other"),
        ("e", "queue", "q"),
    ]
    assert found[1]["arguments"] == arguments
    assert asked.names("binding", source="e") == ["e"]
    assert asked.names("binding", destination="q", source="amq.fanout") == []
    assert asked.names("binding", destination="e", destination_type="exchange") == ["amq.fanout"]
    assert asked.names("binding", source="nowhere") == []
    assert asked.ask("UNBIND", "queue", "q", source="e", key="b").status == 404
    assert asked.ask("UNBIND", "queue", "q", source="e", key="a.#").status == 204
    assert asked.names("binding", destination="q") == []


def test_chained_bindings() -> None:
    asked = Asked(a_ground("q"))
    steps = [
        {"source": "amq.topic", "key": "a.*"},
        {"source": "amq.headers", "arguments": {"x-match": "all", "k": 1}},
    ]
    assert asked.ask("BIND", "queue", "q", steps=steps).status == 201
    assert asked.ask("BIND", "queue", "q", steps=steps).status == 200
    body = asked.query("binding").body
    (row,) = body["results"]
    shown = dict(zip(body["attributeNames"], row, strict=True))
    assert (shown["source"], shown["key"], shown["destination"]) == ("amq.topic", "a.*", "q")
    assert [step["source"] for step in shown["steps"]] == ["amq.topic", "amq.headers"]
    assert "amq.chain" not in str(asked.names("exchange"))
    assert asked.names("binding", source="amq.headers") == ["amq.topic"]
    assert asked.ask("BIND", "exchange", "amq.direct", steps=steps).status == 400
    assert asked.ask("UNBIND", "queue", "q", steps=steps).status == 204
    assert asked.ask("UNBIND", "queue", "q", steps=steps).status == 404
    assert asked.names("binding") == []


def test_pages() -> None:
    asked = Asked(a_ground(*(f"q{number}" for number in range(5))))
    assert asked.names("queue", offset=1, count=2, attributeNames=["name"]) == ["q1", "q2"]
    reply = asked.query("queue", 1, 2, attributeNames=["messages", "name", "name"])
    assert reply.body["attributeNames"] == ["messages", "name"]
    assert (reply.body["results"], reply.body["next"], reply.count) == ([[0, "q1"], [0, "q2"]], 3, 2)
    last = asked.query("queue", 3)
    assert (len(last.body["results"]), last.body["next"]) == (2, None)
    beyond = asked.query("queue", 99)
    assert (beyond.body["results"], beyond.body["next"], beyond.count) == ([], None, 0)
    assert asked.query("queue", count=0).body["next"] == 0


def test_a_page_has_five_hundred_things_at_most() -> None:
    asked = Asked(a_ground(*(f"q{number}" for number in range(501))))
    reply = asked.query("queue", count=5000, attributeNames=["name"])
    assert (reply.count, reply.body["next"]) == (500, 500)


def test_a_page_of_large_things_is_short() -> None:
    asked = Asked(a_ground("q"))
    for number in range(40):
        arguments = {f"{name}": "x" * 60_000 for name in [f"h{number}"]}
        assert asked.ask("BIND", "queue", "q", source="amq.headers", arguments=arguments).status == 201
    first = asked.query("binding")
    assert first.count == first.body["next"] == 18  # The first one that makes it a MiB is the last.
    assert asked.query("binding", first.body["next"]).count == 18


@pytest.mark.parametrize(
    ("operation", "type", "name", "body", "status", "text"),
    [
        ("CREATE", "queue", "q", {"durable": "yes"}, 400, "'durable' is a boolean, not 'yes'"),
        ("CREATE", "queue", "q", {"max_length": True}, 400, "'max_length' is a whole number"),
        ("CREATE", "queue", "q", {"max_length": 0}, 400, "max_length of a queue is 1 to"),
        ("CREATE", "queue", "q", {"expires": "soon"}, 400, "'expires' is a number of seconds"),
        ("CREATE", "queue", "q", {"overflow": "spill"}, 400, "'overflow' is one of reject, drop-oldest"),
        ("CREATE", "queue", "q", {"colour": "red"}, 400, "'colour' is not known here: durable"),
        ("CREATE", "queue", "q" * 256, {}, 403, "more than 255 octets"),
        ("CREATE", "queue", "amq.q", {}, 403, "amq."),
        ("CREATE", "exchange", "e", {"arguments": [1]}, 400, "'arguments' is a map"),
        ("DELETE", "queue", None, {}, 400, "'name' is missing"),
        ("DELETE", "queue", "q", {"if_used": True}, 400, "'if_used' is not known here: if_unused, if_empty"),
        ("PURGE", "queue", "none", {}, 404, "'none'"),
        ("BIND", "queue", "here", {}, 400, "'source' is missing"),
        ("BIND", "queue", "here", {"source": 3}, 400, "'source' is a string, not 3"),
        ("BIND", "queue", "here", {"source": "none"}, 404, "'none'"),
        ("BIND", "queue", "here", {"source": ""}, 403, "default exchange"),
        ("BIND", "queue", "here", {"steps": [{"source": "amq.topic"}]}, 400, "2 to 16 steps"),
        ("BIND", "queue", "here", {"steps": [{"key": "k"}, {}]}, 400, "'steps[0].source' is missing"),
        ("BIND", "queue", "here", {"steps": 3}, 400, "'steps' is a list of maps"),
        ("QUERY", "queue", None, {"attributeNames": ["size"]}, 400, "'size', which is no attribute"),
        ("QUERY", "queue", None, {"attributeNames": "name"}, 400, "'attributeNames' is a list of strings"),
        ("QUERY", "binding", None, {"destination_type": "exchange"}, 400, "goes with 'destination'"),
        ("QUERY", "binding", None, {"destination": "q", "destination_type": "x"}, 400, "queue or exchange"),
        ("QUERY", "consumer", None, {"queue": "none"}, 404, "'none'"),
        ("READ", "vhost", "other", {}, 404, "'other' is not the virtual host"),
        ("READ", "connection", "77", {}, 404, "'77'"),
        ("UPDATE", "queue", "here", {}, 501, "CREATE, READ, DELETE"),
        ("READ", "planet", "mars", {}, 400, "'type' is one of queue, exchange"),
    ],
)
def test_what_is_refused(
    operation: str, type: str, name: str | None, body: dict[str, Any], status: int, text: str
) -> None:
    asked = Asked(a_ground("here"))
    before = dict(asked.ground.host.queues)
    reply = asked.manager.handle(Request(operation=operation, type=type, name=name, body=body), asked.actor)
    assert (reply.status, reply.is_change) == (status, False)
    assert text in reply.told
    assert asked.ground.host.queues == before


def test_limits_are_told() -> None:
    asked = Asked(a_ground("one", queues=1))
    reply = asked.ask("CREATE", "queue", "two")
    assert reply.status == 409
    assert "the limit queues is 1" in reply.told


# --- rights ------------------------------------------------------------------------------------------------


def guarded(**patterns: str) -> Asked:
    """A user with some rights, on a broker that has queues named mine and theirs."""
    access = Access({("me", "/"): Permissions.of(**patterns), ("boss", "/"): Permissions.of(read=".*")})
    return Asked(a_ground("mine", "theirs", access=access))


def test_what_a_user_has_no_right_to_he_does_not_see() -> None:
    asked = guarded(read="mine|amq.topic")
    assert asked.names("queue") == ["mine"]
    assert asked.names("exchange") == ["amq.topic"]
    assert asked.ask("READ", "queue", "mine").status == 200
    assert asked.ask("READ", "queue", "theirs").status == 403
    assert asked.ask("READ", "queue", "nothing").status == 403
    assert asked.ask("READ", "exchange", "amq.direct").status == 403
    asked.ground.admin.bind("amq.topic", "theirs", "#")
    asked.ground.admin.bind("amq.topic", "mine", "#")
    assert len(asked.names("binding")) == 1
    peer = asked.ground.peer(user="boss")
    peer.receiver("theirs")
    peer.receiver("mine", name="second")
    assert asked.names("consumer") == ["mine"]
    assert asked.query("consumer", queue="theirs").status == 403


def test_what_a_user_has_no_right_to_he_cannot_do() -> None:
    asked = guarded(configure="new", read="mine|amq.topic", write="mine")
    assert asked.ask("CREATE", "queue", "new").status == 201
    assert asked.ask("CREATE", "queue", "newer").status == 403
    assert asked.ask("DELETE", "queue", "mine").status == 403
    assert asked.ask("PURGE", "queue", "mine").status == 200
    assert asked.ask("PURGE", "queue", "theirs").status == 403
    assert asked.ask("BIND", "queue", "mine", source="amq.topic").status == 201
    assert asked.ask("BIND", "queue", "mine", source="amq.direct").status == 403
    assert asked.ask("BIND", "queue", "theirs", source="amq.topic").status == 403
    assert asked.ask("READ", "broker").body["usage"] is None


def test_dead_letters_go_only_where_a_user_may_write() -> None:
    asked = guarded(configure="mine|new", read="new|mine", write="mine|amq.topic")
    for name in ("new", None):
        letters = {"dead_letter_exchange": "", "dead_letter_key": "theirs"}
        assert asked.ask("CREATE", "queue", name, **letters).status == 403
        assert asked.ask("CREATE", "queue", name, dead_letter_exchange="amq.direct").status == 403
        # Their own keys may be those of any queue.
        assert asked.ask("CREATE", "queue", name, dead_letter_exchange="").status == 403
    assert "new" not in asked.ground.host.queues
    letters = {"dead_letter_exchange": "", "dead_letter_key": "mine"}
    assert asked.ask("CREATE", "queue", "new", **letters).status == 201
    assert asked.ask("DELETE", "queue", "new").status == 200
    assert asked.ask("CREATE", "queue", "new", dead_letter_exchange="amq.topic").status == 201


def test_who_may_not_read_a_queue_may_not_have_it_pass_on_what_it_gets() -> None:
    asked = guarded(configure="theirs", write="mine", read="mine")
    assert asked.ask("DELETE", "queue", "theirs").status == 200
    letters = {"dead_letter_exchange": "", "dead_letter_key": "mine"}
    assert asked.ask("CREATE", "queue", "theirs", **letters).status == 403
    assert asked.ask("CREATE", "queue", "theirs").status == 201


def test_an_exclusive_queue_is_shown_and_left_alone() -> None:
    asked = Asked()
    owner = asked.ground.actor("me", None, object())
    owner.declare_queue("q", QueueSettings(exclusive=True))
    assert asked.names("queue") == ["q"]
    assert asked.ask("READ", "queue", "q").status == 200
    assert asked.ask("DELETE", "queue", "q").status == 409
    assert asked.ask("CREATE", "queue", "q", exclusive=True).status == 409


# --- requests as they come ---------------------------------------------------------------------------------


def test_a_request_of_properties_and_a_body() -> None:
    properties = {"operation": "query", "type": "queue", "offset": 3, "count": 2, "locales": "en", "x": 1}
    assert Request.of(properties, None) == Request(operation="QUERY", type="queue", offset=3, count=2)
    drafted = {"operation": "QUERY", "type": "org.amqp.management", "name": "self", "entityType": "queue"}
    assert Request.of(drafted, {}).type == "queue"


@pytest.mark.parametrize(
    ("properties", "body", "text"),
    [
        ({"type": "queue"}, {}, "'operation' is missing"),
        ({"operation": "READ"}, {}, "'type' is missing"),
        ({"operation": 3, "type": "queue"}, {}, "'operation' is a string"),
        ({"operation": "READ", "type": "queue", "name": b"q"}, {}, "'name' is a string"),
        ({"operation": "QUERY", "type": "queue", "offset": -1}, {}, "'offset' is a whole number from 0"),
        ({"operation": "QUERY", "type": "queue", "count": True}, {}, "'count' is a whole number"),
        ({"operation": "QUERY", "type": "queue"}, [], "the body is a map"),
        ({"operation": "QUERY", "type": "queue"}, {1: 2}, "strings as keys, not 1"),
    ],
)
def test_a_malformed_request(properties: dict[str, Any], body: Any, text: str) -> None:
    from amqpforge.broker.errors import InvalidArgument

    with pytest.raises(InvalidArgument) as refused:
        Request.of(properties, body)
    assert text in str(refused.value)
