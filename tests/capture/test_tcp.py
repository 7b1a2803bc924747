"""Streams put back together: order, holes, ends, and connections told apart."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable

import pytest

from amqpforge.capture.network import ACK, FIN, RST, SYN, Endpoint, Segment
from amqpforge.capture.tcp import Assembler, Data, End, Event, Gap, TcpLimits
from tests.capture.build import CLIENT, SERVER, Talk, packet, segments

Summary = list[tuple[int, str, int, "bytes | int | bool"]]


def run(packets: Iterable[bytes], limits: TcpLimits | None = None) -> list[Event]:
    assembler = Assembler(limits or TcpLimits())
    events: list[Event] = []
    for time, segment in enumerate(segments(packets)):
        events += assembler.feed(time, segment)
    return events + assembler.finish()


def told(events: Iterable[Event]) -> Summary:
    """Stream, direction, offset, and the octets, the length of a gap, or whether an end was seen."""
    return [(event.half.stream.number, event.half.direction, event.offset, event[3]) for event in events]


def octets(events: Iterable[Event], direction: str = "c2s", stream: int = 0) -> bytes:
    """The octets of a direction, gaps as question marks; checks that offsets are without seams."""
    out = b""
    for event in events:
        half = event.half
        if (half.direction, half.stream.number) == (direction, stream):
            assert event.offset == len(out)
            out += (
                event.data
                if isinstance(event, Data)
                else b"?" * event.length
                if isinstance(event, Gap)
                else b""
            )
    return out


def test_a_whole_conversation() -> None:
    talk = Talk().handshake().send(b"hello").answer(b"HELLO").send(b" you").close()
    assert told(run(talk.packets)) == [
        (0, "c2s", 0, b"hello"),
        (0, "s2c", 0, b"HELLO"),
        (0, "c2s", 5, b" you"),
        (0, "c2s", 9, True),
        (0, "s2c", 5, True),
    ]


def test_events_carry_the_time_of_the_packet_that_made_them_known() -> None:
    talk = Talk().handshake().send(b"a").send(b"b").send(b"c")
    early, late = talk.packets[3], talk.packets[4]
    talk.packets[3:5] = [late, early]
    events = run(talk.packets)
    assert [(event.time, event[3]) for event in events if isinstance(event, Data)] == [
        (4, b"a"),
        (4, b"b"),
        (5, b"c"),
    ]


def test_who_is_the_server() -> None:
    high = Talk(client=("192.0.2.1", 80), server=("192.0.2.2", 9000)).handshake()
    for skip in (0, 1):  # the SYN is enough, and so is the answer to it
        stream = run(high.packets[skip:])[0].half.stream
        assert (stream.server, stream.handshake) == (Endpoint("192.0.2.2", 9000), True)
    middle = high.send(b"x").packets[2:]
    stream = run(middle)[0].half.stream
    assert (stream.server, stream.handshake) == (Endpoint("192.0.2.1", 80), False)
    answered = Talk().answer(b"x").packets
    assert told(run(answered))[0] == (0, "s2c", 0, b"x")


@pytest.mark.parametrize("base", [1000, 0xFFFF_FFFF - 12, 0xFFFF_FFFF - 1, 0x7FFF_FFF0])
def test_every_order_of_arrival_gives_the_same_octets(base: int) -> None:
    talk = Talk(client_sequence=base).handshake()
    pieces = [b"abcd", b"efgh", b"i", b"jklmnop", b"q"]
    for piece in pieces:
        talk.send(piece)
    for order in itertools.permutations(talk.packets[3:]):
        events = run([*talk.packets[:3], *order])
        assert octets(events) == b"".join(pieces)
        assert not [event for event in events if isinstance(event, Gap)]


def test_repeated_and_overlapping_segments_in_any_order() -> None:
    content = bytes(random.Random(7).randbytes(400))
    chooser = random.Random(11)
    for _ in range(100):
        first = chooser.choice([5, 0xFFFF_FF00])
        sent = [packet(CLIENT, SERVER, first - 1, 0, SYN)]
        parts = [(at, min(at + chooser.randint(1, 60), 400)) for at in range(0, 400, 20)]
        parts += [(at, min(at + 20, 400)) for at in range(0, 400, 20)]
        chooser.shuffle(parts)
        sent += [packet(CLIENT, SERVER, first + at, 0, ACK, content[at:end]) for at, end in parts]
        assert octets(run(sent)) == content


def test_what_was_delivered_first_stands() -> None:
    talk = Talk().handshake().send(b"genuine")
    talk.client_sequence -= 7
    talk.send(b"forgery and more")
    assert octets(run(talk.packets)) == b"genuine and more"


def test_a_keep_alive_probe_is_not_data() -> None:
    talk = Talk().handshake().send(b"abc")
    talk.client_sequence -= 1
    talk.send(b"\x00").send(b"def")
    assert octets(run(talk.packets)) == b"abcdef"


# ---- holes ----


def lossy(*, acknowledged: int) -> list[bytes]:
    """A handshake, a segment, a lost one, a later one, and acknowledgments of everything by the server."""
    talk = Talk().handshake().send(b"one").send(b"LOST").send(b"three")
    del talk.packets[4]
    for _ in range(acknowledged):
        talk.answer(b".")
    return talk.packets


def test_a_hole_is_waited_for_until_the_end_of_the_capture() -> None:
    assert told(run(lossy(acknowledged=0))) == [
        (0, "c2s", 0, b"one"),
        (0, "c2s", 3, 4),
        (0, "c2s", 7, b"three"),
        (0, "c2s", 12, False),
        (0, "s2c", 0, False),
    ]


def test_a_hole_that_the_receiver_keeps_acknowledging_is_given_up_before_the_end() -> None:
    assembler = Assembler()
    found: list[tuple[int, Event]] = []
    for number, segment in enumerate(segments(lossy(acknowledged=20))):
        found += [
            (number, event) for event in assembler.feed(number, segment) if event.half.direction == "c2s"
        ]
    numbers = [number for number, event in found]
    assert told(event for _, event in found) == [
        (0, "c2s", 0, b"one"),
        (0, "c2s", 3, 4),
        (0, "c2s", 7, b"three"),
    ]
    assert numbers[0] == 3
    assert 6 < numbers[1] < 25


def test_a_hole_filled_in_time_is_no_gap() -> None:
    talk = Talk().handshake().send(b"one").send(b"two").send(b"three")
    late = talk.packets.pop(4)
    for _ in range(5):
        talk.answer(b".")
    events = run([*talk.packets, late])
    assert octets(events) == b"onetwothree"


def test_an_acknowledgment_before_the_hole_does_not_give_it_up() -> None:
    talk = Talk().handshake().send(b"one")
    reached = talk.client_sequence
    late = Talk(client_sequence=reached).send(b"two").send(b"three")
    for _ in range(50):
        late.packets.append(packet(SERVER, CLIENT, talk.server_sequence, reached, ACK))
    events = run([*talk.packets, *late.packets[1:], late.packets[0]])
    assert octets(events) == b"onetwothree"


@pytest.mark.parametrize("limits", [TcpLimits(held_octets=100), TcpLimits(held_segments=10)])
def test_what_is_held_is_bounded(limits: TcpLimits) -> None:
    talk = Talk().handshake().send(b"LOST")
    del talk.packets[3]
    assembler = Assembler(limits)
    events: list[Event] = []
    for _ in range(40):
        talk.send(b"0123456789")
    for segment in segments(talk.packets):
        events += assembler.feed(None, segment)
        for event in events[-1:]:
            assert event.half.held_octets <= 110
            assert len(event.half.held) <= 11
    assert isinstance(events[0], Gap)
    assert octets(events + assembler.finish()) == b"????" + b"0123456789" * 40


def test_payload_that_the_capture_cut_short_is_a_gap() -> None:
    talk = Talk().handshake().send(b"0123456789" * 4).send(b"next")
    cut = [data[:76] if len(data) > 80 else data for data in talk.packets]
    events = run(cut)
    assert octets(events) == b"0123456789" * 4 == b"" or octets(events) == b"?" * 44 or b"?" in octets(events)
    assert octets(events).startswith(b"01")
    assert octets(events).endswith(b"next")
    assert len(octets(events)) == 44


def test_octets_missing_at_the_end_are_told_by_the_fin_or_the_acknowledgment() -> None:
    closed = Talk().handshake().send(b"one").send(b"LOST").close()
    del closed.packets[4]
    assert told(run(closed.packets))[:2] == [(0, "c2s", 0, b"one"), (0, "s2c", 0, True)]
    assert octets(run(closed.packets)) == b"one????"
    open_ended = Talk().handshake().send(b"one").send(b"LOST").answer(b"ok")
    del open_ended.packets[4]
    assert octets(run(open_ended.packets)) == b"one????"


def test_the_acknowledgment_of_a_fin_that_was_not_captured_is_no_missing_octet() -> None:
    talk = Talk().handshake().send(b"one").close()
    del talk.packets[4]  # the client's FIN
    assert octets(run(talk.packets)) == b"one"


def test_a_fin_that_comes_early_ends_the_stream_when_the_rest_is_there() -> None:
    talk = Talk().handshake().send(b"one").send(b"two").close()
    talk.packets[4], talk.packets[5] = talk.packets[5], talk.packets[4]
    assert told(run(talk.packets)) == [
        (0, "c2s", 0, b"one"),
        (0, "c2s", 3, b"two"),
        (0, "c2s", 6, True),
        (0, "s2c", 0, True),
    ]


def test_a_reset_ends_its_sender_and_lets_the_other_finish() -> None:
    talk = Talk().handshake().send(b"one").reset().send(b"on its way")
    assert told(run(talk.packets)) == [
        (0, "c2s", 0, b"one"),
        (0, "s2c", 0, True),
        (0, "c2s", 3, b"on its way"),
        (0, "c2s", 13, True),
    ]


def test_a_segment_that_no_window_reaches_is_dropped() -> None:
    talk = Talk().handshake().send(b"one")
    talk.client_sequence += 0x6000_0000
    talk.send(b"stray")
    talk.client_sequence -= 0x6000_0000 + 5
    talk.send(b"two")
    assert octets(run(talk.packets)) == b"onetwo"


# ---- connections ----


def test_connections_are_numbered_in_order_of_appearance() -> None:
    first = Talk().handshake().send(b"1")
    second = Talk(client=("192.0.2.1", 50001)).handshake().send(b"2")
    third = Talk(client=("2001:db8::1", 50000), server=("2001:db8::2", 5672))
    packets = [data for pair in zip(second.packets, first.packets, strict=True) for data in pair]
    events = run(packets)
    assert octets(events, stream=0) == b"2"
    assert octets(events, stream=1) == b"1"
    assert third.packets == []


def test_a_new_syn_on_the_same_ports_is_a_new_stream() -> None:
    first = Talk().handshake().send(b"first")
    second = Talk(client_sequence=9_000_000, server_sequence=5).handshake().send(b"second").answer(b"yes")
    events = run([*first.packets, *second.packets])
    assert octets(events, stream=0) == b"first"
    assert octets(events, stream=1) == b"second"
    assert octets(events, "s2c", 1) == b"yes"
    assert [event.half.stream.number for event in events if isinstance(event, End)] == [0, 0, 1, 1]


def test_a_repeated_syn_is_not_a_new_stream() -> None:
    talk = Talk().handshake().send(b"x")
    packets = [talk.packets[0], talk.packets[0], talk.packets[1], talk.packets[1], *talk.packets[2:]]
    packets.append(talk.packets[0])
    events = run(packets)
    assert octets(events) == b"x"
    assert {event.half.stream.number for event in events} == {0}


def test_a_syn_that_is_captured_after_its_answer_belongs_to_the_same_stream() -> None:
    talk = Talk().handshake().send(b"x").answer(b"y")
    talk.packets[0], talk.packets[1] = talk.packets[1], talk.packets[0]
    events = run(talk.packets)
    assert (octets(events), octets(events, "s2c")) == (b"x", b"y")
    assert {event.half.stream.number for event in events} == {0}


def test_data_with_the_syn_is_data() -> None:
    sent = [packet(CLIENT, SERVER, 99, 0, SYN, b"fast"), packet(CLIENT, SERVER, 104, 0, ACK, b" open")]
    assert octets(run(sent)) == b"fast open"


def test_captured_from_the_middle_it_begins_with_the_first_octets_seen() -> None:
    talk = Talk().handshake().send(b"unseen").answer(b"unseen").send(b"seen").answer(b"seen too")
    events = run(talk.packets[5:])
    assert (octets(events), octets(events, "s2c")) == (b"seen", b"seen too")
    assert not events[0].half.stream.handshake


def test_a_later_connection_whose_syn_was_missed_is_told_by_its_numbers() -> None:
    first = Talk().handshake().send(b"first").close()
    second = Talk(client_sequence=2_000_000_000, server_sequence=3_000_000_000).send(b"second")
    events = run([*first.packets, *second.packets])
    assert octets(events, stream=1) == b"second"


def test_the_number_of_connections_remembered_is_bounded() -> None:
    assembler = Assembler(TcpLimits(streams=3), first_number=10)
    events: list[Event] = []
    for port in range(20):
        talk = Talk(client=("192.0.2.1", 50000 + port)).handshake().send(b"x")
        for segment in segments(talk.packets):
            events += assembler.feed(None, segment)
    events += assembler.finish()
    assert assembler.next_number == 30
    ends = [event.half.stream.number for event in events if isinstance(event, End)]
    assert ends == sorted([*range(10, 30), *range(10, 30)])


def test_a_finished_connection_is_forgotten_before_one_that_goes_on() -> None:
    assembler = Assembler(TcpLimits(streams=2))
    lasting = Talk().handshake()
    for port in (50001, 50002, 50003):
        finished = Talk(client=("192.0.2.1", port)).handshake().close()
        for segment in segments(lasting.packets + finished.packets):
            assembler.feed(None, segment)
        lasting.packets.clear()
    (event,) = assembler.feed(None, segments(lasting.send(b"still here").packets)[0])
    assert told([event]) == [(0, "c2s", 0, b"still here")]


def test_lone_segments_without_payload_open_a_stream_and_say_nothing() -> None:
    events = run([packet(SERVER, CLIENT, 5, 6, ACK | FIN), packet(CLIENT, SERVER, 6, 6, ACK)])
    assert told(events) == [(0, "s2c", 0, True), (0, "c2s", 0, False)]


def test_arbitrary_segments_break_nothing() -> None:
    chooser = random.Random(3)
    numbers = [0, 1, 50, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFF0, 0xFFFF_FFFF]
    for _ in range(300):
        assembler = Assembler(TcpLimits(held_octets=64, held_segments=4, streams=2))
        positions: dict[tuple[int, str], int] = {}
        events: list[Event] = []
        for _ in range(40):
            source, target = chooser.choice([(b"ab", b"cd"), (b"cd", b"ab"), (b"ab", b"ef")])
            payload = chooser.randbytes(chooser.choice([0, 1, 30]))
            key = b"\x00" * 3 + source[:1] + b"\x00" * 3 + target[:1] + source + target
            flags = chooser.choice([ACK, ACK, ACK, SYN, SYN | ACK, FIN | ACK, 4])
            sequence, ack = chooser.choice(numbers), chooser.choice(numbers)
            events += assembler.feed(None, Segment(key, sequence, ack, flags, len(payload), payload))
        for event in events + assembler.finish():
            place = (event.half.stream.number, event.half.direction)
            assert event.offset == positions.get(place, 0)
            length = (
                len(event.data) if isinstance(event, Data) else event.length if isinstance(event, Gap) else 0
            )
            assert length > 0 or isinstance(event, End)
            positions[place] = event.offset + length


def test_what_a_reset_carries_is_not_data() -> None:
    talk = Talk().handshake().answer(b"data")
    talk.packets.append(packet(SERVER, CLIENT, talk.server_sequence, 0, RST, b"connection refused"))
    assert octets(run(talk.packets), "s2c") == b"data"
