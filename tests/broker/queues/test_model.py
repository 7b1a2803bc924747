"""Random programs on a queue, and on a list that does the same in the plainest way."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from amqpforge.broker.errors import LimitExceeded
from amqpforge.broker.message import Message
from amqpforge.broker.queues import ACCEPTED, REJECTED, RELEASED, Entry, Outcome, Queue, level, modified
from amqpforge.broker.settings import Overflow, QueueSettings
from amqpforge.broker.store import Unit
from amqpforge_protocol.amqp_1_0 import MessageEvent
from tests.broker.clock import FakeClock
from tests.broker.queues.peers import FORM, Chosen, Hooked, Taker

MODIFIED = [
    modified(delivery_failed=failed, undeliverable_here=here)
    for failed in (False, True)
    for here in (False, True)
]
OUTCOMES = st.sampled_from([ACCEPTED, REJECTED, RELEASED, *MODIFIED])


@dataclass(eq=False)
class Plain:
    """A message of the model."""

    number: int
    rank: int
    size: int
    expires_at: float | None
    deadline: float | None = None
    holder: Eater | None = None
    count: int = 0
    barred: list[Eater] = field(default_factory=list)
    is_safe: bool = False


@dataclass(eq=False)
class Eater:
    """A consumer of the model."""

    credit: int
    divisor: int
    is_browser: bool
    got: list[int] = field(default_factory=list)

    def takes(self, message: Plain) -> bool:
        if message.number % self.divisor or self in message.barred:
            return False
        return message.number not in self.got if self.is_browser else message.holder is None


class Model:
    """A queue as a list. Whose turn it is, is up to the queue: the model says what is right for whom."""

    def __init__(self, settings: QueueSettings) -> None:
        self.settings = settings
        self.pending: list[Plain] = []
        self.messages: list[Plain] = []
        self.dead: list[int] = []
        self.now = 0.0

    def order(self) -> list[Plain]:
        return sorted(self.messages, key=lambda message: (-message.rank, message.number))

    def has_ended(self, message: Plain) -> bool:
        return message.expires_at is not None and message.expires_at <= self.now

    def next_for(self, eater: Eater) -> list[Plain]:
        """What is right for a consumer: the first message, unless that ends in this very moment."""
        right = []
        for message in self.order():
            if eater.takes(message) and (message.expires_at is None or message.expires_at >= self.now):
                right.append(message)
                if not self.has_ended(message):
                    break
        return right

    def ready(self) -> list[Plain]:
        return [message for message in self.messages if message.holder is None]

    def give_up(self, message: Plain) -> None:
        self.messages.remove(message)
        self.dead.append(message.number)

    def sweep(self) -> None:
        for message in self.ready():
            if self.has_ended(message):
                self.give_up(message)

    def arrive(self) -> None:
        while self.pending and self.pending[0].is_safe:
            self.messages.append(self.pending.pop(0))
            if self.settings.overflow is not Overflow.REJECT:
                while self.is_too_long() and self.ready():
                    self.give_up(self.ready()[0])

    def is_too_long(self) -> bool:
        length, octets = len(self.messages), sum(message.size for message in self.messages)
        most, most_octets = self.settings.max_length, self.settings.max_bytes
        return (most is not None and length > most) or (most_octets is not None and octets > most_octets)

    def has_room(self, size: int) -> bool:
        everything = [*self.messages, *self.pending]
        most, most_octets = self.settings.max_length, self.settings.max_bytes
        return self.settings.overflow is not Overflow.REJECT or (
            (most is None or len(everything) < most)
            and (most_octets is None or sum(one.size for one in everything) + size <= most_octets)
        )

    def settle(self, message: Plain, outcome: Outcome) -> None:
        message.count += outcome.has_failed
        limit = self.settings.delivery_limit
        eater, message.holder, message.deadline = message.holder, None, None
        if outcome is ACCEPTED:
            self.messages.remove(message)
        elif outcome is REJECTED or (outcome.has_failed and limit is not None and message.count >= limit):
            self.give_up(message)
        elif outcome.event is MessageEvent.MODIFIED_UNDELIVERABLE_HERE:
            assert eater is not None
            message.barred.append(eater)


class Programs(RuleBasedStateMachine):
    """What consumers, publishers and time do to a queue."""

    @initialize(
        levels=st.sampled_from([1, 1, 2, 10]),
        limits=st.sampled_from([(None, None), (3, None), (None, 9), (6, 40)]),
        overflow=st.sampled_from(Overflow),
        ttl=st.sampled_from([None, None, 0.0, 5.0]),
        delivery_limit=st.sampled_from([None, 1, 2]),
        lock=st.sampled_from([None, 7.0]),
        board=st.sampled_from([1, 2, 512]),
        steps=st.sampled_from([1, 2, 7, 1000]),
    )
    def begin(
        self,
        levels: int,
        limits: tuple[int | None, int | None],
        overflow: Overflow,
        ttl: float | None,
        delivery_limit: int | None,
        lock: float | None,
        board: int,
        steps: int,
    ) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("amqpforge.broker.queues.shelf._BOARD", board)
        self.patch.setattr("amqpforge.broker.queues.dispatcher._STEPS", steps)
        self.patch.setattr("amqpforge.broker.queues.queue._AT_ONCE", steps)
        self.patch.setattr("amqpforge.broker.queues.seat._LEAST", board)
        self.patch.setattr("amqpforge.broker.queues.seat._SPARE", 0)
        self.patch.setattr("amqpforge.broker.queues.deadlines._SPARE", 0)
        self.settings = QueueSettings(
            durable=True,
            priority_levels=levels,
            max_length=limits[0],
            max_bytes=limits[1],
            overflow=overflow,
            message_ttl=ttl,
            delivery_limit=delivery_limit,
            acquisition_timeout=lock,
            dead_letter_exchange="dead",
        )
        self.clock, self.hooks = FakeClock(0.0), Hooked()
        self.queue = Queue("q", 1, self.settings, self.clock, self.hooks)
        self.model = Model(self.settings)
        self.takers: dict[Taker, Eater] = {}
        self.places: dict[int, Entry] = {}
        self.stored: set[int] = set()
        self.number = 0

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    # --- steps

    @rule(
        count=st.integers(1, 4),
        priority=st.integers(0, 10),
        size=st.integers(1, 12),
        ttl=st.sampled_from([None, None, 3.0, 8.0]),
        is_safe=st.booleans(),
    )
    def put(self, count: int, priority: int, size: int, ttl: float | None, is_safe: bool) -> None:
        for _ in range(count):
            self.number += 1
            end = None if ttl is None else self.model.now + ttl
            message = Message(FORM, b"x" * size, priority=priority, expires_at=end, durable=True)
            message.id = self.number
            if not self.model.has_room(size):
                with pytest.raises(LimitExceeded):
                    self.queue.check(message)
                return
            self.queue.check(message)
            unit = Unit()
            self.places[self.number] = self.queue.reserve(message, unit)
            self.keep(unit)
            ends = [end] if end is not None else []
            if self.settings.message_ttl is not None:
                ends.append(self.model.now + self.settings.message_ttl)
            rank = level(priority, self.settings.priority_levels)
            self.model.pending.append(Plain(self.number, rank, size, min(ends, default=None)))
            if is_safe:
                self.decide(len(self.model.pending) - 1, True)

    @precondition(lambda self: self.model.pending)
    @rule(data=st.data(), is_safe=st.booleans())
    def decide_one(self, data: st.DataObject, is_safe: bool) -> None:
        undecided = [at for at, message in enumerate(self.model.pending) if not message.is_safe]
        if undecided:
            self.decide(data.draw(st.sampled_from(undecided)), is_safe)

    def decide(self, at: int, is_safe: bool) -> None:
        message = self.model.pending[at]
        if is_safe:
            message.is_safe = True
        else:
            del self.model.pending[at]
            self.stored.discard(message.number)
        self.model.arrive()
        (self.queue.confirm if is_safe else self.queue.cancel)(self.places[message.number])
        self.settled_down()

    @precondition(lambda self: len(self.takers) < 5)
    @rule(credit=st.integers(0, 5), divisor=st.sampled_from([1, 1, 2, 3]), is_browser=st.booleans())
    def attach(self, credit: int, divisor: int, is_browser: bool) -> None:
        selector = None if divisor == 1 else Chosen(lambda number: number % divisor == 0)
        eater = Eater(credit, divisor, is_browser)
        taker = Taker.__new__(Taker)
        self.takers[taker] = eater
        taker.__init__(self.queue, credit, selector=selector, is_browser=is_browser)  # type: ignore[misc]
        self.settled_down()

    @precondition(lambda self: self.takers)
    @rule(data=st.data(), credit=st.integers(0, 6))
    def flow(self, data: st.DataObject, credit: int) -> None:
        taker = data.draw(st.sampled_from(list(self.takers)))
        self.takers[taker].credit = credit
        taker.flow(credit)
        self.settled_down()

    @precondition(lambda self: any(taker.entries for taker in self.takers))
    @rule(data=st.data(), outcome=OUTCOMES, is_committed=st.booleans())
    def settle(self, data: st.DataObject, outcome: Outcome, is_committed: bool) -> None:
        taker = data.draw(st.sampled_from([taker for taker in self.takers if taker.entries]))
        at = data.draw(st.integers(0, len(taker.entries) - 1))
        entry, unit = taker.entries[at], Unit()
        settlement = self.queue.note(entry, taker, outcome, unit)
        if taker.is_browser:
            assert settlement is None
            del taker.entries[at]
            return
        assert settlement is not None
        if not is_committed:
            self.hooks.dead = [one for one in self.hooks.dead if one[0] != entry.message.id]
            self.queue.undo(settlement)
            message = self.held(entry.message.id)
            if message.deadline is not None and self.settings.acquisition_timeout is not None:
                message.deadline = self.model.now + self.settings.acquisition_timeout
            return
        del taker.entries[at]
        self.keep(unit)
        self.model.settle(self.held(entry.message.id), outcome)
        self.model.sweep()
        self.queue.apply(settlement)
        self.settled_down()

    @precondition(lambda self: any(taker.entries for taker in self.takers))
    @rule(data=st.data())
    def accept_some(self, data: st.DataObject) -> None:
        taker = data.draw(st.sampled_from([taker for taker in self.takers if taker.entries]))
        some = data.draw(st.lists(st.sampled_from(taker.entries), min_size=1, max_size=3, unique=True))
        if not taker.is_browser:
            for entry in some:
                self.model.settle(self.held(entry.message.id), ACCEPTED)
        taker.entries[:] = [entry for entry in taker.entries if entry not in some]
        self.queue.settle(some, taker, ACCEPTED)
        self.settled_down()

    @precondition(lambda self: self.takers)
    @rule(data=st.data())
    def detach(self, data: st.DataObject) -> None:
        taker = data.draw(st.sampled_from(list(self.takers)))
        self.queue.detach(taker)
        eater = self.takers.pop(taker)
        for message in self.model.messages:
            if eater in message.barred:
                message.barred.remove(eater)
        while taker.entries:
            entry = taker.entries.pop()
            if not taker.is_browser:
                self.model.settle(self.held(entry.message.id), RELEASED)
                self.model.sweep()
            self.queue.settle((entry,), taker, RELEASED)
            self.settled_down()

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0, 7.0]))
    def wait(self, seconds: float) -> None:
        end = self.model.now + seconds
        while True:
            times = [one.expires_at for one in self.model.ready()] + [
                one.deadline for one in self.model.messages
            ]
            due = min((time for time in times if time is not None and time <= end), default=end)
            self.clock.advance(due - self.model.now)
            self.model.now = due
            for taker in self.takers:
                for number in taker.withdrawn:
                    message = self.held(number)
                    assert message.deadline is not None
                    assert message.deadline <= due
                    self.model.settle(message, modified(delivery_failed=True))
                taker.withdrawn.clear()
            self.model.sweep()
            self.settled_down()
            assert not [
                one for one in self.model.messages if one.deadline is not None and one.deadline <= due
            ]
            if due == end:
                return

    @rule()
    def purge(self) -> None:
        ready = self.model.ready()
        assert self.queue.purge() == len(ready)
        self.model.messages = [message for message in self.model.messages if message not in ready]

    # --- what must hold

    def held(self, number: int) -> Plain:
        return next(message for message in self.model.messages if message.number == number)

    def keep(self, unit: Unit) -> None:
        """What a store does with a unit."""
        for operation, (_, number, *_rest) in unit.operations:
            if operation == "enqueue":
                self.stored.add(number)
            elif operation == "dequeue":
                self.stored.remove(number)
        unit.operations.clear()

    def settled_down(self) -> None:
        """Follow what was delivered: each message was the first one for who got it, and nobody waits."""
        self.clock.advance(0)
        news = [
            (taker, number) for taker, eater in self.takers.items() for number in taker.got[len(eater.got) :]
        ]
        while news:
            right = next(
                ((taker, number) for taker, number in news if self.is_next(self.takers[taker], number)), None
            )
            assert right is not None, f"{news} are not next"
            news.remove(right)
            taker, number = right
            eater, message = self.takers[taker], self.held(number)
            eater.got.append(number)
            eater.credit -= 1
            if not eater.is_browser:
                message.holder = eater
                timeout = self.settings.acquisition_timeout
                message.deadline = None if timeout is None else self.model.now + timeout
        self.model.sweep()
        for taker, eater in self.takers.items():
            assert taker.credit == eater.credit
            if eater.credit:
                waiting = [one for one in self.model.next_for(eater) if not self.model.has_ended(one)]
                assert not waiting, f"{waiting} is not delivered"

    def is_next(self, eater: Eater, number: int) -> bool:
        return number in [message.number for message in self.model.next_for(eater)]

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "model"):
            return
        self.keep(self.hooks.noted)
        order = self.model.order()
        assert [entry.message.id for entry in self.queue] == [message.number for message in order]
        assert [entry.delivery_count for entry in self.queue] == [message.count for message in order]
        assert self.queue.ready == len(self.model.ready())
        assert self.queue.unacknowledged == len(order) - len(self.model.ready())
        assert self.queue.bytes == sum(message.size for message in order)
        assert self.stored == {message.number for message in [*order, *self.model.pending]}
        gone = set(range(1, self.number + 1)) - self.stored
        assert len(self.hooks.forgotten) == len(set(self.hooks.forgotten))
        assert set(self.hooks.forgotten) <= gone
        dropped = self.settings.overflow is Overflow.DROP_OLDEST
        dead = [number for number, _, _ in self.hooks.dead]
        assert len(dead) == len(set(dead))
        assert set(dead) <= set(self.model.dead)
        assert dropped or set(dead) == set(self.model.dead)


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        Programs,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=[
                HealthCheck.too_slow,
                HealthCheck.filter_too_much,
                HealthCheck.data_too_large,
            ],
        ),
    )


def test_random_programs() -> None:
    run(150, 40)


@pytest.mark.slow
def test_thousands_of_random_programs() -> None:
    run(5000, 50)
