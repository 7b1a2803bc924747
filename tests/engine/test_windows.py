"""The windows of a session, and the numbers that count through them (section 2.5.6)."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.flow import UNLIMITED, SessionWindows
from amqpforge.engine.sender import Sender
from amqpforge.engine.session import Session
from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Role,
)
from tests.engine.frames import Begin, Disposition, End, Error, Flow, Transfer
from tests.engine.joined import BODY, Joined, Scripted, a_receiver, a_sender

MAXIMUM = 0xFFFF_FFFF
STARTS = [0, (1 << 32) - 3, (1 << 31) - 2]
"""Where numbers start in whole conversations: they pass 2^31 and 2^32 on the way."""


def flow(**fields: Any) -> Any:
    return Flow(
        **{
            "next_incoming_id": 0,
            "incoming_window": 1000,
            "next_outgoing_id": 0,
            "outgoing_window": 1000,
            **fields,
        }
    )


def condition(frame: Any) -> str | None:
    return None if frame.error is None else str(frame.error.condition)


def sending(settings: SessionSettings | None = None, **begin: Any) -> tuple[Scripted, Session, Sender]:
    """A sender with credit for 100 messages; the keywords are fields of the peer's begin."""
    peer = Scripted().opened(max_frame_size=512)
    session = peer.begun(settings, **begin)
    link = peer.attached(session, a_sender())
    assert isinstance(link, Sender)
    window = begin.get("incoming_window", 1000)
    first = session.windows.initial_outgoing_id
    peer.feed(
        flow(
            next_incoming_id=first,
            incoming_window=window,
            outgoing_window=session.windows.remote_outgoing_window,
            next_outgoing_id=session.windows.next_incoming_id,
            handle=0,
            delivery_count=0,
            link_credit=100,
        )
    )
    return peer, session, link


def receiving(
    settings: SessionSettings | None = None, *, streams: bool = False, **begin: Any
) -> tuple[Scripted, Session, Any]:
    """A session with a receiver that has given credit for 100 messages."""
    peer = Scripted().opened()
    session = peer.begun(settings, **begin)
    link = peer.attached(session, a_receiver(streams=streams))
    link.flow(100)
    peer.flush()
    return peer, session, link


def transfer(number: int, *, more: bool = False) -> tuple[Any, bytes]:
    tag = number.to_bytes(4, "big")
    return Transfer(handle=0, delivery_id=number, delivery_tag=tag, settled=True, more=more), BODY


def three_frames() -> bytes:
    return b"\x00\x53\x75\xb0\x00\x00\x04\xb0" + bytes(1200)


# --- sending ---


@pytest.mark.spec("T-WIN-001", "T-WIN-010")
def test_each_frame_takes_a_transfer_id_and_each_message_a_delivery_id() -> None:
    peer, session, link = sending()
    link.send(three_frames())
    assert len(peer.flush()) == 3
    assert session.windows.next_outgoing_id == 3
    assert session.windows.remote_incoming_window == 997
    assert session.next_delivery_id == 1
    link.send(BODY)
    assert session.windows.next_outgoing_id == 4
    assert session.windows.remote_incoming_window == 996


@pytest.mark.spec("T-WIN-004")
def test_transfer_ids_wrap() -> None:
    peer, session, link = sending(SessionSettings(next_outgoing_id=MAXIMUM))
    assert peer.written(Begin)[0].next_outgoing_id == MAXIMUM
    link.send(BODY)
    link.send(BODY)
    assert session.windows.next_outgoing_id == 1
    assert session.windows.remote_incoming_window == 998


@pytest.mark.spec("T-WIN-006", "T-WIN-019")
@pytest.mark.parametrize("window", [0, 2, 3])
def test_no_more_frames_go_out_than_the_peer_takes(window: int) -> None:
    peer, session, link = sending(incoming_window=window)
    for _ in range(5):
        link.send(BODY)
    assert len(peer.flush()) == window
    assert link.link_credit == 100 - window
    peer.feed(flow(next_incoming_id=window, incoming_window=1))
    assert len(peer.written(Transfer)) == window + 1
    peer.feed(flow(next_incoming_id=window + 1, incoming_window=100))
    assert len(peer.written(Transfer)) == 5
    assert session.windows.remote_incoming_window == 100 - (5 - window - 1)


