"""Clients made of ours, Proton and rhea with our broker: what is in the messages comes out as it went in."""

from __future__ import annotations

from asyncio import to_thread
from functools import partial

from amqpforge import Message
from amqpforge_protocol.amqp_1_0 import AmqpSequence, AmqpValue, Data
from tests.interop.caller import Caller
from tests.interop.payload import octets
from tests.interop.results import Message as Spec
from tests.interop.scenarios import CALLERS, Played, differs, scenario
from tests.interop.scenarios_calling_messages import SPECS
from tests.interop.scenarios_samples import (
    BODIES,
    FIELDS,
    LAST_ALONE,
    LAST_SECTION,
    SHOWN_PROPERTIES,
    is_shown,
)

SENT_BODIES = {
    "body: data": (Spec(size=300), [Data(octets(0, 300))]),
    "body: string": (Spec(kind="value", text="häuslich"), AmqpValue("häuslich")),
    "body: sequence": (Spec(kind="sequence", text="two"), [AmqpSequence([0, "two"])]),
}
"""What clients are told to send; the others they can only receive."""


async def body(row: str, stage: Caller) -> Played:
    async with stage.ground() as ground:
        queue = ground.queue("bodies")
        if row in SENT_BODIES:
            spec, expected = SENT_BODIES[row]
            sent = ground.queue("sent")
            await to_thread(stage.client.send, sent, 1, spec)
            assert [message.sections.body for message in await ground.messages(sent)] == [expected]
        await ground.put(queue, Message(BODIES[row]))
        [received] = (await to_thread(stage.client.receive, queue)).messages
    if stage.kind == "proton" and row in LAST_SECTION:
        assert (received.body.kind, received.body.text, received.body.value) == LAST_SECTION[row]
        return differs(LAST_ALONE)
    assert is_shown(row, received.body)
    return None


for body_row in BODIES:
    scenario(body_row, *CALLERS)(partial(body, body_row))


async def fields(row: str, stage: Caller) -> Played:
    async with stage.ground() as ground:
        if row in SPECS:
            sent = ground.queue("sent")
            await to_thread(stage.client.send, sent, 1, SPECS[row])
            [message] = await ground.messages(sent)
            check_sent(row, message)
        queue = ground.queue("fields")
        await ground.put(queue, FIELDS[row])
        [passed_on] = await ground.messages(queue)
        [taken] = (await to_thread(stage.client.receive, queue)).messages
    if row == "delivery annotations":  # Which are for the broker alone (section 3.2.2).
        assert not passed_on.delivery_annotations
    elif row != "header":
        assert passed_on == FIELDS[row]
    assert taken.body.text == "body"
    match row:
        case "header":
            assert (taken.header["durable"], taken.header["priority"]) == (True, 7)
            ttl = taken.header["ttl"]
            assert isinstance(ttl, int)
            assert 0 < ttl <= 60_000
        case "properties":
            assert SHOWN_PROPERTIES.items() <= taken.properties.items()
        case "application properties":
            assert taken.application_properties.keys() == FIELDS[row].application_properties.keys()
            assert taken.application_properties["binary"] == "00ff"
        case "message annotations":
            assert taken.message_annotations == {"x-opt-list": [1, 2], "x-opt-text": "x"}
    return None


def check_sent(row: str, message: Message) -> None:
    """What a client has sent is what it was told to send."""
    spec = SPECS[row]
    match row:
        case "header":
            assert (message.durable, message.priority) == (True, 7)
            assert message.ttl is not None
            assert 0 < message.ttl <= 60.0
        case "properties":
            assert message.message_id == "an id"
            for name, value in spec.properties.items():
                assert getattr(message, name) == value
        case "application properties":
            assert dict(message.application_properties) == spec.application_properties
        case _:
            assert dict(message.annotations) == spec.message_annotations


for fields_row in FIELDS:
    scenario(fields_row, *CALLERS)(partial(fields, fields_row))
