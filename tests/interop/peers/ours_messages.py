"""Messages and outcomes between JSON and our client; the keys are the fields of ``tests.interop.results``."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from amqpforge import Delivery, Message
from amqpforge.client.link import Link
from amqpforge_protocol.amqp_1_0 import (
    AmqpSequence,
    AmqpValue,
    Data,
    Error,
    Modified,
    ReceiverSettleMode,
    Rejected,
    SenderSettleMode,
    Source,
    Target,
)
from tests.interop.payload import octets
from tests.interop.peers.forms import plain, text_of

PROPERTIES = ("to", "subject", "reply_to", "correlation_id", "content_type", "group_id")
HEADER = ("durable", "priority", "ttl", "first_acquirer", "delivery_count")


def build(spec: Mapping[str, Any], number: int) -> Message:
    """Message ``number`` of the series that ``spec`` describes."""
    text = spec["text"]
    body: object
    if spec["kind"] == "data":
        body = octets(number, spec["size"]) if text is None else text.encode()
    elif spec["kind"] in ("value", "none"):
        body = text
    else:
        body = AmqpSequence([number, text])
    header = dict(spec["header"])
    if "ttl" in header:
        header["ttl"] /= 1000
    identifier = spec["message_id"]
    return Message(
        body,
        message_id=None if identifier is None else identifier.replace("{}", str(number)),
        application_properties=dict(spec["application_properties"]) or None,
        annotations=dict(spec["message_annotations"]) or None,
        **header,
        **spec["properties"],
    )


def describe(message: Message, settled: bool) -> dict[str, object]:
    """A message that arrived, for the test."""
    header = {name: getattr(message, name) for name in HEADER}
    if header["ttl"] is not None:
        header["ttl"] = round(1000 * header["ttl"])
    properties = {name: plain(getattr(message, name)) for name in ("message_id", *PROPERTIES)}
    return {
        "body": _describe_body(message),
        "settled": settled,
        "header": {key: value for key, value in header.items() if value is not None},
        "properties": {key: value for key, value in properties.items() if value is not None},
        "application_properties": plain(dict(message.application_properties or {})),
        "message_annotations": plain(dict(message.annotations or {})),
    }


def _describe_body(message: Message) -> dict[str, object]:
    body = message.sections.body
    kind, content, value = "none", b"", None
    if isinstance(body, AmqpValue):
        kind = "value"
        if isinstance(body.value, str):
            content = body.value.encode()
        elif isinstance(body.value, bytes):
            content = body.value
        else:
            value = plain(body.value)
    elif isinstance(body, list) and isinstance(body[0], Data):
        parts: list[Any] = [each.value for each in body]
        kind, content = "data", b"".join(parts)
    elif isinstance(body, list):
        kind = "sequence"
        sequences = [plain(each.value) for each in body]
        value = sequences[0] if len(sequences) == 1 else sequences
    return {
        "kind": kind,
        "size": len(content),
        "sha256": sha256(content).hexdigest(),
        "text": text_of(content),
        "value": value,
    }


def problem(error: Error | None) -> dict[str, object] | None:
    """An error as the tests have it."""
    if error is None:
        return None
    return {"condition": str(error.condition), "description": error.description}


def outcome_of(outcome: object, settled: bool) -> dict[str, object]:
    """What the other end said of a delivery; of a message sent settled there is none."""
    told: dict[str, object] = {
        "name": None if outcome is None else type(outcome).__name__.lower(),
        "settled": settled,
    }
    if isinstance(outcome, Rejected):
        told["error"] = problem(outcome.error)
    if isinstance(outcome, Modified):
        told["delivery_failed"] = bool(outcome.delivery_failed)
        told["undeliverable_here"] = bool(outcome.undeliverable_here)
        told["message_annotations"] = plain(dict(outcome.message_annotations or {}))
    return told


def give(delivery: Delivery, answer: Mapping[str, Any]) -> None:
    """Give a delivery the outcome that ``answer`` describes."""
    match answer["name"]:
        case "accepted":
            delivery.accept()
        case "released":
            delivery.release()
        case "modified":
            delivery.modify(
                delivery_failed=answer["delivery_failed"],
                undeliverable_here=answer["undeliverable_here"],
                annotations=answer["message_annotations"] or None,
            )
        case "rejected" if answer["error"] is not None:
            delivery.reject(answer["error"]["condition"], answer["error"]["description"])
        case "rejected":
            delivery.reject()


def modes(mode: str, receiver_mode: str) -> dict[str, Any]:
    """The settle modes of a link, as our client is told them."""
    return {
        "snd_settle_mode": SenderSettleMode[mode.upper()],
        "rcv_settle_mode": ReceiverSettleMode[receiver_mode.upper()],
    }


def attached(link: Link[Any]) -> dict[str, object]:
    """What the other end's attach said; the modes are those that hold for both ends."""
    end, remote = link._end, link._end.remote
    source = remote.source if isinstance(remote.source, Source) else Source()
    target = remote.target if isinstance(remote.target, Target) else Target()
    return {
        "snd_settle_mode": SenderSettleMode(end.snd_settle_mode).name.lower(),
        "rcv_settle_mode": ReceiverSettleMode(end.rcv_settle_mode).name.lower(),
        "source": None if source.address is None else str(source.address),
        "target": None if target.address is None else str(target.address),
        "max_message_size": remote.max_message_size or None,
        "filters": sorted(map(str, source.filter or {})),
    }
