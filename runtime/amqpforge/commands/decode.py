"""`amqpforge decode`: the AMQP frames in packet captures and stream dumps, as lines or as JSON."""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable
from contextlib import ExitStack
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from amqpforge.capture.errors import CaptureError
from amqpforge.capture.reader import FORMATS, CaptureReader
from amqpforge.capture.source import Read, follow

if TYPE_CHECKING:
    from amqpforge.capture.check import Checker
    from amqpforge.capture.dialects import Dialect
    from amqpforge.capture.record import Record
    from amqpforge.capture.text import Line
    from amqpforge.streams import Streams

__all__ = ["DESCRIPTION", "EPILOG", "add_arguments", "run"]

DESCRIPTION = """\
Show the AMQP frames in packet captures and stream dumps, one line a frame.

Reads pcap and pcapng captures, dumps of the octets of one direction of a
connection, hexadecimal text of such octets, and the gzip forms of all of
these; it finds out itself what it is given. TCP streams are put back together,
in captures that begin or end in the middle of a connection, or miss packets,
as well.

The protocol header of a connection decides how it is decoded: AMQP 1.0 with
SASL, AMQP 0-9-1, the 0-10 preview, or the early draft of 1.0. A connection
captured from the middle is taken for AMQP 1.0, unless --dialect says otherwise.

A line has the time (UTC), the stream and its direction (c2s: from client to
server), the channel, the performative, method, control or command with its
fields as they were sent, and the size of the payload. What cannot be decoded is
shown as an error, with its place; decoding goes on at the next frame. What is
odd about a file as a whole is said on standard error.

With --check both ends of each AMQP 1.0 connection are followed through the
states, windows and credits of the protocol. Behind the frames of a file stands,
for each connection: how it closed, its sessions, links and deliveries, what
became of them, what an end still owes, and each VIOLATION with the end that is
to blame. A frame is judged by what its sender can have seen, and what was not
captured from its beginning is reported as unknown, not as wrong. "frame 7" is
line 7 of `amqpforge decode --stream N FILE`.
"""

EPILOG = """\
JSON: with --json, each frame is an object on a line of its own:
  time           seconds since 1970 (UTC), or null if unknown
  stream         number of the connection, from 0, in order of appearance
  direction      "c2s" or "s2c"; the server is who was sent the SYN, else who has the lower port
  offset         of the frame, in octets from the start of its direction
  kind           "header", "empty", "error"; in AMQP 1.0 "amqp", "sasl"; in class/method
                 dialects "method", "content-header", "body", "heartbeat", "trace"; in the
                 draft "control", "command"
  channel        of the frame, or null
  performative   its name, or null; "method" ("basic.publish"), "control" or "command" in the
                 frames of the other dialects
  fields         the fields that were sent, by name; nulls are left out
  payload_bytes  octets after the performative
  reason         why it could not be decoded (errors only)
Numbers, strings and booleans stand for themselves in fields; other values are objects such as
{"type": "binary", "value": "00ff"}, composite ones such as {"type": "source", "fields": {...}}.
`amqpforge encode` reads all those of AMQP 1.0.

With --check, an object for each connection follows:
  kind             "check"
  stream           as above
  client, server   objects: container, frames, octets, closed, error (condition and description)
  sasl             null, or an object: mechanism, code
  sessions, links, deliveries  how many there were
  outcomes         how many deliveries were settled, by outcome; "none" if none was told,
                   "pre-settled" by the sender, "aborted"
  unsettled        how many were not
  settle_seconds   from a delivery to its settlement on average, slowest_seconds at most, or null
  seen_links       objects of the first 100: name, sender, source, target, deliveries, octets,
                   outcomes, unsettled, refused, error
  unknown          objects of the first 100: frame, time, end ("client", "server"), text
  owed             objects: end, channel, what
  violations       how many there were
  seen_violations  objects of the first 100: frame, time, end, channel, rule, condition, text

Examples:
  amqpforge decode trace.pcapng
  amqpforge decode --stream 2 --performative transfer trace.pcap.gz
  amqpforge decode --json trace.pcapng | jq 'select(.kind == "error")'
  amqpforge decode --method basic.publish --method basic.deliver rabbitmq.pcapng
  amqpforge decode --check --quiet trace.pcapng
  tcpdump -i lo -U -w - port 5672 | amqpforge decode -
  amqpforge decode --direction s2c server-to-client.bin
  echo 0000000802000000 | amqpforge decode -

Exit code: 0, 1 if an input could not be read or --check found a violation, 2 for wrong usage.
"""

