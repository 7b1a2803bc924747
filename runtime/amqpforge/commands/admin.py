"""`amqpforge admin`: queues, exchanges, bindings and connections of a broker; and the users of its file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from amqpforge.commands import connecting, tables, users
from amqpforge.commands.listed import LISTS, SUMS
from amqpforge.notation import NotationError, from_json

if TYPE_CHECKING:
    from amqpforge.blocking.management import Management
    from amqpforge.management import Overview
    from amqpforge.streams import Streams

__all__ = ["DESCRIPTION", "EPILOG", "add_arguments", "run"]

_DEFAULT: Final = "amqp://localhost"
_USAGE: Final = "amqpforge admin [URL] VERB ... [options]"
_TWO_WORDS: Final = ("declare", "delete")
"""What says with a second word what it is about."""

DESCRIPTION = f"""\
Look at a broker, and change what it has. Without a URL that is the broker at
{_DEFAULT}.

  list WHAT            queues, exchanges, bindings, connections or consumers
  overview             the broker and its virtual host, in sums
  declare queue NAME   make a queue, or see that it is there and like that
  declare exchange NAME
  delete queue NAME    with --if-unused, --if-empty
  delete exchange NAME
  purge QUEUE          drop the messages that nobody holds
  bind QUEUE EXCHANGE [KEY]
  unbind QUEUE EXCHANGE [KEY]
  close ID             end a connection of the list
  users VERB           who may log in: the file of users, without a broker

`amqpforge admin list --help` tells more about `list`, and so on.
"""

EPILOG = """\
Lists are tables on a terminal, and JSON lines on a pipe. Rates are a mean of
the last 10 seconds or some more. Options go behind the verb.

Examples:
  amqpforge admin list queues
  amqpforge admin amqps://me@broker.example list queues --every 2
  amqpforge admin declare queue orders --durable --max-length 100000
  amqpforge admin declare exchange events --type topic --durable
  amqpforge admin bind orders events 'order.#'
  amqpforge admin list queues | jq 'select(.messages > 1000) | .name'
  amqpforge admin users add alice --file users.toml

Exit code: 0, 1 if it could not be done, 2 for wrong usage.
"""

_Work: TypeAlias = "Callable[[argparse.Namespace, Streams], int]"
_Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
_Manage: TypeAlias = "Callable[[Management, argparse.Namespace, Streams], None]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments: words, because what they may be hangs on the first of them."""
    parser.usage = _USAGE
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(parser_class=type(parser), usage_error=parser.error)


def run(arguments: argparse.Namespace, streams: Streams) -> int:
    """Read the words, and do what they say."""
    words: list[str] = arguments.words
    url: str | None = None
    if words and "://" in words[0]:
        url, *words = words
    if not words:
        arguments.usage_error("say what to do; amqpforge admin --help tells what there is")
    if words[0] == "users":
        if url is not None:
            arguments.usage_error("users are those of a file: give no URL")
        argv = words
    else:
        at = 2 if words[0] in _TWO_WORDS else 1
        argv = [*words[:at], url or _DEFAULT, *words[at:]] if len(words) >= at else words
    chosen = _parser(arguments.parser_class).parse_args(argv)
    work: _Work = chosen.work
    return connecting.attempt(streams, lambda: work(chosen, streams))


# --- what there is to say ----------------------------------------------------------------------------------