@pytest.mark.spec("T-WIN-007")
def test_the_peers_window_is_counted_down_and_told_anew() -> None:
    peer, session, link = sending(incoming_window=5)
    link.send(three_frames())
    assert session.windows.remote_incoming_window == 2
    peer.feed(flow(next_incoming_id=3, incoming_window=9))
    assert session.windows.remote_incoming_window == 9
    peer.feed(flow(next_incoming_id=1, incoming_window=9))  # Two frames were still on their way.
    assert session.windows.remote_incoming_window == 7


@pytest.mark.spec("T-WIN-005")
def test_our_own_window_bounds_what_is_out_and_not_settled() -> None:
    peer, session, link = sending(SessionSettings(outgoing_window=1))
    first, second = link.send(BODY), link.send(BODY)
    assert len(peer.flush()) == 1
    assert session.windows.outgoing_window == 0
    peer.feed(Disposition(role=Role.RECEIVER, first=0, settled=True, state=Accepted()))
    assert first.settled
    assert [frame.delivery_id for frame in peer.written(Transfer)] == [0, 1]
    assert not second.settled


@pytest.mark.spec("T-WIN-011", "T-WIN-022")
@pytest.mark.parametrize(("window", "expected"), [(10, 6), (UNLIMITED, UNLIMITED)])
def test_what_we_tell_of_our_outgoing_window(window: int, expected: int) -> None:
    peer, session, link = sending(SessionSettings(outgoing_window=window))
    for _ in range(4):
        link.send(BODY)
    peer.flush()
    [told] = [frame.performative for frame in peer.feed(flow(next_incoming_id=4, echo=True))]
    assert isinstance(told, Flow)
    assert told.outgoing_window == expected
    assert told.next_outgoing_id == 4
    assert session.windows.next_outgoing_id == 4


@pytest.mark.spec("T-WIN-023")
def test_our_outgoing_window_does_not_depend_on_the_peers() -> None:
    peer, _, link = sending(SessionSettings(outgoing_window=50), incoming_window=0)
    link.send(BODY)
    [told] = [frame.performative for frame in peer.feed(flow(incoming_window=0, echo=True))]
    assert isinstance(told, Flow)
    assert told.outgoing_window == 50
    assert peer.written(Transfer) == []


@pytest.mark.spec("T-WIN-016")
@pytest.mark.parametrize("start", [10, 1, MAXIMUM, 1 << 31])
def test_the_peers_window_counts_from_what_it_has_seen(start: int) -> None:
    windows = SessionWindows((start - 2) & MAXIMUM, 100, 100)
    windows.begun(Begin(next_outgoing_id=0, incoming_window=50, outgoing_window=50))
    for _ in range(2):
        windows.sent()
    assert windows.next_outgoing_id == start
    windows.told(flow(next_incoming_id=(start - 2) & MAXIMUM, incoming_window=5))
    assert windows.remote_incoming_window == 3
    windows.told(flow(next_incoming_id=start, incoming_window=5))
    assert windows.remote_incoming_window == 5


@pytest.mark.spec("T-WIN-016")
def test_a_flow_moves_the_window_of_a_session_in_serial_arithmetic() -> None:
    peer, session, link = sending(SessionSettings(next_outgoing_id=MAXIMUM), incoming_window=9)
    for _ in range(4):
        link.send(BODY)
    peer.feed(flow(next_incoming_id=1, incoming_window=5))
    assert session.windows.next_outgoing_id == 3
    assert session.windows.remote_incoming_window == 3


@pytest.mark.spec("T-WIN-017")
def test_a_peer_that_has_not_seen_our_begin_counts_from_the_start() -> None:
    peer, session, link = sending(SessionSettings(next_outgoing_id=5))
    for _ in range(3):
        link.send(BODY)
    peer.feed(flow(next_incoming_id=None, incoming_window=4))
    assert session.windows.remote_incoming_window == 1
    for _ in range(3):
        link.send(BODY)
    peer.flush()
    assert len(peer.written(Transfer)) == 4


