"""A process that fills a spool until it dies at a named point, or until the node is empty.

As a program it is given the options of a stream and what to do, in JSON.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from amqpforge.spark.source import links, recovery
from amqpforge.spark.source.confirmations import Confirmations
from amqpforge.spark.source.lease import Times
from amqpforge.spark.source.live import Live
from amqpforge.spark.source.objects import ObjectStore
from amqpforge.spark.source.options import ReadOptions
from amqpforge.spark.source.spool import Spool
from amqpforge.spark.source.writer import Writer

__all__ = [
    "POINTS",
    "SELDOM",
    "UPLOAD_POINTS",
    "Death",
    "kill_others",
    "kill_session",
    "prepare",
    "run",
    "start",
]

POINTS = ("before fsync", "before rename", "before folder fsync", "after fsync", "after settle")
UPLOAD_POINTS = ("before upload", "after upload", "after fsync", "after settle")
"""Those of a spool that is no folder."""
SELDOM = {"after settle": 1}
"""How often a point is sure to be met, where that is not often: what is settled is looked at now and then,
and a fast run has few looks.
"""
_PATIENCE = 60


def run(options: dict[str, str], *, tracer: tuple[str, ...] = (), **plan: Any) -> int:
    """Run the process to its end; returns its exit code. The arguments are those of :func:`start`."""
    process = start(options, tracer=tracer, **plan)
    try:
        return process.wait(_PATIENCE)
    finally:
        process.kill()
        process.wait()


def start(options: dict[str, str], *, tracer: tuple[str, ...] = (), **plan: Any) -> subprocess.Popen[bytes]:
    """Start the process.

    Args:
        options: those of a stream.
        tracer: a command that runs the process.
        plan: ``die``: the point to die at, ``count``: when it is met for so many times; ``victim``: the
            process that is killed there, if it is another one; ``forgets``: nothing of the spool is known
            again; ``hasty``: messages are accepted before they are in the spool; ``unsynced``: there is no
            fsync; ``most_octets``: no file may have more; ``times``: those of a lease.
    """
    return subprocess.Popen([*tracer, sys.executable, __file__, json.dumps(options), json.dumps(plan)])


class Death:
    """Kills the process when a point was met often enough."""

    def __init__(self, point: str | None, count: int, kill: Callable[[], None]) -> None:
        """``kill``: ends the process, and what else has to go."""
        self._point = point
        self._left = count
        self._kill = kill

    def meet(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                self._kill()


def kill_session() -> None:
    """Die at once, and take along all processes that belong to one program, this one last."""
    kill_others(os.getsid(0))
    os.kill(os.getpid(), signal.SIGKILL)


def kill_others(session: int) -> None:
    """Kill all processes of a session, but for this one."""
    for found in Path("/proc").iterdir():
        if found.name.isdecimal() and int(found.name) != os.getpid():
            with suppress(ProcessLookupError, PermissionError):
                if os.getsid(int(found.name)) == session:
                    os.kill(int(found.name), signal.SIGKILL)


def prepare(folder: str, plan: dict[str, Any], kill: Callable[[], None]) -> None:
    """Put the points into the code.

    Args:
        folder: the spool.
        plan: see :func:`run`.
        kill: what happens at the point where to die.
    """
    _die(Death(plan.get("die"), plan.get("count", 1), kill), Path(folder).name, bool(plan.get("unsynced")))
    if "times" in plan:
        _hurry(Times(**plan["times"]))
    if plan.get("hasty"):
        _be_hasty()
    if plan.get("forgets"):
        _forget()


def _die(death: Death, spool: str, is_unsynced: bool) -> None:
    """Have the points met; ``is_unsynced``: leave the syncs out."""
    fsync, rename, put = os.fsync, os.rename, ObjectStore._put
    publish, look = Spool.publish, Confirmations._look

    def dying_fsync(file: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{file}")).name
        if name.endswith(".arrow"):
            death.meet("before fsync")
        elif name == spool:
            death.meet("before folder fsync")
        if not is_unsynced:
            fsync(file)

    def dying_rename(old: Path, new: Path) -> None:
        if new.name.endswith(".arrow"):
            death.meet("before rename")
        rename(old, new)

    def dying_put(self: ObjectStore, name: str, octets: Any) -> None:
        is_segment = ".arrow" in name
        if is_segment:
            death.meet("before upload")
        put(self, name, octets)
        if is_segment:
            death.meet("after upload")

    def dying_publish(self: Spool, *args: Any) -> Any:
        segment = publish(self, *args)
        death.meet("after fsync")
        return segment

    def dying_look(self: Confirmations) -> Any:
        if any(delivery.settled for pending in self._pending for delivery in pending.deliveries):
            death.meet("after settle")
        return look(self)

    _replace(os, "fsync", dying_fsync)
    _replace(os, "rename", dying_rename)
    _replace(ObjectStore, "_put", dying_put)
    _replace(Spool, "publish", dying_publish)
    _replace(Confirmations, "_look", dying_look)


def _hurry(times: Times) -> None:
    """Have leases that do not last."""
    make = ObjectStore.__init__

    def hurried_make(self: ObjectStore, location: str, **more: Any) -> None:
        make(self, location, times=more.pop("times", times), **more)

    _replace(ObjectStore, "__init__", hurried_make)


def _be_hasty() -> None:
    """Accept messages before they are in the spool."""
    publish = Writer._publish

    async def hasty_publish(self: Any, gathering: Any) -> Any:
        self._accept(gathering.deliveries)
        await self._receivers[0]._connection.round_trip()  # The peer has read the dispositions.
        return await publish(self, gathering)

    _replace(Writer, "_publish", hasty_publish)


def _forget() -> None:
    """Know nothing of the spool again."""

    async def attach_again(connection: Any, given: Any, address: str, name: str, tags: Any) -> Any:
        return await links.attach_again(connection, given, address, name, ())

    _replace(recovery, "attach_again", attach_again)
    _replace(recovery.Suspects, "knows", lambda *_: False)


def _replace(owner: Any, name: str, function: Callable[..., Any]) -> None:
    setattr(owner, name, function)


def main() -> None:
    """Fill the spool."""
    given, plan = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    victim = plan.get("victim", os.getpid())
    prepare(given["spoolLocation"], plan, lambda: os.kill(victim, signal.SIGKILL))
    if "most_octets" in plan:
        resource.setrlimit(resource.RLIMIT_FSIZE, (plan["most_octets"], resource.RLIM_INFINITY))
    live = Live(ReadOptions.for_stream(given), once=True)
    while not live.is_over:
        live.wait_beyond(live.spool.next)
    live.check()
    live.stop()


if __name__ == "__main__":
    main()
