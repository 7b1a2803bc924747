"""Hostile definition files: nothing is expanded, fetched or believed; the refusal has a file and a line."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

import pytest

from amqpforge_generator import xmlsource
from amqpforge_generator.document import Location
from amqpforge_generator.errors import Problems
from amqpforge_generator.names import SpecText, make_name, split_words
from tests.generator.inline import AMQP, load, problems, problems_of, section

ROOT = f'<amqp {AMQP} name="part"><section name="s"/></amqp>'


def parse(data: bytes) -> list[str]:
    """The problems of a file's octets; none when it was parsed."""
    found = Problems()
    parsed = xmlsource.parse(data, "a.xml", found)
    assert (parsed is None) is bool(len(found))
    return [str(problem) for problem in found.sorted()]


BOMB = f"""\
<?xml version="1.0"?>
<!DOCTYPE amqp [
  <!ENTITY a "aaaaaaaaaa">
  <!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
  <!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">
]>
<amqp {AMQP} name="part" label="&c;"/>
"""


def test_entity_bomb_is_refused_at_every_declaration_and_use() -> None:
    declared = "is declared; entities are refused, write the text out"
    assert parse(BOMB.encode()) == [
        f"a.xml:3: entity 'a' {declared}",
        f"a.xml:4: entity 'b' {declared}",
        "a.xml:4: entity reference '&a;' is refused; write the character itself",
        f"a.xml:5: entity 'c' {declared}",
        "a.xml:5: entity reference '&b;' is refused; write the character itself",
        "a.xml:7: entity reference '&c;' is refused; write the character itself",
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_entity_is_refused_in_every_encoding(encoding: str) -> None:
    text = f'<!DOCTYPE amqp [\n<!ENTITY x "y">\n]>\n{ROOT}'
    mark = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}.get(encoding, b"")
    assert parse(mark + text.encode(encoding)) == [
        "a.xml:2: entity 'x' is declared; entities are refused, write the text out"
    ]


@pytest.mark.parametrize(
    ("subset", "expected"),
    [
        ('<!ENTITY x SYSTEM "file:///etc/passwd">', ["entity 'x' is declared"]),
        ('<!ENTITY x PUBLIC "-//a" "http://127.0.0.1/x">', ["entity 'x' is declared"]),
        ('<!ENTITY % p "<!ELEMENT a ANY>">', ["parameter entity 'p' is declared"]),
        (
            '<!ENTITY % p SYSTEM "http://127.0.0.1/x.dtd">%p;',
            ["parameter entity 'p' is declared", "parameter entity 'p' is used"],
        ),
        ("%p;", ["parameter entity 'p' is used"]),
        ('<!-- " --><!ENTITY x "y">', ["entity 'x' is declared"]),
        ("<?pi ' ?><!ENTITY x 'y'>", ["entity 'x' is declared"]),
        ('<!ATTLIST a b CDATA "]>"><!ENTITY x "y">', ["entity 'x' is declared"]),
        ('<!ELEMENT a ANY>\t<!ENTITY\tx\t"y">', ["entity 'x' is declared"]),
    ],
    ids=["external", "public", "parameter", "external-parameter", "use", "comment", "pi", "quotes", "tabs"],
)
def test_declarations_are_found_wherever_they_hide(subset: str, expected: list[str]) -> None:
    found = parse(f"<!DOCTYPE amqp [{subset}]>\n{ROOT}".encode())
    assert [message.split(";")[0] for message in found] == [f"a.xml:1: {text}" for text in expected]


def test_the_parsed_tree_is_searched_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xmlsource, "_entity_declarations", lambda text: iter(()))
    text = f'<!DOCTYPE amqp [<!ENTITY x "y">]>\n{ROOT}'
    assert parse(text.encode()) == ["a.xml:1: entities are declared; entities are refused"]


