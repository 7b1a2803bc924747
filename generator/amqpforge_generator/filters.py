"""The filters of the templates: the only way from the words of a definition to the text of an output.

Names become identifiers that the target's language accepts; values become literals; prose becomes comments in
which no character can end the comment, hide, or turn the reading direction. What the language wants is in the
`Target`.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from amqpforge_generator.document import Doc
from amqpforge_generator.model import Name
from amqpforge_generator.names import SpecText, split_words
from amqpforge_generator.target import Prose, Target

Filter = Callable[..., Any]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_NUMBER = re.compile(r"(\d+)")
_WORD = re.compile(r"\w+")
_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_SHORT_ESCAPES = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def make_filters(target: Target) -> dict[str, Filter]:
    """All filters of a target, by the name under which templates use them."""
    names, literals, prose = Naming(target), Literal(target), Text(target)
    return {
        "value_name": names.value_name,
        "class_name": names.class_name,
        "constant_name": names.constant_name,
        "file_name": names.file_name,
        "quote": literals.quote,
        "literal": literals.literal,
        "octets": literals.octets,
        "hex": hexadecimal,
        "big_endian": big_endian,
        "sentence": sentence,
        "inline": prose.inline,
        "prose": prose.prose,
        "comment": prose.comment,
        "docstring": prose.docstring,
        "natural_sort": natural_sort,
        "by_kind": by_kind,
        "mentioned": prose.mentioned,
    }


def plain(value: object) -> str:
    """The characters of a text, of a Name, or of what has a Name. Raises TypeError for anything else."""
    if isinstance(value, SpecText):
        return value.plain
    if isinstance(value, str):
        return value
    name = value if isinstance(value, Name) else getattr(value, "name", None)
    if isinstance(name, Name):
        return plain(name.xml)
    raise TypeError(f"expected a name or text, not {type(value).__name__}")


def spell(words: Sequence[str], style: str) -> str:
    """Words in one of the styles ``snake``, ``upper``, ``kebab``, ``lower``, ``pascal`` or ``camel``."""
    if style == "kebab":
        return "-".join(words)
    if style == "lower":
        return "".join(words)
    if style in ("pascal", "camel"):
        capitals = "".join(word[:1].upper() + word[1:] for word in words)
        return capitals if style == "pascal" else words[0] + capitals[len(words[0]) :]
    joined = "_".join(words)
    return joined.upper() if style == "upper" else joined


class Naming:
    """Identifiers of the target's language. All methods take a Name, anything that has one, or a plain word.

    Raises ValueError when the result is not an identifier, TypeError when there is no name to be had.
    """

    def __init__(self, target: Target) -> None:
        self._names = target.names

    def value_name(self, named: object) -> str:
        """The name of a variable, field, function or module."""
        return self._free(self._spell(named, self._names.value))

    def class_name(self, named: object) -> str:
        """The name of a class; prefixed when the language has a class of that name already."""
        spelled = self._spell(named, self._names.type)
        if spelled in self._names.reserved_classes:
            spelled = self._names.class_prefix_when_reserved + spelled
        return self._free(spelled)

    def constant_name(self, named: object) -> str:
        """The name of a constant or enumeration member."""
        return self._free(self._spell(named, self._names.constant))

    def file_name(self, named: object) -> str:
        """The name of a file or folder, without its suffix; reserved words are avoided: modules are files."""
        return self._free(self._spell(named, self._names.file, _FILE_WORD))

    def _spell(self, named: object, style: str, legal: re.Pattern[str] = _IDENTIFIER) -> str:
        spelled = spell(words_of(named), style)
        if not legal.fullmatch(spelled):
            raise ValueError(f"{spelled!r} is not a legal name")
        return spelled

    def _free(self, spelled: str) -> str:
        return spelled + self._names.reserved_suffix if spelled in self._names.reserved else spelled


def words_of(named: object) -> tuple[str, ...]:
    """The words of a Name, of anything with a ``name``, or of a string. Raises TypeError or ValueError."""
    name = named if isinstance(named, (Name, str)) else getattr(named, "name", None)
    words = name.words if isinstance(name, Name) else split_words(plain(name))
    if not words:
        raise ValueError(f"{plain(name)!r} holds no words to make a name of")
    return words


class Literal:
    """Literals of the target's language."""

    def __init__(self, target: Target) -> None:
        self._words = target.literals

    def quote(self, text: object) -> str:
        """A double-quoted, ASCII-only string literal of a text or of the definition's spelling of a name."""
        return f'"{"".join(map(self._escape, plain(text)))}"'

    def _escape(self, character: str) -> str:
        if character in _SHORT_ESCAPES:
            return _SHORT_ESCAPES[character]
        if " " <= character <= "~" and character not in self._words.escape_also:
            return character
        code = ord(character)
        if code < 0x10000:
            return self._words.escape.format(code)
        if self._words.wide_escape:
            return self._words.wide_escape.format(code)
        high, low = divmod(code - 0x10000, 0x400)
        return self._words.escape.format(0xD800 + high) + self._words.escape.format(0xDC00 + low)

    def literal(self, value: object) -> str:
        """A literal for None, a truth value, a number or a text. Raises TypeError for anything else."""
        words = self._words
        if value is None:
            return words.none
        if isinstance(value, bool):
            return words.true if value else words.false
        if isinstance(value, int):
            return str(value)
        if isinstance(value, float):
            if value != value:
                return words.nan
            if value in (float("inf"), float("-inf")):
                return words.infinity if value > 0 else words.minus_infinity
            return repr(value)
        return self.quote(value)

    def octets(self, values: Iterable[int]) -> str:
        """A literal for a sequence of octets, in the form of the ``octet`` words of the target."""
        words = self._words
        inner = words.octet_separator.join(words.octet.format(octet) for octet in bytes(values))
        return f"{words.octets_open}{inner}{words.octets_close}"


