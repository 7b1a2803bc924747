"""What a SASL mechanism is to whoever carries its octets: steps, of which some may be computed elsewhere.

Nothing here, and no mechanism, shows a credential: not in a repr, not in the text of an error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from amqpforge.errors import AmqpforgeError, AuthenticationFailed, LocalError

__all__ = [
    "Authenticated",
    "ClientMechanism",
    "Computed",
    "ServerMechanism",
    "ServerReply",
    "SystemFailure",
    "Work",
    "from_utf8",
    "to_utf8",
]

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class SystemFailure(AuthenticationFailed):
    """The side that has to decide cannot: nothing is said about the credentials.

    Attributes:
        is_temporary: whether it is of use to try again later; None if that is not known.
    """

    def __init__(self, what: str, is_temporary: bool | None = None) -> None:
        super().__init__(what)
        self.is_temporary = is_temporary


class Computed:
    """What :meth:`Work.run` came to, a failure included; opaque, because it is a secret as a rule."""

    __slots__ = ("failure", "value")

    def __init__(self, value: object, failure: Exception | None = None) -> None:
        self.value = value
        self.failure = failure


class Work(Generic[R_co]):
    """A part of a step that takes long, such as PBKDF2, or that asks the application.

    ``run`` may be called in another thread: it touches nothing of the exchange. Then ``resume``, in the
    thread of the exchange, finishes the step. Without threads: ``work.resume(work.run())``.
    """

    __slots__ = ("_compute", "_name", "_then")

    def __init__(self, name: str, compute: Callable[[], T], then: Callable[[T], R_co]) -> None:
        """``name`` says what is computed, for errors; ``then`` makes the step's reply from the result."""
        self._name = name
        self._compute = compute
        self._then: Callable[[Any], R_co] = then

    def run(self) -> Computed:
        """Compute; never raises an Exception, because a failure is a result too."""
        try:
            return Computed(self._compute())
        except Exception as failure:
            return Computed(None, failure)

    def resume(self, computed: Computed) -> R_co:
        """The reply of the step.

        Raises:
            AuthenticationFailed: the result of the computation is no.
            SystemFailure: the computation raised an exception that is none of this package.
            AmqpforgeError: what else the computation raised.
        """
        failure = computed.failure
        if isinstance(failure, AmqpforgeError):
            raise failure
        if failure is not None:
            raise SystemFailure(f"{self._name} failed with {type(failure).__name__}") from failure
        return self._then(computed.value)


class ClientMechanism(ABC):
    """The client's side of one exchange.

    Attributes:
        name: the registered name of the mechanism.
        remark: what the server said about a failure, for people; empty if it said nothing.
    """

    name: str
    remark: str = ""

    @abstractmethod
    def start(self) -> bytes | Work[bytes]:
        """The initial response.

        Raises:
            LocalError: the credentials cannot be used with this mechanism.
        """

    def step(self, challenge: bytes) -> bytes | Work[bytes]:
        """The response to a challenge.

        Raises:
            AuthenticationFailed: the challenge is not what the mechanism allows now.
        """
        raise AuthenticationFailed(
            f"the server sent a challenge of {len(challenge)} octets, and {self.name} has none"
        )

    def finish(self, additional_data: bytes | None) -> None:
        """The server reports success.

        Raises:
            AuthenticationFailed: it has not proven what it must in this mechanism, or has told of a failure.
        """
        if self.remark:
            raise AuthenticationFailed(f"the server reports success, although {self.remark}")


@dataclass(frozen=True, slots=True)
class Authenticated:
    """A client has shown who it is.

    Attributes:
        identity: for whom it acts.
        additional_data: last octets of the mechanism for the client, None if there are none.
    """

    identity: str
    additional_data: bytes | None = None


ServerReply = bytes | Authenticated


class ServerMechanism(ABC):
    """The server's side of one exchange; in all mechanisms here the client speaks first."""

    name: str

    @abstractmethod
    def step(self, response: bytes) -> ServerReply | Work[ServerReply]:
        """A challenge, or the end, for the client's next response.

        Raises:
            AuthenticationFailed: the response is malformed, or wrong.
        """


def to_utf8(what: str, text: str) -> bytes:
    """The octets of a credential.

    Raises:
        LocalError: it is empty, holds NUL, or cannot be encoded; names ``what``, never the text.
    """
    if not text:
        raise LocalError(f"the {what} is empty")
    if "\0" in text:
        raise LocalError(f"the {what} holds a NUL character, which SASL does not allow")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise LocalError(f"the {what} holds a surrogate, which UTF-8 cannot encode") from None


def from_utf8(what: str, octets: bytes) -> str:
    """The text of what a client sent.

    Raises:
        AuthenticationFailed: it is not UTF-8.
    """
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed(f"the {what} is not UTF-8") from None
