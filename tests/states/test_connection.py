"""The connection machine against the state diagram and the table of legal sends and receives (2.4.7)."""

from __future__ import annotations

import pytest

from amqpforge_protocol.amqp_1_0.states import ConnectionEvent as E
from amqpforge_protocol.amqp_1_0.states import ConnectionState as S
from tests.states.walk import CONNECTION, IGNORED, LOCAL

FRAMING = "amqp:connection:framing-error"
NOT_ALLOWED = "amqp:not-allowed"
CLOSES = {E.SEND_CLOSE, E.SEND_CLOSE_ERROR}

# What led to a state, told as its definition tells it.
START: list[E] = []
HDR_RCVD = [E.RECEIVE_HEADER]
HDR_SENT = [E.SEND_HEADER]
HDR_EXCH = [E.SEND_HEADER, E.RECEIVE_HEADER]
OPEN_PIPE = [E.SEND_HEADER, E.SEND_OPEN]
OC_PIPE = [*OPEN_PIPE, E.SEND_FRAME, E.SEND_CLOSE]
OPEN_RCVD = [*HDR_EXCH, E.RECEIVE_OPEN]
OPEN_SENT = [*HDR_EXCH, E.SEND_OPEN]
CLOSE_PIPE = [*OPEN_SENT, E.SEND_FRAME, E.SEND_CLOSE]
OPENED = [*OPEN_SENT, E.RECEIVE_OPEN]
CLOSE_RCVD = [*OPENED, E.RECEIVE_CLOSE]
CLOSE_SENT = [*OPENED, E.SEND_CLOSE]
DISCARDING = [*OPENED, E.SEND_CLOSE_ERROR]
END = [*CLOSE_SENT, E.RECEIVE_CLOSE]


def row(identifier: str, path: list[E], event: E, expected: S) -> object:
    return pytest.param(path, event, expected, marks=pytest.mark.spec(identifier), id=identifier)


@pytest.mark.parametrize(
    ("path", "event", "expected"),
    [
        row("T-CONN-025", DISCARDING, E.RECEIVE_CLOSE, S.END),
        row("T-CONN-026", START, E.RECEIVE_HEADER, S.HDR_RCVD),
        row("T-CONN-027", START, E.SEND_HEADER, S.HDR_SENT),
        row("T-CONN-028", HDR_SENT, E.RECEIVE_OTHER_HEADER, S.END),
        row("T-CONN-029", HDR_SENT, E.SEND_OPEN, S.OPEN_PIPE),
        row("T-CONN-030", OPEN_PIPE, E.RECEIVE_OTHER_HEADER, S.END),
        row("T-CONN-031", HDR_RCVD, E.SEND_HEADER, S.HDR_EXCH),
        row("T-CONN-032", HDR_SENT, E.RECEIVE_HEADER, S.HDR_EXCH),
        row("T-CONN-033", OPEN_PIPE, E.SEND_CLOSE, S.OC_PIPE),
        row("T-CONN-034", HDR_EXCH, E.RECEIVE_OPEN, S.OPEN_RCVD),
        row("T-CONN-035", HDR_EXCH, E.SEND_OPEN, S.OPEN_SENT),
        row("T-CONN-036", OPEN_PIPE, E.RECEIVE_HEADER, S.OPEN_SENT),
        row("T-CONN-037", OPEN_SENT, E.SEND_CLOSE, S.CLOSE_PIPE),
        row("T-CONN-038", OC_PIPE, E.RECEIVE_OTHER_HEADER, S.END),
        row("T-CONN-039", OPEN_RCVD, E.SEND_OPEN, S.OPENED),
        row("T-CONN-040", OPEN_SENT, E.RECEIVE_OPEN, S.OPENED),
        row("T-CONN-041", OC_PIPE, E.RECEIVE_HEADER, S.CLOSE_PIPE),
        row("T-CONN-042", OPENED, E.RECEIVE_CLOSE, S.CLOSE_RCVD),
        row("T-CONN-043", OPENED, E.SEND_CLOSE, S.CLOSE_SENT),
        row("T-CONN-045", CLOSE_RCVD, E.SEND_CLOSE, S.END),
        row("T-CONN-046", CLOSE_SENT, E.RECEIVE_CLOSE, S.END),
        row("T-CONN-047", HDR_RCVD, E.SEND_OTHER_HEADER, S.END),
        row("T-CONN-048", OPENED, E.SEND_CLOSE_ERROR, S.DISCARDING),
    ],
)
def test_the_diagram(path: list[E], event: E, expected: S) -> None:
    assert CONNECTION.walk(*path, event) is expected


