"""Apache Qpid Proton under the orders of a test: ``python -m tests.interop.peers.proton_peer client|server``.

Reads requests ``{"id": n, "do": scenario, "seconds": s, "with": {...}}``, one a line, and plays them one
after the other. Answers ``{"id": n, "result": ...}``, or with ``"failed": {where, condition, description}``.
Ends when its input does. ``PN_TRACE_FRM=1`` in the environment shows the frames on standard error.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from tests.interop.peers.proton_client import Client
from tests.interop.peers.proton_server import Server
from tests.interop.peers.proton_wire import Fault

ROLES: dict[str, type[Client | Server]] = {"client": Client, "server": Server}
LONGEST_REQUEST = 1 << 20


async def play(player: Client | Server, request: dict[str, Any]) -> dict[str, Any]:
    """Play one scenario and return the reply to it."""
    reply: dict[str, Any] = {"id": request["id"]}
    try:
        async with asyncio.timeout(request["seconds"]):
            reply["result"] = await getattr(player, request["do"])(**request["with"])
    except Fault as fault:
        reply["failed"] = {
            "where": fault.where,
            "condition": fault.condition,
            "description": fault.description,
        }
    except TimeoutError:
        waited = f"waited {request['seconds']} s for {player.waits_for}"
        reply["failed"] = {"where": "deadline", "condition": None, "description": waited}
    return reply


async def main(role: str) -> None:
    """Obey until the input ends."""
    requests = asyncio.StreamReader(limit=LONGEST_REQUEST)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(requests), sys.stdin)
    player = ROLES[role]()
    while line := await requests.readline():
        reply = await play(player, json.loads(line))
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
