"""`amqpforge send`: messages from the command line, a file or standard input to a node."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from amqpforge.capture.text import describe
from amqpforge.commands import connecting, messages, showing
from amqpforge.errors import NOBODY
from amqpforge_protocol.amqp_1_0 import Accepted, Released, SenderSettleMode

if TYPE_CHECKING:
    from amqpforge.client import Outcome, SenderCounters
    from amqpforge.message import Message
    from amqpforge.streams import Streams

__all__ = ["DESCRIPTION", "EPILOG", "add_arguments", "run"]

DESCRIPTION = """\
Send messages to a node: a queue, a topic, whatever the peer has at ADDRESS.

Each BODY becomes a message; without one the body is what --file, or standard
input, holds. With --json, standard input (or --file) has messages as JSON
lines, as `amqpforge receive` writes them on a pipe.

It waits for the outcome of each message, and says at the end what became of
them: in words on a terminal, as JSON on a pipe.
"""

EPILOG = f"""\
{connecting.HELP}
{messages.HELP}
Examples:
  amqpforge send amqp://localhost orders hello
  amqpforge send amqp://localhost orders --count 10000 --rate 500 tick
  amqpforge send amqp://localhost orders --file photo.jpg --content-type image/jpeg
  amqpforge send amqp://guest@broker/vhost:shop orders --durable -p region=eu placed
  amqpforge send amqp://localhost orders --type json '[1, {{"type": "uint", "value": 7}}]'
  amqpforge receive amqp://old q --timeout 1 | amqpforge send amqp://new q --json

Exit code: 0 if all messages were accepted, 1 if not, 2 for wrong usage.
"""

_MOST_TOLD: Final = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "amqpforge send [options] URL ADDRESS [BODY ...]"
    connecting.add_arguments(parser)
    parser.add_argument("address", metavar="ADDRESS", help="of the node")
    messages.add_body(parser, "+", "what to send; after -- if it begins with -")
    parser.add_argument("--json", dest="json_lines", action="store_true", help="read messages as JSON lines")
    parser.add_argument(
        *("--count", "-n"), type=connecting.count, metavar="N", help="send N messages, the BODYs in turn"
    )
    parser.add_argument("--rate", type=connecting.seconds, metavar="R", help="at most R messages a second")
    parser.add_argument(
        "--window", type=connecting.count, default=500, metavar="N", help="under way at most (default: 500)"
    )
    parser.add_argument("--settled", action="store_true", help="send and forget: there are no outcomes then")
    parser.add_argument(
        "--timeout",
        type=connecting.seconds,
        default=30.0,
        metavar="S",
        help="give up after S seconds without an outcome (default: 30)",
    )
    messages.add_arguments(parser)


def run(arguments: argparse.Namespace, streams: Streams) -> int:
    """Send the messages."""
    if arguments.json_lines and (arguments.body or arguments.type):
        arguments.usage_error("--json takes messages from standard input or --file: give no BODY, no --type")
    return connecting.attempt(streams, lambda: _send(arguments, streams))


def _send(arguments: argparse.Namespace, streams: Streams) -> int:
    source = messages.messages(arguments, streams)
    mode = SenderSettleMode.SETTLED if arguments.settled else SenderSettleMode.MIXED
    total = arguments.count or (None if arguments.json_lines else max(len(arguments.body), 1))
    complaints = _Complaints(streams)
    with (
        connecting.open_connection(arguments, streams) as connection,
        connection.sender(arguments.address, snd_settle_mode=mode) as sender,
    ):
        begun = time.monotonic()
        paced = _paced(source, arguments.rate, streams)
        try:
            with showing.Progress(streams, "messages sent", total, is_wanted=total != 1) as progress:
                for outcome in sender.send_each(paced, window=arguments.window, timeout=arguments.timeout):
                    complaints.look_at(outcome)
                    progress.step()
        finally:
            _tell(sender.counters, time.monotonic() - begun, streams)
    return 1 if complaints.number else 0


def _paced(source: Iterator[Message], rate: float | None, streams: Streams) -> Iterator[Message]:
    """The messages, each not before its time."""
    begun = time.monotonic()
    for number, message in enumerate(source):
        if rate is not None:
            early = begun + number / rate - time.monotonic()
            if early > 0:
                streams.wait(early)
        yield message


class _Complaints:
    """Says which messages were not accepted, the first of them one by one."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._seen = 0
        self.number = 0

    def look_at(self, outcome: Outcome) -> None:
        """The next message has its outcome."""
        self._seen += 1
        if outcome is None or isinstance(outcome, Accepted):
            return
        self.number += 1
        if self.number <= _MOST_TOLD:
            why = f"; {NOBODY}" if isinstance(outcome, Released) else ""
            self._streams.complain(f"message {self._seen} was not accepted: {describe(outcome)}{why}")
        elif self.number == _MOST_TOLD + 1:
            self._streams.complain("there are more that were not accepted")


def _tell(counters: SenderCounters, spent: float, streams: Streams) -> None:
    """Say what became of the messages, also if the sending came to an early end."""
    outcomes = {
        "accepted": counters.accepted,
        "rejected": counters.rejected,
        "released": counters.released,
        "modified": counters.modified,
        "no outcome": counters.messages,
    }
    outcomes["no outcome"] -= sum(outcomes.values()) - counters.messages
    told = {name: number for name, number in outcomes.items() if number}
    if not streams.is_terminal():
        report: dict[str, Any] = {"messages": counters.messages, "outcomes": told}
        streams.write(json.dumps({**report, "seconds": round(spent, 6)}))
        return
    rate = f", {counters.messages / spent:,.0f} a second" if counters.messages > 1 else ""
    shown = ", ".join(f"{number:,} {name}" for name, number in told.items())
    streams.write(
        f"{showing.quantity(counters.messages, 'message')} in {spent:.2f} s{rate}: {shown or 'none'}"
    )