def test_a_window_that_is_used_up_amid_a_delivery_is_asked_for_once() -> None:
    """A peer that looks at its window only between deliveries would never open it again."""
    peer, _, link = sending(incoming_window=2)
    link.send(three_frames())
    [*pieces, asking] = [frame.performative for frame in peer.flush()]
    assert [type(piece) for piece in pieces] == [Transfer, Transfer]
    assert isinstance(asking, Flow)
    assert (asking.echo, asking.handle, asking.next_outgoing_id) == (True, None, 2)
    assert peer.feed(flow(next_incoming_id=2, incoming_window=0)) == []  # An answer, which changes nothing.
    link.send(BODY)
    assert peer.flush() == []
    written = [frame.performative for frame in peer.feed(flow(next_incoming_id=2, incoming_window=1))]
    assert [type(frame) for frame in written] == [Transfer]  # The delivery is whole: what follows can wait.
    assert not written[0].more


def test_a_window_is_asked_for_each_time_that_it_is_used_up() -> None:
    peer, _, link = sending(incoming_window=1)
    link.send(three_frames())
    link.send(BODY)
    written = [type(frame.performative) for frame in peer.flush()]
    for seen in (1, 2):
        answers = peer.feed(flow(next_incoming_id=seen, incoming_window=1))
        written += [type(frame.performative) for frame in answers]
    assert written == [Transfer, Flow, Transfer, Flow, Transfer]


@pytest.mark.parametrize("is_whole", [True, False])
def test_nothing_is_asked_for_a_window_that_is_not_needed_amid_a_delivery(is_whole: bool) -> None:
    peer, _, link = sending(incoming_window=1)
    if is_whole:
        link.send(BODY)
        link.send(BODY)
    else:
        link.start_message().write(BODY)
    assert [type(frame.performative) for frame in peer.flush()] == [Transfer]


@pytest.mark.parametrize("window", [1, 2, 7])
def test_a_delivery_of_many_windows_comes_whole(window: int) -> None:
    settings = ConnectionSettings(max_frame_size=512, session=SessionSettings(incoming_window=window))
    joined = Joined(settings, settings)
    session = joined.open()
    link = a_sender()
    session.attach(link)
    joined.run()
    joined.peer_of(link).flow(1)
    message = b"\x00\x53\x75\xb0\x00\x00\x27\x10" + bytes(10_000)
    link.send(message)
    joined.run()
    [event] = joined.told(joined.server, events.Deliveries)
    assert [delivery.payload for delivery in event.deliveries] == [message]


def test_a_window_that_shrinks_below_what_is_out_stops_us() -> None:
    peer, session, link = sending()
    for _ in range(5):
        link.send(BODY)
    peer.feed(flow(next_incoming_id=2, incoming_window=1))
    assert session.windows.remote_incoming_window == -2
    link.send(BODY)
    assert peer.flush() == []
    peer.feed(flow(next_incoming_id=5, incoming_window=1))
    assert len(peer.written(Transfer)) == 6


# --- receiving ---


@pytest.mark.spec("T-WIN-002", "T-WIN-012", "T-WIN-018", "T-WIN-020")
def test_incoming_frames_are_counted_from_the_peers_begin() -> None:
    peer, session, _ = receiving(next_outgoing_id=4_000_000_000, outgoing_window=6)
    windows = session.windows
    assert (windows.next_incoming_id, windows.remote_outgoing_window) == (4_000_000_000, 6)
    peer.feed(transfer(0))
    assert (windows.next_incoming_id, windows.remote_outgoing_window) == (4_000_000_001, 5)
    peer.feed(transfer(1, more=True), transfer(1))
    assert (windows.next_incoming_id, windows.remote_outgoing_window) == (4_000_000_003, 3)


@pytest.mark.spec("T-WIN-008", "T-WIN-009", "T-WIN-015")
def test_the_peers_outgoing_window_is_counted_down_and_told_anew() -> None:
    peer, session, _ = receiving(outgoing_window=5)
    for number in range(3):
        peer.feed(transfer(number))
    assert session.windows.remote_outgoing_window == 2
    peer.feed(flow(next_outgoing_id=3, outgoing_window=9))
    assert session.windows.remote_outgoing_window == 9


