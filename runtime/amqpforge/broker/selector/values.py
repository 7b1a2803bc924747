"""How values of a message compare and compute.

Three kinds of values can be used: texts (``str`` and what derives from it), truth values, numbers (whole
numbers, doubles, decimals). What has no value is None, and so is what cannot be used: octets, UUIDs, lists.
A condition on None is None as well: it is unknown, as in SQL.

Numbers of unlike types meet like this, after Java's rules of promotion:

- If one is a double (a ``float``), the other is converted to a double.
- Otherwise whole numbers and decimals meet exactly; decimals compute with 34 digits, as decimal128.
- A whole result below -2^63 or above 2^64 - 1 goes on as a double. Java would lose its upper bits.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import datetime
from decimal import Context, Decimal
from math import inf, nan
from typing import Any, Final, overload

from amqpforge_protocol.amqp_1_0 import Timestamp

__all__ = [
    "ORDERING",
    "Number",
    "Relation",
    "add",
    "compare",
    "divide",
    "is_usable",
    "multiply",
    "negate",
    "number",
    "subtract",
]

Number = int | float | Decimal
Relation = Callable[[Any, Any], bool]
"""``operator.eq``, ``ne``, ``lt``, ``le``, ``gt`` or ``ge``."""

ORDERING: Final = frozenset((operator.lt, operator.le, operator.gt, operator.ge))
"""The relations that only numbers have."""

_LEAST: Final = -(1 << 63)
_GREATEST: Final = (1 << 64) - 1
_DECIMAL128: Final = Context(prec=34, Emin=-6143, Emax=6144, traps=[])


def compare(relation: Relation, left: object, right: object) -> bool | None:
    """Whether a relation holds; None if a side has no value that can be used.

    Values of unlike kinds are in no relation, not even ``<>``; texts and truth values are only equal or not.
    """
    left, right = _usable(left), _usable(right)
    if left is None or right is None:
        return None
    if isinstance(left, str) or isinstance(right, str):
        is_alike = isinstance(left, str) and isinstance(right, str)
    elif isinstance(left, bool) or isinstance(right, bool):
        is_alike = isinstance(left, bool) and isinstance(right, bool)
    else:
        return relation(*_promoted(left, right))
    return is_alike and relation not in ORDERING and relation(left, right)


def is_usable(value: object) -> bool:
    """Whether this is a text, a truth value or a number, and not something that nothing can be said of."""
    return _usable(value) is not None


def number(value: object) -> Number | None:
    """The value if it is a number, or a moment in milliseconds; None for everything else."""
    usable = _usable(value)
    return None if isinstance(usable, (str, bool)) else usable


def add(left: Number, right: Number) -> Number:
    """The sum."""
    return _computed(operator.add, _DECIMAL128.add, left, right)


def subtract(left: Number, right: Number) -> Number:
    """The difference."""
    return _computed(operator.sub, _DECIMAL128.subtract, left, right)


def multiply(left: Number, right: Number) -> Number:
    """The product."""
    return _computed(operator.mul, _DECIMAL128.multiply, left, right)


def divide(left: Number, right: Number) -> Number | None:
    """The quotient, of whole numbers without its fraction; None for a division by zero."""
    return None if right == 0 else _computed(_quotient, _DECIMAL128.divide, left, right)


@overload
def negate(value: int | float) -> int | float: ...
@overload
def negate(value: Decimal) -> Decimal: ...
def negate(value: Number) -> Number:
    """The number with the other sign."""
    if isinstance(value, Decimal):
        return _DECIMAL128.minus(value)
    return _in_range(-value)


def _usable(value: object) -> str | Number | None:
    if isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Decimal):
        return nan if value.is_nan() else value
    if isinstance(value, datetime) and value.tzinfo is not None:
        return Timestamp.from_datetime(value)
    return None


def _promoted(left: Number, right: Number) -> tuple[Number, Number]:
    if isinstance(left, float):
        return left, right if isinstance(right, float) else _double(right)
    return (_double(left), right) if isinstance(right, float) else (left, right)


def _double(value: int | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number beyond every type of AMQP
        return inf if value > 0 else -inf


def _computed(
    compute: Callable[[Any, Any], int | float],
    compute_decimal: Callable[[Decimal | int, Decimal | int], Decimal],
    left: Number,
    right: Number,
) -> Number:
    left, right = _promoted(left, right)
    if isinstance(left, float) or isinstance(right, float):
        return compute(left, right)
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        result = compute_decimal(left, right)
        return nan if result.is_nan() else result
    return _in_range(compute(left, right))


def _in_range(value: int | float) -> int | float:
    if isinstance(value, int) and not _LEAST <= value <= _GREATEST:
        return _double(value)
    return value


def _quotient(left: int | float, right: int | float) -> int | float:
    """Towards zero, as Java divides whole numbers."""
    if isinstance(left, int) and isinstance(right, int):
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) is (right < 0) else -quotient
    return left / right
