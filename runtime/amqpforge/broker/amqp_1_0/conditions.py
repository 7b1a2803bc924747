"""The error conditions of AMQP 1.0 that tell why the broker refuses something (sections 2.8.15 to 2.8.18)."""

from __future__ import annotations

from typing import Final

from amqpforge.broker.errors import BrokerError, Reason
from amqpforge_protocol.amqp_1_0 import AmqpError, AnyErrorCondition, Error

__all__ = ["CONDITIONS", "LONGEST", "error_of", "told"]

LONGEST: Final = 200
"""Characters of a description: with it an error fits into the smallest frames."""

CONDITIONS: Final[dict[Reason, AnyErrorCondition]] = {
    Reason.ACCESS_REFUSED: AmqpError.UNAUTHORIZED_ACCESS,
    Reason.INTERNAL_ERROR: AmqpError.INTERNAL_ERROR,
    Reason.INVALID_ARGUMENT: AmqpError.INVALID_FIELD,
    Reason.LIMIT_EXCEEDED: AmqpError.RESOURCE_LIMIT_EXCEEDED,
    Reason.NOT_ALLOWED: AmqpError.NOT_ALLOWED,
    Reason.NOT_FOUND: AmqpError.NOT_FOUND,
    Reason.NOT_SUPPORTED: AmqpError.NOT_IMPLEMENTED,
    Reason.PRECONDITION_FAILED: AmqpError.PRECONDITION_FAILED,
    Reason.RESOURCE_LOCKED: AmqpError.RESOURCE_LOCKED,
}
"""One condition for each reason."""


def error_of(refused: BrokerError) -> Error:
    """What the client is told."""
    return told(CONDITIONS[refused.reason], str(refused))


def told(condition: AnyErrorCondition, text: str) -> Error:
    """An error whose description is short enough for any frame."""
    octets = text.encode()
    if len(octets) > LONGEST:
        text = octets[: LONGEST - 3].decode(errors="ignore") + "..."
    return Error(condition=condition, description=text)
