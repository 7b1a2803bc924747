"""What went over a connection and its links: numbers as they are at one moment."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ConnectionCounters", "ReceiverCounters", "SenderCounters"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionCounters:
    """Of a connection, over all transports that it had.

    Attributes:
        frames_received: frames that came in, empty ones included.
        frames_sent: frames that went out, empty ones included.
        octets_received: octets of frames and headers of AMQP that came in.
        octets_sent: those that went out.
        reconnects: how often it was lost and made again.
        sessions: sessions that are begun.
        links: links that are not closed.
    """

    frames_received: int
    frames_sent: int
    octets_received: int
    octets_sent: int
    reconnects: int
    sessions: int
    links: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderCounters:
    """Of a sender.

    Attributes:
        messages: messages given to it.
        octets: their octets.
        accepted: messages with this outcome, and so on.
        queued: messages that wait for credit, or are not sent whole.
        unsettled: messages whose outcome is not known, those that wait included.
        credit: messages that the receiver would take now.
        reattached: how often the link was attached again.
    """

    messages: int
    octets: int
    accepted: int
    rejected: int
    released: int
    modified: int
    queued: int
    unsettled: int
    credit: int
    reattached: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverCounters:
    """Of a receiver.

    Attributes:
        messages: messages that came in.
        octets: their octets.
        handed_over: messages that the application has got.
        waiting: messages that wait for the application.
        unsettled: messages that are not settled, those that wait included.
        credit: messages that the sender may still send.
        reattached: how often the link was attached again.
    """

    messages: int
    octets: int
    handed_over: int
    waiting: int
    unsettled: int
    credit: int
    reattached: int
