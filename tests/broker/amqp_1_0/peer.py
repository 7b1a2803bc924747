"""Clients for the tests of the head: engines joined to it in memory, and a clock that stands still."""

from __future__ import annotations

from typing import Any, TypeVar

from amqpforge.broker.amqp_1_0.head import Head
from amqpforge.broker.amqp_1_0.service import Service
from amqpforge.engine.connection import Connection
from amqpforge.engine.container import Container
from amqpforge.engine.delivery import IncomingDelivery, OutgoingDelivery
from amqpforge.engine.events import Closed, Deliveries
from amqpforge.engine.link import Link
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.engine.session import Session
from amqpforge.engine.settings import ConnectionSettings
from amqpforge.errors import LinkDetached
from amqpforge.message import Message
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Rejected,
    Source,
    Target,
    TransactionalState,
    encode_message,
)
from amqpforge_protocol.amqp_1_0 import Message as Sections
from tests.broker.clock import FakeClock

E = TypeVar("E")

_ROUNDS = 1000
ALL = [
    "amqp:accepted:list",
    "amqp:rejected:list",
    "amqp:released:list",
    "amqp:modified:list",
]
"""The outcomes that a producer lets the broker choose."""


class Bench:
    """A service of the broker, and the clients of the test.

    Attributes:
        service: the service.
        clock: its time.
        peers: the clients, in the order in which they came.
    """

    def __init__(self, service: Service, clock: FakeClock) -> None:
        self.service = service
        self.clock = clock
        self.peers: list[Peer] = []

    def peer(self, **options: Any) -> Peer:
        """A new client, with an open connection and a session."""
        peer = Peer(self, **options)
        self.peers.append(peer)
        peer.open()
        return peer

    def run(self) -> None:
        """Carry octets to and fro until all are quiet."""
        for _ in range(_ROUNDS):
            moved = self._carry()
            self.clock.advance(0)  # What is to happen at the end of the turn does.
            if not moved and not self._carry():
                return
        raise AssertionError(f"the clients are not quiet after {_ROUNDS} rounds")

    def _carry(self) -> bool:
        moved = False
        for peer in self.peers:
            moved = peer.carry() or moved
        return moved


