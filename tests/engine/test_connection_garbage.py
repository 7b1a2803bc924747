"""What a peer may send, legal or not, in any pieces: an engine tells events and writes legal frames only."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqpforge_protocol.amqp_1_0 import Accepted, Received, Role, Source, Target, encode_frame
from fuzz.engine import BEGUN, HAS_LINKS, HEADER, MESSAGE, check_connection
from fuzz.engine import seeds as valid
from tests.engine.frames import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Open,
    Transfer,
)

FEW = settings(
    max_examples=200, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
CONVERSATIONS = list(valid())

small = st.integers(0, 4)
numbers = st.one_of(small, st.sampled_from([5, 6, 7, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFE, 0xFFFF_FFFF]))
windows = st.sampled_from([0, 1, 5, 1000, 0x7FFF_FFFF, 0xFFFF_FFFF])
flags = st.booleans()
names = st.sampled_from(["in", "out", "to", "from", "odd", "", "x" * 300])
tags = st.sampled_from([b"", b"x", b"y", b"z" * 32])
states = st.sampled_from([None, Accepted(), Received(section_number=0, section_offset=3)])
roles = st.sampled_from(list(Role))
errors = st.sampled_from([None, Error(condition="amqp:internal-error"), Error(condition="x" * 400)])
maps = st.one_of(st.none(), st.dictionaries(tags, states, max_size=3))


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


begins: st.SearchStrategy[Any] = st.builds(
    Begin,
    remote_channel=st.sampled_from([None, None, 0, 1, 9]),
    next_outgoing_id=numbers,
    incoming_window=windows,
    outgoing_window=windows,
    handle_max=numbers,
)
plain: st.SearchStrategy[Any] = st.one_of(
    st.builds(Transfer, handle=st.just(0), delivery_id=small, delivery_tag=tags, more=flags, state=states),
    st.builds(Transfer, handle=st.just(0), more=flags),
    st.builds(Disposition, role=roles, first=small, settled=flags, state=states),
    st.builds(Detach, handle=st.sampled_from([0, 1]), closed=flags),
    st.builds(
        Flow,
        incoming_window=st.just(9),
        next_outgoing_id=numbers,
        outgoing_window=st.just(9),
        handle=st.sampled_from([None, 1]),
    ),
    st.builds(
        Attach,
        name=names,
        handle=st.sampled_from([0, 1, 2]),
        role=roles,
        source=st.just(Source(address="q")),
        target=st.just(Target(address="q")),
        unsettled=maps,
        initial_delivery_count=st.just(5),
    ),
)
wild: st.SearchStrategy[Any] = st.one_of(
    st.builds(
        Attach,
        name=names,
        handle=small,
        role=roles,
        source=st.sampled_from([None, Source(), Source(address="q")]),
        target=st.sampled_from([None, Target(), Target(address="q")]),
        unsettled=maps,
        incomplete_unsettled=flags,
        initial_delivery_count=maybe(numbers),
        max_message_size=maybe(numbers),
    ),
    st.builds(
        Flow,
        next_incoming_id=maybe(numbers),
        incoming_window=windows,
        next_outgoing_id=numbers,
        outgoing_window=windows,
        handle=maybe(small),
        delivery_count=maybe(numbers),
        link_credit=maybe(windows),
        drain=flags,
        echo=flags,
    ),
    st.builds(
        Transfer,
        handle=small,
        delivery_id=maybe(numbers),
        delivery_tag=maybe(tags),
        settled=maybe(flags),
        more=flags,
        state=states,
        resume=flags,
        aborted=flags,
    ),
    st.builds(Disposition, role=roles, first=numbers, last=maybe(numbers), settled=flags, state=states),
    st.builds(Detach, handle=small, closed=flags, error=errors),
    st.builds(End, error=errors),
)
rare: st.SearchStrategy[Any] = st.one_of(
    st.builds(Close, error=errors),
    st.builds(
        Open,
        container_id=st.just("theirs"),
        max_frame_size=st.sampled_from([0, 511, 512, 4096]),
        channel_max=small,
        idle_time_out=st.sampled_from([None, 0, 1, 20, 60_000]),
    ),
    st.just(HEADER),
    st.just(b"\x00\x00\x00\x08\x02\x00\x00\x00"),
    st.binary(max_size=12),
)
performatives = st.one_of(plain, plain, plain, wild, begins)
channels = st.sampled_from([0] * 12 + [1, 2, 9])


@st.composite
def scripts(draw: st.DrawFn) -> bytes:
    """Frames that are each well formed, in any order, behind a good beginning."""
    kind = draw(st.integers(0, 63))
    octets = b"" if kind & HAS_LINKS else BEGUN[bool(kind & 1)]
    for performative in draw(st.lists(performatives, max_size=12)):
        payload = MESSAGE if type(performative) is Transfer else b""
        octets += encode_frame(performative, draw(channels), payload)
    if draw(flags):
        last = draw(rare)
        octets += last if isinstance(last, bytes) else encode_frame(last, draw(channels))
    return bytes((kind,)) + octets


@FEW
@given(scripts())
def test_frames_in_any_order(script: bytes) -> None:
    check_connection(script)


@FEW
@given(st.integers(0, 63), st.binary(max_size=64))
def test_any_octets(kind: int, octets: bytes) -> None:
    check_connection(bytes((kind,)) + octets)
    check_connection(bytes((kind,)) + HEADER + octets)


def test_conversations_as_they_should_be() -> None:
    for octets in CONVERSATIONS:
        check_connection(octets)


@pytest.mark.parametrize("seed", range(8))
def test_conversations_with_octets_changed(seed: int) -> None:
    random = Random(seed)
    for _ in range(100):
        octets = bytearray(random.choice(CONVERSATIONS))
        for _ in range(random.randint(1, 4)):
            octets[random.randrange(len(octets))] = random.choice((random.randrange(256), 0, 1, 0x40, 0xFF))
        check_connection(bytes(octets))


@pytest.mark.parametrize("kind", range(0, 64, 5))
def test_conversations_cut_anywhere(kind: int) -> None:
    octets = next(octets for octets in CONVERSATIONS if octets[0] == kind)
    for end in range(0, len(octets), 3):
        check_connection(octets[:end])
