"""TLS that a protocol header asks for, from a client that goes on at once."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from amqpforge.broker.broker import Broker
from amqpforge.broker.config import ListenerConfig, Start, TlsFiles
from amqpforge_protocol.amqp_1_0 import ProtocolHeader, ProtocolId
from tests.interop.caller import configured
from tests.interop.certificates import Certificates

TLS = ProtocolHeader(ProtocolId.TLS).encode()
SASL = ProtocolHeader(ProtocolId.SASL).encode()
PATIENCE = 10.0


async def shake_hands(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, files: Certificates
) -> bytes:
    """Do the handshake, and send the end of it and a SASL header in one piece; returns what comes back.

    Raises:
        ssl.SSLError: the connection ends instead.
    """

    async def take() -> None:
        if octets := await reader.read(65_536):
            incoming.write(octets)
        else:
            incoming.write_eof()

    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=files.authority)
    inside = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    while True:
        try:
            inside.do_handshake()
            break
        except ssl.SSLWantReadError:
            writer.write(outgoing.read())
            await take()
    inside.write(SASL)
    writer.write(outgoing.read())
    while True:
        try:
            return inside.read(65_536)
        except ssl.SSLWantReadError:
            await take()


@pytest.mark.parametrize("start", [Start.OFFERED, Start.REQUIRED])
def test_what_comes_with_the_end_of_the_handshake_is_not_lost(
    certificates: Certificates, start: Start
) -> None:
    files = TlsFiles(certificate=certificates.server, key=certificates.server_key, start=start)

    async def play() -> None:
        async with Broker(configured(listeners=(ListenerConfig(port=0, tls=files),))) as broker:
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.ports[0].number)
            writer.write(TLS)
            assert await reader.readexactly(len(TLS)) == TLS
            assert (await shake_hands(reader, writer, certificates)).startswith(SASL)
            writer.close()

    asyncio.run(asyncio.wait_for(play(), PATIENCE))
