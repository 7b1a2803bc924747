"""Realms and tickets: access as the class/method dialects ask for it, laid over the permissions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from amqpforge.broker.errors import AccessRefused

from .permissions import Access, Operation, Pattern, compiled, is_short

__all__ = ["Realm", "Realms", "Tickets"]

_MOST_TICKET: Final = 0xFFFF  # it travels as a short


@dataclass(frozen=True, slots=True)
class Realm:
    """Exchanges and queues under one policy.

    Attributes:
        name: by which clients ask for it.
        resources: fits the whole name of what belongs to it.
        rights: by user, what he may do to all of it.
    """

    name: str
    resources: Pattern
    rights: Mapping[str, frozenset[Operation]] = field(default_factory=dict[str, frozenset[Operation]])

    @classmethod
    def of(cls, name: str, resources: str, rights: Mapping[str, Collection[Operation]]) -> Realm:
        """Compile the pattern.

        Raises:
            ValueError: it is no regular expression.
        """
        pattern = compiled(f"the realm {name!r}", resources)
        return cls(name, pattern, {user: frozenset(operations) for user, operations in rights.items()})

    def has(self, resource: str) -> bool:
        """Whether a queue or an exchange belongs to it."""
        return is_short(resource) and self.resources.fullmatch(resource) is not None


class Realms:
    """The realms of all virtual hosts.

    Attributes:
        access: the permissions, which hold beside them: its revision rises with every change of a realm.
    """

    def __init__(self, access: Access) -> None:
        self.access = access
        self._realms: dict[tuple[str, str], Realm] = {}
        self._last_ticket = 0

    def put(self, vhost: str, realm: Realm) -> None:
        """Add a realm, or put it in the place of the one of that name."""
        self._realms[vhost, realm.name] = realm
        self.access.changed()

    def remove(self, vhost: str, name: str) -> None:
        """Remove a realm, if there is one of that name."""
        if self._realms.pop((vhost, name), None) is not None:
            self.access.changed()

    def get(self, vhost: str, name: str) -> Realm | None:
        """The realm of that name; None if there is none."""
        return self._realms.get((vhost, name))

    def next_ticket(self) -> int:
        """A number from 1 to 65535, another one each time until all have been."""
        self._last_ticket = self._last_ticket % _MOST_TICKET + 1
        return self._last_ticket


@dataclass(frozen=True, slots=True)
class _Ticket:
    realm: Realm
    operations: frozenset[Operation]
    revision: int


class Tickets:
    """The tickets of one channel: at most one a realm, so their number is the administrator's.

    A ticket is good on its channel only, until that closes or the access rules of the broker change.
    """

    def __init__(self, realms: Realms, user: str, vhost: str) -> None:
        self._realms = realms
        self._user = user
        self._vhost = vhost
        self._tickets: dict[int, _Ticket] = {}

    def request(self, realm: str, operations: Collection[Operation]) -> int:
        """A ticket for these operations on a realm; the one that the channel had for this realm is void.

        Returns:
            Its number, 1 to 65535.

        Raises:
            AccessRefused: the user has not all these rights there. A realm that does not exist is refused in
                the same words.
        """
        self._drop(realm)
        found = self._realms.get(self._vhost, realm)
        rights = None if found is None else found.rights.get(self._user)
        wanted = frozenset(operations)
        if found is None or rights is None or not wanted <= rights:
            shown = ", ".join(sorted(operation.value for operation in wanted)) or "enter"
            raise AccessRefused(f"the user {self._user!r} may not {shown} in the realm {realm[:80]!r}")
        number = self._realms.next_ticket()
        while number in self._tickets:
            number = self._realms.next_ticket()
        self._tickets[number] = _Ticket(found, wanted, self._realms.access.revision)
        return number

    def check(self, ticket: int, operation: Operation, resource: str) -> None:
        """Check that a ticket allows this to a queue or an exchange, and the user's permissions do too.

        To publish, ``resource`` is what :func:`.permissions.written` says.

        Raises:
            AccessRefused: it does not, or is no ticket of this channel, or is one no more.
        """
        held = self._tickets.get(ticket)
        if held is None:
            raise AccessRefused(f"{ticket} is no access ticket of this channel: request one")
        if held.revision != self._realms.access.revision:
            del self._tickets[ticket]
            raise AccessRefused(
                f"the access rules have changed since ticket {ticket} was granted: request another"
            )
        if operation not in held.operations:
            raise AccessRefused(f"ticket {ticket} was not requested to {operation.value}")
        if not held.realm.has(resource):
            raise AccessRefused(
                f"{resource[:80]!r} is not in the realm {held.realm.name!r} of ticket {ticket}"
            )
        self._realms.access.check(self._user, self._vhost, operation, resource)

    def close(self) -> None:
        """The channel is closed: no ticket of it is good any more."""
        self._tickets.clear()

    def _drop(self, realm: str) -> None:
        self._tickets = {number: held for number, held in self._tickets.items() if held.realm.name != realm}
