"""The messages of a virtual host: how they come to queues, leave them, and go on as dead letters."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from .core import Placed, Work, nowhere
from .errors import BrokerError, LimitExceeded, PreconditionFailed, StoreError
from .message import Message
from .queues import Death
from .transaction import Transaction

if TYPE_CHECKING:
    from .clock import Timer
    from .core import Core, Told
    from .exchanges import Wiring
    from .message import Facts
    from .queues import Consumer, Entry, Outcome, Queue
    from .store import Unit

__all__ = ["Published", "Traffic"]

Published: TypeAlias = "Callable[[BrokerError | None, int], None]"
"""Called once it is known what became of a message: why it is nowhere, or how many queues took it."""

_RETRY_SECONDS: Final = 1.0
"""How long a dead letter waits that could not be written."""

_log = logging.getLogger("amqpforge.broker")


class Traffic:
    """What happens to messages. It is what the queues of a virtual host ask, too."""

    def __init__(self, core: Core, wiring: Wiring[Queue], unused: Callable[[Queue], None]) -> None:
        """``unused``: called with queues that nobody has used for so long that they are to go."""
        self.core = core
        self._wiring = wiring
        self._unused = unused
        self._nowhere = nowhere()
        self._retries: set[Timer] = set()

    # --- for heads -----------------------------------------------------------------------------------------

    def publish(self, message: Message, message_id: bytes | None, done: Published) -> None:
        """Publish a message: all queues that it is for take it, or none does.

        Args:
            message: it, with its exchange and key.
            message_id: octets that tell it from others, for queues that drop what repeats one; None: it
                repeats none.
            done: called at once, unless something has to be safe first.
        """
        try:
            queues = self.takers(message)
        except BrokerError as error:
            done(error, 0)
            return
        if not queues:
            done(None, 0)
            return
        is_kept = self._is_kept(message, queues)
        work = self.core.coming() if is_kept else self._nowhere
        placed = self._place(message, message_id, queues, work, is_kept=is_kept)
        repeated = len(placed.entries) < len(queues)
        if is_kept or repeated:  # What it repeats may not be safe yet.
            work = self.core.coming()
            work.placed.append(placed)
            if repeated:
                done = _unless_lost(message_id or b"", queues, done)
            work.told.append(partial(_tell, done, len(queues)))
            return
        placed.show(self.core.bodies)
        done(None, len(queues))

    def settle(
        self,
        queue: Queue,
        entries: Iterable[Entry],
        consumer: Consumer,
        outcome: Outcome,
        told: Told | None = None,
    ) -> None:
        """A consumer says what became of messages that it holds; ``told`` once that is safe."""
        queue.settle(entries, consumer, outcome)
        if told is not None:
            self.core.going().told.append(told)

    def transaction(self) -> Transaction:
        """Work that becomes true as a whole, or not at all."""
        return Transaction(self)

    # --- for transactions and dead letters -----------------------------------------------------------------

    def takers(self, message: Message, *, is_client: bool = True) -> list[Queue]:
        """The queues that a message is for, each of which has room for it.

        Raises:
            BrokerError: it cannot be published there, or one of the queues refuses it.
        """
        limits = self.core.usage.limits
        if is_client:  # A dead letter is somewhat larger than the message that a client has sent.
            if message.size > limits.message_size:
                limits.check_message_size(message.size)
            if not self.core.bodies.has_room(message.size):
                self._refuse_for_memory()
        queues = self._wiring.route(message, is_client=is_client)
        for queue in queues:
            queue.check(message)
        if self.core.is_strict and message.durable:
            self._check_survival(queues)
        return queues

    def _refuse_for_memory(self) -> NoReturn:
        """There is no room for more from those who were told to wait, and go on with the credit they had."""
        raise LimitExceeded(
            f"messages take up {self.core.bodies.used} octets, and the limit memory is "
            f"{self.core.usage.limits.memory}: wait for credit, or consume something"
        )

    def _check_survival(self, queues: list[Queue]) -> None:
        if queues and not self.core.store.is_durable:
            raise PreconditionFailed("the broker keeps messages in memory alone, and the message is durable")
        for queue in queues:
            if not queue.settings.durable:
                raise PreconditionFailed(f"the message is durable, and queue {queue.name!r:.80} is not")

    def place(self, message: Message, message_id: bytes | None, queues: list[Queue], work: Unit) -> Placed:
        """Give a message its places in queues, but for those that it repeats a message in."""
        return self._place(message, message_id, queues, work, is_kept=self._is_kept(message, queues))

    def _is_kept(self, message: Message, queues: list[Queue]) -> bool:
        """Whether a message is to survive the broker."""
        if message.durable and self.core.store.is_durable:
            for queue in queues:
                if queue.settings.durable:
                    return True
        return False

    def _place(
        self, message: Message, message_id: bytes | None, queues: list[Queue], work: Unit, *, is_kept: bool
    ) -> Placed:
        core = self.core
        message.id = core.next_message()
        if message_id is not None:
            queues = [queue for queue in queues if not queue.is_duplicate(message_id)]
        if is_kept and queues:
            work.add(message)
        core.bodies.hold(message)
        entries = [(queue, queue.reserve(message, work, message_id)) for queue in queues]
        if not entries:
            core.bodies.release(message)
        return Placed(message, entries, message_id, is_kept)

    # --- for queues ----------------------------------------------------------------------------------------

    def unit(self) -> Work:
        return self.core.going()

    def facts(self, entry: Entry) -> Facts:
        message = entry.message
        payload = self.core.bodies.payload(message)
        return message.form.facts(message.form.changed(payload, entry.delivery_count, entry.annotations))

    def dead_letter(self, queue: Queue, entry: Entry, reason: Death, unit: Unit) -> None:
        letter = self._dead_letter(queue, entry, reason)
        if letter is None or not isinstance(unit, Work):
            return
        message, queues = letter
        unit.placed.append(self.place(message, None, queues, unit))
        if unit is self.core.going() and entry.message.is_stored:
            # The store has both the message and its letter, or the message still: it must not forget it then.
            entry.message.references += 1
            unit.told.append(partial(self._buried, queue, entry, reason))

    def _dead_letter(self, queue: Queue, entry: Entry, reason: Death) -> tuple[Message, list[Queue]] | None:
        """What a message becomes, and the queues that are to have it; None: it is lost, or for none."""
        dead = entry.message
        key = queue.settings.dead_letter_key
        if reason is not Death.REJECTED and queue.number in dead.died_in:
            return None  # It goes round, and nobody has looked at it meanwhile: it would do so for ever.
        try:
            payload = dead.form.dead_letter(
                self.core.bodies.payload(dead),
                entry.delivery_count,
                entry.annotations,
                queue.name,
                reason.value,
            )
            message = Message(
                dead.form,
                payload,
                exchange=queue.settings.dead_letter_exchange or "",
                key=dead.key if key is None else key,
                durable=dead.durable,
                priority=dead.priority,
                expires_at=None if reason is Death.EXPIRED else dead.expires_at,
            )
            message.died_in = () if reason is Death.REJECTED else (*dead.died_in, queue.number)
            queues = self.takers(message, is_client=False)
        except BrokerError as error:
            _log.warning("a dead letter of the queue %r is lost: %s", queue.name, error)
            return None
        return (message, queues) if queues else None

    def _buried(self, queue: Queue, entry: Entry, reason: Death, error: BrokerError | None) -> None:
        """The store has a dead letter in place of a message; or still has that, and it is tried again."""
        if error is None:
            self._let_go(entry.message)
            return
        clock = self.core.clock
        timer = clock.call_at(
            clock.now() + _RETRY_SECONDS, lambda: self._bury_again(queue, entry, reason, timer)
        )
        self._retries.add(timer)

    def _bury_again(self, queue: Queue, entry: Entry, reason: Death, timer: Timer) -> None:
        self._retries.discard(timer)
        unit = self.core.going()
        self.dead_letter(queue, entry, reason, unit)
        unit.dequeue(queue.number, entry.message.id)
        self._let_go(entry.message)

    def _let_go(self, message: Message) -> None:
        message.references -= 1
        if not message.references:
            self.gone(message)

    def stop(self) -> None:
        """Try nothing again any more: the broker stops. What the store has of it comes back with the next."""
        for timer in self._retries:
            timer.cancel()
        self._retries.clear()

    def gone(self, message: Message) -> None:
        if message.is_stored:
            self.core.going().forget(message.id)
        self.core.bodies.release(message)

    def unused(self, queue: Queue) -> None:
        self._unused(queue)


def _tell(done: Published, count: int, error: BrokerError | None) -> None:
    done(error, 0 if error is not None else count)


def _unless_lost(message_id: bytes, queues: list[Queue], done: Published) -> Published:
    """What tells of a message that repeats one: it is not accepted if that one could not be written."""
    before = [(queue, queue.losses) for queue in queues]

    def tell(error: BrokerError | None, count: int) -> None:
        for queue, losses in before:
            if error is None and queue.losses != losses and not queue.remembers(message_id):
                error = StoreError("the message that this one repeats could not be written: send it again")
        done(error, 0 if error is not None else count)

    return tell
