"""Sources, targets and ends of links, from what applications say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from amqpforge.engine.settings import SessionSettings
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AnySource,
    AnyTarget,
    Described,
    Modified,
    Rejected,
    Released,
    Seconds,
    Source,
    StdDistMode,
    Symbol,
    Target,
    TerminusExpiryPolicy,
)

if TYPE_CHECKING:
    from .options import Options
    from .receiver import Receiver

__all__ = [
    "MAX_MESSAGE_SIZE",
    "SELECTOR",
    "SOURCE",
    "TARGET",
    "check_dynamic",
    "fields",
    "link_name",
    "missing_filters",
    "outlives_session",
    "source",
    "stream_session",
    "symbols",
    "target",
    "window",
]

SOURCE: Final = Source(
    outcomes=[Symbol(outcome.SYMBOL) for outcome in (Accepted, Rejected, Released, Modified)]
)
"""What a sender that is no node tells about itself: it understands each outcome (section 3.5.3)."""

TARGET: Final = Target()
"""What a receiver that is no node tells about itself."""

MAX_MESSAGE_SIZE: Final = 1 << 27
"""Octets of the largest message that a receiver puts together, if nothing else is asked for."""

SELECTOR: Final = Symbol("apache.org:selector-filter:string")

_STREAM_OCTETS: Final = 1 << 22
"""Octets of streamed messages that may wait for the application."""


def link_name(address: object) -> str:
    """A name that no other link has, and that shows what it is for."""
    shown = address if isinstance(address, str) else getattr(address, "address", None) or "dynamic"
    return f"{shown}-{uuid4().hex[:12]}"


def symbols(names: Sequence[str]) -> tuple[Symbol, ...]:
    """Names of extensions."""
    return tuple(map(Symbol, names))


def fields(entries: Mapping[str, Any] | None) -> dict[str, Any]:
    """A map whose keys are symbols."""
    return {Symbol(key): value for key, value in (entries or {}).items()}


def target(
    address: str | AnyTarget | None, *, dynamic: bool, expiry_policy: TerminusExpiryPolicy, expiry: int
) -> AnyTarget:
    """The target of a sender.

    Raises:
        LocalError: a dynamic node has no address before the peer gives it one; or a whole target is at odds
            with itself.
    """
    if dynamic and address is not None:
        raise LocalError("a dynamic node gets its address from the peer: address is None then")
    if address is None or isinstance(address, str):
        return Target(address=address, dynamic=dynamic, expiry_policy=expiry_policy, timeout=Seconds(expiry))
    _check_asked(address)
    return address


def source(
    address: str | AnySource | None,
    *,
    mode: str | None,
    selector: str | None,
    filter: Mapping[str, Any] | None,
    expiry_policy: TerminusExpiryPolicy,
    expiry: int,
) -> AnySource:
    """The source of a receiver; without an address a dynamic one.

    Raises:
        LocalError: the mode is not known, or there are options beside a whole source, or that is at odds with
            itself.
    """
    if address is not None and not isinstance(address, str):
        if mode is not None or selector is not None or filter is not None:
            raise LocalError("mode, selector and filter are part of the source, if a whole one is given")
        _check_asked(address)
        return address
    modes = {one.value: one for one in StdDistMode}
    if mode is not None and mode not in modes:
        raise LocalError(f"the mode is {' or '.join(modes)}, not {mode!r}")
    filters: dict[Any, Any] = {}
    for name, value in (filter or {}).items():
        # A filter is described by its type, which most name like the filter (section 3.5.8).
        filters[Symbol(name)] = value if isinstance(value, Described) else Described(Symbol(name), value)
    if selector is not None:
        filters[SELECTOR] = Described(SELECTOR, selector)
    return Source(
        address=address,
        dynamic=address is None,
        expiry_policy=expiry_policy,
        timeout=Seconds(expiry),
        distribution_mode=None if mode is None else modes[mode],
        filter=filters or None,
    )


def _check_asked(terminus: object) -> None:
    """See that a terminus is one to ask a peer for (sections 3.5.3 and 3.5.4)."""
    if not isinstance(terminus, Source | Target):
        return
    check_dynamic(terminus)
    if terminus.dynamic and terminus.address is not None:
        raise LocalError("a dynamic node gets its address from the peer: address is None then")


def check_dynamic(terminus: object) -> None:
    """See that only a dynamic node has properties of one (sections 3.5.3 and 3.5.4).

    Raises:
        LocalError: another one has.
    """
    if isinstance(terminus, Source | Target) and terminus.dynamic_node_properties and not terminus.dynamic:
        raise LocalError("dynamic_node_properties are for a dynamic node: set dynamic, or leave them out")


def outlives_session(terminus: object) -> bool:
    """Whether a terminus of the peer is there for a while after its session (section 3.5.6)."""
    if not isinstance(terminus, Source | Target) or terminus.dynamic:
        return False
    return terminus.expiry_policy == TerminusExpiryPolicy.NEVER or terminus.timeout > 0


def window(credit: int) -> int:
    """The window of a receiver.

    Raises:
        LocalError: it is out of its range.
    """
    if not 0 <= credit < 1 << 31:
        raise LocalError(f"a credit is 0 to {(1 << 31) - 1} messages, not {credit}")
    return credit


def stream_session(options: Options) -> SessionSettings:
    """The session of a receiver that streams: what is not read holds nobody else back."""
    frames = max(_STREAM_OCTETS // options.max_frame_size, 2)
    return SessionSettings(incoming_window=frames, handle_max=options.handle_max)


def missing_filters(receiver: Receiver, asked: AnySource) -> list[str]:
    """The filters that the peer leaves out: its messages are not filtered by them (section 3.5.8)."""
    wanted = asked.filter if isinstance(asked, Source) else None
    return [str(name) for name in wanted or {} if name not in receiver.filters]
