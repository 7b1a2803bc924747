"""What peers choose does not make an observer grow, nor fail."""

from __future__ import annotations

import random
from typing import Any

import pytest

from amqpforge.engine.observations import LinkNews, ObserverLimits
from amqpforge.engine.observed_link import ObservedLink
from amqpforge.engine.observed_session import ObservedSession
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Close,
    End,
    Error,
    Modified,
    Open,
    ProtocolHeader,
    Received,
    ReceiverSettleMode,
    Released,
    Role,
    SaslChallenge,
    SaslCode,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    SenderSettleMode,
    Source,
    Symbol,
    Target,
    TransactionalState,
)
from tests.engine.observing import Overheard, a_begin, a_detach, a_flow, a_transfer, an_attach, settles

SMALL = ObserverLimits(sessions=6, links=10, unsettled=20)
LAST = 0xFFFF_FFFF


def test_sessions() -> None:
    heard = Overheard(SMALL).opened()
    for channel in range(20):
        heard.begun(client=channel, server=channel).client(a_flow(), channel=channel)
    assert heard.observer.notes.live_sessions == 6
    assert heard.unknown == [("client", "too many sessions to follow them all")]
    assert heard.violations == [], "what is not followed is not judged"
    heard.client(a_transfer(0, handle=4))
    assert len(heard.violations) == 1, "what is followed is"


def test_links() -> None:
    heard = Overheard(SMALL).opened().begun()
    for number in range(20):
        heard.attached(f"link {number}", handles=(number, number))
    heard.client(a_transfer(0, handle=15), a_flow(handle=16), a_detach(handle=17))
    assert heard.observer.notes.live_links == 10
    assert heard.unknown == [("client", "too many links to follow them all")]
    assert heard.violations == []


def test_links_that_are_detached_make_room() -> None:
    heard = Overheard(SMALL).opened().begun()
    for number in range(50):
        heard.attached(f"link {number}").client(a_detach()).server(a_detach())
    assert (heard.observer.notes.live_links, heard.observer.notes.links) == (10, 50)
    assert (heard.violations, heard.unknown) == ([], [])


def test_deliveries() -> None:
    heard = Overheard(SMALL).ready(credit=50)
    heard.client(*(a_transfer(number) for number in range(50)))
    notes = heard.observer.notes
    assert (notes.live_deliveries, notes.deliveries, notes.unsettled) == (20, 50, 50)
    assert heard.unknown == [("client", "too many deliveries to follow them all")]
    heard.server(settles(0, 49, state=Accepted()))
    assert (notes.outcomes, notes.unsettled, heard.violations) == ({"accepted": 20}, 30, [])


def test_texts_are_cut() -> None:
    long = "x" * 5000
    heard = Overheard().opened(client={"container_id": long}).begun()
    heard.client(an_attach(f"{long}a", 0, Role.SENDER), an_attach(f"{long}b", 1, Role.SENDER))
    heard.server(an_attach(f"{long}a", 0, Role.RECEIVER, target=Target(address=long)))
    error = Error(condition=Symbol(long), description=long)
    heard.server(a_detach(closed=True, error=error)).client(a_detach(closed=True))
    assert heard.violations == [], "two names, although cut they are alike"
    link, container = heard.of(LinkNews)[-1].link, heard.observer.client.container
    assert link.reason is not None
    assert link.name is not None
    assert link.target is not None
    assert container is not None
    for text in (link.reason.condition, link.reason.description, link.name, link.target, container):
        assert 200 < len(text) < 400


def test_a_disposition_takes_no_more_steps_than_there_are_deliveries() -> None:
    heard = Overheard().ready()
    session = heard.observer.client.channels[0].session
    heard.client(a_transfer(LAST), a_transfer(0), a_transfer(1))
    seen: list[int] = []

    class Counting(dict[int, Any]):
        def get(self, key: int, default: Any = None) -> Any:
            seen.append(key)
            return super().get(key, default)

        def items(self) -> Any:
            seen.extend(self)
            return super().items()

    side = session.ends[0]
    side.unsettled = Counting(side.unsettled)
    heard.server(settles(0x9000_0000, 1))
    assert len(seen) <= 10
    assert heard.observer.notes.outcomes == {"none": 3}


# ---- anything