@pytest.mark.spec("T-CONN-044")
def test_an_early_close_waits_for_the_open() -> None:
    assert CONNECTION.walk(*CLOSE_PIPE, E.RECEIVE_OPEN) is S.CLOSE_SENT
    # Whether that close carried an error is not in the state: the guard sends the other case to DISCARDING.
    assert CONNECTION.guards[S.CLOSE_PIPE, E.RECEIVE_OPEN] == ("close-was-clean",)
    assert CONNECTION.walk(*OPEN_SENT, E.SEND_CLOSE_ERROR) is S.CLOSE_PIPE


def test_each_path_ends_where_it_says() -> None:
    paths = {
        S.START: START,
        S.HDR_RCVD: HDR_RCVD,
        S.HDR_SENT: HDR_SENT,
        S.HDR_EXCH: HDR_EXCH,
        S.OPEN_PIPE: OPEN_PIPE,
        S.OC_PIPE: OC_PIPE,
        S.OPEN_RCVD: OPEN_RCVD,
        S.OPEN_SENT: OPEN_SENT,
        S.CLOSE_PIPE: CLOSE_PIPE,
        S.OPENED: OPENED,
        S.CLOSE_RCVD: CLOSE_RCVD,
        S.CLOSE_SENT: CLOSE_SENT,
        S.DISCARDING: DISCARDING,
        S.END: END,
    }
    assert list(paths) == list(S)
    assert {state: CONNECTION.walk(*path) for state, path in paths.items()} == {state: state for state in S}


HEADERS = {E.SEND_HEADER, E.SEND_OTHER_HEADER}
FRAMES_OUT = {E.SEND_FRAME, E.SEND_EMPTY}
FRAMES_IN = {E.RECEIVE_FRAME, E.RECEIVE_EMPTY}
HEADERS_IN = {E.RECEIVE_HEADER, E.RECEIVE_OTHER_HEADER}
#: Neither is a send or receive of AMQP: what ends in them is the business of other tests.
NO_PROTOCOL = {E.RECEIVE_END, E.RECEIVE_MALFORMED}


def legal(identifier: str, path: list[E], sends: set[E], receives: set[E]) -> object:
    return pytest.param(path, sends, receives, marks=pytest.mark.spec(identifier), id=identifier)


@pytest.mark.parametrize(
    ("path", "sends", "receives"),
    [
        legal("T-CONN-049", START, {E.SEND_HEADER}, {E.RECEIVE_HEADER}),
        legal("T-CONN-050", HDR_RCVD, HEADERS, {E.RECEIVE_OPEN}),
        legal("T-CONN-051", HDR_SENT, {E.SEND_OPEN}, HEADERS_IN),
        legal("T-CONN-052", HDR_EXCH, {E.SEND_OPEN}, {E.RECEIVE_OPEN}),
        legal("T-CONN-053", OPEN_RCVD, {E.SEND_OPEN}, FRAMES_IN | {E.RECEIVE_CLOSE}),
        legal("T-CONN-054", OPEN_SENT, FRAMES_OUT | CLOSES, {E.RECEIVE_OPEN}),
        legal("T-CONN-055", OPEN_PIPE, FRAMES_OUT | CLOSES, HEADERS_IN),
        legal("T-CONN-056", CLOSE_PIPE, set(), {E.RECEIVE_OPEN}),
        legal("T-CONN-057", OC_PIPE, set(), HEADERS_IN),
        legal("T-CONN-058", OPENED, FRAMES_OUT | CLOSES, FRAMES_IN | {E.RECEIVE_CLOSE}),
        legal("T-CONN-059", CLOSE_RCVD, FRAMES_OUT | CLOSES, set()),
        legal("T-CONN-060", CLOSE_SENT, set(), FRAMES_IN | {E.RECEIVE_CLOSE}),
        legal("T-CONN-061", DISCARDING, set(), {E.RECEIVE_CLOSE}),
        legal("T-CONN-062", END, set(), set()),
    ],
)
def test_legal_sends_and_receives(path: list[E], sends: set[E], receives: set[E]) -> None:
    state = CONNECTION.walk(*path)
    assert CONNECTION.legal(state, "SEND") == sends
    assert CONNECTION.legal(state, "RECEIVE") - NO_PROTOCOL == receives
    refused = [
        CONNECTION.answer(state, event) for event in CONNECTION.events_of("SEND") if event not in sends
    ]
    assert set(refused) <= {LOCAL}


