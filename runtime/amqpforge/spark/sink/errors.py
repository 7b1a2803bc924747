"""What can go wrong with writing a table to nodes."""

from __future__ import annotations

from amqpforge.errors import AmqpforgeError, LocalError

__all__ = ["ColumnError", "WriteFailed"]


class ColumnError(LocalError):
    """A table cannot be written as it is; nothing was sent.

    Attributes:
        problems: one a column, each with its name, its type, and what is possible.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("the table cannot be written to AMQP: " + "; ".join(problems))
        self.problems = problems

    def __reduce__(self) -> tuple[type[ColumnError], tuple[list[str]]]:
        return type(self), (self.problems,)


class WriteFailed(AmqpforgeError):
    """Rows of a partition were not written, or it is not known whether they were.

    Attributes:
        partition: which one.
        row: the place of the first such row in it, from 0; None: it is about the partition as a whole.
    """

    def __init__(self, what: str, partition: int, row: int | None = None) -> None:
        place = f"partition {partition}" if row is None else f"partition {partition}, row {row}"
        super().__init__(f"{place}: {what}")
        self.what = what
        self.partition = partition
        self.row = row

    def __reduce__(self) -> tuple[type[WriteFailed], tuple[str, int, int | None]]:
        return type(self), (self.what, self.partition, self.row)
