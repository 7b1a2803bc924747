"""Who may do what: three patterns a user and virtual host, and the decision itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from amqpforge.broker.errors import AccessRefused
from amqpforge.errors import LocalError

__all__ = ["DEFAULT_EXCHANGE", "EVERYTHING", "MOST_NAME", "Access", "Operation", "Permissions", "written"]

MOST_NAME: Final = 255
"""The octets in UTF-8 of the longest name of a resource that is looked at: peers choose names, and what a bad
pattern costs grows with them."""

DEFAULT_EXCHANGE: Final = "amq.default"
"""What patterns know the default exchange by, whose own name is empty."""

Pattern: TypeAlias = re.Pattern[str]


class Operation(Enum):
    """What is done to a queue or an exchange."""

    CONFIGURE = "configure"
    """Declare it, or delete it."""
    WRITE = "write"
    """Publish to an exchange; bind the queue or exchange to something, and so have it get messages; declare a
    queue whose dead letters go there."""
    READ = "read"
    """Consume, get or purge from a queue, or declare one whose dead letters go on; bind to the exchange
    that messages then come from."""


@dataclass(frozen=True, slots=True)
class Permissions:
    """What a user may do in one virtual host: for each operation, the names that it is allowed for.

    A pattern fits a name if it fits the whole of it. Patterns are written by the administrator: one that
    tries many ways, such as ``(a+)+``, can take very long on a name of 255 octets.
    """

    configure: Pattern
    write: Pattern
    read: Pattern

    @classmethod
    def of(cls, *, configure: str = "", write: str = "", read: str = "") -> Permissions:
        """Compile the patterns; an empty one allows nothing.

        Raises:
            ValueError: one is no regular expression; says which.
        """
        return cls(
            configure=compiled("configure", configure),
            write=compiled("write", write),
            read=compiled("read", read),
        )

    def allows(self, operation: Operation, name: str) -> bool:
        """Whether the pattern fits; the length of the name is not looked at."""
        if operation is Operation.CONFIGURE:
            pattern = self.configure
        elif operation is Operation.WRITE:
            pattern = self.write
        else:
            pattern = self.read
        return pattern.fullmatch(name or DEFAULT_EXCHANGE) is not None


def compiled(what: str, pattern: str) -> Pattern:
    """A regular expression, in which a dot stands for every character.

    Raises:
        ValueError: it is none; names ``what``.
    """
    try:
        return re.compile(pattern, re.DOTALL)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"the pattern of {what} is no regular expression: {error}") from None


EVERYTHING: Final = Permissions.of(configure=".*", write=".*", read=".*")


class Access:
    """Decides what users may do.

    Attributes:
        revision: rises whenever something has changed; decisions that were kept are void then.
    """

    def __init__(self, permissions: Mapping[tuple[str, str], Permissions] | None = None) -> None:
        """``permissions``: by user and virtual host; None: every user may do everything everywhere."""
        self.revision = 0
        self._permissions = None if permissions is None else dict(permissions)

    @property
    def is_open(self) -> bool:
        """Whether every user may do everything."""
        return self._permissions is None

    def permissions_of(self, user: str, vhost: str) -> Permissions | None:
        """What the user may do in a virtual host; None if he has no business there."""
        return EVERYTHING if self._permissions is None else self._permissions.get((user, vhost))

    def grants(self) -> dict[tuple[str, str], Permissions]:
        """All permissions by user and virtual host; empty where every user may do everything."""
        return dict(self._permissions or {})

    def grant(self, user: str, vhost: str, permissions: Permissions) -> None:
        """Give a user these permissions in place of those that he has in this virtual host.

        Raises:
            LocalError: every user may do everything here, so there is nothing to give.
        """
        self._closed()[user, vhost] = permissions
        self.changed()

    def revoke(self, user: str, vhost: str) -> None:
        """Take all permissions in a virtual host from a user, who may have none.

        Raises:
            LocalError: every user may do everything here.
        """
        if self._closed().pop((user, vhost), None) is not None:
            self.changed()

    def changed(self) -> None:
        """Something that decisions hang on is another one now."""
        self.revision += 1

    def may_enter(self, user: str, vhost: str) -> bool:
        """Whether a user may open the virtual host: whether he may do anything there."""
        return self.permissions_of(user, vhost) is not None

    def check_enter(self, user: str, vhost: str) -> None:
        """Raises AccessRefused unless :meth:`may_enter`."""
        if not self.may_enter(user, vhost):
            raise AccessRefused(f"the user {user!r} has no permissions in the virtual host {_cut(vhost)}")

    def may(self, user: str, vhost: str, operation: Operation, name: str) -> bool:
        """Whether a user may do this to the queue or exchange of that name.

        The empty name is that of the default exchange. No name of more than 255 octets is allowed.
        """
        permissions = self.permissions_of(user, vhost)
        return permissions is not None and is_short(name) and permissions.allows(operation, name)

    def check(self, user: str, vhost: str, operation: Operation, name: str) -> None:
        """Raises AccessRefused unless :meth:`may`."""
        if self.may(user, vhost, operation, name):
            return
        self.check_enter(user, vhost)
        if not is_short(name):
            raise AccessRefused(f"the name {_cut(name)} has more than {MOST_NAME} octets in UTF-8")
        raise AccessRefused(
            f"the user {user!r} may not {operation.value} {_cut(name or DEFAULT_EXCHANGE)} in the virtual "
            f"host {_cut(vhost)}: the permission {operation.value!r} there does not cover the name"
        )

    def _closed(self) -> dict[tuple[str, str], Permissions]:
        if self._permissions is None:
            raise LocalError(
                "every user may do everything on this broker: start it with permissions in its "
                "configuration to give some to each"
            )
        return self._permissions


def written(exchange: str, key: str) -> str:
    """The name of the resource that has to be writable for a message to be published.

    That is the exchange; but for the default exchange the queue that the routing key names, which its default
    binding leads to: who publishes there reaches the queue itself.
    """
    return exchange or key


def is_short(name: str) -> bool:
    """Whether a name is short enough to be looked at."""
    return len(name) <= MOST_NAME and len(name.encode("utf-8", "surrogatepass")) <= MOST_NAME


def _cut(name: str) -> str:
    """A name for an error, not at any length."""
    return repr(name) if len(name) <= 80 else f"{name[:80]!r}..."