@pytest.mark.parametrize("path", [OPEN_PIPE, OPEN_SENT])
@pytest.mark.spec("T-CONN-009", "T-CONN-054", "T-CONN-055")
def test_pipelined_frames_are_legal_within_known_limits(path: list[E]) -> None:
    state = CONNECTION.walk(*path)
    for event in FRAMES_OUT:
        assert CONNECTION.answer(state, event) is state
        assert CONNECTION.guards[state, event] == ("within-known-limits",)


@pytest.mark.spec("T-CONN-050")
def test_an_open_before_our_header_is_held() -> None:
    assert CONNECTION.walk(*HDR_RCVD, E.RECEIVE_OPEN) is S.HDR_RCVD
    assert CONNECTION.guards[S.HDR_RCVD, E.RECEIVE_OPEN] == ("held-until-header",)
    # Held, and presented again once the header is out.
    assert CONNECTION.walk(*HDR_RCVD, E.RECEIVE_OPEN, E.SEND_HEADER, E.RECEIVE_OPEN) is S.OPEN_RCVD


def test_a_close_before_our_open_is_held() -> None:
    assert CONNECTION.walk(*OPEN_RCVD, E.RECEIVE_CLOSE) is S.OPEN_RCVD
    assert CONNECTION.guards[S.OPEN_RCVD, E.RECEIVE_CLOSE] == ("held-until-open",)
    assert CONNECTION.walk(*OPEN_RCVD, E.RECEIVE_CLOSE, E.SEND_OPEN, E.RECEIVE_CLOSE) is S.CLOSE_RCVD


@pytest.mark.spec("T-HDR-001")
def test_a_header_goes_out_before_any_frame() -> None:
    before = CONNECTION.before(E.SEND_HEADER, E.SEND_OTHER_HEADER)
    assert before == {S.START, S.HDR_RCVD, S.END}
    frames = [event for event in CONNECTION.events_of("SEND") if event not in HEADERS]
    assert {CONNECTION.answer(state, event) for state in before for event in frames} == {LOCAL}


@pytest.mark.spec("T-HDR-007")
def test_a_header_may_go_out_before_or_after_the_peers() -> None:
    assert CONNECTION.walk(E.RECEIVE_HEADER, E.SEND_HEADER) is S.HDR_EXCH
    assert CONNECTION.walk(E.SEND_HEADER, E.RECEIVE_HEADER) is S.HDR_EXCH


def test_octets_that_are_no_header_are_answered_by_a_header() -> None:
    assert CONNECTION.walk(E.RECEIVE_MALFORMED, E.SEND_OTHER_HEADER) is S.END
    for path in (HDR_SENT, OPEN_PIPE, OC_PIPE):
        assert CONNECTION.walk(*path, E.RECEIVE_MALFORMED) is S.END


@pytest.mark.parametrize("path", [HDR_RCVD, HDR_EXCH, OPEN_SENT, CLOSE_PIPE])
@pytest.mark.spec("T-CONN-063", "T-HDR-022")
def test_the_first_frame_that_comes_in_is_open(path: list[E]) -> None:
    state = CONNECTION.walk(*path)
    for event in (E.RECEIVE_FRAME, E.RECEIVE_EMPTY, E.RECEIVE_CLOSE):
        assert CONNECTION.answer(state, event) == NOT_ALLOWED
    assert CONNECTION.transitions[state][E.RECEIVE_OPEN] >= 0


@pytest.mark.spec("T-CONN-063", "T-IDLE-016")
def test_the_first_frame_that_goes_out_is_open() -> None:
    before = CONNECTION.before(E.SEND_OPEN)
    assert S.OPEN_RCVD in before
    assert {CONNECTION.answer(state, event) for state in before for event in FRAMES_OUT | CLOSES} == {LOCAL}


