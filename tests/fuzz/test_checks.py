"""The fuzzer's checks hold for what it starts from, and near it; and they find what they are meant to."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from amqpforge_protocol import amqp_0_9_1, amqp_1_0_draft
from amqpforge_protocol._support.errors import DecodeError
from fuzz import amqp_1_0_draft as draft_checks
from fuzz import class_method
from fuzz.checks import CHECKS
from fuzz.invariants import check_error, check_pair, check_reader
from fuzz.seeds import seeds

DIALECTS = ("amqp_0_9_1", "amqp_0_10_preview", "amqp_1_0_draft", "engine")
LONGEST = 512
"""Octets of a seed that is changed here; the fuzzer takes longer ones."""

SEEDS = {name: [octets for known, octets in dict.fromkeys(seeds()) if known == name] for name in CHECKS}
NEW = [name for name in CHECKS if name.partition(".")[0] in DIALECTS]


@pytest.mark.parametrize("name", CHECKS)
def test_the_rule_holds_for_every_seed(name: str) -> None:
    for octets in SEEDS[name]:
        CHECKS[name](octets)


@pytest.mark.parametrize("name", NEW)
def test_the_rule_holds_near_a_seed(name: str) -> None:
    random = Random(name)
    small = [octets for octets in SEEDS[name] if len(octets) <= LONGEST]
    for _ in range(400):
        octets = bytearray(random.choice(small))
        for _ in range(random.randint(1, 3)):
            octets[random.randrange(len(octets))] = random.randrange(256)
        CHECKS[name](bytes(octets))
        CHECKS[name](bytes(octets[: random.randrange(len(octets))]))


@pytest.mark.parametrize("name", NEW)
def test_garbage(name: str) -> None:
    random = Random(name)
    for size in range(65):
        CHECKS[name](random.randbytes(size))


def test_every_check_has_a_seed() -> None:
    assert {name for name in CHECKS if not SEEDS[name]} == set()


# ---- what breaks the rule is found ----


def test_another_exception_than_a_decode_error_is_found() -> None:
    with pytest.raises(IndexError):
        check_pair(b"\x00", lambda data, limits: (data[1], 2), bytes)


@pytest.mark.parametrize(
    ("decode", "encode"),
    [
        pytest.param(lambda data, limits: (data[0], 2), lambda value: b"\x00", id="behind the data"),
        pytest.param(lambda data, limits: (data[0], 0), lambda value: b"\x00", id="nothing read"),
        pytest.param(lambda data, limits: (data[0], 1), lambda value: b"\x00\x00", id="more octets"),
        pytest.param(lambda data, limits: (data[0], 1), lambda value: b"\x07", id="another value"),
        pytest.param(lambda data, limits: ([data[0]], 1), lambda value: bytes(len(value)), id="a lost value"),
    ],
)
def test_a_value_that_does_not_come_back_is_found(
    decode: Callable[[bytes, Any], Any], encode: Callable[[Any], bytes]
) -> None:
    with pytest.raises(AssertionError):
        check_pair(b"\x05", decode, encode)


@pytest.mark.parametrize("offset", [None, -1, 2])
def test_an_error_without_a_place_in_the_data_is_found(offset: int | None) -> None:
    with pytest.raises(AssertionError):
        check_error(DecodeError("is wrong", offset=offset), b"\x00")


def test_a_reader_that_depends_on_the_chunks_is_found() -> None:
    class Reader:
        pending = 0

        def feed(self, data: bytes) -> list[bytes]:
            return [data[:4]]

    with pytest.raises(AssertionError):
        check_reader(bytes(8), Reader)


def test_a_lost_operation_in_a_frame_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = amqp_1_0_draft.encode_frame(amqp_1_0_draft.SessionNoop(), 1)
    draft_checks.CHECKS["frame"](frame)
    monkeypatch.setattr(draft_checks, "encode_frame", lambda operation, *_, **__: frame[:24])
    with pytest.raises(AssertionError):
        draft_checks.CHECKS["frame"](frame)


def test_a_content_that_is_not_sent_as_it_came_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = amqp_0_9_1.BasicDeliver(consumer_tag="c", delivery_tag=1, exchange="e", routing_key="k")
    content = amqp_0_9_1.Content(amqp_0_9_1.BasicProperties(), b"body")
    octets = amqp_0_9_1.encode_content(deliver, content, 1)
    check = class_method.CHECKS_0_9_1["content"]
    check(octets)
    empty = amqp_0_9_1.encode_content(deliver, amqp_0_9_1.Content(content.properties), 1)
    monkeypatch.setattr(amqp_0_9_1, "encode_content", lambda *_, **__: empty)
    with pytest.raises(AssertionError):
        check(octets)
