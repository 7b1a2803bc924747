"""Apache Qpid Proton under the orders of a test: ``python -m tests.interop.peers.proton_peer client|server``.

``PN_TRACE_FRM=1`` in the environment shows the frames on standard error.
"""

from __future__ import annotations

import asyncio
import sys

from tests.interop.peers.playing import obey
from tests.interop.peers.proton_client import Client
from tests.interop.peers.proton_server import Server

ROLES: dict[str, type[Client | Server]] = {"client": Client, "server": Server}


async def main(role: str) -> None:
    """Obey until the input ends."""
    await obey(ROLES[role]())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
