"""The receiver: from the peer into the spool, whatever happens to the connection."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import amqpforge
from amqpforge import blocking
from amqpforge.broker.config import BrokerConfig
from amqpforge.broker.limits import BrokerLimits
from amqpforge.errors import AmqpforgeError, LinkDetached, NegotiationFailed
from amqpforge.spark.patience import PeerAway
from amqpforge.spark.source import intake
from amqpforge.spark.source import live as live_module
from amqpforge.spark.source.links import OnceReceiver, UnsuitablePeer
from amqpforge.spark.source.recovery import identity
from amqpforge.spark.source.segment import SpoolError
from amqpforge.spark.source.spool import Spool
from amqpforge.spark.source.storage import Folder
from amqpforge.spark.source.tasks import end_tasks
from amqpforge.testing import ScriptedBroker, ThreadedBroker
from amqpforge_protocol.amqp_1_0 import (
    Attach,
    Disposition,
    ProtocolHeader,
    ReceiverSettleMode,
    Role,
    SenderSettleMode,
)

from .scene import bodies, options, publish, receiving, until

N = 500


def failure(broker_or_url: ThreadedBroker | str, spool: Path, **more: object) -> AmqpforgeError:
    """What receiving ends with."""
    url = broker_or_url if isinstance(broker_or_url, str) else broker_or_url.url
    with receiving(options(url, spool, **more)) as live:
        until(lambda: live.is_over, "the end")
        error = live.intake.error
    assert error is not None
    return error


def test_messages_go_into_the_spool_and_are_settled(broker: ThreadedBroker, tmp_path: Path) -> None:
    publish(broker.url, N)
    with receiving(options(broker.url, tmp_path / "spool", credit=100)) as live:
        until(lambda: live.intake.progress.rows == N, "all rows", live)
        until(lambda: not live.spool.unconfirmed, "all confirmations", live)
        figures = live.figures()
    assert figures["spoolRows"] == N
    assert figures["unsettled"] == 0
    assert figures["spoolBytes"] == figures["bytes"] > N
    assert len(broker.queue("q")) == 0
    assert bodies(tmp_path / "spool") == list(range(N))


def test_there_is_one_attempt_in_settle_mode_second(broker: ThreadedBroker, tmp_path: Path) -> None:
    with receiving(options(broker.url, tmp_path / "spool")) as live:
        until(lambda: live.intake._receivers and live.intake._receivers[0].is_attached, "the link", live)
    attaches = [one for one in broker.received(Attach) if one.role is Role.RECEIVER]
    assert [one.rcv_settle_mode for one in attaches] == [ReceiverSettleMode.SECOND]


def test_a_peer_that_settles_first_is_asked_for_a_sign(broker: ThreadedBroker, tmp_path: Path) -> None:
    refused = broker.script.on(Attach, rcv_settle_mode=ReceiverSettleMode.SECOND)
    refused.refuse("amqp:not-implemented")
    publish(broker.url, N)
    with receiving(options(broker.url, tmp_path / "spool")) as live:
        until(lambda: live.intake.progress.rows == N, "all rows", live)
        until(lambda: not live.spool.unconfirmed, "all confirmations", live)
    assert refused.acted == 1
    assert len(broker.queue("q")) == 0


def test_a_batch_is_never_more_than_asked_for(broker: ThreadedBroker, tmp_path: Path) -> None:
    publish(broker.url, 100)
    given = options(broker.url, tmp_path / "spool", maxRowsPerBatch=7, maxBytesPerBatch=1000)
    with receiving(given, once=True) as live:
        until(lambda: live.is_over, "the end", live)
        ends, rows = [0], []
        while (end := live.take(ends[-1], 30, None)) > ends[-1]:
            rows.append(sum(one.rows for one in live.spool.range(ends[-1], end)))
            ends.append(end)
    assert sum(rows) == 100
    assert all(20 < count <= 30 for count in rows[:-1])


@pytest.mark.parametrize("mode", ["consume", "browse"])
def test_a_peer_that_limits_what_is_unsettled_is_emptied_all_the_same(mode: str, tmp_path: Path) -> None:
    """It answers a drain before it has sent all: at the limit it cannot."""
    with ScriptedBroker.threaded(BrokerConfig(limits=BrokerLimits(unsettled_per_link=50))) as broker:
        broker.declare_queue("q")
        publish(broker.url, N)
        with receiving(options(broker.url, tmp_path, credit=400, mode=mode), once=True) as live:
            until(lambda: live.is_over, "the end", live)
    assert sorted(bodies(tmp_path)) == list(range(N))


def test_a_peer_that_settles_while_it_answers_a_drain_is_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its limit it sends nothing, and soon nothing is unsettled any more: it has more all the same."""
    drain = OnceReceiver.drain

    async def seen_late(self: OnceReceiver, **given: Any) -> int:
        found = await drain(self, **given)
        for _ in range(500):
            if not self.end.held:
                break
            await asyncio.sleep(0.01)
        return found

    monkeypatch.setattr(OnceReceiver, "drain", seen_late)
    with ScriptedBroker.threaded(BrokerConfig(limits=BrokerLimits(unsettled_per_link=50))) as broker:
        broker.declare_queue("q")
        publish(broker.url, N)
        with receiving(options(broker.url, tmp_path, credit=400), once=True) as live:
            until(lambda: live.is_over, "the end", live)
    assert sorted(bodies(tmp_path)) == list(range(N))


