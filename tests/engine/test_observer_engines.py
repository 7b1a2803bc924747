"""Two engines that keep to the protocol are never blamed, whatever crosses on the way."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.connection import Connection
from amqpforge.engine.container import Container
from amqpforge.engine.delivery import IncomingDelivery
from amqpforge.engine.link import Link
from amqpforge.engine.observations import Violation
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.engine.session import Session
from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Close,
    ConnectionState,
    Error,
    LinkState,
    ReceiverSettleMode,
    Rejected,
    Released,
    SenderSettleMode,
    SessionState,
    Source,
    Symbol,
    Target,
)
from tests.engine.observing import Overheard, Tap, a_transfer

ERROR = Error(condition=Symbol("test:wrong"))


class End:
    """An engine, what it has, and what it has written: ahead of the capture point, and behind it."""

    def __init__(self, engine: Connection) -> None:
        self.engine = engine
        self.ahead = bytearray()
        self.behind = bytearray()
        self.sessions: list[Session] = []
        self.links: list[Link] = []
        self.deliveries: list[IncomingDelivery] = []

    def live_sessions(self) -> list[Session]:
        return [session for session in self.sessions if session.state is SessionState.MAPPED]

    def of(self, kind: type[Any]) -> list[Any]:
        return [link for link in self.links if isinstance(link, kind)]


class Crossing:
    """Two engines, each of which does whatever comes to its mind, and a slow wire with an observer on it."""

    def __init__(self, seed: int, *, is_quarrelsome: bool) -> None:
        self.random = random.Random(seed)
        self.is_quarrelsome = is_quarrelsome
        self.heard = Overheard()
        self.tap = Tap(self.heard)
        self.client = End(Connection(self._settings(), Container("client")))
        self.server = End(Connection(self._settings(), Container("server"), is_server=True))
        self.ends = (self.client, self.server)
        self.number = 0
        self.client.engine.open()

    def _settings(self) -> ConnectionSettings:
        choice = self.random.choice
        session = SessionSettings(
            incoming_window=choice([1, 2, 5, 100]),
            next_outgoing_id=choice([0, 0xFFFF_FFFE]),
            next_delivery_id=choice([0, 0x7FFF_FFFE]),
        )
        return ConnectionSettings(max_frame_size=choice([512, 600, 65536]), session=session)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
        for _ in range(1000):
            for end in self.ends:
                self.take_output(end)
            if not any(end.ahead or end.behind for end in self.ends):
                return
            for end in self.ends:
                self.pass_point(end, len(end.ahead))
                self.arrive(end, len(end.behind))
        pytest.fail("the engines are never quiet")

    def step(self) -> None:
        end = self.random.choice(self.ends)
        some = self.random.choice([1, 30, 200, 10_000, 10_000])
        kind = self.random.random()
        if kind < 0.3:
            self.take_output(end)
        elif kind < 0.5:
            self.pass_point(end, some)
        elif kind < 0.7:
            self.arrive(end, some)
        elif end is self.client or end.engine.remote is not None:
            with suppress(LocalError):  # The engine knows what it must not do now.
                self.act(end)

    # --- the wire

    def take_output(self, end: End) -> None:
        end.ahead += end.engine.data_to_send(0.0)
        for event in end.engine.events():
            self.react(end, event)

    def pass_point(self, end: End, count: int) -> None:
        octets = bytes(end.ahead[:count])
        del end.ahead[:count]
        end.behind += octets
        self.tap.feed("c2s" if end is self.client else "s2c", octets)

    def arrive(self, end: End, count: int) -> None:
        octets = bytes(end.behind[:count])
        del end.behind[:count]
        other = self.server if end is self.client else self.client
        if octets:
            other.engine.receive(octets, 0.0)

    # --- what the ends do

    def react(self, end: End, event: Any) -> None:
        if isinstance(event, events.Opened) and end is self.server:
            end.engine.open()
        elif isinstance(event, events.Begun) and event.session not in end.sessions:
            end.sessions.append(event.session)
        elif isinstance(event, events.Attached):
            if event.link not in end.links:
                end.links.append(event.link)
            if event.link.state is LinkState.ATTACH_RCVD:
                with suppress(LocalError):  # The session may have ended meanwhile.
                    self.random.choice([event.link.attach] * 5 + [lambda: event.link.refuse(ERROR)])()
        elif isinstance(event, events.Deliveries):
            end.deliveries += event.deliveries

    def act(self, end: End) -> None:
        choice = self.random.choice
        deeds: list[Callable[[End], None]] = [
            self.flow,
            self.flow,
            self.send,
            self.send,
            self.settle,
            self.settle,
        ]
        if len(end.sessions) < 2:
            deeds += [self.begin] * 3
        if len(end.links) < 5:
            deeds += [self.attach] * 6
        if self.is_quarrelsome:
            deeds += [self.detach, self.attach_again, self.attach]
            if self.random.random() < 0.1:
                deeds += [lambda end: choice(end.sessions).end(choice([None, ERROR]))] if end.sessions else []
            if self.random.random() < 0.01:
                deeds += [lambda end: end.engine.close(choice([None, ERROR]))]
        choice(deeds)(end)

    def begin(self, end: End) -> None:
        session = end.engine.session()
        session.begin()
        end.sessions.append(session)

    def attach(self, end: End) -> None:
        choice, sessions = self.random.choice, end.live_sessions() or end.sessions
        if not sessions:
            return
        self.number += 1
        options: dict[str, Any] = {
            "source": Source(address="q"),
            "target": Target(address="q"),
            "snd_settle_mode": choice(list(SenderSettleMode)),
            "rcv_settle_mode": choice(list(ReceiverSettleMode)),
        }
        name = f"{end.engine.container.id}-{self.number}"
        link = choice([Sender(name, **options), Receiver(name, prefetch=choice([None, 1, 5]), **options)])
        choice(sessions).attach(link)
        end.links.append(link)

    def attach_again(self, end: End) -> None:
        if end.links and end.sessions:
            self.random.choice(end.sessions).attach(self.random.choice(end.links))

    def detach(self, end: End) -> None:
        if end.links:
            link = self.random.choice(end.links)
            link.detach(self.random.choice([None, None, ERROR]), closed=self.random.random() < 0.5)

    def flow(self, end: End) -> None:
        choice = self.random.choice
        if end.of(Receiver):
            choice(end.of(Receiver)).flow(
                choice([0, 1, 3, 20]), drain=choice([True, False]), echo=choice([True, False])
            )
        if end.of(Sender):
            sender = choice(end.of(Sender))
            choice([sender.flow, sender.drained])()

    def send(self, end: End) -> None:
        if end.of(Sender):
            size = self.random.choice([1, 600, 3000])
            payload = b"\x00\x53\x75\xb0" + size.to_bytes(4, "big") + b"x" * size
            self.random.choice(end.of(Sender)).send(payload, settled=self.random.choice([None, True, False]))

    def settle(self, end: End) -> None:
        if end.deliveries:
            delivery = self.random.choice(end.deliveries)
            state = self.random.choice([Accepted(), Released(), Rejected(), None])
            delivery.update(state, settled=self.random.random() < 0.7)


@pytest.mark.parametrize("is_quarrelsome", [False, True], ids=["working", "quarrelsome"])
@pytest.mark.parametrize("seed", range(25))
def test_engines_are_never_blamed(seed: int, is_quarrelsome: bool) -> None:
    crossing = Crossing(seed, is_quarrelsome=is_quarrelsome)
    crossing.run(1200)
    assert crossing.heard.of(Violation) == []
    assert crossing.heard.observer.notes.links > 0


def test_what_the_observer_counts_is_what_the_engines_did() -> None:
    total = 0
    for seed in range(10):
        crossing = Crossing(seed, is_quarrelsome=False)
        crossing.run(1500)
        received = [delivery for end in crossing.ends for delivery in end.deliveries]
        settled = sum(delivery.settled or delivery.remote_settled for delivery in received)
        notes = crossing.heard.observer.notes
        incomplete = sum(len(end.of(Sender)) for end in crossing.ends)
        assert len(received) <= notes.deliveries <= len(received) + incomplete
        assert sum(notes.outcomes.values()) == settled
        total += len(received)
    assert total > 100


def test_an_end_that_breaks_a_rule_is_blamed_all_the_same() -> None:
    crossing = Crossing(1, is_quarrelsome=False)
    crossing.run(600)
    assert crossing.client.engine.state is ConnectionState.OPENED
    crossing.heard.client(Close(), a_transfer(0))
    assert [end for end, _ in crossing.heard.violations] == ["client"]
