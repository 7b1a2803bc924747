"""A message as a queue of the test node keeps it, and what outcomes do to it (sections 3.4.2 to 3.4.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import (
    MESSAGE_FORMAT,
    DecodeError,
    Header,
    Modified,
    Rejected,
    decode_message,
    encode_message,
)
from amqpforge_protocol.amqp_1_0 import Message as Sections

if TYPE_CHECKING:
    from amqpforge_protocol.amqp_1_0.archetypes import AnyOutcome

__all__ = ["StoredMessage"]


class StoredMessage:
    """A message at a node.

    Attributes:
        number: its place in its queue; it keeps it when it comes back.
        payload: its octets, as they are at the node now.
        message_format: what the octets are.
        is_relayed: whether it came over a link, so that its delivery annotations go no further.
        is_acquired: whether it is on its way to a receiver that may keep it.
        outcome: what became of it; None as long as it is in its queue.
    """

    __slots__ = (
        "_acquirers",
        "_barred",
        "is_acquired",
        "is_relayed",
        "message_format",
        "number",
        "outcome",
        "payload",
    )

    def __init__(
        self, payload: bytes, message_format: int = MESSAGE_FORMAT, *, is_relayed: bool = False
    ) -> None:
        self.number = 0
        self.payload = payload
        self.message_format = message_format
        self.is_relayed = is_relayed
        self.is_acquired = False
        self.outcome: AnyOutcome | None = None
        self._acquirers: set[object] = set()
        self._barred: set[object] = set()

    def __repr__(self) -> str:
        state = (
            "acquired" if self.is_acquired else "available" if self.outcome is None else repr(self.outcome)
        )
        return f"<StoredMessage {self.number}, {len(self.payload)} octets, {state}>"

    @property
    def message(self) -> Message:
        """The message, decoded when someone looks."""
        return Message.from_octets(self.payload, self.message_format)

    @property
    def is_durable(self) -> bool:
        """Whether it is to survive a restart of the node (section 3.2.1)."""
        sections = self._sections()
        return sections is not None and sections.header is not None and sections.header.durable

    def is_barred(self, link: object) -> bool:
        """Whether a link has said that it cannot take the message."""
        return link in self._barred

    def acquire(self, link: object) -> None:
        """A link has it now, and no other one."""
        self.is_acquired = True
        self._acquirers.add(link)

    def octets_for(self, link: object) -> bytes:
        """What goes out on a link: without the delivery annotations of an earlier hop, and with
        first-acquirer only if no other link ever had the message (section 3.2.1).
        """
        sections = self._sections()
        if sections is None:
            return self.payload
        header = sections.header
        was_elsewhere = bool(self._acquirers - {link})
        if not (self.is_relayed and sections.delivery_annotations) and not (
            was_elsewhere and header is not None and header.first_acquirer
        ):
            return self.payload
        if self.is_relayed:
            sections.delivery_annotations = {}
        if header is not None and was_elsewhere:
            header.first_acquirer = False
        return encode_message(sections)

    def apply(self, outcome: AnyOutcome, link: object) -> None:
        """Change the message as an outcome says that a link has told, or would have."""
        if isinstance(outcome, Rejected):
            self._change(failed=True)
        elif isinstance(outcome, Modified):
            if outcome.undeliverable_here:
                self._barred.add(link)
            self._change(failed=bool(outcome.delivery_failed), annotations=outcome.message_annotations)

    def _change(self, *, failed: bool, annotations: dict[str, object] | None = None) -> None:
        sections = self._sections()
        if sections is None or not (failed or annotations):
            return
        if failed:
            sections.header = sections.header or Header()
            sections.header.delivery_count += 1
        sections.message_annotations.update(annotations or {})
        self.payload = encode_message(sections)

    def _sections(self) -> Sections | None:
        """The sections of the message; None if its octets are not in a form that is known here."""
        if self.message_format != MESSAGE_FORMAT:
            return None
        try:
            return decode_message(self.payload)
        except DecodeError:
            return None
