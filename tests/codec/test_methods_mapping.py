"""A method as a call, as text and as a frame: one rule for all three."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from amqpforge.cli import main
from amqpforge_protocol import amqp_0_9_1 as amqp


@pytest.mark.spec("A-CLASS-007")
def test_the_creation_of_a_queue_in_all_three_forms(tmp_path: Path) -> None:
    """Class, method, then the arguments in their order; auto-delete is bit 1, exclusive 0."""
    call = amqp.QueueDeclare(queue="my.queue", auto_delete=True, exclusive=False)
    by_hand = bytes.fromhex("0032 000a 0000") + b"\x08my.queue" + bytes([0b0_1000]) + bytes(4)
    frame = b"\x01\x00\x02" + len(by_hand).to_bytes(4, "big") + by_hand + b"\xce"
    assert amqp.encode_frame(call, channel=2) == frame
    file = tmp_path / "frame.hex"
    file.write_text(frame.hex())
    text = io.StringIO()
    assert main(["decode", "--dialect", "amqp_0_9_1", str(file)], stdout=text) == 0
    told = text.getvalue().split("queue.declare  ")[1]
    assert told.strip() == (
        'ticket=0, queue="my.queue", passive=false, durable=false, exclusive=false, auto-delete=true, '
        "nowait=false, arguments={}"
    )
