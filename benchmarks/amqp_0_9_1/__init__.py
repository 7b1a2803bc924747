"""AMQP 0-9-1, beside pamqp, py-amqp and pika."""

from __future__ import annotations

from benchmarks.amqp_0_9_1 import cases, ours, pamqp, pika, py_amqp
from benchmarks.suite import Suite

_TWICE = {"pamqp": 2.0, "py-amqp": 2.0, "pika": 2.0}

SUITE = Suite(
    "AMQP 0-9-1",
    cases.CASES,
    ours.load,
    (pamqp.load, py_amqp.load, pika.load, ours.load_channel),
    {(kind, direction): _TWICE for kind in ("content", "table") for direction in ("decode", "encode")},
)
