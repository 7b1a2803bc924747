"""From columns back to the objects that an observer follows: what it looks at, and nothing else."""

from __future__ import annotations

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
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Modified,
    Open,
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

__all__ = ["COLUMNS", "performatives"]

COLUMNS: Final = (
    "open",
    "begin",
    "attach",
    "flow",
    "transfer",
    "disposition",
    "detach",
    "end",
    "close",
    "sasl_mechanisms",
    "sasl_init",
    "sasl_challenge",
    "sasl_response",
    "sasl_outcome",
)
"""The columns that hold performatives; the name in a row is that of its column, with hyphens."""

Column = list[Any]
_Fields = dict[str, Any]


def performatives(batch: Any, names: Sequence[str | None]) -> list[Any]:
    """The performative of each row of a record batch; None for a row without one.

    Args:
        batch: with the columns of `COLUMNS`.
        names: its column ``name``.
    """
    found: list[Any] = [None] * len(names)
    present = {*names}
    for column in COLUMNS:
        name = column.replace("_", "-")
        if name not in present:
            continue
        places = [place for place, held in enumerate(names) if held == name]
        structs = batch.column(column)
        structs = structs.filter(structs.is_valid())
        if len(structs) != len(places):
            raise ValueError(f"the column {column!r} does not go with the names of the frames")
        made = _BUILDERS[column](_parts(structs))
        for place, performative in zip(places, made or [_EMPTY[column]] * len(places), strict=True):
            found[place] = performative
    return found


def _parts(structs: Any) -> _Fields:
    """The columns of a struct, null where the struct is."""
    return dict(zip([field.name for field in structs.type], structs.flatten(), strict=True))


def _lists(fields: _Fields, *names: str) -> list[Column]:
    return [fields[name].to_pylist() for name in names]


def _words(kind: type[Enum]) -> dict[str | None, Any]:
    """The members by the names that columns have for them."""
    return {None: None, **{member.name.lower().replace("_", "-"): member for member in kind}}


_ROLES: Final = _words(Role)
_SENDER_MODES: Final = _words(SenderSettleMode)
_RECEIVER_MODES: Final = _words(ReceiverSettleMode)
_CODES: Final = _words(SaslCode)


def _chosen(words: dict[str | None, Any], values: Column, other: Any = None) -> Column:
    return [words.get(value, other) for value in values]


def _opens(fields: _Fields) -> list[Open]:
    columns = _lists(fields, "container_id", "max_frame_size", "channel_max", "idle_time_out")
    return [
        Open(container_id=container or "", max_frame_size=size, channel_max=channels, idle_time_out=idle)
        for container, size, channels, idle in zip(*columns, strict=True)
    ]


def _begins(fields: _Fields) -> list[Begin]:
    names = ("remote_channel", "next_outgoing_id", "incoming_window", "outgoing_window", "handle_max")
    return [Begin(**dict(zip(names, row, strict=True))) for row in zip(*_lists(fields, *names), strict=True)]


def _attaches(fields: _Fields) -> list[Attach]:
    columns = [
        *_lists(fields, "name", "handle"),
        _chosen(_ROLES, fields["role"].to_pylist()),
        _chosen(_SENDER_MODES, fields["snd_settle_mode"].to_pylist(), SenderSettleMode.MIXED),
        _chosen(_RECEIVER_MODES, fields["rcv_settle_mode"].to_pylist(), ReceiverSettleMode.FIRST),
        _termini(fields["source"], Source),
        _termini(fields["target"], Target),
        # Only whether it is there is looked at.
        [{} if valid else None for valid in fields["unsettled"].is_valid().to_pylist()],
        *_lists(fields, "initial_delivery_count", "max_message_size"),
    ]
    return [
        Attach(
            name=name,
            handle=handle,
            role=role,
            snd_settle_mode=sends,
            rcv_settle_mode=receives,
            source=source,
            target=target,
            unsettled=unsettled,
            initial_delivery_count=count,
            max_message_size=None if most is None else int(most),
        )
        for name, handle, role, sends, receives, source, target, unsettled, count, most in zip(
            *columns, strict=True
        )
    ]


def _termini(column: Any, kind: type[Source | Target]) -> Column:
    """Sources or targets, with their addresses; a coordinator has none."""
    own = kind.__name__.lower()
    parts = _parts(column)
    addresses = _parts(parts[own])["address"].to_pylist()
    return [
        None
        if name is None
        else kind(address=address)
        if name == own
        else Coordinator()
        if name == "coordinator"
        else Symbol(name)
        for name, address in zip(parts["kind"].to_pylist(), addresses, strict=True)
    ]


