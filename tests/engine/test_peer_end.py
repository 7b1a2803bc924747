"""What a link remembers of the other end's settle mode, beside its own."""

from __future__ import annotations

import pytest

from amqpforge_protocol.amqp_1_0 import ReceiverSettleMode
from tests.engine.joined import a_receiver, a_sender
from tests.engine.linked import scripted

FIRST, SECOND = ReceiverSettleMode.FIRST, ReceiverSettleMode.SECOND


@pytest.mark.parametrize("told", [FIRST, SECOND])
@pytest.mark.parametrize("ours", [FIRST, SECOND])
def test_a_receiver_keeps_its_mode_and_knows_what_the_sender_goes_along_with(
    ours: ReceiverSettleMode, told: ReceiverSettleMode
) -> None:
    peer, session = scripted()
    link = peer.attached(session, a_receiver("n", rcv_settle_mode=ours), rcv_settle_mode=told)
    assert (link.rcv_settle_mode, link.remote.rcv_settle_mode) == (ours, told)


@pytest.mark.parametrize("told", [FIRST, SECOND])
def test_a_sender_takes_the_mode_of_the_receiver(told: ReceiverSettleMode) -> None:
    peer, session = scripted()
    link = peer.attached(session, a_sender("n", rcv_settle_mode=FIRST), rcv_settle_mode=told)
    assert link.rcv_settle_mode is link.remote.rcv_settle_mode is told


def test_links_whose_peers_differ_in_their_mode_alone_remember_each_its_own() -> None:
    peer, session = scripted()
    modes = (FIRST, SECOND, SECOND)
    links = [
        peer.attached(session, a_sender(str(number)), handle=number, rcv_settle_mode=mode)
        for number, mode in enumerate(modes)
    ]
    assert [link.remote.rcv_settle_mode for link in links] == list(modes)
    assert links[1].remote is links[2].remote