class Peer:
    """A client.

    Attributes:
        head: the broker's end of its connection.
        engine: its own end.
        session: the session that its links are on.
        events: what its engine has told.
        wakes: how often the head has said that there is something to send.
    """

    def __init__(
        self,
        bench: Bench,
        *,
        container: str = "client",
        hostname: str | None = None,
        user: str | None = None,
        settings: ConnectionSettings | None = None,
    ) -> None:
        self.bench = bench
        self.wakes = 0
        self.head = Head(bench.service, self._woken, lambda: user)
        self.engine = Connection(settings or ConnectionSettings(hostname=hostname), Container(container))
        self.session: Session = self.engine.session()
        self.events: list[Any] = []
        self._is_lost = False

    def _woken(self) -> None:
        self.wakes += 1

    def open(self) -> None:
        self.engine.open()
        self.session.begin()
        self.bench.run()

    def carry(self) -> bool:
        """Carry what there is both ways; returns whether there was anything."""
        if self._is_lost:
            return False
        there, server = self.engine.data_to_send(0.0), self.head.engine
        server.receive(there, 0.0)
        self._react()
        back = server.data_to_send(0.0)
        self._react()
        self.head.go_on()
        self.engine.receive(back, 0.0)
        self.events += self.engine.events()
        return bool(there or back)

    def _react(self) -> None:
        for event in self.head.engine.events():
            self.head.on_event(event)

    def lose(self) -> None:
        """Cut the connection."""
        for engine in (self.engine, self.head.engine):
            engine.lose()
        self._react()
        self.events += self.engine.events()
        self._is_lost = True
        self.bench.run()

    @property
    def is_live(self) -> bool:
        """Whether it can go on."""
        return not self._is_lost and self.engine.may_write and self.session.may_write

    def told(self, kind: type[E]) -> list[E]:
        """The events of one kind so far."""
        return [event for event in self.events if type(event) is kind]

    @property
    def closed(self) -> Any:
        """The error that the broker has closed the connection with; None: it has not, or without one."""
        for event in self.told(Closed):
            return event.error.error if event.error is not None else None
        return None

    # --- links ---------------------------------------------------------------------------------------------

    def attach(self, link: Link, session: Session | None = None) -> Any:
        """Attach a link; returns it."""
        (session or self.session).attach(link)
        self.bench.run()
        return link

    def sender(self, address: str | None = "/queues/q", name: str = "out", **options: Any) -> Any:
        """A sender; ``target`` and ``source`` may be given whole."""
        fields = {"target": Target(address=address), "source": Source(outcomes=list(ALL)), **options}
        return self.attach(Sender(name, **fields))

    def receiver(
        self, address: str | None = "/queues/q", name: str = "in", *, credit: int = 0, **options: Any
    ) -> Any:
        """A receiver, with credit."""
        fields = {"source": Source(address=address), "target": Target(), **options}
        receiver: Receiver = self.attach(Receiver(name, **fields))
        if credit and receiver.is_attached:
            self.flow(receiver, credit)
        return receiver

    def flow(self, receiver: Receiver, credit: int, *, drain: bool = False) -> None:
        receiver.flow(credit, drain=drain)
        self.bench.run()

    def send(self, sender: Sender, message: Any = "m", **options: Any) -> OutgoingDelivery:
        """Send a message, and let the broker answer."""
        whole = message if isinstance(message, Message) else Message(message)
        delivery = sender.send(whole.encode(), **options)
        self.bench.run()
        return delivery

    def got(self, receiver: Receiver) -> list[IncomingDelivery]:
        """The deliveries that have come on a link and were not asked for before."""
        found = []
        for event in self.told(Deliveries):
            if event.link is receiver:
                found += event.deliveries
        self.events = [
            event for event in self.events if not (type(event) is Deliveries and event.link is receiver)
        ]
        return found

    def bodies(self, receiver: Receiver) -> list[Any]:
        """The bodies of these."""
        return [body_of(delivery) for delivery in self.got(receiver)]

    def settle(self, delivery: IncomingDelivery, state: Any) -> None:
        delivery.settle(state)
        self.bench.run()

    # --- transactions --------------------------------------------------------------------------------------

    def controller(self, name: str = "control") -> Any:
        """A link to the coordinator."""
        return self.attach(Sender(name, source=Source(outcomes=list(ALL)), target=Coordinator()))

    def ask(self, controller: Sender, request: Any) -> Any:
        """Ask the coordinator; returns the outcome of the request."""
        delivery = controller.send(encode_message(Sections(body=AmqpValue(value=request))))
        self.bench.run()
        return delivery.remote_state

    def declare(self, controller: Sender) -> Any:
        """Declare a transaction; returns its id."""
        state = self.ask(controller, Declare())
        assert isinstance(state, Declared), state
        return state.txn_id

    def discharge(self, controller: Sender, id: Any, *, fail: bool = False) -> Any:
        return self.ask(controller, Discharge(txn_id=id, fail=fail))


def body_of(delivery: IncomingDelivery) -> Any:
    return message_of(delivery).body


def message_of(delivery: IncomingDelivery) -> Message:
    return Message.from_octets(delivery.payload)


def condition_of(link: Link) -> str | None:
    """The condition that the broker has detached a link with."""
    return str(link.error.condition) if isinstance(link.error, LinkDetached) else None


def rejection(delivery: OutgoingDelivery) -> tuple[str, str]:
    """The condition and the description that the broker has rejected a message with."""
    state = delivery.remote_state
    assert isinstance(state, Rejected), state
    assert state.error is not None
    return str(state.error.condition), str(state.error.description)


def in_transaction(id: Any, outcome: Any = None) -> TransactionalState:
    return TransactionalState(txn_id=id, outcome=outcome)


ACCEPTED = Accepted()
