"""The `amqpforge` command: a table of subcommands, each a module of its own that is loaded when it is named.

Such a module has `add_arguments(parser)`, and `run(arguments, streams)` which returns the exit code: 0, or 1
when something could not be read or done. Wrong usage exits with 2 before `run` is called. A DESCRIPTION and
an EPILOG are shown by --help.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TextIO, cast

from amqpforge import __version__
from amqpforge.streams import Streams

__all__ = ["main"]

_INTERRUPTED = 130  # 128 + SIGINT, as shells count


class Command(NamedTuple):
    """A subcommand: its name, the module that holds it, and a line about it."""

    name: str
    module: str
    summary: str


class CommandModule(Protocol):
    """What the module of a subcommand provides."""

    DESCRIPTION: str
    EPILOG: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        ...

    def run(self, arguments: argparse.Namespace, streams: Streams) -> int:
        """Do it; returns the exit code."""
        ...


COMMANDS = (
    Command("admin", "amqpforge.commands.admin", "look at a broker, and change what it has"),
    Command("broker", "amqpforge.commands.broker", "run a broker: queues, exchanges, messages that are kept"),
    Command("decode", "amqpforge.commands.decode", "show the AMQP frames in captures and stream dumps"),
    Command("encode", "amqpforge.commands.encode", "write an AMQP value, given as JSON, as octets"),
    Command("ping", "amqpforge.commands.ping", "tell who answers at a URL, and how fast"),
    Command("receive", "amqpforge.commands.receive", "write the messages of a node to standard output"),
    Command("report", "amqpforge.commands.report", "draw captured traffic on a page, with Spark"),
    Command("request", "amqpforge.commands.request", "send a request to a node, and show its answer"),
    Command("send", "amqpforge.commands.send", "send messages to a node"),
)


def main(
    argv: Sequence[str] | None = None,
    stdin: Any = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> int:
    """Run a command line (default: the process's own) on the given streams (default: the process's own).

    Returns the exit code. It raises nothing: a broken pipe ends quietly with 0, an interrupt with 130.
    """
    streams = Streams(
        sys.stdin if stdin is None else stdin,
        sys.stdout if stdout is None else stdout,
        sys.stderr if stderr is None else stderr,
    )
    return run(sys.argv[1:] if argv is None else argv, streams)


def run(argv: Sequence[str], streams: Streams) -> int:
    """Like `main`, for who wants to set the waiting too."""
    try:
        parser, module = _parser(_named(argv), streams)
        arguments = parser.parse_args(argv)
        if module is None:
            parser.print_help(sys.stderr)
            return 2
        code = module.run(arguments, streams)
        streams.stdout.flush()
        return code
    except SystemExit as stop:  # argparse: --help, --version, wrong usage
        return stop.code if isinstance(stop.code, int) else 2
    except BrokenPipeError:
        _drop_output(streams)
        return 0
    except KeyboardInterrupt:
        return _INTERRUPTED


def _named(argv: Sequence[str]) -> Command | None:
    """The subcommand that a command line names: its first word that is not an option."""
    word = next((word for word in argv if not word.startswith("-")), None)
    return next((command for command in COMMANDS if command.name == word), None)


def _parser(chosen: Command | None, streams: Streams) -> tuple[argparse.ArgumentParser, CommandModule | None]:
    """A parser that knows all subcommands by name, and the arguments of the chosen one."""

    class Parser(argparse.ArgumentParser):
        """Prints where the command does, wherever the process's own streams go."""

        def _print_message(self, message: str, file: Any = None) -> None:
            if message:
                (streams.stderr if file is sys.stderr else streams.stdout).write(message)

    parser = Parser(
        prog="amqpforge",
        description="Work with AMQP from the command line.",
        epilog="`amqpforge COMMAND --help` tells more about a command, with examples.",
    )
    parser.add_argument("--version", action="version", version=f"amqpforge {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    module: CommandModule | None = None
    for command in COMMANDS:
        if command is not chosen:
            commands.add_parser(command.name, help=command.summary)
            continue
        module = cast(CommandModule, importlib.import_module(command.module))
        module.add_arguments(
            commands.add_parser(
                command.name,
                help=command.summary,
                description=module.DESCRIPTION,
                epilog=module.EPILOG,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
        )
    return parser, module


def _drop_output(streams: Streams) -> None:
    """Nobody reads the output any more: keep the interpreter from complaining when it flushes it at exit."""
    with contextlib.suppress(OSError, ValueError):
        descriptor = streams.stdout.fileno()
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, descriptor)
        os.close(sink)
