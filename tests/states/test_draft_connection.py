"""The connection machine of the early 1.0 draft against what its prose says of each state (3.1 to 3.6)."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.states.drawn import CONNECTION, IGNORED, LOCAL

FRAMING = "close-code:framing-error"

# What led to a state, told as its definition tells it.
START: list[str] = []
HDR_RCVD = ["receive-header"]
HDR_SENT = ["send-header"]
HEADERS = ["send-header", "receive-header"]
OPEN_PIPE = ["send-header", "send-open"]
OC_PIPE = [*OPEN_PIPE, "send-frame", "send-close"]
OPEN_RCVD = [*HEADERS, "receive-open"]
OPEN_SENT = [*HEADERS, "send-open"]
CLOSE_PIPE = [*OPEN_SENT, "send-frame", "send-close"]
OPENED = [*OPEN_SENT, "receive-open"]
CLOSE_RCVD = [*OPENED, "receive-close"]
CLOSE_SENT = [*OPENED, "send-close"]
END = [*CLOSE_SENT, "receive-close"]

FRAMES_OUT = {"send-frame", "send-empty"}
FRAMES_IN = {"receive-frame", "receive-empty"}
#: No send or receive of the protocol: what ends in them is the business of tests of their own.
NO_PROTOCOL = {"receive-end", "receive-malformed"}


def test_each_path_ends_where_it_says() -> None:
    paths = {
        "START": START,
        "HDR_RCVD": HDR_RCVD,
        "HDR_SENT": HDR_SENT,
        "OPEN_PIPE": OPEN_PIPE,
        "OC_PIPE": OC_PIPE,
        "OPEN_RCVD": OPEN_RCVD,
        "OPEN_SENT": OPEN_SENT,
        "CLOSE_PIPE": CLOSE_PIPE,
        "OPENED": OPENED,
        "CLOSE_RCVD": CLOSE_RCVD,
        "CLOSE_SENT": CLOSE_SENT,
        "END": END,
    }
    assert tuple(paths) == CONNECTION.states
    assert {state: CONNECTION.walk(*path) for state, path in paths.items()} == {
        state: state for state in paths
    }


@pytest.mark.parametrize(
    ("state", "sends", "receives"),
    [
        ("START", {"send-header"}, {"receive-header"}),
        ("HDR_RCVD", {"send-header", "send-other-header", "send-open"}, {"receive-open"}),
        ("HDR_SENT", {"send-open"}, {"receive-header", "receive-other-header"}),
        ("OPEN_PIPE", FRAMES_OUT | {"send-close"}, {"receive-header", "receive-other-header"}),
        ("OC_PIPE", set(), {"receive-header", "receive-other-header"}),
        ("OPEN_RCVD", {"send-open"}, FRAMES_IN | {"receive-close"}),
        ("OPEN_SENT", FRAMES_OUT | {"send-close"}, {"receive-open"}),
        ("CLOSE_PIPE", set(), {"receive-open"}),
        ("OPENED", FRAMES_OUT | {"send-close"}, FRAMES_IN | {"receive-close"}),
        ("CLOSE_RCVD", FRAMES_OUT | {"send-close"}, set()),
        ("CLOSE_SENT", set(), FRAMES_IN | {"receive-close"}),
        ("END", set(), set()),
    ],
)
def test_legal_sends_and_receives(state: str, sends: set[str], receives: set[str]) -> None:
    assert CONNECTION.legal(state, "send") == sends
    assert CONNECTION.legal(state, "receive") - NO_PROTOCOL == receives
    refused = CONNECTION.events_of("send") - sends
    assert {CONNECTION.answer(state, event) for event in refused} <= {LOCAL}


def test_traffic_changes_nothing() -> None:
    for state in CONNECTION.states:
        for event in (
            CONNECTION.legal(state, "send") & FRAMES_OUT | CONNECTION.legal(state, "receive") & FRAMES_IN
        ):
            assert CONNECTION.answer(state, event) == state


# -- headers


@pytest.mark.spec("D-HDR-001")
def test_a_header_goes_out_before_any_frame() -> None:
    frames = CONNECTION.events_of("send") - {"send-header", "send-other-header"}
    assert {CONNECTION.answer("START", event) for event in frames} == {LOCAL}
    # After the peer's header, whether ours is out is not in the state: the guard has open wait for it.
    assert CONNECTION.legal("HDR_RCVD", "send") & frames == {"send-open"}
    assert CONNECTION.guards("HDR_RCVD", "send-open") == ("header-is-out",)


def test_a_header_goes_out_once() -> None:
    for event in ("send-header", "send-other-header"):
        assert CONNECTION.guards("HDR_RCVD", event) == ("header-is-due",)
        others = set(CONNECTION.states) - {"START", "HDR_RCVD"}
        assert {CONNECTION.answer(state, event) for state in others} == {LOCAL}


def test_a_version_that_is_not_spoken_is_answered_by_another_and_the_end() -> None:
    assert CONNECTION.walk("receive-header", "send-other-header") == "END"
    assert CONNECTION.walk("receive-malformed", "send-other-header") == "END"
    for path in (HDR_SENT, OPEN_PIPE, OC_PIPE):
        assert CONNECTION.walk(*path, "receive-other-header") == "END"
        assert CONNECTION.walk(*path, "receive-malformed") == "END"


@pytest.mark.parametrize("state", ["START", "HDR_SENT", "OPEN_PIPE", "OC_PIPE"])
def test_a_frame_instead_of_a_header_is_a_framing_error(state: str) -> None:
    for event in (*FRAMES_IN, "receive-open", "receive-close", "receive-undecodable"):
        assert CONNECTION.answer(state, event) == FRAMING


# -- opens


@pytest.mark.spec("D-CONN-007")
def test_one_header_and_then_no_input_leads_along_the_pipeline() -> None:
    assert CONNECTION.walk("receive-header") == "HDR_RCVD"
    assert CONNECTION.walk("send-header") == "HDR_SENT"
    assert CONNECTION.walk("send-header", "send-open") == "OPEN_PIPE"
    assert CONNECTION.walk("send-header", "send-open", "send-close") == "OC_PIPE"
    assert CONNECTION.walk("send-header", "send-open", "send-frame", "send-empty", "send-close") == "OC_PIPE"


def orders() -> list[tuple[str, ...]]:
    """Every order of the full exchange in which each side sends its header ahead of its open."""
    steps = ("send-header", "send-open", "receive-header", "receive-open")
    return [
        order
        for order in permutations(steps)
        if order.index("send-header") < order.index("send-open")
        and order.index("receive-header") < order.index("receive-open")
    ]


@pytest.mark.parametrize("order", orders(), ids=" ".join)
@pytest.mark.spec("D-CONN-008")
def test_every_full_exchange_ends_opened(order: tuple[str, ...]) -> None:
    early = order[:2] == ("receive-header", "receive-open")
    if early:
        # Header and open are in, nothing is out: the open is held, and presented again behind our header.
        assert CONNECTION.guards("HDR_RCVD", "receive-open") == ("header-is-out",)
        order = ("receive-header", "send-header", "receive-open", "send-open")
    assert CONNECTION.walk(*order) == "OPENED"
    names = {
        frozenset({"send-open"}): "OPEN_SENT",
        frozenset({"receive-open"}): "OPEN_RCVD",
        frozenset({"send-open", "receive-open"}): "OPENED",
    }
    for length in range(len(order) + 1):
        done = set(order[:length])
        opens = frozenset(done & {"send-open", "receive-open"})
        if {"send-header", "receive-header"} <= done and opens:
            assert CONNECTION.walk(*order[:length]) == names[opens]


@pytest.mark.spec("D-CONN-008")
def test_a_close_ahead_of_the_peers_open_waits_in_close_pipe() -> None:
    for path in (CLOSE_PIPE, [*OC_PIPE, "receive-header"]):
        assert CONNECTION.walk(*path) == "CLOSE_PIPE"
        assert CONNECTION.walk(*path, "receive-open") == "CLOSE_SENT"
        assert CONNECTION.walk(*path, "receive-open", "receive-frame", "receive-close") == "END"


@pytest.mark.spec("D-CONN-001")
def test_open_is_the_first_frame_each_way() -> None:
    for state in ("START", "HDR_RCVD", "HDR_SENT", "OPEN_RCVD"):
        for event in (*FRAMES_OUT, "send-close"):
            assert CONNECTION.answer(state, event) == LOCAL
    for state in ("HDR_RCVD", "OPEN_SENT", "CLOSE_PIPE"):
        for event in (*FRAMES_IN, "receive-close"):
            assert CONNECTION.answer(state, event) == FRAMING
        assert "receive-open" in CONNECTION.legal(state, "receive")


@pytest.mark.parametrize("state", ["OPEN_RCVD", "OPENED"])
def test_open_comes_once(state: str) -> None:
    assert CONNECTION.answer(state, "receive-open") == FRAMING
    assert CONNECTION.answer("OPENED", "send-open") == LOCAL


@pytest.mark.parametrize("path", [OPEN_PIPE, OPEN_SENT])
@pytest.mark.spec("D-CONN-002")
def test_frames_are_pipelined_within_known_limits(path: list[str]) -> None:
    state = CONNECTION.walk(*path)
    for event in FRAMES_OUT:
        assert CONNECTION.answer(state, event) == state
        assert CONNECTION.guards(state, event) == ("within-known-limits",)
        assert CONNECTION.guards("OPENED", event) == ()


def test_a_close_before_our_open_is_held() -> None:
    assert CONNECTION.walk(*OPEN_RCVD, "receive-frame", "receive-close") == "OPEN_RCVD"
    assert CONNECTION.guards("OPEN_RCVD", "receive-close") == ("held-until-open",)
    assert CONNECTION.walk(*OPEN_RCVD, "receive-close", "send-open", "receive-close") == "CLOSE_RCVD"


# -- closes


@pytest.mark.spec("D-CONN-004")
def test_nothing_goes_out_after_close() -> None:
    after = {CONNECTION.answer(state, "send-close") for state in CONNECTION.states} - {LOCAL}
    assert after == {"OC_PIPE", "CLOSE_PIPE", "CLOSE_SENT", "END"}
    for state in CONNECTION.reached(*after):
        assert CONNECTION.answers(state, "send") == {LOCAL}


@pytest.mark.spec("D-CONN-005")
def test_after_our_close_input_is_read_until_the_peers_close() -> None:
    assert CONNECTION.walk(*CLOSE_SENT, "receive-frame", "receive-empty", "receive-frame") == "CLOSE_SENT"
    assert CONNECTION.walk(*CLOSE_SENT, "receive-frame", "receive-close") == "END"


def test_closes_may_cross() -> None:
    """The peer's close after ours is its answer or its own; either way both sides end."""
    assert CONNECTION.walk(*OPENED, "send-close", "receive-close") == "END"
    assert CONNECTION.walk(*OPENED, "receive-close", "send-close") == "END"


