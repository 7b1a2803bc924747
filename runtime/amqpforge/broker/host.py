"""A virtual host: exchanges and queues under one name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from .errors import AccessRefused, BrokerError, NotFound, PreconditionFailed
from .exchanges import (
    Binding,
    Chain,
    DestinationKind,
    Exchange,
    Removed,
    Wiring,
    settings_from_data,
    settings_to_data,
)
from .exchanges.data import field
from .prepared import Prepared
from .queues import Queue
from .settings import ExchangeSettings, QueueSettings
from .traffic import Traffic

if TYPE_CHECKING:
    from .clock import Clock
    from .core import Core, Told, Work

__all__ = ["VirtualHost"]

_RESERVED: Final = "amq."
_GENERATED: Final = "amq.gen-"


class VirtualHost:
    """One virtual host. A method that raises has changed nothing; nobody's rights are looked at here.

    What is said to be done is visible at once; what is durable is safe once the core's :meth:`.Core.barrier`
    has been passed.

    Attributes:
        name: its name.
        core: what all virtual hosts share.
        clock: what time it is.
        wiring: exchanges and bindings.
        queues: by name.
        traffic: the messages.
        prepared: transactions that an outside coordinator has yet to decide.
    """

    def __init__(self, name: str, core: Core) -> None:
        self.name = name
        self.core = core
        self.clock: Clock = core.clock
        self.wiring: Wiring[Queue] = Wiring()
        self.traffic = Traffic(core, self.wiring, self._unused)
        self.prepared = Prepared(self)
        self.queues: Mapping[str, Queue] = self.wiring.queues
        self._defined: dict[str, dict[str, Mapping[str, Any]]] = {}
        self._owned: dict[object, dict[str, None]] = {}  # names of exclusive queues
        core.usage.exchanges.take(len(self.wiring.exchanges))

    def __repr__(self) -> str:
        return f"<VirtualHost {self.name!r}, {len(self.queues)} queues>"

    # --- queues --------------------------------------------------------------------------------------------

    def queue(self, name: str) -> Queue:
        """The queue of that name.

        Raises:
            NotFound: there is none.
        """
        queue = self.queues.get(name)
        if queue is None:
            raise NotFound(
                f"there is no queue {name!r:.80} in the virtual host {self.name!r}: declare it first"
            )
        return queue

    def declare_queue(
        self,
        name: str | None,
        settings: QueueSettings | None = None,
        *,
        passive: bool = False,
        owner: object = None,
    ) -> Queue:
        """Have a queue: a new one, or the one that there is if it has equal settings.

        Args:
            name: its name; None or empty: one that the broker finds.
            settings: what it is like; None: nothing is unusual about it.
            passive: it is only looked for, and the settings do not count.
            owner: the connection that an exclusive queue belongs to.

        Raises:
            AccessRefused: there is none, and the name is one that only the broker gives.
            InvalidArgument: it cannot be called so, or be like that.
            LimitExceeded: there are too many queues.
            NotFound: there is none, and it is only looked for.
            PreconditionFailed: there is one with other settings.
            ResourceLocked: there is one that belongs to another connection.
        """
        settings = settings or QueueSettings()
        known = self.queues.get(name) if name else None
        if passive or known is not None:
            known = known or self.queue(name or "")
            known.check_owner(owner)
            if not passive and known.settings != settings:
                raise PreconditionFailed(
                    f"queue {name!r} is there already, as {known.settings}: declare it like that, or delete "
                    "it first"
                )
            known.touch()
            return known
        if name and name.startswith(_RESERVED):
            raise AccessRefused(
                f"queue {name!r:.80}: names that begin with {_RESERVED!r} are the broker's own"
            )
        queue = self._new_queue(name or f"{_GENERATED}{uuid4().hex}", settings, self.core.next_queue(), owner)
        if settings.durable:
            data = {"number": queue.number, **settings.to_data()}
            self.core.define("queue", self._key(queue.name), data)
        return queue

    def _new_queue(self, name: str, settings: QueueSettings, number: int, owner: object) -> Queue:
        self.core.usage.queues.take()
        queue = Queue(name, number, settings, self.clock, self.traffic, owner)
        try:
            self.wiring.add_queue(queue)
        except BrokerError:
            self.core.usage.queues.give_back()
            raise
        if settings.exclusive:
            self._owned.setdefault(owner, {})[name] = None
        return queue

    def delete_queue(
        self, name: str, *, if_unused: bool = False, if_empty: bool = False, owner: object = None
    ) -> int:
        """Delete a queue with its bindings; returns how many messages were in it.

        Args:
            name: its name.
            if_unused: only if it has no consumer.
            if_empty: only if it has no message.
            owner: the connection that wants it.

        Raises:
            NotFound: there is none.
            PreconditionFailed: it is used, or not empty, and is to be deleted only if it is not.
            ResourceLocked: it belongs to another connection.
        """
        queue = self.queue(name)
        queue.check_owner(owner)
        if if_unused and queue.consumer_count:
            raise PreconditionFailed(f"queue {name!r} is used: it has {queue.consumer_count} consumers")
        if if_empty and queue.ready + queue.unacknowledged:
            raise PreconditionFailed(
                f"queue {name!r} is not empty: it has {queue.ready + queue.unacknowledged} messages"
            )
        removed = self.wiring.remove_queue(name)
        self.core.flush()
        work = self.core.work()
        count = queue.delete(work)
        if queue.settings.durable:
            self.core.undefine("queue", self._key(name), work)
        self.core.usage.queues.give_back()
        self._remove(removed, work)
        if queue.settings.exclusive:
            self._disown(queue)
        return count

    def _disown(self, queue: Queue) -> None:
        names = self._owned[queue.owner]
        del names[queue.name]
        if not names:
            del self._owned[queue.owner]

    def purge_queue(self, name: str, *, owner: object = None) -> int:
        """Drop the messages of a queue that nobody holds; returns how many these were.

        Raises:
            NotFound: there is no such queue.
            ResourceLocked: it belongs to another connection.
        """
        queue = self.queue(name)
        queue.check_owner(owner)
        return queue.purge()

    def _unused(self, queue: Queue) -> None:
        """Nobody has used a queue for as long as it waits for that."""
        if self.queues.get(queue.name) is queue:
            self.delete_queue(queue.name, owner=queue.owner)

    def release_owner(self, owner: object) -> None:
        """A connection is gone: so are the queues that were its alone."""
        for name in list(self._owned.get(owner, ())):
            self.delete_queue(name, owner=owner)

    # --- exchanges and bindings ----------------------------------------------------------------------------

    def declare_exchange(
        self, name: str, settings: ExchangeSettings | None = None, *, passive: bool = False
    ) -> Exchange:
        """Have an exchange; see :meth:`.Wiring.declare`. ``settings``: None: a direct one.

        Raises:
            LimitExceeded: there are too many exchanges.
        """
        is_new = name not in self.wiring.exchanges and not passive
        if is_new:
            self.core.usage.exchanges.take()
        try:
            exchange = self.wiring.declare(name, settings or ExchangeSettings(), passive=passive)
        except BrokerError:
            if is_new:
                self.core.usage.exchanges.give_back()
            raise
        if is_new and exchange.settings.durable:
            self.core.define("exchange", self._key(name), settings_to_data(exchange.settings))
        return exchange

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange with all its bindings; see :meth:`.Wiring.delete`."""
        self._remove(self.wiring.delete(name, if_unused=if_unused))

    def bind(self, bound: Binding | Chain) -> None:
        """Have a binding, or a chained one; see :meth:`.Wiring.bind`. One that is there is left as it is.

        Raises:
            LimitExceeded: there are too many bindings.
        """
        is_known, is_new = self._is_bound(bound), False
        if not is_known:
            self.core.usage.bindings.take()
        try:
            is_new = self._wire(bound)
        finally:
            if not is_known and not is_new:
                self.core.usage.bindings.give_back()
        if is_new and self._survives(bound):
            data = bound.to_data()
            self.core.define(_kind(bound), self._key(_canonical(data)), data)

    def _is_bound(self, bound: Binding | Chain) -> bool:
        if isinstance(bound, Chain):
            return bound in self.wiring.chains
        source = self.wiring.exchanges.get(bound.source)
        return source is not None and bound in source.bindings

    def _wire(self, bound: Binding | Chain) -> bool:
        return self.wiring.bind(bound) if isinstance(bound, Binding) else self.wiring.bind_chain(bound)

    def unbind(self, bound: Binding | Chain) -> None:
        """Have a binding, or a chained one, no longer; see :meth:`.Wiring.unbind`."""
        if isinstance(bound, Chain):
            self._remove(self.wiring.unbind_chain(bound))
        else:
            self._remove(self.wiring.unbind(bound))

    def _survives(self, bound: Binding | Chain) -> bool:
        """Whether all that a binding ties together is there again after a restart."""
        exchanges = self.wiring.exchanges
        if isinstance(bound, Chain):
            names, queue = [step.exchange for step in bound.steps], bound.queue
        elif bound.destination.kind is DestinationKind.QUEUE:
            names, queue = [bound.source], bound.destination.name
        else:
            names, queue = [bound.source, bound.destination.name], None
        return all(exchanges[name].settings.durable for name in names) and (
            queue is None or self.queues[queue].settings.durable
        )

    def _remove(self, removed: Removed, work: Work | None = None) -> None:
        """Account for what is gone, and have the store forget it."""
        usage = self.core.usage
        usage.exchanges.give_back(len(removed.exchanges))
        usage.bindings.give_back(len(removed.bindings) + len(removed.chains))
        work = self.core.work() if work is None else work
        for exchange in removed.exchanges:
            self.core.undefine("exchange", self._key(exchange.name), work)
        gone: list[Binding | Chain] = [*removed.bindings, *removed.chains]
        for bound in gone:
            self.core.undefine(_kind(bound), self._key(_canonical(bound.to_data())), work)
        self.core.commit(work)

    # --- what heads keep -----------------------------------------------------------------------------------

    def defined(self, kind: str) -> Mapping[str, Mapping[str, Any]]:
        """What a head has defined of a kind, by name."""
        return self._defined.get(kind, {})

    def define(self, kind: str, name: str, data: Mapping[str, Any], told: Told | None = None) -> None:
        """Keep JSON values for a head; ``told`` once they are safe."""
        self._defined.setdefault(kind, {})[name] = data
        self.core.define(kind, self._key(name), data, told)

    def undefine(self, kind: str, name: str, work: Work | None = None) -> None:
        """Keep them no longer; ``work``: what this becomes true with, None: it does so by itself."""
        if self._defined.get(kind, {}).pop(name, None) is None:
            return
        unit = self.core.work() if work is None else work
        self.core.undefine(kind, self._key(name), unit)
        if unit is not work:
            self.core.commit(unit)

    def _key(self, name: str) -> str:
        """What a name is called among those of all virtual hosts."""
        return json.dumps([self.name, name])

    # --- what the store has --------------------------------------------------------------------------------

    def restore(self, kind: str, name: str, data: Mapping[str, Any]) -> Queue | None:
        """Have again what the store has; nothing is written. Returns the queue, if it is one.

        Raises:
            BrokerError: it does not fit to what there is; it cannot have been written so.
        """
        if kind == "queue":
            return self._new_queue(name, QueueSettings.from_data(data), field(data, "number", int), None)
        if kind == "exchange":
            self.core.usage.exchanges.take()
            self.wiring.declare(name, settings_from_data(data))
        elif kind in ("binding", "chain"):
            self.core.usage.bindings.take()
            self._wire(Binding.from_data(data) if kind == "binding" else Chain.from_data(data))
        else:
            self._defined.setdefault(kind, {})[name] = data
        return None

    def stop(self) -> None:
        """Serve nobody any more."""
        self.traffic.stop()
        for queue in self.queues.values():
            queue.stop()


def _kind(bound: Binding | Chain) -> str:
    return "chain" if isinstance(bound, Chain) else "binding"


def _canonical(data: Mapping[str, Any]) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"))
