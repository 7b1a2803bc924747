"""`amqpforge report`: the page says what the captures hold, needs nothing else, and looks as it should."""

from __future__ import annotations

import io
import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from amqpforge.capture.reader import CaptureReader
from amqpforge.cli import main
from tests.spark.analysis.observing import observations, of
from tests.spark.report.browser import document, picture

pytestmark = pytest.mark.spark

Reported = tuple[Path, subprocess.CompletedProcess[str]]


def _data(page: Path) -> dict[str, Any]:
    found = re.search(r'id="page-data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def _records(capture: Path) -> list[tuple[str, bool, int | None]]:
    with capture.open("rb") as file:
        return [
            (record.name or record.kind, record.direction == "c2s", record.channel)
            for record in CaptureReader(file.read, remark=list[str]().append).records()
        ]


def test_progress_goes_to_standard_error_and_the_name_to_standard_output(reported: Reported) -> None:
    page, ran = reported
    assert ran.stdout == f"{page}\n"
    steps = re.findall(r"^\[(\d)/8\] (.+) \.\.\. [\d.]+ s$", ran.stderr, re.MULTILINE)
    assert [int(number) for number, _ in steps] == list(range(1, 9))
    assert steps[0][1] == "starting Spark"
    assert len(ran.stderr.splitlines()) == 8


def test_a_conversation_has_the_frames_that_decode_shows(reported: Reported, captures: list[Path]) -> None:
    drawn = [
        [(frame[4], bool(frame[2]), frame[3]) for frame in talk["frames"] if len(frame) > 1]
        for talk in _data(reported[0])["conversations"]
    ]
    assert len(drawn) == len(captures)
    for capture in captures:
        assert _records(capture) in drawn


def test_errors_are_told_as_they_were_captured(reported: Reported) -> None:
    frames = [frame for talk in _data(reported[0])["conversations"] for frame in talk["frames"]]
    errors = [frame[6] for frame in frames if len(frame) > 1 and frame[6]]
    assert any("com.example:bad: cannot process" in error for error in errors)


def test_redeliveries_are_listed(reported: Reported, captures: list[Path]) -> None:
    """Each message that was delivered before, with its link and how often."""
    seen = [row for capture in captures for row in of(observations(capture), "redelivery")]
    text = reported[0].read_text(encoding="utf-8")
    table = re.search(r'id="rows-redeliveries">.*?<tbody>(.*?)</tbody>', text, re.DOTALL)
    assert table is not None
    rows = re.findall(r"<tr>(.*?)</tr>", table[1], re.DOTALL)
    assert len(rows) == len(seen) > 0
    for one in seen:
        assert any(f">{one['link']}<" in row and f'"{one["delivery_count"]}"' in row for row in rows)


def test_nothing_is_fetched(reported: Reported) -> None:
    """No element of the page refers to another file, and its policy forbids the scripts to."""

    class Links(HTMLParser):
        found: list[str]

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.found += [value or "" for name, value in attrs if name in ("src", "href", "data", "action")]

    parser = Links()
    parser.found = []
    text = reported[0].read_text(encoding="utf-8")
    parser.feed(text)
    assert [link for link in parser.found if not link.startswith("#")] == []
    assert "default-src 'none'" in text


def test_a_browser_draws_all_of_it(reported: Reported, tmp_path: Path) -> None:
    """Plots, the sequence chart with its errors in red, dark text on white: seen in a picture of the page."""
    page = reported[0]
    html = document(page, tmp_path)
    assert 'data-ready="yes"' in html
    assert len(re.findall(r'class="main-svg"', html)) >= len(_data(page)["charts"]) >= 3
    whole = picture(page, tmp_path, 1400, 3000)
    seen = whole.colours()
    total = sum(seen.values())
    assert (whole.width, whole.height) == (1400, 3000)
    # The frames' bars, in the colour of transfers; ink; and more white than all else.
    assert seen.get((0x2F, 0x5F, 0x9E), 0) > 200
    assert seen.get((0x1B, 0x1F, 0x24), 0) > 200
    assert seen.get((255, 255, 255), 0) > total / 3
    style = "section, header, nav, .tiles { display: none } section#conversations { display: block }"
    chart = picture(page, tmp_path, 1400, 2600, f"{style} #sequence-scroll {{ max-height: none }}").colours()
    assert chart.get((0xA8, 0x20, 0x1A), 0) > 10


def test_tables_sort_both_ways(reported: Reported, tmp_path: Path) -> None:
    """A click on a heading of numbers puts the most first, a second one the least."""
    click = "document.querySelectorAll('#rows-frames th')[1].querySelector('button').click();"
    orders = []
    for clicks in (1, 2):
        html = document(reported[0], tmp_path, click * clicks)
        table = re.search(r'id="rows-frames">(.*?)</table>', html, re.DOTALL)
        assert table is not None
        orders.append(
            [int(row) for row in re.findall(r'<tr><td>[^<]*</td><td[^>]*data-value="(\d+)"', table[1])]
        )
    assert orders[0] == sorted(orders[0], reverse=True)
    assert orders[1] == sorted(orders[0])
    assert len(set(orders[0])) > 3


def test_another_connection_can_be_chosen(reported: Reported, tmp_path: Path) -> None:
    data = _data(reported[0])
    script = (
        "const list = document.getElementById('conversation'); list.value = '1';"
        "list.dispatchEvent(new Event('change'));"
        "document.querySelectorAll('g.frame')[0].dispatchEvent(new Event('click'));"
    )
    html = document(reported[0], tmp_path, script)
    assert html.count('class="frame') == len(data["conversations"][1]["frames"])
    assert re.search(r'id="detail"[^>]*>header', html)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent.pcapng"], "absent.pcapng"),
        (["here.pcapng", "-o", "nowhere/page.html"], "there is no folder"),
        (["here.pcapng", "-o", "."], "is a folder: name the file"),
        (["here.pcapng"], "here.pcapng: not a capture"),
        (["."], "here.pcapng: not a capture"),
    ],
)
def test_what_cannot_be_done_is_said_before_spark_starts(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (tmp_path / "here.pcapng").write_text("no capture\n", encoding="utf-8")
    stdout, stderr = io.StringIO(), io.StringIO()
    assert main(["report", *arguments], stdout=stdout, stderr=stderr) == 1
    assert said in stderr.getvalue()
    assert stdout.getvalue() == ""


@pytest.mark.parametrize("arguments", [["--cores", "0"], ["--memory", "much"], ["--dialect", "amqp_2_0"], []])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    paths = ["here.pcapng"] if arguments else []
    assert main(["report", *arguments, *paths]) == 2
    assert "usage: amqpforge report" in capsys.readouterr().err
