"""Whole messages in one transfer go a shorter way through a receiver: it leads where the long one does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.delivery import IncomingDelivery
from amqpforge.engine.receiver import Receiver
from amqpforge_protocol.amqp_1_0 import Accepted, ReceiverSettleMode, Role, Transfer
from tests.engine.joined import BODY
from tests.engine.linked import a_transfer, delivered, disposition, receiving, transfer

SECOND = ReceiverSettleMode.SECOND

TRAFFIC: dict[str, list[Any]] = {
    "unsettled": [(transfer(0), BODY), (transfer(1), BODY)],
    "settled": [(transfer(0, settled=True), BODY), (transfer(1, settled=True), b"")],
    "hints": [(transfer(0, batchable=True), BODY), (transfer(1, settled=False), BODY)],
    "without a message format": [(transfer(0, message_format=None), BODY)],
    "of another format": [(transfer(0, message_format=7), BODY)],
    "with a state": [(transfer(0, state=Accepted()), BODY), (transfer(1), BODY)],
    "with a mode": [(transfer(0, rcv_settle_mode=ReceiverSettleMode.FIRST), BODY)],
    "with a mode that is not allowed": [(transfer(0, rcv_settle_mode=SECOND), BODY)],
    "in two pieces": [(transfer(0, more=True), BODY), (a_transfer(handle=0), BODY), (transfer(1), BODY)],
    "a new one inside another": [(transfer(0, more=True), BODY), (transfer(1), BODY)],
    "aborted": [(transfer(0, aborted=True), BODY), (transfer(1), BODY)],
    "resumed, and not known": [(transfer(0, resume=True), BODY), (transfer(1), BODY)],
    "more than the credit": [(transfer(number), BODY) for number in range(4)],
    "too large": [(transfer(0), bytes(101)), (transfer(1), BODY)],
    "as large as can be": [(transfer(0), bytes(100)), (transfer(1, settled=True), bytes(100))],
    "a tag twice": [(transfer(0, b"t"), BODY), (transfer(1, b"t"), BODY)],
    "a tag again": [
        (transfer(0, b"t"), BODY),
        disposition(Role.SENDER, 0, settled=True),
        (transfer(1, b"t"), BODY),
    ],
    "a number twice": [(transfer(0, b"t"), BODY), (transfer(0, b"u", settled=True), BODY)],
    "without a tag": [(a_transfer(handle=0, delivery_id=0), BODY)],
    "without a number": [(a_transfer(handle=0, delivery_tag=b"t"), BODY)],
}


def seen(delivery: IncomingDelivery) -> dict[str, Any]:
    """All that is known of a delivery, but the objects around it."""
    return {
        name: getattr(delivery, name)
        for name in IncomingDelivery.__slots__
        if name not in ("link", "sections", "context")
    }


def outcome(frames: list[Any], prepare: Callable[[Receiver], None]) -> dict[str, Any]:
    """What becomes of a receiver with a credit of 3, and of its peer, when these frames come in."""
    peer, link = receiving(3, mode={"max_message_size": 100})
    prepare(link)
    peer.feed(*frames)
    handed_out = [[seen(one) for one in event.deliveries] for event in peer.told(events.Deliveries)]
    return {
        "told": [type(event).__name__ for event in peer.events],
        "handed out": handed_out,
        "unsettled": {tag: seen(one) for tag, one in link.unsettled.items()},
        "flow": {name: getattr(link.flow_state, name) for name in link.flow_state.__slots__},
        "link": (link.state, link.held, link.ignores, link.error and str(link.error)),
        "session": session_of(link),
        "written": [frame.performative for frame in peer.sent],
    }


def session_of(link: Receiver) -> Any:
    session = link.session
    if session is None:
        return None
    windows = session.windows
    numbers = {number: one.tag for number, one in session.incoming.items()}
    return numbers, {name: getattr(windows, name) for name in windows.__slots__}


def nothing(link: Receiver) -> None:
    """The link is as it was attached."""


def streams(link: Receiver) -> None:
    link.streams = True


def without_target(link: Receiver) -> None:
    link.target = None


@pytest.mark.parametrize("prepare", [nothing, streams, without_target])
@pytest.mark.parametrize("name", TRAFFIC)
def test_both_ways_lead_to_the_same(
    name: str, prepare: Callable[[Receiver], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = outcome(TRAFFIC[name], prepare)

    def long_way(link: Receiver, transfer: Transfer, payload: bytes) -> None:
        if link.takes_frame():
            link._take_any(transfer, payload)

    monkeypatch.setattr(Receiver, "on_transfer", long_way)
    assert outcome(TRAFFIC[name], prepare) == short


@pytest.mark.parametrize("settled", [False, True])
def test_a_usual_message_takes_the_short_way(settled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(link: Receiver, transfer: Transfer, payload: bytes) -> None:
        raise AssertionError(f"{transfer} took the long way")

    monkeypatch.setattr(Receiver, "_take_any", refuse)
    peer, _ = receiving(1)
    peer.feed((transfer(0, settled=settled), BODY))
    assert [one.payload for one in delivered(peer)] == [BODY]
