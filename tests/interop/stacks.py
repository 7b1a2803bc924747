"""The stacks: whether one is installed here, and how its programs are started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import pytest

from tests.interop.handles import ForeignClient, ForeignServer
from tests.interop.processes import Child, child

Kind = Literal["proton", "rhea", "ours"]
KINDS: tuple[Kind, ...] = ("proton", "rhea")
"""The foreign ones, which are clients and servers; ours is a client only."""
REQUIRED_VARIABLE = "AMQPFORGE_REQUIRE_PEERS"

ROOT = Path(__file__).resolve().parents[2]
PEERS = Path(__file__).resolve().parent / "peers"
LOOK_UP_SECONDS = 20.0


def need(missing: str | None) -> None:
    """Skip the test if something is ``missing``, or fail it where ``AMQPFORGE_REQUIRE_PEERS`` is 1."""
    if missing is None:
        return
    if os.environ.get(REQUIRED_VARIABLE) == "1":
        pytest.fail(f"{missing}; {REQUIRED_VARIABLE}=1 says that it has to be there", pytrace=False)
    pytest.skip(missing)


@cache
def what_is_missing(kind: Kind) -> str | None:
    """Why no peer of that kind can be started here, or None."""
    if kind == "ours":
        return None
    if kind == "proton":
        installed = find_spec("proton") is not None
        return None if installed else "Qpid Proton is not installed (pip install python-qpid-proton)"
    if shutil.which("node") is None:
        return "Node is not installed, which rhea runs on"
    look_up = ["node", "-e", "require.resolve('rhea'); require.resolve('ws')"]
    found = subprocess.run(look_up, cwd=PEERS, capture_output=True, check=False, timeout=LOOK_UP_SECONDS)
    if found.returncode:
        return f"rhea is not installed (npm ci in {PEERS.relative_to(ROOT)}, or name its folder in NODE_PATH)"
    return None


def _command(kind: Kind, role: str) -> list[str]:
    if kind != "rhea":
        return [sys.executable, "-m", f"tests.interop.peers.{kind}_peer", role]
    return ["node", str(PEERS / "rhea_peer.js"), role]


@contextmanager
def _running(kind: Kind, role: str) -> Iterator[Child]:
    """A peer for the time of a ``with`` block. What it complained of goes to standard error in the end, where
    pytest shows it if the test failed.
    """
    need(what_is_missing(kind))
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = _command(kind, role)
    with child(f"the {kind} {role}", command, cwd=ROOT, environment={"PYTHONPATH": path}) as peer:
        yield peer
    if said := peer.last_words():
        sys.stderr.write(f"--- {peer.name}:\n{said}\n")


@contextmanager
def client_of(kind: Kind) -> Iterator[ForeignClient]:
    """A client, not yet connected, for the time of a ``with`` block."""
    with _running(kind, "client") as peer:
        yield ForeignClient(peer)


@contextmanager
def server_of(kind: Kind) -> Iterator[ForeignServer]:
    """A server, not yet listening, for the time of a ``with`` block."""
    with _running(kind, "server") as peer:
        yield ForeignServer(peer)
