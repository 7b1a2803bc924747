"""What becomes of the deliveries that were unsettled when a link is resumed (sections 2.6.13 and 3.4.6).

Pure decisions: nothing here sends, keeps or changes anything. Both ends tell each other what they hold
unsettled, as maps from delivery-tag to delivery state (:func:`sender_map`, :func:`receiver_map`,
:func:`fit_unsettled`, :func:`read_unsettled`). The sender compares both maps (:func:`plan_resumption`, and
:func:`decide` for one tag); the receiver sees what is missing in the sender's (:func:`settled_by_absence`),
then answers each resumed delivery (:func:`answer_resumed`).

Only outcomes count as terminal. A state inside a transaction is not in force before the commit, and a state
of an extension, taken for terminal, could lose a message: both say as much about the payload as null does.

The tags that are named are those of the example in section 3.4.6, which has one for each case.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from amqpforge.errors import LocalError, ProtocolViolation
from amqpforge_protocol.amqp_1_0 import (
    AmqpError,
    AnyDeliveryState,
    Attach,
    Map,
    Received,
    Transfer,
    Value,
    encode_frame,
    encode_value,
)
from amqpforge_protocol.amqp_1_0.registry import DELIVERY_STATE

from .delivery import is_terminal
from .sections import Sections

__all__ = [
    "ABSENT",
    "Absent",
    "Answer",
    "Conclude",
    "Continue",
    "Decision",
    "Incoming",
    "Later",
    "NoAnswer",
    "NoResume",
    "Outgoing",
    "Plan",
    "Restate",
    "ResumeAborted",
    "ResumePayload",
    "ResumeState",
    "State",
    "answer_resumed",
    "decide",
    "fit_unsettled",
    "plan_resumption",
    "read_unsettled",
    "receiver_map",
    "sender_map",
    "settled_by_absence",
]

State: TypeAlias = AnyDeliveryState | None
"""A delivery state; None is the null of the unsettled maps."""

_LONGEST_TAG = 32
_WIDER = 12
"""What an attach grows by when its map and its list both outgrow the forms whose sizes take one octet."""


class Absent(Enum):
    """The type of :data:`ABSENT`."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""Stands for the state of a tag that a map does not have, where None is the state null."""


# ---- What each end holds, and the maps that tell it ----


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A delivery that the sender has not settled.

    Attributes:
        sections: the sections of the message, as far as it has been written. Empty ones do for a message
            whose octets are no sections: it can then be resumed from its first octet only.
        held_from: the first octet that can still be sent for this delivery, 0 to ``sections.size``.
        has_message: the whole message is at hand, to be sent again as a new delivery.
        outcome: the outcome in force at the source, or bound to come into force there; None if there is none.
        may_resume: the receiver may ask for payload. False, and only with an outcome, when the receiver is
            known to have the whole message, or when the outcome has retired it from the source (sections
            3.4.2 to 3.4.5).
    """

    sections: Sections = field(default_factory=Sections)
    held_from: int = 0
    has_message: bool = True
    outcome: AnyDeliveryState | None = None
    may_resume: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.held_from <= self.sections.size:
            raise ValueError(f"held_from is 0 to {self.sections.size}, not {self.held_from}")
        if not self.may_resume and self.outcome is None:
            raise ValueError("a delivery without an outcome may be resumed: set may_resume, or the outcome")

    @property
    def state(self) -> State:
        """Its entry in the map: from where on payload may be asked for; the outcome only if none may be."""
        if not self.may_resume:
            return self.outcome
        return self.sections.position(self.held_from) if self.held_from else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A delivery that the receiver has not settled.

    Attributes:
        sections: the sections of the octets that came so far.
        is_finished: the last transfer of the message has come.
        outcome: the outcome that the receiver wants; None if it has not decided.
    """

    sections: Sections = field(default_factory=Sections)
    is_finished: bool = False
    outcome: AnyDeliveryState | None = None

    @property
    def state(self) -> State:
        """Its outcome, else the first octet that is missing; None if nothing has come."""
        if self.outcome is not None:
            return self.outcome
        return self.sections.position(self.sections.size) if self.sections.size else None


