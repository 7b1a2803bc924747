"""When termini expire (section 3.5.6), on sources and targets alike."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge_protocol.amqp_1_0 import Role, Source, Target, TerminusExpiryPolicy

from .ground import Ground, a_ground
from .peer import Peer

POLICY = TerminusExpiryPolicy


def attach(peer: Peer, is_source: bool, **fields: Any) -> Any:
    """A link whose terminus at the broker has these fields."""
    if is_source:
        return peer.receiver(source=Source(address="q", **fields), name="l")
    return peer.sender(target=Target(address="q", **fields), name="l")


def is_there(ground: Ground, is_source: bool) -> bool:
    """Whether the broker has the terminus still."""
    role = Role.SENDER if is_source else Role.RECEIVER
    known = [link for link in ground.service.container.links.values() if link.role is role]
    return any(link.context is not None and not link.context.is_gone for link in known)


def detach(ground: Ground, link: Any) -> None:
    link.detach()
    ground.run()


def end(ground: Ground, peer: Peer) -> None:
    peer.session.end()
    ground.run()


both = pytest.mark.parametrize("is_source", [True, False])


@both
@pytest.mark.spec("M-EXPIRY-001", "M-EXPIRY-002")
def test_by_default_the_terminus_goes_with_its_session(is_source: bool) -> None:
    ground = a_ground("q")
    peer = ground.peer()
    link = attach(peer, is_source)
    detach(ground, link)
    assert is_there(ground, is_source)
    end(ground, peer)
    assert not is_there(ground, is_source)


@both
@pytest.mark.spec("M-EXPIRY-003", "M-EXPIRY-006")
def test_the_timeout_runs_from_the_detach(is_source: bool) -> None:
    ground = a_ground("q")
    link = attach(ground.peer(), is_source, expiry_policy=POLICY.LINK_DETACH, timeout=5)
    ground.advance(60)
    assert is_there(ground, is_source)
    detach(ground, link)
    ground.advance(4)
    assert is_there(ground, is_source)
    ground.advance(2)
    assert not is_there(ground, is_source)


@both
@pytest.mark.spec("M-EXPIRY-004", "M-EXPIRY-005")
def test_attaching_again_stops_the_timer_which_then_starts_afresh(is_source: bool) -> None:
    ground = a_ground("q")
    peer = ground.peer()
    link = attach(peer, is_source, expiry_policy=POLICY.LINK_DETACH, timeout=5)
    detach(ground, link)
    ground.advance(3)
    peer.attach(link)
    ground.advance(60)
    assert is_there(ground, is_source)
    detach(ground, link)
    ground.advance(4)
    assert is_there(ground, is_source)
    ground.advance(2)
    assert not is_there(ground, is_source)


@both
@pytest.mark.spec("M-EXPIRY-007")
def test_session_end_waits_for_the_session(is_source: bool) -> None:
    ground = a_ground("q")
    peer = ground.peer()
    link = attach(peer, is_source, expiry_policy=POLICY.SESSION_END, timeout=5)
    detach(ground, link)
    ground.advance(60)
    assert is_there(ground, is_source)
    end(ground, peer)
    ground.advance(4)
    assert is_there(ground, is_source)
    ground.advance(2)
    assert not is_there(ground, is_source)


@both
@pytest.mark.spec("M-EXPIRY-008")
def test_connection_close_waits_for_the_connection(is_source: bool) -> None:
    ground = a_ground("q")
    peer = ground.peer()
    link = attach(peer, is_source, expiry_policy=POLICY.CONNECTION_CLOSE, timeout=5)
    detach(ground, link)
    end(ground, peer)
    ground.advance(60)
    assert is_there(ground, is_source)
    peer.lose()
    ground.advance(4)
    assert is_there(ground, is_source)
    ground.advance(2)
    assert not is_there(ground, is_source)


@both
@pytest.mark.spec("M-EXPIRY-009")
def test_never_outlasts_everything(is_source: bool) -> None:
    ground = a_ground("q")
    peer = ground.peer()
    link = attach(peer, is_source, expiry_policy=POLICY.NEVER, timeout=0)
    detach(ground, link)
    end(ground, peer)
    peer.lose()
    ground.advance(10_000_000)
    assert is_there(ground, is_source)
    again = ground.peer()
    resumed = again.receiver(source=None, name="l") if is_source else again.sender(target=None, name="l")
    assert resumed.is_attached


@both
def test_a_close_ends_any_terminus(is_source: bool) -> None:
    ground = a_ground("q")
    link = attach(ground.peer(), is_source, expiry_policy=POLICY.NEVER)
    link.close()
    ground.run()
    assert not is_there(ground, is_source)
    assert ground.host.queues["q"].consumer_count == 0


def test_without_a_container_id_nothing_outlives_its_link() -> None:
    ground = a_ground("q")
    peer = ground.peer(container="")
    link = attach(peer, True, expiry_policy=POLICY.NEVER)
    detach(ground, link)
    assert not peer.head.links
