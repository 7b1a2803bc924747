"""Exchanges and bindings of a virtual host: declared, bound, used, and taken away."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from amqpforge.broker.errors import (
    AccessRefused,
    BrokerError,
    InvalidArgument,
    LimitExceeded,
    NotAllowed,
    NotFound,
    NotSupported,
    PreconditionFailed,
)
from amqpforge.broker.exchanges import (
    Binding,
    Destination,
    Matcher,
    Wiring,
    exchange_types,
    register_exchange_type,
)
from amqpforge.broker.message import Message
from amqpforge.broker.settings import ExchangeSettings
from tests.broker.exchanges.hosts import QueueName, bound, host, message, routed

PREDECLARED = {
    "": "direct",
    "amq.direct": "direct",
    "amq.topic": "topic",
    "amq.fanout": "fanout",
    "amq.headers": "headers",
    "amq.match": "headers",
}
DIRECT = ExchangeSettings()


def to_exchange(source: str, name: str, key: str = "") -> Binding:
    return Binding(source, Destination.exchange(name), key)


# ---- exchanges ----


@pytest.mark.spec("A-EXCH-001")
def test_an_exchange_passes_on_to_exchanges() -> None:
    wiring = host("q", a="direct", b="fanout")
    assert wiring.bind(to_exchange("a", "b", "k"))
    bound(wiring, "b", "q")
    assert routed(wiring, "a", "k") == ["q"]
    assert routed(wiring, "a", "other") == []
    a, b = wiring.exchanges["a"], wiring.exchanges["b"]
    assert (a.incoming, a.outgoing, a.unroutable) == (2, 1, 1)
    assert (b.incoming, b.outgoing, b.unroutable) == (1, 1, 0)


@pytest.mark.spec("A-EXCH-002")
def test_an_exchange_keeps_no_message() -> None:
    wiring = host("q", a="direct")
    published = message("a", "k")
    assert wiring.route(published) == []
    assert published.references == 0
    bound(wiring, "a", "q", "k")
    assert routed(wiring, "a", "other") == []


@pytest.mark.spec("A-EXCH-003")
def test_instances_of_one_type_have_bindings_of_their_own() -> None:
    wiring = host("q", a="direct", b="direct")
    bound(wiring, "a", "q", "k")
    assert routed(wiring, "b", "k") == []
    assert routed(wiring, "a", "k") == ["q"]
    with pytest.raises(NotFound, match="'c'"):
        routed(wiring, "c", "k")


@pytest.mark.spec("A-EXCH-004")
def test_the_name_of_a_type_is_no_address() -> None:
    wiring = host(**{"my.topic": "topic"})
    with pytest.raises(NotFound, match="'topic'"):
        routed(wiring, "topic")


@pytest.mark.spec("A-EXCH-005")
def test_there_can_be_any_number_of_exchanges() -> None:
    wiring = host("q", **{f"x{number}": "direct" for number in range(10_000)})
    bound(wiring, "x9999", "q", "k")
    assert routed(wiring, "x9999", "k") == ["q"]
    assert len(wiring.exchanges) == 10_000 + len(PREDECLARED)


@pytest.mark.spec("A-EXCH-011")
def test_the_default_exchange_takes_what_names_none() -> None:
    wiring = host("q")
    assert wiring.exchanges[""].settings.type == "direct"
    assert [key for key in ("q", "q.x", "*", "") if routed(wiring, "", key)] == ["q"]


@pytest.mark.spec("A-EXCH-012")
def test_what_every_host_has_cannot_be_deleted() -> None:
    wiring = host("q")
    assert {name: exchange.settings.type for name, exchange in wiring.exchanges.items()} == PREDECLARED
    for name in PREDECLARED:
        with pytest.raises(NotAllowed, match="cannot be deleted"):
            wiring.delete(name)
        if name:
            bound(wiring, name, "q", "q")
        assert routed(wiring, name, "q") == ["q"]


@pytest.mark.parametrize(("name", "type_"), PREDECLARED.items())
def test_what_every_host_has_can_only_be_declared_as_it_is(name: str, type_: str) -> None:
    wiring = host()
    as_it_is = ExchangeSettings(type=type_, durable=True)
    assert wiring.declare(name, as_it_is) is wiring.exchanges[name]
    for settings in (ExchangeSettings(type=type_), ExchangeSettings(type="other", durable=True)):
        with pytest.raises(PreconditionFailed, match="already"):
            wiring.declare(name, settings)


@pytest.mark.spec("A-EXCH-013")
def test_to_declare_again_changes_nothing() -> None:
    wiring = host("q")
    settings = ExchangeSettings(type="direct", arguments={"a": 1})
    exchange = wiring.declare("x", settings)
    bound(wiring, "x", "q", "k")
    assert wiring.declare("x", ExchangeSettings(type="direct", arguments={"a": 1.0})) is exchange
    assert routed(wiring, "x", "k") == ["q"]
    for other in (DIRECT, ExchangeSettings(arguments={"a": True}), ExchangeSettings(type="topic")):
        with pytest.raises(PreconditionFailed, match="'x' is there already"):
            wiring.declare("x", other)


@pytest.mark.spec("A-EXCH-014")
def test_a_declaration_can_just_ask() -> None:
    wiring = host(x="topic")
    assert wiring.declare("x", DIRECT, passive=True).settings.type == "topic"
    for _ in range(2):
        with pytest.raises(NotFound, match="'y'"):
            wiring.declare("y", DIRECT, passive=True)


@pytest.mark.spec("A-EXCH-015")
def test_an_exchange_that_is_deleted_is_gone() -> None:
    wiring = host("q", a="direct", x="fanout", b="direct")
    bindings = [bound(wiring, "x", "q"), to_exchange("a", "x", "k"), to_exchange("x", "b")]
    for binding in bindings[1:]:
        wiring.bind(binding)
    bound(wiring, "b", "q", "k")
    removed = wiring.delete("x")
    assert [exchange.name for exchange in removed.exchanges] == ["x"]
    assert set(removed.bindings) == set(bindings)
    with pytest.raises(NotFound, match="'x'"):
        routed(wiring, "x")
    with pytest.raises(NotFound, match="'x'"):
        wiring.delete("x")
    assert routed(wiring, "a", "k") == []
    wiring.declare("x", ExchangeSettings(type="fanout"))
    assert routed(wiring, "x") == []
    assert routed(wiring, "a", "k") == []


def test_an_exchange_can_be_deleted_only_if_it_is_not_used() -> None:
    wiring = host("q", x="direct", y="direct")
    wiring.bind(to_exchange("y", "x"))
    binding = bound(wiring, "x", "q")
    with pytest.raises(PreconditionFailed, match="1 bindings"):
        wiring.delete("x", if_unused=True)
    wiring.unbind(binding)
    assert wiring.delete("x", if_unused=True).bindings == [to_exchange("y", "x")]


@pytest.mark.parametrize(
    ("name", "settings", "error"),
    [
        ("amq.mine", DIRECT, AccessRefused),
        ("x" * 256, DIRECT, InvalidArgument),
        ("a\tb", DIRECT, InvalidArgument),
        ("x", ExchangeSettings(type="star"), NotSupported),
        ("x", ExchangeSettings(arguments={"a": object()}), InvalidArgument),
        ("x", ExchangeSettings(arguments={"a": "x" * 70_000}), LimitExceeded),
    ],
    ids=["reserved", "long", "control", "type", "argument", "large"],
)
def test_what_cannot_be_declared(name: str, settings: ExchangeSettings, error: type[BrokerError]) -> None:
    wiring = host()
    with pytest.raises(error):
        wiring.declare(name, settings)
    assert set(wiring.exchanges) == set(PREDECLARED)


def test_clients_cannot_publish_to_an_internal_exchange() -> None:
    wiring = host("q", a="fanout")
    wiring.declare("inner", ExchangeSettings(type="fanout", internal=True))
    wiring.bind(to_exchange("a", "inner"))
    bound(wiring, "inner", "q")
    with pytest.raises(AccessRefused, match="internal"):
        wiring.route(message("inner"))
    assert wiring.route(message("inner"), is_client=False) == [QueueName("q")]
    assert routed(wiring, "a") == ["q"]


# ---- types of one's own ----


class Everything(Matcher):
    """All bindings, if a message is as a subclass wants it."""

    def __init__(self, settings: ExchangeSettings) -> None:
        self.limit = settings.arguments.get("limit", 0)
        self.bindings: list[Binding] = []
        if not isinstance(self.limit, int):
            raise InvalidArgument("limit is a number")

    def add(self, binding: Binding) -> None:
        self.bindings.append(binding)

    def remove(self, binding: Binding) -> None:
        self.bindings.remove(binding)


class Limiting(Everything):
    """Refuses messages that are too large."""

    def match(self, message: Message) -> Iterable[Binding]:
        if message.size > self.limit:
            raise LimitExceeded(f"a message of {message.size} octets")
        return self.bindings


class ByBody(Everything):
    """Follows the bindings whose key is in the payload."""

    def match(self, message: Message) -> Iterable[Binding]:
        assert message.payload is not None
        return [binding for binding in self.bindings if binding.key.encode() in message.payload]


register_exchange_type("test-limiting", Limiting)
register_exchange_type("test-by-body", ByBody)


@pytest.mark.spec("A-EXCH-006")
def test_a_type_of_ones_own_can_refuse_messages() -> None:
    wiring = host("q")
    settings = ExchangeSettings(type="test-limiting", arguments={"limit": 100})
    limiting = wiring.declare("my.filter", settings)
    bound(wiring, "my.filter", "q")
    assert routed(wiring, "my.filter") == ["q"]
    with pytest.raises(LimitExceeded, match="octets"):
        routed(wiring, "my.filter", "", {"a": "x" * 100})
    assert (limiting.incoming, limiting.outgoing, limiting.refused) == (2, 1, 1)
    with pytest.raises(InvalidArgument, match="a number"):
        wiring.declare("other", ExchangeSettings(type="test-limiting", arguments={"limit": "x"}))
    assert "other" not in wiring.exchanges


def test_what_a_further_exchange_refuses_goes_elsewhere_all_the_same() -> None:
    wiring = host("q", "r", a="fanout")
    wiring.declare("my.filter", ExchangeSettings(type="test-limiting"))
    wiring.bind(to_exchange("a", "my.filter"))
    bound(wiring, "my.filter", "q")
    bound(wiring, "a", "r")
    assert routed(wiring, "a") == ["r"]
    assert wiring.exchanges["my.filter"].refused == 1


@pytest.mark.spec("A-EXCH-008")
def test_a_type_of_ones_own_can_go_by_the_body() -> None:
    wiring = host("pdf", "text", x="test-by-body")
    bound(wiring, "x", "pdf", "%PDF")
    bound(wiring, "x", "text", "hello")
    assert routed(wiring, "x", "hello", {"body": "%PDF"}) == ["pdf"]
    assert routed(wiring, "x", "%PDF", {"body": "hello"}) == ["text"]


def test_standard_types_stay_what_they_are() -> None:
    assert {"direct", "fanout", "headers", "topic", "test-limiting"} <= set(exchange_types())
    with pytest.raises(NotAllowed, match="standard"):
        register_exchange_type("topic", Limiting)
    with pytest.raises(InvalidArgument):
        register_exchange_type("", Limiting)


# ---- bindings ----


@pytest.mark.spec("A-BIND-001")
def test_only_what_meets_the_condition_follows_a_binding() -> None:
    wiring = host("q", "r", x="direct")
    binding = bound(wiring, "x", "q", "k")
    assert [routed(wiring, "x", key) for key in ("k", "l")] == [["q"], []]
    assert not wiring.bind(binding)
    assert wiring.bindings_to(Destination.queue("q")) == (binding,)
    assert wiring.unbind(binding).bindings == [binding]
    assert not wiring.unbind(binding)
    assert routed(wiring, "x", "k") == []
    assert wiring.bindings_to(Destination.queue("q")) == ()


@pytest.mark.spec("A-BIND-003")
def test_a_queue_is_bound_under_its_name() -> None:
    wiring = host("app.svc01")
    assert routed(wiring, "", "app.svc01") == ["app.svc01"]
    assert routed(wiring, "", "my.svc01") == []
    assert [binding.key for binding in wiring.bindings()] == ["app.svc01"]
    assert not wiring.remove_queue("app.svc01")
    assert routed(wiring, "", "app.svc01") == []


@pytest.mark.spec("A-BIND-004")
def test_a_queue_can_be_bound_elsewhere_as_well() -> None:
    wiring = host("q")
    bound(wiring, "amq.topic", "q", "a.#")
    assert routed(wiring, "", "q") == routed(wiring, "amq.topic", "a.b") == ["q"]


@pytest.mark.spec("A-BIND-005")
def test_a_queue_takes_from_exchanges_of_all_kinds() -> None:
    wiring = host("q", d="direct", t="topic", h="headers")
    bound(wiring, "d", "q", "k")
    bound(wiring, "t", "q", "k.*")
    bound(wiring, "h", "q", "", a=1)
    assert (
        routed(wiring, "d", "k") == routed(wiring, "t", "k.l") == routed(wiring, "h", "", {"a": 1}) == ["q"]
    )


@pytest.mark.spec("A-BIND-006")
def test_the_name_of_a_queue_plays_no_part() -> None:
    wiring = host("tmp.1", "a.b")
    bindings = [bound(wiring, "amq.topic", queue, "x.*") for queue in ("tmp.1", "a.b")]
    assert routed(wiring, "amq.topic", "x.y") == ["tmp.1", "a.b"]
    assert routed(wiring, "amq.topic", "a.b") == []
    assert [binding for binding in wiring.bindings() if binding.source] == bindings
    assert list(wiring.queues) == ["tmp.1", "a.b"]


@pytest.mark.spec("A-BIND-007")
def test_default_bindings_are_no_patterns() -> None:
    wiring = host("a.*", "#")
    assert routed(wiring, "", "a.b") == []
    assert routed(wiring, "", "a.*") == ["a.*"]


@pytest.mark.spec("A-BIND-008")
def test_bindings_of_one_queue_are_alternatives() -> None:
    wiring = host("q", x="topic")
    for key in ("a", "b", "#.b"):
        bound(wiring, "x", "q", key)
    assert [routed(wiring, "x", key) for key in ("a", "b", "c")] == [["q"], ["q"], []]
    assert wiring.exchanges["x"].outgoing == 2


def test_exchanges_bound_in_a_circle_see_a_message_once() -> None:
    wiring = host("q", "r", a="fanout", b="fanout", c="fanout")
    for source, name in (("a", "b"), ("b", "c"), ("c", "a"), ("b", "b"), ("a", "c")):
        wiring.bind(to_exchange(source, name))
    bound(wiring, "c", "q")
    bound(wiring, "a", "r")
    bound(wiring, "b", "q")
    assert routed(wiring, "b") == ["q", "r"]
    assert [wiring.exchanges[name].incoming for name in "abc"] == [1, 1, 1]


@pytest.mark.parametrize(
    ("binding", "error"),
    [
        (Binding("", Destination.queue("q"), "k"), NotAllowed),
        (to_exchange("x", ""), NotAllowed),
        (Binding("none", Destination.queue("q")), NotFound),
        (Binding("x", Destination.queue("none")), NotFound),
        (Binding("x", Destination.queue("x")), NotFound),
        (to_exchange("x", "q"), NotFound),
        (Binding("x", Destination.queue("q"), "k" * 256), InvalidArgument),
        (Binding("x", Destination.queue("q"), "", {"a": "x" * 70_000}), LimitExceeded),
    ],
    ids=[
        "from default",
        "to default",
        "no source",
        "no queue",
        "no queue so",
        "no exchange so",
        "key",
        "large",
    ],
)
def test_what_cannot_be_bound(binding: Binding, error: type[BrokerError]) -> None:
    wiring = host("q", x="direct")
    with pytest.raises(error):
        wiring.bind(binding)
    assert [held.source for held in wiring.bindings()] == [""]


@pytest.mark.parametrize(
    "binding", [Binding("", Destination.queue("q"), "q"), to_exchange("none", "x")], ids=str
)
def test_what_cannot_be_unbound(binding: Binding) -> None:
    with pytest.raises((NotAllowed, NotFound)):
        host("q").unbind(binding)


def test_queues_have_names_of_their_own() -> None:
    wiring = host("q")
    with pytest.raises(PreconditionFailed, match="already"):
        wiring.add_queue(QueueName("q"))
    for name in ("", "q" * 256):
        with pytest.raises(InvalidArgument):
            wiring.add_queue(QueueName(name))
    with pytest.raises(NotFound, match="'r'"):
        wiring.remove_queue("r")
    assert list(wiring.queues) == ["q"]


def test_a_queue_goes_with_its_bindings() -> None:
    wiring = host("q", "r", x="fanout")
    mine = [bound(wiring, "x", "q", key) for key in "ab"]
    bound(wiring, "x", "r")
    assert wiring.remove_queue("q").bindings == mine
    assert routed(wiring, "x") == ["r"]
    wiring.add_queue(QueueName("q"))
    assert routed(wiring, "x") == ["r"]


def test_what_was_bound_is_what_is_reported() -> None:
    """An equal binding need not look the same; what was stored is found by what was bound."""
    wiring = host("q", x="headers")
    binding = bound(wiring, "x", "q", a=1)
    (removed,) = wiring.unbind(Binding("x", Destination.queue("q"), "", {"a": 1.0})).bindings
    assert removed is binding


def test_exchanges_that_are_not_used_any_more_go_one_after_the_other() -> None:
    wiring = host("q")
    for name in "abcd":
        wiring.declare(name, ExchangeSettings(type="fanout", auto_delete=name != "d"))
    links = [to_exchange(source, name) for source, name in ("ab", "bc", "da", "dc")]
    for link in links:
        wiring.bind(link)
    binding = bound(wiring, "c", "q")
    removed = wiring.remove_queue("q")
    assert [exchange.name for exchange in removed.exchanges] == ["c", "b", "a"]
    assert set(removed.bindings) == {binding, *links}
    assert set(wiring.exchanges) == {*PREDECLARED, "d"}


def test_an_exchange_that_was_never_used_stays() -> None:
    wiring = host("q", x="fanout")
    wiring.declare("new", ExchangeSettings(auto_delete=True))
    wiring.bind(to_exchange("x", "new"))
    wiring.unbind(to_exchange("x", "new"))
    assert "new" in wiring.exchanges


def test_the_order_of_queues_is_that_of_the_program() -> None:
    """Not that of hashes, which differ from one process to the next."""
    names = [f"queue {number}" for number in range(50)]

    def order(type_: str, **arguments: object) -> list[str]:
        wiring: Wiring[QueueName] = host(*names, x=type_)
        for name in names:
            bound(wiring, "x", name, "a.b", **arguments)
        return routed(wiring, "x", "a.b", {"a": 1, "b": 2})

    for type_ in ("direct", "fanout", "headers", "topic"):
        assert order(type_, b=2, a=1) == names
    assert order("headers", x_match="any", b=2, a=1) == names
