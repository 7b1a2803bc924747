"""What a broker refuses, by reason, whatever dialect the client speaks; each head has its own code for it."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from amqpforge.errors import AmqpforgeError

__all__ = [
    "AccessRefused",
    "BrokerError",
    "InvalidArgument",
    "LimitExceeded",
    "NotAllowed",
    "NotFound",
    "NotSupported",
    "PreconditionFailed",
    "Reason",
    "ResourceLocked",
    "StoreError",
]


class Reason(Enum):
    """Why the broker refuses what it was asked for."""

    ACCESS_REFUSED = "access-refused"
    INTERNAL_ERROR = "internal-error"
    INVALID_ARGUMENT = "invalid-argument"
    LIMIT_EXCEEDED = "limit-exceeded"
    NOT_ALLOWED = "not-allowed"
    NOT_FOUND = "not-found"
    NOT_SUPPORTED = "not-supported"
    PRECONDITION_FAILED = "precondition-failed"
    RESOURCE_LOCKED = "resource-locked"


class BrokerError(AmqpforgeError):
    """The broker refuses what it was asked for; nothing was changed.

    The text says what, where, and what to do.
    """

    reason: ClassVar[Reason] = Reason.INTERNAL_ERROR


class AccessRefused(BrokerError):
    """The user has no right to it."""

    reason = Reason.ACCESS_REFUSED


class InvalidArgument(BrokerError):
    """A value is not one that is possible here."""

    reason = Reason.INVALID_ARGUMENT


class LimitExceeded(BrokerError):
    """A limit of the broker, of a user or of a queue is reached."""

    reason = Reason.LIMIT_EXCEEDED


class NotAllowed(BrokerError):
    """It is never allowed, as deleting an exchange that every virtual host has."""

    reason = Reason.NOT_ALLOWED


class NotFound(BrokerError):
    """There is no such thing."""

    reason = Reason.NOT_FOUND


class NotSupported(BrokerError):
    """The broker cannot do it, ever."""

    reason = Reason.NOT_SUPPORTED


class PreconditionFailed(BrokerError):
    """It is there, but not as it was asked for: other settings, in use, not empty."""

    reason = Reason.PRECONDITION_FAILED


class ResourceLocked(BrokerError):
    """Somebody else has it for himself alone."""

    reason = Reason.RESOURCE_LOCKED


class StoreError(BrokerError):
    """The store cannot be read or written; the text names it and says what is wrong with it."""
