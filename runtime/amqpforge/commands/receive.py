"""`amqpforge receive`: messages from a node to standard output, or into files."""

from __future__ import annotations

import argparse
import time
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amqpforge.commands import connecting, showing
from amqpforge.errors import OperationTimedOut
from amqpforge.message import MessageError
from amqpforge_protocol.amqp_1_0 import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from amqpforge.blocking import Connection, Delivery, Message, Receiver
    from amqpforge.streams import Streams

__all__ = ["DESCRIPTION", "EPILOG", "add_arguments", "run"]

DESCRIPTION = """\
Receive messages from a node, and write each to standard output: as a line for
people on a terminal, as JSON on a pipe, which `amqpforge send --json` takes.

Without --count and --timeout it goes on until it is interrupted. A message gets
its outcome once it is written out, so none is lost when the reader ends early.
"""

EPILOG = f"""\
{connecting.HELP}
Outcomes:
  accept   the messages are dealt with, and leave their node
  reject   they are invalid: they are dropped, or put where the node keeps those
  release  they stay: all are held until the end, --credit of them at most, and
           then given back to their node
With --browse the node is asked for copies, and all messages stay.

Examples:
  amqpforge receive amqp://localhost orders
  amqpforge receive amqp://localhost orders --count 1 --body
  amqpforge receive amqp://localhost orders --timeout 2 > backup.jsonl
  amqpforge receive amqp://localhost orders --browse --selector "region = 'eu'"
  amqpforge receive amqp://localhost photos --save photos --timeout 1

Exit code: 0, 1 if something went wrong or fewer than --count messages came, 2
for wrong usage.
"""

_CREDIT: Final = 100
_OUTCOMES: Final = ("accept", "reject", "release")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "amqpforge receive [options] URL ADDRESS"
    connecting.add_arguments(parser)
    parser.add_argument("address", metavar="ADDRESS", help="of the node")
    parser.add_argument("--count", "-n", type=connecting.count, metavar="N", help="end after N messages")
    parser.add_argument(
        "--timeout", type=connecting.seconds, metavar="S", help="end when none has come for S seconds"
    )
    parser.add_argument(
        "--outcome", choices=_OUTCOMES, default="accept", help="for each message (default: accept; see below)"
    )
    parser.add_argument("--browse", action="store_true", help="ask for copies: the messages stay")
    parser.add_argument("--selector", metavar="S", help="only those that fit, e.g. \"colour = 'red'\"")
    parser.add_argument(
        "--credit",
        type=connecting.count,
        default=_CREDIT,
        metavar="N",
        help=f"messages that may be under way (default: {_CREDIT})",
    )
    parser.add_argument(
        "--save", metavar="DIR", type=Path, help="write each body to a file of its own, show its name"
    )
    showing.add_arguments(parser)


def run(arguments: argparse.Namespace, streams: Streams) -> int:
    """Receive messages."""
    if arguments.save and (arguments.as_json or arguments.as_body):
        arguments.usage_error("--save writes bodies to files, and shows nothing but their names")
    if arguments.browse and arguments.outcome != "accept":
        arguments.usage_error("--browse leaves the messages where they are: it goes without --outcome")
    return connecting.attempt(streams, lambda: _receive(arguments, streams))


def _receive(arguments: argparse.Namespace, streams: Streams) -> int:
    wanted: int | None = arguments.count
    take = _saver(arguments.save, streams) if arguments.save else showing.shower(arguments, streams)
    work = _Work(arguments.outcome, take, streams)
    bar = not streams.is_terminal() and wanted != 1
    with (
        _summary(streams, work, is_endless=wanted is None),
        connecting.open_connection(arguments, streams) as connection,
        _receiver(arguments, connection) as receiver,
        showing.Progress(streams, "messages received", wanted, is_wanted=bar) as progress,
    ):
        try:
            while (wanted is None or work.number < wanted) and len(work.held) < arguments.credit:
                work.do(receiver.receive(timeout=arguments.timeout))
                progress.step()
        except OperationTimedOut:
            if arguments.timeout is None:
                raise
        finally:
            work.give_back()
    if wanted is not None and work.number < wanted:
        streams.complain(f"only {work.number} of {showing.quantity(wanted, 'message')} came")
        return 1
    return 1 if work.problems else 0


def _receiver(arguments: argparse.Namespace, connection: Connection) -> Receiver:
    """The receiver. For few messages it has no window: what is not shown is not taken off the node."""
    is_few = arguments.count is not None and arguments.count <= arguments.credit
    return connection.receiver(
        arguments.address,
        credit=0 if is_few else arguments.credit,
        auto_accept=False,
        mode="copy" if arguments.browse else None,
        selector=arguments.selector,
        max_message_size=None,
    )


class _Work:
    """What is done with each message."""

    def __init__(self, outcome: str, take: Callable[[Message], None], streams: Streams) -> None:
        self._outcome = outcome
        self._take = take
        self._streams = streams
        self.begun = time.monotonic()
        self.number = 0
        self.problems = 0
        self.held: list[Delivery] = []

    def do(self, delivery: Delivery) -> None:
        """Show a message, then give it its outcome. One that cannot be shown stays at its node."""
        self.number += 1
        try:
            self._take(delivery.message)
        except (DecodeError, MessageError) as error:
            self.problems += 1
            self._streams.complain(f"message {self.number} cannot be shown, and stays at its node: {error}")
            delivery.modify(undeliverable_here=True)
            return
        if self._outcome == "accept":
            delivery.accept()
        elif self._outcome == "reject":
            delivery.reject()
        else:
            self.held.append(delivery)

    def give_back(self) -> None:
        """Release what is held."""
        for delivery in self.held:
            delivery.release()


@contextmanager
def _summary(streams: Streams, work: _Work, *, is_endless: bool) -> Iterator[None]:
    """Tell people how many messages came; being interrupted is the usual end of what has no other."""
    try:
        yield
    except KeyboardInterrupt:
        _tell(streams, work)
        if not is_endless:
            raise
    else:
        if streams.stderr.isatty():
            _tell(streams, work)


def _tell(streams: Streams, work: _Work) -> None:
    spent = time.monotonic() - work.begun
    streams.stderr.write(f"{showing.quantity(work.number, 'message')} in {spent:.2f} s\n")


def _saver(folder: Path, streams: Streams) -> Callable[[Message], None]:
    """What writes a body to a file; none that is there is written over.

    Raises:
        OSError: the folder cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    numbers = count(1)

    def save(message: Message) -> None:
        octets, ending = showing.body_octets(message)
        for number in numbers:
            path = folder / f"{number:06}.{ending}"
            try:
                with path.open("xb") as file:
                    file.write(octets)
            except FileExistsError:
                continue
            streams.write(str(path))
            streams.stdout.flush()
            return

    return save
