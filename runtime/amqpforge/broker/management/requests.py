"""A request to manage, and the reply to it: plain values, for every head to encode in its own way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from amqpforge.broker.errors import BrokerError, InvalidArgument, Reason

__all__ = ["MANAGEMENT_TYPE", "Reply", "Request", "status_of"]

MANAGEMENT_TYPE: Final = "org.amqp.management"
"""The type that the management node itself has, in the terms of the working draft of AMQP Management."""

_STATUS: Final = {
    Reason.ACCESS_REFUSED: HTTPStatus.FORBIDDEN,
    Reason.INTERNAL_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
    Reason.INVALID_ARGUMENT: HTTPStatus.BAD_REQUEST,
    Reason.LIMIT_EXCEEDED: HTTPStatus.CONFLICT,
    Reason.NOT_ALLOWED: HTTPStatus.FORBIDDEN,
    Reason.NOT_FOUND: HTTPStatus.NOT_FOUND,
    Reason.NOT_SUPPORTED: HTTPStatus.NOT_IMPLEMENTED,
    Reason.PRECONDITION_FAILED: HTTPStatus.PRECONDITION_FAILED,
    Reason.RESOURCE_LOCKED: HTTPStatus.CONFLICT,
}
_MOST_OFFSET: Final = 1 << 53


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked for.

    Attributes:
        operation: what is to be done, such as ``CREATE``.
        type: what kind of thing it is done to, such as ``queue``.
        name: which one; None: none is named.
        body: the attributes that come with it.
        offset: of a ``QUERY``: how many things to pass over, 0 or more.
        count: of a ``QUERY``: how many things to answer with at most, 0 or more; None: as many as
            there may be.
    """

    operation: str
    type: str
    name: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    offset: int = 0
    count: int | None = None

    @classmethod
    def of(cls, properties: Mapping[str, Any], body: object) -> Request:
        """The request that a message makes.

        Args:
            properties: ``operation``, ``type``, ``name``, ``entityType``, ``offset`` and ``count``; others
                are not looked at.
            body: a map; None stands for an empty one.

        Raises:
            InvalidArgument: one of them is missing or malformed; names it.
        """
        type_ = _text(properties, "type")
        entity_type = _text(properties, "entityType")
        if type_ in (None, MANAGEMENT_TYPE) and entity_type is not None:
            type_ = entity_type
        operation = _text(properties, "operation")
        for name, value in (("operation", operation), ("type", type_)):
            if not value:
                raise InvalidArgument(f"the application property {name!r} is missing: it has to be given")
        if body is None:
            body = {}
        if not isinstance(body, Mapping):
            raise InvalidArgument(f"the body is a map of attributes, not a {type(body).__name__}")
        for key in body:
            if not isinstance(key, str):
                raise InvalidArgument(f"the body has strings as keys, not {key!r:.80}")
        return cls(
            operation=(operation or "").upper(),
            type=type_ or "",
            name=_text(properties, "name"),
            body={str(key): value for key, value in body.items()},
            offset=_number(properties, "offset") or 0,
            count=_number(properties, "count"),
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered.

    Attributes:
        status: what came of it, as HTTP counts: 200 to 299 if it was done.
        body: attributes, by name.
        description: the status in words.
        is_change: whether something may have been changed; then the reply is for after the next barrier.
        count: how many results a ``QUERY`` has; None for other operations.
    """

    status: int
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    description: str = ""
    is_change: bool = False
    count: int | None = None

    @classmethod
    def refusal(cls, error: BrokerError, status: int | None = None) -> Reply:
        """Why it was not done; ``status``: None: the one that the reason has."""
        return cls(status_of(error) if status is None else status, description=str(error))

    @property
    def told(self) -> str:
        """What to tell people."""
        return self.description or HTTPStatus(self.status).phrase


def status_of(error: BrokerError) -> int:
    """The status that a refusal has."""
    return int(_STATUS[error.reason])


def _text(properties: Mapping[str, Any], name: str) -> str | None:
    value = properties.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidArgument(f"the application property {name!r} is a string, not {value!r:.80}")
    return str(value)


def _number(properties: Mapping[str, Any], name: str) -> int | None:
    value = properties.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_OFFSET:
        raise InvalidArgument(
            f"the application property {name!r} is a whole number from 0 to {_MOST_OFFSET}, not {value!r:.80}"
        )
    return int(value)
