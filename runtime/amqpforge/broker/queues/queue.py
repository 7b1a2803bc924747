"""A server queue: keeps messages in their order until consumers have had them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from amqpforge.broker.errors import LimitExceeded, NotFound, PreconditionFailed, ResourceLocked
from amqpforge.broker.settings import Overflow
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import MessageEvent, MessageState

from .counters import Counters
from .deadlines import Expiry, Locks
from .dispatcher import Dispatcher
from .duplicates import Duplicates
from .entry import Entry
from .hooks import Death
from .lifetime import Lifetime
from .outcome import Outcome
from .pending import Pending
from .settlement import Settlement
from .stock import Stock

if TYPE_CHECKING:
    from amqpforge.broker.clock import Clock
    from amqpforge.broker.message import Message
    from amqpforge.broker.settings import QueueSettings
    from amqpforge.broker.store import Unit

    from .consumer import Consumer
    from .hooks import Hooks

__all__ = ["Queue"]

# To look up a member of an enumeration takes as long as several calls: here are those that all messages need.
_ACCEPTED: Final = MessageEvent.ACCEPTED
_ACQUIRE: Final = MessageEvent.ACQUIRE
_ARCHIVED: Final = MessageState.ARCHIVED
_REJECT: Final = Overflow.REJECT

_AT_ONCE: Final = 1000
"""Messages that are given up, or taken back, in one go; the rest follows a moment later."""

_HELD_TOO_LONG: Final = Outcome(MessageEvent.LOCK_EXPIRED, has_failed=True)


class Queue:
    """One queue. It does no I/O: what has to survive is noted in units, which the broker commits.

    A message comes in three steps, as it may be for several queues and has to be safe before it is seen:
    :meth:`check` in each queue, :meth:`reserve` in each queue, and :meth:`confirm` once the unit is
    committed. Messages are seen in the order in which they were reserved, whatever is confirmed first.

    Choices that the specification leaves open:

    - A consumer with a selector has it looked at once for each message, and again when that comes back.
    - A browser gets each message once, in the order of delivery, whether somebody has acquired it or not.
    - A message that expires while it is held stays with its holder, and goes when it is given back.
    - A message that may live for no time at all is delivered if a consumer takes it at once.
    - The length of the queue counts messages that are held.

    Attributes:
        name: its name in its virtual host.
        number: what names it in the store.
        settings: what it is like.
        owner: the connection that may use it, if it is exclusive.
        counters: what has happened on it.
        bytes: octets of the messages that are ready or held.
        is_deleted: whether it is no more; nothing happens on it then.
    """

    def __init__(
        self,
        name: str,
        number: int,
        settings: QueueSettings,
        clock: Clock,
        hooks: Hooks,
        owner: object = None,
    ) -> None:
        self.name = name
        self.number = number
        self.settings = settings
        self.owner = owner
        self.counters = Counters()
        self.bytes = 0
        self.is_deleted = False
        self._clock = clock
        self._hooks = hooks
        self._stock = Stock(settings.priority_levels)
        self._dispatcher = Dispatcher(self._stock, clock, hooks.facts, self._give)
        self._expiry = Expiry(clock, self._sweep, self._stock.__contains__)
        self._locks = Locks(clock, settings.acquisition_timeout, self._take_back_what_is_due)
        self._lifetime = Lifetime(clock, settings, self._unused)
        self._duplicates = Duplicates(number, settings.duplicate_window)
        self._pending = Pending()
        self._settling: set[Entry] = set()
        self._last_id = 0
        self._is_trimming = False

    def __repr__(self) -> str:
        return f"<Queue {self.name!r:.80}, {self.ready} ready, {self.unacknowledged} unacknowledged>"

    # --- figures

    @property
    def ready(self) -> int:
        """How many messages can be had."""
        return len(self._stock.ready)

    @property
    def unacknowledged(self) -> int:
        """How many messages consumers hold."""
        return len(self._stock.held)

    def __iter__(self) -> Iterator[Entry]:
        """All entries, ready or held, in the order of delivery; the queue may be changed meanwhile."""
        return iter(self._stock)

    def following(self, entry: Entry) -> Iterator[Message]:
        """The messages that are ready behind an entry: what is likely to be wanted next."""
        return (one.message for one in self._stock.following(entry))

    @property
    def consumer_count(self) -> int:
        """How many consumers are attached."""
        return len(self._dispatcher)

    @property
    def consumers(self) -> Iterator[Consumer]:
        """The consumers that are attached."""
        return iter(self._dispatcher)

    # --- messages come

    def check(self, message: Message) -> None:
        """Whether there is room for one more message.

        Raises:
            LimitExceeded: there is none, and the queue refuses what it has no room for.
            NotFound: the queue was deleted.
        """
        self._check_existence()
        if self.settings.overflow is not _REJECT:
            return
        most = self.settings.max_length
        if most is not None and len(self._stock) + self._pending.count >= most:
            raise LimitExceeded(
                f"queue {self.name!r} holds {most} messages at most, and is full: consume from it, or "
                "declare it with a greater max_length or another overflow"
            )
        most = self.settings.max_bytes
        if most is not None and self.bytes + self._pending.bytes + message.size > most:
            raise LimitExceeded(
                f"queue {self.name!r} holds {most} octets at most, and has no room for {message.size} more: "
                "consume from it, or declare it with a greater max_bytes or another overflow"
            )

    def is_duplicate(self, message_id: bytes) -> bool:
        """Whether a message repeats a message-id, and is not to be reserved; it is counted.

        The first one may not be safe yet: the second is not to be accepted before all that was committed is.
        """
        if message_id not in self._duplicates:
            return False
        self.counters.duplicates += 1
        return True

    def remembers(self, message_id: bytes) -> bool:
        """Whether a message with this message-id was reserved, as far as the window goes."""
        return message_id in self._duplicates

    @property
    def losses(self) -> int:
        """How many messages with message-ids were cancelled."""
        return self._duplicates.forgotten

    def reserve(self, message: Message, unit: Unit, message_id: bytes | None = None) -> Entry:
        """Give a message its place; nobody sees it before :meth:`confirm`.

        Args:
            message: it has its id, which is above that of every other message that was reserved here.
            unit: gets what the store has to know, if queue and message are durable.
            message_id: octets that tell it from others for the detection of duplicates.

        Raises:
            LocalError: the id is not above the last one.
            NotFound: the queue was deleted.
        """
        self._check_existence()
        if message.id <= self._last_id:
            raise LocalError(
                f"message {message.id} comes to queue {self.name!r} after message {self._last_id}"
            )
        self._last_id = message.id
        expires_at = message.expires_at
        if self.settings.message_ttl is not None:
            end = self._clock.now() + self.settings.message_ttl
            expires_at = end if expires_at is None else min(expires_at, end)
        entry = Entry(message, expires_at)
        message.references += 1
        is_stored = self._is_stored(message)
        if is_stored:
            unit.enqueue(self.number, message.id, expires_at, 0)
        if message_id is not None:
            self._duplicates.remember(message_id, unit if is_stored else None)
        self._pending.add(entry)
        return entry

    def confirm(self, entry: Entry) -> None:
        """A message is safe, and can be seen once all before it can."""
        self._decide(entry, True)

    def cancel(self, entry: Entry, message_id: bytes | None = None) -> None:
        """A message that was reserved, with this ``message_id``, is not to be: its unit was not committed."""
        if self.is_deleted:
            return
        if message_id is not None:
            self._duplicates.forget(message_id)
        entry.message.references -= 1
        self._decide(entry, False)

    def _decide(self, entry: Entry, is_safe: bool) -> None:
        if not self.is_deleted:
            for first in self._pending.decide(entry, is_safe):
                self._arrive(first)
            self._dispatcher.run()

    def _arrive(self, entry: Entry) -> None:
        key = self._stock.key(entry.message)
        self._stock.ready.add(key, entry)
        self.bytes += entry.message.size
        self.counters.published += 1
        self._dispatcher.came()
        if entry.expires_at is not None:
            self._expiry.add(entry.expires_at, key)
        if self.settings.overflow is not _REJECT:
            self._trim()

    def _trim(self) -> None:
        """Give up the oldest messages until the queue is no longer than it may be."""
        if self._is_trimming:
            return
        self._is_trimming = True
        # What is given up may come back as a dead letter: that is left to the next message.
        for _ in range(len(self._stock.ready)):
            oldest = self._stock.oldest() if self._is_too_long() else None
            if oldest is None:
                break
            self._give_up(oldest, Death.MAX_LENGTH)
        self._is_trimming = False

    def _is_too_long(self) -> bool:
        most, most_bytes = self.settings.max_length, self.settings.max_bytes
        return (
            most is not None and len(self._stock) > most or most_bytes is not None and self.bytes > most_bytes
        )

    def restore(self, entries: Sequence[Entry], remembered: Iterable[tuple[bytes, int]] = ()) -> None:
        """Fill a queue that is new in this process with what a store has kept; nobody is told.

        Args:
            entries: in the order of the ids of their messages, whose references this counts. Whether somebody
                had acquired one is not known: ``was_acquired`` has to be set.
            remembered: message-ids and their numbers, in the order of these.
        """
        octets = 0
        for entry in entries:
            message = entry.message
            message.references += 1
            octets += message.size
        self.bytes = octets
        self._stock.restore(list(entries))
        if entries:
            self._last_id = entries[-1].message.id
        self._expiry.restore(
            (one.expires_at, self._stock.key(one.message)) for one in entries if one.expires_at is not None
        )
        self._duplicates.restore(remembered)

    # --- consumers

    def check_owner(self, owner: object) -> None:
        """Whether a connection may use the queue.

        Raises:
            ResourceLocked: it is another connection's alone.
        """
        if self.settings.exclusive and owner is not self.owner:
            raise ResourceLocked(
                f"queue {self.name!r} is exclusive to another connection: use the one that has declared it"
            )

    def attach(self, consumer: Consumer) -> None:
        """A consumer comes; it gets messages after :meth:`wake`.

        Raises:
            ResourceLocked: the queue is private and has its consumer, or is exclusive to another connection.
            NotFound: the queue was deleted.
            LocalError: the consumer is attached already.
        """
        self._check_existence()
        self.check_owner(consumer.owner)
        if consumer in self._dispatcher:
            raise LocalError(f"consumer {consumer.name!r} is attached to queue {self.name!r} already")
        if self.settings.private and self.consumer_count:
            raise ResourceLocked(
                f"queue {self.name!r} is private and has its consumer: wait until that has left"
            )
        self._dispatcher.attach(consumer)
        self._lifetime.consumed()

    def detach(self, consumer: Consumer) -> None:
        """A consumer goes; what it holds it still holds, until that is settled."""
        if consumer in self._dispatcher:
            self._dispatcher.detach(consumer)
            if not self.consumer_count:
                self._lifetime.idle()

    def wake(self, consumer: Consumer) -> None:
        """A consumer has credit, after it had none or has just come."""
        self._dispatcher.wake(consumer)

    def touch(self) -> None:
        """The queue was declared again: the time in which it has to be used counts from now."""
        if not self.consumer_count and not self.is_deleted:
            self._lifetime.idle()

    def _unused(self) -> None:
        self._hooks.unused(self)

    def _give(self, entry: Entry, consumer: Consumer) -> bool:
        """Make a consumer the holder of an entry that is ready; returns False if the entry has died."""
        if entry.expires_at is not None and entry.expires_at < self._clock.now():
            self._give_up(entry, Death.EXPIRED)
            return False
        entry.move(_ACQUIRE)
        self._stock.acquire(entry)
        entry.holder = consumer
        self._locks.add(entry)
        self.counters.delivered += 1
        self.counters.redelivered += entry.was_acquired
        return True

    # --- settlement

    def settle(self, entries: Iterable[Entry], consumer: Consumer, outcome: Outcome) -> None:
        """A consumer settles what it holds, one after the other, all with one outcome, now. Nothing happens
        to what it does not hold, or only browses.

        What the store has to know is noted in the unit of the hooks. A crash before that is committed undoes
        it: the message is delivered again.
        """
        for entry in entries:
            if self.is_held(entry, consumer):
                self._locks.discard(entry)
                event, death = self._judge(entry, outcome, self._hooks.unit())
                self._take_effect(entry, event, death)

    def hand_over(self, entry: Entry, consumer: Consumer, other: Consumer) -> None:
        """What one consumer holds another one holds from now on, for as long as it likes.

        Raises:
            PreconditionFailed: the consumer does not hold it, or has settled it.
        """
        if not self.is_held(entry, consumer):
            raise PreconditionFailed(f"a message of queue {self.name!r:.80} was taken back: roll back")
        self._locks.discard(entry)
        entry.holder = other

    def is_held(self, entry: Entry, consumer: Consumer) -> bool:
        """Whether a consumer holds a message, and has not settled it."""
        return entry.holder is consumer and entry not in self._settling

    def hold(self, id: int, consumer: Consumer) -> Entry | None:
        """Have a consumer hold the message with an id, as it did before a restart; None: it is not there."""
        entry = next((one for one in self._stock if one.message.id == id), None)
        if entry is not None:
            entry.move(_ACQUIRE)
            self._stock.acquire(entry)
            entry.holder = consumer
        return entry

    def note(self, entry: Entry, consumer: Consumer, outcome: Outcome, unit: Unit) -> Settlement | None:
        """Note an outcome in a unit, with which it becomes true: as part of a transaction.

        The entry stays with its holder, and cannot be settled otherwise, until :meth:`apply` after the commit
        or :meth:`undo` if it has failed. Returns None, and notes nothing, if the consumer does not hold it.
        """
        if not self.is_held(entry, consumer):
            return None
        self._settling.add(entry)
        self._locks.discard(entry)
        before = entry.delivery_count, entry.annotations
        event, death = self._judge(entry, outcome, unit)
        return Settlement(self, entry, event, death, *before)

    def _judge(self, entry: Entry, outcome: Outcome, unit: Unit) -> tuple[MessageEvent, Death | None]:
        """Note in a unit what an outcome comes to; returns what the state of the entry will do, and why the
        entry will leave: None if it will not, or because it was accepted.
        """
        event = outcome.event
        if event is _ACCEPTED:
            self._note_leaving(entry, None, unit)
            return event, None
        if outcome.has_failed:
            entry.delivery_count += 1
        if outcome.annotations is not None:
            entry.annotations = outcome.annotations
        limit = self.settings.delivery_limit
        if event is MessageEvent.REJECTED:
            self._note_leaving(entry, Death.REJECTED, unit)
            return event, Death.REJECTED
        if outcome.has_failed and limit is not None and entry.delivery_count >= limit:
            self._note_leaving(entry, Death.DELIVERY_LIMIT, unit)
            return MessageEvent.EXPIRE, Death.DELIVERY_LIMIT
        if (outcome.has_failed or outcome.annotations is not None) and self._is_stored(entry.message):
            unit.change(self.number, entry.message.id, entry.delivery_count, entry.annotations)
        return event, None

    def apply(self, settlement: Settlement) -> None:
        """What was noted is committed: the outcome takes effect."""
        self._settling.discard(settlement.entry)
        self._take_effect(settlement.entry, settlement.event, settlement.death)

    def _take_effect(self, entry: Entry, event: MessageEvent, death: Death | None) -> None:
        if entry.state is _ARCHIVED:
            return  # with the queue, which was deleted meanwhile
        if death is None and event is not _ACCEPTED:
            self._put_back(entry, event)
            return
        self._stock.held.remove(self._stock.key(entry.message))
        self._leave(entry, event)
        if death is None:
            self.counters.accepted += 1
        else:
            self._count(death)
        self._let_go(entry.message)

    def undo(self, settlement: Settlement) -> None:
        """The unit was not committed: the consumer holds the entry as before."""
        entry = settlement.entry
        self._settling.discard(entry)
        entry.delivery_count, entry.annotations = settlement.delivery_count, settlement.annotations
        if entry.state is MessageState.ACQUIRED:
            self._locks.add(entry)

    def _put_back(self, entry: Entry, event: MessageEvent) -> None:
        holder = entry.holder
        entry.move(event)
        entry.holder = None
        entry.was_acquired = True
        self._stock.give_back(entry)
        if event is MessageEvent.MODIFIED_UNDELIVERABLE_HERE and holder is not None:
            self._dispatcher.bar(entry, holder)
        if entry.expires_at is not None and entry.expires_at <= self._clock.now():
            self._give_up(entry, Death.EXPIRED)
            return
        self._dispatcher.came_back(self._stock.key(entry.message))
        self._dispatcher.run()

    def _take_back_what_is_due(self) -> None:
        now = self._clock.now()
        for _ in range(_AT_ONCE):
            entry = self._locks.pop(now)
            if entry is None or entry.holder is None:
                break
            consumer = entry.holder
            settlement = self.note(entry, consumer, _HELD_TOO_LONG, self._hooks.unit())
            consumer.withdraw(entry)
            if settlement is not None:
                self.apply(settlement)
        self._locks.arm()

    # --- messages go

    def _sweep(self) -> None:
        """Give up what has expired and is not held."""
        now = self._clock.now()
        for _ in range(_AT_ONCE):
            key = self._expiry.pop(now)
            if key is None:
                break
            entry = self._stock.ready.get(key)
            if entry is not None:
                self._give_up(entry, Death.EXPIRED)
        self._expiry.arm()

    def _give_up(self, entry: Entry, death: Death) -> None:
        """An entry that is ready leaves the queue."""
        # It is not to be seen any more while its dead letter is published, perhaps to this very queue.
        self._stock.ready.remove(self._stock.key(entry.message))
        self._leave(entry, MessageEvent.EXPIRE)
        self._count(death)
        self._note_leaving(entry, death, self._hooks.unit())
        self._let_go(entry.message)

    def _note_leaving(self, entry: Entry, death: Death | None, unit: Unit) -> None:
        """What the store has to know of an entry that leaves; ``death`` says why, None: it was accepted."""
        if death is not None and self._is_dead_letter(death):
            self._hooks.dead_letter(self, entry, death, unit)
        if self._is_stored(entry.message):
            unit.dequeue(self.number, entry.message.id)

    def _count(self, death: Death) -> None:
        self.counters.expired += death is Death.EXPIRED
        self.counters.rejected += death is Death.REJECTED
        if self._is_dead_letter(death):
            self.counters.dead_lettered += 1
        else:
            self.counters.dropped += 1

    def _is_dead_letter(self, death: Death) -> bool:
        """Whether what dies of this goes to an exchange."""
        is_dropped = death is Death.MAX_LENGTH and self.settings.overflow is Overflow.DROP_OLDEST
        return self.settings.dead_letter_exchange is not None and not is_dropped

    def _leave(self, entry: Entry, event: MessageEvent) -> None:
        """An entry that has left its shelf is archived."""
        entry.move(event)
        entry.holder = None
        self.bytes -= entry.message.size
        if entry.expires_at is not None:
            self._expiry.forget()
        if entry.barred is not None:
            self._dispatcher.left(entry)

    def _let_go(self, message: Message) -> None:
        message.references -= 1
        if not message.references:
            self._hooks.gone(message)

    def purge(self) -> int:
        """Drop all messages that nobody holds; returns how many these were."""
        unit = self._hooks.unit()
        count = len(self._stock.ready)
        for entry in self._stock.ready.clear():
            self._leave(entry, MessageEvent.EXPIRE)
            self._note_leaving(entry, None, unit)
            self._let_go(entry.message)
        self.counters.purged += count
        return count

    def delete(self, unit: Unit) -> int:
        """The queue is no more, and ``unit`` notes it; returns how many messages it had.

        Its consumers are told that what they hold is withdrawn, and that they are cancelled.
        """
        if self.is_deleted:
            return 0
        self.is_deleted = True
        consumers = list(self._dispatcher)
        self.stop()
        if self.settings.durable:
            unit.drop_queue(self.number)
        count = len(self._stock)
        for entry in self._stock.held.clear():
            holder = entry.holder
            self._leave(entry, MessageEvent.EXPIRE)
            self._let_go(entry.message)
            if holder is not None:
                holder.withdraw(entry)
        for entry in self._stock.ready.clear():
            self._leave(entry, MessageEvent.EXPIRE)
            self._let_go(entry.message)
        for entry in self._pending.clear():
            entry.move(MessageEvent.EXPIRE)
            self._let_go(entry.message)
        for consumer in consumers:
            consumer.cancel()
        return count

    def stop(self) -> None:
        """Serve nobody and do nothing at set times any more: the broker stops."""
        self._dispatcher.stop()
        self._expiry.stop()
        self._locks.stop()
        self._lifetime.stop()

    def _is_stored(self, message: Message) -> bool:
        return self.settings.durable and message.durable

    def _check_existence(self) -> None:
        if self.is_deleted:
            raise NotFound(f"queue {self.name!r} was deleted: declare it again")
