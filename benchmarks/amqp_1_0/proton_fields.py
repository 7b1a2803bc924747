"""python-qpid-proton again, with a typed call for each field: three performatives, written out by hand.

Code that one would have to write for every performative; shown beside the targets, not held against them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.amqp_1_0 import cases, ours
from benchmarks.amqp_1_0.naming import FIELD_NAMES
from benchmarks.amqp_1_0.proton import bare
from benchmarks.case import Case, Composite
from benchmarks.stack import Operation, Stack


def _encoders(data: Any) -> dict[str, Any]:
    put_uint, put_bool, enter = data.put_uint, data.put_bool, data.enter

    def begin(code: int) -> None:
        data.clear()
        data.put_described()
        enter()
        data.put_ulong(code)
        data.put_list()
        enter()

    def transfer(fields: tuple[Any, ...]) -> Any:
        handle, delivery_id, delivery_tag, message_format, settled = fields
        begin(0x14)
        put_uint(handle)
        put_uint(delivery_id)
        data.put_binary(delivery_tag)
        put_uint(message_format)
        put_bool(settled)
        return data.encode() + cases.PAYLOAD

    def flow(fields: tuple[int, ...]) -> Any:
        first, second, third, fourth, fifth, sixth, seventh, eighth = fields
        begin(0x13)
        put_uint(first)
        put_uint(second)
        put_uint(third)
        put_uint(fourth)
        put_uint(fifth)
        put_uint(sixth)
        put_uint(seventh)
        put_uint(eighth)
        return data.encode()

    def disposition(fields: tuple[Any, ...]) -> Any:
        role, first, last, settled = fields
        begin(0x15)
        put_bool(role)
        put_uint(first)
        put_uint(last)
        put_bool(settled)
        data.put_described()
        enter()
        data.put_ulong(0x24)
        data.put_list()
        return data.encode()

    return {"transfer": transfer, "flow": flow, "disposition": disposition}


def _decoders(data: Any) -> dict[str, Any]:
    get_uint, get_bool, step, enter = data.get_uint, data.get_bool, data.next, data.enter

    def begin(octets: bytes) -> int:
        data.clear()
        behind: int = data.decode(octets)
        data.rewind()
        step()
        enter()
        step()
        data.get_ulong()
        step()
        enter()
        return behind

    def transfer(octets: bytes) -> dict[str, Any]:
        behind = begin(octets)
        step()
        handle = get_uint()
        step()
        delivery_id = get_uint()
        step()
        delivery_tag = data.get_binary()
        step()
        message_format = get_uint()
        step()
        return {"fields": (handle, delivery_id, delivery_tag, message_format, get_bool()), "behind": behind}

    def flow(octets: bytes) -> dict[str, Any]:
        begin(octets)
        fields = []
        for _ in range(8):
            step()
            fields.append(get_uint())
        return {"fields": fields}

    def disposition(octets: bytes) -> dict[str, Any]:
        begin(octets)
        step()
        role = get_bool()
        step()
        first = get_uint()
        step()
        last = get_uint()
        step()
        settled = get_bool()
        step()
        enter()
        step()
        return {"fields": (role, first, last, settled, Composite(data.get_ulong(), {}))}

    return {"transfer": transfer, "flow": flow, "disposition": disposition}


def load() -> Stack:
    """The library, a typed call for each field: transfer, flow and disposition.

    Raises:
        ImportError: python-qpid-proton is not installed.
    """
    proton = import_module("proton")
    encoders, decoders = _encoders(proton.Data()), _decoders(proton.Data())
    arguments: dict[str, tuple[Any, ...]] = {
        "transfer": (1, 1042, b"\x00\x00\x04\x12", 0, False),
        "flow": (1042, 2147483647, 1, 2147483647, 1, 1042, 100, 0),
        "disposition": (True, 1042, 1051, True),
    }

    def operations(case: Case) -> dict[str, Operation]:
        def plain(result: dict[str, Any]) -> dict[str, Any]:
            values = zip(FIELD_NAMES[case.name], map(bare, result["fields"]), strict=False)
            return {**dict(values), "payload": case.octets[result.get("behind", 0) :]}

        return {
            "decode": Operation(decoders[case.name], case.octets, plain),
            "encode": Operation(encoders[case.name], arguments[case.name], ours.read_back(case)),
        }

    direct = [case for case in cases.CASES if case.name in arguments]
    label = "proton, a typed call for each field"
    return Stack("proton-fields", label, {case.name: operations(case) for case in direct}, is_target=False)
