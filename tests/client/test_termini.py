"""Termini that clients ask for, and outcomes: what is one, and who decides on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqpforge.client import Connection, Message, connect
from amqpforge.errors import AmqpforgeError, LocalError
from amqpforge.testing import ScriptedNode
from amqpforge_protocol import amqp_1_0
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Attach,
    Declared,
    DeliveryNumber,
    Described,
    Disposition,
    EncodeError,
    Modified,
    Received,
    Rejected,
    Released,
    Role,
    Seconds,
    SequenceNo,
    Source,
    StdDistMode,
    Symbol,
    Target,
    TerminusDurability,
    TerminusExpiryPolicy,
    TransactionalState,
    ULong,
)

from .loops import in_loop

PROPERTIES: dict[str, Any] = {Symbol("lifetime-policy"): amqp_1_0.DeleteOnClose()}
BOTH = "gets its address from the peer"
NOT_DYNAMIC = "for a dynamic node"


@pytest.mark.spec("M-TERM-003", "M-TERM-015", "M-TERM-006")
@pytest.mark.parametrize(
    ("ask", "problem"),
    [
        (lambda one: one.receiver(Source(address="q", dynamic=True)), BOTH),
        (lambda one: one.sender(Target(address="q", dynamic=True)), BOTH),
        (lambda one: one.sender("q", dynamic=True), BOTH),
        (lambda one: one.receiver(Source(address="q", dynamic_node_properties=PROPERTIES)), NOT_DYNAMIC),
        (lambda one: one.sender(Target(address="q", dynamic_node_properties=PROPERTIES)), NOT_DYNAMIC),
        (
            lambda one: one.receiver("q", target=Target(dynamic_node_properties=PROPERTIES)),
            NOT_DYNAMIC,
        ),
        (lambda one: one.sender("q", source=Source(dynamic_node_properties=PROPERTIES)), NOT_DYNAMIC),
    ],
)
@in_loop
async def test_a_terminus_that_contradicts_itself_is_not_asked_for(
    ask: Callable[[Connection], Any], problem: str
) -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        with pytest.raises(LocalError, match=problem):
            await ask(connection)
        await connection.round_trip()
        assert not node.received(Attach)


@in_loop
async def test_a_dynamic_node_may_be_wished_for_with_properties() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        source = Source(dynamic=True, dynamic_node_properties=PROPERTIES)
        async with connection.receiver(source) as receiver:
            assert receiver.address
        asked = node.received(Attach)[0].source
        assert isinstance(asked, Source)
        assert asked.dynamic_node_properties == PROPERTIES


WHOLE_SOURCE = Source(
    address="q",
    durable=TerminusDurability.CONFIGURATION,
    expiry_policy=TerminusExpiryPolicy.CONNECTION_CLOSE,
    timeout=Seconds(5),
    distribution_mode=StdDistMode.COPY,
    filter={Symbol("f"): Described(Symbol("f"), "x")},
    default_outcome=Released(),
    outcomes=[Symbol(Accepted.SYMBOL), Symbol(Released.SYMBOL)],
    capabilities=[Symbol("queue")],
)
WHOLE_TARGET = Target(
    address="q",
    durable=TerminusDurability.CONFIGURATION,
    expiry_policy=TerminusExpiryPolicy.CONNECTION_CLOSE,
    timeout=Seconds(5),
    capabilities=[Symbol("queue")],
)
FIRST = DeliveryNumber(SequenceNo(0))
DYNAMIC = {"address", "dynamic", "dynamic-node-properties"}


@pytest.mark.spec("M-TERM-001")
@in_loop
async def test_each_property_of_a_terminus_gets_to_the_peer() -> None:
    for terminus in (WHOLE_SOURCE, WHOLE_TARGET):
        plain = type(terminus)()
        names = {field.name: field.attribute for field in terminus.FIELDS}
        assert {name for name in names if getattr(terminus, names[name]) == getattr(plain, names[name])} == (
            DYNAMIC - {"address"}
        )
    async with ScriptedNode() as node, connect(node.url) as connection:
        await connection.receiver(WHOLE_SOURCE, check_filters=False)
        await connection.sender(WHOLE_TARGET)
        by_role = {attach.role: attach for attach in node.received(Attach)}
        assert by_role[Role.RECEIVER].source == WHOLE_SOURCE
        assert by_role[Role.SENDER].target == WHOLE_TARGET


# ---- outcomes ----


def composites() -> list[Any]:
    """One value of each composite type with a descriptor that needs no field, and of those that do."""
    given: dict[Any, dict[str, Any]] = {
        Declared: {"txn_id": b"t"},
        TransactionalState: {"txn_id": b"t"},
        Received: {"section_number": 0, "section_offset": ULong(0)},
    }
    made = []
    for name in amqp_1_0.__all__:
        kind = getattr(amqp_1_0, name)
        if isinstance(kind, type) and hasattr(kind, "FIELDS") and hasattr(kind, "SYMBOL"):
            try:
                made.append(kind(**given.get(kind, {})))
            except TypeError:
                continue  # A field is mandatory: no outcome but the one above has such a field.
    return made


def kinds_that_fit(holder: Callable[[Any], Any]) -> set[type]:
    """Of which types a value may be at a place."""
    fit = set()
    for value in composites():
        try:
            holder(value).encode()
        except EncodeError:
            continue
        fit.add(type(value))
    return fit


@pytest.mark.spec("M-OUTCOME-002", "M-OUTCOME-003")
def test_what_is_an_outcome_and_what_only_a_state() -> None:
    outcomes = kinds_that_fit(lambda one: Source(default_outcome=one))
    states = kinds_that_fit(lambda one: Disposition(role=Role.RECEIVER, first=FIRST, settled=True, state=one))
    assert outcomes == {Accepted, Rejected, Released, Modified, Declared}  # The last one is of transactions.
    assert states - outcomes == {Received, TransactionalState}  # And so is this last one.
    assert len(composites()) > len(states) > len(outcomes)


@pytest.mark.spec("M-OUTCOME-010")
@pytest.mark.parametrize("policy", list(TerminusExpiryPolicy))
@pytest.mark.parametrize("way", ["closed", "cut", "ended"])
@in_loop
async def test_a_source_rejects_nothing_by_itself(policy: TerminusExpiryPolicy, way: str) -> None:
    async with ScriptedNode() as node:
        node.put("q", Message("m"))
        async with connect(node.url, reconnect=None) as connection:
            receiver = await connection.receiver("q", auto_accept=False, expiry_policy=policy)
            delivery = await receiver.receive()
            if way == "closed":
                await receiver.close()
            elif way == "cut":
                node.connections[0].cut()
            else:
                node.connections[0].end()
            with pytest.raises(AmqpforgeError):
                await receiver.receive()
            assert not isinstance(delivery.outcome, Rejected)
        await node.wait_for(lambda: not node.connections)
        [message] = node.messages("q")
        assert not node.queue("q").retired
        assert message.delivery_count == 0
        assert not any(isinstance(told.state, Rejected) for told in node.sent(Disposition))


@pytest.mark.parametrize("properties", [{"lifetime-policy": object()}, {7: "no symbol"}])
@in_loop
async def test_an_attach_that_cannot_be_encoded_fails_its_link_alone(properties: Any) -> None:
    source = Source(dynamic=True, dynamic_node_properties=properties)
    async with ScriptedNode() as node, connect(node.url) as connection:
        receiver = await connection.receiver("q")
        with pytest.raises(LocalError, match=r"the link '.*' asks for cannot be encoded: ") as caught:
            await connection.receiver(source)
        assert isinstance(caught.value.__cause__, EncodeError)
        assert receiver.is_attached
        await connection.round_trip()
        assert connection.counters.reconnects == 0
