"""`amqpforge ping`: who answers at a URL, what it offers, and how long that takes."""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING, Any

from amqpforge.capture.text import describe, printable
from amqpforge.commands import connecting
from amqpforge.notation import fields_to_json
from amqpforge_protocol.amqp_1_0 import MAJOR, MINOR, REVISION, Open

if TYPE_CHECKING:
    from amqpforge.blocking import Connection
    from amqpforge.streams import Streams
    from amqpforge_protocol.amqp_1_0 import FieldInfo

__all__ = ["DESCRIPTION", "EPILOG", "add_arguments", "run"]

DESCRIPTION = """\
Connect to a peer, and tell who it is, what it offers, and how long it takes:
to connect with all that belongs to it (TCP, TLS, SASL, open), and for round
trips on the open connection, for each of which a session is begun.

What is no AMQP 1.0 peer is named: an AMQP 0-9-1 broker, an HTTP server...
"""

EPILOG = f"""\
{connecting.HELP}
On a pipe, or with --json, the output is one JSON object:
  url               without a password
  protocol          "AMQP 1.0.0"
  tls               its version, or null
  sasl              {{"mechanism": ..., "offered": [...]}}, or null
  open              what the peer told in its open, by the names of the specification;
                    times in milliseconds, values as `amqpforge decode --json` writes them
  connect-seconds   time to connect
  round-trip-seconds  a list of times

Examples:
  amqpforge ping amqp://localhost
  amqpforge ping amqps://me@broker.example --count 10
  amqpforge ping amqp://localhost | jq '.open.properties'

Exit code: 0, 1 if there is no AMQP 1.0 peer or it does not answer, 2 for wrong
usage.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "amqpforge ping [options] URL"
    connecting.add_arguments(parser)
    parser.add_argument(
        *("--count", "-n"), type=connecting.count, default=3, metavar="N", help="round trips (default: 3)"
    )
    parser.add_argument("--json", action="store_true", help="as JSON (default on a pipe)")


def run(arguments: argparse.Namespace, streams: Streams) -> int:
    """Connect, and tell."""
    return connecting.attempt(streams, lambda: _ping(arguments, streams))


def _ping(arguments: argparse.Namespace, streams: Streams) -> int:
    connecting.find_password(arguments, streams)
    begun = time.monotonic()
    with connecting.open_connection(arguments, streams) as connection:
        found = _found(connection, time.monotonic() - begun)
        trips: list[float] = []
        found["round-trip-seconds"] = trips
        try:
            for _ in range(arguments.count):
                trips.append(round(connection.round_trip(), 6))
        finally:
            if arguments.json or not streams.is_terminal():
                streams.write(json.dumps(found))
            else:
                _tell(found, connection.remote, streams)
    return 0


def _found(connection: Connection, spent: float) -> dict[str, Any]:
    """What there is to tell about a connection."""
    remote = connection.remote
    sasl = None
    if connection.mechanism is not None:
        sasl = {"mechanism": connection.mechanism, "offered": list(connection.offered_mechanisms)}
    return {
        "url": str(connection.url),
        "protocol": f"AMQP {MAJOR}.{MINOR}.{REVISION}",
        "tls": connection.tls_version,
        "sasl": sasl,
        "open": fields_to_json(_fields(remote)),
        "connect-seconds": round(spent, 6),
    }


def _tell(found: dict[str, Any], remote: Open | None, streams: Streams) -> None:
    """The same for people, one thing a line."""
    sasl = found["sasl"]
    rows: list[tuple[str, str]] = [
        ("protocol", found["protocol"]),
        ("TLS", found["tls"] or "none"),
        ("SASL", "none" if sasl is None else f"{sasl['mechanism']}, offered: {', '.join(sasl['offered'])}"),
    ]
    for info, value in _fields(remote):
        if isinstance(value, dict):
            rows += [(f"{info.name}: {name}", describe(held)) for name, held in value.items()]
        else:
            unit = " ms" if info.name == "idle-time-out" else ""
            rows.append((info.name, f"{describe(value)}{unit}"))
    rows.append(("connect", _milliseconds(found["connect-seconds"])))
    trips = found["round-trip-seconds"]
    if trips:
        rows.append(("round trip", ", ".join(map(_milliseconds, trips))))
    streams.write(found["url"])
    width = max(len(printable(name)) for name, _ in rows)
    for name, shown in rows:
        streams.write(f"  {printable(name):<{width}}  {printable(shown)}")


def _fields(remote: Open | None) -> list[tuple[FieldInfo, object]]:
    """The fields of the peer's open, without those that say nothing."""
    pairs = [(info, getattr(remote, info.attribute)) for info in Open.FIELDS] if remote is not None else []
    return [(info, value) for info, value in pairs if value is not None and value not in ([], {})]


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"
