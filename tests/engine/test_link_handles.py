"""Handles: the lowest that is free, never beyond what the peer takes, and free again when both ends have
detached (section 2.7.3).
"""

from __future__ import annotations

import pytest

from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import Attach, Close, ConnectionState, LinkState
from tests.engine.joined import a_sender
from tests.engine.linked import a_detach, attach, condition, kinds, scripted


def test_our_handle_max_is_told() -> None:
    peer, _ = scripted(session=SessionSettings(handle_max=7))
    assert peer.sent[1].performative is not None
    assert peer.sent[1].performative.handle_max == 7


@pytest.mark.spec("T-LINK-027")
def test_no_handle_goes_beyond_the_peers_handle_max() -> None:
    peer, session = scripted(handle_max=0)
    first = peer.attached(session, a_sender("0"))
    second = a_sender("1")
    with pytest.raises(LocalError, match="handle-max"):
        session.attach(second)
    assert (second.state, second.session, second.handle) == (LinkState.DETACHED, None, None)
    assert peer.flush() == []
    first.close()
    peer.feed(a_detach(handle=0, closed=True))
    session.attach(second)
    assert peer.flush()[0].performative.handle == 0


@pytest.mark.spec("T-LINK-028")
def test_a_handle_beyond_our_handle_max_closes_the_connection() -> None:
    peer, _ = scripted(session=SessionSettings(handle_max=1))
    peer.feed(attach("a", 1))
    assert peer.engine.state is ConnectionState.OPENED
    peer.feed(attach("b", 2))
    assert condition(peer.written(Close)[0]) == "amqp:connection:framing-error"


@pytest.mark.spec("T-LINK-029", "T-LINK-031")
def test_the_lowest_free_handle_is_taken() -> None:
    peer, session = scripted()
    links = [peer.attached(session, a_sender(str(number)), handle=number) for number in range(3)]
    assert [link.handle for link in links] == [0, 1, 2]
    links[1].close()
    peer.feed(a_detach(handle=1, closed=True))
    assert peer.attached(session, a_sender("new"), handle=9).handle == 1
    assert peer.attached(session, a_sender("newer"), handle=10).handle == 3


@pytest.mark.spec("T-LINK-030", "T-ERR-024")
def test_a_handle_in_use_closes_the_connection() -> None:
    peer, _ = scripted()
    peer.feed(attach("a", 0), attach("b", 0))
    assert condition(peer.written(Close)[0]) == "amqp:session:handle-in-use"
    assert kinds(peer.sent[-1:]) == ["Close"]


@pytest.mark.spec("T-LINK-042")
@pytest.mark.parametrize("closed", [True, False])
def test_a_handle_is_free_when_both_ends_have_detached(closed: bool) -> None:
    peer, session = scripted()
    link = peer.attached(session, a_sender("0"))
    link.detach(closed=closed)
    assert peer.attached(session, a_sender("1"), handle=1).handle == 1
    peer.feed(a_detach(handle=0, closed=closed))
    assert peer.attached(session, a_sender("2"), handle=0).handle == 0


@pytest.mark.spec("T-DETACH-015")
def test_a_detach_frees_the_peers_handle_for_another_link() -> None:
    peer, _ = scripted()
    peer.feed(attach("a", 5))
    link = next(iter(peer.engine.sessions.values())).links
    for known in list(link.values()):
        known.attach()
    peer.feed(a_detach(handle=5), attach("b", 5))
    assert peer.engine.state is ConnectionState.OPENED
    assert {name for name, _ in link} == {"a", "b"}


def test_a_peer_that_reuses_its_handle_ahead_of_our_detach() -> None:
    """It could not know yet that we have detached too; that its handle is free is plain to both."""
    peer, session = scripted(ConnectionSettings(auto_answer=False))
    link = peer.attached(session, a_sender("a"), handle=5)
    peer.feed(a_detach(handle=5), attach("b", 5))
    assert [name for name, _ in session.links] == ["a", "b"]
    link.detach()
    assert kinds(peer.flush()) == ["Detach"]
    assert (link.state, link.handle) == (LinkState.DETACHED, None)


def test_an_attach_that_does_not_fit_leaves_no_trace() -> None:
    peer, session = scripted(open={"max_frame_size": 512})
    link = a_sender("n" * 600)
    with pytest.raises(LocalError, match="frame-size-too-small"):
        session.attach(link)
    assert peer.flush() == []
    assert (link.state, link.session, session.links) == (LinkState.DETACHED, None, {})
    assert peer.attached(session, a_sender("n")).handle == 0
    assert len(peer.written(Attach)) == 1
