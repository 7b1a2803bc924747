"""How far an end has come, when nobody saw what it saw when."""

from __future__ import annotations

from amqpforge.engine.progress import Progress
from amqpforge.engine.tables import CONNECTION, LINK
from amqpforge_protocol.amqp_1_0 import ConnectionEvent, ConnectionState, LinkEvent, LinkState


def connection() -> tuple[Progress, Progress]:
    return Progress(CONNECTION, ConnectionState.START), Progress(CONNECTION, ConnectionState.START)


def test_an_end_has_seen_no_more_than_explains_what_it_sends() -> None:
    client, server = connection()
    client.send(ConnectionEvent.SEND_HEADER, server, ConnectionEvent.RECEIVE_HEADER)
    client.send(ConnectionEvent.SEND_OPEN, server, ConnectionEvent.RECEIVE_OPEN)
    assert (client.state, server.state) == (ConnectionState.OPEN_PIPE, ConnectionState.START)
    assert server.send(ConnectionEvent.SEND_HEADER, client, ConnectionEvent.RECEIVE_HEADER) is None
    assert (server.state, server.latest) == (ConnectionState.HDR_SENT, ConnectionState.OPEN_RCVD)
    unlike = server.send(ConnectionEvent.SEND_OTHER_HEADER, client, ConnectionEvent.RECEIVE_OTHER_HEADER)
    assert unlike is not None
    assert unlike.text.startswith("connection in state OPEN_RCVD: send other header: ")
    assert (unlike.condition, server.state) == ("amqp:connection:framing-error", ConnectionState.HDR_SENT)


def test_an_unlike_header_shows_that_the_other_one_was_seen() -> None:
    client, server = connection()
    client.send(ConnectionEvent.SEND_HEADER, server, ConnectionEvent.RECEIVE_HEADER)
    server.send(ConnectionEvent.SEND_OTHER_HEADER, client, ConnectionEvent.RECEIVE_OTHER_HEADER)
    assert (server.state, client.latest) == (ConnectionState.END, ConnectionState.END)


def test_what_is_held_is_not_seen() -> None:
    client, server = connection()
    client.send(ConnectionEvent.SEND_HEADER, server, ConnectionEvent.RECEIVE_HEADER)
    client.send(ConnectionEvent.SEND_OPEN, server, ConnectionEvent.RECEIVE_OPEN)
    client.send(ConnectionEvent.SEND_CLOSE, server, ConnectionEvent.RECEIVE_CLOSE)
    assert server.latest == ConnectionState.HDR_RCVD
    again = client.send(ConnectionEvent.SEND_HEADER, server, ConnectionEvent.RECEIVE_HEADER)
    assert (again, client.state, server.state) == (None, None, None), "no state of the server can be told"


def test_what_the_other_end_takes_is_no_fault_but_sets_adrift() -> None:
    client, server = Progress(LINK, LinkState.DETACHED), Progress(LINK, LinkState.DETACHED)
    client.send(LinkEvent.SEND_ATTACH, server, LinkEvent.RECEIVE_ATTACH)
    assert client.send(LinkEvent.SEND_DETACH, server, LinkEvent.RECEIVE_DETACH) is None
    assert (client.state, client.latest, server.state, server.latest) == (None, None, None, None)
    assert server.send(LinkEvent.SEND_CLOSE, client, LinkEvent.RECEIVE_CLOSE) is None


def test_the_other_end_is_taken_as_the_sender_may_know_it() -> None:
    client, server = Progress(LINK, LinkState.DETACHED), Progress(LINK, LinkState.DETACHED)
    client.send(LinkEvent.SEND_ATTACH, server, LinkEvent.RECEIVE_ATTACH)
    server.send(LinkEvent.SEND_ATTACH, client, LinkEvent.RECEIVE_ATTACH)
    client.send(LinkEvent.SEND_DETACH, server, LinkEvent.RECEIVE_DETACH)
    server.send(LinkEvent.SEND_DETACH_ERROR, client, LinkEvent.RECEIVE_DETACH_ERROR)
    assert client.latest == LinkState.SUSPENDED
    assert client.send(LinkEvent.SEND_ATTACH, server, LinkEvent.RECEIVE_ATTACH) is None, (
        "unaware of the error"
    )
