"""Queues that were made for a link, and go by a lifetime policy (section 3.5.9)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from amqpforge.broker.errors import BrokerError
from amqpforge_protocol.amqp_1_0 import (
    AmqpError,
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
)

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from amqpforge.broker.actor import Actor
    from amqpforge.broker.clock import Timer
    from amqpforge.broker.queues import Queue
    from amqpforge_protocol.amqp_1_0.archetypes import AnyLifetimePolicy

    from .links import BrokerLink

__all__ = ["POLICIES", "Node"]

_log = logging.getLogger("amqpforge.broker.amqp_1_0")

_INTERVAL: Final = 10.0
"""Seconds after which a node that waits for its messages to go looks for them again."""

POLICIES: Final = (DeleteOnClose, DeleteOnNoLinks, DeleteOnNoMessages, DeleteOnNoLinksOrMessages)


class Node:
    """A queue that was made for a link. It lives at least as long as that link (section 3.5.9).

    Attributes:
        queue: the queue.
        policy: when it goes, once the link that it was made for is gone.
    """

    def __init__(
        self,
        nodes: MutableMapping[tuple[str, str], Node],
        actor: Actor,
        queue: Queue,
        policy: AnyLifetimePolicy,
    ) -> None:
        self._nodes = nodes
        self._actor = actor
        self._links: set[BrokerLink] = set()
        self._maker: BrokerLink | None = None
        self._was_made = False
        self._timer: Timer | None = None
        self.queue = queue
        self.policy = policy
        nodes[self._key] = self

    @property
    def _key(self) -> tuple[str, str]:
        return self._actor.host.name, self.queue.name

    def join(self, link: BrokerLink) -> None:
        """A link has it as its source or target; the first one is that which it is made for."""
        if not self._was_made:
            self._was_made = True
            self._maker = link
        self._links.add(link)

    def leave(self, link: BrokerLink) -> None:
        """A link is gone."""
        self._links.discard(link)
        if link is self._maker:
            self._maker = None
        self.look()

    def look(self) -> None:
        """See whether it is to go: a link is gone, or there are no messages in it any more."""
        if self._maker is not None or self._nodes.get(self._key) is not self:
            return
        policy = self.policy
        waits_for_links = isinstance(policy, DeleteOnNoLinks | DeleteOnNoLinksOrMessages)
        waits_for_messages = isinstance(policy, DeleteOnNoMessages | DeleteOnNoLinksOrMessages)
        if waits_for_links and self._links:
            return
        if waits_for_messages and self._has_messages:
            self._look_later()
            return
        self.delete()

    def stop(self) -> None:
        """The broker stops: the queue is left as it is."""
        if self._timer is not None:
            self._timer.cancel()

    def _look_later(self) -> None:
        """Messages may also go without a word, as when they expire."""
        if self._timer is None:
            clock = self._actor.host.clock
            self._timer = clock.call_at(clock.now() + _INTERVAL, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self.look()

    @property
    def _has_messages(self) -> bool:
        return bool(self.queue.ready or self.queue.unacknowledged)

    def delete(self) -> None:
        """Delete it, if it is still there."""
        if self._nodes.get(self._key) is not self:
            return
        del self._nodes[self._key]
        self.stop()
        name = self.queue.name
        if not self.queue.is_deleted:
            try:
                self._actor.delete_queue(name)
            except BrokerError as error:
                _log.warning("the queue %r, which was made for a link, stays: %s", name, error)
                return
        for link in list(self._links):
            link.close(AmqpError.RESOURCE_DELETED, f"the queue {name!r:.80} was deleted")
