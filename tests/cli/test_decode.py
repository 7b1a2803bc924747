"""`amqpforge decode`, from the command line to its output."""

from __future__ import annotations

import builtins
import errno
import gzip
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from amqpforge import cli
from amqpforge.capture.reader import CaptureReader
from amqpforge.notation import from_json
from amqpforge.streams import Streams
from amqpforge_protocol.amqp_1_0 import decode_value, encode_value
from tests.capture import build

CAPTURES = Path(__file__).resolve().parents[1] / "data" / "captures"
SIMPLE = CAPTURES / "p10-rmq-rhea-simple-small.pcapng"
HEADER = b"AMQP\x00\x01\x00\x00"
CLOSE = b"\x00\x00\x00\x0c\x02\x00\x00\x05\x00\x53\x18\x45"
KEYS = ["time", "stream", "direction", "offset", "kind", "channel", "performative", "fields", "payload_bytes"]


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        return True


def amqpforge(
    *argv: str | Path, stdin: bytes = b"", stdout: io.StringIO | None = None
) -> tuple[int, str, str]:
    """Exit code, output and complaints of a command line."""
    out, err = stdout or io.StringIO(), io.StringIO()
    code = cli.main([str(word) for word in argv], io.BytesIO(stdin), out, err)
    return code, out.getvalue(), err.getvalue()


def objects(*argv: str | Path, stdin: bytes = b"") -> list[dict[str, Any]]:
    code, out, err = amqpforge("decode", "--json", *argv, stdin=stdin)
    assert (code, err) == (0, "")
    return [json.loads(text) for text in out.splitlines()]


# ---- text ----


def test_a_line_for_each_frame() -> None:
    code, out, err = amqpforge("decode", SIMPLE)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0] == "05:42:06.027029  0 c2s         header       SASL 1.0.0"
    assert lines[3] == (
        "05:42:06.029316  0 c2s         sasl-init    mechanism=PLAIN, "
        'initial-response=0x006775657374006775657374, hostname="127.0.0.1"'
    )
    assert lines[7] == '05:42:06.030286  0 c2s  ch 0   open         container-id="rhea-client"'
    assert lines[14] == (
        "05:42:06.036101  0 c2s  ch 0   transfer     handle=0, delivery-id=0, delivery-tag=0x30, "
        "message-format=0, settled=false, more=false  +57 octets"
    )
    assert lines[15].endswith("disposition  role=receiver, first=0, last=0, settled=true, state=accepted()")
    assert lines[-1] == "05:42:06.051932  0 s2c  ch 0   close"
    assert len(lines) == 42


def test_nothing_in_a_value_can_pass_for_the_end_of_a_line_or_for_a_terminal_control() -> None:
    evil = "a\nb\x1b[2J\u202e\x85\u2028"
    octets = encode_value(from_json({"type": "open", "fields": {"container-id": evil}}))
    frame = (len(octets) + 8).to_bytes(4, "big") + b"\x02\x00\x00\x00" + octets
    code, out, _ = amqpforge("decode", "-", stdin=HEADER + frame)
    assert code == 0
    assert len(out.splitlines()) == 2
    assert out.replace("\n", "").isprintable()
    assert r'"a\nb\u001b[2J\u202e\x85\u2028"' in out


def test_errors_are_lines_too() -> None:
    code, out, _ = amqpforge("decode", "-", stdin=HEADER + CLOSE.replace(b"\x18\x45", b"\x77\x45") + CLOSE)
    assert code == 0
    lines = out.splitlines()
    assert re.match(r"0 c2s  ch 5   ERROR        at octet 8: .*octet 16", lines[1])
    assert lines[2] == "0 c2s  ch 5   close"


def test_output_in_an_encoding_that_lacks_a_letter() -> None:
    octets = encode_value(from_json({"type": "open", "fields": {"container-id": "\u20ac"}}))
    frame = (len(octets) + 8).to_bytes(4, "big") + b"\x02\x00\x00\x00" + octets
    buffer = io.BytesIO()
    stdout = io.TextIOWrapper(buffer, encoding="ascii")
    assert cli.main(["decode", "-"], io.BytesIO(HEADER + frame), stdout, io.StringIO()) == 0
    assert rb'container-id="\u20ac"' in buffer.getvalue()


