"""What the programs in Python have in common: requests in, replies out, and how a scenario fails.

A program reads requests ``{"id": n, "do": scenario, "seconds": s, "with": {...}}``, one a line, and plays
them one after the other. It answers ``{"id": n, "result": ...}``, or with ``"failed": {where, condition,
description}``, and ends when its input does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, Protocol

LONGEST_REQUEST = 1 << 20


class Fault(Exception):
    """A scenario cannot go on; the arguments are those of ``PeerError``."""

    def __init__(self, where: str, condition: str | None, description: str | None) -> None:
        super().__init__(where, condition, description)
        self.where = where
        self.condition = condition
        self.description = description


class Player(Protocol):
    """What has a method for each scenario.

    Attributes:
        waits_for: what the scenario waits for just now, for people.
    """

    waits_for: str


async def play(player: Player, request: dict[str, Any]) -> dict[str, Any]:
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


async def obey(player: Player) -> None:
    """Play what is asked for until the input ends."""
    requests = asyncio.StreamReader(limit=LONGEST_REQUEST)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(requests), sys.stdin)
    while line := await requests.readline():
        reply = await play(player, json.loads(line))
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
