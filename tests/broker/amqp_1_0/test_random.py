"""Random programs of several clients: whatever they do, no message that was accepted is lost, and nothing is
left of a client that is gone.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from amqpforge.broker.settings import QueueSettings
from amqpforge.engine.delivery import IncomingDelivery, OutgoingDelivery
from amqpforge.engine.events import Deliveries
from amqpforge.errors import LocalError
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Declare,
    Declared,
    LinkState,
    Modified,
    ReceiverSettleMode,
    Released,
    Role,
    Source,
    TerminusExpiryPolicy,
)

from .ground import Ground, a_ground
from .keeping import KeepingStore
from .peer import Peer, body_of, in_transaction

QUEUES = "ab"
STEPS = 150


class Program:
    """One random program."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.store = KeepingStore()
        self.ground = Ground(
            store=self.store,
            unsettled_per_link=random.choice([3, 10_000]),
            credit_per_link=random.choice([1, 5, 100]),
        )
        for name in QUEUES:
            self.ground.admin.declare_queue(name, QueueSettings(durable=True))
        self.sent: list[tuple[OutgoingDelivery, int]] = []
        self.touched: set[Any] = set()
        self.transactions: dict[Peer, list[Any]] = {}
        self.steps = (
            *(self.send, self.receive, self.settle) * 3,
            self.arrive,
            self.detach,
            self.attach,
            self.lose,
            self.restart_session,
            self.declare,
            self.discharge,
            self.change_speed,
            self.wait,
        )

    def run(self) -> None:
        for _ in range(STEPS):
            live = [peer for peer in self.ground.bench.peers if peer.is_live]
            try:
                if live:
                    self.random.choice(self.steps)(self.random.choice(live))
                else:
                    self.ground.peer()
            except LocalError:  # A client may not do that now.
                continue
        self.store.is_slow = False
        self.store.sync()
        for peer in self.ground.bench.peers:
            if peer.is_live:
                peer.lose()
        self.ground.advance(100)

    # --- what clients do

    def arrive(self, _: Peer) -> None:
        if len(self.ground.bench.peers) < 12:
            self.ground.peer(container=self.random.choice("xyz"))

    def send(self, peer: Peer) -> None:
        name = f"out-{self.random.randrange(3)}"
        sender: Any = peer.session.links.get((name, Role.SENDER))
        sender = sender or peer.sender(self.random.choice(QUEUES), name)
        body = len(self.sent)
        known = self.transactions.get(peer)
        state = in_transaction(self.random.choice(known)) if known and self.random.random() < 0.3 else None
        self.sent.append((peer.send(sender, Message(body, durable=True), state=state), body))

    def receive(self, peer: Peer) -> None:
        name = f"in-{self.random.randrange(4)}"
        receiver: Any = peer.session.links.get((name, Role.RECEIVER))
        if receiver is not None:
            peer.flow(receiver, self.random.randrange(5), drain=self.random.random() < 0.2)
            return
        timeout: Any = self.random.choice([0, 5])
        peer.receiver(
            source=Source(
                address=self.random.choice(QUEUES),
                expiry_policy=self.random.choice(list(TerminusExpiryPolicy)),
                timeout=timeout,
                default_outcome=self.random.choice([None, Released(), Modified(delivery_failed=True)]),
            ),
            name=name,
            rcv_settle_mode=self.random.choice(list(ReceiverSettleMode)),
            credit=self.random.randrange(1, 5),
        )

    def settle(self, peer: Peer) -> None:
        open_ones = [
            delivery
            for event in peer.told(Deliveries)
            for delivery in event.deliveries
            if not delivery.settled and delivery.state is None and delivery.link.session is peer.session
        ]
        if not open_ones:
            return
        delivery: IncomingDelivery = self.random.choice(open_ones)
        self.touched.add(body_of(delivery))
        outcome: Any = self.random.choice([Accepted(), Released(), Modified(delivery_failed=True)])
        settles = delivery.rcv_settle_mode is ReceiverSettleMode.FIRST
        known = self.transactions.get(peer)
        if known and self.random.random() < 0.4:
            outcome = in_transaction(self.random.choice(known), outcome)
            settles = settles and self.random.random() < 0.5
        delivery.update(outcome, settled=settles)
        self.ground.run()

    def detach(self, peer: Peer) -> None:
        links = list(peer.session.links.values())
        if links:
            self.random.choice(links).detach(closed=self.random.random() < 0.5)
            self.ground.run()

    def attach(self, peer: Peer) -> None:
        links = [
            link
            for link in (*peer.engine.container.links.values(), *peer.session.links.values())
            if link.state in (LinkState.DETACHED, LinkState.SUSPENDED)
        ]
        if links:
            peer.attach(self.random.choice(links))

    def lose(self, peer: Peer) -> None:
        if self.random.random() < 0.3:
            peer.lose()

    def restart_session(self, peer: Peer) -> None:
        if self.random.random() < 0.3:
            peer.session.end()
            self.ground.run()
            peer.session = peer.engine.session()
            peer.session.begin()
            self.ground.run()

    def declare(self, peer: Peer) -> None:
        control: Any = peer.session.links.get(("control", Role.SENDER)) or peer.controller()
        state = peer.ask(control, Declare())
        if isinstance(state, Declared):
            self.transactions.setdefault(peer, []).append(state.txn_id)

    def discharge(self, peer: Peer) -> None:
        known = self.transactions.get(peer)
        control: Any = peer.session.links.get(("control", Role.SENDER))
        if known and control is not None:
            id = known.pop(self.random.randrange(len(known)))
            peer.discharge(control, id, fail=self.random.random() < 0.5)

    def change_speed(self, _: Peer) -> None:
        self.store.is_slow = not self.store.is_slow
        if not self.store.is_slow:
            self.store.sync()
            self.ground.run()

    def wait(self, _: Peer) -> None:
        self.ground.advance(self.random.choice([1, 10]))


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_lost_and_nothing_is_left_over(seed: int) -> None:
    program = Program(seed)
    program.run()
    ground = program.ground
    assert not ground.service.heads
    assert ground.left == len(ground.bench.peers)
    for link in list(ground.service.container.links.values()):
        assert link.context.settings.expiry_policy == TerminusExpiryPolicy.NEVER
        link.context.destroy()
    ground.run()
    assert not ground.service.container.links
    there: set[Any] = set()
    after = a_ground(store=program.store)
    for name in QUEUES:
        queue = ground.host.queues[name]
        assert (queue.unacknowledged, queue.consumer_count) == (0, 0)
        assert after.host.queues[name].ready == queue.ready
        for entry in queue:
            assert entry.message.payload is not None
            there.add(Message.from_octets(entry.message.payload).body)
    for delivery, body in program.sent:
        if delivery.remote_state == Accepted() and body not in program.touched:
            assert body in there