# ---- colour ----


def test_colour_where_a_person_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    code, coloured, _ = amqpforge("decode", SIMPLE, stdout=Terminal())
    _, plain, _ = amqpforge("decode", SIMPLE)
    assert code == 0
    assert "\x1b[" in coloured
    stripped = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [text.rstrip() for text in stripped.splitlines()] == plain.splitlines()


def test_without_rich_a_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_rich(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if name.partition(".")[0] == "rich":
            raise ImportError(name)
        return real(name, globals, locals, fromlist or (), level)

    monkeypatch.setattr(builtins, "__import__", without_rich)
    _, out, err = amqpforge("decode", SIMPLE, stdout=Terminal())
    assert err == ""
    assert "\x1b" not in out
    assert len(out.splitlines()) == 42


def test_json_is_never_coloured() -> None:
    assert "\x1b" not in amqpforge("decode", "--json", SIMPLE, stdout=Terminal())[1]


# ---- JSON ----


def test_an_object_for_each_frame() -> None:
    found = objects(SIMPLE)
    assert all(list(one) == KEYS for one in found)
    assert len(found) == 42
    assert found[0] == {
        "time": 1795239726.027029928,
        "stream": 0,
        "direction": "c2s",
        "offset": 0,
        "kind": "header",
        "channel": None,
        "performative": None,
        "fields": {"protocol-id": 3, "major": 1, "minor": 0, "revision": 0},
        "payload_bytes": 0,
    }
    transfer = next(one for one in found if one["performative"] == "transfer")
    assert transfer["fields"] == {
        "handle": 0,
        "delivery-id": 0,
        "delivery-tag": {"type": "binary", "value": "30"},
        "message-format": 0,
        "settled": False,
        "more": False,
    }
    assert (transfer["kind"], transfer["channel"], transfer["payload_bytes"]) == ("amqp", 0, 57)
    assert {one["kind"] for one in found} == {"header", "sasl", "amqp"}
    assert {one["channel"] for one in found if one["kind"] == "sasl"} == {None}


def test_empty_frames_and_errors_in_json() -> None:
    damaged = CLOSE.replace(b"\x18\x45", b"\x77\x45")
    found = objects("-", "--direction", "s2c", stdin=HEADER + b"\x00\x00\x00\x08\x02\x00\x00\x03" + damaged)
    assert [one["kind"] for one in found] == ["header", "empty", "error"]
    assert found[1] == {
        **dict.fromkeys(KEYS),
        "stream": 0,
        "direction": "s2c",
        "offset": 8,
        "kind": "empty",
        "channel": 3,
        "fields": {},
        "payload_bytes": 0,
    }
    assert list(found[2]) == [*KEYS, "reason"]
    assert (found[2]["offset"], found[2]["performative"], found[2]["fields"]) == (16, None, {})
    assert "octet 24" in found[2]["reason"]


@pytest.mark.parametrize(
    "name", ["p10-proton-rich-attach", "p10-proton-transaction", "p10-rhea-attach-errors"]
)
def test_encode_takes_every_value_that_decode_prints(name: str) -> None:
    with (CAPTURES / f"{name}.pcapng").open("rb") as file:
        records = [one for one in CaptureReader(file.read, remark=pytest.fail).records() if one.name]
    found = [one for one in objects(CAPTURES / f"{name}.pcapng") if one["performative"]]
    for record, one in zip(records, found, strict=True):
        for value in one["fields"].values():
            code, out, err = amqpforge("encode", json.dumps(value))
            assert (code, err) == (0, "")
            assert bytes.fromhex(out)
        whole = {"type": one["performative"], "fields": one["fields"]}
        code, out, _ = amqpforge("encode", json.dumps(whole))
        assert code == 0
        assert decode_value(bytes.fromhex(out))[0] == record.value


# ---- inputs ----


def test_several_files_number_their_streams_on() -> None:
    found = objects(SIMPLE, CAPTURES / "p10-rmq-proton-dynamic.pcapng", SIMPLE)
    assert [number for number in range(4) if any(one["stream"] == number for one in found)] == [0, 1, 2, 3]
    assert [
        one["stream"]
        for one in objects(
            "--stream", "2", "--stream", "3", SIMPLE, CAPTURES / "p10-rmq-proton-dynamic.pcapng", SIMPLE
        )
    ] == [one["stream"] for one in found if one["stream"] in (2, 3)]


def test_a_stream_that_is_not_there_is_said() -> None:
    code, out, err = amqpforge("decode", "--stream", "9", SIMPLE)
    assert (code, out) == (0, "")
    assert err.strip().endswith("there is no stream 9: 1 found, numbered from 0")


def test_one_performative_or_several() -> None:
    found = objects("--performative", "open", "--performative", "close", SIMPLE)
    assert [one["performative"] for one in found] == ["open", "open", "close", "close"]


@pytest.mark.parametrize("name", ["dump", "hex", "gzip"])
def test_forms_of_input(name: str, tmp_path: Path) -> None:
    data = {
        "dump": HEADER + CLOSE,
        "hex": (HEADER + CLOSE).hex().encode(),
        "gzip": gzip.compress(HEADER + CLOSE),
    }[name]
    path = tmp_path / "input"
    path.write_bytes(data)
    assert [one["kind"] for one in objects(path)] == ["header", "amqp"]
    assert [one["kind"] for one in objects("-", stdin=data)] == ["header", "amqp"]
    assert {one["direction"] for one in objects(path)} == {"c2s"}


def test_standard_input_that_is_text() -> None:
    out = io.StringIO()
    assert cli.main(["decode", "-"], io.StringIO((HEADER + CLOSE).hex()), out, io.StringIO()) == 0
    assert out.getvalue().splitlines()[1] == "0 c2s  ch 5   close"


def test_a_format_that_the_beginning_does_not_tell(tmp_path: Path) -> None:
    path = tmp_path / "middle.bin"
    path.write_bytes(b"\xee" * 100 + CLOSE)
    code, out, err = amqpforge("decode", path)
    assert (code, out) == (1, "")
    assert "not a capture" in err
    code, out, _ = amqpforge("decode", "--format", "raw", path)
    assert code == 0
    assert "100 octets skipped" in out
    assert "close" in out


def test_following_a_growing_file_until_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "growing.pcap"
    packets = build.Talk().handshake().send(HEADER).send(CLOSE).send(CLOSE).packets
    capture = build.pcap(packets)
    steps = [capture[:30], capture[30:-100], capture[-100:-4], b""]
    path.write_bytes(steps.pop(0))
    out, err = io.StringIO(), io.StringIO()
    seen: list[int] = []

    def wait(seconds: float) -> None:
        assert 0 < seconds < 1
        seen.append(len(out.getvalue().splitlines()))
        if not steps:
            raise KeyboardInterrupt
        with path.open("ab") as file:
            file.write(steps.pop(0))

    code = cli.run(["decode", "--follow", str(path)], Streams(io.BytesIO(), out, err, wait))
    assert code == 0
    assert seen == [0, 1, 2, 2]
    assert "left out" in err.getvalue()


def test_following_takes_one_file() -> None:
    code, _, err = amqpforge("decode", "--follow", SIMPLE, SIMPLE)
    assert code == 2
    assert "one FILE" in err


# ---- what can go wrong ----


def test_a_missing_file_does_not_keep_from_the_others(tmp_path: Path) -> None:
    code, out, err = amqpforge("decode", tmp_path / "none", SIMPLE)
    assert code == 1
    assert err == f"amqpforge: {tmp_path / 'none'}: No such file or directory\n"
    assert len(out.splitlines()) == 42


def test_a_folder_is_no_capture(tmp_path: Path) -> None:
    code, _, err = amqpforge("decode", tmp_path)
    assert code == 1
    assert "Is a directory" in err


def test_a_file_that_may_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)

    monkeypatch.setattr(io, "FileIO", refuse)
    code, out, err = amqpforge("decode", "secret")
    assert (code, out) == (1, "")
    assert err == "amqpforge: secret: Permission denied\n"


