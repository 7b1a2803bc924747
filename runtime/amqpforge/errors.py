"""What can go wrong, and who is to blame: one root, and a class for each kind of fault.

- :class:`LocalError`: we were asked for something that the protocol does not allow now; nothing was written.
- :class:`ProtocolViolation`: the peer broke the protocol; the condition is what the peer was told.
- :class:`EndpointClosed` and its kinds: a connection, a session or a link is over. What the peer said about
  it stays data (``error``); what caused it is chained (``__cause__``): a link ends because its session did, a
  session because its connection did.

Octets that cannot be decoded, and values that cannot be encoded, are the protocol package's ``CodecError``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from amqpforge_protocol.amqp_1_0 import AmqpConnectionError, Error, LinkError, Released

__all__ = [
    "AmqpforgeError",
    "AuthenticationFailed",
    "ConnectionClosed",
    "ConnectionLost",
    "EndpointClosed",
    "LinkDetached",
    "LocalError",
    "NegotiationFailed",
    "NotAccepted",
    "OperationTimedOut",
    "ProtocolViolation",
    "Redirect",
    "SessionEnded",
]


NOBODY: Final = "nobody takes it there now, as where a broker has no such queue"
"""What a receiver means that releases a message."""


class AmqpforgeError(Exception):
    """The root of all errors of this package."""


class LocalError(AmqpforgeError):
    """What was asked for is not allowed, or not now; not an octet of it was written."""


class ProtocolViolation(AmqpforgeError):
    """The peer did what the protocol forbids.

    Attributes:
        condition: the error condition that the specification names for it, e.g. ``amqp:session:window-
            violation``.
        description: what was wrong, for people.
    """

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(f"{condition}: {description}")
        self.condition = condition
        self.description = description


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where to go instead, as an error with a redirect condition says it (sections 2.8.16 and 2.8.18).

    Attributes:
        hostname: what to name as the host in open, in SASL and in TLS; None: it was not said.
        network_host: the name or address of the machine to connect to; None: it was not said.
        port: its port, 1 to 65535; None: it was not said.
        address: of a link: its terminus in that container; None: it was not said.
    """

    hostname: str | None = None
    network_host: str | None = None
    port: int | None = None
    address: str | None = None

    @classmethod
    def of(cls, error: Error | None) -> Redirect | None:
        """What an error says; None if it is no redirect. What has a wrong type counts as not said."""
        if error is None or error.condition not in _REDIRECTS:
            return None
        info = {str(key): value for key, value in (error.info or {}).items()}
        port = info.get("port")
        return cls(
            hostname=_text(info.get("hostname")),
            network_host=_text(info.get("network-host")),
            port=int(port) if isinstance(port, int) and port is not True and 0 < port < 1 << 16 else None,
            address=_text(info.get("address")),
        )


class EndpointClosed(AmqpforgeError):
    """A connection, a session or a link is over.

    Attributes:
        error: what the peer told, or was told, about it; None if it ended without an error.
    """

    def __init__(self, what: str, error: Error | None = None) -> None:
        super().__init__(what if error is None else f"{what}: {describe(error)}")
        self.error = error

    @property
    def condition(self) -> str | None:
        """The error condition, e.g. ``amqp:not-found``; None if there was no error."""
        return None if self.error is None else str(self.error.condition)

    @property
    def redirect(self) -> Redirect | None:
        """Where the peer says to go instead; None if it does not."""
        return Redirect.of(self.error)

    @property
    def may_retry(self) -> bool:
        """Whether the same may well succeed later: an operator intervened, or a transport broke."""
        cause = self.__cause__
        if isinstance(cause, EndpointClosed):
            return cause.may_retry
        return self.error is not None and self.error.condition in _RETRYABLE


class ConnectionClosed(EndpointClosed):
    """The connection was closed."""


class ConnectionLost(ConnectionClosed):
    """The transport of the connection broke, or fell silent for too long."""

    @property
    def may_retry(self) -> bool:
        return True


class SessionEnded(EndpointClosed):
    """The session was ended, or its connection is over."""


class LinkDetached(EndpointClosed):
    """The link was refused, detached or closed, or its session is over."""


class NegotiationFailed(ConnectionClosed):
    """The peer does not speak the protocol we asked for; the text says what it speaks."""


class AuthenticationFailed(ConnectionClosed):
    """The SASL exchange ended without success; the text holds no secret."""


class OperationTimedOut(AmqpforgeError, TimeoutError):
    """Something was not done in the time it was given."""


class NotAccepted(AmqpforgeError):
    """A message was sent, and its receiver did not accept it.

    Attributes:
        outcome: the state that the receiver gave the delivery: Rejected, Released, Modified, or another
            terminal one.
    """

    def __init__(self, outcome: object) -> None:
        why = f"; {NOBODY}" if isinstance(outcome, Released) else ""
        super().__init__(f"the message was not accepted: {outcome!r}{why}")
        self.outcome = outcome


def describe(error: Error) -> str:
    """An error as people read it: its condition and, if there is one, its description."""
    return f"{error.condition}: {error.description}" if error.description else str(error.condition)


def _text(value: object) -> str | None:
    return str(value) if isinstance(value, str) and value else None


_REDIRECTS = frozenset((AmqpConnectionError.REDIRECT, LinkError.REDIRECT))
_RETRYABLE = frozenset((AmqpConnectionError.CONNECTION_FORCED, LinkError.DETACH_FORCED))
