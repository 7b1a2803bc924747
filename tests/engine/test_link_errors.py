"""What goes wrong on one link, and what each end is told of it (sections 2.6.5 and 2.8.14 to 2.8.18)."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine import events
from amqpforge.engine.receiver import Receiver
from amqpforge.errors import LinkDetached, LocalError
from amqpforge_protocol.amqp_1_0 import (
    AmqpError,
    Detach,
    End,
    Error,
    LinkError,
    LinkState,
    Role,
    SessionState,
    Symbol,
    TransactionError,
)
from tests.engine.joined import BODY, Joined, a_receiver, a_sender
from tests.engine.linked import (
    a_detach,
    attach,
    condition,
    delivered,
    disposition,
    flow,
    kinds,
    receiving,
    scripted,
    sending,
    transfer,
)

APPLICATION_ERRORS = [
    pytest.param(AmqpError.NOT_FOUND, marks=pytest.mark.spec("T-ERR-005")),
    pytest.param(AmqpError.UNAUTHORIZED_ACCESS, marks=pytest.mark.spec("T-ERR-006")),
    pytest.param(AmqpError.NOT_IMPLEMENTED, marks=pytest.mark.spec("T-ERR-011")),
    pytest.param(AmqpError.RESOURCE_LOCKED, marks=pytest.mark.spec("T-ERR-012")),
    pytest.param(AmqpError.PRECONDITION_FAILED, marks=pytest.mark.spec("T-ERR-013")),
    AmqpError.RESOURCE_LIMIT_EXCEEDED,
    TransactionError.UNKNOWN_ID,
]


@pytest.mark.parametrize("error", APPLICATION_ERRORS)
def test_an_application_refuses_a_link_with_a_condition(error: AmqpError | TransactionError) -> None:
    """The server's application answers one attach with the error; the client's is told it."""
    refused: list[str] = []

    def refuse(engine: object, event: object) -> None:
        if isinstance(event, events.Attached) and event.link.name == "bad" and event.link.is_answer:
            refused.append(event.link.name)
            event.link.refuse(Error(condition=error, description="why"))

    joined = Joined(on_event=refuse)
    session = joined.open()
    bad, good = a_sender("bad"), a_sender("good")
    session.attach(bad)
    session.attach(good)
    joined.run()
    assert refused == ["bad"]
    assert (bad.state, good.state) == (LinkState.CLOSED, LinkState.ATTACHED)
    gone = joined.told(joined.client, events.Detached)[0]
    assert gone.link is bad
    assert isinstance(gone.error, LinkDetached)
    assert (gone.error.condition, str(gone.error).endswith("why")) == (error.value, True)


@pytest.mark.spec("T-ERR-014", "T-ERR-026")
@pytest.mark.parametrize("error", [AmqpError.RESOURCE_DELETED, LinkError.DETACH_FORCED])
def test_an_application_takes_a_link_away(error: AmqpError | LinkError) -> None:
    joined = Joined()
    session = joined.open()
    link = a_receiver()
    session.attach(link)
    joined.run()
    joined.peer_of(link).close(Error(condition=error))
    joined.run()
    assert link.state is LinkState.CLOSED
    gone = joined.told(joined.client, events.Detached)[0]
    assert gone.by_peer
    assert gone.error is not None
    assert gone.error.condition == error.value
    assert joined.told(joined.server, events.Detached)[0].by_peer is False
    assert session.links == {}


@pytest.mark.spec("T-ERR-023", "T-DETACH-009")
@pytest.mark.parametrize("frame", ["transfer", "flow", "disposition", "attach"])
def test_input_for_a_link_that_was_detached_with_an_error_ends_the_session(frame: str) -> None:
    peer, link = receiving(5)
    peer.feed((transfer(0), BODY))
    link.detach(Error(condition=AmqpError.INTERNAL_ERROR))
    peer.flush()
    frames = {
        "transfer": (transfer(1), BODY),
        "flow": flow(0),
        "disposition": disposition(Role.SENDER, 0, settled=True),
        "attach": attach("n", 3),
    }
    peer.feed(frames[frame])
    assert condition(peer.written(End)[0]) == "amqp:session:errant-link"
    assert session_of(peer) is SessionState.DISCARDING
    assert link.state is LinkState.SUSPENDED


def session_of(peer: object) -> SessionState:
    ended = peer.told(events.Ended)  # type: ignore[attr-defined]
    state: SessionState = ended[0].session.state
    return state


def test_dispositions_for_a_link_that_failed_and_is_detached_both_ways_end_the_session() -> None:
    peer, link = receiving(5)
    peer.feed((transfer(0), BODY))
    link.detach(Error(condition=AmqpError.INTERNAL_ERROR))
    peer.feed(a_detach(handle=0))
    assert link.state is LinkState.FAILED
    delivered(peer)[0].update(settled=True)  # And we tell nothing of it either.
    assert kinds(peer.flush()) == []
    peer.sent.clear()
    other = peer.attached(next(iter(peer.engine.sessions.values())), a_receiver("m"), handle=1)
    other.flow(1)
    peer.feed((transfer(1, handle=1), BODY))
    assert len(delivered(peer)) == 2


def test_dispositions_for_an_unsettled_delivery_of_a_link_that_failed() -> None:
    peer, link = receiving(5)
    peer.feed((transfer(0), BODY))
    link.detach(Error(condition=AmqpError.INTERNAL_ERROR))
    peer.feed(a_detach(handle=0), disposition(Role.SENDER, 0, settled=True))
    assert condition(peer.written(End)[0]) == "amqp:session:errant-link"


@pytest.mark.spec("T-ERR-027")
def test_more_messages_than_credit_close_the_link() -> None:
    peer, link = receiving(1)
    peer.feed((transfer(0), BODY), (transfer(1), BODY))
    detach = peer.written(Detach)[0]
    assert (condition(detach), detach.closed) == ("amqp:link:transfer-limit-exceeded", True)
    assert len(delivered(peer)) == 1
    peer.feed((transfer(2), BODY), flow(0), a_detach(handle=0, closed=True))  # The peer could not know yet.
    assert link.state is LinkState.CLOSED
    assert [one.by_peer for one in peer.told(events.Detached)] == [False]
    assert peer.written(End) == []


@pytest.mark.spec("T-LINK-039", "T-ERR-028")
@pytest.mark.parametrize("streams", [False, True])
def test_a_message_beyond_our_max_message_size_closes_the_link(streams: bool) -> None:
    peer, _ = receiving(5, mode={"max_message_size": 100, "streams": streams})
    peer.feed((transfer(0, more=True), bytes(40)), (transfer(0, more=True), bytes(40)))
    assert peer.sent == []
    peer.feed((transfer(0), bytes(40)))
    assert condition(peer.written(Detach)[0]) == "amqp:link:message-size-exceeded"
    assert delivered(peer) == []


@pytest.mark.spec("T-LINK-040")
@pytest.mark.parametrize("most", [0, None])
def test_no_max_message_size_is_no_limit(most: int | None) -> None:
    peer, link = sending(1, max_message_size=most)
    link.send(bytes(100_000))
    assert kinds(peer.flush()) == ["Transfer", "Transfer"]
    other, _ = receiving(1, mode={"max_message_size": most})
    other.feed((transfer(0), bytes(60_000)))
    assert len(delivered(other)) == 1


def test_a_message_that_the_receiver_does_not_take_is_not_sent() -> None:
    peer, link = sending(5, max_message_size=10)
    with pytest.raises(LocalError, match="max-message-size"):
        link.send(bytes(11))
    stream = link.start_message()
    stream.write(bytes(10))
    with pytest.raises(LocalError, match="max-message-size"):
        stream.write(b"1")
    stream.finish()
    assert kinds(peer.flush()) == ["Transfer", "Transfer"]


def test_a_message_that_was_queued_before_its_limit_was_known_is_given_up() -> None:
    peer, session = scripted()
    link = a_sender("n")
    session.attach(link)
    large, small = link.send(bytes(11)), link.send(bytes(10))
    peer.feed(attach("n", 0, Role.RECEIVER, max_message_size=10), flow(link_credit=5))
    assert (large.is_lost, large.settled, small.is_lost, small.progress.name) == (True, True, False, "SENT")
    assert peer.told(events.Updates)[0].deliveries == [large]
    assert list(link.unsettled.values()) == [small]


@pytest.mark.spec("T-ERR-029")
def test_a_redirect_is_told_with_where_to_go() -> None:
    peer, session = scripted()
    session.attach(a_sender("n"))
    where: dict[str, Any] = {
        Symbol("hostname"): "b.example",
        Symbol("network-host"): "10.0.0.2",
        Symbol("port"): 5672,
        Symbol("address"): "q2",
    }
    error = Error(condition=LinkError.REDIRECT, info=where)
    peer.feed(attach("n", 0, Role.RECEIVER, target=None), a_detach(handle=0, closed=True, error=error))
    gone = peer.told(events.Detached)[0].error
    assert gone is not None
    assert gone.condition == "amqp:link:redirect"
    assert gone.error is not None
    assert gone.error.info == where


@pytest.mark.spec("T-DETACH-007", "T-DETACH-008")
def test_a_link_in_error_is_detached_with_the_error_and_gone() -> None:
    peer, link = receiving(5)
    peer.feed((transfer(0, rcv_settle_mode=1), BODY))
    detach = peer.written(Detach)[0]
    assert condition(detach) == "amqp:not-allowed"
    assert detach.error is not None
    assert "rcv-settle-mode" in str(detach.error.description)
    peer.feed(a_detach(handle=0, closed=True))
    assert (link.state, link.session) == (LinkState.CLOSED, None)
    assert isinstance(peer.told(events.Detached)[0].error, LinkDetached)


def test_a_fault_on_a_link_that_we_detach_takes_the_session() -> None:
    """The one detach that a link has is out already: nothing smaller is left to end."""
    peer, link = receiving(1)
    link.detach()
    peer.feed((transfer(0), BODY), (transfer(1), BODY))
    assert condition(peer.written(End)[0]) == "amqp:link:transfer-limit-exceeded"
    assert link.state is LinkState.SUSPENDED


def test_an_error_that_is_too_large_for_a_frame_is_not_sent() -> None:
    peer, session = scripted(open={"max_frame_size": 512})
    link = peer.attached(session, a_sender("n"))
    with pytest.raises(LocalError, match="octets"):
        link.close(Error(condition=AmqpError.INTERNAL_ERROR, description="x" * 600))
    assert (link.state, link.error) == (LinkState.ATTACHED, None)


def test_a_peers_long_name_does_not_make_our_error_too_large() -> None:
    peer, session = scripted(open={"max_frame_size": 512})
    peer.feed(attach("n" * 5000, 0))
    link = peer.told(events.Attached)[0].link
    assert isinstance(link, Receiver)
    with pytest.raises(LocalError, match="frame-size-too-small"):
        link.attach()
    peer.feed((transfer(0), BODY))  # It came ahead of our answer, which cannot even be a refusal.
    assert session.state is not SessionState.MAPPED


def test_delivery_ids_are_not_used_twice() -> None:
    peer, _ = receiving(5)
    peer.feed((transfer(3, b"a"), BODY), (transfer(3, b"b"), BODY))
    assert condition(peer.written(End)[0]) == "amqp:not-allowed"


def test_a_tag_that_is_unsettled_is_not_used_twice() -> None:
    peer, _ = receiving(5)
    peer.feed((transfer(0, b"a"), BODY), (transfer(1, b"a"), BODY))
    assert condition(peer.written(Detach)[0]) == "amqp:not-allowed"


def test_a_transfer_to_a_sender_ends_the_session() -> None:
    peer, _ = sending()
    peer.feed((transfer(0), BODY))
    assert condition(peer.written(End)[0]) == "amqp:not-allowed"
