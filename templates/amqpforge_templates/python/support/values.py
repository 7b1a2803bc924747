"""What the values of all dialects without constructors share: keys that are kept, sizes, and their errors."""

from __future__ import annotations

from datetime import datetime

from .composite import OCTET
from .errors import DecodeError, EncodeError, shown
from .wrappers import PosixTime, Timestamp

TOO_MANY = "brings the elements beyond the limit"
TOO_DEEP = "is nested deeper than the limit"

KEYS: dict[bytes, str] = {}
"""Keys by their octets, at most 4096 short ones."""

ENCODED_KEYS: dict[str, bytes] = {}
"""Keys with their size in front, as many."""

_KEYS_KEPT = 4096
_LONGEST_KEPT = 64


def to_key(octets: bytes, offset: int) -> str:
    """The key that octets in UTF-8 spell; short ones are kept, so that a key met again costs one look-up.

    Raises:
        DecodeError: they are not UTF-8; ``offset``, where they start, is for its message.
    """
    try:
        key = octets.decode()
    except UnicodeDecodeError as error:
        raise no_text(error, offset, "key") from None
    if len(octets) <= _LONGEST_KEPT and len(KEYS) < _KEYS_KEPT:
        KEYS[octets] = key
    return key


def key_octets(key: str) -> bytes:
    """A key behind its size, which is one octet; short ones are kept.

    Raises:
        EncodeError: it is no text, or takes more than 255 octets.
    """
    if not isinstance(key, str):
        raise EncodeError(f"{shown(key)} is not a key: keys are texts")
    try:
        octets = key.encode()
    except UnicodeEncodeError:
        raise EncodeError(f"{shown(key)} is not a key: it cannot be written in UTF-8") from None
    if len(octets) > 255:
        raise EncodeError(f"{shown(key)} is not a key: it takes {len(octets)} octets, at most 255 are legal")
    encoded = OCTET[len(octets)] + octets
    if len(octets) <= _LONGEST_KEPT and len(ENCODED_KEYS) < _KEYS_KEPT:
        ENCODED_KEYS[str(key)] = encoded
    return encoded


def too_short(data: bytes, start: int, stop: int, type_name: str) -> DecodeError:
    """The error for a value that claims the octets from ``start`` to ``stop``, beyond what holds it."""
    there = max(len(data) - start, 0)
    claimed = f"claims {stop - start} octets"
    reason = (
        f"{claimed} of which {there} are there"
        if stop > len(data)
        else f"{claimed}, more than what holds it has left"
    )
    return DecodeError(reason, type=type_name, offset=min(start, len(data)))


def no_text(error: UnicodeDecodeError, start: int, type_name: str) -> DecodeError:
    """The error for octets, from ``start`` on, that are not text of their character set."""
    return DecodeError(f"is not {error.encoding.upper()}", type=type_name, offset=start + error.start)


def misfit(value: object, type_name: str) -> EncodeError:
    """The error for what is no value of a type."""
    return EncodeError(f"{shown(value)} is not a value of type {type_name}")


def moment(value: datetime, kind: type[PosixTime | Timestamp], type_name: str) -> int:
    """The number that a datetime is; without a time zone, or out of range, it is an EncodeError."""
    try:
        return kind.from_datetime(value)
    except ValueError as error:
        raise EncodeError(str(error), type=type_name) from None


def sized(octets: bytes, width: int, type_name: str) -> bytes:
    """Octets behind their number, which takes ``width`` octets.

    Raises:
        EncodeError: there are more of them than that number can say.
    """
    if len(octets) >> 8 * width:
        raise EncodeError(f"takes {len(octets)} octets, a {type_name} holds at most {(1 << 8 * width) - 1}")
    return len(octets).to_bytes(width, "big") + octets


def enter(data: bytes, start: int, count: int, budget: list[int], type_name: str) -> None:
    """Take ``count`` elements and one level of nesting from the budget; the caller gives the level back."""
    budget[0] -= count
    budget[1] -= 1
    if budget[0] < 0 or budget[1] < 0:
        reason = TOO_MANY if budget[0] < 0 else TOO_DEEP
        raise DecodeError(reason, type=type_name, offset=min(start, len(data)))