@pytest.mark.spec("T-WIN-014", "T-WIN-015")
def test_a_flow_tells_the_next_incoming_id_and_the_outgoing_window() -> None:
    peer, session, _ = receiving()
    peer.feed(flow(next_outgoing_id=77, outgoing_window=33))
    assert session.windows.next_incoming_id == 77
    assert session.windows.remote_outgoing_window == 33
    [told] = [frame.performative for frame in peer.feed(flow(next_outgoing_id=77, echo=True))]
    assert isinstance(told, Flow)
    assert told.next_incoming_id == 77


@pytest.mark.spec("T-WIN-003", "T-ERR-022")
def test_more_frames_than_our_window_end_the_session() -> None:
    """The peer sends four frames at once into a window of two; it opens at half, when output is asked for."""
    peer, session, _ = receiving(SessionSettings(incoming_window=2))
    peer.feed(transfer(0), transfer(1), transfer(2), transfer(3))
    assert condition(peer.written(End)[0]) == "amqp:session:window-violation"
    got = [delivery.id for event in peer.told(events.Deliveries) for delivery in event.deliveries]
    assert got == [0, 1]
    assert isinstance(session.error, Exception)


@pytest.mark.spec("T-WIN-003")
def test_a_window_is_opened_again_at_half() -> None:
    peer, session, _ = receiving(SessionSettings(incoming_window=4))
    assert peer.feed(transfer(0)) == []
    [told] = [frame.performative for frame in peer.feed(transfer(1))]
    assert isinstance(told, Flow)
    assert (told.handle, told.next_incoming_id, told.incoming_window) == (None, 2, 4)
    peer.feed(*(transfer(number) for number in range(2, 6)))
    assert peer.written(End) == []
    assert session.windows.next_incoming_id == 6


@pytest.mark.spec("T-WIN-013")
@pytest.mark.parametrize(("streams", "expected"), [(False, 10), (True, 7)])
def test_what_we_tell_of_our_incoming_window(streams: bool, expected: int) -> None:
    peer, session, _ = receiving(SessionSettings(incoming_window=10), streams=streams)
    for number in range(3):
        peer.feed(transfer(number))
    [told] = [frame.performative for frame in peer.feed(flow(next_outgoing_id=3, echo=True))]
    assert isinstance(told, Flow)
    assert told.incoming_window == expected
    if streams:
        for event in peer.told(events.Partial):
            event.delivery.read()
        [told] = [frame.performative for frame in peer.feed(flow(next_outgoing_id=3, echo=True))]
        assert isinstance(told, Flow)
        assert told.incoming_window == 10
    assert session.windows.incoming_window == 10


def test_a_stream_that_nobody_reads_closes_the_window() -> None:
    peer, session, _ = receiving(SessionSettings(incoming_window=4), streams=True)
    windows = [4]
    for number in range(4):
        for frame in peer.feed(transfer(0, more=number < 3)):
            assert isinstance(frame.performative, Flow)
            windows.append(frame.performative.incoming_window or 0)
    assert windows == sorted(windows, reverse=True)
    peer.feed(transfer(1))
    assert condition(peer.written(End)[0]) == "amqp:session:window-violation"
    assert session.windows.next_incoming_id == 5


# --- flow without a link, with one, and by whom it is asked for ---


@pytest.mark.spec("T-WIN-024")
def test_a_flow_without_a_handle_is_about_the_session_alone() -> None:
    peer, session, link = sending()
    peer.events.clear()
    peer.feed(flow(incoming_window=7))
    assert (link.link_credit, session.windows.remote_incoming_window) == (100, 7)
    assert peer.told(events.Credit) == []
    peer.feed(flow(incoming_window=8, handle=0, delivery_count=0, link_credit=3))
    assert (link.link_credit, session.windows.remote_incoming_window) == (3, 8)
    assert len(peer.told(events.Credit)) == 1


@pytest.mark.parametrize("echo", [True, False])
def test_a_flow_is_answered_if_it_asks_for_it(echo: bool) -> None:
    peer, _, _ = sending()
    answers = peer.feed(flow(echo=echo))
    assert [type(frame.performative) for frame in answers] == [Flow] * echo
    assert all(isinstance(frame.performative, Flow) and not frame.performative.echo for frame in answers)