def test_several_addresses_and_receivers(broker: ThreadedBroker, tmp_path: Path) -> None:
    for number, name in enumerate(("orders.a", "orders.b", "other")):
        broker.declare_queue(name)
        publish(broker.url, N, start=number * N, address=name)
    given = options(broker.url, tmp_path / "spool", address="orders.*, other", receivers=2)
    with receiving(given, once=True) as live:
        until(lambda: live.is_over, "the end", live)
        assert len(live.intake._receivers) == 6
    assert sorted(bodies(tmp_path / "spool")) == list(range(3 * N))


def test_two_streams_share_a_queue(broker: ThreadedBroker, tmp_path: Path) -> None:
    one, two = (options(broker.url, tmp_path / name, credit=20) for name in ("one", "two"))
    with receiving(one) as first, receiving(two) as second:
        until(lambda: broker.queue("q").consumers == 2, "both links")
        publish(broker.url, N)
        until(lambda: first.intake.progress.rows + second.intake.progress.rows == N, "all rows")
        assert first.intake.progress.rows
        assert second.intake.progress.rows
    assert sorted(bodies(tmp_path / "one") + bodies(tmp_path / "two")) == list(range(N))


def test_what_there_is_and_no_more(broker: ThreadedBroker, tmp_path: Path) -> None:
    publish(broker.url, N)
    given = options(broker.url, tmp_path / "spool", credit=50)
    with receiving(given, once=True) as live:
        until(lambda: live.is_over, "the end", live)
        assert live.intake.is_exhausted
    publish(broker.url, N, start=N)
    assert bodies(tmp_path / "spool") == list(range(N))
    with receiving(given, once=True) as live:
        until(lambda: live.is_over, "the end", live)
    assert bodies(tmp_path / "spool") == list(range(2 * N))


def test_what_there_is_ends_under_a_producer_that_does_not(broker: ThreadedBroker, tmp_path: Path) -> None:
    publish(broker.url, N)
    enough = threading.Event()

    def produce() -> None:
        with blocking.connect(broker.url) as connection, connection.sender("q") as sender:
            while not enough.is_set():
                sender.send_many([b"0"] * 20)

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        with receiving(options(broker.url, tmp_path / "spool", credit=10), once=True) as live:
            until(lambda: live.is_over, "the end", live)
            assert live.intake.is_exhausted
    finally:
        enough.set()
        producer.join()


def test_a_filter(broker: ThreadedBroker, tmp_path: Path) -> None:
    for number in range(10):
        broker.put("q", amqpforge.Message(b"%d" % number, application_properties={"even": number % 2 == 0}))
    with receiving(options(broker.url, tmp_path / "spool", filter="even = TRUE"), once=True) as live:
        until(lambda: live.is_over, "the end", live)
    assert bodies(tmp_path / "spool") == [0, 2, 4, 6, 8]
    assert len(broker.queue("q")) == 5


def test_copies_leave_everything_where_it_is(broker: ThreadedBroker, tmp_path: Path) -> None:
    publish(broker.url, N)
    with receiving(options(broker.url, tmp_path / "spool", mode="browse", credit=60), once=True) as live:
        until(lambda: live.is_over, "the end", live)
    assert bodies(tmp_path / "spool") == list(range(N))
    assert broker.queue("q").depth == N


def test_octets_that_are_no_message_are_kept(broker: ThreadedBroker, tmp_path: Path) -> None:
    with blocking.connect(broker.url) as connection, connection.sender("q") as sender:
        sender.send(amqpforge.Message.from_octets(b"\x00\x53", 0x7F00))
    with receiving(options(broker.url, tmp_path / "kept"), once=True) as live:
        until(lambda: live.is_over, "the end", live)
        assert live.intake.progress.rows == 1
    assert len(broker.queue("q")) == 0


