"""What a broker has again after a restart: all that its store holds."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from .amqp_1_0.form import FORM
from .errors import BrokerError, StoreError
from .host import VirtualHost
from .message import Message
from .queues import Entry

if TYPE_CHECKING:
    from .core import Core
    from .queues import Queue
    from .store import Definition, Recovered

__all__ = ["recover"]

_FORMS = {FORM.number: FORM}
_ORDER = ("queue", "exchange", "binding", "chain")
"""Kinds of definitions in the order in which they can be made; all others come behind."""
_SIZES = 10_000
"""How many different sizes of messages one object is made of each."""


def recover(core: Core, recovered: Recovered, hosts: Iterable[str]) -> dict[str, VirtualHost]:
    """Make virtual hosts, those that are named and those that the store knows, with all that it holds.

    Raises:
        StoreError: it holds what no broker of this version can have written.
    """
    made = {name: VirtualHost(name, core) for name in hosts}
    queues = _define(core, recovered.definitions, made)
    with _no_collection():
        messages = {message.id: message for message in _messages(recovered)}
        last_message = max(messages, default=0)
        work = core.work()
        remembered = _by_queue(recovered.remembered)
        for number, entries in _entries(recovered, messages):
            queue = queues.get(number)
            if queue is None:  # It was deleted before all of what had come for it was written.
                work.drop_queue(number)
            else:
                queue.restore(entries, remembered.pop(number, ()))
        for number, known in remembered.items():
            if number in queues:
                queues[number].restore((), known)
            else:
                work.drop_queue(number)
        for message in messages.values():
            if message.references:
                core.bodies.hold(message)
            else:
                work.forget(message.id)
    core.go_on_from(last_message, max(queues, default=0))
    for host in made.values():
        host.prepared.restore(_FORMS)
    if work:
        core.commit(work)
    return made


def _define(core: Core, definitions: Iterable[Definition], hosts: dict[str, VirtualHost]) -> dict[int, Queue]:
    queues: dict[int, Queue] = {}
    ranks = {kind: rank for rank, kind in enumerate(_ORDER)}
    for one in sorted(definitions, key=lambda one: ranks.get(one.kind, len(ranks))):
        try:
            host, name = json.loads(one.name)
            if host not in hosts:
                hosts[host] = VirtualHost(host, core)
            queue = hosts[host].restore(one.kind, name, one.data)
        except (BrokerError, ValueError, TypeError) as error:
            raise StoreError(
                f"the store holds a {one.kind} {one.name!r:.200} that cannot be: {error}"
            ) from error
        if queue is not None:
            queues[queue.number] = queue
    return queues


def _messages(recovered: Recovered) -> Iterator[Message]:
    sizes: dict[int, int] = {}  # Equal sizes as one object: there may be millions of them.
    for id, form, priority, expires_at, exchange, key, size in recovered.messages:
        if form not in _FORMS:
            raise StoreError(f"the store holds a message in form {form}, which this version does not know")
        message = Message(
            _FORMS[form],
            b"",
            exchange=exchange,
            key=key,
            durable=True,
            priority=priority,
            expires_at=expires_at,
        )
        message.id = id
        message.payload = None
        message.size = sizes.setdefault(size, size) if len(sizes) < _SIZES else sizes.get(size, size)
        message.is_stored = True
        yield message


def _entries(recovered: Recovered, messages: dict[int, Message]) -> Iterator[tuple[int, list[Entry]]]:
    """The entries of each queue. Whether somebody had acquired one is not known any more."""
    for number, rows in groupby(recovered.entries, key=itemgetter(0)):
        yield (
            number,
            [Entry(messages[id], dies, failures, added, True) for _, id, dies, failures, added in rows],
        )


def _by_queue(remembered: Iterator[tuple[int, bytes, int]]) -> dict[int, list[tuple[bytes, int]]]:
    known: dict[int, list[tuple[bytes, int]]] = {}
    for queue, message_id, number in remembered:
        known.setdefault(queue, []).append((message_id, number))
    return known


@contextmanager
def _no_collection() -> Iterator[None]:
    """Millions of objects are made, none of them garbage: looking for some would take most of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
