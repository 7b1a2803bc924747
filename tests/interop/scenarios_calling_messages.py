"""Our node with clients made of Proton and rhea: deliveries and messages."""

from __future__ import annotations

from asyncio import to_thread
from functools import partial

from amqpforge import Message
from amqpforge_protocol.amqp_1_0 import AmqpSequence, AmqpValue, Data
from tests.interop.payload import octets
from tests.interop.results import Message as Spec
from tests.interop.results import PeerError
from tests.interop.scenarios import CLIENTS, Calling, Played, differs, lacks, scenario
from tests.interop.scenarios_samples import (
    ANSWERS,
    BIG,
    BODIES,
    FIELDS,
    LAST_ALONE,
    LAST_SECTION,
    MODE_NAMES,
    OUTCOMES,
    SHOWN_PROPERTIES,
    is_shown,
    plain,
    settled,
    told,
)

IDS = ["m-0", "m-1", "m-2", "m-3"]

# --- deliveries ---------------------------------------------------------------------------------------------


async def settle_mode(row: str, stage: Calling) -> Played:
    mode, receiver_mode = MODE_NAMES[row]
    expected = settled(row)
    async with stage.node() as node:
        sent = await to_thread(stage.client.send, "q", 4, mode=mode, receiver_mode=receiver_mode)
        assert (sent.attached.snd_settle_mode, sent.attached.rcv_settle_mode) == (mode, receiver_mode)
        assert [each.name for each in sent.outcomes] == [None if each else "accepted" for each in expected]
        assert [each.settled for each in sent.outcomes] == [
            each or receiver_mode == "first" for each in expected
        ]
        receipt = await to_thread(stage.client.receive, "q", 4, mode=mode, receiver_mode=receiver_mode)
        assert [message.properties["message_id"] for message in receipt.messages] == IDS
        assert [message.settled for message in receipt.messages] == [mode == "settled"] * 4
        assert receipt.resettled == (4 if receiver_mode == "second" and mode != "settled" else 0)
        assert len(node.queue("q")) == 0
    return None


for mode_row in MODE_NAMES:
    scenario(mode_row, *CLIENTS)(partial(settle_mode, mode_row))


async def outcome(row: str, stage: Calling) -> Played:
    async with stage.node() as node:
        node.queue("answered").answer = OUTCOMES[row]
        sent = await to_thread(stage.client.send, "answered")
        assert sent.outcomes == [told(ANSWERS[row])]
        assert len(node.queue("answered")) == (row == "accepted")

        queue = node.queue("answering")
        node.put("answering", "x")
        await to_thread(stage.client.receive, "answering", answer=ANSWERS[row])
        if row in ("accepted", "rejected, with an error"):
            assert [plain(stored.outcome) for stored in queue.retired] == [OUTCOMES[row]]
        else:
            [message] = queue.messages()
            assert (message.delivery_count or 0) == (row == "modified")
            assert dict(message.annotations) == ({"x-opt-why": "tired"} if row == "modified" else {})
    return None


for outcome_row in OUTCOMES:
    scenario(outcome_row, *CLIENTS)(partial(outcome, outcome_row))


@scenario("10 MiB both ways", *CLIENTS)
async def big(stage: Calling) -> Played:
    async with stage.node() as node:
        await to_thread(stage.client.send, "big", 1, Spec(size=BIG))
        assert [message.body for message in node.messages("big")] == [octets(0, BIG)]
        [received] = (await to_thread(stage.client.receive, "big")).messages
        assert received.body.size == BIG
    return None


@scenario("300 messages, credit 7", *CLIENTS)
async def window(stage: Calling) -> Played:
    async with stage.node(credit=7) as node:
        await to_thread(stage.client.send, "window", 300)
        receipt = await to_thread(stage.client.receive, "window", 300, credit=7)
        assert [each.properties["message_id"] for each in receipt.messages] == [f"m-{n}" for n in range(300)]
        assert len(node.queue("window")) == 0
    return None


@scenario("drain", *CLIENTS)
async def drain(stage: Calling) -> Played:
    async with stage.node() as node:
        for number in range(3):
            node.put("drained", f"{number}")
        receipt = await to_thread(stage.client.drain, "drained", 10)
        assert [each.body.text for each in receipt.messages] == ["0", "1", "2"]
        assert receipt.credit == 0
        assert (await to_thread(stage.client.drain, "drained", 10)).messages == []
    return None


