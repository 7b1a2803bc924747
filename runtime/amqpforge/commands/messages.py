"""Messages that commands make of their arguments."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Final

from amqpforge.message import Message, MessageError
from amqpforge.notation import NotationError, from_json

if TYPE_CHECKING:
    from amqpforge.streams import Streams

__all__ = ["HELP", "add_arguments", "add_body", "messages"]

HELP = """\
Body: text, or with --type data octets (what other protocols have), or with
--type json a value in the notation of `amqpforge encode`. Of --file, and of
standard input, which is read without a BODY, the body is octets.

Properties: --property name=text, or name:=JSON for another type, e.g.
--property 'size:={"type": "uint", "value": 7}'.
"""

_FIELDS: Final = {
    "subject": "what it is about",
    "to": "the address that it is meant for",
    "reply_to": "the address that answers go to",
    "message_id": "what tells it from all others",
    "correlation_id": "what it belongs to",
    "content_type": "media type of octets",
    "group_id": "the group that it belongs to",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that say what a message is."""
    group = parser.add_argument_group("message")
    group.add_argument("--file", metavar="FILE", help="its body is what the file holds; - is standard input")
    group.add_argument("--type", choices=("text", "data", "json"), help="what a BODY is (default: text)")
    group.add_argument(
        *("--property", "-p"),
        action="append",
        default=[],
        type=_property,
        metavar="NAME=VALUE",
        help="an application property; may be repeated (see below)",
    )
    for name, meaning in _FIELDS.items():
        group.add_argument(f"--{name.replace('_', '-')}", metavar="TEXT", help=meaning)
    group.add_argument("--ttl", type=float, metavar="S", help="seconds that it may live")
    group.add_argument("--priority", type=int, metavar="N", help="0 to 255, the larger the more urgent")
    group.add_argument("--durable", action="store_true", help="it survives a restart of its node")


def add_body(parser: argparse.ArgumentParser, nargs: int | str, meaning: str) -> None:
    """Declare the argument BODY, which may be left out, and may stand behind options."""
    body = parser.add_argument("body", nargs=nargs, default=[], metavar="BODY", help=meaning)
    body.required = False  # With nargs "*" or "?" it would have to stand right behind the one before.


def messages(arguments: argparse.Namespace, streams: Streams) -> Iterator[Message]:
    """The messages that the arguments say; JSON lines are read as they are asked for.

    Raises:
        NotationError, MessageError: one is not as it should be; a line of input is named by its number.
        OSError: the file cannot be read.
    """
    count = getattr(arguments, "count", 1)
    if getattr(arguments, "json_lines", False):
        return islice(_lines(arguments, streams), count)
    made = [_dressed(Message(body), arguments) for body in _bodies(arguments, streams)]
    return islice(cycle(made), len(made) if count is None else count)


def _lines(arguments: argparse.Namespace, streams: Streams) -> Iterator[Message]:
    is_standard = arguments.file in (None, "-")
    with nullcontext(streams.input()) if is_standard else open(arguments.file, "rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    message = _dressed(Message.from_json(line), arguments)
                except (MessageError, NotationError) as error:
                    raise NotationError(f"line {number}: {error}") from error
                yield message


def _bodies(arguments: argparse.Namespace, streams: Streams) -> list[Any]:
    given: list[str] = arguments.body
    if given and arguments.file:
        arguments.usage_error("a BODY and --file are two ways to say the same")
    kind = arguments.type or ("text" if given else "data")
    if given:
        return [_BODIES[kind](body.encode("utf-8", "surrogateescape")) for body in given]
    if arguments.file in (None, "-"):
        return [_BODIES[kind](streams.input().read())]
    with open(arguments.file, "rb") as file:
        return [_BODIES[kind](file.read())]


def _text(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError as error:
        raise NotationError(
            f"the body is no text in UTF-8 (at octet {error.start}): use --type data"
        ) from error


def _value(octets: bytes) -> Any:
    try:
        return from_json(json.loads(octets))
    except NotationError:
        raise
    except (ValueError, RecursionError) as error:
        raise NotationError(f"the body is no JSON: {error}") from error


_BODIES: Final[dict[str, Callable[[bytes], Any]]] = {"text": _text, "data": bytes, "json": _value}


def _dressed(message: Message, arguments: argparse.Namespace) -> Message:
    """The message, with what else the arguments say of it."""
    for name in (*_FIELDS, "ttl", "priority"):
        value = getattr(arguments, name)
        if value is not None:
            setattr(message, name, value)
    if arguments.durable:
        message.durable = True
    if arguments.property:
        message.application_properties.update(arguments.property)
    return message


def _property(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.rstrip(":"):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    if not name.endswith(":"):
        return name, value
    try:
        return name[:-1], _value(value.encode())
    except NotationError as error:
        raise argparse.ArgumentTypeError(f"{name[:-1]}: {error}".replace("the body", "the value")) from error
