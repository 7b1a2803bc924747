"""Equality as the wire sees it: by type and value, bit for bit, in order."""

from __future__ import annotations

import struct
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any

from amqpforge_protocol.amqp_1_0 import Map


def same(left: Any, right: Any) -> bool:
    """Whether two objects have the same wire type and the same value, bit for bit and in the same order.

    A ``Map`` and a dict are the same when their entries are.
    """
    if _is_map(left) and _is_map(right):
        return same([list(pair) for pair in left.items()], [list(pair) for pair in right.items()])
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return struct.pack(">d", left) == struct.pack(">d", right)
    if isinstance(left, Decimal):
        return bool(left.as_tuple() == right.as_tuple())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if is_dataclass(left):
        return all(same(getattr(left, one.name), getattr(right, one.name)) for one in fields(left))
    return bool(left == right)


def _is_map(value: object) -> bool:
    return isinstance(value, dict | Map)
