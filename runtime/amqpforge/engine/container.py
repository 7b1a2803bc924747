"""A container: what outlives connections, namely the links that it knows (sections 2.1 and 2.6.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqpforge_protocol.amqp_1_0 import Role

if TYPE_CHECKING:
    from .link import Link

__all__ = ["Container"]


class Container:
    """One end of any number of connections.

    A link goes by the container at its other end, its name and its direction; there is one of each. An attach
    of a link that is attached already steals it, from whatever connection of this container it is on.

    Attributes:
        id: the container-id, which open tells.
        most_links: how many links are kept at most, those that are attached aside: with more of them, the one
            that was suspended first is forgotten. One of our own can still be resumed by who has it; the
            terminus of one that the peer asked for expires.
        links: the links that are not closed, by the other container's id, their name and our role.
    """

    __slots__ = ("_suspended", "id", "links", "most_links")

    def __init__(self, id: str, *, most_links: int = 65_536) -> None:
        self.id = id
        self.most_links = most_links
        self.links: dict[tuple[str, str, Role], Link] = {}
        self._suspended: dict[Link, str] = {}  # With the id of the other container, the oldest first.

    def find(self, peer: str, name: str, role: Role) -> Link | None:
        """The link of that name with the container ``peer`` in which we have the role ``role``."""
        return self.links.get((peer, name, role))

    def keep(self, peer: str, link: Link) -> None:
        """Remember a link, instead of one of the same identity."""
        known = self.links.get((peer, link.name, link.role))
        if known is not None:
            self._suspended.pop(known, None)
        self.links[peer, link.name, link.role] = link
        self._make_room()

    def suspended(self, peer: str, link: Link) -> None:
        """A link has lost its session."""
        if self.links.get((peer, link.name, link.role)) is link:
            self._suspended[link] = peer
            self._make_room()

    def resumed(self, link: Link) -> None:
        """A link is on a session again."""
        self._suspended.pop(link, None)

    def _make_room(self) -> None:
        if len(self.links) > self.most_links and self._suspended:
            oldest, peer = next(iter(self._suspended.items()))
            self.forget(peer, oldest)
            if oldest.is_answer:
                oldest.expire()

    def forget(self, peer: str, link: Link) -> None:
        """A link is closed; another one may have its identity by now."""
        self._suspended.pop(link, None)
        if self.links.get((peer, link.name, link.role)) is link:
            del self.links[peer, link.name, link.role]
