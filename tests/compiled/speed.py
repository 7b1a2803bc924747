"""A few operations and what they take, as JSON: run once with the interpreted codec and once with the
compiled one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from timeit import repeat
from typing import Any

from amqpforge_protocol import amqp_1_0

amqp: Any = amqp_1_0

TRANSFER = amqp.Transfer(handle=0, delivery_id=1000, delivery_tag=b"1000", message_format=0, settled=False)
FLOW = amqp.Flow(
    next_incoming_id=1,
    incoming_window=2048,
    next_outgoing_id=1,
    outgoing_window=2048,
    handle=0,
    link_credit=100,
)
MESSAGE = amqp.Message(
    header=amqp.Header(durable=True),
    properties=amqp.Properties(message_id="id", content_type="text/plain"),
    application_properties={"a": 1, "b": "two"},
    body=[amqp.Data(bytes(100))],
)
VALUE = [1, "two", {"three": [amqp.UInt(4), amqp.Symbol("five"), None, 6.5]}, amqp.Array([1, 2, 300], "long")]

OPERATIONS: dict[str, Callable[[], object]] = {
    "decode transfer": partial(amqp.decode_performative, TRANSFER.encode()),
    "encode transfer": TRANSFER.encode,
    "decode flow": partial(amqp.decode_performative, FLOW.encode()),
    "encode flow": FLOW.encode,
    "decode message": partial(amqp.decode_message, amqp.encode_message(MESSAGE)),
    "encode message": partial(amqp.encode_message, MESSAGE),
    "decode value": partial(amqp.decode_value, amqp.encode_value(VALUE)),
    "encode value": partial(amqp.encode_value, VALUE),
}


def main() -> None:
    """Write the microseconds of each operation, the best of five runs."""
    number = 5_000
    times = {name: min(repeat(run, number=number)) / number * 1e6 for name, run in OPERATIONS.items()}
    json.dump(times, sys.stdout)


if __name__ == "__main__":
    main()
