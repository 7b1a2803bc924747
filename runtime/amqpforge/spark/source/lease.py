"""A lease: keeps a place for one process where there are no locks, only a file that is read and written.

Clocks of several machines are not compared. Who holds the lease writes its file anew long before it ends,
and takes it for over when, by its own clock, it has lasted so long without that. Who wants it takes it for
over when, by its own clock, the file has not changed for longer than that. So the holder always knows
first.

Two that find it free at once both write; what is written last is there, and both read it after a pause that
is longer than the writing may have taken.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol
from uuid import uuid4

import pyarrow as pa

from .segment import SpoolError

__all__ = ["TIMES", "Lease", "Place", "Times"]

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Goes on while the machine sleeps, where there is such a clock."""
_MOST: Final = 600.0
"""Seconds that the lease of another process is believed to last, at most."""
_ATTEMPTS: Final = 3
_log = logging.getLogger("amqpforge.spark")


@dataclass(frozen=True, slots=True)
class Times:
    """How long things take, in seconds.

    Attributes:
        lasts: a lease that is not renewed.
        renews: from one renewal to the next.
        settles: from writing to reading back. Writing that takes more than half of it is tried again.
        margin: for which a lease that is over is left alone.
    """

    lasts: float = 30.0
    renews: float = 8.0
    settles: float = 2.0
    margin: float = 3.0


TIMES: Final = Times()


class Place(Protocol):
    """The file of a lease. Methods raise OSError or ``pyarrow.ArrowException`` where that fails."""

    def get(self) -> bytes | None:
        """What is in it; None: it is not there."""
        ...

    def put(self, octets: bytes) -> None:
        """Have this in it, in place of what was there."""
        ...

    def remove(self) -> None:
        """Have it no more."""
        ...


