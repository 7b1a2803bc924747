"""The package without its types: a test that gives plain numbers to fields of a NewType need not name it."""

from __future__ import annotations

from typing import Any

from amqpforge_protocol import amqp_1_0

amqp: Any = amqp_1_0