@pytest.mark.parametrize("path", [START, HDR_SENT, OPEN_PIPE, OC_PIPE])
def test_a_frame_instead_of_a_header_is_a_framing_error(path: list[E]) -> None:
    state = CONNECTION.walk(*path)
    frames = FRAMES_IN | {E.RECEIVE_OPEN, E.RECEIVE_CLOSE, E.RECEIVE_UNDECODABLE}
    assert {CONNECTION.answer(state, event) for event in frames} == {FRAMING}


@pytest.mark.parametrize("path", [HDR_EXCH, OPEN_RCVD, OPEN_SENT, OPENED])
def test_what_cannot_be_read_is_reported(path: list[E]) -> None:
    state = CONNECTION.walk(*path)
    assert CONNECTION.answer(state, E.RECEIVE_MALFORMED) == FRAMING
    assert CONNECTION.answer(state, E.RECEIVE_HEADER) == FRAMING
    assert CONNECTION.answer(state, E.RECEIVE_UNDECODABLE) == "amqp:decode-error"


@pytest.mark.parametrize("path", [OPEN_RCVD, OPENED])
def test_a_second_open_is_refused(path: list[E]) -> None:
    assert CONNECTION.answer(CONNECTION.walk(*path), E.RECEIVE_OPEN) == NOT_ALLOWED


@pytest.mark.spec("T-CONN-014", "T-IDLE-017")
def test_nothing_goes_out_after_close() -> None:
    after = CONNECTION.after(*CLOSES)
    assert after == {S.OC_PIPE, S.CLOSE_PIPE, S.CLOSE_SENT, S.DISCARDING, S.END}
    assert {answer for state in after for answer in CONNECTION.answers(state, "SEND")} == {LOCAL}


@pytest.mark.spec("T-CONN-015", "T-CONN-060")
def test_after_a_clean_close_input_is_read_until_the_peers_close() -> None:
    assert CONNECTION.walk(*CLOSE_SENT, E.RECEIVE_FRAME, E.RECEIVE_EMPTY) is S.CLOSE_SENT
    assert CONNECTION.walk(*CLOSE_SENT, E.RECEIVE_FRAME, E.RECEIVE_CLOSE) is S.END


@pytest.mark.spec("T-CONN-023")
def test_crossing_closes_answer_each_other() -> None:
    assert CONNECTION.walk(*OPENED, E.SEND_CLOSE, E.RECEIVE_CLOSE) is S.END
    assert CONNECTION.answer(S.END, E.SEND_CLOSE) == LOCAL


@pytest.mark.spec("T-CONN-024", "T-CONN-061")
def test_after_a_close_with_an_error_input_is_dropped_until_the_peers_close() -> None:
    state = CONNECTION.walk(*DISCARDING)
    for event in CONNECTION.events_of("RECEIVE"):
        expected = S.END if event in (E.RECEIVE_CLOSE, E.RECEIVE_END) else IGNORED
        assert CONNECTION.answer(state, event) == expected
    assert CONNECTION.answers(state, "SEND") == {LOCAL}


@pytest.mark.spec("T-CONN-022", "T-CONN-059")
def test_after_the_peers_close_input_is_ignored() -> None:
    assert CONNECTION.answers(CONNECTION.walk(*CLOSE_RCVD), "RECEIVE") == {IGNORED}


@pytest.mark.spec("T-CONN-021", "T-CONN-062", "T-HDR-005")
def test_the_end_drains_input_and_starts_nothing() -> None:
    for path in (END, [*HDR_SENT, E.RECEIVE_OTHER_HEADER]):
        assert CONNECTION.answers(CONNECTION.walk(*path), "RECEIVE") == {IGNORED}
    assert CONNECTION.answer(S.END, E.DROP) == IGNORED


@pytest.mark.parametrize("state", [state for state in S if state is not S.END])
def test_losing_the_transport_ends_the_connection(state: S) -> None:
    assert CONNECTION.answer(state, E.DROP) is S.END
    # After the peer's close the end of its output is no news: our own close can still go out.
    assert CONNECTION.answer(state, E.RECEIVE_END) == (IGNORED if state is S.CLOSE_RCVD else S.END)
