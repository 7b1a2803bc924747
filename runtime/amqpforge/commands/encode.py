"""`amqpforge encode`: one AMQP value, given as JSON, as octets."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amqpforge.streams import Streams

__all__ = ["DESCRIPTION", "EPILOG", "add_arguments", "run"]

DESCRIPTION = """\
Write one AMQP 1.0 value, given as JSON, as octets: as hexadecimal digits, or
with --raw as they are.

null, true, false and strings stand for themselves; a plain integer is a long,
a number with a fraction a double, an array a list. Everything else names its
type: {"type": "uint", "value": 7}. The values that `amqpforge decode --json`
prints in "fields" can be given as they are.
"""

EPILOG = """\
Types and their values:
  null boolean string symbol            null, true or false, text
  ubyte ushort uint byte short int      number
  ulong long timestamp                  decimal digits in a string, or number
  float double                          "0x" and the bits in hexadecimal digits, or number
  decimal32 decimal64 decimal128        "0x" and the bits in hexadecimal digits
  char uuid binary                      code point as a number, usual text, hexadecimal digits
  list map                              [value, ...], [[key, value], ...]
  array                                 {"element": type, "descriptor": value or null, "items": [value, ...]}
  described                             {"descriptor": value, "value": value}
Composite types have "fields" instead: {"type": "source", "fields": {"address": "queue"}}.

Examples:
  amqpforge encode '{"type": "symbol", "value": "amqp:accepted:list"}'
  amqpforge encode '{"type": "source", "fields": {"address": "queue", "durable": 2}}'
  echo '["a", 1, null]' | amqpforge encode
  amqpforge encode --raw true > true.bin

Exit code: 0, 1 if the value cannot be encoded, 2 for wrong usage.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("value", nargs="?", default="-", metavar="JSON", help="default: standard input")
    parser.add_argument("--raw", action="store_true", help="write the octets themselves")


def run(arguments: argparse.Namespace, streams: Streams) -> int:
    """Encode the value."""
    from amqpforge.notation import NotationError, from_json
    from amqpforge_protocol.amqp_1_0 import EncodeError, encode_value

    try:
        text = streams.input().read().decode() if arguments.value == "-" else arguments.value
        octets = encode_value(from_json(_parse(text)))
    except (NotationError, EncodeError, UnicodeDecodeError) as error:
        streams.complain(str(error))
        return 1
    if not arguments.raw:
        streams.write(octets.hex())
        return 0
    output = streams.output()
    if output is None:
        streams.complain("standard output takes no octets here")
        return 1
    output.write(octets)
    output.flush()
    return 0


def _parse(text: str) -> Any:
    from amqpforge.notation import NotationError

    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise NotationError(f"not JSON: {error}") from error


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON; write a double by its bits")