def anything(choice: random.Random) -> Any:
    """A frame, or a header, that need not make sense."""
    pick = choice.choice
    number = choice.choice([0, 0, 1, 2, LAST])
    flag = choice.random() < 0.5
    error = pick([None, Error(condition=Symbol("test:wrong"))])
    state = pick(
        [
            None,
            Accepted(),
            Released(),
            Modified(),
            Received(section_number=0, section_offset=0),
            TransactionalState(txn_id=b"t", outcome=Accepted()),
        ]
    )
    role = pick(list(Role))
    attach = an_attach(
        pick(["a", "b", "c"]),
        pick([0, 1, 2]),
        role,
        snd_settle_mode=pick(list(SenderSettleMode)),
        rcv_settle_mode=pick(list(ReceiverSettleMode)),
        source=pick([None, Source()]),
        target=pick([None, Target()]),
        unsettled=pick([None, None, {}]),
        initial_delivery_count=pick([None, 0, LAST]),
        max_message_size=pick([None, 3]),
    )
    opening: dict[str, Any] = {
        "container_id": "x",
        "max_frame_size": pick([1, 512, LAST]),
        "channel_max": number & 7,
        "idle_time_out": pick([None, 1]),
    }
    rare = [
        Open(**opening),
        Close(error=error),
        None,
        ProtocolHeader(protocol_id=pick([0, 2, 3])),
        SaslMechanisms(sasl_server_mechanisms=[Symbol("X")]),
        SaslInit(mechanism=Symbol("X")),
        SaslChallenge(challenge=b""),
        SaslResponse(response=b""),
        SaslOutcome(code=SaslCode.OK),
    ]
    frames: list[Any] = [
        a_begin(
            remote_channel=pick([None, 0, 1]),
            next_outgoing_id=number,
            incoming_window=pick([0, 1, LAST]),
            handle_max=number & 3,
        ),
        End(error=error),
        attach,
        attach,
        attach,
        a_detach(handle=pick([0, 1, 2]), closed=flag, error=error),
        a_flow(
            handle=pick([None, 0, 1, 2]),
            link_credit=pick([None, 0, 1, LAST]),
            delivery_count=pick([None, 0, 1 << 31, LAST]),
            next_incoming_id=pick([None, number]),
            next_outgoing_id=number,
            drain=flag,
            incoming_window=pick([0, LAST]),
        ),
        a_transfer(
            pick([None, 0, 1, 2, LAST]),
            handle=pick([0, 1, 2]),
            more=flag,
            aborted=choice.random() < 0.1,
            settled=pick([None, True, False]),
            resume=choice.random() < 0.1,
            state=state,
            rcv_settle_mode=pick([None, ReceiverSettleMode.SECOND]),
        ),
        settles(pick([0, LAST - 1]), pick([None, 0, 3, 1 << 31]), state=state, role=role, settled=flag),
    ]
    frames += [frames[-2]] * 3
    return pick(frames) if choice.random() < 0.95 else pick(rare)


def check_bounds(heard: Overheard) -> None:
    """What is kept is what is counted, and within the limits."""
    observer, notes = heard.observer, heard.observer.notes
    sessions: set[ObservedSession] = set()
    for end in (observer.client, observer.server):
        assert len(end.progress._on_the_way) < 8
        sessions.update(side.session for side in (*end.channels.values(), *end.unanswered.values()))
    links: set[ObservedLink] = set()
    for session in sessions:
        links.update(session.links.all())
        for side in session.ends:
            assert len(side.closing) < 8
            links.update(end.link for end in side.handles.values())
    for link in links:
        assert max(len(end.progress._on_the_way) for end in (link.sender, link.receiver)) < 8
    unsettled = sum(len(side.unsettled) for session in sessions for side in session.ends)
    assert (notes.live_sessions, notes.live_links, notes.live_deliveries) == (
        len(sessions),
        len(links),
        unsettled,
    )
    assert sum(len(link.tags) for link in links) <= unsettled
    assert notes.live_sessions <= SMALL.sessions
    assert notes.live_links <= SMALL.links
    assert notes.live_deliveries <= SMALL.unsettled
    assert notes.unsettled >= 0


@pytest.mark.parametrize("seed", range(30))
def test_frames_that_make_no_sense(seed: int) -> None:
    choice = random.Random(seed)
    heard = Overheard(SMALL)
    if choice.random() < 0.8:
        heard.opened().begun()
    for _ in range(400):
        chance = choice.random()
        if chance < 0.003:
            heard.observer.lost(choice.choice(["c2s", "s2c"]), heard.now)
        elif chance < 0.005:
            heard.observer.end_of_input(choice.choice(["c2s", "s2c"]), heard.now)
        elif chance < 0.1:
            heard.now = choice.choice([None, choice.random() * 10])
        send = choice.choice([heard.client, heard.server])
        send(anything(choice), channel=choice.choice([0, 0, 0, 1, 2, 900]))
        check_bounds(heard)
        assert isinstance(heard.owed, list)
