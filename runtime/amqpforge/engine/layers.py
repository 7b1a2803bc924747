"""The layers before AMQP, TLS that protocol headers ask for and SASL (section 5), stacked below a connection.

A stack has the verbs of a :class:`.connection.Connection` and is driven like one. While a layer is negotiated
it answers by itself; after that its verbs are those of the connection, with nothing in between.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from amqpforge.errors import AmqpforgeError, AuthenticationFailed, LocalError, NegotiationFailed
from amqpforge.sasl import Authenticator, Computed, Credentials, ServerReply, Work, offer
from amqpforge_protocol.amqp_1_0 import (
    FRAME_HEADER_SIZE,
    MIN_MAX_FRAME_SIZE,
    PROTOCOL_HEADER_SIZE,
    DecodeError,
    FrameType,
    ProtocolHeader,
    ProtocolId,
    decode_frame_header,
    decode_protocol_header,
)

from .events import Event
from .headers import AMQP_HEADER, SASL_HEADER, TLS_HEADER, answer, could_begin_header, describe, refusal
from .sasl_layer import AuthenticationRefused, SaslClient, SaslServer

__all__ = [
    "MOST_HELD",
    "AuthenticationRefused",
    "ClientSecurity",
    "ClientStack",
    "Endpoint",
    "LayerFailed",
    "SaslClient",
    "SaslServer",
    "ServerSecurity",
    "ServerStack",
    "Stack",
]

MOST_HELD: Final = 65_536
"""Octets that are held while a layer is negotiated: what a peer sends ahead of our answer."""

_UNREAD: Final = 16  # octets of garbage that are enough to say what it is

Octets: TypeAlias = bytes | bytearray | memoryview


@dataclass(slots=True)
class LayerFailed:
    """A layer could not be negotiated, so there is no connection; ``error`` says why."""

    error: AmqpforgeError


class Endpoint(Protocol):
    """What a stack asks of the connection above it: the verbs of :class:`.connection.Connection`."""

    def receive(self, data: Octets, now: float) -> None: ...
    def events(self) -> list[Event]: ...
    def data_to_send(self, now: float) -> bytes: ...
    def next_deadline(self) -> float | None: ...
    def end_of_input(self, now: float) -> None: ...
    @property
    def output_closed(self) -> bool: ...
    @property
    def is_over(self) -> bool: ...
    @property
    def wants_input(self) -> bool: ...


C = TypeVar("C", bound=Endpoint)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """The layers that a client asks for.

    Attributes:
        credentials: what to show in SASL; None: no SASL layer.
        hostname: the host that is wanted, by which a server may choose its users; None, or the same name, if
            TLS told it.
        tls: ``"header"``: a protocol header asks for TLS; None: the transport has TLS from its start, or not.
        max_sasl_frame_size: the largest SASL frame, in octets. The specification sets it; a token needs more
            as a rule, and some servers take more.
    """

    credentials: Credentials | None = None
    hostname: str | None = None
    tls: Literal["header"] | None = None
    max_sasl_frame_size: int = MIN_MAX_FRAME_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSecurity:
    """The layers that a server accepts.

    Attributes:
        authenticator: says who the users are; None: no SASL layer.
        sasl_required: refuse AMQP without a SASL layer; without an authenticator nothing is asked.
        tls: ``"offered"``: TLS may be asked for by a protocol header; ``"required"``: it has to be; None: the
            transport has TLS from its start, or none.
        allow_insecure_plain: offer PLAIN and tokens also where others can read the transport.
        max_sasl_frame_size: the largest SASL frame, in octets.
    """

    authenticator: Authenticator | None = None
    sasl_required: bool = True
    tls: Literal["offered", "required"] | None = None
    allow_insecure_plain: bool = False
    max_sasl_frame_size: int = MIN_MAX_FRAME_SIZE


class Stack(ABC, Generic[C]):
    """The layers of one transport with a connection on top: a :class:`ClientStack` or a :class:`ServerStack`.

    ``receive``, ``events``, ``data_to_send``, ``next_deadline`` and ``end_of_input`` are the verbs of a
    connection; look them up on the stack at each call. What layers ask of the driver beyond that:

    - ``work`` is not None: call its ``run``, in any thread, and hand the result to :meth:`resume`.
    - ``wants_tls``: write out what :meth:`data_to_send` gives, put TLS on the transport, beginning with the
      octets of :meth:`octets_for_tls`, and call :meth:`tls_established`.

    How long a peer may take for the layers is up to the driver.

    Attributes:
        connection: what the layers are for.
        error: why a layer failed; None if none did. There was one event :class:`LayerFailed` about it.
        sasl: our end of the SASL exchange, None if there was none; a server finds there who the client is.
        wants_tls: both sides have asked for TLS, which comes next.
        is_private: nobody else can read the transport: it is encrypted, or does not leave this machine.
    """

    receive: Callable[[Octets, float], None]
    events: Callable[[], Sequence[Event | LayerFailed]]
    data_to_send: Callable[[float], bytes]
    next_deadline: Callable[[], float | None]
    end_of_input: Callable[[float], None]

    def __init__(self, connection: C, *, is_private: bool) -> None:
        self.connection = connection
        self.error: AmqpforgeError | None = None
        self.sasl: SaslClient | SaslServer | None = None
        self.wants_tls = False
        self.is_private = is_private
        self._is_tls_done = False
        self._is_through = False
        self._input_ended = False
        self._is_told = False
        self._held = bytearray()
        self._output = bytearray()
        self.receive = self._receive
        self.events = self._events
        self.data_to_send = self._data_to_send
        self.next_deadline = lambda: None
        self.end_of_input = self._end_of_input

    # --- what drivers use beside the verbs -----------------------------------------------------------------

    @property
    def output_closed(self) -> bool:
        """Whether nothing is written behind what waits now."""
        return self.error is not None or self.connection.output_closed

    @property
    def is_over(self) -> bool:
        """Whether the transport can be dropped, once what waits is written.

        After a failure the peer's octets are thrown away until they end (section 2.2).
        """
        return self._input_ended if self.error is not None else self.connection.is_over

    @property
    def wants_input(self) -> bool:
        """Whether to go on reading."""
        return self.work is None and not self.wants_tls and self.connection.wants_input

    @property
    def work(self) -> Work[bytes] | Work[ServerReply] | None:
        """What is to be computed before the layers can go on, None if there is nothing."""
        return None if self.sasl is None else self.sasl.work

    def resume(self, computed: Computed, now: float) -> None:
        """Take what running :attr:`work` came to; does nothing if the layer has failed meanwhile."""
        if self.sasl is not None and self.sasl.work is not None:
            self._output += self.sasl.resume(computed)
            self._go_on(now)

    def octets_for_tls(self) -> bytes:
        """The octets that came behind the header for TLS, and so belong to TLS; hands them out once."""
        octets = bytes(self._held)
        self._held.clear()
        return octets

    def tls_established(self, peer_name: str | None = None) -> None:
        """TLS is on the transport: go on with the next layer.

        Args:
            peer_name: for a server, the name in the certificate of the client, None without one.

        Raises:
            LocalError: nobody asked for TLS, or octets that belong to it were not taken.
        """
        if not self.wants_tls:
            raise LocalError("TLS was not asked for by a protocol header, or is established already")
        if self._held:
            raise LocalError(f"{len(self._held)} octets belong to TLS: take them with octets_for_tls")
        self.wants_tls = False
        self.is_private = self._is_tls_done = True
        self._after_tls(peer_name)

    # --- for the two kinds ---------------------------------------------------------------------------------

    @abstractmethod
    def _after_tls(self, peer_name: str | None) -> None:
        """TLS is on the transport."""

    @abstractmethod
    def _take_header(self, octets: bytes) -> None:
        """The peer's protocol header, or the octets that show that it sends none.

        Raises:
            AmqpforgeError: it is not acceptable.
        """

    def _hand_over(self) -> None:
        """No layer is left: from now on the connection is spoken to directly."""
        self._is_through = True
        connection = self.connection
        self.receive, self.events = connection.receive, connection.events
        self.next_deadline, self.end_of_input = connection.next_deadline, connection.end_of_input
        self.data_to_send = self._last_words if self._output else connection.data_to_send

    # --- the verbs while layers are negotiated -------------------------------------------------------------

    def _receive(self, data: Octets, now: float) -> None:
        if self.error is None:
            self._held += data
            self._go_on(now)

    def _events(self) -> list[Event | LayerFailed]:
        if self.error is None or self._is_told:
            return []
        self._is_told = True
        return [LayerFailed(self.error)]

    def _data_to_send(self, now: float) -> bytes:
        octets = bytes(self._output)
        self._output.clear()
        return octets

    def _last_words(self, now: float) -> bytes:
        self.data_to_send = self.connection.data_to_send
        return self._data_to_send(now) + self.connection.data_to_send(now)

    def _end_of_input(self, now: float) -> None:
        self._input_ended = True
        if self.error is not None:
            return
        if self.sasl is not None:
            used = f" with {self.sasl.mechanism}" if self.sasl.mechanism else ""
            doubt = ": the credentials may be wrong" if used and isinstance(self.sasl, SaslClient) else ""
            self._fail(
                AuthenticationFailed(f"the peer ended the connection inside the SASL exchange{used}{doubt}")
            )
        elif self.wants_tls:
            self._fail(NegotiationFailed("the peer ended the connection where TLS was to begin"))
        else:
            self._attempt_header(bytes(self._held))

    # --- how the layers go on ------------------------------------------------------------------------------

    def _go_on(self, now: float) -> None:
        """Do what the octets at hand allow; what is left over at the end is the connection's."""
        while self._advance():
            pass
        if self.error is not None:
            self._held.clear()
        elif self._is_through:
            if self._held:
                self.connection.receive(bytes(self._held), now)
                self._held.clear()
        elif len(self._held) > MOST_HELD:
            self._fail(NegotiationFailed(f"the peer sent more than {MOST_HELD} octets ahead of our answer"))

    def _advance(self) -> bool:
        """One header or frame further; returns whether there may be more to do."""
        if self.error is not None or self.wants_tls or self._is_through:
            return False
        if self.sasl is not None:
            return self._advance_sasl(self.sasl)
        octets = bytes(self._held[:_UNREAD])
        if could_begin_header(octets) and len(octets) < PROTOCOL_HEADER_SIZE:
            return False
        self._attempt_header(octets)
        return True

    def _attempt_header(self, octets: bytes) -> None:
        try:
            self._take_header(octets)
        except AmqpforgeError as error:
            self._fail(error)

    def _advance_sasl(self, sasl: SaslClient | SaslServer) -> bool:
        if sasl.error is not None:
            self._fail(sasl.error)
        elif sasl.is_done:
            self._hand_over()
        elif sasl.work is None:
            try:
                frame = self._next_frame(sasl.max_frame_size)
            except AuthenticationFailed as error:
                self._output += sasl.fail(error)
                return True
            if frame:
                self._output += sasl.receive(frame)
                return True
        return False

    def _next_frame(self, max_frame_size: int) -> bytes:
        """The next SASL frame; empty if it is not all there.

        Raises:
            AuthenticationFailed: the next octets are no SASL frame, or one that is too large.
        """
        start = bytes(self._held[:FRAME_HEADER_SIZE])
        if len(start) < FRAME_HEADER_SIZE:
            return b""
        if start.startswith(b"AMQP"):
            raise AuthenticationFailed("the peer sent a protocol header inside the SASL exchange")
        try:
            header = decode_frame_header(start)
        except DecodeError as error:
            raise AuthenticationFailed(f"a frame inside the SASL exchange is malformed: {error}") from error
        if header.type != FrameType.SASL:
            raise AuthenticationFailed(f"a frame of type {header.type} came inside the SASL exchange")
        if header.size > max_frame_size:
            raise AuthenticationFailed(
                f"the peer sent a SASL frame of {header.size} octets; at most {max_frame_size} are allowed"
            )
        if len(self._held) < header.size:
            return b""
        frame = bytes(self._held[: header.size])
        del self._held[: header.size]
        return frame

    def _fail(self, error: AmqpforgeError) -> None:
        self.error = error
        self.wants_tls = False
        if self.sasl is not None:
            self.sasl.work = None


