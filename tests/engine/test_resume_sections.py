"""Positions in a message against octets of its payload: section-number and section-offset (3.4.1)."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqpforge.engine.sections import Sections
from amqpforge_protocol.amqp_1_0 import (
    AmqpSequence,
    Data,
    DecodeError,
    Header,
    Limits,
    Message,
    Properties,
    Received,
    decode_value,
    encode_message,
)
from tests.codec import strategies

QUICK = settings(
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
THREE = encode_message(
    Message(header=Header(durable=True), properties=Properties(subject="a subject"), body=[Data(bytes(300))])
)
WITHOUT_WIDTH = bytes.fromhex("00537740")
"""A section whose value has no octets of its own: null."""


def at(number: int, offset: int) -> Received:
    return Received(section_number=number, section_offset=offset)


def starts(octets: bytes) -> list[int]:
    """Where sections begin, by decoding them."""
    found, position = [], 0
    while position < len(octets):
        found.append(position)
        _, position = decode_value(octets, position)
    return found


def positions(octets: bytes) -> list[Received]:
    """The positions of all octets of a message, and of the one behind it."""
    edges = [*starts(octets), len(octets)]
    inside = [at(n, k) for n, (begin, end) in enumerate(pairwise(edges)) for k in range(end - begin)]
    return [*inside, at(len(edges) - 1, 0)]


@pytest.mark.spec("M-RESUME-006")
def test_a_three_section_message_cut_at_every_octet() -> None:
    assert len(starts(THREE)) == 3
    for cut in range(len(THREE) + 1):
        prefix = Sections(THREE[:cut])
        position = prefix.position(cut)
        assert position == positions(THREE)[cut]
        assert prefix.offset(position) == Sections(THREE).offset(position) == cut
        assert prefix.size == cut


@QUICK
@given(strategies.messages().map(encode_message))
def test_every_cut_is_a_position_and_back(octets: bytes) -> None:
    whole, growing = Sections(octets), Sections()
    assert (len(whole), whole.is_whole) == (len(starts(octets)), True)
    for cut, position in enumerate(positions(octets)):
        assert growing.position(cut) == whole.position(cut) == position
        assert growing.offset(position) == whole.offset(position) == cut
        assert growing.is_whole == (position.section_offset == 0)
        growing.feed(octets[cut : cut + 1])


@QUICK
@given(strategies.messages().map(encode_message), st.lists(st.integers(0, 400), max_size=6))
def test_the_pieces_in_which_a_message_comes_do_not_matter(octets: bytes, cuts: list[int]) -> None:
    pieces, edges = Sections(), sorted([0, *[min(cut, len(octets)) for cut in cuts], len(octets)])
    for begin, end in pairwise(edges):
        pieces.feed(octets[begin:end])
    assert len(pieces) == len(starts(octets))
    assert [pieces.position(start) for start in starts(octets)] == [at(n, 0) for n in range(len(pieces))]


@pytest.mark.spec("M-RESUME-007")
@pytest.mark.parametrize("number", range(3))
def test_offsets_count_in_the_encoded_section(number: int) -> None:
    begin, end = [*starts(THREE), len(THREE)][number : number + 2]
    sections = Sections(THREE)
    for inside in (0, (end - begin) // 2, end - begin - 1):
        offset = sections.offset(at(number, inside))
        assert offset is not None
        assert THREE[offset:end] == THREE[begin:end][inside:]
        assert sections.position(offset) == at(number, inside)


@pytest.mark.spec("M-RESUME-008")
def test_a_boundary_has_two_names() -> None:
    sections = Sections(THREE)
    edges = [*starts(THREE), len(THREE)]
    for number in range(3):
        length = edges[number + 1] - edges[number]
        assert sections.offset(at(number, length)) == sections.offset(at(number + 1, 0)) == edges[number + 1]


@pytest.mark.spec("M-RESUME-009")
def test_nothing_has_come() -> None:
    sections = Sections(b"")
    assert sections.position(0) == at(0, 0)
    assert sections.offset(at(0, 0)) == 0
    assert (len(sections), sections.is_whole) == (0, True)


@pytest.mark.parametrize(
    "position", [at(0, 10_000), at(1, 21), at(2, 400), at(3, 1), at(4, 0), at(2**32 - 1, 2**64 - 1)]
)
def test_positions_that_the_message_does_not_have(position: Received) -> None:
    assert Sections(THREE).offset(position) is None


def test_positions_beyond_what_has_come() -> None:
    begin = starts(THREE)[1]
    prefix = Sections(THREE[: begin + 5])
    assert prefix.offset(at(1, 5)) == begin + 5
    assert prefix.offset(at(1, 6)) is None
    assert prefix.offset(at(2, 0)) is None


@pytest.mark.parametrize("offset", [-1, len(THREE) + 1])
def test_offsets_that_the_message_does_not_have(offset: int) -> None:
    with pytest.raises(ValueError, match=f"octet {offset} is not among the {len(THREE)} octets"):
        Sections(THREE).position(offset)


@pytest.mark.parametrize(
    "descriptor", ["5375", "800000000000000075", "a310616d71703a646174613a62696e617279", "b300000001ff", "44"]
)
@pytest.mark.parametrize(
    "value", ["40", "a00141", "b00000000141", "45", "d00000000400000000", "f00000000500000000a0"]
)
def test_every_form_of_descriptor_and_value(descriptor: str, value: str) -> None:
    section = bytes.fromhex("00" + descriptor + value)
    sections = Sections(section + WITHOUT_WIDTH)
    assert (len(sections), sections.is_whole) == (2, True)
    assert sections.offset(at(1, 0)) == len(section)


def test_described_values_inside_a_section_are_part_of_it() -> None:
    section = bytes.fromhex("005377 00a30178 00800000000000000001 a10161")
    assert starts(section) == [0]
    sections = Sections(section + WITHOUT_WIDTH)
    assert (len(sections), sections.offset(at(1, 0))) == (2, len(section))


def test_a_section_that_claims_more_than_there_is_costs_nothing() -> None:
    sections = Sections(bytes.fromhex("005375b0ffffffff00"))
    assert (len(sections), sections.size, sections.is_whole) == (1, 9, False)
    assert sections.position(9) == at(0, 9)


@pytest.mark.parametrize(
    ("octets", "offset", "reason"),
    [
        pytest.param(WITHOUT_WIDTH + b"\x53", 4, "begins with 0x53", id="no section"),
        pytest.param(bytes.fromhex("0053752f"), 3, "no type has the constructor 0x2f", id="no type"),
        pytest.param(bytes(67), 64, "more than 64 descriptors within each other", id="descriptors only"),
    ],
)
def test_what_is_no_message(octets: bytes, offset: int, reason: str) -> None:
    with pytest.raises(DecodeError, match=f"section: .*{reason}.*octet {offset}") as whole:
        Sections(octets)
    growing = Sections(octets[:offset])
    with pytest.raises(DecodeError) as late:
        growing.feed(octets[offset:])
    assert (late.value.offset, whole.value.offset) == (offset, offset)


def test_the_number_of_sections_is_bounded() -> None:
    limits = Limits(elements=3)
    assert len(Sections(WITHOUT_WIDTH * 3, limits=limits)) == 3
    with pytest.raises(DecodeError, match=r"more than 3 sections .at octet 12"):
        Sections(WITHOUT_WIDTH * 4, limits=limits)


@QUICK
@given(st.binary(max_size=60))
def test_any_octets_are_sections_or_an_error(octets: bytes) -> None:
    with suppress(DecodeError):
        sections = Sections(octets)
        assert all(sections.offset(sections.position(cut)) == cut for cut in range(len(octets) + 1))


def test_a_body_of_many_sections() -> None:
    octets = encode_message(Message(body=[AmqpSequence([n]) for n in range(300)]))
    sections = Sections(octets)
    assert len(sections) == 300
    assert sections.position(len(octets)) == at(300, 0)
    assert sections.offset(at(255, 0)) == starts(octets)[255]
