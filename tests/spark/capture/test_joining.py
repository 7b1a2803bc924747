"""Messages out of the transfers of a capture: the short way of most, and the long way of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqpforge.spark.capture import joining
from amqpforge.spark.capture.joining import Joiner, Way
from amqpforge_protocol.amqp_1_0 import DeliveryTag, Detach, End, Transfer, encode_frame
from tests.spark.capture.reading import from_client, rows, saved, talk

WAY = (0, "c2s")
HEADER = b"AMQP\x00\x01\x00\x00"
BODY = b"\x00\x53\x77\xa1\x01x"


def take(joiner: Joiner, way: Way, frames: list[bytes]) -> list[bytes | None]:
    return joiner.take(way, b"".join(frames), list(map(len, frames)))


def framed(body: bytes) -> bytes:
    return (8 + len(body)).to_bytes(4, "big") + b"\x02\x00\x00\x00" + body


def transfer(handle: int, number: int | None, payload: bytes = BODY, **more: bool) -> bytes:
    tag = None if number is None else DeliveryTag(b"t")
    return encode_frame(Transfer(handle=handle, delivery_id=number, delivery_tag=tag, **more), 0, payload)  # type: ignore[arg-type]


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_transfer_that_breaks_off_is_an_error_and_no_more(cut: int, tmp_path: Path) -> None:
    """It ends in the middle of its descriptor, its list, or the fields of that."""
    broken = framed(bytes.fromhex("0053 14c0 0602 5201 5205")[: cut + 1])
    sent = (HEADER, broken, transfer(0, 1))
    found = rows(saved(tmp_path, talk(*from_client(*sent)).packets))
    assert [row["kind"] for row in found] == ["header", "error", "amqp"]
    assert found[1]["message"] is None
    assert found[2]["message"]["body_value"]["string"] == "x"


@pytest.mark.parametrize("handle", [0, 5, 1000])
def test_the_rest_of_a_delivery_is_no_message(handle: int) -> None:
    """The capture begins between two transfers of a delivery: the second one has no delivery-id."""
    frames = [transfer(handle, None), transfer(handle, 7), transfer(handle, 1000)]
    assert take(Joiner(), WAY, frames) == [None, BODY, BODY]


@pytest.mark.parametrize("number", [0, 5, 1000])
def test_the_short_way_gives_what_the_long_way_gives(number: int) -> None:
    """While a delivery is open on another link, each transfer goes the long way."""
    frames = [
        transfer(1, number),
        transfer(1, number, b""),
        transfer(1, number, aborted=True),
        transfer(1, None),
        transfer(1, number, settled=True),
    ]
    busy = Joiner()
    assert take(busy, WAY, [transfer(2, 3, more=True)]) == [None]
    assert take(Joiner(), WAY, frames) == take(busy, WAY, frames) == [BODY, None, None, None, BODY]


def test_deliveries_that_never_end_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is forgotten where nobody ends links and sessions; those of what is ended are, too."""
    monkeypatch.setattr(joining, "MAX_OPEN", 10)
    made = Joiner()
    assert take(made, WAY, [transfer(handle, handle, more=True) for handle in range(1000)]) == [None] * 1000
    assert take(made, WAY, [transfer(handle, None) for handle in (0, 989, 990, 999)]) == [
        *(None, None),
        *(BODY * 2, BODY * 2),
    ]
    assert take(made, WAY, [encode_frame(Detach(handle=991)), transfer(991, None)]) == [None, None]  # type: ignore[arg-type]
    assert take(made, WAY, [encode_frame(End()), transfer(992, None)]) == [None, None]
    assert not made._open
    assert len(made._held) == len(made._lost) == made._octets == 0


def test_what_is_missing_makes_a_message_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where each transfer repeats the delivery-id; other directions and later deliveries are whole."""
    other = (0, "s2c")
    made = Joiner()
    for way in (WAY, other):
        take(made, way, [transfer(1, 5, more=True)])
    made.gap(WAY)
    assert take(made, WAY, [transfer(1, 5, more=True), transfer(1, 5), transfer(1, 6)]) == [None, None, BODY]
    assert take(made, other, [transfer(1, 5)]) == [BODY * 2]
    monkeypatch.setattr(joining, "MAX_JOINED", 2 * len(BODY))
    sent = [transfer(handle, 7, more=True) for handle in (1, 2, 3)]
    assert take(made, WAY, sent) == [None] * 3
    assert take(made, WAY, [transfer(1, 7), transfer(2, 7)]) == [None, BODY * 2]
    made.end(WAY)
    assert take(made, WAY, [transfer(3, None)]) == [None]
    assert not made._open
