"""The foreign peers cross each other: what the harness says of them is what happens.

Each scenario is played by each client with each server, and some of them with RabbitMQ; our own side comes in
the other modules of this folder.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop import stacks
from tests.interop.certificates import Certificates
from tests.interop.conftest import StartClient, StartServer
from tests.interop.handles import ForeignClient, ForeignServer, Handle
from tests.interop.payload import digest
from tests.interop.processes import GRACE_SECONDS, ChildError, child
from tests.interop.rabbitmq import IDLE_TIME_OUT, Broker
from tests.interop.results import (
    Answer,
    Message,
    Outcome,
    PeerError,
    Problem,
    ReceiverMode,
    SenderMode,
)
from tests.interop.stacks import KINDS, Kind, client_of, need, server_of

pytestmark = pytest.mark.interop

MEBIBYTE = 1 << 20
FRAME = 1 << 16
ANSWERS = [
    Answer("accepted"),
    Answer("rejected", Problem("amqp:not-allowed", "not today")),
    Answer("released"),
    Answer("modified", None, True, False, {"x-opt-why": "tired"}),
    Answer("modified", None, True, True),
]
ECHOING_CHILD = [sys.executable, "-c", "print(input()); import sys; sys.stderr.write('oh dear\\n')"]


class Pair(NamedTuple):
    client: ForeignClient
    server: ForeignServer
    client_kind: Kind
    server_kind: Kind


@pytest.fixture(scope="module", params=list(product(KINDS, KINDS)), ids="-to-".join)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """A client that is connected to a server."""
    client_kind, server_kind = request.param
    with client_of(client_kind) as client, server_of(server_kind) as server:
        client.connect(server.listen(max_frame_size=FRAME), container_id="the client")
        yield Pair(client, server, client_kind, server_kind)


def expected(answer: Answer) -> Outcome:
    return Outcome(
        answer.name,
        True,
        answer.error,
        answer.delivery_failed,
        answer.undeliverable_here,
        answer.message_annotations,
    )


# --- crossings ----------------------------------------------------------------------------------------------


def test_both_ends_tell_what_the_open_said(pair: Pair) -> None:
    [opened] = pair.server.clients()
    assert (opened.container_id, opened.hostname, opened.mechanism) == (
        "the client",
        "127.0.0.1",
        "ANONYMOUS",
    )


@pytest.mark.parametrize("receiver_mode", ["first", "second"])
@pytest.mark.parametrize("mode", ["unsettled", "settled", "mixed"])
def test_every_settle_mode_works(pair: Pair, mode: SenderMode, receiver_mode: ReceiverMode) -> None:
    address = f"{mode}-{receiver_mode}"
    sent = pair.client.send(address, 4, mode=mode, receiver_mode=receiver_mode)
    assert (sent.attached.snd_settle_mode, sent.attached.rcv_settle_mode) == (mode, receiver_mode)
    pair.server.settle(address)

    settled = {"unsettled": [False] * 4, "settled": [True] * 4, "mixed": [False, True, False, True]}[mode]
    assert [outcome.name for outcome in sent.outcomes] == [None if each else "accepted" for each in settled]
    assert [outcome.settled for outcome in sent.outcomes] == [
        each or receiver_mode == "first" for each in settled
    ]
    taken = pair.server.take(address, 4)
    assert [message.settled for message in taken] == settled
    assert [message.properties["message_id"] for message in taken] == ["m-0", "m-1", "m-2", "m-3"]

    pair.server.put(address, 4)
    receipt = pair.client.receive(address, 4, mode=mode, receiver_mode=receiver_mode)
    assert [message.settled for message in receipt.messages] == [mode == "settled"] * 4
    assert receipt.resettled == (4 if receiver_mode == "second" and mode != "settled" else 0)
    pair.server.settle(address)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer.name}-{answer.undeliverable_here}")
def test_every_outcome_arrives(pair: Pair, answer: Answer) -> None:
    address = f"outcome-{ANSWERS.index(answer)}"
    pair.server.answer(address, answer)
    assert pair.client.send(address).outcomes == [expected(answer)]
    assert pair.server.depth(address) == (answer.name == "accepted")

    back = f"{address}-back"
    pair.server.put(back)
    pair.client.receive(back, answer=answer)
    assert pair.server.told(back, 1) == [expected(answer)]
    stays = answer.name == "released" or (answer.name == "modified" and not answer.undeliverable_here)
    assert pair.server.depth(back) == stays
    if stays:
        [again] = pair.server.take(back)
        assert again.header.get("delivery_count", 0) == answer.delivery_failed


def test_a_message_keeps_what_it_says(pair: Pair) -> None:
    message = Message(
        text="häuslich",
        kind="value",
        message_id="id-{}",
        header={"durable": True, "priority": 7, "ttl": 60_000},
        properties={"subject": "s", "correlation_id": "c", "content_type": "text/plain", "group_id": "g"},
        application_properties={"number": 7, "word": "w", "truth": True},
        message_annotations={"x-opt-note": "n"},
    )
    pair.client.send("rich", 1, message)
    [taken] = pair.server.take("rich")
    assert (taken.body.kind, taken.body.text) == ("value", "häuslich")
    assert {key: taken.header[key] for key in message.header} == message.header
    assert taken.properties == {**message.properties, "message_id": "id-0"}
    assert taken.application_properties == message.application_properties
    assert taken.message_annotations == message.message_annotations


def test_ten_mebibytes_go_both_ways(pair: Pair) -> None:
    size = 10 * MEBIBYTE
    pair.client.send("big", 1, Message(size=size))
    [taken] = pair.server.take("big")
    assert (taken.body.size, taken.body.sha256) == (size, digest(0, size))
    pair.server.put("big", 1, Message(size=size))
    [received] = pair.client.receive("big").messages
    assert received.body.sha256 == digest(0, size)


def test_credit_windows_and_many_links(pair: Pair) -> None:
    pair.server.put("many", 300)
    receipt = pair.client.receive("many", 300, credit=7)
    assert [message.properties["message_id"] for message in receipt.messages] == [
        f"m-{n}" for n in range(300)
    ]
    links = pair.client.links("links", 100)
    assert (links.opened, links.accepted, links.closed, links.error) == (100, 100, 100, None)


def test_draining_returns_the_credit(pair: Pair) -> None:
    pair.server.put("drained", 3)
    receipt = pair.client.drain("drained", 10)
    assert (len(receipt.messages), receipt.credit) == (3, 0)


def test_browsing_leaves_the_messages(pair: Pair) -> None:
    pair.server.put("browsed", 3)
    assert len(pair.client.receive("browsed", 3, copy=True).messages) == 3
    assert pair.server.depth("browsed") == 3


def test_dynamic_sources_and_replies(pair: Pair) -> None:
    dynamic = pair.client.dynamic(2)
    assert len(dynamic.messages) == 2
    pair.server.echo("echo")
    replies = pair.client.request("echo", 3)
    assert replies.address != dynamic.address
    assert [each.properties["correlation_id"] for each in replies.messages] == ["m-0", "m-1", "m-2"]

    pair.server.put("requests", 2, Message(properties={"reply_to": "replies"}))
    assert len(pair.client.respond("requests", 2)) == 2
    assert [each.properties["correlation_id"] for each in pair.server.take("replies", 2)] == ["m-0", "m-1"]


def test_a_null_target_address_relays(pair: Pair) -> None:
    pair.client.send(None, 1, Message(properties={"to": "elsewhere"}))
    assert pair.server.depth("elsewhere") == 1


def test_refusals_say_what_was_refused(pair: Pair) -> None:
    pair.server.refuse("locked", "amqp:unauthorized-access", "no key")
    for attempt in (lambda: pair.client.send("locked"), lambda: pair.client.receive("locked")):
        with pytest.raises(PeerError) as refused:
            attempt()
        error = refused.value
        assert (error.where, error.condition, error.description) == (
            "link",
            "amqp:unauthorized-access",
            "no key",
        )


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "rollback"])
def test_transactions_are_where_the_stacks_have_them(pair: Pair, commit: bool) -> None:
    address = f"transaction-{commit}"
    pair.server.put(address, 3)
    if (pair.client_kind, pair.server_kind) != ("proton", "proton"):
        with pytest.raises(PeerError) as refused:
            pair.client.transaction(address, sends=1)
        where, condition = refused.value.where, refused.value.condition
        assert (where, condition) == (
            ("link", "amqp:not-implemented") if pair.client_kind == "proton" else ("unsupported", None)
        )
        return
    done = pair.client.transaction(address, sends=1, accepts=2, commit=commit)
    assert [each and each.name for each in (*done.sent, done.discharge)] == ["accepted", "accepted"]
    assert [each.properties["message_id"] for each in done.messages] == ["m-0", "m-1"]
    pair.server.settle(address)
    left = pair.server.take(address, pair.server.depth(address))
    expected_ids = ["m-2", "m-0"] if commit else ["m-0", "m-1", "m-2"]
    assert [each.properties["message_id"] for each in left] == expected_ids


def test_a_wait_ends_at_its_deadline(pair: Pair) -> None:
    with pytest.raises(PeerError, match="1 messages from nothing") as overdue:
        pair.client.receive("nothing", seconds=0.2)
    assert overdue.value.where == "deadline"
    pair.client.send("afterwards")  # the client is not the worse for it


@pytest.mark.parametrize("server_kind", KINDS)
@pytest.mark.parametrize("client_kind", KINDS)
def test_errors_from_the_server_and_idleness(
    start_client: StartClient, start_server: StartServer, client_kind: Kind, server_kind: Kind
) -> None:
    client, server = start_client(client_kind), start_server(server_kind)
    client.connect(server.listen(idle_time_out=1000), idle_time_out=1000)
    idle = client.idle(0.8)
    assert idle.is_open
    assert idle.octets_in >= 8
    assert idle.octets_out >= 8
    server.disconnect("amqp:connection:forced", "closing time")
    with pytest.raises(PeerError, match="closing time") as closed:
        client.send("q")
    assert (closed.value.where, closed.value.condition) == ("connection", "amqp:connection:forced")
    assert server.clients() == []


@pytest.mark.parametrize("server_kind", KINDS)
@pytest.mark.parametrize("client_kind", KINDS)
def test_tls_and_mechanisms(
    start_client: StartClient,
    start_server: StartServer,
    client_kind: Kind,
    server_kind: Kind,
    certificates: Certificates,
) -> None:
    client, server = start_client(client_kind), start_server(server_kind)
    client.connect(server.listen(), mechanism=None)
    client.close()
    url = server.listen(scheme="amqps", certificates=certificates, asks_certificate=True)
    client.connect(url, mechanism="EXTERNAL", certificates=certificates, shows_certificate=True)
    assert server.clients()[-1].mechanism == "EXTERNAL"
    client.close()
    with pytest.raises(PeerError, match="certificate"):
        client.connect(url, mechanism="EXTERNAL", certificates=certificates)
    if server_kind == "proton":
        with pytest.raises(PeerError, match="Cyrus"):
            server.listen(users={"ann": "secret"})
        return
    url = server.listen(users={"ann": "secret"})
    client.connect(url, mechanism="PLAIN", user="ann", password="secret")
    assert server.clients()[-1].user == "ann"
    client.close()
    with pytest.raises(PeerError) as refused:
        client.connect(url, mechanism="PLAIN", user="ann", password="wrong")
    assert (refused.value.where, refused.value.condition) == ("transport", "amqp:unauthorized-access")


def test_rhea_speaks_through_websockets(start_client: StartClient, start_server: StartServer) -> None:
    client, server = start_client("rhea"), start_server("rhea")
    client.connect(server.listen(scheme="amqp+ws"))
    client.send("q")
    assert server.depth("q") == 1
    client.close()


# --- RabbitMQ -----------------------------------------------------------------------------------------------


def test_rabbitmq_serves_foreign_clients(foreign_client: ForeignClient, broker: Broker) -> None:
    address = broker.declare("harness")
    opened = foreign_client.connect(broker.url, mechanism="PLAIN", user="guest", password="guest")
    assert (opened.properties["product"], opened.idle_time_out) == ("RabbitMQ", IDLE_TIME_OUT)
    assert [each.name for each in foreign_client.send(address, 3).outcomes] == ["accepted"] * 3
    assert broker.depth("harness") == 3
    receipt = foreign_client.receive(address, 3)
    assert [each.properties["message_id"] for each in receipt.messages] == ["m-0", "m-1", "m-2"]
    foreign_client.close()
    assert broker.depth("harness") == 0


def test_rabbitmq_lets_certificates_in(
    foreign_client: ForeignClient, broker: Broker, certificates: Certificates
) -> None:
    address = broker.declare("secured")
    foreign_client.connect(
        broker.tls_url, mechanism="EXTERNAL", certificates=certificates, shows_certificate=True
    )
    foreign_client.send(address, 1, Message(text="hello"))
    found = broker.get("secured")
    assert found is not None
    assert found[0] == b"hello"
    assert broker.get("secured") is None
    broker.publish("secured", b"welcome", content_type="text/plain")
    [received] = foreign_client.receive(address).messages
    assert (received.body.text, received.properties["content_type"]) == ("welcome", "text/plain")


# --- the harness itself -------------------------------------------------------------------------------------


def test_a_missing_peer_skips_unless_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    need(None)
    monkeypatch.delenv(stacks.REQUIRED_VARIABLE, raising=False)
    with pytest.raises(pytest.skip.Exception, match="no such stack"):
        need("no such stack")
    monkeypatch.setenv(stacks.REQUIRED_VARIABLE, "1")
    with pytest.raises(pytest.fail.Exception, match="no such stack"):
        need("no such stack")


def test_a_child_that_ends_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    with child("echo", ECHOING_CHILD, cwd=tmp_path) as echo:
        with pytest.raises(ChildError, match="answered"):
            Handle(echo).ask("anything")
        with pytest.raises(ChildError, match=r"(?s)ended with status 0.*oh dear"):
            Handle(echo).ask("anything")


def test_what_is_said_to_a_child_that_has_ended_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    with child("echo", ECHOING_CHILD, cwd=tmp_path) as echo:
        echo.say("anything")
        assert echo.hear(GRACE_SECONDS) == "anything"
        with pytest.raises(ChildError, match="ended with status 0"):
            echo.hear(GRACE_SECONDS)
        with pytest.raises(ChildError, match=r"(?s)ended with status 0.*oh dear"):
            echo.say("anything")


def test_a_silent_child_is_an_error_and_is_ended(tmp_path: Path) -> None:
    with child("mute", [sys.executable, "-c", "input(); input()"], cwd=tmp_path) as mute:
        mute.say(json.dumps({}))
        with pytest.raises(ChildError, match="said nothing"):
            mute.hear(0.05)
        assert mute.is_running
    assert not mute.is_running


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ChildError, match="did not start"), child("ghost", ["/no/such/program"], cwd=tmp_path):
        pass
