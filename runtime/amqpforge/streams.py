"""What a command reads from and writes to, so that it can be run inside a test or another program."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TextIO, cast

__all__ = ["Streams"]


@dataclass(slots=True)
class Streams:
    """The standard streams of a command, as text, and how it waits.

    Octets are read from and written to the `buffer` of a text stream; a stream without one (a BytesIO as
    input) is taken to give octets itself.
    """

    stdin: Any = field(default_factory=lambda: sys.stdin)
    stdout: TextIO = field(default_factory=lambda: sys.stdout)
    stderr: TextIO = field(default_factory=lambda: sys.stderr)
    wait: Callable[[float], None] = time.sleep

    def input(self) -> BinaryIO:
        """Standard input as octets."""
        if isinstance(self.stdin, io.StringIO):
            return io.BytesIO(self.stdin.read().encode())
        return cast("BinaryIO", getattr(self.stdin, "buffer", self.stdin))

    def output(self) -> BinaryIO | None:
        """Standard output for octets, with what was written as text before; None if it takes text only."""
        buffer = getattr(self.stdout, "buffer", None)
        if buffer is not None:
            self.stdout.flush()
        return cast("BinaryIO | None", buffer)

    def write(self, line: str) -> None:
        """A line to standard output; what its encoding lacks is written as an escape."""
        try:
            self.stdout.write(line + "\n")
        except UnicodeEncodeError:
            encoding = self.stdout.encoding
            self.stdout.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")

    def complain(self, message: str) -> None:
        """A line to standard error, in the name of the program."""
        escaped = message.encode("utf-8", "backslashreplace").decode("utf-8")
        self.stderr.write(f"amqpforge: {escaped}\n")

    def is_terminal(self) -> bool:
        """Whether standard output is looked at by a person."""
        return self.stdout.isatty()
