"""What is planted in made conversations is found, and nothing in clean ones."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from amqpforge.engine.observations import Direction, Rule
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpValue,
    Close,
    Detach,
    End,
    Error,
    Header,
    Message,
    Open,
    ProtocolHeader,
    ProtocolId,
    Rejected,
    Role,
    SaslResponse,
    SenderSettleMode,
    Symbol,
    TransactionalState,
    encode_frame,
    encode_message,
)
from tests.engine.observing import a_begin, a_detach, a_flow, a_transfer, an_attach, settles
from tests.spark.analysis.observing import Row, conversation, frames, observations, observed, of

Said = tuple[Direction, Any]
SASL = ProtocolHeader(protocol_id=ProtocolId.SASL)


def client(*said: Any) -> list[Said]:
    return [("c2s", one) for one in said]


def server(*said: Any) -> list[Said]:
    return [("s2c", one) for one in said]


def opened(**fields: Any) -> list[Said]:
    return [
        *client(ProtocolHeader(), Open(container_id="c", max_frame_size=1024, **fields)),
        *server(ProtocolHeader(), Open(container_id="s", max_frame_size=1024, **fields)),
    ]


def begun(window: int = 100, **fields: Any) -> list[Said]:
    return [
        *opened(),
        *client(a_begin(**fields)),
        *server(a_begin(remote_channel=0, incoming_window=window, **fields)),
    ]


def ready(credit: int = 10, *, window: int = 100, **attach: Any) -> list[Said]:
    """A connection, a session, a link from the client to the server, and credit."""
    return [
        *begun(window),
        *client(an_attach("out", 0, Role.SENDER, **attach)),
        *server(an_attach("out", 0, Role.RECEIVER, **attach), granted(credit, window=window)),
    ]


def granted(credit: int, *, count: int = 0, seen: int = 0, window: int = 100) -> Any:
    return a_flow(
        handle=0, link_credit=credit, delivery_count=count, next_incoming_id=seen, incoming_window=window
    )


def over() -> list[Said]:
    return [*client(Close()), *server(Close())]


def found(folder: Path, *said: Said) -> list[Row]:
    return observations(conversation(folder, *said))


def clean(found: list[Row]) -> bool:
    return not [row for row in found if row["kind"] in ("violation", "unknown", "owed")]


def test_a_clean_conversation(tmp_path: Path) -> None:
    seen = found(
        tmp_path,
        *ready(),
        *client(a_transfer(0), a_transfer(1, settled=True), a_transfer(2)),
        *server(settles(0, state=Accepted())),
        *server(settles(2, state=Rejected(error=Error(condition=Symbol("amqp:decode-error"))))),
        *client(Detach(handle=0, closed=True)),  # type: ignore[arg-type]
        *server(Detach(handle=0, closed=True)),  # type: ignore[arg-type]
        *client(End()),
        *server(End()),
        *over(),
    )
    assert clean(seen)
    deliveries = sorted(of(seen, "delivery"), key=lambda one: one["delivery_id"])
    assert [(one["outcome"], one["octets"], one["transfers"], one["is_settled"]) for one in deliveries] == [
        ("accepted", 5, 1, True),
        ("pre-settled", 5, 1, True),
        ("rejected", 5, 1, True),
    ]
    assert {(one["sender"], one["link"], one["source"], one["target"]) for one in deliveries} == {
        ("client", "out", "q", "q")
    }
    # A packet comes a microsecond after the other: three for each of the two.
    assert [one["seconds"] for one in deliveries] == [pytest.approx(3e-6), 0.0, pytest.approx(2e-6)]
    assert deliveries[0]["settled"] - deliveries[0]["began"] == timedelta(microseconds=3)
    (link,) = of(seen, "link")
    assert (link["deliveries"], link["octets"], link["most_unsettled"], link["unsettled"]) == (3, 15, 2, 0)
    assert dict(link["outcomes"]) == {"accepted": 1, "pre-settled": 1, "rejected": 1}
    (session,) = of(seen, "session")
    assert (session["client_transfers"], session["client_octets"], session["server_transfers"]) == (3, 15, 0)
    (connection,) = of(seen, "connection")
    assert (connection["client"], connection["server"]) == ("192.0.2.1:50000", "192.0.2.2:5672")
    assert (connection["client_container"], connection["server_container"]) == ("c", "s")
    assert (connection["client_closed"], connection["most_unsettled"]) == (True, 2)


PLANTED: dict[str, tuple[list[Said], str, str, str | None]] = {
    # What is said; who is to blame, for what; the frame that did it.
    "beyond credit": (
        [*ready(1), *client(a_transfer(0), a_transfer(1))],
        "client",
        "link-credit",
        "transfer",
    ),
    "beyond the window": (
        [*ready(10, window=1), *client(a_transfer(0), a_transfer(1))],
        "client",
        "session-window",
        "transfer",
    ),
    "delivery-id left out": (
        [*ready(), *client(a_transfer(0), a_transfer(5))],
        "client",
        "delivery-id",
        "transfer",
    ),
    "tag used twice": (
        [*ready(), *client(a_transfer(0), a_transfer(1, delivery_tag=b"0"))],
        "client",
        "delivery-tag",
        "transfer",
    ),
    "unattached handle": (
        [*ready(), *client(a_transfer(0, handle=7))],
        "client",
        "unattached-handle",
        "transfer",
    ),
    "handle in use": (
        [*ready(), *client(an_attach("other", 0, Role.SENDER))],
        "client",
        "handle-in-use",
        "attach",
    ),
    "frame too large": (
        [*ready(), *client((a_transfer(0)[0], bytes(2000)))],
        "client",
        "max-frame-size",
        "transfer",
    ),
    "message too large": (
        [*ready(max_message_size=4), *client(a_transfer(0))],
        "client",
        "max-message-size",
        "transfer",
    ),
    "disposition of nothing": (
        [*ready(), *server(settles(3, state=Accepted()))],
        "server",
        "disposition",
        "disposition",
    ),
    "delivery-id missing": (
        [*ready(), *client(a_transfer(None, delivery_tag=b"0"))],
        "client",
        "field",
        "transfer",
    ),
    "transfers that disagree": (
        [*ready(), *client(a_transfer(0, more=True), a_transfer(None, delivery_id=1))],
        "client",
        "transfer",
        "transfer",
    ),
    "transfer of a receiver": (
        [*ready(), *server(a_transfer(0))],
        "server",
        "unattached-handle",
        "transfer",
    ),
    "transfer without a source": (
        [*ready(source=None), *client(a_transfer(0))],
        "client",
        "terminus",
        "transfer",
    ),
    "settled too late": (
        [*ready(snd_settle_mode=SenderSettleMode.SETTLED), *client(a_transfer(0))],
        "client",
        "settle-mode",
        "transfer",
    ),
    "flow of what was not sent": (
        [*ready(), *client(a_transfer(0), a_flow(next_outgoing_id=5))],
        "client",
        "flow-state",
        "flow",
    ),
    "flow that saw too much": (
        [*ready(), *client(a_transfer(0)), *server(granted(5, count=2, seen=1))],
        "server",
        "flow-state",
        "flow",
    ),
    "flow without a delivery-count": (
        [*ready(), *client(a_flow(handle=0))],
        "client",
        "field",
        "flow",
    ),
    "handle above the maximum": (
        [*begun(handle_max=1), *client(a_flow(), an_attach("late", 3, Role.SENDER))],
        "client",
        "handle-max",
        "attach",
    ),
    "link attached twice": (
        [*ready(), *client(an_attach("out", 1, Role.SENDER))],
        "client",
        "state",
        "attach",
    ),
    "after the detach": (
        [*ready(), *client(a_detach(closed=True), a_transfer(0))],
        "client",
        "unattached-handle",
        "transfer",
    ),
    "after the end": (
        [*begun(), *client(End(), a_flow())],
        "client",
        "unmapped-channel",
        "flow",
    ),
    "channel in use": ([*begun(), *client(a_begin())], "client", "state", "begin"),
    "answer to no begin": (
        [*begun(), *server(encode_frame(a_begin(remote_channel=3), 1))],
        "server",
        "unmapped-channel",
        "begin",
    ),
    "channel above the maximum": (
        [*opened(channel_max=1), *client(encode_frame(a_begin(), 2))],
        "client",
        "channel-max",
        "begin",
    ),
    "ahead of the open": ([*client(ProtocolHeader(), a_begin())], "client", "state", "begin"),
    "opened twice": ([*opened(), *client(Open(container_id="c"))], "client", "state", "open"),
    "SASL out of order": (
        [*client(SASL), *server(SASL), *client(SaslResponse(response=b""))],
        "client",
        "sasl",
        "sasl-response",
    ),
    "unmapped channel": ([*ready()[:4], *client(a_transfer(0))], "client", "unmapped-channel", "transfer"),
    "after the close": ([*ready(), *over(), *client(Close())], "client", "state", "close"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_violation_is_found_with_its_frame(name: str, tmp_path: Path) -> None:
    said, end, rule, frame = PLANTED[name]
    path = conversation(tmp_path, *said)
    (violation,) = [
        row
        for row in observations(path)
        if row["kind"] == "violation" and row["violation"]["rule"] != "close"
    ]
    assert (violation["violation"]["end"], violation["violation"]["rule"]) == (end, rule)
    assert violation["violation"]["name"] == frame
    table = frames(path).to_pylist()
    (culprit,) = [
        row
        for row in table
        if (row["packet"], row["direction"], row["offset"])
        == (violation["packet"], violation["direction"], violation["offset"])
        and row["kind"] != "end"
    ]
    assert culprit["name"] == frame
    assert violation["packet"] == 3 + len(said)
    assert violation["frame"] == len(said)


def test_every_rule_is_planted() -> None:
    """But for those of which the next two tests are."""
    assert {rule for _, _, rule, _ in PLANTED.values()} == {*Rule} - {Rule.CLOSE, Rule.IDLE}


def test_a_transport_that_ends_without_a_close(tmp_path: Path) -> None:
    (violation,) = of(found(tmp_path, *ready()), "violation")
    assert (violation["end"], violation["rule"], violation["name"]) == ("client", "close", "closed")
    assert clean(
        [row for row in observations(conversation(tmp_path, *ready(), close=False)) if row["kind"] != "owed"]
    )


def test_silence(tmp_path: Path) -> None:
    """The client says nothing for a minute, and the server can bear a second."""
    said = [*opened(idle_time_out=1000), *server(encode_frame(None))]
    table = frames(conversation(tmp_path, *said, close=False))
    later = [0] * (len(said) - 1) + [60_000_000] * (len(table) - len(said) + 1)
    micros = table.column("time").cast("int64").to_pylist()
    moved = [time + more for time, more in zip(micros, later, strict=True)]
    times = pa.array(moved, pa.int64()).cast(table.schema.field("time").type)
    late = table.set_column(table.schema.get_field_index("time"), "time", times)
    assert [one["rule"] for one in of(observed(table), "violation")] == []
    assert {(one["end"], one["rule"]) for one in of(observed(late), "violation")} >= {
        ("client", "idle-time-out")
    }


def test_redeliveries(tmp_path: Path) -> None:
    """By the header of the message, which the last transfer completes, and by the flag of a resumption."""
    again = encode_message(Message(header=Header(delivery_count=2), body=AmqpValue("again")))
    first = encode_message(Message(header=Header(durable=True), body=AmqpValue("first")))
    seen = found(
        tmp_path,
        *ready(),
        *client((a_transfer(0)[0], first), (a_transfer(1, more=True)[0], again[:7])),
        *client((a_transfer(None)[0], again[7:]), (a_transfer(2, resume=True)[0], first)),
        *over(),
    )
    named = ("sender", "link", "source", "target", "delivery_id", "delivery_tag", "delivery_count", "resumed")
    assert [tuple(one[name] for name in named) for one in of(seen, "redelivery")] == [
        ("client", "out", "q", "q", 1, b"1", 2, False),
        ("client", "out", "q", "q", 2, b"2", 0, True),
    ]
    assert [one["redeliveries"] for one in of(seen, "connection")] == [2]
    plain = found(tmp_path, *ready(), *client((a_transfer(0)[0], first)), *over())
    assert [one["redeliveries"] for one in of(plain, "connection")] == [0]
    assert [one["redeliveries"] for one in of(found(tmp_path, *ready(), *over()), "connection")] == [None]


def test_starvation_from_the_last_credit_to_the_next(tmp_path: Path) -> None:
    seen = found(
        tmp_path,
        *ready(2),
        *client(a_transfer(0, settled=True), a_transfer(1, settled=True)),
        *client(encode_frame(None), encode_frame(None)),
        *server(granted(5, count=2, seen=2)),
        *client(a_transfer(2, settled=True)),
        *over(),
    )
    assert clean(seen)
    first, second = of(seen, "starvation")
    assert (first["seconds"], first["sent_after"]) == (pytest.approx(1e-6), pytest.approx(1e-6))
    assert (second["sender"], second["link"]) == ("client", "out")
    assert (second["seconds"], second["sent_after"]) == (pytest.approx(3e-6), pytest.approx(1e-6))
    assert [(one["before"], one["credit"]) for one in of(seen, "credit")] == [(0, 2), (1, 0), (0, 5)]


def test_credit_that_never_comes(tmp_path: Path) -> None:
    seen = found(tmp_path, *ready(1), *client(a_transfer(0)), *over())
    last = of(seen, "starvation")[-1]
    assert (last["ended"], last["seconds"], last["sent_after"]) == (None, None, None)


def test_a_window_that_is_used_up(tmp_path: Path) -> None:
    seen = found(
        tmp_path,
        *ready(10, window=2),
        *client(a_transfer(0, settled=True), a_transfer(1, settled=True), encode_frame(None)),
        *server(granted(8, count=2, seen=2, window=2)),
        *client(a_transfer(2, settled=True)),
        *over(),
    )
    assert clean(seen)
    (stall,) = of(seen, "stall")
    assert (stall["sender"], stall["seconds"]) == ("client", pytest.approx(2e-6))
    assert stall["sent_after"] == pytest.approx(1e-6)


def test_deliveries_that_nobody_settles(tmp_path: Path) -> None:
    seen = found(
        tmp_path,
        *ready(),
        *client(a_transfer(0), a_transfer(1)),
        *server(settles(0, state=Accepted())),
        *over(),
    )
    deliveries = {one["delivery_id"]: one for one in of(seen, "delivery")}
    assert (deliveries[0]["outcome"], deliveries[0]["is_settled"]) == ("accepted", True)
    assert (deliveries[1]["outcome"], deliveries[1]["is_settled"], deliveries[1]["seconds"]) == (
        "none",
        False,
        None,
    )
    (link,) = of(seen, "link")
    assert (link["unsettled"], link["most_unsettled"]) == (1, 2)


def test_an_outcome_in_a_transaction(tmp_path: Path) -> None:
    state = TransactionalState(txn_id=b"t", outcome=Accepted())
    seen = found(tmp_path, *ready(), *client(a_transfer(0)), *server(settles(0, state=state)), *over())
    assert [one["outcome"] for one in of(seen, "delivery")] == ["accepted"]


def test_errors_of_links_and_sessions(tmp_path: Path) -> None:
    lost = Error(condition=Symbol("amqp:link:stolen"), description="another one has it")
    gone = Error(condition=Symbol("amqp:session:window-violation"))
    seen = found(
        tmp_path,
        *ready(),
        *server(Detach(handle=0, closed=True, error=lost)),  # type: ignore[arg-type]
        *client(Detach(handle=0, closed=True), End()),  # type: ignore[arg-type]
        *server(End(error=gone)),
        *over(),
    )
    assert clean(seen)
    (link,), (session,) = of(seen, "link"), of(seen, "session")
    assert (link["condition"], link["description"]) == ("amqp:link:stolen", "another one has it")
    assert session["condition"] == "amqp:session:window-violation"


def test_what_was_captured_from_the_middle_blames_nobody(tmp_path: Path) -> None:
    said = [*ready()[5:], *client(a_transfer(40), a_transfer(41))]
    seen = observations(conversation(tmp_path, *said, handshake=False, close=False))
    assert not of(seen, "violation")
    assert [one["is_settled"] for one in of(seen, "delivery")] == [False, False]
    assert of(seen, "unknown")


def test_connections_one_behind_the_other_are_told_apart(tmp_path: Path) -> None:
    clean_one = frames(conversation(tmp_path, *ready(), *over()))
    wrong_one = frames(conversation(tmp_path, *ready(0), *client(a_transfer(0)), *over()))
    streams = pa.array([1] * len(wrong_one), pa.int64())
    second = wrong_one.set_column(wrong_one.schema.get_field_index("stream"), "stream", streams)
    table = pa.concat_tables([clean_one, second])
    rows = observed(table, 3)
    assert [row["stream"] for row in rows if row["kind"] == "connection"] == [0, 1]
    assert [(row["stream"], row["violation"]["rule"]) for row in rows if row["kind"] == "violation"] == [
        (1, "link-credit")
    ]
