"""What the options of `format("amqp_capture")` say, and how they say what is wrong with them."""

from __future__ import annotations

import pytest

from amqpforge.spark.capture.options import CaptureOptions
from amqpforge.spark.options import OptionError


def fields(text: str, **said: str) -> frozenset[str] | None:
    return CaptureOptions.read({"path": "/x", "fields": text, **said}).wanted.fields


def test_fields_that_are_wanted() -> None:
    assert fields("all") is fields("") is None
    assert fields("none") == frozenset()
    assert fields(" flow,attach ") == frozenset(("flow", "attach"))
    assert fields("basic_ack", dialect="amqp_0_9_1") == frozenset(("basic_ack",))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tranfer,flow", r"'fields' names 'tranfer', which is not known; .*\. Is 'transfer' meant\?"),
        ("flow,,attach", r"'fields' is names with commas between them, none of which is empty"),
        ("flow,flow", "'fields' names 'flow' twice: once is enough"),
        ("all,flow", "'fields' names 'all', which is not known"),
        ("message", "'fields' names 'message', which is not known"),
        ("packet", "'fields' names 'packet', which is not known"),
        ("basic_ack", "'fields' names 'basic_ack', which is not known"),
    ],
)
def test_fields_that_are_wrong_are_refused_as_columns_are(text: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        fields(text)
