"""A partition on its way: each row unsettled until its outcome is known, so many at a time.

A connection that is lost comes back within the task, and what has no outcome goes out again as it was, with
the same message-ids. In a transaction it does not: what was sent is rolled back then, and the task is run
again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from amqpforge.errors import NOBODY, AmqpforgeError, NotAccepted, OperationTimedOut, describe
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import Accepted, Modified, Rejected, Released

from .errors import WriteFailed

if TYPE_CHECKING:
    from amqpforge.blocking import Connection, Sender, Transaction

    from .options import SinkOptions

__all__ = ["Partition", "Row"]

_MOST_OCTETS: Final = 64 << 20
"""Octets of messages whose outcome is not known, but for a single one that is larger."""
_MOST_LINKS: Final = 100
"""Links that are open at a time; peers bound the number of handles of a session, some at 255."""


class Row(NamedTuple):
    """A message on its way.

    Attributes:
        number: the place of its row in the partition, from 0.
        address: where it goes.
        octets: the encoded message.
    """

    number: int
    address: str
    octets: bytes


class Partition:
    """Sends the rows of a partition over a connection.

    Attributes:
        rows: how many messages were accepted at their own address.
        octets: of these.
        dead_lettered: how many went to the dead-letter address instead.
    """

    def __init__(
        self, number: int, connection: Connection, options: SinkOptions, transaction: Transaction | None
    ) -> None:
        """Describe the sending.

        Args:
            number: of the partition, for errors.
            connection: open.
            options: the window, the time-out, the dead-letter address.
            transaction: what all messages belong to; None: each stands for itself.

        Raises:
            WriteFailed: the dead-letter address is refused.
        """
        self.rows = self.octets = self.dead_lettered = 0
        self._number = number
        self._connection = connection
        self._options = options
        self._transaction = transaction
        self._senders: OrderedDict[str, Sender] = OrderedDict()
        self._dead: Sender | None = None
        if options.dead_letter_address is not None:
            self._dead = self._attached(options.dead_letter_address, None)

    def send(self, rows: Iterable[Row]) -> None:
        """Send rows, those of one address behind each other in their order, and wait for all outcomes.

        Raises:
            WriteFailed: a row was not accepted, and there is no dead-letter address; or it is not known what
                became of some.
        """
        for address, run in groupby(rows, key=attrgetter("address")):
            self._send_run(address, run)

    def _send_run(self, address: str, rows: Iterator[Row]) -> None:
        """Send rows of one address: as many at a time as the peer may leave without an outcome."""
        first: Row | None = next(rows, None)
        while first is not None:
            sender = self._sender(address, first.number)
            feed = _Feed(self._number, first, rows, sender.max_message_size)
            self._send_feed(sender, feed)
            first = feed.left

    def _send_feed(self, sender: Sender, feed: _Feed) -> None:
        options = self._options
        # What send_each does, but for its encoding: these are octets that nobody can change.
        batch = sender._batch(options.window, None, self._transaction, options.patience, wants_each=True)
        try:
            for outcome in batch.run(feed.messages()):
                row = feed.told()
                if type(outcome) is Accepted:
                    self.rows += 1
                    self.octets += len(row.octets)
                else:
                    self._refused(row, outcome)
        except AmqpforgeError as error:
            if isinstance(error, WriteFailed):
                raise
            raise self._failed(_reason(error, sender, len(feed.under_way)), feed.oldest) from error

    # --- what is not accepted ------------------------------------------------------------------------------

    def _refused(self, row: Row, outcome: object) -> None:
        """A row was not accepted.

        Raises:
            WriteFailed: there is no other place for it, or that does not take it either.
        """
        if self._dead is None:
            why = f"; {NOBODY}" if isinstance(outcome, Released) else ""
            raise self._failed(f"it was {_told(outcome)} by {row.address!r}{why}", row.number)
        letter = Message.from_octets(row.octets)
        letter.annotations.update(_grounds(row.address, outcome))
        try:
            self._dead.send(letter, transaction=self._transaction, timeout=self._options.patience)
        except NotAccepted as error:
            text = (
                f"it was {_told(outcome)} by {row.address!r}, and {_told(error.outcome)} by the dead-letter "
                f"address {self._options.dead_letter_address!r}"
            )
            raise self._failed(text, row.number) from error
        except AmqpforgeError as error:
            text = f"it was {_told(outcome)} by {row.address!r}, and cannot be dead-lettered: {error}"
            raise self._failed(text, row.number) from error
        self.dead_lettered += 1

    # --- links ---------------------------------------------------------------------------------------------

    def _sender(self, address: str, row: int) -> Sender:
        """The link to an address: one that is open, or a new one."""
        sender = self._senders.pop(address, None)
        if sender is None:
            if len(self._senders) >= _MOST_LINKS:
                _, oldest = self._senders.popitem(last=False)
                oldest.close()
            sender = self._attached(address, row)
        self._senders[address] = sender
        return sender

    def _attached(self, address: str, row: int | None) -> Sender:
        try:
            return self._connection.sender(address)
        except AmqpforgeError as error:
            raise self._failed(f"there is no link to {address!r}: {error}", row) from error

    def _failed(self, what: str, row: int | None) -> WriteFailed:
        return WriteFailed(what, self._number, row)


class _Feed:
    """Rows of one address: handed over as messages, and kept until their outcomes are known.

    It ends when so many octets are under way that no more should be held, and leaves the row that comes next.

    Attributes:
        under_way: rows whose outcome is not known, oldest first.
        oldest: the number of the first of them, or of the one that was told last.
        left: the row that comes next once it has ended; None: there are no more.
    """

    def __init__(self, partition: int, first: Row, rows: Iterator[Row], most: int | None) -> None:
        """``most``: octets that a message may have; None: any number."""
        self.under_way: deque[Row] = deque()
        self.oldest = first.number
        self.left: Row | None = first
        self._partition = partition
        self._rows = rows
        self._most = most
        self._octets = 0

    def messages(self) -> Iterator[Message]:
        """The messages.

        Raises:
            WriteFailed: one is larger than the peer takes.
        """
        while (row := self.left) is not None:
            size = len(row.octets)
            if self._most is not None and size > self._most:
                text = f"its message has {size} octets, more than the {self._most} that {row.address!r} takes"
                raise WriteFailed(text, self._partition, row.number)
            if self.under_way and self._octets + size > _MOST_OCTETS:
                return
            self._octets += size
            self.under_way.append(row)
            yield Message.from_octets(row.octets)
            self.left = next(self._rows, None)

    def told(self) -> Row:
        """The oldest row, now that its outcome is known."""
        row = self.under_way.popleft()
        self._octets -= len(row.octets)
        self.oldest = self.under_way[0].number if self.under_way else row.number
        return row


def _reason(error: AmqpforgeError, sender: Sender, under_way: int) -> str:
    """Why rows have no outcome."""
    if isinstance(error, OperationTimedOut):
        grants = "grants no credit" if not sender.credit else "tells no outcome"
        return f"no outcome for it and the next {max(under_way - 1, 0)} rows: the peer {grants}: {error}"
    return f"it is not known what became of it and the next {max(under_way - 1, 0)} rows: {error}"


def _told(outcome: object) -> str:
    """An outcome, as people read it."""
    if isinstance(outcome, Rejected):
        return "rejected" if outcome.error is None else f"rejected ({describe(outcome.error)})"
    if isinstance(outcome, Modified):
        undeliverable = ", undeliverable here" if outcome.undeliverable_here else ""
        failed = ", delivery failed" if outcome.delivery_failed else ""
        return f"modified{failed}{undeliverable}"
    return "settled without an outcome" if outcome is None else type(outcome).__name__.lower()


def _grounds(address: str, outcome: object) -> dict[str, str]:
    """What a dead letter says about itself."""
    grounds = {"x-opt-spark-address": address, "x-opt-spark-outcome": _told(outcome)}
    if isinstance(outcome, Rejected) and outcome.error is not None:
        grounds["x-opt-spark-condition"] = str(outcome.error.condition)
    return grounds