class ClientStack(Stack[C]):
    """A client's layers; its first protocol header waits to be sent from the start (section 2.2)."""

    def __init__(self, connection: C, security: ClientSecurity, *, is_private: bool = False) -> None:
        """``is_private``: the transport is encrypted already, or does not leave this machine."""
        super().__init__(connection, is_private=is_private)
        self._security = security
        self._asked = AMQP_HEADER
        if security.tls == "header":
            self._ask(TLS_HEADER)
        else:
            self._after_tls(None)

    def _after_tls(self, peer_name: str | None) -> None:
        if self._security.credentials is None:
            self._hand_over()
        else:
            self._ask(SASL_HEADER)

    def _ask(self, header: ProtocolHeader) -> None:
        self._asked = header
        self._output += header.encode()

    def _take_header(self, octets: bytes) -> None:
        if octets[:PROTOCOL_HEADER_SIZE] != self._asked.encode():
            raise refusal(self._asked, octets)
        del self._held[:PROTOCOL_HEADER_SIZE]
        security = self._security
        if self._asked == TLS_HEADER:
            self.wants_tls = True
        elif security.credentials is not None:
            self.sasl = SaslClient(
                security.credentials,
                is_private=self.is_private,
                hostname=security.hostname,
                max_frame_size=security.max_sasl_frame_size,
            )


