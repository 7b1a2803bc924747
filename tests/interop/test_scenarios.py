"""Each cell of the tables in ``docs/interop.md``: what a scenario played with a peer comes out as."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import pytest

from amqpforge.broker.broker import Broker
from amqpforge.broker.config import VirtualHostConfig
from amqpforge.cli import main
from tests.interop.caller import Caller, configured
from tests.interop.certificates import Certificates
from tests.interop.handles import ForeignClient
from tests.interop.results import PeerError
from tests.interop.scenarios import (
    BROKER_ROWS,
    CALLERS,
    CLIENTS,
    OURS,
    PEERS,
    RABBITMQ,
    SCENARIOS,
    SERVERS,
    WORKS,
    Brokered,
    Calling,
    Served,
    Verdict,
    lacks,
)
from tests.interop.scenarios_table import CELLS, PAGE, Cell, read, write
from tests.interop.stacks import client_of, need, server_of

pytestmark = pytest.mark.interop

for part in (
    "rabbitmq_links",
    "rabbitmq_messages",
    "served_links",
    "served_messages",
    "calling_links",
    "calling_messages",
    "broker_connections",
    "broker_links",
    "broker_deliveries",
    "broker_messages",
):
    pytest.register_assert_rewrite(f"tests.interop.scenarios_{part}")
    import_module(f"tests.interop.scenarios_{part}")  # which registers its scenarios

PATIENCE = 30.0
"""Seconds after which a scenario has failed; none takes near as long."""

BY_PEER = sorted(CELLS, key=lambda cell: (*PEERS, *CALLERS).index(cell[1]))
GROUPS = [(section, peer) for section in BROKER_ROWS for peer in CALLERS]


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


# --- our broker ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def broker_loop() -> Iterator[asyncio.Runner]:
    """The event loop of the shared broker; it runs while a scenario does."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the stores and the recordings of our broker are."""
    return tmp_path_factory.mktemp("broker")


@pytest.fixture(scope="session")
def our_broker(broker_loop: asyncio.Runner, folder: Path) -> Iterator[Broker]:
    """The broker that most scenarios share, with a store on disk."""
    hosts = {"/": VirtualHostConfig(), "other": VirtualHostConfig()}
    broker = Broker(configured(store=f"sqlite:{folder / 'shared.db'}", virtual_hosts=hosts))
    broker_loop.run(broker.start())
    yield broker
    broker_loop.run(broker.stop())


@pytest.fixture(scope="session")
def callers(certificates: Certificates, our_broker: Broker, folder: Path) -> Iterator[Callers]:
    with ExitStack() as running:
        yield Callers(certificates, our_broker, folder, running)


class Callers:
    """The clients of our broker; each is started when it is wanted."""

    def __init__(self, certificates: Certificates, broker: Broker, folder: Path, running: ExitStack) -> None:
        self._certificates = certificates
        self._broker = broker
        self._folder = folder
        self._running = running
        self._clients: dict[str, ForeignClient] = {}

    def stage(self, cell: Cell) -> Caller:
        """The stage of a scenario."""
        row, peer = cell
        if peer not in self._clients:
            self._clients[peer] = self._running.enter_context(client_of(CALLERS[peer]))
        section = next(section for section, rows in BROKER_ROWS.items() if row in rows)
        return Caller(
            CALLERS[peer],
            self._clients[peer],
            self._certificates,
            self._broker,
            self._folder,
            capture_of(self._folder, section, peer),
        )


def capture_of(folder: Path, section: str, peer: str) -> Path:
    """Where what a client and our broker say in the scenarios of a section is recorded."""
    return folder / f"{section.rpartition(' ')[2]}-{CALLERS[peer]}.pcap"


# --- the cells ----------------------------------------------------------------------------------------------


@pytest.fixture
def stage(request: pytest.FixtureRequest, cell: Cell) -> object:
    """What the scenario of the cell is played with; the test is skipped, or fails, where that is missing."""
    peer = cell[1]
    if peer in CALLERS:
        callers: Callers = request.getfixturevalue("callers")
        return callers.stage(cell)
    if peer == RABBITMQ:
        return Brokered(request.getfixturevalue("broker"))
    return request.getfixturevalue(peer.replace(" ", "_").lower())


@pytest.mark.parametrize("cell", BY_PEER, ids=lambda cell: f"{cell[1]}: {cell[0]}")
def test_scenario(
    request: pytest.FixtureRequest,
    cell: Cell,
    stage: object,
    table: dict[Cell, Verdict],
    played: dict[Cell, Verdict],
) -> None:
    playing = asyncio.wait_for(_play(cell, stage), PATIENCE)
    if isinstance(stage, Caller):
        runner: asyncio.Runner = request.getfixturevalue("broker_loop")
        verdict = runner.run(playing)
    else:
        verdict = asyncio.run(playing)
    played[cell] = verdict
    assert verdict == table.get(cell)


async def _play(cell: Cell, stage: object) -> Verdict:
    try:
        return await SCENARIOS[cell](stage) or WORKS
    except PeerError as error:
        if error.where != "unsupported":
            raise
        return lacks(error)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: f"{group[1]}: {group[0]}")
def test_what_our_broker_says_is_without_fault(
    group: tuple[str, str],
    folder: Path,
    played: dict[Cell, Verdict],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Everything that clients and broker said decodes, and the broker broke no rule; nor did our client."""
    section, peer = group
    missing = [row for row in BROKER_ROWS[section] if (row, peer) not in played]
    if len(missing) == len(BROKER_ROWS[section]):
        pytest.skip(f"not played: {missing}")
    main(["decode", "--check", "--json", str(capture_of(folder, section, peer))])
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    checks = [each for each in said if each["kind"] == "check"]
    assert not [check for check in checks if len(check["seen_violations"]) < check["violations"]]
    seen = [violation for check in checks for violation in check["seen_violations"]]
    # Clients cut connections off because they are told to.
    ours = {"server", "client"} if peer == OURS else {"server"}
    blamed = [
        each for each in seen if each["end"] in ours and (each["end"], each["rule"]) != ("client", "close")
    ]
    assert not [each for each in said if each["kind"] == "error"]
    assert not blamed
    assert sum(check["server"]["frames"] for check in checks) > 100


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
        read(f"| scenario | {' | '.join(PEERS)} |\n{row}\n\n1. a note\n")
