"""What a broker logs: events with fields, as lines of `key=value` or of JSON, and never a secret.

Each event is the message of a record of :mod:`logging`, so any handler shows it as text. The formatters here
show the fields as such.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["Event", "JsonFormatter", "TextFormatter", "logging_to"]

_LONGEST: Final = 200
"""Characters of a value that are shown: peers choose some of them."""

_BARE: Final = re.compile(r"[^\s\"=\\]+")


class Event:
    """Something that happened, and its circumstances.

    As text it is the name, and the fields as ``key=value``. A value is cut after 200 characters, and quoted
    unless it is one printable word: no peer can make up a field or a line.

    Attributes:
        name: what happened.
        fields: what is to be known about it; without those that are None.
    """

    __slots__ = ("fields", "name")

    def __init__(self, name: str, **fields: object) -> None:
        self.name = name
        self.fields = {key: _short(value) for key, value in fields.items() if value is not None}

    def __str__(self) -> str:
        return " ".join((self.name, _pairs(self.fields))) if self.fields else self.name


class TextFormatter(logging.Formatter):
    """Lines of ``key=value``: time, level, logger and event, then the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        return _pairs(_fields(self, record))


class JsonFormatter(logging.Formatter):
    """The same, each as a JSON object in one line of ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_fields(self, record))


@contextmanager
def logging_to(stream: TextIO, level: int, *, as_json: bool) -> Iterator[None]:
    """Log to a stream within a block: what is ours from a level on, and warnings of all others."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    root, ours = logging.getLogger(), logging.getLogger("amqpforge")
    before = ours.level
    root.addHandler(handler)
    ours.setLevel(level)
    try:
        yield
    finally:
        ours.setLevel(before)
        root.removeHandler(handler)


def _fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, object]:
    event = record.msg
    name, fields = (event.name, event.fields) if isinstance(event, Event) else (record.getMessage(), {})
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    found: dict[str, object] = {
        "time": time.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": name,
        **fields,
    }
    if record.exc_info:
        found["traceback"] = formatter.formatException(record.exc_info)
    return found


def _pairs(fields: Mapping[str, object]) -> str:
    return " ".join(f"{key}={_quoted(str(value))}" for key, value in fields.items())


def _quoted(text: str) -> str:
    if text.isprintable() and _BARE.fullmatch(text):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _short(value: object) -> object:
    if isinstance(value, bool | int | float):
        return value
    text = str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