class ServerStack(Stack[C]):
    """A server's layers: the first protocol header of the client decides which of them there will be."""

    def __init__(
        self,
        connection: C,
        security: ServerSecurity,
        *,
        is_private: bool = False,
        peer_name: str | None = None,
    ) -> None:
        """Take a new transport.

        Args:
            connection: what the layers are for; a connection of the server's side.
            security: what to accept.
            is_private: the transport is encrypted already, or does not leave this machine.
            peer_name: the name in the client's TLS certificate, None without one.
        """
        super().__init__(connection, is_private=is_private)
        self._security = security
        self._peer_name: str | None = None
        self._offered: list[str] = []
        self._acceptable: list[ProtocolHeader] = []
        self._after_tls(peer_name)

    def _after_tls(self, peer_name: str | None) -> None:
        security = self._security
        self._peer_name = peer_name
        if security.authenticator is not None:
            self._offered = offer(
                security.authenticator,
                is_private=self.is_private,
                peer_name=peer_name,
                allow_insecure_plain=security.allow_insecure_plain,
            )
        self._acceptable = self._accept()
        if self._acceptable == [AMQP_HEADER]:
            self._hand_over()
        elif not self._acceptable:
            self._fail(
                AuthenticationFailed(
                    "no SASL mechanism can be offered: those of the authenticator ask for TLS, or for a "
                    "certificate of the client"
                )
            )

    def _accept(self) -> list[ProtocolHeader]:
        """The headers that a client may begin with now, that for all others first."""
        security = self._security
        tls = [] if security.tls is None or self._is_tls_done else [TLS_HEADER]
        if tls and security.tls == "required":
            return tls
        sasl = [SASL_HEADER] if self._offered else []
        plain = [AMQP_HEADER] if security.authenticator is None or not security.sasl_required else []
        return [*sasl, *plain, *tls]

    def _take_header(self, octets: bytes) -> None:
        received = None
        if could_begin_header(octets) and len(octets) >= PROTOCOL_HEADER_SIZE:
            received, _ = decode_protocol_header(octets)
            if received.protocol_id == ProtocolId.AMQP and AMQP_HEADER in self._acceptable:
                self._hand_over()  # The version is the connection's concern.
                return
        reply = answer(received, self._acceptable)
        self._output += reply.encode()
        if reply != received:
            accepted = ", ".join(ProtocolId(header.protocol_id).name for header in self._acceptable)
            raise NegotiationFailed(f"the client is {describe(octets)}, and accepted is only {accepted}")
        del self._held[:PROTOCOL_HEADER_SIZE]
        security = self._security
        if reply == TLS_HEADER:
            self.wants_tls = True
        elif security.authenticator is not None:
            self.sasl = SaslServer(
                security.authenticator,
                self._offered,
                peer_name=self._peer_name,
                max_frame_size=security.max_sasl_frame_size,
            )
            self._output += self.sasl.start()