def test_an_empty_input() -> None:
    code, _, err = amqpforge("decode", "-")
    assert code == 1
    assert err == "amqpforge: standard input: the input is empty\n"


def test_a_damaged_capture_shows_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "damaged.pcap"
    path.write_bytes(build.pcap(build.Talk().handshake().send(HEADER).packets) + b"\xff" * 16)
    code, out, err = amqpforge("decode", path)
    assert code == 1
    assert "header" in out
    assert re.search(r"claims 4294967295 octets \(at octet \d+\)", err)


def test_a_truncated_capture_is_remarked_on_and_no_failure(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcapng"
    path.write_bytes(SIMPLE.read_bytes()[:-20])
    code, out, err = amqpforge("decode", path)
    assert code == 0
    assert len(out.splitlines()) >= 41
    assert "ends inside a block" in err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "FILE"),
        (["--stream", "x", "f"], "'x' is not the number of a stream"),
        (["--stream", "-1", "f"], "stream"),
        (["--direction", "up", "f"], "invalid choice"),
        (["--dialect", "amqp_1_0", "--method", "basic.publish", "f"], "'basic.publish' in AMQP 1.0"),
        (["--dialect", "amqp_2", "f"], "no dialect 'amqp_2': there are amqp_0_10_preview, amqp_0_9_1"),
        (["--performative", "tranfser", "f"], "'tranfser'; did you mean transfer or"),
        (["--nonsense", "f"], "unrecognized"),
    ],
)
def test_wrong_usage(words: list[str], complaint: str) -> None:
    code, out, err = amqpforge("decode", *words)
    assert (code, out) == (2, "")
    assert complaint in err


