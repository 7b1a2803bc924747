"""`amqpforge broker`: a broker in a process of its own, until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amqpforge import __version__
from amqpforge.broker.access import UsersAuthenticator
from amqpforge.broker.broker import Broker
from amqpforge.broker.config import BrokerConfig, LogLevel, read_config
from amqpforge.broker.logs import logging_to
from amqpforge.errors import AmqpforgeError, LocalError
from amqpforge_protocol.amqp_1_0 import PORT

if TYPE_CHECKING:
    from amqpforge.streams import Streams

__all__ = ["DESCRIPTION", "EPILOG", "add_arguments", "run"]

DESCRIPTION = """\
Run a broker for AMQP 1.0: queues, exchanges and bindings, and durable messages
that are still there when it was killed. Once it listens it says so in a line to
standard output; it logs to standard error.

Without options it listens at 127.0.0.1:5672, is open to everybody on this
machine, and keeps messages in a file that its first line names.
"""

EPILOG = """\
Options of the command line override the file of --config; docs/broker.toml is
one that uses everything. `amqpforge admin users add NAME --file FILE` makes
a file of users.

SIGTERM or SIGINT (Ctrl-C) ends it: what has come is answered, clients are told
amqp:connection:forced, and what is to be kept is written. A second signal cuts
off clients that take their time, a third one ends it at once. No message that
was accepted is lost by any of them, nor by kill -9.

Examples:
  amqpforge broker
  amqpforge broker --store memory --port 0
  amqpforge broker --store sqlite:orders.db --log-format json
  amqpforge broker --host 0.0.0.0 --users users.toml --tls-cert broker.pem
  amqpforge broker --config broker.toml

Exit code: 0, 1 if it could not start, 2 for wrong usage.
"""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_COLLECTED_AFTER: Final = 10_000
"""Objects that are made before the garbage collector looks for cycles. A queue is very many objects without a
cycle: to look every few hundred takes several percent of the time.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "amqpforge broker [options]"
    parser.add_argument("--config", type=Path, metavar="FILE", help="how it is set up, in TOML")
    parser.add_argument("--host", metavar="HOST", help="where to listen (default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=int, metavar="N", help=f"on which port (default: {PORT}; 0: any that is free)"
    )
    parser.add_argument(
        "--store", metavar="STORE", help="memory, or sqlite:PATH (default: a file in your state folder)"
    )
    parser.add_argument("--users", type=Path, metavar="FILE", help="the file of users, who alone may log in")
    tls = parser.add_argument_group("TLS")
    tls.add_argument("--tls-cert", type=Path, metavar="FILE", help="the broker's certificate, in PEM")
    tls.add_argument("--tls-key", type=Path, metavar="FILE", help="its key, if that is not in the same file")
    logs = parser.add_argument_group("logs")
    levels = [level.value for level in LogLevel]
    logs.add_argument("--log-level", choices=levels, metavar="L", help=f"{', '.join(levels)} (default: info)")
    logs.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="lines of key=value, or of JSON"
    )


def run(arguments: argparse.Namespace, streams: Streams) -> int:
    """Run the broker until it is told to stop."""
    try:
        config = _config(arguments)
        level = logging.getLevelNamesMapping()[config.log_level.name]
        with logging_to(streams.stderr, level, as_json=arguments.log_format == "json"):
            asyncio.run(_serve(Broker(config), streams))
    except AmqpforgeError as error:
        streams.complain(str(error))
        return 1
    return 0


def _config(arguments: argparse.Namespace) -> BrokerConfig:
    """How the broker is set up.

    Raises:
        LocalError: not at all possibly so; names the file and the place, if it is a file's fault.
    """
    config = BrokerConfig() if arguments.config is None else read_config(arguments.config)
    config = config.overridden(
        host=arguments.host,
        port=arguments.port,
        store=arguments.store,
        users=arguments.users,
        tls_certificate=arguments.tls_cert,
        tls_key=arguments.tls_key,
        log_level=None if arguments.log_level is None else LogLevel(arguments.log_level),
    )
    return config if config.store is not None else config.overridden(store=_usual_store())


async def _serve(broker: Broker, streams: Streams) -> None:
    gc.set_threshold(_COLLECTED_AFTER)
    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            broker.cut()
        stopping.set()

    async with broker:
        with _signals(stop):
            streams.write(_welcome(broker))
            streams.stdout.flush()
            await stopping.wait()
            await broker.stop("the broker is shut down")


@contextmanager
def _signals(call: Callable[[], None]) -> Iterator[None]:
    """Call a function in the event loop for the first and for the second signal; a third is not held up."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    left = 2

    def handle(*_: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
        loop.call_soon_threadsafe(call)

    for number in _SIGNALS:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _welcome(broker: Broker) -> str:
    """Where it listens, who may connect, and where messages are kept."""
    where = ", ".join(port.url for port in broker.ports)
    kept = broker.store.removeprefix("sqlite:")
    how = "in memory, for as long as it runs" if kept == "memory" else f"in {kept}"
    return f"amqpforge {__version__} listens at {where} for {_who(broker)}; it keeps messages {how}"


def _who(broker: Broker) -> str:
    config = broker.config
    if config.users is None:
        is_local = all(one.is_loopback for one in config.listeners)
        return f"everybody {'on this machine' if is_local else 'who reaches it'}"
    known = broker.authenticator
    count = len(known.users) if isinstance(known, UsersAuthenticator) else 0
    users = f"{count} {'user' if count == 1 else 'users'} of {config.users}"
    return f"{users} and clients without a name" if config.allow_anonymous else users


def _usual_store() -> str:
    """The store that is used if none is named; makes its folder.

    Raises:
        LocalError: there is no place for it.
    """
    try:
        folder = _state_folder() / "amqpforge"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except RuntimeError as error:  # Nobody knows the home of this user.
        raise LocalError(f"no place for the store was found ({error}): name one with --store") from error
    except OSError as error:
        raise LocalError(
            f"the folder {error.filename} of the store cannot be made ({error.strerror}): name a store with "
            "--store"
        ) from error
    return f"sqlite:{folder / 'broker.db'}"


def _state_folder() -> Path:
    """Where this platform keeps what programs remember.

    Raises:
        RuntimeError: the user has no home.
    """
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    return named if named.is_absolute() else Path.home() / ".local" / "state"
