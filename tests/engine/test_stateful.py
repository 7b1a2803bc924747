"""Two engines, and an application at each end that does anything at any time: what must hold nevertheless.

- What is not allowed raises LocalError, and changes and writes nothing.
- Neither engine ever blames the other, or leaves its state tables.
- When all is quiet, both ends tell the same of each link.
- A message arrives once at most if it is sent settled, at least once if the receiver settles first, and
  exactly once if the sender does; connections may be cut between any two octets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

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

from amqpforge.engine import events
from amqpforge.engine.connection import Connection
from amqpforge.engine.container import Container
from amqpforge.engine.delivery import IncomingDelivery, OutgoingDelivery
from amqpforge.engine.link import Link
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.engine.session import Session
from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    Error,
    IncomingDeliveryState,
    LinkState,
    OutgoingDeliveryState,
    ReceiverSettleMode,
    Rejected,
    Released,
    Role,
    SessionState,
    Source,
    Target,
)

SECOND = ReceiverSettleMode.SECOND
OUTCOMES = st.sampled_from([Accepted(), Released(), Rejected()])
SMALL = ConnectionSettings(max_frame_size=512, session=SessionSettings(incoming_window=6))
WIDE = ConnectionSettings()
NAMES = st.integers(min_value=0, max_value=3)
PICKS = st.integers(min_value=0, max_value=50)
LIVE = (SessionState.BEGIN_SENT, SessionState.MAPPED)
CUT_OFF = (LinkState.DETACHED, LinkState.SUSPENDED, LinkState.FAILED)
MUTE = (
    LinkState.CLOSED,
    LinkState.CLOSE_SENT,
    LinkState.CLOSE_RCVD,
    LinkState.CLOSE_CROSSED,
    LinkState.CLOSE_OWED,
)
FAULTS = (None, "amqp:session:errant-link")


class Message:
    """One message, as the model knows it."""

    def __init__(self, delivery: OutgoingDelivery, number: int, mode: ReceiverSettleMode) -> None:
        self.delivery = delivery
        self.number = number
        self.mode = mode
        self.was_sent_settled = delivery.settled
        self.is_given_up = False  # The sending application settled or aborted it.
        self.came = 0
        self.was_settled_there = False
        self.link: Receiver | None = None  # Where it came.


class TwoEngines(RuleBasedStateMachine):
    """The client attaches links both ways, and the server accepts them."""

    def __init__(self) -> None:
        super().__init__()
        self.containers = (Container("client"), Container("server"))
        self.links: list[Link] = []
        self.messages: dict[int, Message] = {}
        self.streams: list[Message] = []
        self.incoming: list[IncomingDelivery] = []
        self.octets: dict[IncomingDelivery, bytes] = {}
        self.count = 0

    # --- the wire

    @initialize(is_small=st.booleans(), mode=st.sampled_from(list(ReceiverSettleMode)), streams=st.booleans())
    def begin(self, is_small: bool, mode: ReceiverSettleMode, streams: bool) -> None:
        self.settings = SMALL if is_small else WIDE
        self.connect()
        self.attach(True, mode, None, False)
        self.attach(False, mode, None, streams)
        self.quiet()
        for link in self.ends():
            if isinstance(link, Receiver):
                link.flow(100)
        self.quiet()

    def connect(self) -> None:
        ours, theirs = self.containers
        self.client = Connection(self.settings, ours)
        self.server = Connection(self.settings, theirs, is_server=True)
        self.pipes = {self.client: b"", self.server: b""}
        self.client.open()
        self.session = self.client.session()
        self.session.begin()

    def carry(self, giver: Connection, most: int | None = None) -> bool:
        taker = self.server if giver is self.client else self.client
        self.pipes[giver] += giver.data_to_send(0.0)
        octets = self.pipes[giver][:most]
        self.pipes[giver] = self.pipes[giver][len(octets) :]
        if octets:
            taker.receive(octets, 0.0)
        for engine in (giver, taker):
            self.react(engine)
        return bool(octets)

    def quiet(self) -> None:
        """Carry all there is."""
        for _ in range(2000):
            if not any([self.carry(self.client), self.carry(self.server)]):
                return
        raise AssertionError("the engines are never quiet")

    def react(self, engine: Connection) -> None:
        for event in engine.events():
            if isinstance(event, events.Opened) and engine is self.server:
                engine.open()
            elif isinstance(event, events.Attached) and event.link.state is LinkState.ATTACH_RCVD:
                event.link.attach()
            elif isinstance(event, events.Deliveries):
                for delivery in event.deliveries:
                    self.arrive(delivery, delivery.payload)
            elif isinstance(event, events.Partial):
                self.read(event.delivery)
            elif isinstance(event, events.Detached):
                assert event.error is None or event.error.condition in (None, AmqpError.INTERNAL_ERROR.value)
            elif isinstance(event, events.Ended):
                assert event.error is None or event.error.condition in FAULTS, event.error
            elif isinstance(event, events.Closed):
                assert event.error is None or event.error.condition is None, event.error

    def read(self, delivery: IncomingDelivery) -> None:
        """Take the next octets of a message that is streamed."""
        self.octets[delivery] = self.octets.get(delivery, b"") + delivery.read()
        if delivery.progress is IncomingDeliveryState.ABORTED:
            del self.octets[delivery]
        elif delivery.is_complete and delivery.context is None:
            self.arrive(delivery, self.octets.pop(delivery))

    def arrive(self, delivery: IncomingDelivery, payload: bytes) -> None:
        message = self.messages[int(payload[:8])]
        assert payload == body(message.number, delivery.size)
        if message.came and message.link is delivery.link:  # Else the terminus that had it was closed.
            assert not message.was_sent_settled
            assert message.was_settled_there, "it came twice, and was not settled"
            assert message.mode is not SECOND
        message.came = message.came + 1 if message.link is delivery.link else 1
        message.link = delivery.link
        delivery.context = message
        self.incoming.append(delivery)

    # --- links

    @rule(
        is_sender=st.booleans(),
        mode=st.sampled_from(list(ReceiverSettleMode)),
        prefetch=st.sampled_from([None, 1, 5]),
        streams=st.booleans(),
    )
    def attach(self, is_sender: bool, mode: ReceiverSettleMode, prefetch: int | None, streams: bool) -> None:
        if len(self.links) >= 8 or self.session.state not in LIVE:
            return
        name = str(len(self.links))
        kinds: dict[str, Any] = {
            "source": Source(address="a"),
            "target": Target(address="b"),
            "rcv_settle_mode": mode,
        }
        link = (
            Sender(name, **kinds)
            if is_sender
            else Receiver(name, prefetch=prefetch, streams=streams, **kinds)
        )
        self.links.append(link)
        self.session.attach(link)

    def ends(self) -> Iterator[Link]:
        """All link endpoints that either application knows."""
        yield from self.links
        yield from self.containers[1].links.values()

    def pick(self, kind: type[Any], number: int) -> Any:
        found = [link for link in self.ends() if isinstance(link, kind)]
        return found[number % len(found)] if found else None

    def partner(self, link: Link) -> Link | None:
        role = Role.SENDER if link.role is Role.RECEIVER else Role.RECEIVER
        return self.containers[1].find("client", link.name, role)

    # --- messages

    @rule(
        pick=PICKS,
        settled=st.sampled_from([False, False, True]),
        size=st.sampled_from([8, 9, 700, 3000]),
        times=st.sampled_from([1, 1, 1, 60]),
    )
    def send(self, pick: int, settled: bool, size: int, times: int) -> None:
        link = self.pick(Sender, pick)
        if link is not None and link.state not in MUTE and not link.is_refused:
            for _ in range(times):
                self.count += 1
                self.note(link, link.send(body(self.count, size if times == 1 else 8), settled=settled))

    @rule(pick=PICKS)
    def start(self, pick: int) -> None:
        link = self.pick(Sender, pick)
        if link is not None and link.state not in MUTE and not link.is_refused:
            self.count += 1
            self.streams.append(self.note(link, link.start_message()))
            self.streams[-1].delivery.write(body(self.count, 8))

    def note(self, link: Sender, delivery: OutgoingDelivery) -> Message:
        mode = link.rcv_settle_mode
        message = self.messages[self.count] = Message(delivery, self.count, mode)
        return message

    @precondition(lambda self: self.streams)
    @rule(pick=PICKS, end=st.sampled_from(["write", "finish", "abort"]))
    def go_on(self, pick: int, end: str) -> None:
        message = self.streams[pick % len(self.streams)]
        delivery = message.delivery
        if delivery.is_complete or delivery.settled or delivery.link.state is LinkState.CLOSED:
            return
        if end == "write":
            written = delivery.sections.size if delivery.sections is not None else 0
            delivery.write(body(message.number, written + 300)[written:])
        elif end == "finish":
            delivery.finish()
        else:
            message.is_given_up = True
            delivery.abort()

    @precondition(lambda self: self.messages)
    @rule(pick=PICKS, outcome=OUTCOMES, settled=st.booleans())
    def decide_at_the_source(self, pick: int, outcome: Any, settled: bool) -> None:
        message = self.messages[1 + pick % self.count]
        if not message.delivery.settled and message.delivery.state is None:
            message.is_given_up = True
            message.delivery.update(outcome, settled=settled)

    @precondition(lambda self: self.incoming)
    @rule(pick=PICKS, outcome=OUTCOMES, settled=st.booleans())
    def decide_on_one(self, pick: int, outcome: Any, settled: bool) -> None:
        self.decide_at_the_target(pick, outcome, settled)

    def decide_at_the_target(self, pick: int, outcome: Any, settled: bool) -> None:
        delivery = self.incoming[pick % len(self.incoming)]
        if delivery.settled or delivery.state is not None:
            return
        if delivery.rcv_settle_mode is SECOND and not delivery.remote_settled:
            settled = False
        delivery.context.was_settled_there |= settled
        delivery.update(outcome, settled=settled)

    @precondition(lambda self: self.incoming)
    @rule(outcome=OUTCOMES, settled=st.booleans())
    def decide_on_all(self, outcome: Any, settled: bool) -> None:
        for number in range(len(self.incoming)):
            self.decide_at_the_target(number, outcome, settled)

    @rule(pick=PICKS, credit=st.sampled_from([0, 1, 3, 50, 200]), drain=st.booleans(), echo=st.booleans())
    def give(self, pick: int, credit: int, drain: bool, echo: bool) -> None:
        link = self.pick(Receiver, pick)
        if link is not None and link.prefetch is None and link.is_open and self.may_write(link):
            link.flow(credit, drain=drain, echo=echo)

    # --- anything at all

    @rule(pick=PICKS, action=st.integers(min_value=0, max_value=11))
    def try_anything(self, pick: int, action: int) -> None:
        """Any step of an application, allowed or not."""
        link = self.pick(Link, pick)
        if link is None:
            return
        mine = [message for message in self.messages.values() if message.delivery.link is link]
        delivery = mine[pick % len(mine)].delivery if mine else None
        steps: list[Callable[[], object]] = [
            lambda: link.flow(),
            lambda: link.detach(),
            lambda: link.attach(),
            lambda: link.session.attach(link) if link.session else None,
            lambda: self.session.attach(link),
            lambda: link.drained() if isinstance(link, Sender) else link.flow(1 << 31),
            lambda: (
                link.send(b"x", tag=delivery.tag) if delivery and delivery.tag in link.unsettled else None
            ),
            lambda: delivery.write(b"") if delivery and delivery.is_complete else None,
            lambda: delivery.settle("no state") if delivery else None,  # type: ignore[arg-type]
            lambda: delivery.update() if delivery and delivery.settled else None,
            lambda: link.expire() if link.state not in CUT_OFF else None,
            lambda: link.send(bytes(9), tag=bytes(33)) if isinstance(link, Sender) else None,
        ]
        if action == 4 and link not in self.links:
            return
        before = self.everything(link)
        try:
            steps[action]()
        except LocalError:
            assert self.everything(link) == before

    def everything(self, link: Link) -> object:
        """All that an illegal step must not change."""
        outputs = [(engine.output.frames, engine.output.size) for engine in (self.client, self.server)]
        session = link.session
        gathered = list(session._gathered) if session is not None else []
        queue = list(link.queue) if isinstance(link, Sender) else []
        kept = [(tag, one.settled, one.state, one.progress) for tag, one in link.unsettled.items()]  # type: ignore[attr-defined]
        flow = link.flow_state  # type: ignore[attr-defined]
        return (
            outputs,
            gathered,
            queue,
            kept,
            (link.state, link.handle, link.remote_handle, session),
            (flow.delivery_count, flow.link_credit, flow.drain),
        )

    @rule(pick=PICKS)
    def close(self, pick: int) -> None:
        link = self.pick(Link, pick)
        if link is not None and pick % 4 == 0:
            try:
                link.close()
            except LocalError:
                assert link.state is not LinkState.ATTACHED or not self.may_write(link)

    def may_write(self, link: Link) -> bool:
        return link.session is not None and link.session.may_write

    @rule()
    def attach_again(self) -> None:
        """The client attaches again whatever is detached or suspended."""
        if self.session.state is SessionState.UNMAPPED:
            self.session = self.client.session()
            self.session.begin()
        if self.session.state not in LIVE:
            return
        for link in self.links:
            if link.state in CUT_OFF and link.session in (
                None,
                self.session,
            ):
                self.session.attach(link)

    @rule(pick=PICKS)
    def fail(self, pick: int) -> None:
        """A link is detached with an error; nothing may be on its way then (section 2.6.5)."""
        self.quiet()
        link = self.pick(Link, pick)
        if link is not None and link.state is LinkState.ATTACHED and pick % 2 == 0:
            link.detach(Error(condition=AmqpError.INTERNAL_ERROR))
            self.quiet()

    @rule(pick=PICKS)
    def end(self, pick: int) -> None:
        if self.session.state is SessionState.MAPPED and pick % 4 == 0:
            self.session.end()

    # --- time passes

    @rule(by_client=st.booleans(), most=st.sampled_from([1, 7, 100, 600, None]))
    def carry_some(self, by_client: bool, most: int | None) -> None:
        self.carry(self.client if by_client else self.server, most)

    @rule(pick=PICKS)
    def cut(self, pick: int) -> None:
        """The transport breaks, and takes with it what is on its way."""
        if pick % 3:
            return
        for engine in (self.client, self.server):
            engine.lose()
            self.react(engine)
        self.connect()
        self.attach_again()

    @rule()
    def be_quiet(self) -> None:
        self.quiet()
        self.agree()

    # --- what must hold

    @invariant()
    def credit_is_kept(self) -> None:
        for link in self.links:
            if isinstance(link, Receiver) and link.prefetch is not None:
                assert link.held + link.link_credit <= link.prefetch

    @invariant()
    def connections_live(self) -> None:
        if hasattr(self, "client"):
            assert (self.client.error, self.server.error) == (None, None)

    def agree(self) -> None:
        """When all is quiet, both ends of each link tell the same."""
        for link in self.links:
            other = self.partner(link)
            if link.state is not LinkState.ATTACHED or other is None:
                continue
            assert other.state is LinkState.ATTACHED
            assert (link.handle, link.remote_handle) == (other.remote_handle, other.handle)
            sender, receiver = (link, other) if isinstance(link, Sender) else (other, link)
            assert isinstance(sender, Sender)
            assert isinstance(receiver, Receiver)
            ours, theirs = sender.flow_state, receiver.flow_state
            assert (ours.delivery_count, ours.link_credit) == (theirs.delivery_count, theirs.link_credit)
            begun = {
                tag
                for tag, one in sender.unsettled.items()
                if one.progress is not OutgoingDeliveryState.NOT_SENT
                and one.id is not None
                and not (one.remote_settled or one.settled)
            }
            known = {
                tag
                for tag, one in receiver.unsettled.items()
                if one.id is not None and not (one.remote_settled or one.settled)
            }
            untold = {tag for tag, one in sender.unsettled.items() if one.settled}  # Its next transfer tells.
            assert begun == known - untold
            session = sender.session
            assert isinstance(session, Session)
            for one in sender.unsettled.values():
                assert one.id is None or one.settled or session.outgoing[one.id] is one

    def teardown(self) -> None:
        """Bring all to an end: then it shows what was lost, and what came twice."""
        if not hasattr(self, "client"):
            return
        self.quiet()
        self.agree()
        for _ in range(3):
            for message in self.streams:
                stream = message.delivery
                if not stream.is_complete and stream.link.state not in MUTE:
                    stream.finish()
            self.attach_again()
            self.quiet()
            for link in list(self.ends()):
                if isinstance(link, Receiver) and link.is_open:
                    link.prefetch = None
                    link.flow(1000)
            self.quiet()
            for delivery in self.incoming:
                if not delivery.settled:
                    settles = delivery.rcv_settle_mode is not SECOND or delivery.remote_settled
                    delivery.context.was_settled_there |= settles
                    delivery.update(None if delivery.state else Accepted(), settled=settles)
            self.quiet()
        self.account()

    def account(self) -> None:
        assert all(link.state in (LinkState.ATTACHED, *MUTE) for link in self.links)
        for message in self.messages.values():
            delivery = message.delivery
            if delivery.link.state is not LinkState.ATTACHED:
                continue
            if message.was_sent_settled or message.is_given_up:
                assert message.came <= 1 or not message.was_sent_settled
            elif not delivery.is_lost:
                assert message.came >= 1, f"{delivery!r} of {delivery.link!r} is lost"
                assert message.mode is not SECOND or message.came == 1
                assert delivery.settled
        for came in self.incoming:
            assert came.progress in (IncomingDeliveryState.RECEIVED, IncomingDeliveryState.ABORTED)


def body(number: int, size: int) -> bytes:
    """A message of some size that tells its number."""
    return b"%08d" % number + bytes([number & 0xFF]) * (size - 8)


def test_anything_at_any_time() -> None:
    run_state_machine_as_test(
        TwoEngines,
        settings=settings(
            max_examples=150,
            stateful_step_count=60,
            deadline=None,
            derandomize=True,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )


@pytest.mark.slow
def test_anything_at_any_time_for_long() -> None:
    run_state_machine_as_test(
        TwoEngines,
        settings=settings(
            max_examples=1500,
            stateful_step_count=100,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