def sender_map(deliveries: Mapping[bytes, Outgoing]) -> dict[bytes, State]:
    """The sender's unsettled map."""
    return {tag: delivery.state for tag, delivery in deliveries.items()}


def receiver_map(deliveries: Mapping[bytes, Incoming]) -> dict[bytes, State]:
    """The receiver's unsettled map, without the deliveries of which nothing has come.

    Null entries are discouraged (tag 4). The receiver has to forget those deliveries: they come anew (tag 1).
    """
    states = {tag: delivery.state for tag, delivery in deliveries.items()}
    return {tag: state for tag, state in states.items() if state is not None}


def read_unsettled(unsettled: Mapping[Any, Value] | Map | None) -> dict[bytes, State]:
    """The unsettled map of an attach that resumes a link; one that is null has no entries.

    Raises:
        ProtocolViolation: a key is null or otherwise no delivery-tag, or a value is no delivery state
            (section 2.7.3).
    """
    states: dict[bytes, State] = {}
    for tag, state in () if unsettled is None else unsettled.items():
        if not isinstance(tag, bytes) or len(tag) > _LONGEST_TAG:
            raise _invalid(f"attach.unsettled: {tag!r:.80} is no delivery-tag, at most {_LONGEST_TAG} octets")
        if state is not None and not DELIVERY_STATE.admits(state):
            raise _invalid(f"attach.unsettled: {state!r:.80} of tag {tag.hex()} is no delivery state")
        states[tag] = state
    return states


def fit_unsettled(attach: Attach, max_frame_size: int) -> Attach:
    """The attach, with an incomplete map if the frame would exceed ``max_frame_size`` octets.

    Entries are taken in the order of the map; one that does not fit the room that is left is passed over.
    An end that answers an incomplete map does well to put first the tags that it has read there: those can
    be resumed in this round.

    Returns:
        ``attach`` itself if it fits; else a copy with at least one entry and incomplete-unsettled set.

    Raises:
        LocalError: no entry fits; the session may then be ended with frame-size-too-small (section 2.8.15).
    """
    if len(encode_frame(attach)) <= max_frame_size:
        return attach
    partial = replace(attach, unsettled={}, incomplete_unsettled=True)
    least = len(encode_frame(partial))
    room = max_frame_size - least - _WIDER
    taken: dict[Any, Value] = {}
    for tag, state in () if attach.unsettled is None else attach.unsettled.items():
        size = len(encode_value(tag)) + len(encode_value(state))
        if size <= room:
            taken[tag] = state
            room -= size
    if not taken:
        raise LocalError(
            f"the attach of link {attach.name!r:.80} takes {least} octets without its unsettled deliveries, "
            f"which leaves no room for one in a frame of {max_frame_size}; shorten source, target, properties"
        )
    return replace(partial, unsettled=taken)


# ---- The sender ----


class NoResume(Enum):
    """What the sender does with a delivery without a resuming transfer."""

    FORGET = "forget"
    """Settle it without a word (tag 10)."""
    SEND_ANEW = "send anew"
    """Send the whole message as a new delivery, which is not flagged as resumed (tags 1 and 5)."""
    REPORT_LOSS = "report loss"
    """Settle it, and tell the application that a message may be lost: it is no longer at hand (tag 5)."""
    KEEP = "keep"
    """Leave it unsettled: a map that is incomplete says nothing about tags that are not in it."""


@dataclass(frozen=True, slots=True)
class ResumePayload:
    """Send the rest of the message in transfers of which the first has ``resume`` (tags 2, 4 and 6).

    If nothing is left of it, one transfer without payload says so.

    Attributes:
        sections: the sections of the message.
        earliest: the first octet of the message that can be sent.
        latest: the first octet that the receiver has not got, as far as is known; at least ``earliest``.
    """

    sections: Sections
    earliest: int
    latest: int

    def start(self, position: Received | None = None) -> tuple[State, int]:
        """Where to begin: by default with the first octet that the receiver lacks.

        Returns:
            ``state`` of the first transfer, null at octet 0; and the offset of its payload in the message.

        Raises:
            LocalError: the position lies before ``earliest``, behind ``latest``, or not in the message.
        """
        offset = self.latest if position is None else self.sections.offset(position)
        if offset is None or not self.earliest <= offset <= self.latest:
            first, last = self.sections.position(self.earliest), self.sections.position(self.latest)
            raise LocalError(f"a delivery cannot be resumed from {position}, only from {first} to {last}")
        return (self.sections.position(offset) if offset else None), offset


