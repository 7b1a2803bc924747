"""A broker is killed at any moment: what it has accepted is there after a restart, once and in order."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import amqpforge
from amqpforge import AmqpforgeError, Connection, Delivery, Message
from amqpforge.client import TransactionFailed
from amqpforge_protocol.amqp_1_0 import Accepted, ReceiverSettleMode, Rejected, SenderSettleMode

from .child import Child, children
from .ledger import PRODUCERS, Change, Ledger
from .tracing import strace

ROUNDS = int(os.environ.get("AMQPFORGE_CHAOS_ROUNDS", "10"))
QUEUES: dict[str, dict[str, Any]] = {
    "a": {"durable": True},
    "b": {"durable": True},
    "c": {"durable": True, "dead_letter_exchange": "", "dead_letter_key": "d"},
    "d": {"durable": True},
    "small": {"durable": True, "max_length": 5},
}
SETUP: dict[str, Any] = {
    "queues": QUEUES,
    "exchanges": {"chaos": {"type": "topic", "durable": True}},
    "bindings": [["chaos", "to.*", "a"], ["chaos", "#", "b"], ["chaos", "full.#", "small"]],
}
TARGETS = {
    1: ("/exchanges/chaos/to.both", ("a", "b")),
    2: ("/queues/c", ("c",)),
    3: ("/exchanges/chaos/full.up", ("b", "small")),
}
TRANSACTOR = 4
WINDOW = 60
MOST = 2000
SETTLES_LAST = ReceiverSettleMode.SECOND  # The broker has to say that an outcome is safe.


class Clients:
    """Clients that use a broker until it dies, and note what it says.

    Attributes:
        ledger: where they note it.
        answers: how often the broker has said what became of something.
    """

    def __init__(self, url: str, ledger: Ledger, numbers: Callable[[], int], chance: random.Random) -> None:
        self.ledger = ledger
        self.answers = 0
        self._url = url
        self._numbers = numbers
        self._chance = chance
        self._told: list[tuple[Delivery, Change]] = []
        self._at: tuple[int, Callable[[], None]] | None = None

    def at(self, answers: int, function: Callable[[], None]) -> None:
        """Call a function once there are so many answers."""
        self._at = answers, function

    async def work(self) -> None:
        """Publish and consume until the broker dies."""
        tasks: list[Coroutine[Any, Any, None]] = [
            *(self._using(partial(self._publish, producer)) for producer in TARGETS),
            self._using(self._consume),
            self._using(self._reject),
            self._using(self._transact),
        ]
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        for delivery, change in self._told:
            if delivery._delivery.remote_settled:
                self.ledger.decide(change, True)

    async def _using(self, use: Callable[[Connection], Coroutine[Any, Any, None]]) -> None:
        with suppress(AmqpforgeError):
            connection = await amqpforge.connect(self._url, reconnect=None)
            try:
                await use(connection)
            finally:
                await connection.close()

    def _answered(self) -> None:
        self.answers += 1
        if self._at is not None and self.answers == self._at[0]:
            self._at[1]()

    def _message(self, producer: int) -> tuple[int, Message]:
        """A new message, and its number."""
        number = self._numbers() * PRODUCERS + producer
        size = self._chance.choice((0, 100, 1000, 3000, 20_000))
        return number, Message(b"%d " % number + bytes(size), durable=True)

    async def _publish(self, producer: int, connection: Connection) -> None:
        """Publish as fast as answers come, many at a time."""
        address, queues = TARGETS[producer]
        room = asyncio.Semaphore(WINDOW)
        async with connection.sender(address) as sender:
            while True:
                await room.acquire()
                number, message = self._message(producer)
                outcome = sender.post(message)
                change = self.ledger.begin({(queue, number): True for queue in queues})

                def answered(outcome: asyncio.Future[Any], change: Change = change) -> None:
                    room.release()
                    if outcome.exception() is None:
                        assert isinstance(outcome.result(), Accepted | Rejected)
                        self.ledger.decide(change, isinstance(outcome.result(), Accepted))
                        self._answered()

                outcome.add_done_callback(answered)
                if self._chance.random() < 0.2:
                    await asyncio.sleep(0)

    async def _consume(self, connection: Connection) -> None:
        """Accept what is in a."""
        async with connection.receiver(
            "a", credit=20, auto_accept=False, rcv_settle_mode=SETTLES_LAST
        ) as receiver:
            async for delivery in receiver:
                place = "a", self._seen("a", delivery)
                delivery.accept()
                self._told.append((delivery, self.ledger.begin({place: False})))

    async def _reject(self, connection: Connection) -> None:
        """Accept some of what is in c, give some back, and reject some, which go to d."""
        async with connection.receiver(
            "c", credit=20, auto_accept=False, rcv_settle_mode=SETTLES_LAST
        ) as receiver:
            async for delivery in receiver:
                number = self._seen("c", delivery)
                what = self._chance.random()
                if what < 0.4:
                    delivery.accept()
                    self._told.append((delivery, self.ledger.begin({("c", number): False})))
                elif what < 0.8:
                    delivery.reject("amqp:not-allowed")
                    places = {("c", number): False, ("d", number): True}
                    self._told.append((delivery, self.ledger.begin(places)))
                elif what < 0.9:
                    delivery.modify(delivery_failed=True)
                else:
                    delivery.release()

    async def _transact(self, connection: Connection) -> None:
        """Move messages from a to b and c, each in a transaction, some of which are rolled back."""
        async with (
            connection.receiver("a", credit=0, auto_accept=False) as receiver,
            connection.sender("b") as one,
            connection.sender("c") as other,
        ):
            while True:
                delivery = await receiver.receive(timeout=None)
                places = {("a", self._seen("a", delivery)): False}
                transaction = connection.transaction()
                await transaction.__aenter__()
                for queue, sender in (("b", one), ("c", other)):
                    number, message = self._message(TRANSACTOR)
                    places[queue, number] = True
                    await sender.send(message, transaction=transaction)
                delivery.accept(transaction=transaction)
                if self._chance.random() < 0.2:
                    await transaction.rollback()
                    delivery.release()
                    continue
                change = self.ledger.begin(places)
                try:
                    await transaction.commit()
                except TransactionFailed:
                    self.ledger.decide(change, False)
                    raise
                self.ledger.decide(change, True)
                self._answered()

    def _seen(self, queue: str, delivery: Delivery) -> int:
        number = number_of(delivery)
        self.ledger.saw((queue, number))
        return number


def number_of(delivery: Delivery) -> int:
    """The number of a message."""
    body = delivery.message.body
    assert isinstance(body, bytes)
    return int(body.split()[0])


async def content(url: str) -> dict[str, list[int]]:
    """The numbers of the messages in each queue, in order."""
    found: dict[str, list[int]] = {}
    async with amqpforge.connect(url, reconnect=None) as connection:
        for queue in QUEUES:
            async with connection.receiver(
                queue, mode="copy", credit=10_000, snd_settle_mode=SenderSettleMode.SETTLED
            ) as receiver:
                waiting = await receiver.drain()
                found[queue] = [number_of(await receiver.receive()) for _ in range(waiting)]
    return found


async def empty(url: str, ledger: Ledger, found: dict[str, list[int]]) -> None:
    """Take all messages of long queues: they come in the same order, and are gone then."""
    async with amqpforge.connect(url, reconnect=None) as connection:
        for queue, numbers in found.items():
            if len(numbers) > MOST:
                async with connection.receiver(queue, rcv_settle_mode=SETTLES_LAST) as receiver:
                    taken = [await receiver.receive() for _ in numbers]
                    assert [number_of(delivery) for delivery in taken] == numbers
                    while not all(delivery._delivery.remote_settled for delivery in taken):
                        await asyncio.sleep(0)
                ledger.true -= {(queue, number) for number in numbers}


class Chaos:
    """Rounds with one store: start a broker on it, look at what it has, use it, kill it."""

    def __init__(self, store: Path, seed: int) -> None:
        self.store = store
        self.ledger = Ledger(unordered=["d"])
        self.chance = random.Random(seed)
        self.answers = 0
        self._numbers = count(1).__next__

    def start(self, **options: Any) -> Child:
        return Child(self.store, **SETUP, **options)

    def round(self, child: Child, *, kill_after: int | None = None) -> None:
        """Look at what a broker has, and use it until it is dead."""
        assert child.url is not None
        asyncio.run(self._use(child.url, child, kill_after))
        assert child.wait() == -signal.SIGKILL

    def look(self, child: Child) -> None:
        """Look at what a broker has, and kill it."""
        assert child.url is not None
        self.ledger.check(asyncio.run(content(child.url)))
        child.end()

    async def _use(self, url: str, child: Child, kill_after: int | None) -> None:
        found = await content(url)
        self.ledger.check(found)
        if kill_after is not None:  # It does not die by itself in the middle of that.
            await empty(url, self.ledger, found)
        clients = Clients(url, self.ledger, self._numbers, self.chance)
        if kill_after is not None:
            clients.at(kill_after, child.kill)
        await clients.work()
        self.answers += clients.answers


@pytest.mark.spec("M-HEADER-003", "A-TX-006")
def test_killed_at_any_moment_it_has_what_it_accepted(tmp_path: Path) -> None:
    chaos = Chaos(tmp_path / "broker.db", seed=ROUNDS)
    chance = chaos.chance
    with children() as started:
        for number in range(ROUNDS):
            pages = chance.choice((1, 20, 2000))
            if number % 5 == 4:
                dying = chaos.start(die="recovery", count=chance.randrange(1, 40))
                started.append(dying)
                assert dying.url is None or dying.ask("lengths")
                dying.end()
            if number % 2:
                point = chance.choice(("before commit", "after commit"))
                child = chaos.start(checkpoint_pages=pages, die=point, count=chance.randrange(10, 60))
                kill_after = None
            else:
                child = chaos.start(checkpoint_pages=pages)
                kill_after = chance.randrange(1, 500)
            started.append(child)
            chaos.round(child, kill_after=kill_after)
        last = chaos.start()
        started.append(last)
        chaos.look(last)
    assert chaos.answers > 20 * ROUNDS
    assert min(chaos.ledger.doubts) > 0


@pytest.mark.parametrize("point", ["before commit", "after commit"])
def test_killed_at_the_commit_everything_is_there_or_nothing(tmp_path: Path, point: str) -> None:
    """With one message under way: accepted it is there, and so it is if only the answer was lost."""

    async def publish(url: str) -> list[int]:
        accepted: list[int] = []
        with suppress(AmqpforgeError):
            async with (
                amqpforge.connect(url, reconnect=None) as connection,
                connection.sender("/exchanges/chaos/to.both") as sender,
            ):
                for number in range(PRODUCERS, 100 * PRODUCERS, PRODUCERS):
                    await sender.send(Message(b"%d" % number, durable=True))
                    accepted.append(number)
        return accepted

    store = tmp_path / "broker.db"
    with children() as started:
        started.append(Child(store, **SETUP))
        assert started[-1].stop() == 0  # All that is set up is in the store.
        started.append(Child(store, **SETUP, die=point, count=10))
        url = started[-1].url
        assert url is not None
        accepted = asyncio.run(publish(url))
        assert started[-1].wait() == -signal.SIGKILL
        assert len(accepted) == 9
        started.append(Child(store, **SETUP))
        url = started[-1].url
        assert url is not None
        found = asyncio.run(content(url))
    there = accepted if point == "before commit" else [*accepted, accepted[-1] + PRODUCERS]
    assert found == {**{queue: [] for queue in QUEUES}, "a": there, "b": there}


def test_killed_in_the_middle_of_a_checkpoint_it_has_what_it_accepted(tmp_path: Path) -> None:
    """The second page that goes from the log into the file is the last."""
    chaos = Chaos(tmp_path / "broker.db", seed=7)
    kill = "inject=pwrite64:signal=SIGKILL:when=2"
    calls = tmp_path / "calls"
    traced = ("-o", str(calls), "-e", "trace=pwrite64", "-P", str(chaos.store), "-e", kill)
    tracer = (*strace(), "-f", "-y", *traced)
    with children() as started:
        started.append(chaos.start())
        chaos.look(started[-1])
        for pages in (1, 100):
            started.append(Child(chaos.store, tracer=tracer, **SETUP, checkpoint_pages=pages))
            chaos.round(started[-1])
            written = [line for line in calls.read_text().splitlines() if "pwrite64(" in line]
            assert ["broker.db>" in line for line in written] == [True, True]
        started.append(chaos.start())
        chaos.look(started[-1])
    assert chaos.answers > 0


def test_a_broker_that_accepts_before_the_commit_is_found_out(tmp_path: Path) -> None:
    chaos = Chaos(tmp_path / "broker.db", seed=3)
    with children() as started:

        def rounds() -> None:
            for _ in range(5):
                started.append(chaos.start(is_hasty=True, die="before commit", count=30))
                chaos.round(started[-1])

        with pytest.raises(AssertionError, match=r"are lost|are not to be there|by half"):
            rounds()
