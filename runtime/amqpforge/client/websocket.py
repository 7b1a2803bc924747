"""AMQP in a WebSocket (RFC 6455), as the OASIS binding "amqp-wsb" 1.0 has it.

The octets of a connection travel in binary messages of the subprotocol ``amqp``. Where a message begins says
nothing about where a frame of AMQP does (section 2.4 of the binding): what the messages carry is one stream.

The WebSocket itself is spoken by the library ``websockets``, of which only the part without I/O is used.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from amqpforge.errors import (
    ConnectionClosed,
    ConnectionLost,
    NegotiationFailed,
    ProtocolViolation,
)
from amqpforge_protocol.amqp_1_0 import AmqpConnectionError, Error

from .websocket_handshake import SUBPROTOCOL, client_protocol, refusal, shown

if TYPE_CHECKING:
    from websockets.client import ClientProtocol
    from websockets.frames import Frame
    from websockets.protocol import Event
    from websockets.typing import BytesLike

    from amqpforge.transport import Driver
    from amqpforge.url import Url

__all__ = ["open_websocket"]

_TEXT, _CLOSE = 1, 8  # opcodes; those of binary messages and of their continuations carry what we want
_DATA: Final = (0, 2)
_NORMAL, _BROKEN, _UNSUPPORTED, _POLICY = 1000, 1002, 1003, 1008  # codes of a close
_ORDERLY: Final = (_NORMAL, 1001, 1005)  # and these: the server goes away, or gives no code

_PIECE: Final = 32_768
"""Octets in a message that we send: many servers take no more than 65,536."""

_ROOM: Final = 1 << 20
"""Octets that a frame of the WebSocket may have beyond a frame of AMQP; it is held until it is whole."""

_MOST_PONGS: Final = 65_536
"""Octets of answers to pings that wait for a server that does not read."""

_PATIENCE: Final = 5.0
"""Seconds that the server has to end the transport when the WebSocket is closed."""

_FIRST: Final = 200
"""First octets that are kept to tell who it is that speaks no HTTP."""


async def open_websocket(
    url: Url, make: Callable[[], Driver], context: ssl.SSLContext | None, *, max_frame_size: int
) -> Driver:
    """Connect, open a WebSocket, and put a driver on it.

    Args:
        url: where to; what its user and password are for is SASL.
        make: makes the driver, once the WebSocket is open.
        context: how TLS is to be done; None for ``amqp+ws``.
        max_frame_size: octets of the largest frame of AMQP that we take.

    Raises:
        LocalError: the library is not installed, or the name of the host is none.
        NegotiationFailed: there is no WebSocket with the subprotocol ``amqp`` under this URL.
        ConnectionLost: the server cannot take us now, or drops the transport.
        OSError: there is nobody, the network does not let us through, or TLS failed.
    """
    protocol = client_protocol(url, _ROOM + max_frame_size)
    _, socket = await asyncio.get_running_loop().create_connection(
        lambda: _WebSocket(url, make, protocol),
        url.host,
        url.port,
        ssl=context,
        server_hostname=url.host if url.tls else None,
    )
    try:
        return await socket.opened
    except BaseException:
        socket.abort()
        raise


class _WebSocket(asyncio.Transport, asyncio.Protocol):
    """Stands between the transport of TCP or TLS, whose protocol it is, and a driver, whose transport it is.

    Attributes:
        opened: the driver, once the WebSocket is open; or why there is none.
    """

    def __init__(self, url: Url, make: Callable[[], Driver], protocol: ClientProtocol) -> None:
        super().__init__()
        self._url = url
        self._make = make
        self._protocol = protocol
        self._lower: asyncio.Transport | None = None
        self._driver: Driver | None = None
        self._first = b""
        self._pongs = 0
        self._is_blocked = False
        self._is_closing = False
        self._error: ConnectionClosed | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[Driver] = self._loop.create_future()

    # --- as a protocol: what the transport below tells --------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._lower = cast("asyncio.Transport", transport)
        self._protocol.send_request(self._protocol.connect())
        self._write_out()

    def data_received(self, data: bytes) -> None:
        if self._driver is None:
            self._first = (self._first + data)[:_FIRST]
        self._protocol.receive_data(data)
        answered = self._write_out()
        events = self._protocol.events_received()
        if self._driver is not None:
            self._take(self._driver, events)
        elif (driver := self._open()) is not None:
            self._take(driver, events[1:])
        self._pongs += answered if self._is_blocked else 0
        if self._pongs > _MOST_PONGS and not self._is_closing:
            self._violated("it pings, and does not read the answers", _POLICY)

    def eof_received(self) -> bool:
        driver = self._driver
        if driver is not None and not self._is_closing:
            driver.eof_received()  # While it can still write, as on TCP.
        self._is_closing = driver is not None
        self._protocol.receive_eof()
        if driver is None:
            self._open()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._lower = None
        self._stop_timer()
        if self._driver is not None:
            self._driver.connection_lost(self._error or exc)
        elif not self.opened.done():
            text = f"{self._url} dropped the transport ahead of an answer to the WebSocket's handshake"
            self._refuse(exc or ConnectionLost(text))

    def pause_writing(self) -> None:
        self._is_blocked = True
        if self._driver is not None:
            self._driver.pause_writing()

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._pongs = 0
        if self._driver is not None:
            self._driver.resume_writing()

    # --- as a transport: what the driver asks for -------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default if self._lower is None else self._lower.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._is_closing or self._lower is None or self._lower.is_closing()

    def is_reading(self) -> bool:
        return self._lower is not None and self._lower.is_reading()

    def pause_reading(self) -> None:
        if self._lower is not None and not self._is_closing:
            self._lower.pause_reading()

    def resume_reading(self) -> None:
        if self._lower is not None:
            self._lower.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._lower is not None:
            self._lower.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return 0 if self._lower is None else self._lower.get_write_buffer_size()

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or self._protocol.close_sent is not None:
            return
        octets = memoryview(data)
        for start in range(0, len(octets), _PIECE):
            self._protocol.send_binary(octets[start : start + _PIECE])
        self._write_out()

    def close(self) -> None:
        if self._is_closing or self._lower is None:
            return
        self._is_closing = True
        self._protocol.send_close(_NORMAL)
        self._write_out()
        self._await_end()

    def abort(self) -> None:
        self._is_closing = True
        self._stop_timer()
        if self._lower is not None:
            self._lower.abort()

    # --- between the two --------------------------------------------------------------------------------

    def _open(self) -> Driver | None:
        """A driver, if the handshake went well; if it failed, say so to whom waits."""
        protocol = self._protocol
        if self.opened.done():
            return None
        if protocol.handshake_exc is not None:
            self._refuse(refusal(self._url, protocol.handshake_exc, self._first))
        elif protocol.state.name == "OPEN":
            if protocol.subprotocol == SUBPROTOCOL:
                self._driver = driver = self._make()
                self.opened.set_result(driver)
                driver.connection_made(self)
                return driver
            protocol.fail(_BROKEN, f"this client speaks {SUBPROTOCOL}")
            self._write_out()
            text = f"the WebSocket of {self._url} does not choose the subprotocol {SUBPROTOCOL!r}"
            self._refuse(NegotiationFailed(text))
        return None

    def _refuse(self, error: Exception) -> None:
        self.opened.set_exception(error)
        self.opened.exception()  # Nobody may wait any more.

    def _take(self, driver: Driver, events: Sequence[Event]) -> None:
        """Hand over what came in, up to where it must not go on."""
        octets: list[BytesLike] = []
        opcodes: set[int] = set()
        for frame in cast("Sequence[Frame]", events):
            opcodes.add(frame.opcode)
            if frame.opcode == _TEXT:
                break
            if frame.opcode in _DATA:
                octets.append(frame.data)
        if octets and not self._is_closing:
            driver.data_received(b"".join(octets))
        if self._is_closing:
            return
        if _TEXT in opcodes:
            self._violated("a text message, where AMQP takes binary ones", _UNSUPPORTED)
        elif self._protocol.parser_exc is not None:
            self._violated(shown(str(self._protocol.parser_exc)))
        elif _CLOSE in opcodes:
            self._on_close(driver)

    def _on_close(self, driver: Driver) -> None:
        """The server has closed the WebSocket, and the library has answered: there is no way to write."""
        close = self._protocol.close_rcvd
        if close is None or close.code in _ORDERLY:
            self._is_closing = True
            driver.eof_received()
            self._await_end()
        else:
            reason = f" {shown(close.reason)}" if close.reason else ""
            self._break(ConnectionLost(f"the server closed the WebSocket with code {close.code}{reason}"))

    def _violated(self, what: str, code: int = _BROKEN) -> None:
        """The server does what a WebSocket for AMQP forbids; ``code`` tells it, if nothing did yet."""
        condition = AmqpConnectionError.FRAMING_ERROR
        fault = ProtocolViolation(condition, f"the WebSocket: {what}")
        error = ConnectionClosed(
            "the peer broke the protocol", Error(condition=condition, description=fault.description)
        )
        error.__cause__ = fault
        self._protocol.fail(code)
        self._write_out()
        self._break(error)

    def _break(self, error: ConnectionClosed) -> None:
        """Drop the transport, behind what is written, because of an error that the driver is told."""
        self._error = error
        self._is_closing = True
        self._await_end()
        if self._lower is not None:
            self._lower.close()

    def _await_end(self) -> None:
        """The close is out: read on to the end, but not for ever (section 7.1.1 of RFC 6455)."""
        self.resume_reading()
        self._stop_timer()
        self._timer = self._loop.call_later(_PATIENCE, self.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _write_out(self) -> int:
        """Write what the library has for us; returns how many octets that is."""
        pieces = self._protocol.data_to_send()
        if self._lower is not None and any(pieces):
            # An empty piece asks to shut the write side: the transport is closed instead, in its time.
            self._lower.writelines([piece for piece in pieces if piece])
        return sum(map(len, pieces))
