"""`amqpforge request`: a question to a node, and its answer."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from amqpforge.commands import connecting, messages, showing
from amqpforge.errors import EndpointClosed

if TYPE_CHECKING:
    from amqpforge.streams import Streams

__all__ = ["DESCRIPTION", "EPILOG", "add_arguments", "run"]

DESCRIPTION = """\
Send a request to a node, wait for its answer, and write that to standard
output: as a line for people on a terminal, as JSON on a pipe.

The answer comes to a node that the peer makes for it, or to --reply-to. It is
the message whose correlation-id is the message-id of the request, or its
correlation-id if it has one.
"""

EPILOG = f"""\
{connecting.HELP}
{messages.HELP}
Examples:
  amqpforge request amqp://localhost rates EUR/USD
  amqpforge request amqp://localhost rates --body --timeout 2 EUR/USD
  amqpforge request amqp://localhost orders --reply-to answers --file order.xml

Exit code: 0, 1 if there was no answer, 2 for wrong usage.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "amqpforge request [options] URL ADDRESS [BODY]"
    connecting.add_arguments(parser)
    parser.add_argument("address", metavar="ADDRESS", help="of the node that answers")
    messages.add_body(parser, 1, "the request; after -- if it begins with -")
    parser.add_argument(
        "--timeout",
        type=connecting.seconds,
        default=30.0,
        metavar="S",
        help="wait S seconds for the answer (default: 30)",
    )
    messages.add_arguments(parser)
    showing.add_arguments(parser)


def run(arguments: argparse.Namespace, streams: Streams) -> int:
    """Ask, and show the answer."""
    return connecting.attempt(streams, lambda: _request(arguments, streams))


def _request(arguments: argparse.Namespace, streams: Streams) -> int:
    show = showing.shower(arguments, streams)
    (request,) = messages.messages(arguments, streams)
    with connecting.open_connection(arguments, streams) as connection:
        try:
            requester = connection.requester(arguments.address, reply_to=arguments.reply_to)
        except EndpointClosed as error:
            if arguments.reply_to is None and connection.is_open:
                error.add_note("some peers make no nodes for answers: name one with --reply-to")
            raise
        with requester:
            show(requester.request(request, timeout=arguments.timeout))
    return 0
