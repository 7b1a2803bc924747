"""`amqpforge encode`, from the command line to its output."""

from __future__ import annotations

import io
import re

import pytest

from amqpforge import cli
from amqpforge_protocol.amqp_1_0 import decode_value


def encode(*argv: str, stdin: bytes = b"") -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = cli.main(["encode", *argv], io.BytesIO(stdin), out, err)
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    ("text", "octets"),
    [
        ("null", "40"),
        ("true", "41"),
        ('"abc"', "a103616263"),
        ("1", "5501"),
        ('{"type": "uint", "value": 7}', "5207"),
        ('["a", null]', "c00502a1016140"),
        ('{"type": "symbol", "value": "amqp:accepted:list"}', "a312616d71703a61636365707465643a6c697374"),
        ('{"type": "accepted", "fields": {}}', "00532445"),
        (
            '{"type": "described", "value": {"descriptor": {"type": "ulong", "value": "9"}, "value": true}}',
            "00530941",
        ),
    ],
)
def test_values_as_hexadecimal_digits(text: str, octets: str) -> None:
    assert encode(text) == (0, octets + "\n", "")
    assert encode(stdin=text.encode()) == (0, octets + "\n", "")
    assert encode("-", stdin=b"\n " + text.encode() + b"\n") == (0, octets + "\n", "")


def test_octets_as_they_are() -> None:
    buffer = io.BytesIO()
    out = io.TextIOWrapper(buffer, encoding="utf-8")
    assert (
        cli.main(
            ["encode", "--raw", '{"type": "binary", "value": "00ff0a"}'], io.BytesIO(), out, io.StringIO()
        )
        == 0
    )
    assert buffer.getvalue() == b"\xa0\x03\x00\xff\x0a"
    code, text, err = encode("--raw", "null")
    assert (code, text) == (1, "")
    assert "no octets" in err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("NaN", "NaN is no JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"type": "ubyte", "value": 256}', "ubyte"),
        ("9223372036854775808", "long"),
        ('{"type": "symbol", "value": "\\u20ac"}', "symbol"),
        ('{"type": "open", "fields": {"container-id": 5}}', "open.container-id"),
        ('{"type": "source", "fields": {"address": "\\ud800"}}', "address"),
    ],
)
def test_what_cannot_be_encoded(text: str, reason: str) -> None:
    code, out, err = encode(stdin=text.encode())
    assert (code, out) == (1, "")
    assert err.startswith("amqpforge: ")
    assert reason in err
    assert len(err.splitlines()) == 1


def test_input_that_is_not_utf_8() -> None:
    code, out, err = encode(stdin=b"\xff")
    assert (code, out) == (1, "")
    assert "utf-8" in err


def test_the_examples_of_the_help_work() -> None:
    code, out, _ = encode("--help")
    assert code == 0
    examples = re.findall(r"amqpforge encode '(.*)'$", out, re.MULTILINE)
    assert len(examples) == 2
    for example in examples:
        code, digits, err = encode(example)
        assert (code, err) == (0, "")
        assert decode_value(bytes.fromhex(digits))[1] == len(digits) // 2