def test_octets_that_are_no_message_are_rejected_if_that_is_asked_for(
    broker: ThreadedBroker, tmp_path: Path
) -> None:
    with blocking.connect(broker.url) as connection, connection.sender("q") as sender:
        sender.send(amqpforge.Message.from_octets(b"\x00\x53", 0x7F00))
        sender.send(b"1")
    given = options(broker.url, tmp_path / "spool", undecodable="reject")
    with receiving(given) as live:
        until(lambda: live.intake.progress.rejected and live.intake.progress.rows, "both", live)
        until(lambda: broker.queue("q").counters.rejected == 1, "the rejection", live)
    assert bodies(tmp_path / "spool") == [1]


# --- what goes wrong with the connection --------------------------------------------------------------------


def test_nothing_is_lost_or_doubled_by_cuts(broker: ThreadedBroker, tmp_path: Path) -> None:
    """Also of messages that nobody gave an id: the peer has kept the link."""
    with receiving(options(broker.url, tmp_path / "spool", credit=200)) as live:
        for part in range(5):
            publish(broker.url, N, start=part * N, ids=False)
            wanted = part * N + N // 3
            until(lambda wanted=wanted: live.intake.progress.rows > wanted, "some rows", live)  # type: ignore[misc]
            for connection in broker.connections:
                connection.cut()
        until(lambda: live.intake.progress.rows == 5 * N, "all rows", live)
        # The last ones may have come over a connection that was cut before they were accepted.
        until(lambda: len(broker.queue("q")) == 0, "settling", live)
        assert live.intake.progress.connections > 3
    assert sorted(bodies(tmp_path / "spool")) == list(range(5 * N))


