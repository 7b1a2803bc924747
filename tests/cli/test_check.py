"""`amqpforge decode --check`, from the command line to its output."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from amqpforge import cli
from amqpforge.capture.check import Checked, Checker
from amqpforge.capture.record import Record
from amqpforge.commands import decode
from amqpforge.engine.observations import Rule
from amqpforge_protocol import amqp_1_0
from amqpforge_protocol.amqp_1_0 import (
    Close,
    Open,
    ProtocolHeader,
    Role,
    encode_frame,
)
from tests.engine.observing import a_begin, a_flow, an_attach

CAPTURES = Path(__file__).resolve().parents[1] / "data" / "captures"
SIMPLE = CAPTURES / "p10-rmq-rhea-simple-small.pcapng"
FAULTY = CAPTURES / "p10-rhea-transfer-before-attach.pcapng"
SEVERAL = CAPTURES / "p10-rmq-proton-attach-errors.pcapng"
OTHER = CAPTURES / "p091-pika-get.pcapng"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "checking.md"
HEADER = ProtocolHeader().encode()


def amqpforge(*argv: str | Path, stdin: bytes = b"") -> tuple[int, str, str]:
    """Exit code, output and complaints of a command line."""
    out, err = io.StringIO(), io.StringIO()
    code = cli.main([str(word) for word in argv], io.BytesIO(stdin), out, err)
    return code, out.getvalue(), err.getvalue()


def check(*argv: str | Path, stdin: bytes = b"") -> tuple[int, list[dict[str, Any]]]:
    """Exit code and summaries of a check that shows no frames."""
    code, out, err = amqpforge("decode", "--check", "--quiet", "--json", *argv, stdin=stdin)
    assert err == ""
    return code, [json.loads(line) for line in out.splitlines()]


def test_behind_the_frames_stands_the_summary() -> None:
    _, frames, _ = amqpforge("decode", SIMPLE)
    code, out, err = amqpforge("decode", "--check", SIMPLE)
    assert (code, err) == (0, "")
    assert out.startswith(frames)
    assert out.removeprefix(frames).splitlines() == [
        'stream 0: client "rhea-client" 17 frames, server "cap-lab" 21 frames, 0.024903 s',
        "  SASL PLAIN: ok",
        "  client closed, server closed",
        "  sessions 1, links 2, deliveries 12",
        "  accepted 12, unsettled 0; settled after 0.001005 s on average, 0.001787 s at most",
        '  link "0bb0e3a7-4b15-0f4d-8e11-cf810742d474" client to server to "/queue/rs1s": '
        "deliveries 6, 960 octets, accepted 6, unsettled 0",
        '  link "77f42c68-299b-4842-9e27-601725403a86" server to client from "/queue/rs1s": '
        "deliveries 6, 961 octets, accepted 6, unsettled 0",
    ]


def test_violations_name_the_line_and_the_time_of_their_frame() -> None:
    code, out, _ = amqpforge("decode", "--check", FAULTY)
    assert code == 1
    lines = out.splitlines()
    (found,) = [line for line in lines if "unattached-handle" in line]
    frame = int(found.split("frame ")[1].split()[0])
    time = lines[frame - 1].split()[0]
    assert "transfer     handle=1" in lines[frame - 1]
    assert found == (
        f"  VIOLATION  frame {frame}  {time}  server ch 0: unattached-handle: "
        "a transfer names handle 1, which is not attached (amqp:session:unattached-handle)"
    )


def test_the_frames_of_each_stream_are_numbered_by_themselves() -> None:
    code, summaries = check(SEVERAL)
    assert code == 1
    assert [summary["stream"] for summary in summaries] == [0, 1, 2, 3]
    found = summaries[1]["seen_violations"][0]
    _, out, _ = amqpforge("decode", "--json", "--stream", "1", SEVERAL)
    record = json.loads(out.splitlines()[found["frame"] - 1])
    assert record["performative"] == "close"
    assert record["time"] == found["time"]


def test_only_the_summary() -> None:
    code, out, _ = amqpforge("decode", "--check", "--quiet", SIMPLE)
    assert code == 0
    assert out.startswith("stream 0: ")
    assert " c2s " not in out


def test_a_selection_of_frames_does_not_change_what_is_checked() -> None:
    _, whole, _ = amqpforge("decode", "--check", "--quiet", FAULTY)
    code, out, _ = amqpforge("decode", "--check", "--performative", "open", FAULTY)
    assert code == 1
    assert len(out.splitlines()) == len(whole.splitlines()) + 2
    assert out.endswith(whole)


def test_only_the_streams_that_are_wanted_are_checked() -> None:
    code, summaries = check("--stream", "3", SEVERAL)
    assert [summary["stream"] for summary in summaries] == [3]
    assert (code, summaries[0]["violations"]) == (1, 1)


def test_as_json() -> None:
    code, out, _ = amqpforge("decode", "--check", "--json", CAPTURES / "p10-rhea-attach-errors.pcapng")
    assert code == 0
    *frames, summary = [json.loads(line) for line in out.splitlines()]
    assert len(frames) == 48
    assert summary["kind"] == "check"
    assert summary["sasl"] == {"mechanism": "ANONYMOUS", "code": "ok"}
    assert summary["server"]["error"] == {
        "condition": "amqp:connection:framing-error",
        "description": "connection refused",
    }
    assert (summary["sessions"], summary["links"], summary["deliveries"]) == (6, 6, 0)
    assert (summary["settle_seconds"], summary["slowest_seconds"]) == (None, None)
    assert [link["refused"] for link in summary["seen_links"]] == [True, True, True, True, False, True]
    assert summary["seen_links"][0]["error"]["condition"] == "amqp:unauthorized-access"


def test_every_key_is_documented() -> None:
    _, (summary,) = check(FAULTY)
    keys = {*summary}
    for name in ("seen_links", "seen_violations", "client"):
        value = summary[name]
        keys |= {*(value[0] if isinstance(value, list) else value)}
    words = set(decode.EPILOG.replace(",", " ").replace(":", " ").replace(";", " ").split())
    assert keys <= words


def test_an_early_end_of_a_stream_without_an_open() -> None:
    code, (summary,) = check(CAPTURES / "p10-proton-rhea-badauth.pcapng")
    assert code == 0
    assert summary["sasl"] == {"mechanism": "PLAIN", "code": "auth"}
    _, out, _ = amqpforge("decode", "--check", "--quiet", CAPTURES / "p10-proton-rhea-badauth.pcapng")
    assert "  client did not open, server did not open" in out


def test_a_dump_of_one_direction() -> None:
    frames: list[Any] = [Open(container_id="x"), a_begin(), an_attach("out", 0, Role.SENDER)]
    dump = HEADER + b"".join(encode_frame(frame, 0) for frame in frames)
    code, (summary,) = check("-", stdin=dump)
    assert (code, summary["violations"], summary["owed"]) == (0, 0, [])
    code, (summary,) = check("-", stdin=dump + encode_frame(a_flow(handle=3), 0))
    assert (code, summary["violations"]) == (1, 1)
    assert summary["seen_violations"][0]["time"] is None
    closed = dump + encode_frame(Close(), 0) * 2
    code, out, _ = amqpforge("decode", "--check", "--quiet", "-", stdin=closed)
    assert code == 1
    assert out.splitlines()[-1] == "  VIOLATION  frame 6  client: state: nothing follows a close"


def test_what_cannot_be_read_is_unknown() -> None:
    damaged = encode_frame(Open(container_id="x"), 0).replace(b"\x53\x10", b"\x53\x77")
    code, (summary,) = check("-", stdin=HEADER + damaged + encode_frame(Close(), 0))
    assert (code, summary["violations"]) == (0, 0)
    assert [(found["frame"], found["end"]) for found in summary["unknown"]] == [(2, "client")]


def test_from_the_middle() -> None:
    frames = encode_frame(a_flow(), 3) + encode_frame(a_flow(handle=1), 3)
    code, out, _ = amqpforge("decode", "--check", "--quiet", "-", stdin=frames)
    assert code == 0
    assert out.splitlines()[3:] == [
        "  unknown  frame 1  client: the connection began before the capture",
        "  unknown  frame 1  client: unknown session on channel 3",
        "  unknown  frame 2  client: unknown link with handle 1 on channel 3",
    ]


def test_nothing_in_a_summary_can_pass_for_the_end_of_a_line_or_for_a_terminal_control() -> None:
    evil = "a\nb\x1b[2J\u202e"
    frames: list[Any] = [
        Open(container_id=evil),
        a_begin(),
        an_attach(evil, 0, Role.SENDER),
        an_attach(evil, 1, Role.SENDER),
    ]
    _, out, _ = amqpforge(
        "decode",
        "--check",
        "--quiet",
        "-",
        stdin=HEADER + b"".join(encode_frame(frame, 0) for frame in frames),
    )
    assert out.replace("\n", "").isprintable()
    assert len(out.splitlines()) == 4


def test_other_protocols_are_not_checked() -> None:
    code, out, err = amqpforge("decode", "--check", "--quiet", OTHER, SIMPLE)
    assert code == 0
    assert out.startswith("stream 1: ")
    assert err.startswith("amqpforge: not checked: ")
    assert "frames of other protocols" in err


def test_a_damaged_capture_is_summed_up_as_far_as_it_goes(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pcapng"
    damaged.write_bytes(SIMPLE.read_bytes() + b"\xff" * 40)
    code, out, err = amqpforge("decode", "--check", "--quiet", damaged)
    assert code == 1
    assert out.startswith("stream 0: ")
    assert "VIOLATION" not in out
    assert "damaged.pcapng" in err


def test_quiet_alone_is_wrong_usage() -> None:
    code, _, err = amqpforge("decode", "--quiet", SIMPLE)
    assert code == 2
    assert "--quiet needs --check" in err


def test_a_name_that_is_none_is_wrong_usage_even_if_nothing_is_shown() -> None:
    code, _, err = amqpforge("decode", "--check", "--quiet", "--performative", "opne", SIMPLE)
    assert code == 2
    assert "opne" in err


def test_more_connections_than_are_followed_at_a_time() -> None:
    concluded: list[Checked] = []
    checker = Checker(concluded.append)
    for stream in range(1500):
        checker.take(Record(stream, stream, "c2s", 0, "empty", 0, dialect=amqp_1_0))
    assert [checked.stream for checked in concluded] == list(range(1500 - 1024))
    checker.finish()
    assert (len(concluded), checker.connections) == (1500, 1500)


def test_the_example_of_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PAGE.parents[1])
    block = PAGE.read_text(encoding="utf-8").split("```console\n$ amqpforge ")[1].split("```")[0]
    command, _, shown = block.partition("\n")
    assert amqpforge(*command.split()) == (1, shown, "")


@pytest.mark.parametrize("rule", Rule)
def test_every_rule_is_documented(rule: Rule) -> None:
    assert f"| `{rule}` |" in PAGE.read_text(encoding="utf-8")