def hexadecimal(number: int, width: int = 1) -> str:
    """``0x`` and at least ``width`` hexadecimal digits."""
    return f"0x{number:0{width}x}"


def big_endian(number: int, width: int) -> list[int]:
    """The octets of an unsigned number, most significant first. Raises OverflowError when it needs more."""
    return list(number.to_bytes(width, "big"))


def natural_sort(items: Iterable[Any], attribute: str = "") -> list[Any]:
    """Sort by a text with the numbers in it taken as numbers: ``decimal32, decimal64, decimal128``."""

    def key(item: Any) -> list[tuple[int, int, str]]:
        for part in filter(None, attribute.split(".")):
            item = getattr(item, part)
        return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in _NUMBER.split(plain(item))]

    return sorted(items, key=key)


def by_kind(names: Iterable[str], fold: bool = False) -> list[str]:
    """Names without repeats: constants, classes, the rest; each by code point, or with ``fold`` by letter."""

    def key(name: str) -> tuple[bool, bool, str, str]:
        return not name.isupper(), not name[:1].isupper(), name.lower() if fold else name, name

    return sorted(set(names), key=key)


def sentence(text: str) -> str:
    """The text with a capital at the start and a full stop at the end; it still needs a prose filter."""
    stripped = text.strip()
    if not stripped:
        return stripped
    return stripped[:1].upper() + stripped[1:] + ("" if plain(stripped)[-1] in ".!?:" else ".")


