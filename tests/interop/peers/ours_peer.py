"""Our own client under the orders of a test: ``python -m tests.interop.peers.ours_peer client``.

``AMQPFORGE_TRACE=frm`` in the environment shows the frames on standard error.
"""

from __future__ import annotations

import asyncio

from tests.interop.peers.ours_client import Client
from tests.interop.peers.playing import obey


async def main() -> None:
    """Obey until the input ends."""
    await obey(Client())


if __name__ == "__main__":
    asyncio.run(main())
