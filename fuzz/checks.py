"""All checks by name: that of the dialect's package or of the engine, and that of the check in its module."""

from __future__ import annotations

from fuzz import amqp_1_0, amqp_1_0_draft, class_method, engine
from fuzz.invariants import Check

CHECKS: dict[str, Check] = {
    f"{dialect}.{name}": check
    for dialect, checks in {
        "amqp_1_0": amqp_1_0.CHECKS,
        "amqp_0_9_1": class_method.CHECKS_0_9_1,
        "amqp_0_10_preview": class_method.CHECKS_0_10_PREVIEW,
        "amqp_1_0_draft": amqp_1_0_draft.CHECKS,
        "engine": engine.CHECKS,
    }.items()
    for name, check in checks.items()
}
