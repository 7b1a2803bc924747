"""Each cell of the table in ``docs/interop.md``: what a scenario played with a peer comes out as."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from importlib import import_module

import pytest

from tests.interop.certificates import Certificates
from tests.interop.scenarios import (
    CLIENTS,
    PEERS,
    RABBITMQ,
    ROWS,
    SCENARIOS,
    SERVERS,
    WORKS,
    Brokered,
    Calling,
    Served,
    Verdict,
)
from tests.interop.scenarios_table import PAGE, Cell, read, write
from tests.interop.stacks import client_of, need, server_of

pytestmark = pytest.mark.interop

for part in (
    "rabbitmq_links",
    "rabbitmq_messages",
    "served_links",
    "served_messages",
    "calling_links",
    "calling_messages",
):
    pytest.register_assert_rewrite(f"tests.interop.scenarios_{part}")
    import_module(f"tests.interop.scenarios_{part}")  # which registers its scenarios

PATIENCE = 30.0
"""Seconds after which a scenario has failed; none takes near as long."""

CELLS: list[Cell] = [(row, peer) for rows in ROWS.values() for row in rows for peer in PEERS]
BY_PEER = sorted(CELLS, key=lambda cell: PEERS.index(cell[1]))


@pytest.fixture(scope="session")
def table() -> dict[Cell, Verdict]:
    return read(PAGE.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def played() -> dict[Cell, Verdict]:
    """What came of the scenarios that were played."""
    return {}


def _served(peer: str, certificates: Certificates) -> Iterator[Served]:
    with server_of(SERVERS[peer]) as server:
        yield Served(SERVERS[peer], server, server.listen(), certificates)


def _calling(peer: str, certificates: Certificates) -> Iterator[Calling]:
    with client_of(CLIENTS[peer]) as client:
        yield Calling(CLIENTS[peer], client, certificates)


@pytest.fixture(scope="session")
def proton_serves(certificates: Certificates) -> Iterator[Served]:
    yield from _served("Proton serves", certificates)


@pytest.fixture(scope="session")
def rhea_serves(certificates: Certificates) -> Iterator[Served]:
    yield from _served("rhea serves", certificates)


@pytest.fixture(scope="session")
def proton_calls(certificates: Certificates) -> Iterator[Calling]:
    yield from _calling("Proton calls", certificates)


@pytest.fixture(scope="session")
def rhea_calls(certificates: Certificates) -> Iterator[Calling]:
    yield from _calling("rhea calls", certificates)


@pytest.fixture
def stage(request: pytest.FixtureRequest, cell: Cell) -> object:
    """What the scenario of the cell is played with; the test is skipped, or fails, where that is missing."""
    peer = cell[1]
    if peer == RABBITMQ:
        return Brokered(request.getfixturevalue("broker"))
    return request.getfixturevalue(peer.replace(" ", "_").lower())


@pytest.mark.parametrize("cell", BY_PEER, ids=lambda cell: f"{cell[1]}: {cell[0]}")
def test_scenario(cell: Cell, stage: object, table: dict[Cell, Verdict], played: dict[Cell, Verdict]) -> None:
    verdict = asyncio.run(asyncio.wait_for(_play(cell, stage), PATIENCE))
    played[cell] = verdict
    assert verdict == table.get(cell)


async def _play(cell: Cell, stage: object) -> Verdict:
    return await SCENARIOS[cell](stage) or WORKS


def test_the_table_has_a_cell_for_each_scenario_and_peer(table: dict[Cell, Verdict]) -> None:
    assert [*table] == CELLS
    assert SCENARIOS.keys() == table.keys()


def test_the_page_has_the_tables_as_they_are_written(table: dict[Cell, Verdict]) -> None:
    assert PAGE.read_text(encoding="utf-8").endswith(write(table))


def test_the_table_is_what_was_played(
    request: pytest.FixtureRequest, table: dict[Cell, Verdict], played: dict[Cell, Verdict]
) -> None:
    chosen = sum(item.name.startswith(test_scenario.__name__) for item in request.session.items)
    if chosen < len(CELLS):
        pytest.skip(f"{chosen} of {len(CELLS)} scenarios were chosen")
    missing = [cell for cell in CELLS if cell not in played]
    need(f"not played: {missing}" if missing else None)
    assert played == table


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("| drain | works | works | works | works |", "has 4 cells, not 5"),
        ("| drain | works | works | works | works | maybe |", "'maybe' is no cell"),
        ("| drain | works | works | works | works | refuses |", "'refuses' is no cell"),
        ("| drain | works | works | works | works | works [1] |", "is no cell"),
        ("| drain | works | works | works | works | refuses [2] |", "names a note that is not there"),
    ],
)
def test_a_table_that_makes_no_sense_is_told_of(row: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        read(f"{row}\n\n1. a note\n")
