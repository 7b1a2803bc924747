"""Traces and recordings show what went over a connection, and no secret."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from amqpforge.capture.reader import CaptureReader
from amqpforge.capture.record import Record
from amqpforge.capture.text import line
from amqpforge.client import Reconnect, connect, tap
from amqpforge.errors import AuthenticationFailed
from amqpforge.testing import ScriptedNode
from amqpforge_protocol.amqp_1_0 import ProtocolHeader, SaslCode, SaslOutcome, decode_frame, encode_frame

from .loops import in_loop

SECRET = "open sesame"


def records_in(path: Path) -> list[Record]:
    remarks: list[str] = []
    with path.open("rb") as file:
        found = list(CaptureReader(file.read, remark=remarks.append).records())
    assert not remarks
    return found


@in_loop
async def test_each_frame_is_logged_in_the_format_of_decode(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "amqpforge.frames"):
        async with (
            ScriptedNode() as node,
            connect(node.url) as connection,
            connection.sender("q") as sender,
        ):
            await sender.send("hello")
    lines = [record.getMessage() for record in caplog.records if record.name == "amqpforge.frames"]
    found = [re.search(r"(?:c2s|s2c)\s+(?:ch \d+)?\s+(\S+)", text) for text in lines]
    names = [match[1] for match in found if match is not None]
    assert [name for name in names if name != "header"] == [
        *("sasl-mechanisms", "sasl-init", "sasl-outcome", "open", "open", "begin", "begin"),
        *("attach", "attach", "flow", "transfer", "disposition", "detach", "detach", "close", "close"),
    ]
    assert any('c2s  ch 0   open         container-id="amqpforge-' in text for text in lines)


@in_loop
async def test_the_environment_asks_for_a_trace_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("amqpforge.frames")
    monkeypatch.setenv("AMQPFORGE_TRACE", "frm")
    tap.trace_to_stderr.cache_clear()
    handlers = list(logger.handlers)
    try:
        async with ScriptedNode() as node, connect(node.url):
            pass
    finally:
        logger.handlers[:] = handlers
        logger.setLevel(logging.NOTSET)
        logger.propagate = True
        tap.trace_to_stderr.cache_clear()
    assert "header       SASL 1.0.0" in capsys.readouterr().err


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@in_loop
async def test_no_secret_is_in_a_trace_a_recording_a_log_or_a_repr(
    mechanism: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = tmp_path / "session.pcap"
    with caplog.at_level(logging.DEBUG):
        async with ScriptedNode(users={"me": SECRET}, mechanisms=[mechanism]) as node:
            url = node.url.replace("amqp://", f"amqp://me:{SECRET.replace(' ', '%20')}@")
            async with connect(url, record=path) as connection:
                shown = f"{connection!r} {connection._options!r} {connection._urls!r} {connection.url}"
            with pytest.raises(AuthenticationFailed) as caught:
                await connect(node.url, username="me", password=f"{SECRET}!", record=path)
    recorded = path.read_bytes()
    for text in (caplog.text, shown, str(caught.value), repr(caught.value)):
        assert SECRET not in text
        assert "sesame" not in text
    assert SECRET.encode() not in recorded
    assert b"(secret)" in recorded


@in_loop
async def test_a_recording_is_a_capture_that_decode_reads(tmp_path: Path) -> None:
    path = tmp_path / "session.pcap"
    async with ScriptedNode() as node:
        async with connect(node.url, record=path, reconnect=Reconnect(first_delay=0.001)) as connection:
            sender = await connection.sender("q")
            await sender.send(b"x" * 200_000)
            node.connections[0].cut()
            await sender.send("again")
        async with connect(node.url, record=str(path)):
            pass
    records = records_in(path)
    assert not [record.reason for record in records if record.kind == "error"]
    assert {record.stream for record in records} == {0, 1, 2}
    transfers = [record for record in records if record.name == "transfer"]
    assert sum(record.payload_bytes for record in transfers if record.stream == 0) > 200_000
    assert [record.direction for record in records if record.name == "open"] == ["c2s", "s2c"] * 3
    assert all(record.time is not None for record in records)
    assert "open" in str(line(next(record for record in records if record.name == "open")))


def test_octets_that_are_no_frames_are_shown_as_they_are() -> None:
    seen: list[bytes] = []

    class Sink:
        def octets(self, direction: str, time_ns: int, octets: bytes) -> None:
            seen.append(octets)

        def close(self) -> None:
            seen.append(b"closed")

    taps = tap.Tap([Sink()])
    taps.received(b"HTTP/1.1 ")
    taps.received(b"400")
    taps.ended()
    taps.sent(b"x")
    assert seen == [b"HTTP/1.1 ", b"400", b"closed"]


def test_only_sasl_frames_are_changed_and_only_what_they_carry() -> None:
    header = ProtocolHeader().encode()
    assert tap.redacted(header) == header
    plain = encode_frame(SaslOutcome(code=SaslCode.OK))
    assert tap.redacted(plain) == plain
    told = encode_frame(SaslOutcome(code=SaslCode.OK, additional_data=b"v=proof"))
    assert decode_frame(tap.redacted(told))[0].performative == SaslOutcome(
        code=SaslCode.OK, additional_data=b"(secret)"
    )
    assert tap.redacted(told[:12] + b"\xff" + told[13:]) == b""