def test_a_file_that_an_entity_names_is_never_opened(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    text = f'<!DOCTYPE amqp [<!ENTITY x SYSTEM "{secret.as_uri()}">]>\n<amqp {AMQP} name="part" label="&x;"/>'
    found = parse(text.encode())
    assert len(found) == 2
    assert "the secret" not in "".join(found)


def test_a_doctype_whose_dtd_is_missing_is_allowed(tmp_path: Path) -> None:
    text = (
        f'<?xml version="1.0"?>\n<?xml-stylesheet href="a.xsl"?>\n<!DOCTYPE amqp SYSTEM "amqp.dtd">\n{ROOT}'
    )
    assert {module.name.xml for module in load(tmp_path, part=text).modules} == {"types", "part"}


def test_an_entity_of_a_dtd_that_is_not_loaded_is_refused() -> None:
    text = f'<!DOCTYPE amqp SYSTEM "amqp.dtd">\n<amqp {AMQP} name="part">\n<doc><p>&later;</p></doc></amqp>'
    assert parse(text.encode()) == [
        "a.xml:3: entity reference '&later;' is refused; write the character itself"
    ]


def test_what_only_looks_like_an_entity_is_no_problem() -> None:
    text = f"""\
<!-- <!DOCTYPE amqp [<!ENTITY x "y">]> -->
<!DOCTYPE amqp [<!-- <!ENTITY x "y"> &x; --> <!ELEMENT a ANY>]>
<amqp {AMQP} name="part" label="&lt;&amp;&gt;&quot;&apos;&#65;&#x42;"><!-- &x; -->
<doc><p><![CDATA[<!ENTITY x "y"> &x;]]></p></doc></amqp>"""
    assert parse(text.encode()) == []


def test_oversized_input_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    size = xmlsource.MAX_OCTETS
    large = ROOT + " " * (size + 1 - len(ROOT))
    message = f"larger than {size} octets; no definition file is that large"
    assert parse(large.encode()) == [f"a.xml:1: {message}"]
    assert problems_of(tmp_path, part=large) == [f"tiny/part.xml:1: {message}"]
    assert parse(large[:-1].encode()) == []


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xff" + ROOT.encode(), "a.xml:1: not valid utf-8: invalid start byte"),
        (b"<a>\n\xc3</a>", "a.xml:2: not valid utf-8: invalid continuation byte"),
        (
            b'<?xml version="1.0" encoding="UTF-7"?><a/>',
            "a.xml:1: encoding 'UTF-7' is not accepted; save the file as UTF-8",
        ),
        (
            b'<?xml version="1.0" encoding="utf-16"?><a/>',
            "a.xml:1: encoding 'utf-16' is not accepted; save the file as UTF-8",
        ),
        (
            ROOT.encode("utf-16-le"),
            "a.xml:1: encoding 'UTF-16 or UTF-32 without a byte order mark' is not accepted; "
            "save the file as UTF-8",
        ),
        (
            codecs.BOM_UTF32_LE + ROOT.encode("utf-32-le"),
            "a.xml:1: encoding 'utf-32' is not accepted; save the file as UTF-8",
        ),
    ],
    ids=["start", "inside", "utf-7", "utf-16-claimed", "utf-16-unmarked", "utf-32"],
)
def test_other_encodings_are_refused(data: bytes, expected: str) -> None:
    assert parse(data) == [expected]


def test_latin_1_is_read_as_it_says() -> None:
    text = f'<?xml version="1.0"\n encoding="ISO-8859-1"?>\n<amqp {AMQP} name="part" label="\xe9"/>'
    found = Problems()
    parsed = xmlsource.parse(text.encode("latin-1"), "a.xml", found)
    assert parsed is not None
    root, source = parsed
    assert root.get("label") == "\xe9"
    assert source.at(root) == Location("a.xml", 3)


def test_broken_xml_is_reported_by_line() -> None:
    assert parse(b"<a>\n<b>\n</a>") == [
        "a.xml:3: not well-formed XML: Opening and ending tag mismatch: b line 2 and a"
    ]
    assert parse(b"")[0].startswith("a.xml:1: not well-formed XML")
    assert parse(b"page text before <a/>")[0].startswith("a.xml:1: not well-formed XML: Start tag expected")


def test_elements_nested_without_end_are_refused() -> None:
    assert "not well-formed XML" in parse(b"<a>" * 100_000)[0]


@pytest.mark.parametrize("opening", ["<!--", "<?a ", "<![CDATA[", "<!ENTITY ", "&a", "<!DOCTYPE a [", "%a"])
def test_what_is_never_closed_is_refused_in_linear_time(opening: str) -> None:
    for text in (opening * 200_000, f"<!DOCTYPE a [{opening * 200_000}", f"<a>{opening * 200_000}"):
        assert parse(text.encode())


def test_a_hundred_thousand_entities_are_all_reported() -> None:
    found = parse(b"<!DOCTYPE a [\n" + b"<!ENTITY x 'y'>\n" * 100_000 + b"]><a/>")
    assert len(found) == 100_000


