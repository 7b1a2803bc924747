"""Facts carry over from the documents the definitions were drawn from; sentences do not."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree

import amqpforge_spec

#: Shortest run of words that counts as copied; fixed phrases ("32-bit RFC 1982 serial number") are shorter.
RUN = 8
SEEDS = ("000", "001", "002", "003", "004")
PROSE_ATTRIBUTES = ("label", "title", "reason")

MARKUP = re.compile(r"<[^<>]*>")
CROSS_REFERENCE = re.compile(r"""<xref\b[^<>]*\bname="([^"]*)"[^<>]*>""")

Run = tuple[str, ...]


def words(text: str) -> list[str]:
    """The words of ``text``, without case, punctuation and line breaks."""
    return re.findall(r"[a-z0-9]+", html.unescape(text).casefold())


def runs(text: str) -> Iterator[Run]:
    """Every run of `RUN` consecutive words in ``text``."""
    found = words(text)
    return zip(*(found[start:] for start in range(RUN)), strict=False)


def prose(file: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each piece of prose in a definition file: labels, and each doc as a whole."""
    for element in etree.parse(file).getroot().iter(etree.Element):
        for name in PROSE_ATTRIBUTES:
            if element.get(name):
                yield element.sourceline or 0, str(element.get(name))
        if etree.QName(element).localname == "doc":
            yield element.sourceline or 0, " ".join(element.itertext())


def copied(file: Path, published: set[Run]) -> list[str]:
    """The runs of words in ``file`` that are in ``published`` too, each with its place."""
    found = [(line, run) for line, text in prose(file) for run in runs(text) if run in published]
    return [f"{file.name}:{line}: {' '.join(run)}" for line, run in found]


@pytest.fixture(scope="module")
def published(material: Path) -> set[Run]:
    """All runs of words in the documents: with markup (labels are attributes), without it, and as read."""
    found: set[Run] = set()
    for seed in SEEDS:
        (file,) = (material / "seeds").glob(f"{seed}_*.txt")
        text = file.read_text("utf-8")
        for reading in (text, MARKUP.sub(" ", text), MARKUP.sub(" ", CROSS_REFERENCE.sub(r" \1 ", text))):
            found.update(runs(reading))
    return found


FILES = [
    file
    for dialect in amqpforge_spec.DIALECTS
    for file in sorted(amqpforge_spec.dialect_folder(dialect).glob("*.xml"))
]


@pytest.mark.parametrize("file", FILES, ids=[f"{file.parent.name}/{file.name}" for file in FILES])
def test_no_sentence_is_copied(file: Path, published: set[Run]) -> None:
    assert copied(file, published) == []


@pytest.mark.parametrize(
    "eight",
    [
        "MUST\n be decremented after <i>every incoming</i> Transfer frame",
        "Queue MUST be deleted <b>when</b>\n the connection closes",  # has a page's margin inside
    ],
    ids=["000", "002"],
)
def test_a_copied_sentence_would_be_found(eight: str, tmp_path: Path, published: set[Run]) -> None:
    """Markup, case and line breaks of either side hide nothing; one word less than a run goes unnoticed."""
    run = words(MARKUP.sub("", eight))
    file = tmp_path / "copy.xml"
    file.write_text(f'<amqp label="{" ".join(run[:-1])}">\n<doc><p>It {eight}.</p></doc></amqp>', "utf-8")
    assert len(run) == RUN
    assert copied(file, published) == [f"copy.xml:2: {' '.join(run)}"]
