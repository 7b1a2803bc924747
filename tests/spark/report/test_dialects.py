"""Reports on other dialects than AMQP 1.0, on several, and on nothing."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from amqpforge.spark.report import NotReported, report
from amqpforge_protocol import amqp_0_10_preview as preview
from amqpforge_protocol import amqp_1_0_draft as draft
from tests.spark.capture.reading import FOLDER, from_client, saved, talk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Frame = list[Any]


def _page(spark: SparkSession, folder: Path, *captures: Path, dialect: str | None = None) -> str:
    page = folder / "page.html"
    report(spark, [str(path) for path in captures], page, dialect=dialect)
    text = page.read_text(encoding="utf-8")
    return text[: text.index("<script>")] + text[text.rindex("<script>") :]


def _frames(page: str) -> list[Frame]:
    found = re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return [
        frame for talk in json.loads(found[1])["conversations"] for frame in talk["frames"] if len(frame) > 1
    ]


def _tile(page: str, label: str) -> str:
    found = re.search(rf"<b>([^<]*)</b><span>{label}</span>", page)
    assert found is not None, label
    return found[1]


def test_methods_are_found_out_and_shown(spark: SparkSession, tmp_path: Path) -> None:
    """Without being told the dialect: fields, errors in red, redeliveries; and what is not known is said."""
    page = _page(spark, tmp_path, FOLDER / "p091-pika-return.pcapng", FOLDER / "p091-pyamqp-errors.pcapng")
    frames = _frames(page)
    assert any(frame[4] == "basic.publish" and "routing-key=" in frame[5] for frame in frames)
    errors = {(frame[4], frame[6]) for frame in frames if frame[6]}
    assert ("basic.return", "312: NO_ROUTE") in errors
    assert any(name == "channel.close" and text.startswith("404: NOT_FOUND") for name, text in errors)
    assert int(_tile(page, "errors told")) == sum(bool(frame[6]) for frame in frames)
    assert _tile(page, "redeliveries") == "0"
    assert "violations are found out for amqp_1_0 only" in page
    assert not re.search("violations? of the protocol", page)
    assert "PLAIN" in page, "octets that are a text are read as one"
    assert "(not shown)" in page
    assert "guest" not in "".join(frame[7] for frame in frames if frame[4] == "connection.start-ok")


def test_the_dialect_that_was_asked_for_is_shown_and_the_other_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    web = saved(tmp_path, talk(("c2s", b"GET / HTTP/1.1\r\n\r\n")).close().packets)
    captures = (FOLDER / "p091-pika-basic.pcapng", FOLDER / "p10-rhea-settled.pcapng", web)
    page = _page(spark, tmp_path, *captures, dialect="amqp_1_0")
    assert "1 other connection was captured with nothing that can be read as AMQP" in page
    assert _tile(page, "connections") == "2"
    assert re.search(
        r"frames are on connections of amqp_0_9_1\..*amqpforge report --dialect amqp_0_9_1", page
    )
    frames = _frames(page)
    assert any(frame[4] == "transfer" and "delivery-id" in frame[5] for frame in frames)
    assert any(frame[4] == "basic.publish" and "routing-key" not in frame[5] for frame in frames)


def test_the_preview(spark: SparkSession, tmp_path: Path) -> None:
    start = preview.ConnectionStart(
        version_major=99, version_minor=0, server_properties={}, mechanisms=b"PLAIN", locales=b"en_US"
    )
    closed = preview.SessionClosed(reply_code=404, reply_text="no such queue")
    made = talk(
        ("c2s", preview.PROTOCOL_HEADER),
        ("s2c", preview.encode_frame(start)),
        ("c2s", preview.encode_frame(preview.ExecutionFlush(), channel=1)),
        ("s2c", preview.encode_frame(closed, channel=1)),
    )
    page = _page(spark, tmp_path, saved(tmp_path, made.close().packets))
    frames = _frames(page)
    assert [frame[4] for frame in frames] == [
        *("header", "connection.start", "execution.flush", "session.closed")
    ]
    assert [frame[6] for frame in frames if frame[6]] == ["404: no such queue"]


def test_the_draft(spark: SparkSession, tmp_path: Path) -> None:
    items: list[draft.ConnectionOpen | draft.LinkTransfer | draft.ConnectionClose] = [
        draft.ConnectionOpen(container_id="c", channel_max=7),
        draft.LinkTransfer(handle=1, payload=b"p" * 40, redelivered=True),
        draft.ConnectionClose(close_code=draft.CloseCode.FRAMING_ERROR, close_text="what is that"),
    ]
    frames = [draft.encode_frame(item, channel=0) for item in items]
    made = talk(*from_client(draft.PROTOCOL_HEADER, *frames))
    page = _page(spark, tmp_path, saved(tmp_path, made.close().packets))
    drawn = _frames(page)
    assert [frame[4] for frame in drawn][1:] == ["connection.open", "link.transfer", "connection.close"]
    assert "container-id=c" in drawn[1][5]
    assert [frame[6] for frame in drawn if frame[6]] == ["framing-error: what is that"]
    assert _tile(page, "redelivery") == "1"


@pytest.mark.parametrize(
    ("octets", "said"),
    [
        (b"", "empty.pcapng"),
        (b"no capture at all, but some words", r"empty\.pcapng: not a capture: .*; name captures one by one"),
        (gzip.compress(b"no capture either"), r"empty\.pcapng: not a capture: "),
    ],
)
def test_what_is_no_capture_is_named(octets: bytes, said: str, spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "empty.pcapng"
    path.write_bytes(octets)
    with pytest.raises(NotReported, match=said) as raised:
        _page(spark, tmp_path, path)
    assert "\n" not in str(raised.value) or not octets
    assert "pathGlobFilter" not in str(raised.value)
    assert not (tmp_path / "page.html").exists()


def test_a_capture_without_amqp(spark: SparkSession, tmp_path: Path) -> None:
    path = saved(tmp_path, talk(("c2s", b"GET / HTTP/1.1\r\n\r\n")).close().packets)
    with pytest.raises(NotReported, match=r"no AMQP connection was found in .*made\.pcapng"):
        _page(spark, tmp_path, path)
