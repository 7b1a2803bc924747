"""AMQP 1.0, beside the stack inside azure-eventhub and python-qpid-proton."""

from __future__ import annotations

from benchmarks.amqp_1_0 import cases, ours, proton, proton_fields, pyamqp
from benchmarks.suite import Suite

SUITE = Suite(
    "AMQP 1.0",
    cases.CASES,
    ours.load,
    (pyamqp.load, proton.load, pyamqp.load_text, proton_fields.load),
    {
        ("performative", "decode"): {"pyamqp": 1.5, "proton": 6.0},
        ("performative", "encode"): {"pyamqp": 10.0, "proton": 4.0},
        ("message", "decode"): {"pyamqp": 2.0, "proton": 2.0},
        ("message", "encode"): {"pyamqp": 2.0, "proton": 2.0},
    },
)