@pytest.mark.spec("T-ERR-010")
@pytest.mark.parametrize(
    "field", [{"link_credit": 1}, {"delivery_count": 0}, {"available": 5}, {"drain": True}]
)
def test_a_flow_without_a_handle_tells_nothing_of_links(field: dict[str, Any]) -> None:
    peer, _, _ = sending()
    peer.feed(flow(**field))
    assert condition(peer.written(End)[0]) == "amqp:invalid-field"


# --- dispositions over ranges ---


def test_a_disposition_that_ends_before_it_starts_is_refused() -> None:
    peer, _, _ = sending()
    peer.feed(Disposition(role=Role.RECEIVER, first=5, last=4))
    assert condition(peer.written(End)[0]) == "amqp:invalid-field"


@pytest.mark.parametrize("last", [0x7FFF_FFFF, 3, 1_000_000])
def test_a_disposition_over_a_huge_range_is_short_work(last: int) -> None:
    peer, session, link = sending()
    deliveries = [link.send(BODY) for _ in range(3)]
    peer.flush()
    for _ in range(50):
        peer.feed(Disposition(role=Role.RECEIVER, first=0, last=last, settled=True, state=Accepted()))
    assert all(delivery.settled for delivery in deliveries)
    assert session.outgoing == {}


def test_a_disposition_about_unknown_deliveries_changes_nothing() -> None:
    peer, _, _ = sending()
    peer.events.clear()
    for role in (Role.SENDER, Role.RECEIVER):
        assert peer.feed(Disposition(role=role, first=7, last=90, settled=True, state=Accepted())) == []
    assert peer.events == []


# --- whole conversations across the wrap ---


@pytest.mark.spec("T-WIN-004", "T-WIN-016", "T-DISP-021", "T-SESS-003")
@pytest.mark.parametrize("transfer_id", STARTS)
@pytest.mark.parametrize("delivery_id", STARTS)
@pytest.mark.parametrize("delivery_count", STARTS)
def test_a_conversation_across_the_wrap(transfer_id: int, delivery_id: int, delivery_count: int) -> None:
    """Small windows and frames, credit in small portions, both directions, and settlement in ranges."""
    begins = SessionSettings(
        incoming_window=3,
        outgoing_window=5,
        next_outgoing_id=transfer_id,
        next_delivery_id=delivery_id,
    )
    settings = ConnectionSettings(max_frame_size=512, session=begins)
    joined = Joined(settings, settings)
    got: list[bytes] = []

    def take(_: Any, event: Any) -> None:
        if isinstance(event, events.Deliveries):
            for delivery in event.deliveries:
                got.append(delivery.payload)
                delivery.settle(Accepted())
            if event.link.link_credit <= 1:
                event.link.flow(3)

    joined.on_event = take
    session = joined.open()
    out = a_sender(initial_delivery_count=delivery_count)
    session.attach(out)
    joined.run()
    joined.peer_of(out).flow(3)
    joined.run()
    messages = [b"\x00\x53\x75\xb0" + size.to_bytes(4, "big") + bytes(size) for size in (10, 900, 700) * 4]
    sent = [out.send(message) for message in messages]
    joined.run()
    assert got == messages
    assert all(delivery.settled and delivery.remote_state == Accepted() for delivery in sent)
    assert session.next_delivery_id == (delivery_id + len(messages)) & MAXIMUM
    assert out.flow_state.delivery_count == (delivery_count + len(messages)) & MAXIMUM
    [other] = joined.server.sessions.values()
    assert other.windows.next_incoming_id == session.windows.next_outgoing_id
    frames = (session.windows.next_outgoing_id - transfer_id) & MAXIMUM
    assert frames == 4 + 2 * 4 + 2 * 4
    assert (session.outgoing, other.incoming, out.unsettled) == ({}, {}, {})
    assert session.windows.outgoing_window == 5
    session.end(Error(condition="amqp:internal-error"))
    joined.run()
    assert joined.client.sessions == {}