@dataclass(frozen=True, slots=True)
class ResumeState:
    """Send one transfer without payload, with ``resume`` and this state (tags 3, 8, 12 and 13).

    Attributes:
        state: the outcome in force at the source.
        settled: both ends agree on it, and the transfer settles (tags 3, 8 and 12); where snd-settle-mode is
            unsettled, no transfer may, and a disposition does it. Otherwise the receiver echoes the outcome
            and settles (tag 13).
    """

    state: AnyDeliveryState
    settled: bool


@dataclass(frozen=True, slots=True)
class ResumeAborted:
    """Send one transfer without payload, with ``resume`` and ``aborted``: the message cannot be completed.

    Attributes:
        then: what to do next: FORGET after an outcome at the source (tags 11 and 14), else SEND_ANEW or
            REPORT_LOSS (tags 7 and 9).
    """

    then: NoResume


class Later(Enum):
    """When a delivery is resumed whose resuming transfer has to wait."""

    WHEN_SETTLED = "when settled"
    """The receiver has its outcome, and would settle: first the application of the sender has to."""


Decision: TypeAlias = NoResume | ResumePayload | ResumeState | ResumeAborted


def decide(local: Outgoing, remote: State | Literal[Absent.ABSENT], *, is_complete: bool = True) -> Decision:
    """What the sender does with one of its unsettled deliveries.

    A position of the receiver that is not in the message is no error: with the whole message, it finds its
    place.

    Args:
        local: the delivery.
        remote: its state in the receiver's map, or ABSENT.
        is_complete: the receiver's map is complete.
    """
    if remote is ABSENT:
        if not is_complete:
            return NoResume.KEEP
        return _send_anew(local) if local.may_resume else NoResume.FORGET
    if remote is not None and is_terminal(remote):
        final = remote if local.outcome is None else local.outcome
        return ResumeState(final, settled=final == remote)
    if not local.may_resume:
        return ResumeAborted(NoResume.FORGET)
    wanted = local.sections.offset(remote) if isinstance(remote, Received) else 0
    if wanted is None and local.held_from == 0:
        wanted = 0
    if wanted is None or wanted < local.held_from:
        return ResumeAborted(_send_anew(local))
    return ResumePayload(local.sections, local.held_from, wanted)


def _send_anew(local: Outgoing) -> NoResume:
    return NoResume.SEND_ANEW if local.has_message else NoResume.REPORT_LOSS


@dataclass(frozen=True, slots=True)
class Plan:
    """What the sender does on a link that was resumed.

    Attributes:
        decisions: by tag, for the sender's unsettled deliveries in their order.
        is_partial: a map was incomplete. Only resumed deliveries may be sent: those to be sent anew wait
            too. When all that were resumed are settled, the link is detached, not closed, and resumed once
            more (section 2.6.13).
        is_stuck: both maps were incomplete and no tag of the receiver's is known, so that another round
            would be the same.
    """

    decisions: dict[bytes, Decision]
    is_partial: bool
    is_stuck: bool

    def is_reduced(self, unsettled: Container[bytes]) -> bool:
        """Whether none of the deliveries that were resumed is among the tags that are still ``unsettled``."""
        resumed = (tag for tag, one in self.decisions.items() if not isinstance(one, NoResume))
        return not any(tag in unsettled for tag in resumed)


