"""Wire forms resolved: how values travel, how structs are laid out, and whether a codec can be made of it."""

from __future__ import annotations

import re

from amqpforge_generator.document import Location, RawEncoding, RawLayout
from amqpforge_generator.model import HOLDS, Encoding, Layout
from amqpforge_generator.names import make_name
from amqpforge_generator.resolve_scope import Scope, number, one_of

_OCTET = re.compile(r"0x[0-9A-Fa-f]{2}")
_CATEGORIES = ("fixed", "variable", "compound", "array")
_UNCODED_CATEGORIES = (*_CATEGORIES, "bit", "rest", "any")
#: Section 1.2 of AMQP 1.0: the upper half of an encoding code is the category and the width.
_SUBCATEGORIES = {
    0x4: ("fixed", 0), 0x5: ("fixed", 1), 0x6: ("fixed", 2), 0x7: ("fixed", 4),
    0x8: ("fixed", 8), 0x9: ("fixed", 16),
    0xA: ("variable", 1), 0xB: ("variable", 4), 0xC: ("compound", 1), 0xD: ("compound", 4),
    0xE: ("array", 1), 0xF: ("array", 4),
}  # fmt: skip
_CHARSETS = ("utf-8", "iso-8859-15", "utf-16-be", "utf-32-be")
#: The widths in octets that a codec knows: of what fixed forms hold, or of the sizes of the other categories.
_WIDTHS = {
    "unsigned": (1, 2, 4, 8), "signed": (1, 2, 4, 8), "float": (4, 8), "decimal": (5, 9), "boolean": (1,),
    "character": (1, 4), "timestamp-s": (8,), "timestamp-ms": (8,), "uuid": (16,), "serial": (4,),
    "void": (0,),
    "variable": (1, 2, 4), "compound": (1, 2, 4), "array": (1, 2, 4), "bit": (0,), "rest": (0,), "any": (0,),
}  # fmt: skip
#: The categories that forms holding certain things can have; all others are fixed or variable.
_SHAPES = {
    **dict.fromkeys(
        (
            "unsigned",
            "signed",
            "float",
            "decimal",
            "character",
            "timestamp-s",
            "timestamp-ms",
            "uuid",
            "serial",
            "void",
        ),
        ("fixed",),
    ),
    **dict.fromkeys(("map", "list"), ("variable", "compound")),
    **dict.fromkeys(("text", "struct", "set"), ("variable",)),
    "array": ("variable", "array"),
    "binary": ("fixed", "variable", "rest"),
    "boolean": ("fixed", "bit"),
    "bit": ("bit",),
    "any": ("any",),
}
_WIDTH_WORDS = {"octet": 1, "short": 2, "long": 4}


def encoding(raw: RawEncoding, owner: str, scope: Scope) -> Encoding:
    """A wire form; without a name of its own it has that of its ``owner``."""
    name = raw.name if raw.name is not None else owner
    make_name(name, "encoding", raw.at, scope.problems)
    code: int | None = None
    if raw.code and not _OCTET.fullmatch(raw.code):
        scope.problems.add(raw.at, f"encoding code {raw.code!r} is not of the form 0xHH")
    elif raw.code:
        code = int(raw.code, 16)
        _check_subcategory(raw, code, scope)
    categories = _UNCODED_CATEGORIES if raw.holds is not None else _CATEGORIES
    earlier = len(scope.problems)
    form = Encoding(
        name=name,
        code=code,
        category=one_of(raw.category, categories, "encoding category", raw.at, scope) or "fixed",
        width=number(raw.width, "width", raw.at, scope),
        doc=raw.doc,
        at=raw.at,
        holds=one_of(raw.holds, HOLDS, "holds", raw.at, scope) or "",
        charset=one_of(raw.charset, _CHARSETS, "charset", raw.at, scope) or "",
    )
    # A form with a part that is missing or unknown has its complaint already.
    if form.holds and raw.category and raw.width and len(scope.problems) == earlier:
        _check_form(form, scope)
    return form


def _check_subcategory(raw: RawEncoding, code: int, scope: Scope) -> None:
    if scope.grammar != "amqp-1.0" or not raw.code or raw.category not in _CATEGORIES:
        return
    expected = _SUBCATEGORIES.get(code >> 4)
    if expected is None:
        scope.problems.add(raw.at, f"encoding code {raw.code} is not in the range of any category")
    elif (raw.category, raw.width) != (expected[0], str(expected[1])):
        scope.problems.add(
            raw.at,
            f"encoding code {raw.code} means {expected[0]} of width {expected[1]}, "
            f"not {raw.category} of width {raw.width}",
        )


def _check_form(form: Encoding, scope: Scope) -> None:
    """Complain about a form of which no codec could be made."""
    what = f"the form of {form.name!r}"
    if (form.holds in ("text", "character")) is not bool(form.charset):
        state = (
            "needs a charset" if form.holds in ("text", "character") else "has a charset, but holds no text"
        )
        scope.problems.add(form.at, f"{what} {state}")
    widths = _WIDTHS.get(form.holds if form.category == "fixed" else form.category)
    if widths is not None and form.width not in widths:
        legal = ", ".join(map(str, widths))
        scope.problems.add(form.at, f"{what}: {form.holds} in {form.width} octets; it can be {legal}")
    shapes = _SHAPES.get(form.holds, ("fixed", "variable"))
    if form.category not in shapes:
        legal = " or ".join(shapes)
        scope.problems.add(form.at, f"{what}: {form.holds} is {form.category}; it can be {legal}")


def layout(style: str, raw: RawLayout | None, at: Location, scope: Scope) -> Layout:
    """A layout with widths in octets; a definition gives numbers, or ``octet``, ``short``, ``long``."""
    raw = raw or RawLayout()
    return Layout(
        style=style,
        size_width=_width(raw.size, "size", at, scope),
        flags_width=_width(raw.pack, "pack", at, scope),
        code=None if raw.code is None else number(raw.code, "code", at, scope),
    )


def _width(text: str | None, what: str, at: Location, scope: Scope) -> int:
    if text is None:
        return 0
    width = _WIDTH_WORDS[text] if text in _WIDTH_WORDS else number(text, what, at, scope)
    if width not in (0, 1, 2, 4):
        scope.problems.add(at, f"{what} {text!r} is not a width of 1, 2 or 4 octets")
    return width
