"""The filters of the templates: names, literals and prose, whatever a definition holds."""

from __future__ import annotations

import ast
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqpforge_generator.document import Doc
from amqpforge_generator.filters import (
    Naming,
    Text,
    by_kind,
    harmless,
    make_filters,
    natural_sort,
    sentence,
    spell,
)
from amqpforge_generator.model import Name
from amqpforge_generator.names import SpecText
from amqpforge_generator.target import Literals, Names, Prose, Target


def named(text: str) -> Name:
    return Name(text, tuple(text.lower().split("-")))


NAMING = Naming(
    Target(
        name="t",
        folder=Path(),
        output=".",
        names=Names(
            reserved=frozenset({"class", "None", "DEFAULT"}),
            reserved_classes=frozenset({"ConnectionError"}),
            class_prefix_when_reserved="Amqp",
        ),
    )
)


@pytest.mark.parametrize(
    ("name", "value", "class_", "constant"),
    [
        ("link-credit", "link_credit", "LinkCredit", "LINK_CREDIT"),
        ("class", "class_", "Class", "CLASS"),
        ("none", "none", "None_", "NONE"),
        ("default", "default", "Default", "DEFAULT_"),
        ("connection-error", "connection_error", "AmqpConnectionError", "CONNECTION_ERROR"),
    ],
)
def test_names_are_spelled_and_kept_off_reserved_words(
    name: str, value: str, class_: str, constant: str
) -> None:
    assert NAMING.value_name(named(name)) == value
    assert NAMING.class_name(named(name)) == class_
    assert NAMING.constant_name(named(name)) == constant


@pytest.mark.parametrize(
    ("style", "spelled"),
    [
        ("snake", "max_frame_size"),
        ("upper", "MAX_FRAME_SIZE"),
        ("kebab", "max-frame-size"),
        ("lower", "maxframesize"),
        ("pascal", "MaxFrameSize"),
        ("camel", "maxFrameSize"),
    ],
)
def test_styles(style: str, spelled: str) -> None:
    assert spell(("max", "frame", "size"), style) == spelled


@pytest.mark.parametrize("text", ["a;b", "import os #", '"', "", "ä", "a\nb", "-", "a/b", "{{x}}"])
def test_what_is_no_name_never_becomes_an_identifier(text: str) -> None:
    for filter_ in (NAMING.value_name, NAMING.class_name, NAMING.constant_name, NAMING.file_name):
        with pytest.raises(ValueError, match=r"holds no words|is not a legal name"):
            filter_(text)
        with pytest.raises(ValueError, match=r"is not a legal name"):
            filter_(Name(text, (text,)))


# --- literals and comments ----------------------------------------------------------------------------------

PYTHON = Target(
    name="t",
    folder=Path(),
    output=".",
    line_length=60,
    reference="Section {reference}.",
    literals=Literals(
        true="True",
        false="False",
        none="None",
        nan='float("nan")',
        infinity='float("inf")',
        minus_infinity='float("-inf")',
        wide_escape="\\U{0:08x}",
        octets_open='b"',
        octet="\\x{0:02x}",
        octet_separator="",
        octets_close='"',
    ),
    docstring=Prose(
        first='"""',
        prefix="",
        close='"""',
        blank="",
        escapes=(("\\", "\\\\"), ('"""', '\\"\\"\\"')),
        end_escapes=(('"', '\\"'),),
    ),
)
FILTERS = make_filters(PYTHON)
TEXT = Text(PYTHON)


@given(st.text())
def test_a_quoted_text_is_an_ascii_literal_of_that_text(text: str) -> None:
    literal = FILTERS["quote"](SpecText(text))
    assert literal.isascii()
    assert "\n" not in literal
    assert ast.literal_eval(literal) == text


@given(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text())
def test_a_literal_reads_as_its_value(value: object) -> None:
    found = eval(FILTERS["literal"](value), {"float": float, "__builtins__": {}})
    assert found == value
    assert type(found) is type(value)


def test_a_literal_of_anything_else_is_refused() -> None:
    with pytest.raises(TypeError):
        FILTERS["literal"](object())


def test_surrogate_pairs_stand_for_wide_characters_where_the_language_has_no_other_escape() -> None:
    plain = make_filters(Target(name="t", folder=Path(), output="."))
    assert plain["quote"]("\U0001f600") == '"\\ud83d\\ude00"'


