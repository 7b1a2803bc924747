"""The node ``$management``: requests come as messages, and replies go back (``docs/management.md``)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from amqpforge.broker.errors import BrokerError, InvalidArgument, LimitExceeded, NotFound, NotSupported
from amqpforge.broker.management import Reply, Request
from amqpforge.broker.message import Message
from amqpforge.broker.queues.alarm import Alarm
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    AmqpValue,
    AnyErrorCondition,
    DecodeError,
    Int,
    Properties,
    Rejected,
    Seconds,
    SenderSettleMode,
    Source,
    Target,
    TerminusDurability,
    TerminusExpiryPolicy,
    TransactionalState,
    decode_message,
    encode_message,
)
from amqpforge_protocol.amqp_1_0 import Message as Sections

from .addresses import MANAGEMENT, parse_address
from .conditions import CONDITIONS, told
from .connectionview import ConnectionView
from .form import FORM
from .incoming import answer
from .links import BrokerLink

if TYPE_CHECKING:
    from amqpforge.broker.management import Manager
    from amqpforge.engine.delivery import IncomingDelivery
    from amqpforge.engine.receiver import Receiver
    from amqpforge.engine.sender import Sender

    from .head import Head
    from .service import Service

__all__ = ["ManagementNode", "manage"]

_LARGEST: Final = 256 << 10  # octets of a request: arguments of a binding alone can be 64 KiB
_CREDIT: Final = 100
_MOST_WAITING: Final = 100
_MOST_OCTETS: Final = 1 << 20  # of replies that wait; each has about as many at most
_MOST_LINKS: Final = 64  # for requests and for replies each, of one connection
_LONGEST: Final = 1000  # characters of a description
_PRIORITY: Final = 4


def manage(service: Service, manager: Manager) -> None:
    """Have the connections of a service managed, over its node ``$management`` and with other heads' too."""
    service.management = node = ManagementNode(manager)
    manager.add_connections(partial(node.connections, service))


class ManagementNode:
    """Makes the ends of links to ``$management``.

    A reply goes to the ``reply-to`` of its request: a link of the same connection from this node whose target
    has that address; with the address ``$management`` the one that has the name of the link of the request;
    or else a queue.
    """

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self._replies: dict[tuple[Head, str], Replies] = {}
        self._pairs: dict[tuple[Head, str], Replies] = {}
        self._ids: WeakKeyDictionary[Head, int] = WeakKeyDictionary()
        self._numbers = count(1)

    def connections(self, service: Service) -> Iterator[ConnectionView]:
        """The connections that are open, by their ids; one gets its id when it is asked for first."""
        opened = [head for head in service.heads if head.actor is not None]
        numbered = {self._ids.setdefault(head, next(self._numbers)): head for head in opened}
        for number in sorted(numbered):
            yield ConnectionView(numbered[number], str(number))

    def receive(self, head: Head, receiver: Receiver, target: Target) -> BrokerLink:
        """A client wants to send requests.

        Raises:
            LimitExceeded: the connection has too many links for them.
        """
        _check_links(head, Requests)
        made = Requests(head, receiver, self)
        receiver.attach(
            target=replace(
                target,
                durable=TerminusDurability.NONE,
                expiry_policy=TerminusExpiryPolicy.SESSION_END,
                timeout=Seconds(0),
                capabilities=None,
            )
        )
        made.attached()
        return made

    def send(self, head: Head, sender: Sender, source: Source) -> BrokerLink:
        """A client wants to receive replies.

        Raises:
            LimitExceeded: the connection has too many links for them.
        """
        _check_links(head, Replies)
        made = Replies(head, sender, self)
        sender.attach(
            source=replace(
                source,
                durable=TerminusDurability.NONE,
                expiry_policy=TerminusExpiryPolicy.SESSION_END,
                timeout=Seconds(0),
                filter=None,
                distribution_mode=None,
                capabilities=None,
            )
        )
        self._pairs[head, sender.name] = made
        if made.reply_address is not None:
            self._replies[head, made.reply_address] = made
        made.attached()
        return made

    def forget(self, replies: Replies) -> None:
        """A link for replies is gone."""
        head = replies.head
        if self._pairs.get((head, replies.link.name)) is replies:
            del self._pairs[head, replies.link.name]
        address = replies.reply_address
        if address is not None and self._replies.get((head, address)) is replies:
            del self._replies[head, address]

    def destination(self, requests: Requests, reply_to: object) -> Replies | str:
        """Where the replies go that have this address: a link, or the name of a queue.

        Raises:
            BrokerError: there is no such thing, or the user must not write there.
        """
        if reply_to is None:
            raise InvalidArgument("the request has no reply-to: nobody could be answered")
        if not isinstance(reply_to, str):
            raise NotSupported("the reply-to of the request is no string")
        head, address = requests.head, str(reply_to)
        if address == MANAGEMENT:
            found = self._pairs.get((head, requests.link.name))
            if found is None:
                raise NotFound(
                    f"the reply-to is {MANAGEMENT}, and no link from it is called {requests.link.name!r:.60}"
                )
            return found
        known = self._replies.get((head, address))
        if known is not None:
            return known
        queue = parse_address(address).queue
        if queue is not None:
            head.working.check_target("", queue)
        if queue is None or queue not in head.working.host.queues:
            raise NotFound(f"the reply-to {address!r:.200} is no queue, and no link from {MANAGEMENT} has it")
        return queue