class Lease:
    """The lease on a spool, from :meth:`take` to :meth:`release`; a thread renews it."""

    def __init__(self, place: Place, location: str, times: Times = TIMES) -> None:
        """Make one; it is not taken.

        Args:
            place: its file.
            location: where the spool is, for errors.
            times: how long it lasts.
        """
        self._place = place
        self._location = location
        self._times = times
        self._token = uuid4().hex
        self._since = _wall()
        self._renewals = 0
        self._guard = threading.Lock()
        self._until = 0.0
        self._lost: str | None = "it is not held"
        self._mine: set[bytes] = set()  # More than one only where it is not known whether writing succeeded.
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    # --- taking ---------------------------------------------------------------------------------------------

    def take(self, timeout: float) -> None:
        """Take it. The lease of a process that was killed is waited for until it is over.

        Args:
            timeout: seconds to wait for others that have it, or want it too.

        Raises:
            SpoolError: another process has it: which one; or the storage is too slow.
        """
        deadline = _now() + timeout
        while not self._try(self._wait_until_free(deadline)):
            if _now() >= deadline:
                raise self._in_use(self._place.get())

    def _try(self, looked: float) -> bool:
        """Take what nobody had at a time; returns whether we have it: another one may have been quicker.

        Raises:
            SpoolError: the storage is too slow.
        """
        for _ in range(_ATTEMPTS):
            begun = _now()
            mine = self._document()
            self._place.put(mine)
            is_quick = _now() - looked <= self._times.settles / 2
            # Another one may have found it free as late as we wrote, and may have written as late as we did.
            # If that was late, a holder that was overwritten finds out within the time of a lease.
            self._over.wait(self._times.settles if is_quick else self._times.lasts + self._times.margin)
            looked = _now()
            if self._place.get() != mine:
                return False
            if is_quick:
                self._begin(begun, mine)
                return True
        raise SpoolError(
            f"the storage of the spool {self._location} is too slow: to write a small file took more than "
            f"{self._times.settles / 2:g} s, {_ATTEMPTS} times"
        )

    def _wait_until_free(self, deadline: float) -> float:
        """Wait until nobody has it; returns a time at which that had not been looked for yet."""
        has_changed = is_told = False
        looked = _now()
        seen = self._place.get()
        since = _now()
        while seen is not None:
            lasts = self._lasts(seen) + self._times.margin
            if _now() >= since + lasts:
                _log.warning("the lease of %s on the spool %s is over", _holder(seen), self._location)
                return looked
            if has_changed and _now() >= deadline:
                raise self._in_use(seen)
            if not is_told:
                is_told = True
                _log.warning(
                    "the spool %s is in use by %s: if that was killed, its lease ends in %g s at the latest",
                    self._location,
                    _holder(seen),
                    lasts,
                )
            self._over.wait(self._times.settles / 4)
            looked = _now()
            found = self._place.get()
            if found != seen:
                seen, since, has_changed = found, _now(), True
        return looked

    def _lasts(self, octets: bytes) -> float:
        lasts = _read(octets).get("lasts")
        return min(float(lasts), _MOST) if isinstance(lasts, int | float) else self._times.lasts

    def _begin(self, begun: float, mine: bytes) -> None:
        self._until = begun + self._times.lasts
        self._lost = None
        self._mine = {mine}
        self._thread = threading.Thread(target=self._keep, name="amqpforge spark lease", daemon=True)
        self._thread.start()

    def _in_use(self, octets: bytes | None) -> SpoolError:
        return SpoolError(
            f"the spool {self._location} is in use by {_holder(octets or b'')}: give each query a "
            "'spoolLocation' of its own"
        )

    # --- holding --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """See that it still holds.

        Raises:
            SpoolError: it does not, and never will again.
        """
        with self._guard:
            if self._lost is None and _now() >= self._until:
                self._lost = f"it could not be renewed for {self._times.lasts:g} s"
            if self._lost is not None:
                raise SpoolError(
                    f"the lease on the spool {self._location} is lost: {self._lost}. Nothing is settled that "
                    "was written since"
                )

    def _keep(self) -> None:
        """Renew it again and again."""
        pause = self._times.renews
        while not self._over.wait(pause):
            try:
                self._renew()
                self.check()
            except SpoolError as error:
                _log.error("%s", error)
                return
            except (OSError, pa.ArrowException) as error:
                _log.warning("the lease on the spool %s is not renewed: %s", self._location, error)
                pause = self._times.renews / 4
            else:
                pause = self._times.renews

    def _renew(self) -> None:
        found = self._place.get()
        if found not in self._mine:
            with self._guard:
                self._lost = f"{_holder(found or b'')} has taken it" if found else "its file was deleted"
            return
        begun = _now()
        mine = self._document()
        self._mine.add(mine)
        self._place.put(mine)
        self._mine = {mine}
        with self._guard:
            if _now() < self._until:  # Else another one may have taken it before that was written.
                self._until = begun + self._times.lasts

    def release(self) -> None:
        """Give it up, so that others need not wait. May be called again, and where it is not held."""
        self._over.set()
        thread, self._thread = self._thread, None
        if thread is None:
            return
        thread.join()
        with self._guard:
            is_ours = self._lost is None and _now() + self._times.settles < self._until
            self._lost = "it was given up"
        try:
            if is_ours and self._place.get() in self._mine:
                self._place.remove()
        except (OSError, pa.ArrowException) as error:
            _log.warning("the lease on the spool %s ends by itself: %s", self._location, error)

    def _document(self) -> bytes:
        """What the file says now; never the same."""
        self._renewals += 1
        now = datetime.now(UTC).timestamp() + self._times.lasts
        return json.dumps(
            {
                "token": self._token,
                "host": socket.gethostname(),
                "process": os.getpid(),
                "since": self._since,
                "renewals": self._renewals,
                "lasts": self._times.lasts,
                "expires": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
            }
        ).encode()


def _now() -> float:
    return time.clock_gettime(_CLOCK)


def _wall() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _read(octets: bytes) -> dict[str, Any]:
    try:
        found = json.loads(octets)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _holder(octets: bytes) -> str:
    found = _read(octets)
    if not {"process", "host", "since"} <= found.keys():
        return "another process"
    return f"process {found['process']} on {found['host']} since {found['since']}"
