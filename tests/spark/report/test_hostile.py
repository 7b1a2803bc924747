"""What peers have written is no part of the page's HTML and scripts, and no longer than a page bears."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from amqpforge.spark.report import report
from amqpforge.spark.report.content import Column, Content, Conversation, Finding, Table, Tile
from amqpforge.spark.report.gather import Gathered
from amqpforge.spark.report.page import write_page
from amqpforge.spark.report.tables import tables
from amqpforge_protocol.amqp_1_0 import Close, Error, Open, Symbol, encode_frame
from tests.spark.capture.reading import from_client, saved, talk

HOSTILE = "</script></title></style><img src=x onerror=alert(1)>\"'><b>@data@&lt;\u2028\\u003c"


class Elements(HTMLParser):
    """Lists elements and their attributes, and collects the text that is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        if self.names[-1:] != ["script"]:
            self.text += data


def content(text: str) -> Content:
    """A page that has a text wherever there can be one."""
    frame: list[Any] = ["0 s", 1, 1, 0, text, text, text, text]
    return Content(
        title=text,
        subtitle=text,
        tiles=[Tile(text, text)],
        notes=[text],
        praise=text,
        findings=[Finding(text, text, 0)],
        more_findings=0,
        charts={"frames": {"data": [{"name": text}], "layout": {}}},
        tables=[Table("links", text, text, (Column(text), Column(text, "time")), [(text, text)] * 12)],
        conversations=[Conversation(text, text, text, [frame, [text]])],
    )


def parsed(folder: Path, text: str) -> tuple[Elements, dict[str, Any]]:
    page = folder / "page.html"
    write_page(content(text), page)
    octets = page.read_text(encoding="utf-8")
    elements = Elements()
    elements.feed(octets)
    found = re.search(r'id="page-data">(.*?)</script>', octets, re.DOTALL)
    assert found is not None
    return elements, json.loads(found[1])


def test_no_text_is_taken_for_html(tmp_path: Path) -> None:
    """The page has the same elements and attributes as one with a harmless text, and shows what was told."""
    plain, _ = parsed(tmp_path, "harmless")
    hostile, data = parsed(tmp_path, HOSTILE)
    assert hostile.names == plain.names
    assert hostile.attributes == plain.attributes
    assert hostile.text.count(HOSTILE) == plain.text.count("harmless") > 30
    talk = data["conversations"][0]
    assert talk["client"] == talk["frames"][0][4] == talk["frames"][1][0] == HOSTILE
    assert data["charts"]["frames"]["data"][0]["name"] == HOSTILE


def test_long_texts_of_peers_are_cut_in_tables() -> None:
    long = "n" * 100_000
    row = Row(name="close", condition=long, count=1, first=None, last=None, description=long)
    (found,) = [table for table in tables(Gathered(("a",), errors=[row]), False) if table.name == "errors"]
    assert max(len(str(cell)) for cell in found.rows[0]) < 300


@pytest.mark.spark
def test_long_fields_and_errors_are_cut_in_conversations(spark: SparkSession, tmp_path: Path) -> None:
    long = "n" * 30_000
    error = Error(condition=Symbol("x:y"), description=long)
    sent = (encode_frame(Open(container_id="c")), encode_frame(Close(error=error)))
    capture = saved(tmp_path, talk(*from_client(b"AMQP\x00\x01\x00\x00", *sent)).close().packets)
    page = tmp_path / "page.html"
    report(spark, [str(capture)], page)
    text = page.read_text(encoding="utf-8")
    found = re.search(r'id="page-data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    frames = json.loads(found[1])["conversations"][0]["frames"]
    assert [frame[4] for frame in frames] == ["header", "open", "close"]
    assert "container-id: c" in frames[1][7]
    assert frames[2][6].startswith("x:y: nnn")
    assert "too long to be shown" in frames[2][7]
    assert "n" * 1000 not in text
