"""What a link costs: a connection may have many thousands."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from amqpforge import client
from amqpforge.client import Connection, Receiver, Sender, connect
from amqpforge.testing import ScriptedNode

from .loops import in_loop

LINKS = 300
FOLDER = Path(client.__file__).parent

#: Octets of what the modules of the client allocate for a link, the engine's end of it apart.
MOST = 600


async def attached(connection: Connection, kind: str) -> list[Sender | Receiver]:
    links: list[Sender | Receiver] = []
    for _ in range(LINKS):
        links.append(await (connection.sender("q") if kind == "sender" else connection.receiver("q")))
    return links


@pytest.mark.parametrize("kind", ["sender", "receiver"])
@in_loop
async def test_a_link_that_waits_is_small(kind: str) -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        ahead = await attached(connection, kind)  # Tables grow in large steps, and some have grown by now.
        gc.collect()
        tracemalloc.start()
        try:
            links = await attached(connection, kind)
            gc.collect()
            taken = tracemalloc.take_snapshot()
        finally:
            tracemalloc.stop()
        found = taken.filter_traces([tracemalloc.Filter(True, str(FOLDER / "*"))]).statistics("filename")
        ends = sum(type(link._end).__basicsize__ + 16 for link in links)  # 16: for the garbage collector.
        assert len(ahead) == len(links) == LINKS
        assert sum(one.size for one in found) - ends <= MOST * LINKS


@in_loop
async def test_nothing_can_be_put_on_a_link() -> None:
    async with ScriptedNode() as node, connect(node.url) as connection:
        for link in (await connection.sender("q"), await connection.receiver("q")):
            with pytest.raises(AttributeError):
                link.note = "mine"  # type: ignore[union-attr]