def plan_resumption(
    local: Mapping[bytes, Outgoing],
    remote: Mapping[bytes, State],
    *,
    sent_incomplete: bool,
    got_incomplete: bool,
) -> Plan:
    """Compare what the sender holds with the receiver's map. Tags that only the receiver has are left out.

    Args:
        local: all unsettled deliveries of the sender, also those that its own map had no room for.
        remote: the receiver's map, see :func:`read_unsettled`.
        sent_incomplete: the sender's own attach had incomplete-unsettled set.
        got_incomplete: the receiver's attach had it set.
    """
    decisions = {
        tag: decide(delivery, remote.get(tag, ABSENT), is_complete=not got_incomplete)
        for tag, delivery in local.items()
    }
    is_known = not remote.keys().isdisjoint(local)
    return Plan(
        decisions,
        is_partial=sent_incomplete or got_incomplete,
        is_stuck=sent_incomplete and got_incomplete and not is_known,
    )


# ---- The receiver ----


def settled_by_absence(local: Iterable[bytes], remote: Container[bytes], *, is_complete: bool) -> list[bytes]:
    """The receiver's tags that the sender has settled: those that the sender's map lacks, if it is complete.

    What came of an unfinished message is to be dropped: no more of it will come.
    """
    return [tag for tag in local if tag not in remote] if is_complete else []


class NoAnswer(Enum):
    """What the receiver does with a resumed delivery that it neither continues nor answers."""

    IGNORE = "ignore"
    """Its tag is not known: pass over all its transfers."""
    DISCARD = "discard"
    """It is aborted: drop what came of it, and forget it (tags 7, 9, 11 and 14)."""


@dataclass(frozen=True, slots=True)
class Continue:
    """Take the payload, as of any other delivery (tags 2, 4 and 6). A finished message takes none of it.

    Attributes:
        skip: how many octets at the start of the payload, over one or more transfers, are there already. If
            the last transfer comes before that many octets, the sender contradicts what it sent earlier.
    """

    skip: int


@dataclass(frozen=True, slots=True)
class Conclude:
    """Settle, and take no payload (tags 3, 8, 12 and 13). What came of an unfinished message is dropped.

    Attributes:
        outcome: the outcome in force at the source; None if the sender settled without one.
        echo: send a settled disposition with it.
        undo: the receiver had come to another outcome, whose effects are to be undone.
    """

    outcome: AnyDeliveryState | None
    echo: bool
    undo: bool


@dataclass(frozen=True, slots=True)
class Restate:
    """Take no payload; send a disposition that is not settled and tells the receiver's outcome again.

    A sender that resumes before it has seen the receiver's map cannot know the outcome.
    """

    outcome: AnyDeliveryState


Answer: TypeAlias = NoAnswer | Continue | Conclude | Restate


def answer_resumed(local: Incoming | None, transfer: Transfer, payload: bytes) -> Answer:
    """What the receiver does on the first transfer of a resumed delivery.

    Args:
        local: the delivery with this tag in the receiver's unsettled map; None if there is none.
        transfer: the transfer, which has ``resume`` set.
        payload: its payload.

    Raises:
        ProtocolViolation: the payload would begin behind the first octet that is missing.
    """
    if local is None:
        return NoAnswer.IGNORE
    if transfer.aborted:
        return NoAnswer.DISCARD
    settled, final = bool(transfer.settled), transfer.state
    has_data = bool(payload) or transfer.more
    if final is not None and is_terminal(final) and not (has_data and local.outcome is None):
        undo = local.outcome is not None and local.outcome != final
        return Conclude(final, echo=not settled, undo=undo)
    if local.outcome is not None:
        return Conclude(local.outcome, echo=False, undo=False) if settled else Restate(local.outcome)
    if not has_data and settled and not isinstance(final, Received):
        return Conclude(None, echo=False, undo=False)
    if not has_data and local.is_finished:
        return Continue(0)
    return Continue(local.sections.size - _begin(local.sections, final))


def _begin(sections: Sections, state: State) -> int:
    """The offset in the message at which the payload of a resumed delivery begins."""
    offset = sections.offset(state) if isinstance(state, Received) else 0
    if offset is None:
        missing = sections.position(sections.size)
        raise _invalid(f"transfer.state: the payload begins at {state}, but is missing from {missing} on")
    return offset


def _invalid(description: str) -> ProtocolViolation:
    return ProtocolViolation(AmqpError.INVALID_FIELD, description)