async def transaction(row: str, stage: Calling) -> Played:
    is_committed = row == "transaction committed"
    async with stage.node() as node:
        for number in range(3):
            node.put("q", Message("x", message_id=f"old-{number}"))
        try:
            done = await to_thread(stage.client.transaction, "q", sends=1, accepts=2, commit=is_committed)
        except PeerError as error:
            return lacks(error)
        assert [each and each.name for each in (*done.sent, done.discharge)] == ["accepted", "accepted"]
        assert [each.properties["message_id"] for each in done.messages] == ["old-0", "old-1"]
        left = [message.message_id for message in node.messages("q")]
        assert left == (["old-2", "m-0"] if is_committed else ["old-0", "old-1", "old-2"])
        assert not node.transactions.open
    return None


for transaction_row in ("transaction committed", "transaction rolled back"):
    scenario(transaction_row, *CLIENTS)(partial(transaction, transaction_row))

# --- messages -----------------------------------------------------------------------------------------------


async def body(row: str, stage: Calling) -> Played:
    async with stage.node() as node:
        match row:
            case "body: data":
                await to_thread(stage.client.send, "sent", 1, Spec(size=300))
                assert node.messages("sent")[0].sections.body == [Data(octets(0, 300))]
            case "body: string":
                await to_thread(stage.client.send, "sent", 1, Spec(kind="value", text="häuslich"))
                assert node.messages("sent")[0].sections.body == AmqpValue("häuslich")
            case "body: sequence":
                await to_thread(stage.client.send, "sent", 1, Spec(kind="sequence", text="two"))
                assert node.messages("sent")[0].sections.body == [AmqpSequence([0, "two"])]
        node.put("received", Message(BODIES[row]))
        [received] = (await to_thread(stage.client.receive, "received")).messages
    if stage.kind == "proton" and row in LAST_SECTION:
        assert (received.body.kind, received.body.text, received.body.value) == LAST_SECTION[row]
        return differs(LAST_ALONE)
    assert is_shown(row, received.body)
    return None


for body_row in BODIES:
    scenario(body_row, *CLIENTS)(partial(body, body_row))

SPECS = {
    "header": Spec(header={"durable": True, "priority": 7, "ttl": 60_000}),
    "properties": Spec(message_id="an id", properties={**SHOWN_PROPERTIES, "correlation_id": "c"}),
    "application properties": Spec(application_properties={"number": 7, "word": "ü", "truth": True}),
    "message annotations": Spec(message_annotations={"x-opt-number": 7, "x-opt-word": "ü"}),
}
"""What clients are told to send; the other sections they can only receive."""


async def fields(row: str, stage: Calling) -> Played:
    async with stage.node() as node:
        if row in SPECS:
            spec = SPECS[row]
            await to_thread(stage.client.send, "sent", 1, spec)
            [message] = node.messages("sent")
            match row:
                case "header":
                    assert (message.durable, message.priority, message.ttl) == (True, 7, 60.0)
                case "properties":
                    assert message.message_id == "an id"
                    for name, value in spec.properties.items():
                        assert getattr(message, name) == value
                case "application properties":
                    assert dict(message.application_properties) == spec.application_properties
                case _:
                    assert dict(message.annotations) == spec.message_annotations
        node.put("received", FIELDS[row])
        [taken] = (await to_thread(stage.client.receive, "received")).messages
    assert taken.body.text == "body"
    match row:
        case "header":
            assert (taken.header["durable"], taken.header["priority"]) == (True, 7)
            assert taken.header["ttl"] == 60_000
        case "properties":
            assert SHOWN_PROPERTIES.items() <= taken.properties.items()
        case "application properties":
            assert taken.application_properties.keys() == FIELDS[row].application_properties.keys()
            assert taken.application_properties["binary"] == "00ff"
        case "message annotations":
            assert taken.message_annotations == {"x-opt-list": [1, 2], "x-opt-text": "x"}
    return None


for fields_row in FIELDS:
    scenario(fields_row, *CLIENTS)(partial(fields, fields_row))