_Destination: TypeAlias = "Replies | str"


class Replies(BrokerLink):
    """The source of a link to a client that replies go over, settled. It goes with its session.

    Attributes:
        sender: its endpoint.
        reply_address: the address that the client has given its target; None: none.
        waiting: links whose requests wait until there is room for a reply.
    """

    def __init__(self, head: Head, sender: Sender, node: ManagementNode) -> None:
        super().__init__(head, sender, None)
        target = sender.remote.target if sender.remote is not None else None
        address = target.address if isinstance(target, Target) else None
        self.sender = sender
        self.reply_address = None if address is None else str(address)
        self.waiting: dict[Requests, None] = {}
        self._node = node
        sender.snd_settle_mode = SenderSettleMode.SETTLED

    @property
    def has_room(self) -> bool:
        """Whether one more reply can wait for the client's credit."""
        queue = self.sender.queue
        return len(queue) < _MOST_WAITING and sum(len(one.payload or b"") for one in queue) < _MOST_OCTETS

    def wait(self, requests: Requests) -> None:
        """Have requests go on once there is room."""
        self.waiting[requests] = None
        self.head.stalled[self] = None

    def go_on(self) -> None:
        """What the connection had to send is on its way."""
        if not self.has_room:
            self.head.stalled[self] = None
            return
        waiting, self.waiting = self.waiting, {}
        for requests in waiting:
            requests.stir()

    def takes(self, octets: int) -> bool:
        """Whether the client takes a message of this size."""
        most = self.sender.remote.max_message_size if self.sender.remote is not None else None
        return not most or octets <= most

    def send(self, payload: bytes) -> None:
        """Send a reply, if there is still somebody to send it to."""
        if not self.is_gone and self.sender.is_attached and self.head.engine.may_write:
            self.sender.send(payload)

    def detached(self) -> None:
        self.head.stalled.pop(self, None)

    def destroyed(self) -> None:
        self._node.forget(self)
        waiting, self.waiting = self.waiting, {}
        for requests in waiting:
            requests.stir()


