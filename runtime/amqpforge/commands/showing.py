"""What commands say: messages on standard output, progress and sums to people."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

from amqpforge.capture.text import describe, printable
from amqpforge.message import Message
from amqpforge.notation import to_json
from amqpforge_protocol.amqp_1_0 import Header, Properties

if TYPE_CHECKING:
    from types import TracebackType

    from amqpforge.streams import Streams

__all__ = ["Progress", "add_arguments", "body_octets", "quantity", "shower"]

_PAUSE: Final = 0.1  # seconds from one look of the progress to the next


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that say how messages are shown."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--json", dest="as_json", action="store_true", help="messages as JSON lines (default on a pipe)"
    )
    group.add_argument(
        "--body", dest="as_body", action="store_true", help="nothing but bodies, each with an end of line"
    )


def shower(arguments: argparse.Namespace, streams: Streams) -> Callable[[Message], None]:
    """What writes a message to standard output, so that it is out when it returns.

    What it is given may be no message: then it raises a DecodeError, and has written nothing.
    """
    if arguments.as_body:
        return lambda message: _write_octets(body_octets(message)[0], streams)
    if arguments.as_json or not streams.is_terminal():
        return lambda message: _write(message.to_json(), streams)
    return lambda message: _write(_line(message), streams)


def body_octets(message: Message) -> tuple[bytes, str]:
    """A body as octets, and the ending of a file that it suits: text in UTF-8, octets as they are, else JSON.

    Raises:
        DecodeError: what was received is no message.
        MessageError: it is of a message format that is not known here.
    """
    body = message.body
    if isinstance(body, bytes):
        return body, "bin"
    if isinstance(body, str):
        return body.encode("utf-8", "backslashreplace"), "txt"
    return json.dumps(to_json(body), allow_nan=False).encode(), "json"


def quantity(number: int, what: str) -> str:
    """A number of things, as people write it."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _write(line: str, streams: Streams) -> None:
    streams.write(line)
    streams.stdout.flush()


def _write_octets(octets: bytes, streams: Streams) -> None:
    """Octets and the end of a line; a terminal, or a stream of text, gets what is printable of them."""
    output = None if streams.is_terminal() else streams.output()
    if output is None:
        lines = octets.decode("utf-8", "backslashreplace").split("\n")
        _write("\n".join(map(printable, lines)), streams)
    else:
        output.write(octets + b"\n")
        output.flush()


def _line(message: Message) -> str:
    """A message on a line: its body, then whatever else it has, named as the specification does."""
    if message.raw is not None:
        return f"{len(message.raw)} octets of the message format {message.message_format}"
    sections = message.sections
    parts = [_section(section) for section in (sections.header, sections.properties) if section is not None]
    maps = {
        "application-properties": sections.application_properties,
        "message-annotations": sections.message_annotations,
        "delivery-annotations": sections.delivery_annotations,
        "footer": sections.footer,
    }
    shown = [_body(message.body), *parts]
    shown += [f"{name}{describe(entries)}" for name, entries in maps.items() if entries]
    return "  ".join(shown)


def _section(section: Header | Properties) -> str:
    """A section by its name, with the fields that say something."""
    fields = [
        f"{info.name}={describe(getattr(section, info.attribute))}"
        for info in section.FIELDS
        if getattr(section, info.attribute) != info.default
    ]
    return f"{section.XML_NAME}({', '.join(fields)})"


def _body(body: object) -> str:
    if isinstance(body, bytes):
        with suppress(UnicodeDecodeError):
            return f"data {describe(body.decode())}"
    return describe(body)


class Progress:
    """Shows on standard error how far a command has come, if a person looks there: a bar, or a number.

    The bar is that of rich, if it can be imported.
    """

    def __init__(self, streams: Streams, what: str, total: int | None, *, is_wanted: bool = True) -> None:
        """Describe it.

        Args:
            streams: those of the command.
            what: what is counted.
            total: how many there will be; None: nobody knows.
            is_wanted: show nothing, if it is not.
        """
        self._stderr = streams.stderr
        self._what = what
        self._total = total
        self._is_shown = is_wanted and streams.stderr.isatty()
        self._bar: Any = None
        self._looked = time.monotonic()
        self.done = 0

    def __enter__(self) -> Self:
        if self._is_shown:
            with suppress(ImportError):
                self._bar = self._make_bar()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.update(0, completed=self.done)
            self._bar.stop()
        elif self._is_shown:
            self._stderr.write("\r\x1b[K")
            self._stderr.flush()

    def step(self) -> None:
        """One more is done."""
        self.done += 1
        if self._is_shown:
            now = time.monotonic()
            if now - self._looked >= _PAUSE:
                self._looked = now
                self._show()

    def _show(self) -> None:
        if self._bar is not None:
            self._bar.update(0, completed=self.done)
        else:
            of = f" of {self._total:,}" if self._total is not None else ""
            self._stderr.write(f"\r{self.done:,}{of} {self._what}\x1b[K")
            self._stderr.flush()

    def _make_bar(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        bar = Bar(
            TextColumn(self._what),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(file=self._stderr),
            transient=True,
        )
        bar.add_task(self._what, total=self._total)
        bar.start()
        return bar
