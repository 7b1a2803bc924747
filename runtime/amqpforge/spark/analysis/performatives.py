"""From the fields of frames back to what an observer follows: what it looks at, and nothing else."""

from __future__ import annotations

import json
from binascii import a2b_base64
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Attach,
    Begin,
    Close,
    Coordinator,
    Declared,
    DeliveryTag,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Modified,
    Open,
    ProtocolHeader,
    Received,
    ReceiverSettleMode,
    Rejected,
    Released,
    Role,
    SaslChallenge,
    SaslCode,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    SenderSettleMode,
    Source,
    Symbol,
    Target,
    TransactionalState,
    Transfer,
)

__all__ = ["PERFORMATIVES", "performatives"]

_Fields = dict[str, Any]


def performatives(
    kinds: Sequence[str | None], names: Sequence[str | None], fields: Sequence[Any]
) -> list[Any]:
    """The protocol header or performative of each row of a digest; None for a row without one.

    Args:
        kinds: its column ``kind``.
        names: its column ``name``.
        fields: its column ``fields``.

    Raises:
        ValueError: the fields are none of such a frame.
    """
    found: list[Any] = [None] * len(kinds)
    places, texts = [], []
    for place, (kind, name, text) in enumerate(zip(kinds, names, fields, strict=True)):
        if text is not None and (kind == _HEADER or name in PERFORMATIVES):
            places.append(place)
            texts.append(text)
    for place, held in zip(places, json.loads(f"[{','.join(texts)}]"), strict=True):
        build = _header if kinds[place] == _HEADER else PERFORMATIVES[names[place] or ""]
        try:
            found[place] = build(held)
        except KeyError as error:
            raise ValueError(f"the fields of a row are none of {names[place]}: {error} is missing") from None
    return found


def _words(kind: type[Enum]) -> dict[str | None, Any]:
    """The members by the names that columns have for them."""
    return {None: None, **{member.name.lower().replace("_", "-"): member for member in kind}}


_HEADER: Final = "header"
_ROLES: Final = _words(Role)
_SENDER_MODES: Final = _words(SenderSettleMode)
_RECEIVER_MODES: Final = _words(ReceiverSettleMode)
_CODES: Final = _words(SaslCode)


def _header(fields: _Fields) -> ProtocolHeader:
    return ProtocolHeader(**fields)


def _open(fields: _Fields) -> Open:
    get = fields.get
    return Open(
        container_id=get("container_id", ""),
        max_frame_size=fields["max_frame_size"],
        channel_max=fields["channel_max"],
        idle_time_out=get("idle_time_out"),
    )


def _begin(fields: _Fields) -> Begin:
    get = fields.get
    return Begin(
        remote_channel=get("remote_channel"),
        next_outgoing_id=fields["next_outgoing_id"],
        incoming_window=fields["incoming_window"],
        outgoing_window=fields["outgoing_window"],
        handle_max=fields["handle_max"],
    )


def _attach(fields: _Fields) -> Attach:
    get = fields.get
    return Attach(
        name=fields["name"],
        handle=fields["handle"],
        role=_ROLES[fields["role"]],
        snd_settle_mode=_SENDER_MODES.get(get("snd_settle_mode"), SenderSettleMode.MIXED),
        rcv_settle_mode=_RECEIVER_MODES.get(get("rcv_settle_mode"), ReceiverSettleMode.FIRST),
        source=_terminus(get("source"), Source),
        target=_terminus(get("target"), Target),
        # Only whether it is there is looked at.
        unsettled={} if "unsettled" in fields else None,
        initial_delivery_count=get("initial_delivery_count"),
        max_message_size=get("max_message_size"),
    )


def _terminus(held: _Fields | None, kind: type[Source | Target]) -> Any:
    """A source or target with its address; a coordinator has none."""
    if held is None:
        return None
    own, name = kind.__name__.lower(), held.get("kind")
    if name == own:
        return kind(address=held.get(own, {}).get("address"))
    return Coordinator() if name == "coordinator" else Symbol(name or "")


def _flow(fields: _Fields) -> Flow:
    get = fields.get
    return Flow(
        next_incoming_id=get("next_incoming_id"),
        incoming_window=fields["incoming_window"],
        next_outgoing_id=fields["next_outgoing_id"],
        outgoing_window=fields["outgoing_window"],
        handle=get("handle"),
        delivery_count=get("delivery_count"),
        link_credit=get("link_credit"),
        available=get("available"),
        drain=get("drain", False),
    )


def _transfer(fields: _Fields) -> Transfer:
    get = fields.get
    tag = get("delivery_tag")
    return Transfer(
        handle=fields["handle"],
        delivery_id=get("delivery_id"),
        delivery_tag=None if tag is None else DeliveryTag(a2b_base64(tag)),
        settled=get("settled"),
        more=get("more", False),
        resume=get("resume", False),
        aborted=get("aborted", False),
        rcv_settle_mode=_RECEIVER_MODES.get(get("rcv_settle_mode")),
        state=_state(get("state")),
    )


def _disposition(fields: _Fields) -> Disposition:
    get = fields.get
    return Disposition(
        role=_ROLES[fields["role"]],
        first=fields["first"],
        last=get("last"),
        settled=get("settled", False),
        state=_state(get("state")),
    )


def _detach(fields: _Fields) -> Detach:
    return Detach(handle=fields["handle"], closed=fields.get("closed", False), error=_error(fields))


def _end(fields: _Fields) -> End:
    return End(error=_error(fields))


def _close(fields: _Fields) -> Close:
    return Close(error=_error(fields))


def _sasl_init(fields: _Fields) -> SaslInit:
    return SaslInit(mechanism=Symbol(fields.get("mechanism", "")))


def _sasl_outcome(fields: _Fields) -> SaslOutcome:
    return SaslOutcome(code=_CODES.get(fields.get("code"), SaslCode.SYS))


def _error(fields: _Fields) -> Error | None:
    held = fields.get("error")
    if held is None or "condition" not in held:
        return None
    return Error(condition=Symbol(held["condition"]), description=held.get("description"))


_STATES: Final[dict[str | None, Any]] = {
    None: None,
    **{
        kind.XML_NAME: kind
        for kind in (
            Accepted(),
            Rejected(),
            Released(),
            Modified(),
            Received(section_number=0, section_offset=0),
            Declared(txn_id=b""),
        )
    },
}


def _state(held: _Fields | None) -> Any:
    """A delivery state, without what is in it but for the outcome in a transaction."""
    if held is None:
        return None
    kind = held.get("kind")
    if kind == "transactional-state":
        outcome = held.get("transactional_state", {}).get("outcome", {})
        return TransactionalState(txn_id=b"", outcome=_STATES.get(outcome.get("kind")))
    return _STATES.get(kind, kind)


def _always(made: Any) -> Callable[[_Fields], Any]:
    """Of these, it only matters that they were sent."""
    return lambda fields: made


PERFORMATIVES: Final[dict[str, Callable[[_Fields], Any]]] = {
    "open": _open,
    "begin": _begin,
    "attach": _attach,
    "flow": _flow,
    "transfer": _transfer,
    "disposition": _disposition,
    "detach": _detach,
    "end": _end,
    "close": _close,
    "sasl-mechanisms": _always(SaslMechanisms(sasl_server_mechanisms=[])),
    "sasl-init": _sasl_init,
    "sasl-challenge": _always(SaslChallenge(challenge=b"")),
    "sasl-response": _always(SaslResponse(response=b"")),
    "sasl-outcome": _sasl_outcome,
}
"""What makes a performative of its fields, by its name."""
