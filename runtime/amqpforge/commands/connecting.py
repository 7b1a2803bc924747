"""What the commands that talk to a peer share: where to, who we are, and what is said when that fails."""

from __future__ import annotations

import argparse
import math
import os
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from amqpforge import blocking
from amqpforge.errors import AmqpforgeError, LocalError
from amqpforge.message import MessageError
from amqpforge.notation import NotationError
from amqpforge.url import Url, UrlError, parse_url
from amqpforge_protocol.amqp_1_0 import DecodeError, EncodeError

if TYPE_CHECKING:
    from amqpforge.streams import Streams

__all__ = ["HELP", "add_arguments", "attempt", "count", "find_password", "open_connection", "seconds"]

_VARIABLE: Final = "AMQPFORGE_PASSWORD"

HELP = """\
URL: amqp://user@host:5672/virtual-host, amqps:// with TLS, amqp+ws:// and
amqp+wss:// over WebSocket. Without a user the SASL mechanism is ANONYMOUS. The
password comes from the URL, else from the environment variable
AMQPFORGE_PASSWORD, else it is asked for on the terminal; the first of these is
seen by who lists processes. AMQPFORGE_TRACE=frm shows each frame.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that say where to connect, and how."""
    parser.add_argument("url", type=_url, metavar="URL", help="where to connect (see below)")
    group = parser.add_argument_group("connection")
    group.add_argument(
        "--connect-timeout",
        type=seconds,
        default=30.0,
        metavar="S",
        help="seconds for each step of connecting, attaching and closing (default: 30)",
    )
    group.add_argument("--container-id", metavar="ID", help="our name (default: one that nobody has)")
    group.add_argument("--hostname", metavar="NAME", help="the host or virtual host that is wanted")
    group.add_argument("--reconnect", action="store_true", help="come back when the connection is lost")
    group.add_argument("--record", metavar="FILE", help="add all frames to a packet capture")
    group.add_argument(
        "--allow-insecure-plain", action="store_true", help="send a password without TLS beyond this machine"
    )
    tls = parser.add_argument_group("TLS (with amqp:// too, where it is asked for by a protocol header)")
    tls.add_argument("--ca", metavar="FILE", help="certificates to trust, instead of those of the system")
    tls.add_argument("--cert", metavar="FILE", help="our certificate, which also shows who we are (EXTERNAL)")
    tls.add_argument("--key", metavar="FILE", help="its key, if that is not in the same file")
    tls.add_argument("--no-verify", action="store_true", help="trust any certificate: for tests only")
    parser.set_defaults(usage_error=parser.error)


def attempt(streams: Streams, work: Callable[[], int]) -> int:
    """Do something with a peer; returns its exit code, or says what went wrong and returns 1."""
    try:
        return work()
    except BrokenPipeError:
        raise
    except (AmqpforgeError, DecodeError, EncodeError, MessageError, NotationError) as error:
        streams.stdout.flush()
        streams.complain(str(error))
        for note in getattr(error, "__notes__", ()):
            streams.complain(note)
    except OSError as error:
        streams.stdout.flush()
        place = f"{error.filename}: " if error.filename else ""
        streams.complain(f"{place}{error.strerror or error}")
    return 1


def open_connection(arguments: argparse.Namespace, streams: Streams) -> blocking.Connection:
    """Connect as the arguments say.

    Raises:
        AmqpforgeError: there is no connection.
        OSError: a file of the arguments cannot be read.
    """
    find_password(arguments, streams)
    url: Url = arguments.url
    credentials = None
    if url.username is not None or arguments.cert:
        credentials = blocking.Credentials(
            username=url.username,
            password=url.password,
            external=bool(arguments.cert) and url.username is None,
            allow_insecure_plain=arguments.allow_insecure_plain,
        )
    return blocking.connect(
        url,
        credentials=credentials,
        ssl=_context(arguments),
        container_id=arguments.container_id,
        hostname=arguments.hostname,
        timeout=arguments.connect_timeout,
        reconnect=blocking.Reconnect() if arguments.reconnect else None,
        record=arguments.record,
        properties={"product": "amqpforge"},
    )


def find_password(arguments: argparse.Namespace, streams: Streams) -> None:
    """Put the password into the URL, if that names a user without one; asks for it if it is nowhere else."""
    url: Url = arguments.url
    if url.username is None or url.password is not None:
        return
    password = os.environ.get(_VARIABLE)
    if password is None and streams.stdin.isatty():
        from getpass import getpass

        password = getpass(f"Password of {url.username} at {url.host}: ")
    if password is None:
        arguments.usage_error(f"the URL names the user {url.username!r} without a password: set {_VARIABLE}")
    arguments.url = replace(url, password=password)


def _context(arguments: argparse.Namespace) -> ssl.SSLContext | None:
    """How TLS is to be done; None: as usual, if the URL asks for it.

    Raises:
        LocalError: a file does not hold what it should.
    """
    if arguments.key and not arguments.cert:
        arguments.usage_error("--key goes with --cert")
    if not (arguments.ca or arguments.cert or arguments.no_verify):
        return None
    context = ssl.create_default_context()
    try:
        if arguments.ca:
            context = ssl.create_default_context(cafile=arguments.ca)
    except OSError as error:
        raise LocalError(f"no certificates in {arguments.ca}: {error.strerror or error}") from error
    if arguments.no_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        if arguments.cert:
            context.load_cert_chain(arguments.cert, arguments.key)
    except OSError as error:
        raise LocalError(
            f"no certificate with its key in {arguments.cert}: {error.strerror or error}"
        ) from error
    return context


# ---- kinds of arguments ----


def seconds(text: str) -> float:
    """A number of seconds, more than 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not (number > 0 and math.isfinite(number)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return number


def count(text: str) -> int:
    """A whole number, at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _url(text: str) -> Url:
    try:
        return parse_url(text)
    except UrlError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