_POLL_SECONDS = 0.2

_Show = Callable[["Record"], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="what to decode; - is standard input")
    parser.add_argument("--json", action="store_true", help="one JSON object a frame (see below)")
    parser.add_argument("--follow", action="store_true", help="wait for more at the end of a growing FILE")
    parser.add_argument(
        "--stream", type=_number, action="append", metavar="N", help="only this connection; may be repeated"
    )
    parser.add_argument(
        *("--performative", "--method", "--control", "--command"),
        dest="names",
        action="append",
        metavar="NAME",
        help="only the frames of this name; may be repeated",
    )
    parser.add_argument("--dialect", metavar="NAME", help="decode as this, whatever the protocol headers say")
    parser.add_argument(
        "--direction", choices=("c2s", "s2c"), default="c2s", help="of a stream dump (default: c2s)"
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="auto", help="what FILE is, if its beginning does not tell"
    )
    parser.add_argument("--check", action="store_true", help="say who broke the protocol (AMQP 1.0)")
    parser.add_argument("--quiet", action="store_true", help="with --check: do not show the frames")
    parser.set_defaults(usage_error=parser.error)


def run(arguments: argparse.Namespace, streams: Streams) -> int:
    """Decode the inputs, one after the other; the streams of a later one are numbered on."""
    if arguments.follow and len(arguments.files) > 1:
        arguments.usage_error("--follow takes one FILE")
    if arguments.quiet and not arguments.check:
        arguments.usage_error("--quiet needs --check")
    dialect = _dialect(arguments)
    wanted = _names(arguments, dialect)
    if arguments.quiet:
        wanted = frozenset()
    show = _shower(arguments.json, streams)
    checker = _checker(arguments.json, streams) if arguments.check else None
    number, code = 0, 0
    for name in arguments.files:
        try:
            with ExitStack() as stack:
                read = _open(name, arguments.follow, streams, stack)
                number = _decode(read, name, arguments, streams, number, dialect, wanted, show, checker)
        except CaptureError as error:
            streams.stdout.flush()
            streams.complain(f"{_shown(name)}: {error}")
            code = 1
        except BrokenPipeError:
            raise
        except OSError as error:
            streams.stdout.flush()
            streams.complain(f"{_shown(name)}: {error.strerror or error}")
            code = 1
    for absent in sorted({wished for wished in arguments.stream or () if wished >= number}):
        streams.complain(f"there is no stream {absent}: {number} found, numbered from 0")
    if checker is not None:
        if checker.foreign:
            streams.complain(f"not checked: {checker.foreign} frames of other protocols than AMQP 1.0")
        code = code or (1 if checker.violations else 0)
    return code


def _decode(
    read: Read,
    name: str,
    arguments: argparse.Namespace,
    streams: Streams,
    number: int,
    dialect: Dialect | None,
    wanted: frozenset[str] | None,
    show: _Show,
    checker: Checker | None,
) -> int:
    """Show the records of one input whose first stream is `number`; returns the number of the next one's."""
    reader = CaptureReader(
        read,
        remark=lambda text: streams.complain(f"{_shown(name)}: {text}"),
        form=arguments.format,
        direction=arguments.direction,
        first_number=number,
        streams=arguments.stream,
        dialect=dialect,
        on_end=None if checker is None else checker.end,
    )
    try:
        for record in reader.records():
            if wanted is None or record.name in wanted:
                show(record)
            if checker is not None:
                checker.take(record)
    finally:
        if checker is not None:
            checker.finish()
    return reader.next_number


