"""`amqpforge admin users`: who may log in, in the file of users that a broker reads."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from amqpforge.broker.access import KINDS, PasswordFile, make_credentials
from amqpforge.commands import tables
from amqpforge.errors import LocalError

if TYPE_CHECKING:
    from amqpforge.broker.access import StoredUser
    from amqpforge.streams import Streams

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """\
The file keeps what passwords are checked with, and no password. The password
is asked for on the terminal, twice, or is the first line of standard input; it
is never an argument, where everybody on the machine could read it. A broker
that runs reads the file again when it is started the next time.

Examples:
  amqpforge admin users add alice --file users.toml
  amqpforge admin users passwd alice --file users.toml < password.txt
  amqpforge admin users list --file users.toml
  amqpforge broker --users users.toml
"""

_LONGEST: Final = 4096  # octets of a line that a password is read from


@dataclass(frozen=True, slots=True)
class _Listed:
    """A user, as the list shows him."""

    name: str
    kinds: list[str]
    certificates: list[str]


_COLUMNS: Final = (
    tables.Column("USER", lambda user: user.name),
    tables.Column("PASSWORD KEPT AS", lambda user: ", ".join(user.kinds)),
    tables.Column("CERTIFICATES", lambda user: ", ".join(user.certificates)),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    verbs = parser.add_subparsers(prog="amqpforge admin users", dest="verb", metavar="VERB", required=True)
    summaries = {
        "add": "add a user, whose password is asked for",
        "passwd": "give a user another password",
        "remove": "remove a user",
        "list": "show who there is",
    }
    for verb, summary in summaries.items():
        user = "" if verb == "list" else " USER"
        added = verbs.add_parser(
            verb,
            help=summary,
            usage=f"amqpforge admin users {verb}{user} --file FILE [options]",
            description=f"{summary[0].upper()}{summary[1:]}.",
        )
        if user:
            added.add_argument("name", metavar="USER", help="the name of the user")
        added.add_argument("--file", required=True, metavar="FILE", help="the file of users")
        if verb in ("add", "passwd"):
            added.add_argument(
                "--kind",
                action="append",
                choices=KINDS,
                help="how the password is kept; may be repeated (default: SCRAM, which every client can use)",
            )
        if verb == "list":
            added.add_argument("--json", action="store_true", help="as JSON lines (default on a pipe)")
    parser.set_defaults(work=run)


def run(arguments: argparse.Namespace, streams: Streams) -> int:
    """Do it.

    Raises:
        LocalError: it cannot be done; says why.
    """
    file = PasswordFile(arguments.file)
    if arguments.verb == "list":
        tables.show([_listed(user) for user in file.read()], _COLUMNS, streams, as_json=arguments.json)
    elif arguments.verb == "remove":
        file.remove(arguments.name)
    elif arguments.verb == "add":
        kinds = {"kinds": arguments.kind} if arguments.kind else {}
        file.add(make_credentials(arguments.name, _password(arguments.name, streams), **kinds))
    else:
        if file.read().get(arguments.name) is None:
            raise LocalError(f"{file.path} has no user {arguments.name!r}")
        password = _password(arguments.name, streams)
        file.change(arguments.name, lambda user: user.with_password(password, kinds=arguments.kind))
    return 0


def _listed(user: StoredUser) -> _Listed:
    return _Listed(
        user.name, [*user.scram, *(["scrypt"] if user.scrypt is not None else [])], list(user.certificates)
    )


def _password(name: str, streams: Streams) -> str:
    """The password, from the terminal or from standard input.

    Raises:
        LocalError: there is none; the two that were typed differ; it is no text in UTF-8, or far too long.
    """
    if streams.stdin.isatty():
        from getpass import getpass

        password = getpass(f"Password of {name}: ")
        if getpass("Once more: ") != password:
            raise LocalError("these were two different passwords: nothing was changed")
        return password
    line = streams.input().readline(_LONGEST)
    if not line.endswith(b"\n") and len(line) == _LONGEST:
        raise LocalError(f"the first line of standard input has {_LONGEST} octets or more: is it a password?")
    try:
        return line.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise LocalError("the first line of standard input is no text in UTF-8") from error