class Broken(io.StringIO):
    """A pipe whose reader leaves after the first line."""

    def write(self, text: str) -> int:
        if self.getvalue():
            raise BrokenPipeError
        return super().write(text)


def test_a_reader_that_leaves_is_no_failure() -> None:
    code, out, err = amqpforge("decode", SIMPLE, stdout=Broken())
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 1


def test_an_interrupt_ends_it_at_once() -> None:
    class Interrupted(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            raise KeyboardInterrupt

    code = cli.main(["decode", "-"], Interrupted(), io.StringIO(), io.StringIO())
    assert code == 130


# ---- the command itself ----


def test_help_shows_examples() -> None:
    code, out, err = amqpforge("decode", "--help")
    assert (code, err) == (0, "")
    assert "amqpforge decode --json trace.pcapng | jq" in out
    assert "payload_bytes" in out
    code, out, _ = amqpforge("--help")
    assert code == 0
    assert "decode" in out
    assert "encode" in out


def test_the_version() -> None:
    assert re.fullmatch(r"amqpforge \d+\.\d+\.\d+\S*\n", amqpforge("--version")[1])


def test_no_command_and_an_unknown_one_are_wrong_usage() -> None:
    assert amqpforge()[0] == 2
    code, out, err = amqpforge("decoed")
    assert (code, out) == (2, "")
    assert "decode" in err


def test_a_module_loads_when_its_command_is_named() -> None:
    probe = (
        "import sys; from amqpforge.cli import main; main(['--version']); "
        "heavy = ('amqpforge_protocol', 'amqpforge.commands', 'rich'); "
        "sys.exit(sum(name.startswith(heavy) for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_as_a_process_with_a_pipe_that_closes() -> None:
    command = [sys.executable, "-m", "amqpforge", "decode"]
    whole = subprocess.run([*command, str(SIMPLE)], capture_output=True, text=True, check=True)
    assert len(whole.stdout.splitlines()) == 42
    assert whole.stderr == ""
    many = [str(CAPTURES / "p10-rmq-proton-many-small.pcapng")] * 2
    with subprocess.Popen([*command, *many], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0