class Requests(BrokerLink):
    """The target of a link from a client that requests come over. It goes with its session.

    Requests are done one after the other, one in each turn of the event loop. One is accepted when its reply
    is on its way: so a client that takes no replies soon has no more credit for requests.
    """

    def __init__(self, head: Head, receiver: Receiver, node: ManagementNode) -> None:
        super().__init__(head, receiver, None)
        self._node = node
        self._waiting: deque[IncomingDelivery] = deque()
        self._alarm = Alarm(head.broker.core.clock, self._work)
        receiver.max_message_size = _LARGEST
        receiver.prefetch = _CREDIT

    def on_deliveries(self, deliveries: list[IncomingDelivery]) -> None:
        bodies = self.head.broker.core.bodies
        for delivery in deliveries:
            if delivery.link is not self.link:
                continue
            if bodies.come(len(delivery.payload)):
                self._waiting.append(delivery)
            else:
                self._reject(
                    delivery, AmqpError.RESOURCE_LIMIT_EXCEEDED, "the broker has no memory for it now"
                )
        self.stir()

    def stir(self) -> None:
        """Go on with what waits."""
        if self._waiting and not self.is_gone:
            self._alarm.set(self.head.broker.core.clock.now())

    def destroyed(self) -> None:
        self._alarm.clear()
        while self._waiting:
            self._drop()

    def _drop(self) -> None:
        """The request that has waited for the longest waits no longer."""
        self.head.broker.core.bodies.come(-len(self._waiting.popleft().payload))

    @property
    def _is_alive(self) -> bool:
        return not self.is_gone and self.link.is_attached and self.head.engine.may_write

    def _work(self) -> None:
        if not self._is_alive or not self._waiting:
            return
        if self._take(self._waiting[0]):
            self._drop()
            self.stir()
        self.head.stir()

    def _take(self, delivery: IncomingDelivery) -> bool:
        """Do what a request asks for; returns False if it has to wait."""
        if isinstance(delivery.remote_state, TransactionalState):
            self._reject(delivery, AmqpError.NOT_IMPLEMENTED, "requests cannot be part of a transaction")
            return True
        try:
            sections = decode_message(delivery.payload)
            properties = sections.properties or Properties()
            destination = self._node.destination(self, properties.reply_to)
        except DecodeError as error:
            self._reject(delivery, AmqpError.DECODE_ERROR, str(error))
            return True
        except BrokerError as error:
            self._reject(delivery, CONDITIONS[error.reason], str(error))
            return True
        if isinstance(destination, Replies) and not destination.has_room:
            destination.wait(self)
            return False
        correlation = properties.correlation_id
        if correlation is None:
            correlation = properties.message_id
        reply = self._do(sections)
        send = partial(self._send, delivery, destination, correlation)
        if reply.is_change:
            self.head.broker.core.barrier(partial(self._safe, send, reply))
        else:
            send(reply)
        return True

    def _do(self, sections: Sections) -> Reply:
        body = sections.body
        try:
            if body is not None and not isinstance(body, AmqpValue):
                raise InvalidArgument(
                    "the body is a map in an amqp-value section, and this is another section"
                )
            properties: Mapping[str, Any] = sections.application_properties or {}
            request = Request.of(properties, None if body is None else body.value)
        except BrokerError as error:
            return Reply.refusal(error)
        return self._node.manager.handle(request, self.actor)

    def _safe(self, send: partial[None], reply: Reply, refused: BrokerError | None) -> None:
        """What was changed is safe, or cannot be made so."""
        send(reply if refused is None else Reply.refusal(refused))
        if self._is_alive:
            self.head.stir()

    def _send(
        self, delivery: IncomingDelivery, destination: _Destination, correlation: Any, reply: Reply
    ) -> None:
        payload = _encoded(reply, correlation)
        if isinstance(destination, Replies):
            if not destination.takes(len(payload)):
                error = LimitExceeded(
                    f"the reply has {len(payload)} octets, which the link for replies does not take: ask for "
                    "less with count or attributeNames"
                )
                payload = _encoded(Reply.refusal(error), correlation)
            destination.send(payload)
        else:
            message = Message(
                FORM,
                payload,
                exchange="",
                key=destination,
                durable=False,
                priority=_PRIORITY,
                expires_at=None,
            )
            self.actor.publish(message, None, _ignore)
        if self._is_alive and not delivery.settled:
            answer(delivery, Accepted())

    def _reject(self, delivery: IncomingDelivery, condition: AnyErrorCondition, text: str) -> None:
        """Nobody can be answered."""
        answer(delivery, Rejected(error=told(condition, text)))


def _check_links(head: Head, kind: type[BrokerLink]) -> None:
    if sum(isinstance(link, kind) for link in head.links) >= _MOST_LINKS:
        raise LimitExceeded(
            f"a connection has {_MOST_LINKS} links to {MANAGEMENT} at most, and as many from it"
        )


def _ignore(refused: BrokerError | None, queues: int) -> None:
    """A reply to a queue that is full, or gone by now, is lost."""


def _encoded(reply: Reply, correlation: Any) -> bytes:
    properties: dict[str, Any] = {
        "statusCode": Int(reply.status),
        "statusDescription": reply.told[:_LONGEST],
    }
    if reply.count is not None:
        properties["count"] = Int(reply.count)
    return encode_message(
        Sections(
            properties=Properties(correlation_id=correlation),
            application_properties=properties,
            body=AmqpValue(value=dict(reply.body)),
        )
    )
