"""What is planted in made conversations is found, and nothing in clean ones."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from amqpforge.engine.observations import Direction
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    Close,
    Detach,
    End,
    Error,
    Open,
    ProtocolHeader,
    Rejected,
    Role,
    Symbol,
    TransactionalState,
    encode_frame,
)
from tests.engine.observing import a_begin, a_flow, a_transfer, an_attach, settles
from tests.spark.analysis.observing import Row, conversation, frames, observations, observed, of

Said = tuple[Direction, Any]


def client(*said: Any) -> list[Said]:
    return [("c2s", one) for one in said]


def server(*said: Any) -> list[Said]:
    return [("s2c", one) for one in said]


def begun(window: int = 100) -> list[Said]:
    return [
        *client(ProtocolHeader(), Open(container_id="c", max_frame_size=1024)),
        *server(ProtocolHeader(), Open(container_id="s", max_frame_size=1024)),
        *client(a_begin()),
        *server(a_begin(remote_channel=0, incoming_window=window)),
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


def test_a_transport_that_ends_without_a_close(tmp_path: Path) -> None:
    (violation,) = of(found(tmp_path, *ready()), "violation")
    assert (violation["end"], violation["rule"], violation["name"]) == ("client", "close", "closed")
    assert clean(
        [row for row in observations(conversation(tmp_path, *ready(), close=False)) if row["kind"] != "owed"]
    )


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