def test_code_in_a_name_is_refused(tmp_path: Path) -> None:
    assert problems(
        tmp_path,
        '<type name="t" class="composite" source="list">',
        '<descriptor name="d" code="0x00000000:0x00000001"/>',
        '<field name="&quot;; import os #" type="uint"/>',
        "</type>",
    ) == [
        "tiny/part.xml:5: field name '\"; import os #' is not legal: a name is made of letters and digits, "
        "with '-', '_', '.' or spaces between them"
    ]


@pytest.mark.parametrize(
    "name", ["a\nb", "a--", "-a", "a b\t", "d\u00e9j\u00e0", "a;b", "a/b", "__", "a:b", "\u0661"]
)
def test_names_outside_the_alphabet_are_refused(name: str) -> None:
    found = Problems()
    assert make_name(name, "type", Location("a.xml", 1), found).words == ()
    assert len(found) == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("link-credit", ("link", "credit")),
        ("MIN-MAX-FRAME-SIZE", ("min", "max", "frame", "size")),
        ("sasl-code", ("sasl", "code")),
        ("HDR_SENT", ("hdr", "sent")),
        ("decimal32", ("decimal32",)),
        ("a.b c", ("a", "b", "c")),
        ("2-phase", ("n", "2", "phase")),
    ],
)
def test_names_split_into_words(name: str, words: tuple[str, ...]) -> None:
    assert split_words(name) == words


def test_names_that_start_with_a_digit_are_still_identifiers() -> None:
    name = make_name("2-phase", "type", Location("a.xml", 1), Problems())
    for spelling in (name.snake, name.upper, name.camel):
        assert spelling.isidentifier()
    assert (name.snake, name.camel, name.xml) == ("n_2_phase", "N2Phase", "2-phase")


HOSTILE = '"""\\"; import os #\n{{ x }}'


def test_free_text_keeps_its_words_and_its_mark(tmp_path: Path) -> None:
    dialect = load(
        tmp_path,
        part=section(
            '<type name="t" class="restricted" source="string" label="&quot;&quot;&quot;\\">',
            '<doc><p>{{ x }} """ \\</p></doc>',
            '<choice name="c" value="&quot;; import os #"/>',
            "</type>",
            '<definition name="D" value="{% x %}"/>',
        ),
    )
    type_ = dialect.modules[1].types[0]
    texts = (
        type_.doc.label,
        *type_.doc.paragraphs,
        type_.choices[0].value,
        dialect.modules[1].definitions[0].value,
    )
    assert texts == ('"""\\', '{{ x }} """ \\', '"; import os #', "{% x %}")
    assert {type(text) for text in texts} == {SpecText}


@pytest.mark.parametrize(
    "leak",
    [
        lambda text: str(text),
        lambda text: f"{text}",
        lambda text: f"{text:>3}",
        lambda text: "{}".format(text),  # noqa: UP032
        lambda text: "%s" % text,  # noqa: UP031
        lambda text: text % (),
        lambda text: text.format(),
        lambda text: " ".join(map(str, [text])),
    ],
)
def test_free_text_refuses_to_become_plain_text(leak: Callable[[str], str]) -> None:
    with pytest.raises(TypeError, match="literal or comment filter"):
        leak(SpecText(HOSTILE))


@pytest.mark.parametrize(
    "derive",
    [
        lambda text: text + "a",
        lambda text: "a" + text,
        lambda text: text * 2,
        lambda text: text[1:],
        lambda text: text[0],
        lambda text: text.lower(),
        lambda text: text.upper(),
        lambda text: text.title(),
        lambda text: text.capitalize(),
        lambda text: text.strip(),
        lambda text: text.lstrip(),
        lambda text: text.rstrip(),
        lambda text: text.replace("a", "b"),
        lambda text: SpecText(text),
    ],
)
def test_what_is_made_of_free_text_is_free_text(derive: Callable[[str], str]) -> None:
    derived = derive(SpecText(" some text"))
    assert type(derived) is SpecText
    assert derived == derive(" some text")


def test_free_text_is_a_string_in_every_comparison() -> None:
    text = SpecText("amqp:open:list")
    assert text == "amqp:open:list"
    assert hash(text) == hash("amqp:open:list")
    assert type(text.plain) is str
    assert repr(text) == "'amqp:open:list'"
