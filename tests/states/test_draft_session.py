"""The session machine of the early 1.0 draft against what its prose says of each state (4.2 to 4.7)."""

from __future__ import annotations

import pytest

from tests.states.drawn import IGNORED, LOCAL, SESSION

ILLEGAL = "error-code:illegal-state"

ATTACHED = ["send-attach", "receive-attach"]
PATHS = {
    "DETACHED": [],
    "ATTACH_SENT": ["send-attach"],
    "ATTACH_RCVD": ["receive-attach"],
    "ATTACHED": ATTACHED,
    "DETACH_SENT": [*ATTACHED, "send-detach"],
    "DETACH_RCVD": [*ATTACHED, "receive-detach"],
}


def test_each_path_ends_where_it_says() -> None:
    assert tuple(PATHS) == SESSION.states
    assert {state: SESSION.walk(*path) for state, path in PATHS.items()} == {state: state for state in PATHS}


def test_either_side_may_attach_and_detach_first() -> None:
    assert SESSION.walk("receive-attach", "send-attach") == "ATTACHED"
    assert SESSION.walk(*ATTACHED, "receive-detach", "send-detach") == "DETACHED"
    assert SESSION.walk(*ATTACHED, "send-detach", "receive-detach") == "DETACHED"


def test_a_detached_session_is_attached_again() -> None:
    assert SESSION.walk(*ATTACHED, "send-detach", "receive-detach", *ATTACHED) == "ATTACHED"
    assert SESSION.walk(*ATTACHED, "connection-lost", "receive-attach", "send-attach") == "ATTACHED"


def may(state: str) -> tuple[bool, bool]:
    """Whether commands may go out and come in."""
    return "send-command" in SESSION.legal(state, "send"), "receive-command" in SESSION.legal(
        state, "receive"
    )


@pytest.mark.spec("D-SESS-012")
def test_detached_allows_neither_way_and_attached_both() -> None:
    assert (may("DETACHED"), may("ATTACHED")) == ((False, False), (True, True))
    assert SESSION.walk(*ATTACHED, "send-command", "receive-command", "send-command") == "ATTACHED"
    assert SESSION.answer("ATTACHED", "receive-command") == "ATTACHED"
    assert SESSION.answer("DETACHED", "send-detach") == LOCAL
    for event in ("receive-command", "receive-detach", "receive-undecodable"):
        assert SESSION.answer("DETACHED", event) == ILLEGAL


@pytest.mark.parametrize("state", ["ATTACH_SENT", "DETACH_RCVD"])
@pytest.mark.spec("D-SESS-013")
def test_with_an_outgoing_channel_alone_commands_only_go_out(state: str) -> None:
    assert may(state) == (True, False)
    assert SESSION.answer(state, "send-command") == state
    for event in ("receive-command", "receive-detach", "receive-undecodable"):
        assert SESSION.answer(state, event) == ILLEGAL


@pytest.mark.parametrize("state", ["ATTACH_RCVD", "DETACH_SENT"])
@pytest.mark.spec("D-SESS-014")
def test_with_an_incoming_channel_alone_commands_only_come_in(state: str) -> None:
    assert may(state) == (False, True)
    assert SESSION.answer(state, "receive-command") == state
    assert {SESSION.answer(state, event) for event in ("send-command", "send-detach")} == {LOCAL}


@pytest.mark.spec("D-SESS-008")
def test_nothing_goes_out_after_detach_until_the_session_is_attached_again() -> None:
    assert SESSION.answers("DETACH_SENT", "send") == {LOCAL}
    assert SESSION.legal("DETACHED", "send") == {"send-attach"}
    for path in (PATHS["DETACH_SENT"], PATHS["DETACH_RCVD"]):
        last = "receive-detach" if path[-1] == "send-detach" else "send-detach"
        assert SESSION.walk(*path, last, "send-attach", "send-command") == "ATTACH_SENT"


@pytest.mark.spec("D-SESS-009")
def test_after_our_detach_what_comes_in_counts_until_the_peers() -> None:
    assert SESSION.walk(*PATHS["DETACH_SENT"], "receive-command", "receive-command") == "DETACH_SENT"
    assert SESSION.walk(*PATHS["DETACH_SENT"], "receive-command", "receive-detach") == "DETACHED"
    assert SESSION.answer("DETACHED", "receive-command") == ILLEGAL


def test_after_an_exception_what_comes_in_is_thrown_away() -> None:
    """Whether our detach carried an exception is not in the state: the guard says what it changes."""
    assert SESSION.guards("DETACH_SENT", "receive-command") == ("detach-was-clean",)
    assert SESSION.guards("ATTACHED", "receive-command") == ()


@pytest.mark.spec("D-SESS-010")
def test_crossing_detaches_answer_each_other() -> None:
    assert SESSION.walk(*ATTACHED, "send-detach", "receive-detach") == "DETACHED"
    assert SESSION.answer("DETACHED", "send-detach") == LOCAL
    assert SESSION.answer("DETACHED", "receive-detach") == ILLEGAL


def test_a_closing_that_only_we_asked_for_is_verified() -> None:
    assert SESSION.guards("DETACH_SENT", "receive-detach") == ("closings-agree",)
    assert SESSION.legal("DETACHED", "send") == {"send-attach"}


@pytest.mark.spec("D-SESS-015")
def test_a_session_is_attached_once() -> None:
    """Nothing but the answer to an attach, on the same connection, is an attach while a channel is held."""
    held = [state for state in SESSION.states if state != "DETACHED"]
    legal = {
        (state, event)
        for state in held
        for event in ("send-attach", "receive-attach")
        if SESSION.cells[state, event].target is not None
    }
    assert legal == {("ATTACH_SENT", "receive-attach"), ("ATTACH_RCVD", "send-attach")}
    assert SESSION.guards("ATTACH_SENT", "receive-attach") == ("on-our-connection",)
    for state in held:
        assert SESSION.answer(state, "send-attach") == ("ATTACHED" if state == "ATTACH_RCVD" else LOCAL)
        assert SESSION.answer(state, "receive-attach") == ("ATTACHED" if state == "ATTACH_SENT" else ILLEGAL)


@pytest.mark.parametrize("state", SESSION.states)
def test_losing_the_connection_detaches(state: str) -> None:
    assert SESSION.answer(state, "connection-lost") == (IGNORED if state == "DETACHED" else "DETACHED")


def test_a_detach_before_our_attach_is_held() -> None:
    assert SESSION.walk("receive-attach", "receive-command", "receive-detach") == "ATTACH_RCVD"
    assert SESSION.guards("ATTACH_RCVD", "receive-detach") == ("held-until-attach",)
    assert SESSION.walk("receive-attach", "receive-detach", "send-attach", "receive-detach") == "DETACH_RCVD"


def test_our_detach_waits_for_the_peers_attach() -> None:
    assert SESSION.answer("ATTACH_SENT", "send-detach") == LOCAL
    assert "waits" in SESSION.cells["ATTACH_SENT", "send-detach"].reason


def test_what_cannot_be_decoded_is_reported_while_a_detach_can_go_out() -> None:
    for state in ("ATTACH_RCVD", "ATTACHED"):
        assert SESSION.answer(state, "receive-undecodable") == "error-code:command-invalid"
    assert SESSION.answer("DETACH_SENT", "receive-undecodable") == IGNORED
