"""What an idle link keeps: little, and once what all links of a session were told alike."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

from amqpforge.engine.link import Link
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.session import Session
from amqpforge_protocol.amqp_1_0 import LinkState, Role, Source, Symbol, Target
from tests.engine.joined import Scripted, a_receiver, a_sender
from tests.engine.linked import a_detach, attach, flow, scripted

OUTCOMES = [Symbol(f"amqp:{name}:list") for name in ("accepted", "rejected", "released", "modified")]


def answered(peer: Scripted, session: Session, number: int, **fields: Any) -> Any:
    """A sender that the peer answers, with objects of its own each time."""
    told = {"source": Source(outcomes=list(OUTCOMES)), "target": Target(address="y"), **fields}
    return peer.attached(session, a_sender(str(number)), handle=number, **told)


def size(*roots: object) -> int:
    """Octets of all objects of the engine that can be reached from some; what is code, not data, aside."""
    seen: dict[int, object] = {}
    waiting = list(roots)
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type) or callable(one):
            continue
        seen[id(one)] = one
        waiting += gc.get_referents(one)
    return sum(sys.getsizeof(one) for one in seen.values())


@pytest.mark.parametrize(("role", "most"), [(Role.SENDER, 1200), (Role.RECEIVER, 1300)])
def test_an_idle_link_takes_about_a_kilobyte(role: Role, most: int) -> None:
    peer, session = scripted()
    octets = []
    for number in range(400):
        if role is Role.SENDER:
            answered(peer, session, number)
            peer.feed(flow(number, link_credit=500, delivery_count=0))
        else:
            source = Source(address="x", outcomes=list(OUTCOMES))
            peer.attached(session, a_receiver(str(number), prefetch=100), handle=number, source=source)
        if number in (199, 399):
            octets.append(size(peer.engine.sessions, peer.engine.container.links))
    assert 500 < (octets[1] - octets[0]) / 200 < most


def test_what_links_were_told_alike_is_kept_once() -> None:
    peer, session = scripted()
    first, second = (answered(peer, session, number, max_message_size=9) for number in range(2))
    assert first.remote is second.remote
    assert first.target is second.target is first.remote.target
    assert (first.name, second.name) == ("0", "1")
    assert (first.remote.max_message_size, first.remote.source.outcomes) == (9, OUTCOMES)


def test_what_differs_is_each_link_s_own() -> None:
    peer, session = scripted()
    first = answered(peer, session, 0)
    second = answered(peer, session, 1, target=Target(address="z"))
    assert first.remote.source is second.remote.source
    assert (first.target.address, second.target.address) == ("y", "z")
    third = answered(peer, session, 2, target=Target(address="z"), max_message_size=7)
    assert (second.remote.max_message_size, third.remote.max_message_size) == (None, 7)
    fourth = answered(peer, session, 3, target=Target(address="z"), offered_capabilities=[Symbol("a")])
    assert (third.remote.offered_capabilities, fourth.remote.offered_capabilities) == (None, ["a"])


@pytest.mark.parametrize("field", ["source", "target", "properties"])
def test_values_that_python_takes_for_equal_are_kept_apart(field: str) -> None:
    def told(value: int) -> Any:
        facts: dict[str, Any] = {Symbol("x"): value}
        if field == "properties":
            return facts
        node = Source if field == "source" else Target
        return node(address="y", dynamic_node_properties=facts)

    def kept(link: Link) -> Any:
        value = getattr(link.remote, field)
        return (value if field == "properties" else value.dynamic_node_properties)["x"]

    peer, session = scripted()
    links = [answered(peer, session, number, **{field: told(one)}) for number, one in enumerate((True, 1))]
    assert [type(kept(link)) for link in links] == [bool, int]


def test_a_refusal_is_not_taken_for_what_another_link_was_told() -> None:
    peer, session = scripted()
    first = answered(peer, session, 0)
    second = answered(peer, session, 1, target=None)
    peer.feed(a_detach(handle=1, closed=True))
    assert (first.is_refused, second.is_refused) == (False, True)
    assert (first.state, second.state) == (LinkState.ATTACHED, LinkState.CLOSED)
    assert (second.remote.target, second.target) == (None, a_sender("").target)


def test_what_the_peer_told_as_unsettled_is_forgotten_once_it_is_compared() -> None:
    peer, session = scripted()
    link = a_receiver("n")
    link.restore(b"tag", b"")
    peer.attached(session, link, unsettled={b"tag": None, b"other": None})
    assert (link.state, link.remote_unsettled) == (LinkState.ATTACHED, None)
    peer.feed(attach("m", 1, unsettled={b"tag": None}))
    asked = session.links["m", Role.RECEIVER]
    assert isinstance(asked, Receiver)
    assert asked.remote_unsettled == {b"tag": None}
    asked.attach()
    assert asked.state is LinkState.ATTACHED
    assert not asked.remote_unsettled
