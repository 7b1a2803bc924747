"""One outcome for many deliveries: what it comes to, and in how many frames."""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge.engine.delivery import IncomingDelivery
from amqpforge.engine.dispositions import decide
from amqpforge.errors import LocalError
from amqpforge_protocol.amqp_1_0 import Accepted, Disposition, ReceiverSettleMode, Rejected, Released, Role
from tests.engine.joined import BODY, Scripted, a_receiver
from tests.engine.linked import a_detach, a_disposition, delivered, disposition, receiving, scripted, transfer

FIRST, SECOND = ReceiverSettleMode.FIRST, ReceiverSettleMode.SECOND


def came(
    *ids: int, mode: ReceiverSettleMode = SECOND, settled: tuple[int, ...] = ()
) -> tuple[Scripted, list[IncomingDelivery]]:
    """Deliveries with these ids; of some the sender has settled them since."""
    peer, _ = receiving(len(ids), mode={"rcv_settle_mode": mode}, rcv_settle_mode=mode)
    peer.feed(*((transfer(id), BODY) for id in ids))
    peer.feed(*(disposition(Role.SENDER, id, settled=True) for id in settled))
    peer.sent.clear()
    return peer, delivered(peer)


def told(peer: Scripted) -> list[Any]:
    """The dispositions that go out now."""
    return [one.performative for one in peer.flush() if type(one.performative) is Disposition]


def says(first: int, last: int | None = None, **fields: Any) -> Disposition:
    return a_disposition(role=Role.RECEIVER, first=first, last=last, **fields)


def test_neighbours_go_in_one_frame() -> None:
    peer, deliveries = came(*range(5))
    decide(deliveries, Accepted())
    assert told(peer) == [says(0, 4, state=Accepted())]
    assert [(one.state, one.settled) for one in deliveries] == [(Accepted(), False)] * 5
    peer.feed(disposition(Role.SENDER, 0, 4, settled=True, state=Accepted()))
    assert all(one.settled for one in deliveries)


def test_a_range_goes_on_behind_the_highest_id() -> None:
    peer, deliveries = came(0xFFFF_FFFE, 0xFFFF_FFFF, 0, 1)
    decide(deliveries, Released())
    assert told(peer) == [says(0xFFFF_FFFE, 1, state=Released())]


def test_those_between_are_left_out() -> None:
    peer, deliveries = came(*range(6))
    decide([*deliveries[:2], *deliveries[3:5]], Accepted())
    assert told(peer) == [says(0, 1, state=Accepted()), says(3, 4, state=Accepted())]
    assert [one.state for one in deliveries] == [Accepted(), Accepted(), None, Accepted(), Accepted(), None]


def test_what_is_told_behind_others_joins_them() -> None:
    peer, deliveries = came(*range(4))
    deliveries[0].update(Accepted())
    decide(deliveries[1:3], Accepted())
    deliveries[3].update(Accepted())
    assert told(peer) == [says(0, 3, state=Accepted())]


def test_in_mode_first_it_is_the_last_word() -> None:
    peer, deliveries = came(*range(3), mode=FIRST)
    decide(deliveries, Accepted())
    assert told(peer) == [says(0, 2, state=Accepted(), settled=True)]
    assert all(one.settled for one in deliveries)


def test_what_the_sender_has_settled_is_settled_and_nobody_is_told() -> None:
    peer, deliveries = came(*range(4), settled=(1, 2))
    decide(deliveries, Accepted())
    assert told(peer) == [says(0, state=Accepted()), says(3, state=Accepted())]
    assert [one.settled for one in deliveries] == [False, True, True, False]


def test_what_is_settled_here_is_passed_over() -> None:
    peer, deliveries = came(*range(3), settled=(1,))
    deliveries[1].settle(Released())
    decide(deliveries, Accepted())
    assert deliveries[1].state == Released()
    assert told(peer) == [says(0, state=Accepted()), says(2, state=Accepted())]


def test_an_outcome_is_not_altered_and_those_before_have_theirs() -> None:
    peer, deliveries = came(*range(3))
    deliveries[1].update(Rejected())
    assert len(told(peer)) == 1
    with pytest.raises(LocalError, match="which nothing alters"):
        decide(deliveries, Accepted())
    assert told(peer) == [says(0, state=Accepted())]
    assert [one.state for one in deliveries] == [Accepted(), Rejected(), None]


@pytest.mark.parametrize("is_gone", [False, True])
def test_one_frame_tells_of_the_links_that_are_there(is_gone: bool) -> None:
    peer, session = scripted()
    mode = {"rcv_settle_mode": SECOND}
    for handle, name in enumerate("ab"):
        peer.attached(session, a_receiver(name, **mode), handle=handle, **mode).flow(2)
    peer.feed(*((transfer(id, handle=id // 2), BODY) for id in range(4)))
    if is_gone:
        peer.feed(a_detach(handle=1, closed=True))
    peer.sent.clear()
    decide(delivered(peer), Accepted())
    assert told(peer) == [says(0, 1 if is_gone else 3, state=Accepted())]


def test_without_a_session_the_state_is_kept() -> None:
    peer, deliveries = came(0, 1)
    peer.engine.end_of_input(0.0)
    assert [one.id for one in deliveries] == [None, None]
    decide(deliveries, Accepted())
    assert [(one.state, one.settled) for one in deliveries] == [(Accepted(), False)] * 2
