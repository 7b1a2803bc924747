"""The transfer machine of the early 1.0 draft against its prose on messages over a link (5.13, 5.14)."""

from __future__ import annotations

import pytest

from tests.states.drawn import IGNORED, LOCAL, TRANSFER

SENDS = TRANSFER.events_of("send")
UNPARKS = {event for event in TRANSFER.events if event.startswith("receive-unpark-")}
PATHS = {
    "START": [],
    "TRANSFERRING": ["send-part"],
    "ACQUIRED": ["send-last"],
    "PARKED": ["send-last", "receive-park"],
    "END": ["send-last", "receive-acknowledgement"],
}


def test_each_path_ends_where_it_says() -> None:
    assert tuple(PATHS) == TRANSFER.states
    assert {state: TRANSFER.walk(*path) for state, path in PATHS.items()} == {state: state for state in PATHS}


@pytest.mark.spec("D-XFER-011")
def test_a_split_message_is_transferred_acquired_and_done_with() -> None:
    path = ["send-part", "send-part", "send-last", "receive-acknowledgement"]
    states = [TRANSFER.walk(*path[:length]) for length in range(len(path) + 1)]
    assert states == ["START", "TRANSFERRING", "TRANSFERRING", "ACQUIRED", "END"]


@pytest.mark.spec("D-XFER-011")
def test_a_whole_message_is_acquired_at_once() -> None:
    assert TRANSFER.walk("send-last") == "ACQUIRED"
    assert TRANSFER.walk("send-last", "receive-acknowledgement") == "END"


def test_parts_may_be_acknowledged_before_the_message_is_whole() -> None:
    path = ["send-part", "receive-acknowledgement", "send-part", "receive-acknowledgement"]
    assert TRANSFER.walk(*path) == "TRANSFERRING"
    assert TRANSFER.walk(*path, "send-last") == "ACQUIRED"


def test_only_what_was_begun_is_aborted() -> None:
    assert TRANSFER.walk("send-part", "send-abort") == "END"
    assert {TRANSFER.answer(state, "send-abort") for state in ("START", "ACQUIRED", "PARKED", "END")} == {
        LOCAL
    }


@pytest.mark.parametrize("state", ["ACQUIRED", "PARKED", "END"])
def test_nothing_is_sent_of_a_message_that_is_whole(state: str) -> None:
    assert TRANSFER.answers(state, "send") == {LOCAL}


def test_every_transfer_counts_against_the_limit() -> None:
    legal = {(state, event) for state in TRANSFER.states for event in TRANSFER.legal(state, "send")}
    assert len(legal) == 5
    assert {TRANSFER.guards(state, event) for state, event in legal} == {("within-limit",)}


@pytest.mark.parametrize(
    ("event", "expected"), [("receive-reject", "END"), ("receive-release", "END"), ("receive-park", "PARKED")]
)
@pytest.mark.spec("D-XFER-012")
def test_a_recipients_word_counts_only_before_the_acknowledgement(event: str, expected: str) -> None:
    assert TRANSFER.walk("send-last", event) == expected
    assert TRANSFER.answer(TRANSFER.walk("send-last", "receive-acknowledgement"), event) == IGNORED
    # The first of several transfers may be acknowledged while the message is not: the guard covers that.
    for state in ("TRANSFERRING", "ACQUIRED"):
        assert "not-acknowledged" in TRANSFER.guards(state, event)


@pytest.mark.parametrize(
    ("event", "expected"), [("receive-reject", "END"), ("receive-release", "END"), ("receive-park", "PARKED")]
)
def test_a_message_given_up_half_way_is_aborted(event: str, expected: str) -> None:
    assert TRANSFER.walk("send-part", event) == expected
    assert "abort-follows" in TRANSFER.guards("TRANSFERRING", event)
    assert "abort-follows" not in TRANSFER.guards("ACQUIRED", event)


@pytest.mark.spec("D-XFER-019")
def test_a_parked_message_is_left_to_unpark() -> None:
    for event in ("receive-reject", "receive-release", "receive-park", "receive-acknowledgement"):
        assert TRANSFER.answer("PARKED", event) == IGNORED
    assert TRANSFER.legal("PARKED", "receive") == UNPARKS
    assert {TRANSFER.answer("PARKED", event) for event in UNPARKS} == {"START", "END"}


@pytest.mark.parametrize(
    ("mode", "expected"), [("acknowledge", "END"), ("reject", "END"), ("release", "END"), ("resend", "START")]
)
def test_unpark_does_what_its_mode_says(mode: str, expected: str) -> None:
    assert TRANSFER.walk(*PATHS["PARKED"], f"receive-unpark-{mode}") == expected


def test_a_message_to_be_sent_again_begins_anew_on_a_link_that_is_there() -> None:
    assert TRANSFER.guards("PARKED", "receive-unpark-resend") == ("link-is-open",)
    again = [*PATHS["PARKED"], "receive-unpark-resend", "send-part", "send-last", "receive-acknowledgement"]
    assert TRANSFER.walk(*again) == "END"
    # What the recipient still says about the earlier sending does not touch the new one.
    assert TRANSFER.answers("START", "receive") == {IGNORED}


@pytest.mark.parametrize("state", ["TRANSFERRING", "ACQUIRED"])
def test_what_is_not_parked_is_not_unparked(state: str) -> None:
    assert {TRANSFER.answer(state, event) for event in UNPARKS} == {IGNORED}


@pytest.mark.parametrize("path", [path for state, path in PATHS.items() if state != "END"])
def test_a_transfer_is_taken_up_where_it_was_when_its_session_resumes(path: list[str]) -> None:
    assert TRANSFER.walk(*path, "session-detached") == TRANSFER.walk(*path)


def test_an_unacknowledged_message_goes_back_when_its_session_closes() -> None:
    assert TRANSFER.walk("session-closed") == "END"
    for state in ("TRANSFERRING", "ACQUIRED", "PARKED"):
        assert TRANSFER.answer(state, "session-closed") == "END"
        assert TRANSFER.guards(state, "session-closed") == ("back-at-the-node",)


def test_a_closed_link_leaves_the_recipient_its_say() -> None:
    assert TRANSFER.walk("send-last", "link-closed", "receive-acknowledgement") == "END"
    assert TRANSFER.walk(*PATHS["PARKED"], "link-closed", "receive-unpark-release") == "END"
    assert {TRANSFER.walk("link-closed"), TRANSFER.walk("send-part", "link-closed")} == {"END"}


def test_nothing_leads_out_of_the_end() -> None:
    assert TRANSFER.reached("END") == {"END"}
    assert TRANSFER.answers("END", "receive") | TRANSFER.answers("END", "local") == {IGNORED}
    assert {TRANSFER.answer("END", event) for event in SENDS} == {LOCAL}