def test_nothing_is_lost_or_doubled_by_stops(broker: ThreadedBroker, tmp_path: Path) -> None:
    publish(broker.url, 4 * N, ids=False)
    given = options(broker.url, tmp_path / "spool", credit=100)
    for _ in range(4):
        with receiving(given) as live:
            until(lambda live=live: live.intake.progress.rows > N // 2, "some rows", live)  # type: ignore[misc]
    until(lambda: broker.queue("q").consumers == 0, "the end of the links")
    with receiving(given, once=True) as live:
        until(lambda: live.is_over, "the end", live)
    assert sorted(bodies(tmp_path / "spool")) == list(range(4 * N))


def test_a_stop_waits_for_what_is_being_written(
    broker: ThreadedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes, it is accepted then: else the peer would send it again, to whom it likes."""
    cancelled, begun = threading.Event(), threading.Event()
    write = Folder.write

    def slow(self: Folder, name: str, octets: pa.Buffer) -> None:
        begun.set()
        assert cancelled.wait(60)
        write(self, name, octets)

    async def repeated(tasks: Sequence[asyncio.Task[None]]) -> None:
        async def insist() -> None:
            for _ in range(5):
                for task in tasks:
                    task.cancel()
                await asyncio.sleep(0)
            cancelled.set()

        await asyncio.gather(insist(), end_tasks(tasks))

    monkeypatch.setattr(Folder, "write", slow)
    for module in (intake, live_module):
        monkeypatch.setattr(module, "end_tasks", repeated)
    publish(broker.url, 10, ids=False)
    spool = tmp_path / "spool"
    with receiving(options(broker.url, spool)):
        assert begun.wait(60)
    assert bodies(spool) == list(range(10))
    assert len(broker.queue("q")) == 0
    assert json.loads((spool / "links.json").read_text()) == []


def test_what_the_peer_sends_again_is_known_by_its_id(broker: ThreadedBroker, tmp_path: Path) -> None:
    """The broker has forgotten the link, and never heard that the messages are accepted."""
    broker.script.on(Disposition, role=Role.RECEIVER, times=1).drop().cut()
    publish(broker.url, 50)
    broker.script.on(Attach, when=lambda seen: bool(seen.performative.unsettled)).refuse("amqp:not-found")
    with receiving(options(broker.url, tmp_path / "spool", credit=200)) as live:
        until(lambda: live.intake.progress.duplicates, "duplicates", live)
        until(lambda: len(broker.queue("q")) == 0, "settling", live)
        rows = live.intake.progress.rows
    assert rows == 50
    assert sorted(bodies(tmp_path / "spool")) == list(range(50))


def test_the_broker_is_away_for_a_while(broker: ThreadedBroker, tmp_path: Path) -> None:
    with receiving(options(broker.url, tmp_path / "spool", startTimeout=30)) as live:
        until(lambda: broker.queue("q").consumers, "the link", live)
        refuse = broker.script.on(ProtocolHeader).cut()
        for connection in broker.connections:
            connection.cut()
        until(lambda: refuse.acted > 2, "attempts", live)
        refuse.cancel()
        publish(broker.url, N)
        until(lambda: live.intake.progress.rows == N, "all rows", live)


def test_nobody_is_there(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"amqp://127.0.0.1:{free.getsockname()[1]}"
        error = failure(url, tmp_path / "spool", startTimeout=1)
    assert isinstance(error, PeerAway)
    assert "no way to receive for 1 s, which the option 'startTimeout' sets: cannot connect to" in str(error)


def test_a_peer_of_another_dialect_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            for _ in range(2):
                peer, _ = server.accept()
                with peer:
                    peer.recv(8)
                    peer.sendall(b"AMQP\x00\x00\x09\x01")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        error = failure(f"amqp://127.0.0.1:{server.getsockname()[1]}", tmp_path / "spool")
    assert isinstance(error, NegotiationFailed)
    assert "0-9-1" in str(error)


def test_a_node_that_is_not_there_is_named(broker: ThreadedBroker, tmp_path: Path) -> None:
    error = failure(broker, tmp_path / "spool", address="nowhere")
    assert isinstance(error, LinkDetached)
    assert "nowhere" in str(error)
    error = failure(broker, tmp_path / "spool", address="no*")
    assert isinstance(error, UnsuitablePeer)
    assert "no queue of the peer fits the pattern 'no*'" in str(error)


def test_a_peer_that_settles_by_itself_is_refused(broker: ThreadedBroker, tmp_path: Path) -> None:
    """The session would lose whatever is under way."""
    broker.script.before(Attach, role=Role.SENDER).replace(
        lambda seen: replace(seen.performative, snd_settle_mode=SenderSettleMode.SETTLED)
    )
    error = failure(broker, tmp_path / "spool")
    assert isinstance(error, UnsuitablePeer)
    assert "sends messages as settled" in str(error)


# --- what goes wrong with the spool -------------------------------------------------------------------------


def test_a_full_disk_ends_it_and_nothing_is_lost(
    broker: ThreadedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fsync(file: int) -> None:
        if os.readlink(f"/proc/self/fd/{file}").endswith(".arrow"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(file)

    publish(broker.url, N)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        error = failure(broker, tmp_path / "spool")
    assert isinstance(error, SpoolError)
    assert "No space left on device" in str(error)
    until(lambda: broker.queue("q").depth == N, "the return of the messages")
    with receiving(options(broker.url, tmp_path / "spool"), once=True) as live:
        until(lambda: live.is_over, "the end", live)
    assert sorted(bodies(tmp_path / "spool")) == list(range(N))


def test_a_spool_with_enough_in_it_takes_no_more(broker: ThreadedBroker, tmp_path: Path) -> None:
    publish(broker.url, N)
    given = options(broker.url, tmp_path / "spool", credit=20, spoolMaxBytes=500)
    with receiving(given) as live:
        until(lambda: live.spool.backlog[2] >= 500, "a full spool", live)
        until(lambda: broker.queue("q").depth == N - 20 - live.intake.progress.rows, "no more credit", live)
        full = live.intake.progress.rows
        assert full < N
        while live.intake.progress.rows < N:
            live.spool.commit(live.spool.next)
            live.check()
    assert sorted(bodies(tmp_path / "spool"))[-1] == N - 1


def test_a_spool_in_use_is_an_error(broker: ThreadedBroker, tmp_path: Path) -> None:
    held = Spool(Folder(tmp_path / "spool"))
    with pytest.raises(SpoolError, match="is in use by process"):
        Spool(Folder(tmp_path / "spool"), timeout=0.2)
    held.close()


def test_an_identity_is_of_the_bare_message() -> None:
    def known_by(body: bytes, **fields: object) -> bytes | None:
        return identity("q", amqpforge.Message(body, **fields).encode(), 0)  # type: ignore[arg-type]

    assert known_by(b"x") is None
    first = known_by(b"x", message_id="1")
    assert first is not None
    assert first == known_by(b"x", message_id="1", delivery_count=3, annotations={"x-opt-a": 1})
    others = [
        known_by(b"y", message_id="1"),
        known_by(b"x", message_id="2"),
        known_by(b"x", message_id=b"1"),
        identity("p", amqpforge.Message(b"x", message_id="1").encode(), 0),
        known_by(b"x", message_id="1", annotations={"x-opt-sequence-number": 5}),
    ]
    assert len({first, *others}) == 6
    assert identity("q", b"\x00", 0) is None
    assert identity("q", b"any", 7) is None
