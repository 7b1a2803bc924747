"""Whole messages that nothing keeps go a shorter way out of a sender: it leads where the long one does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqpforge.engine import sender as sender_module
from amqpforge.engine.delivery import OutgoingDelivery
from amqpforge.engine.sender import Sender
from amqpforge.engine.settings import SessionSettings
from amqpforge_protocol.amqp_1_0 import Accepted, Coordinator, ReceiverSettleMode, Role, SenderSettleMode
from tests.engine.joined import BODY, Scripted, a_sender
from tests.engine.linked import disposition, flow, scripted

FIRST = ReceiverSettleMode.FIRST


def plain(link: Sender, peer: Scripted) -> None:
    for _ in range(3):
        link.send(BODY)


def hints(link: Sender, peer: Scripted) -> None:
    link.send(BODY, tag=b"t", settled=True, message_format=7, rcv_settle_mode=FIRST, batchable=True)
    link.send(b"", tag=bytes(32), settled=False)


def a_state(link: Sender, peer: Scripted) -> None:
    link.send(BODY, state=Accepted())


def more_than_the_credit(link: Sender, peer: Scripted) -> None:
    for _ in range(7):
        link.send(BODY)
    peer.feed(flow(link_credit=3, delivery_count=5))


def large(link: Sender, peer: Scripted) -> None:
    for size in (380, 384, 385, 440, 500, 512, 2000):
        link.send(bytes(size))
        peer.feed(flow(link_credit=9, delivery_count=link.flow_state.delivery_count))


def a_drain(link: Sender, peer: Scripted) -> None:
    link.auto_drain = False
    peer.feed(flow(link_credit=3, delivery_count=0, drain=True))
    link.auto_drain = True
    link.send(BODY)


def a_window(link: Sender, peer: Scripted) -> None:
    peer.feed(flow(link_credit=9, delivery_count=0, incoming_window=2))
    for _ in range(3):
        link.send(BODY)
    peer.feed(flow(link_credit=9, delivery_count=0, next_incoming_id=2, incoming_window=2))


def a_full_output(link: Sender, peer: Scripted) -> None:
    for _ in range(4):
        link.send(bytes(100_000))


def a_piece_under_way(link: Sender, peer: Scripted) -> None:
    half = link.start_message()
    half.write(BODY)
    link.send(BODY)
    half.finish()


def an_answer(link: Sender, peer: Scripted) -> None:
    link.send(BODY)
    peer.feed(disposition(Role.RECEIVER, 0, state=Accepted(), settled=True))
    link.send(BODY)


def a_detach(link: Sender, peer: Scripted) -> None:
    link.send(BODY)
    link.detach()
    link.send(BODY)


def a_coordinator(link: Sender, peer: Scripted) -> None:
    link.target = Coordinator()
    link.send(BODY)


TRAFFIC: list[Callable[[Sender, Scripted], None]] = [
    plain,
    hints,
    a_state,
    more_than_the_credit,
    large,
    a_drain,
    a_window,
    a_full_output,
    a_piece_under_way,
    an_answer,
    a_detach,
    a_coordinator,
]
MODES: dict[str, dict[str, Any]] = {
    "mixed": {},
    "settled": {"snd_settle_mode": SenderSettleMode.SETTLED},
    "unsettled": {"snd_settle_mode": SenderSettleMode.UNSETTLED},
}


def seen(delivery: OutgoingDelivery) -> dict[str, Any]:
    """All that is known of a delivery, but the objects around it."""
    names = [
        name for name in OutgoingDelivery.__slots__ if name not in ("link", "sections", "context", "parts")
    ]
    return {name: getattr(delivery, name) for name in names}


def outcome(
    traffic: Callable[[Sender, Scripted], None], mode: dict[str, Any], window: int | None, small: bool
) -> dict[str, Any]:
    """What becomes of a sender with a credit of 5, and of its peer."""
    session_settings = None if window is None else SessionSettings(outgoing_window=window)
    peer, session = scripted(session=session_settings, open={"max_frame_size": 512} if small else None)
    link: Sender = peer.attached(session, a_sender("n", **mode))
    peer.feed(flow(link_credit=5, delivery_count=0))
    error: Exception | None = None
    try:
        traffic(link, peer)
    except Exception as raised:
        error = raised
    peer.flush()
    return {
        "error": repr(error),
        "told": [type(event).__name__ for event in peer.events],
        "queue": [seen(one) for one in link.queue],
        "unsettled": {tag: seen(one) for tag, one in link.unsettled.items()},
        "flow": {name: getattr(link.flow_state, name) for name in link.flow_state.__slots__},
        "windows": {name: getattr(session.windows, name) for name in session.windows.__slots__},
        "numbers": (session.next_delivery_id, {number: one.tag for number, one in session.outgoing.items()}),
        "waits": (list(session.stalled) == [link], list(peer.engine.ready) == [link]),
        "written": [(frame.performative, bytes(frame.payload)) for frame in peer.sent],
    }


@pytest.mark.parametrize("small", [False, True], ids=["", "small frames"])
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("traffic", TRAFFIC)
def test_both_ways_lead_to_the_same(
    traffic: Callable[[Sender, Scripted], None],
    mode: str,
    window: int | None,
    small: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short = outcome(traffic, MODES[mode], window, small)
    assert short["written"]
    monkeypatch.setattr(sender_module, "send_straight", lambda *_: False)
    assert outcome(traffic, MODES[mode], window, small) == short


@pytest.mark.parametrize("settled", [False, True])
def test_a_usual_message_takes_the_short_way(settled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    peer, session = scripted()
    link: Sender = peer.attached(session, a_sender("n"))
    peer.feed(flow(link_credit=5, delivery_count=0))
    monkeypatch.delattr(Sender, "pump")
    link.send(BODY, settled=settled)
    assert len(peer.flush()) == 1
