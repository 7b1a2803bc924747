"""Termini that survive a restart: their existence and their settings (section 3.5.5).

What is unsettled does not survive: a client that asks for the durability unsettled-state is told that it gets
configuration. Messages that were on their way are available again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amqpforge.broker.errors import BrokerError
from amqpforge_protocol.amqp_1_0 import (
    DecodeError,
    Role,
    Source,
    Target,
    TerminusDurability,
    TerminusExpiryPolicy,
    decode_value,
)

if TYPE_CHECKING:
    from amqpforge.broker.clock import Timer
    from amqpforge.broker.host import VirtualHost

__all__ = ["KIND", "Identity", "Saved", "Termini", "durability"]

KIND: Final = "terminus"
"""What the definitions are called in the store."""

_SEPARATOR: Final = "\x00"


class Identity(NamedTuple):
    """What tells a link from all others of a virtual host.

    Attributes:
        user: who has attached it; empty: nobody has logged in.
        container: the id of the client's container.
        link: its name.
        role: the broker's.
    """

    user: str
    container: str
    link: str
    role: Role


class Saved:
    """A terminus that the store has.

    Attributes:
        settings: the source or target that the client was told.
        queue: the name of the queue that was made for it; None: none was.
        timer: ends it if its link is not attached in time; None: it is attached, or stays.
    """

    __slots__ = ("queue", "settings", "timer")

    def __init__(self, settings: Source | Target, queue: str | None) -> None:
        self.settings = settings
        self.queue = queue
        self.timer: Timer | None = None


class Termini:
    """The termini of one virtual host that the store has."""

    def __init__(self, host: VirtualHost) -> None:
        """Read them from the definitions of the virtual host; those that expire begin to do so now."""
        self._host = host
        self._saved: dict[Identity, Saved] = {}
        for data in host.defined(KIND).values():
            known = _from_data(data)
            if known is not None:
                identity, saved = known
                self._saved[identity] = saved
                self._start_timer(identity, saved)

    def __len__(self) -> int:
        return len(self._saved)

    def find(self, identity: Identity) -> Saved | None:
        """The terminus of a link; None if it has none that was saved."""
        return self._saved.get(identity)

    def save(
        self,
        identity: Identity,
        settings: Source | Target,
        queue: str | None,
        done: Callable[[BrokerError | None], None],
    ) -> None:
        """Keep a terminus whose link is being attached; ``done`` is called once it is safe."""
        self._stop_timer(identity)
        self._saved[identity] = Saved(settings, queue)
        data = {
            "user": identity.user,
            "container": identity.container,
            "link": identity.link,
            "role": identity.role.name,
            "settings": settings.encode().hex(),
            "queue": queue,
        }
        self._host.define(KIND, _name(identity), data, done)

    def forget(self, identity: Identity) -> None:
        """A terminus is gone."""
        self._stop_timer(identity)
        if self._saved.pop(identity, None) is not None:
            self._host.undefine(KIND, _name(identity))

    def drop(self, identity: Identity) -> None:
        """A terminus is gone that has no link any more: so is the queue that was made for it."""
        saved = self._saved.get(identity)
        self.forget(identity)
        if saved is not None and saved.queue is not None and saved.queue in self._host.queues:
            self._host.delete_queue(saved.queue)

    def stop(self) -> None:
        """The broker stops: what is there stays as it is."""
        for saved in self._saved.values():
            if saved.timer is not None:
                saved.timer.cancel()

    def _stop_timer(self, identity: Identity) -> None:
        saved = self._saved.get(identity)
        if saved is not None and saved.timer is not None:
            saved.timer.cancel()
            saved.timer = None

    def _start_timer(self, identity: Identity, saved: Saved) -> None:
        settings = saved.settings
        if settings.expiry_policy == TerminusExpiryPolicy.NEVER:
            return
        clock = self._host.clock
        saved.timer = clock.call_at(clock.now() + settings.timeout, lambda: self.drop(identity))


def durability(asked: Source | Target) -> TerminusDurability:
    """The durability that a terminus gets of what is asked for."""
    if asked.durable == TerminusDurability.NONE:
        return TerminusDurability.NONE
    return TerminusDurability.CONFIGURATION


def _name(identity: Identity) -> str:
    return _SEPARATOR.join((identity.user, identity.container, identity.link, identity.role.name))


def _from_data(data: Any) -> tuple[Identity, Saved] | None:
    """What a definition says; None if it is none of ours, as one of a later version."""
    try:
        settings, _ = decode_value(bytes.fromhex(data["settings"]))
        identity = Identity(data["user"], data["container"], data["link"], Role[data["role"]])
        queue = data["queue"]
    except (KeyError, TypeError, ValueError, DecodeError):
        return None
    if not isinstance(settings, Source | Target):
        return None
    return identity, Saved(settings, queue)