def test_characters_that_the_language_reads_inside_strings_are_escaped() -> None:
    dollar = make_filters(Target(name="t", folder=Path(), output=".", literals=Literals(escape_also="$")))
    assert dollar["quote"]("${x}") == '"\\u0024{x}"'


@given(st.integers(0, 2**64 - 1))
def test_octets_read_as_the_number_they_came_from(number: int) -> None:
    literal = FILTERS["octets"](FILTERS["big_endian"](number, 8))
    assert ast.literal_eval(literal) == number.to_bytes(8, "big")
    assert int(FILTERS["hex"](number, 16), 16) == number


@given(st.text(), st.integers(0, 12))
def test_a_comment_has_no_line_without_its_mark(text: str, indent: int) -> None:
    lines = TEXT.comment(SpecText(text), indent).splitlines()
    assert all(line.lstrip(" ").startswith("#") for line in lines)


@given(st.lists(st.text(alphabet=st.sampled_from("\"\\a \n\x00\x85\u2028\u202e{}#'") | st.characters())))
def test_a_docstring_holds_whatever_it_is_given_and_nothing_escapes(paragraphs: list[str]) -> None:
    block = TEXT.docstring([SpecText(paragraph) for paragraph in paragraphs], 4)
    module = ast.parse(f"def f():\n    {block}\n    return 1\n")
    (function,) = module.body
    assert isinstance(function, ast.FunctionDef)
    kept = [shown for paragraph in paragraphs if (shown := harmless(paragraph))]
    assert len(function.body) == (2 if kept else 1)
    read = (ast.get_docstring(function) or "").split()
    assert read == " ".join(kept).split()


@given(st.text())
def test_harmless_text_has_nothing_that_hides_or_turns(text: str) -> None:
    shown = harmless(text)
    assert {unicodedata.category(character) for character in shown}.isdisjoint(
        {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    )
    assert "\n" not in shown


def test_a_doc_becomes_label_paragraphs_and_reference() -> None:
    doc = Doc(label="how it is", paragraphs=("One.", "word " * 15), reference="2.7.1")
    assert TEXT.docstring(doc, 4).splitlines() == [
        '"""How it is.',
        "",
        "    One.",
        "",
        "    word word word word word word word word word word word",
        "    word word word word",
        "",
        "    Section 2.7.1.",
        '    """',
    ]
    assert TEXT.comment(Doc(label="short")) == "# Short."
    assert TEXT.comment(Doc()) == ""


@pytest.mark.parametrize(
    ("text", "found"),
    [("a word", "A word."), ("Why?", "Why?"), ("", ""), ("x", "X."), (" y. ", "Y."), ("so:", "So:")],
)
def test_sentences(text: str, found: str) -> None:
    assert sentence(text) == found


def test_a_sentence_of_the_definition_is_still_text_of_the_definition() -> None:
    assert isinstance(sentence(SpecText("label")), SpecText)


def test_natural_order_takes_numbers_as_numbers() -> None:
    assert natural_sort(["decimal128", "decimal32", "char", "decimal64"]) == [
        "char",
        "decimal32",
        "decimal64",
        "decimal128",
    ]
    names = [named("b2"), named("b10"), named("b1")]
    assert [str(name) for name in natural_sort(names, "xml")] == ["b1", "b2", "b10"]


def test_names_in_order_of_kind_whatever_order_they_come_in() -> None:
    names = ["decode", "Zebra", "MAX", "abc", "Apple", "apple", "MAX", "AMQP", "Abc"]
    assert by_kind(names) == ["AMQP", "MAX", "Abc", "Apple", "Zebra", "abc", "apple", "decode"]
    assert by_kind(reversed(["b", "B1", "b1", "B", "Bb", "BB", "bB"]), True) == [
        "B",
        "B1",
        "BB",
        "Bb",
        "b",
        "b1",
        "bB",
    ]


def test_mentioned_names_are_whole_words_outside_documentation() -> None:
    text = 'def f(a: Alpha) -> Beta2:\n    """Says Gamma."""\n    return DELTA.epsilon\n'
    assert TEXT.mentioned(["epsilon", "Gamma", "Beta", "DELTA", "Alpha", "eps"], text) == [
        "DELTA",
        "Alpha",
        "epsilon",
    ]