def _open(name: str, following: bool, streams: Streams, stack: ExitStack) -> Read:
    """A reader of a file or of standard input; output is let out before input is waited for."""
    if name == "-":
        standard: Any = streams.input()
        raw: Read = getattr(standard, "read1", standard.read)
    else:
        file = stack.enter_context(io.FileIO(name))
        raw = file.read

    def read(limit: int) -> bytes:
        streams.stdout.flush()
        return raw(limit)

    def wait() -> bool:
        try:
            streams.wait(_POLL_SECONDS)
        except KeyboardInterrupt:  # the usual way to end it: what is complete has been shown
            return False
        return True

    return follow(read, wait) if following and name != "-" else read


def _shower(as_json: bool, streams: Streams) -> _Show:
    """What shows a record: as JSON, as text, or in colour where a person looks and rich is installed."""
    if as_json:
        from amqpforge.capture.objects import as_object

        encode = json.JSONEncoder(allow_nan=False, separators=(", ", ": ")).encode
        return lambda record: streams.write(encode(as_object(record)))
    from amqpforge.capture.text import line

    paint = _painter(streams) if streams.is_terminal() else None
    if paint is not None:
        return lambda record: paint(record, line(record))
    return lambda record: streams.write(str(line(record)))


def _checker(as_json: bool, streams: Streams) -> Checker:
    """What checks connections, and shows what there is to say of each."""
    from amqpforge.capture import summary
    from amqpforge.capture.check import Checked, Checker

    def conclude(checked: Checked) -> None:
        if as_json:
            streams.write(json.dumps(summary.as_object(checked), allow_nan=False))
        else:
            for text in summary.lines(checked):
                streams.write(text)

    return Checker(conclude)


def _painter(streams: Streams) -> Callable[[Record, Line], None] | None:
    try:
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        return None
    console = Console(file=streams.stdout, highlight=False, markup=False, emoji=False)

    def paint(record: Record, line: Line) -> None:
        name = _STYLES.get(record.name or record.kind, "bold")
        styles = ("dim", "dim", name, "red" if record.kind == "error" else "", "cyan")
        pairs = [(part, style) for part, style in zip(line, styles, strict=True) if part]
        console.print(Text("  ").join(Text(*pair) for pair in pairs), soft_wrap=True)

    return paint


_STYLES = {
    "error": "bold red",
    "header": "magenta",
    "empty": "dim",
    "transfer": "bold green",
    "basic.publish": "bold green",
    "basic.deliver": "bold green",
    "basic.get-ok": "bold green",
    "message.transfer": "bold green",
    "link.transfer": "bold green",
    "body": "dim",
    "heartbeat": "dim",
    "disposition": "yellow",
    "flow": "blue",
    "detach": "bold magenta",
    "end": "bold magenta",
    "close": "bold magenta",
    "basic.ack": "yellow",
    "basic.nack": "yellow",
    "basic.return": "yellow",
    "channel.close": "bold magenta",
    "connection.close": "bold magenta",
}


def _dialect(arguments: argparse.Namespace) -> Dialect | None:
    """The dialect to decode everything as, or None. A name that is none is wrong usage."""
    if arguments.dialect is None:
        return None
    from amqpforge.capture.dialects import dialects

    if arguments.dialect not in dialects():
        arguments.usage_error(f"no dialect {arguments.dialect!r}: there are {', '.join(dialects())}")
    return dialects()[arguments.dialect]


def _names(arguments: argparse.Namespace, dialect: Dialect | None) -> frozenset[str] | None:
    """The names to show, or None for everything. A name that the dialect, or any, has not is wrong usage."""
    if not arguments.names:
        return None
    from amqpforge.capture.dialects import dialects

    possible = dialects().values() if dialect is None else (dialect,)
    known = {name for each in possible for name in each.names()}
    for name in arguments.names:
        if name not in known:
            near = get_close_matches(name, sorted(known), n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            where = "" if dialect is None else f" in {dialect.name}"
            arguments.usage_error(f"no performative, method, control or command {name!r}{where}{hint}")
    return frozenset(arguments.names)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a stream")
    return int(text)


def _shown(name: str) -> str:
    return "standard input" if name == "-" else name