class Text:
    """Prose in the target's comments. A text is a string, a Doc, or a sequence of both: the paragraphs.

    No text gives nothing at all, not an empty comment.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        comment, docstring = target.comment, target.docstring
        self._anywhere = Prose(
            escapes=comment.escapes + docstring.escapes,
            end_escapes=comment.end_escapes + docstring.end_escapes,
        )

    def inline(self, text: object) -> str:
        """One line of prose, not wrapped, with the escapes of both comments and documentation blocks."""
        return _escaped(harmless(plain(text)), self._anywhere, at_end=True)

    def prose(self, text: object, indent: int = 0, width: int = 0) -> str:
        """Wrapped as ``docstring``, but without the marks that open and close it: a part of a longer one."""
        return self._block(text, replace(self._target.docstring, first="", open="", close=""), indent, width)

    def comment(self, text: object, indent: int = 0, width: int = 0) -> str:
        """A wrapped comment; ``indent`` spaces go before all lines but the first, ``width`` is in columns."""
        return self._block(text, self._target.comment, indent, width)

    def docstring(self, text: object, indent: int = 0, width: int = 0) -> str:
        """A wrapped documentation block, as ``comment``."""
        return self._block(text, self._target.docstring, indent, width)

    def mentioned(self, names: Iterable[str], text: str) -> list[str]:
        """Those ``names`` that are words of the rendered ``text`` outside documentation blocks, by kind."""
        prose = self._target.docstring
        first, close = (prose.open or prose.first).strip(), prose.close.strip()
        blocks = f"{re.escape(first)}.*?{re.escape(close)}"
        code = re.sub(blocks, "", text, flags=re.DOTALL) if first and close else text
        words = set(_WORD.findall(code))
        return by_kind((name for name in names if name in words), fold=True)

    def _block(self, text: object, prose: Prose, indent: int, width: int) -> str:
        width = (width or self._target.line_length) - indent
        raw = self._paragraphs(text)
        if not raw:
            return ""
        paragraphs = [_escaped(paragraph, prose) for paragraph in raw[:-1]]
        paragraphs.append(_escaped(raw[-1], prose, at_end=True))
        whole = prose.first + paragraphs[0] + prose.close
        if len(paragraphs) == 1 and len(whole) <= width:
            return whole
        lines = [prose.open] if prose.open else []
        for index, paragraph in enumerate(paragraphs):
            if index:
                lines.append(prose.blank)
            lines += textwrap.wrap(
                paragraph,
                width,
                initial_indent=prose.prefix if lines else prose.first,
                subsequent_indent=prose.prefix,
                break_long_words=False,
                break_on_hyphens=False,
            )
        if prose.close:
            lines.append(prose.close)
        return "\n".join(line and " " * indent + line for line in lines)[indent:]

    def _paragraphs(self, text: object) -> list[str]:
        if isinstance(text, Doc):
            parts: list[object] = [sentence(text.label), *text.paragraphs]
            if text.reference and self._target.reference:
                parts.append(self._target.reference.replace("{reference}", plain(text.reference)))
        elif isinstance(text, (str, Name)) or isinstance(getattr(text, "name", None), Name):
            parts = [text]
        elif isinstance(text, Iterable):
            return [paragraph for part in text for paragraph in self._paragraphs(part)]
        else:
            raise TypeError(f"expected prose, not {type(text).__name__}")
        return [paragraph for part in parts if (paragraph := harmless(plain(part)))]


def harmless(text: str) -> str:
    """The text on one line, with every control, format or separator character visible as ``<U+202E>``."""
    return " ".join("".join(map(_visible, text)).split())


def _visible(character: str) -> str:
    if character in "\t\n\r" or unicodedata.category(character) == "Zs":
        return " "
    if unicodedata.category(character) in _HARMFUL:
        return f"<U+{ord(character):04X}>"
    return character


def _escaped(text: str, prose: Prose, *, at_end: bool = False) -> str:
    """Apply the escapes of ``prose`` in one pass, so that no replacement is replaced again.

    With ``at_end`` the closing mark will touch the text, so its last characters need ``end_escapes`` too.
    """
    patterns = [re.escape(old) for old, _ in sorted(prose.escapes, key=lambda pair: -len(pair[0]))]
    table = dict(prose.escapes)
    if at_end:
        patterns += [re.escape(old) + r"\Z" for old, _ in prose.end_escapes if old not in table]
        table = {**dict(prose.end_escapes), **table}
    if not patterns:
        return text
    return re.sub("|".join(patterns), lambda match: table[match.group()], text)
