"""Messages and outcomes between JSON and Proton; the keys are the fields of ``tests.interop.results``."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from tests.interop.payload import octets
from tests.interop.peers.forms import plain, text_of
from tests.interop.peers.proton_wire import proton

RECEIVED, ACCEPTED, REJECTED, RELEASED, MODIFIED = range(0x23, 0x28)
DECLARED, TRANSACTIONAL = 0x33, 0x34
STATES = {
    RECEIVED: "received",
    ACCEPTED: "accepted",
    REJECTED: "rejected",
    RELEASED: "released",
    MODIFIED: "modified",
    DECLARED: "declared",
    TRANSACTIONAL: "transactional",
}
CODES = {name: code for code, name in STATES.items()}
DESCRIPTORS: dict[object, int] = {f"amqp:{name}:list": code for name, code in CODES.items()}
TERMINAL = {ACCEPTED, REJECTED, RELEASED, MODIFIED, DECLARED}
PROPERTIES = {"to": "address"} | {
    name: name for name in ("subject", "reply_to", "correlation_id", "content_type", "group_id")
}
SENDER_MODES = ["unsettled", "settled", "mixed"]
RECEIVER_MODES = ["first", "second"]


def build(spec: Mapping[str, Any], number: int) -> Any:
    """Message ``number`` of the series that ``spec`` describes."""
    message = proton.Message()
    text = spec["text"]
    if spec["kind"] == "data":
        message.body = octets(number, spec["size"]) if text is None else text.encode()
        message.inferred = True
    elif spec["kind"] in ("value", "none"):
        message.body = text
    else:
        message.body = [number, text]
        message.inferred = True
    if spec["message_id"] is not None:
        message.id = spec["message_id"].replace("{}", str(number))
    for key, value in spec["header"].items():
        setattr(message, key, value / 1000 if key == "ttl" else value)
    for key, value in spec["properties"].items():
        setattr(message, PROPERTIES[key], value)
    message.properties = dict(spec["application_properties"]) or None
    annotations = {proton.symbol(key): value for key, value in spec["message_annotations"].items()}
    message.annotations = annotations or None
    return message


def describe(message: Any, settled: bool) -> dict[str, object]:
    """A message that arrived, for the test."""
    header = {"durable": message.durable, "priority": message.priority, "ttl": round(1000 * message.ttl)}
    header |= {"first_acquirer": message.first_acquirer, "delivery_count": message.delivery_count}
    properties = {"message_id": plain(message.id)}
    properties |= {name: plain(getattr(message, attribute)) for name, attribute in PROPERTIES.items()}
    if properties["content_type"] == "None":  # what Proton makes of its absence
        del properties["content_type"]
    return {
        "body": _describe_body(message),
        "settled": settled,
        "header": {key: value for key, value in header.items() if value is not None},
        "properties": {key: value for key, value in properties.items() if value},
        "application_properties": plain(message.properties or {}),
        "message_annotations": plain(message.annotations or {}),
    }


def _describe_body(message: Any) -> dict[str, object]:
    body = message.body
    kind, content, value = "value", b"", None
    if body is None:
        kind = "none"
    elif isinstance(body, str):
        content = body.encode()
    elif isinstance(body, (bytes, bytearray, memoryview)):
        content = bytes(body)
        kind = "data" if message.inferred else "value"
    else:
        kind = "sequence" if message.inferred and isinstance(body, list) else "value"
        value = plain(body)
    return {
        "kind": kind,
        "size": len(content),
        "sha256": sha256(content).hexdigest(),
        "text": text_of(content),
        "value": value,
    }


def outcome_of(delivery: Any) -> dict[str, object]:
    """What the other end said of a delivery."""
    remote = delivery.remote
    code = int(remote.type)
    if code == TRANSACTIONAL and len(remote.data) > 1 and remote.data[1] is not None:
        descriptor = remote.data[1].descriptor
        code = DESCRIPTORS[descriptor] if descriptor in DESCRIPTORS else int(descriptor)
    condition = remote.condition if code == REJECTED else None
    return {
        "name": STATES.get(code),
        "settled": bool(delivery.settled),
        "error": {"condition": condition.name, "description": condition.description} if condition else None,
        "delivery_failed": bool(code == MODIFIED and remote.failed),
        "undeliverable_here": bool(code == MODIFIED and remote.undeliverable),
        "message_annotations": plain(remote.annotations or {}) if code == MODIFIED else {},
    }


def give(delivery: Any, answer: Mapping[str, Any]) -> None:
    """Tell the sender of a delivery the outcome that ``answer`` describes; does not settle."""
    code = CODES[answer["name"]]
    if code == REJECTED and answer["error"] is not None:
        error = answer["error"]
        delivery.local.condition = proton.Condition(error["condition"], error["description"])
    if code == MODIFIED:
        delivery.local.failed = answer["delivery_failed"]
        delivery.local.undeliverable = answer["undeliverable_here"]
        annotations = {proton.symbol(key): value for key, value in answer["message_annotations"].items()}
        delivery.local.annotations = annotations or None
    delivery.update(code)


def attached(link: Any) -> dict[str, object]:
    """What the other end's attach said."""
    filters = link.remote_source.filter
    filters.rewind()
    accepted = filters.get_object() if filters.next() else None
    return {
        "snd_settle_mode": SENDER_MODES[link.remote_snd_settle_mode],
        "rcv_settle_mode": RECEIVER_MODES[link.remote_rcv_settle_mode],
        "source": link.remote_source.address,
        "target": link.remote_target.address,
        "max_message_size": link.remote_max_message_size or None,
        "filters": sorted(map(str, accepted or {})),
    }


def opened(connection: Any) -> dict[str, object]:
    """What the other end's open said."""
    engine = connection.transport
    idle = engine.remote_idle_timeout if engine else 0
    return {
        "container_id": connection.remote_container,
        "hostname": connection.remote_hostname,
        "max_frame_size": engine.remote_max_frame_size or None,
        "channel_max": engine.remote_channel_max,
        "idle_time_out": round(1000 * idle) or None,
        "offered_capabilities": _symbols(connection.remote_offered_capabilities),
        "desired_capabilities": _symbols(connection.remote_desired_capabilities),
        "properties": plain(connection.remote_properties or {}),
        "mechanism": engine.sasl().mech or None,
        "user": engine.user or None,
    }


def _symbols(value: Any) -> list[str]:
    elements = getattr(value, "elements", value)
    return [str(each) for each in elements or []]
