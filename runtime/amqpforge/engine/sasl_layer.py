"""The two ends of a SASL exchange in AMQP's frames (section 5.3): frames come in, octets of frames go out.

The mechanisms are those of :mod:`amqpforge.sasl`; the protocol headers and the cutting of frames are up to
:mod:`.layers`. No frame is larger than the specification lets it be, and there is an end to their number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from amqpforge.errors import AmqpforgeError, AuthenticationFailed, LocalError
from amqpforge.sasl import (
    Authenticator,
    ClientMechanism,
    Computed,
    Credentials,
    ServerMechanism,
    ServerReply,
    SystemFailure,
    Work,
    choose,
    serve,
)
from amqpforge_protocol.amqp_1_0 import (
    DecodeError,
    Limits,
    SaslChallenge,
    SaslCode,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Symbol,
    decode_frame,
    encode_frame,
)

if TYPE_CHECKING:
    from amqpforge_protocol.amqp_1_0.archetypes import AnySaslFrame

__all__ = ["AuthenticationRefused", "SaslClient", "SaslLayer", "SaslServer"]

_MOST_FRAMES: Final = 16  # of one side; SCRAM takes two
_LIMITS: Final = Limits(depth=4, elements=256)
_MOST_SHOWN: Final = 32

R = TypeVar("R")


class AuthenticationRefused(AuthenticationFailed):
    """The server ended the SASL exchange without success.

    Attributes:
        code: how it failed.
    """

    def __init__(self, code: SaslCode, mechanism: str | None, remark: str) -> None:
        tried = f" (mechanism {mechanism})" if mechanism else ""
        super().__init__(f"{_REFUSALS[code]}{tried}{': ' if remark else ''}{remark}")
        self.code = code


_REFUSALS: Final = {
    SaslCode.OK: "the server took the credentials",
    SaslCode.AUTH: "the server refused the credentials",
    SaslCode.SYS: "the server's system failed at the check of the credentials",
    SaslCode.SYS_PERM: "the server cannot check the credentials until somebody mends its system",
    SaslCode.SYS_TEMP: "the server cannot check the credentials for the moment: try again later",
}


class SaslLayer(ABC, Generic[R]):
    """What both ends share. ``R`` is what a step of the mechanism replies.

    Attributes:
        max_frame_size: the largest frame, either way, in octets.
        mechanism: the name of the mechanism in use; None before one is chosen.
        work: a part of a step that is to be run, and then resumed, before the next frame is taken; or None.
        error: why the exchange has failed; None if it has not.
        is_done: the exchange has succeeded.
    """

    def __init__(self, max_frame_size: int) -> None:
        self.max_frame_size = max_frame_size
        self.mechanism: str | None = None
        self.work: Work[R] | None = None
        self.error: AmqpforgeError | None = None
        self.is_done = False
        self._frames = 0

    def receive(self, frame: bytes) -> bytes:
        """Take a whole frame of the peer; returns the octets to send. Never raises: see ``error``."""
        return self._attempt(lambda: self._take(self._decode(frame)))

    def resume(self, computed: Computed) -> bytes:
        """Finish the step whose work was run; returns the octets to send. Never raises: see ``error``."""
        work, self.work = self.work, None
        return b"" if work is None else self._attempt(lambda: self._answer(work.resume(computed)))

    def fail(self, error: AmqpforgeError) -> bytes:
        """End the exchange without success; returns the octets that tell it to the peer."""
        self.error = error
        self.work = None
        return b""

    @abstractmethod
    def _take(self, performative: Any) -> bytes:
        """Take a performative: some SASL frame."""

    @abstractmethod
    def _answer(self, reply: R) -> bytes:
        """The octets for what a step of the mechanism replied."""

    def _perform(self, step: R | Work[R]) -> bytes:
        if isinstance(step, Work):
            self.work = step
            return b""
        return self._answer(step)

    def _attempt(self, action: Callable[[], bytes]) -> bytes:
        try:
            return action()
        except AmqpforgeError as error:
            return self.fail(error)

    def _decode(self, frame: bytes) -> Any:
        self._frames += 1
        if self._frames > _MOST_FRAMES:
            raise AuthenticationFailed(f"the peer does not end the SASL exchange after {_MOST_FRAMES} frames")
        try:
            return decode_frame(frame, limits=_LIMITS)[0].performative
        except DecodeError as error:
            raise AuthenticationFailed(f"a SASL frame of the peer is malformed: {error}") from error

    def _encode(self, performative: AnySaslFrame) -> bytes:
        frame = encode_frame(performative)
        if len(frame) > self.max_frame_size:
            raise LocalError(
                f"{performative.XML_NAME} takes a frame of {len(frame)} octets, and SASL frames have at most "
                f"{self.max_frame_size} (section 5.3.1): set max_sasl_frame_size if the peer takes more"
            )
        return frame


class SaslClient(SaslLayer[bytes]):
    """The client's end: chooses a mechanism, answers challenges, and believes no unproven success.

    Attributes:
        offered: the names of the mechanisms that the server offers; empty before it has said so.
    """

    def __init__(
        self, credentials: Credentials, *, is_private: bool, hostname: str | None, max_frame_size: int
    ) -> None:
        """See :class:`.layers.ClientSecurity`."""
        super().__init__(max_frame_size)
        self.offered: tuple[str, ...] = ()
        self._credentials = credentials
        self._is_private = is_private
        self._hostname = hostname
        self._exchange: ClientMechanism | None = None
        self._is_begun = False

    def _take(self, performative: Any) -> bytes:
        exchange = self._exchange
        if type(performative) is SaslMechanisms and exchange is None:
            self.offered = tuple(map(str, performative.sasl_server_mechanisms))
            exchange = choose(self.offered, self._credentials, is_private=self._is_private)
            self._exchange = exchange
            self.mechanism = exchange.name
            return self._perform(exchange.start())
        if type(performative) is SaslChallenge and exchange is not None:
            return self._perform(exchange.step(performative.challenge))
        if type(performative) is SaslOutcome:
            if performative.code is not SaslCode.OK:
                remark = exchange.remark if exchange else ""
                raise AuthenticationRefused(performative.code, self.mechanism, remark)
            if exchange is not None:
                exchange.finish(performative.additional_data)
                self.is_done = True
                return b""
        raise AuthenticationFailed(f"the server sent {performative.XML_NAME} where it must not")

    def _answer(self, reply: bytes) -> bytes:
        if self._is_begun:
            return self._encode(SaslResponse(response=reply))
        self._is_begun = True
        mechanism = Symbol(self.mechanism or "")
        return self._encode(SaslInit(mechanism=mechanism, initial_response=reply, hostname=self._hostname))


class SaslServer(SaslLayer[ServerReply]):
    """The server's end: offers mechanisms, and tells the outcome.

    Attributes:
        identity: for whom the client acts; None before it has shown who it is.
        hostname: the host that the client wants, None if it does not say.
    """

    def __init__(
        self, authenticator: Authenticator, offered: list[str], *, peer_name: str | None, max_frame_size: int
    ) -> None:
        """``offered``: names of mechanisms, at least one. See :class:`.layers.ServerSecurity`."""
        super().__init__(max_frame_size)
        self.identity: str | None = None
        self.hostname: str | None = None
        self._authenticator = authenticator
        self._offered = offered
        self._peer_name = peer_name
        self._exchange: ServerMechanism | None = None

    def start(self) -> bytes:
        """The octets to begin with: the list of mechanisms."""
        names = [Symbol(name) for name in self._offered]
        return self._attempt(lambda: self._encode(SaslMechanisms(sasl_server_mechanisms=names)))

    def fail(self, error: AmqpforgeError) -> bytes:
        super().fail(error)
        code = SaslCode.AUTH
        if isinstance(error, SystemFailure):
            code = {True: SaslCode.SYS_TEMP, False: SaslCode.SYS_PERM, None: SaslCode.SYS}[error.is_temporary]
        return encode_frame(SaslOutcome(code=code))

    def _take(self, performative: Any) -> bytes:
        exchange = self._exchange
        if type(performative) is SaslInit and exchange is None:
            name = str(performative.mechanism)
            if name not in self._offered:
                raise AuthenticationFailed(f"the client chose {name[:_MOST_SHOWN]!r}, which was not offered")
            self._exchange = exchange = serve(name, self._authenticator, self._peer_name)
            self.mechanism, self.hostname = name, performative.hostname
            initial = performative.initial_response
            return self._answer(b"") if initial is None else self._perform(exchange.step(initial))
        if type(performative) is SaslResponse and exchange is not None:
            return self._perform(exchange.step(performative.response))
        raise AuthenticationFailed(f"the client sent {performative.XML_NAME} where it must not")

    def _answer(self, reply: ServerReply) -> bytes:
        if isinstance(reply, bytes):
            return self._encode(SaslChallenge(challenge=reply))
        outcome = self._encode(SaslOutcome(code=SaslCode.OK, additional_data=reply.additional_data))
        self.identity = reply.identity
        self.is_done = True
        return outcome
