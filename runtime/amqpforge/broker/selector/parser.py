"""The text of a selector, turned into one condition.

A precedence parser with two stacks, operands and pending operators; nothing in it calls itself, so no text
makes it run out of calls. From weak to strong:

    1  OR
    2  AND
    3  NOT
    4  = <> < <= > >=, [NOT] BETWEEN, [NOT] IN, [NOT] LIKE, IS [NOT] NULL: not in a row
    5  + -
    6  * /
    7  + - before an operand
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from . import operands
from .errors import SelectorError
from .like import Pattern, PatternError
from .limits import SelectorLimits
from .operands import RELATIONS, Evaluate, Operand, Sort
from .tokens import Literal, Token, TokenKind, tokens_of
from .values import negate

__all__ = ["parse"]

_RANK: Final = {"OR": 1, "AND": 2} | dict.fromkeys(RELATIONS, 4) | {"+": 5, "-": 5, "*": 6, "/": 6}
_NOT: Final = 3
_COMPARISON: Final = 4
_ARITHMETIC: Final = 5
_SIGNED: Final = 7


@dataclass(slots=True)
class _Pending:
    """An operator that still waits for its right operand; an opened parenthesis has rank 0.

    ``is_negative``: of NOT and signs, whether an odd number of them stands here; of BETWEEN, a NOT before it.
    """

    sign: str
    rank: int
    position: int
    is_negative: bool = False


def parse(text: str, limits: SelectorLimits) -> tuple[Evaluate, frozenset[str]]:
    """The condition that ``text`` states, and the names that stand in it.

    Raises:
        SelectorError: the text is malformed, or larger than the limits allow.
    """
    if len(text) > limits.length:
        problem = f"it has {len(text)} characters, and {limits.length} are allowed; select by less"
        raise SelectorError(problem, limits.length, text)
    parser = _Parser(text, limits)
    return parser.condition(), frozenset(parser.names)


class _Parser:
    def __init__(self, text: str, limits: SelectorLimits) -> None:
        self._text = text
        self._limits = limits
        self._tokens = tokens_of(text)
        self._read = 0
        self._operands: list[Operand] = []
        self._pending: list[_Pending] = []
        self._opened = 0
        self.names: set[str] = set()

    def condition(self) -> Evaluate:
        if len(self._tokens) == 1:
            return lambda _facts: True
        token = self._next()
        wants_operand = True
        while token.kind is not TokenKind.END:
            wants_operand = self._prefix(token) if wants_operand else self._infix(token)
            token = self._next()
        if wants_operand:
            raise self._wrong("a value is missing", token.position)
        self._reduce(1)
        if self._pending:
            raise self._wrong("this ( is not closed", self._pending[-1].position)
        return self._truth(self._operands.pop())

    def _next(self) -> Token:
        token = self._tokens[self._read]
        self._read += token.kind is not TokenKind.END
        return token

    def _expect(self, what: str, *values: str) -> Token:
        """The next token, which is one of these words or signs."""
        token = self._next()
        if token.kind not in (TokenKind.WORD, TokenKind.SIGN) or token.value not in values:
            raise self._wrong(f"{what} is due here", token.position)
        return token

    def _text_literal(self, what: str) -> tuple[str, int]:
        token = self._next()
        if token.kind is not TokenKind.LITERAL or not isinstance(token.value, str):
            raise self._wrong(f"{what} is due here, in quotes: '...'", token.position)
        return token.value, token.position

    def _wrong(self, problem: str, position: int) -> SelectorError:
        return SelectorError(problem, position, self._text)

    # ---- where an operand is due ----

    def _prefix(self, token: Token) -> bool:
        """Take what can stand where an operand is due; whether one still is."""
        if token.kind is TokenKind.LITERAL:
            self._operands.append(operands.literal(token.value, token.position))
            return False
        if token.kind is TokenKind.NAME:
            identifier = str(token.value)
            self.names.add(identifier)
            self._operands.append(operands.name(identifier, token.position))
            return False
        if token.value == "(":
            self._open(token.position)
        elif token.value in ("+", "-"):
            self._turn("sign", _SIGNED, token.position, is_negative=token.value == "-")
        elif token.value == "NOT":
            if self._pending and self._pending[-1].rank >= _COMPARISON:
                raise self._wrong(
                    "NOT makes a condition, and a value is due here; put it in ( )", token.position
                )
            self._turn("NOT", _NOT, token.position, is_negative=True)
        elif token.value == "NULL":
            raise self._wrong("NULL is no value; ask for it with IS NULL or IS NOT NULL", token.position)
        else:
            hint = '; a name like a reserved word stands in "..."' if token.kind is TokenKind.WORD else ""
            raise self._wrong(f"a value is due here, not {token.value}{hint}", token.position)
        return True

    def _open(self, position: int) -> None:
        self._opened += 1
        if self._opened > self._limits.nesting:
            raise self._wrong(
                f"parentheses nest deeper than the {self._limits.nesting} levels allowed", position
            )
        self._pending.append(_Pending("(", 0, position))

    def _turn(self, sign: str, rank: int, position: int, *, is_negative: bool) -> None:
        """Take a NOT or a sign; several in a row are one."""
        if self._pending and self._pending[-1].rank == rank:
            self._pending[-1].is_negative ^= is_negative
        else:
            self._pending.append(_Pending(sign, rank, position, is_negative))

    # ---- where an operator is due ----

    def _infix(self, token: Token) -> bool:
        """Take what can stand behind an operand; whether another operand is due then."""
        sign = token.value
        if token.kind is TokenKind.SIGN and sign == ")":
            self._close(token.position)
            return False
        if token.kind in (TokenKind.SIGN, TokenKind.WORD) and sign in _RANK:
            self._operator(str(sign), token.position)
            return True
        if token.kind is TokenKind.WORD and sign in ("IS", "NOT", "IN", "LIKE", "BETWEEN"):
            return self._test(token)
        raise self._wrong("an operator is due here, such as AND, OR, = or +, or the end", token.position)

    def _close(self, position: int) -> None:
        self._reduce(1)
        if not self._pending:
            raise self._wrong("this ) closes nothing", position)
        opened = self._pending.pop()
        self._opened -= 1
        self._operands[-1].is_bare = False
        self._operands[-1].position = opened.position

    def _operator(self, sign: str, position: int) -> None:
        if sign == "AND":
            self._reduce(_ARITHMETIC)
            if self._pending and self._pending[-1].sign == "BETWEEN":
                self._pending[-1].sign = "BETWEEN AND"
                return
        rank = _RANK[sign]
        self._reduce(rank)
        if rank == _COMPARISON:
            self._value(self._operands[-1])
        self._pending.append(_Pending(sign, rank, position))

    def _test(self, token: Token) -> bool:
        """IS [NOT] NULL, [NOT] BETWEEN, [NOT] IN, [NOT] LIKE."""
        self._reduce(_COMPARISON)
        word, is_negative = token, token.value == "NOT"
        if is_negative:
            word = self._expect("BETWEEN, IN or LIKE", "BETWEEN", "IN", "LIKE")
        if word.value == "BETWEEN":
            self._number(self._operands[-1])
            self._pending.append(_Pending("BETWEEN", _COMPARISON, token.position, is_negative))
            return True
        operand = self._operands.pop()
        self._value(operand)
        if word.value == "IS":
            made = self._null_test(operand, token)
        elif word.value == "IN":
            made = operands.inside(operand, self._items(), is_negative=is_negative)
        else:
            made = self._like(operand, is_negative=is_negative)
        self._operands.append(made)
        return False

    def _null_test(self, operand: Operand, token: Token) -> Operand:
        if operand.name is None:
            raise self._wrong(
                "IS NULL asks about a name, and something else stands before it", token.position
            )
        word = self._expect("NULL or NOT NULL", "NULL", "NOT")
        if word.value == "NOT":
            self._expect("NULL", "NULL")
        return operands.null_test(operand.name, operand.position, is_negative=word.value == "NOT")

    def _items(self) -> list[Literal]:
        """The list of IN."""
        self._expect("the list of IN, which begins with (", "(")
        items: list[Literal] = []
        while True:
            token = self._next()
            if len(items) == self._limits.items:
                raise self._wrong(
                    f"the list has more than the {self._limits.items} values allowed", token.position
                )
            items.append(self._item(token))
            if self._expect(", or )", ",", ")").value == ")":
                return items

    def _item(self, token: Token) -> Literal:
        is_signed = token.kind is TokenKind.SIGN and token.value in ("+", "-")
        found = self._next() if is_signed else token
        value = found.value
        if found.kind is TokenKind.LITERAL:
            if not is_signed:
                return value
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return negate(value) if token.value == "-" else value
        raise self._wrong(
            "the list of IN holds texts, numbers, TRUE and FALSE only, at least one", found.position
        )

    def _like(self, operand: Operand, *, is_negative: bool) -> Operand:
        if operand.name is None and operand.sort is not Sort.TEXT:
            raise self._wrong(
                "LIKE matches a name or a text, and something else stands before it", operand.position
            )
        pattern, position = self._text_literal("the pattern of LIKE")
        if len(pattern) > self._limits.pattern:
            allowed = self._limits.pattern
            raise self._wrong(
                f"the pattern has {len(pattern)} characters, and {allowed} are allowed", position
            )
        escape = None
        following = self._tokens[self._read]
        if following.kind is TokenKind.WORD and following.value == "ESCAPE":
            self._next()
            escape, where = self._text_literal("the escape character")
            if len(escape) != 1:
                raise self._wrong("the escape character is one character in quotes", where)
        try:
            made = Pattern(pattern, escape)
        except PatternError as error:
            raise self._wrong(str(error), position) from None
        return operands.like(operand, made, is_negative=is_negative)

    # ---- operators that have their operands ----

    def _reduce(self, rank: int) -> None:
        """Apply what is pending and binds at least as strongly as ``rank``."""
        while self._pending and self._pending[-1].rank >= rank:
            self._apply(self._pending.pop())

    def _apply(self, pending: _Pending) -> None:
        right = self._operands.pop()
        if pending.sign == "NOT":
            self._truth(right)
            made = operands.negation(right, pending.position, is_negative=pending.is_negative)
        elif pending.sign == "sign":
            self._number(right)
            made = operands.signed(right, pending.position, is_negative=pending.is_negative)
        elif pending.sign == "BETWEEN AND":
            self._number(right)
            low = self._operands.pop()
            self._number(low)
            made = operands.between(self._operands.pop(), low, right, is_negative=pending.is_negative)
        elif pending.sign == "BETWEEN":
            raise self._wrong("BETWEEN takes two bounds: BETWEEN 1 AND 9", pending.position)
        else:
            made = self._joined(pending.sign, self._operands.pop(), right)
        self._operands.append(made)

    def _joined(self, sign: str, left: Operand, right: Operand) -> Operand:
        if sign in ("AND", "OR"):
            self._truth(left)
            self._truth(right)
            return operands.junction(sign, left, right)
        if sign in ("=", "<>"):
            self._value(right)
            return operands.comparison(RELATIONS[sign], left, right)
        self._number(left)
        self._number(right)
        if sign in RELATIONS:
            return operands.comparison(RELATIONS[sign], left, right)
        return operands.arithmetic(sign, left, right)

    # ---- what an operand has to be ----

    def _truth(self, operand: Operand) -> Evaluate:
        if operand.sort in (Sort.TEXT, Sort.NUMBER):
            what = "text" if operand.sort is Sort.TEXT else "number"
            raise self._wrong(
                f"a condition is due here, not a {what}; compare it with something", operand.position
            )
        return operands.condition(operand)

    def _number(self, operand: Operand) -> None:
        if operand.sort is Sort.TEXT:
            raise self._wrong(
                "a number is due here, not a text; texts are compared with = and <> only", operand.position
            )
        if operand.sort is Sort.TRUTH:
            raise self._wrong(
                "a number is due here, not a condition; = and <> compare conditions, in ( )",
                operand.position,
            )

    def _value(self, operand: Operand) -> None:
        if operand.is_bare:
            raise self._wrong("a comparison goes into another one in ( ) only", operand.position)