def _flows(fields: _Fields) -> list[Flow]:
    names = (
        "next_incoming_id",
        "incoming_window",
        "next_outgoing_id",
        "outgoing_window",
        "handle",
        "delivery_count",
        "link_credit",
        "available",
    )
    columns = [*_lists(fields, *names), [bool(drain) for drain in fields["drain"].to_pylist()]]
    return [Flow(**dict(zip((*names, "drain"), row, strict=True))) for row in zip(*columns, strict=True)]


def _transfers(fields: _Fields) -> list[Transfer]:
    columns = [
        *_lists(fields, "handle", "delivery_id", "delivery_tag", "settled", "more", "resume", "aborted"),
        _chosen(_RECEIVER_MODES, fields["rcv_settle_mode"].to_pylist()),
        _states(fields["state"]),
    ]
    return [
        Transfer(
            handle=handle,
            delivery_id=id,
            delivery_tag=tag,
            settled=settled,
            more=bool(more),
            resume=bool(resume),
            aborted=bool(aborted),
            rcv_settle_mode=mode,
            state=state,
        )
        for handle, id, tag, settled, more, resume, aborted, mode, state in zip(*columns, strict=True)
    ]


def _dispositions(fields: _Fields) -> list[Disposition]:
    columns = [
        _chosen(_ROLES, fields["role"].to_pylist()),
        *_lists(fields, "first", "last", "settled"),
        _states(fields["state"]),
    ]
    return [
        Disposition(role=role, first=first, last=last, settled=bool(settled), state=state)
        for role, first, last, settled, state in zip(*columns, strict=True)
    ]


def _detaches(fields: _Fields) -> list[Detach]:
    columns = [*_lists(fields, "handle", "closed"), _errors(fields["error"])]
    return [
        Detach(handle=handle, closed=bool(closed), error=error)
        for handle, closed, error in zip(*columns, strict=True)
    ]


def _ends(fields: _Fields) -> list[End]:
    return [End(error=error) for error in _errors(fields["error"])]


def _closes(fields: _Fields) -> list[Close]:
    return [Close(error=error) for error in _errors(fields["error"])]


def _sasl_inits(fields: _Fields) -> list[SaslInit]:
    return [SaslInit(mechanism=Symbol(name or "")) for name in fields["mechanism"].to_pylist()]


def _sasl_outcomes(fields: _Fields) -> list[SaslOutcome]:
    return [SaslOutcome(code=code) for code in _chosen(_CODES, fields["code"].to_pylist(), SaslCode.SYS)]


def _errors(column: Any) -> list[Error | None]:
    return [
        None if condition is None else Error(condition=Symbol(condition), description=description)
        for condition, description in zip(*_lists(_parts(column), "condition", "description"), strict=True)
    ]


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


def _states(column: Any) -> Column:
    """Delivery states, without what is in them but for the outcome in a transaction."""
    parts = _parts(column)
    kinds = parts["kind"].to_pylist()
    if "transactional-state" not in kinds:
        return [_STATES.get(kind, kind) for kind in kinds]
    transactional = _parts(parts["transactional_state"])
    outcomes = _parts(transactional["outcome"])["kind"].to_pylist()
    return [
        TransactionalState(txn_id=b"", outcome=_STATES.get(outcome))
        if kind == "transactional-state"
        else _STATES.get(kind, kind)
        for kind, outcome in zip(kinds, outcomes, strict=True)
    ]


def _always(fields: _Fields) -> list[Any]:
    """Of these, it only matters that they were sent."""
    return []


_EMPTY: Final[dict[str, Any]] = {
    "sasl_mechanisms": SaslMechanisms(sasl_server_mechanisms=[]),
    "sasl_challenge": SaslChallenge(challenge=b""),
    "sasl_response": SaslResponse(response=b""),
}
_BUILDERS: Final[dict[str, Callable[[_Fields], list[Any]]]] = {
    "open": _opens,
    "begin": _begins,
    "attach": _attaches,
    "flow": _flows,
    "transfer": _transfers,
    "disposition": _dispositions,
    "detach": _detaches,
    "end": _ends,
    "close": _closes,
    "sasl_mechanisms": _always,
    "sasl_init": _sasl_inits,
    "sasl_challenge": _always,
    "sasl_response": _always,
    "sasl_outcome": _sasl_outcomes,
}