def _parser(parser_class: type[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = parser_class(prog="amqpforge admin", usage=_USAGE, add_help=False)
    verbs = parser.add_subparsers(prog="amqpforge admin", metavar="VERB", required=True)

    _add_list(_leaf(verbs, "list", "list WHAT", "show all queues, exchanges, or other things", _list))
    _add_repeating(_leaf(verbs, "overview", "overview", "show the broker in sums", _overview))
    declare = _branch(verbs, "declare", "make a queue or an exchange, or see that it is there and like that")
    _add_queue(_leaf(declare, "queue", "declare queue NAME", "a queue", _declare_queue))
    _add_exchange(_leaf(declare, "exchange", "declare exchange NAME", "an exchange", _declare_exchange))
    delete = _branch(verbs, "delete", "delete a queue or an exchange, with its bindings")
    gone = _leaf(delete, "queue", "delete queue NAME", "a queue", _delete_queue)
    _add_delete(gone)
    gone.add_argument("--if-empty", action="store_true", help="only if it has no messages")
    _add_delete(_leaf(delete, "exchange", "delete exchange NAME", "an exchange", _delete_exchange))
    purge = _leaf(verbs, "purge", "purge QUEUE", "drop the messages of a queue that nobody holds", _purge)
    purge.add_argument("queue", metavar="QUEUE", help="its name")
    usage = "bind QUEUE EXCHANGE [KEY]"
    _add_bind(_leaf(verbs, "bind", usage, "have a queue get messages of an exchange", _bind))
    _add_bind(_leaf(verbs, "unbind", f"un{usage}", "have a binding no longer", _unbind))
    close = _leaf(verbs, "close", "close ID", "end a connection that `list connections` shows", _close)
    close.add_argument("id", metavar="ID", help="of the connection")
    close.add_argument("--reason", metavar="TEXT", help="what the client is told")
    users.add_arguments(
        verbs.add_parser(
            "users",
            usage="amqpforge admin users VERB [USER] --file FILE",
            description="Change the file of users that a broker reads when it is started.",
            epilog=users.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    return parser


def _branch(verbs: _Verbs, name: str, summary: str) -> _Verbs:
    """A verb that needs another word."""
    added = verbs.add_parser(
        name, usage=f"amqpforge admin [URL] {name} queue|exchange NAME", description=summary
    )
    return added.add_subparsers(prog=f"amqpforge admin {name}", metavar="queue|exchange", required=True)


def _leaf(verbs: _Verbs, name: str, usage: str, summary: str, manage: _Manage) -> argparse.ArgumentParser:
    """A verb that is complete, with the arguments of a connection."""
    added = verbs.add_parser(
        name,
        help=summary,
        usage=f"amqpforge admin [URL] {usage} [options]",
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=connecting.HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    connecting.add_arguments(added)
    added.set_defaults(work=_managed, manage=manage)
    return added


def _add_repeating(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--every", type=connecting.seconds, metavar="S", help="again and again, every S seconds"
    )
    parser.add_argument("--json", action="store_true", help="as JSON lines (default on a pipe)")


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=sorted(LISTS), metavar="WHAT", help=", ".join(sorted(LISTS)))
    _add_repeating(parser)


def _add_queue(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="its name (default: one that the broker finds)"
    )
    group = parser.add_argument_group("queue")
    for name, meaning in _FLAGS.items():
        group.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=meaning)
    for name, (kind, metavar, meaning) in _VALUES.items():
        group.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar=metavar, help=meaning)
    group.add_argument(
        "--overflow",
        choices=("reject", "drop-oldest", "dead-letter"),
        help="what happens beyond the greatest length (default: reject)",
    )


def _add_exchange(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="its name")
    group = parser.add_argument_group("exchange")
    group.add_argument("--type", default="direct", help="direct, topic, fanout or headers (default: direct)")
    group.add_argument("--durable", action="store_true", help=_FLAGS["durable"])
    group.add_argument("--auto-delete", action="store_true", help="it goes with its last binding")
    group.add_argument("--internal", action="store_true", help="clients cannot publish to it")
    _add_arguments(parser)


def _add_delete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="its name")
    parser.add_argument("--if-unused", action="store_true", help="only if nothing uses it")


def _add_bind(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("destination", metavar="QUEUE", help="what gets messages")
    parser.add_argument("source", metavar="EXCHANGE", help="where they come from")
    parser.add_argument("pattern", nargs="?", default="", metavar="KEY", help="the routing key or pattern")
    parser.add_argument("--to-exchange", action="store_true", help="QUEUE is the name of an exchange")
    _add_arguments(parser)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        *("--argument", "-a"),
        action="append",
        default=[],
        type=_argument,
        metavar="NAME=TEXT",
        help="what else the exchange compares; NAME:=JSON for another type; may be repeated",
    )


def _argument(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.rstrip(":"):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=TEXT")
    if not name.endswith(":"):
        return name, value
    try:
        return name[:-1], from_json(json.loads(value))
    except (NotationError, ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{name[:-1]}: the value is no JSON: {error}") from error


_FLAGS: Final = {
    "durable": "it is there again after a restart",
    "private": "one consumer at a time",
    "auto_delete": "it goes once its last consumer has left",
}
_VALUES: Final[dict[str, tuple[Callable[[str], Any], str, str]]] = {
    "grace": (float, "S", "seconds until it goes then (default: 5)"),
    "max_length": (int, "N", "messages at most"),
    "max_bytes": (int, "N", "octets of messages at most"),
    "message_ttl": (float, "S", "seconds that a message lives in it at most"),
    "expires": (float, "S", "seconds after which it goes if nobody uses it"),
    "priority_levels": (int, "N", "levels of priority, 1 to 256"),
    "dead_letter_exchange": (str, "NAME", "where messages go that expire or are rejected"),
    "dead_letter_key": (str, "KEY", "the routing key that they have there"),
    "delivery_limit": (int, "N", "failed deliveries before a message is dead-lettered"),
    "duplicate_window": (int, "N", "message-ids that it remembers, to drop what repeats one"),
    "acquisition_timeout": (float, "S", "seconds that a consumer may hold a message"),
}


# --- what is done ------------------------------------------------------------------------------------------


def _managed(arguments: argparse.Namespace, streams: Streams) -> int:
    from amqpforge.blocking.management import Management

    with connecting.open_connection(arguments, streams) as connection, Management(connection) as management:
        manage: _Manage = arguments.manage
        every = getattr(arguments, "every", None)
        while True:
            if every is not None and streams.is_terminal() and not arguments.json:
                streams.stdout.write("\x1b[2J\x1b[H")
            manage(management, arguments, streams)
            if every is None:
                return 0
            streams.wait(every)


def _list(management: Management, arguments: argparse.Namespace, streams: Streams) -> None:
    columns = LISTS[arguments.what]
    things: Sequence[Any] = getattr(management, arguments.what)()
    if streams.is_terminal() and not arguments.json:
        things = sorted(things, key=lambda thing: str(columns[0].text(thing)))
    tables.show(things, columns, streams, as_json=arguments.json)


def _overview(management: Management, arguments: argparse.Namespace, streams: Streams) -> None:
    overview = management.overview()
    if arguments.json or not streams.is_terminal():
        streams.write(json.dumps(asdict(overview), ensure_ascii=False))
        streams.stdout.flush()
    else:
        tables.show(_lines(overview), SUMS, streams, as_json=False)


def _lines(overview: Overview) -> list[tuple[str, object]]:
    broker, vhost = overview.broker, overview.vhost
    lines: list[tuple[str, object]] = [
        ("broker", f"{broker.product} {broker.version}, up for {broker.uptime:,.0f} s"),
        ("store", "durable" if broker.is_durable else "memory: nothing survives a restart"),
        ("virtual host", f"{vhost.name}, as the user {broker.user}"),
        *((name, getattr(vhost, name)) for name in ("queues", "exchanges", "consumers")),
        ("messages ready", vhost.messages_ready),
        ("messages held", vhost.messages_unacknowledged),
        ("octets", vhost.bytes),
    ]
    for window, rates in vhost.rates.items():
        told = ", ".join(f"{rate:,.1f} {name}" for name, rate in rates.items())
        lines.append((f"a second, in {window}", told))
    for name, quota in (broker.usage or {}).items():
        lines.append((f"{name} in use", f"{quota['used']:,} of {quota['limit']:,}"))
    return lines


def _declare_queue(management: Management, arguments: argparse.Namespace, streams: Streams) -> None:
    options = {name: getattr(arguments, name) for name in (*_FLAGS, *_VALUES, "overflow")}
    given: Any = {name: value for name, value in options.items() if value is not None}
    queue = management.declare_queue(arguments.name, **given)
    if arguments.name is None:
        streams.write(queue.name)


def _declare_exchange(management: Management, arguments: argparse.Namespace, streams: Streams) -> None:
    management.declare_exchange(
        arguments.name,
        arguments.type,
        durable=arguments.durable,
        auto_delete=arguments.auto_delete,
        internal=arguments.internal,
        arguments=dict(arguments.argument),
    )


def _delete_queue(management: Management, arguments: argparse.Namespace, streams: Streams) -> None:
    count = management.delete_queue(
        arguments.name, if_unused=arguments.if_unused, if_empty=arguments.if_empty
    )
    _tell_messages(count, streams)


def _delete_exchange(management: Management, arguments: argparse.Namespace, streams: Streams) -> None:
    management.delete_exchange(arguments.name, if_unused=arguments.if_unused)


def _purge(management: Management, arguments: argparse.Namespace, streams: Streams) -> None:
    _tell_messages(management.purge_queue(arguments.queue), streams)


def _tell_messages(count: int, streams: Streams) -> None:
    """Say how many messages are gone."""
    if streams.is_terminal():
        streams.write(f"{count:,} message{'' if count == 1 else 's'} gone")
    else:
        streams.write(json.dumps({"messages": count}))


def _bind(management: Management, arguments: argparse.Namespace, streams: Streams) -> None:
    _change_binding(management.bind, arguments)


def _unbind(management: Management, arguments: argparse.Namespace, streams: Streams) -> None:
    _change_binding(management.unbind, arguments)


def _change_binding(change: Callable[..., None], arguments: argparse.Namespace) -> None:
    change(
        arguments.destination,
        arguments.source,
        arguments.pattern,
        dict(arguments.argument),
        destination_type="exchange" if arguments.to_exchange else "queue",
    )


def _close(management: Management, arguments: argparse.Namespace, streams: Streams) -> None:
    management.close_connection(arguments.id, arguments.reason)