@pytest.mark.spec("D-CONN-009")
def test_after_the_peers_close_we_may_write_but_read_nothing() -> None:
    assert CONNECTION.walk(*CLOSE_RCVD, "send-frame", "send-empty", "send-frame") == "CLOSE_RCVD"
    assert CONNECTION.answers("CLOSE_RCVD", "receive") == {IGNORED}
    assert CONNECTION.walk(*CLOSE_RCVD, "send-frame", "send-close") == "END"


@pytest.mark.spec("D-CONN-010")
def test_nothing_is_written_or_read_at_the_end() -> None:
    assert CONNECTION.walk(*END) == "END"
    assert CONNECTION.answers("END", "send") == {LOCAL}
    assert CONNECTION.answers("END", "receive") | CONNECTION.answers("END", "local") == {IGNORED}


def test_what_comes_too_late_to_be_reported_is_ignored() -> None:
    for event in ("receive-malformed", "receive-undecodable", "receive-open", "receive-header"):
        assert CONNECTION.answer("CLOSE_SENT", event) == IGNORED


@pytest.mark.parametrize("state", ["HDR_RCVD", "OPEN_RCVD", "OPEN_SENT", "CLOSE_PIPE", "OPENED"])
def test_what_cannot_be_read_is_a_framing_error(state: str) -> None:
    for event in ("receive-malformed", "receive-undecodable", "receive-header", "receive-other-header"):
        assert CONNECTION.answer(state, event) == FRAMING


@pytest.mark.parametrize("state", [state for state in CONNECTION.states if state != "END"])
def test_losing_the_transport_ends_the_connection(state: str) -> None:
    assert CONNECTION.answer(state, "drop") == "END"
    # After the peer's close the end of its output is no news: our own close can still go out.
    assert CONNECTION.answer(state, "receive-end") == (IGNORED if state == "CLOSE_RCVD" else "END")
