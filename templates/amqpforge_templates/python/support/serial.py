"""Serial numbers: counters of 32 bits that start over (RFC 1982).

Transfer, delivery and sequence numbers are such. The class derives from ``int``, so this module stays
interpreted when the codec modules are compiled.
"""

from __future__ import annotations

from typing import Self

_COUNT = 1 << 32
_HALF = 1 << 31


class SerialNumber(int):
    """One of 2^32 numbers on a circle, where 0 follows 4294967295.

    Of two numbers the greater is the one that fewer steps upwards lead to. Two that lie 2^31 apart are not
    comparable: neither is less than the other, and they have no difference (RFC 1982, section 3.2). Equality
    and hash are those of ``int``; any ``int`` from 0 to 2^32 - 1 may stand on the other side of an operator.

    Raises:
        ValueError: the number is outside 0 to 2^32 - 1.
    """

    __slots__ = ()

    def __new__(cls, value: int = 0) -> Self:
        if not 0 <= value < _COUNT:
            raise ValueError(f"{cls.__name__} holds 0 to {_COUNT - 1}, not {value}")
        return super().__new__(cls, value)

    def __add__(self, steps: int) -> Self:
        """The number ``steps`` further on.

        Raises:
            ValueError: ``steps`` is outside 0 to 2^31 - 1; what is further on would count as less (RFC 1982,
                section 3.1).
        """
        if not 0 <= steps < _HALF:
            raise ValueError(f"a serial number goes 0 to {_HALF - 1} steps on, not {int(steps)}")
        return type(self)((int(self) + int(steps)) % _COUNT)

    __radd__ = __add__

    def __sub__(self, other: int) -> int:
        """How many steps upwards lead from ``other`` to this number; negative if downwards is shorter.

        Raises:
            ValueError: they lie 2^31 apart.
        """
        steps = _steps(other, self)
        if steps == _HALF:
            raise ValueError(f"{int(self)} and {int(other)} lie {_HALF} apart: neither is ahead")
        return steps if steps < _HALF else steps - _COUNT

    def __rsub__(self, other: int) -> int:
        return type(self)(other) - self

    def __lt__(self, other: int) -> bool:
        return 0 < _steps(self, other) < _HALF

    def __le__(self, other: int) -> bool:
        return _steps(self, other) < _HALF

    def __gt__(self, other: int) -> bool:
        return 0 < _steps(other, self) < _HALF

    def __ge__(self, other: int) -> bool:
        return _steps(other, self) < _HALF

    def __repr__(self) -> str:
        return f"SerialNumber({int(self)})"

    __str__ = int.__repr__


def _steps(start: int, stop: int) -> int:
    """Steps upwards from ``start`` to ``stop``, 0 to 2^32 - 1."""
    return (int(stop) - int(start)) % _COUNT
