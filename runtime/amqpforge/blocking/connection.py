"""A connection, for threads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Any

from amqpforge import client
from amqpforge.client import DEFAULT, ConnectionCounters, Timeout, termini
from amqpforge.errors import AmqpforgeError
from amqpforge.url import Url
from amqpforge_protocol.amqp_1_0 import (
    AnySource,
    AnyTarget,
    Open,
    ReceiverSettleMode,
    SenderSettleMode,
    TerminusExpiryPolicy,
)

from .receiver import Receiver
from .requests import Requester
from .sender import Sender
from .transactions import Transaction
from .twin import Closing

__all__ = ["Connection"]


class Connection(Closing[client.Connection]):
    """A connection, made by :func:`amqpforge.blocking.connect`, and made again when it is lost.

    Many threads may use it. It is :class:`amqpforge.client.Connection` for them.
    """

    __slots__ = ()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        thread, twin = self._thread, self._twin
        thread.run_last(lambda: thread.let_go(twin, twin.__aexit__(kind, error, trace)))

    # --- links ------------------------------------------------------------------------------------------

    def sender(
        self,
        address: str | AnyTarget | None,
        *,
        name: str | None = None,
        snd_settle_mode: SenderSettleMode = SenderSettleMode.MIXED,
        rcv_settle_mode: ReceiverSettleMode = ReceiverSettleMode.FIRST,
        source: AnySource | None = None,
        dynamic: bool = False,
        expiry_policy: TerminusExpiryPolicy = TerminusExpiryPolicy.SESSION_END,
        expiry_timeout: int = 0,
        capabilities: Sequence[str] = (),
        properties: Mapping[str, Any] | None = None,
        timeout: Timeout = DEFAULT,
    ) -> Sender:
        """A sender to a node, attached; use it in a ``with`` block, which closes it.

        Args:
            address: of the node; or a whole target; None: each message says by ``to`` where it goes.
            name: of the link; None: one that nobody has.
            snd_settle_mode: whether messages go out settled; mixed: as each one asks, else unsettled.
            rcv_settle_mode: second asks the receiver to settle only after us, for exactly-once.
            source: what the peer is told about where messages come from.
            expiry_policy: when the peer may forget its end of the link.
            expiry_timeout: seconds that it keeps it after that. If it keeps it at all, a lost link is
                resumed: what was under way goes on, and nothing is sent again that the peer has.
            dynamic: have the peer make a node, whose address is then known; ``address`` is None.
            capabilities: extensions that are wished for.
            properties: what else to tell about the link.
            timeout: seconds for attaching.

        Raises:
            LinkDetached: the peer refuses the link: ``condition`` says why, e.g. ``amqp:not-found``.
            OperationTimedOut: the peer does not answer.
            ConnectionClosed: the connection is over.
        """
        twin = self._thread.run(
            lambda: self._twin.sender(
                address,
                name=name,
                snd_settle_mode=snd_settle_mode,
                rcv_settle_mode=rcv_settle_mode,
                source=source,
                dynamic=dynamic,
                expiry_policy=expiry_policy,
                expiry_timeout=expiry_timeout,
                capabilities=capabilities,
                properties=properties,
                timeout=timeout,
            ),
            undo=lambda sender: sender.close(),
        )
        return Sender(self._thread, twin, self)

    def receiver(
        self,
        address: str | AnySource | None,
        *,
        credit: int = 100,
        auto_accept: bool = True,
        mode: str | None = None,
        selector: str | None = None,
        filter: Mapping[str, Any] | None = None,
        check_filters: bool = True,
        stream: bool = False,
        known_annotations: Collection[str | int] | None = None,
        name: str | None = None,
        snd_settle_mode: SenderSettleMode = SenderSettleMode.MIXED,
        rcv_settle_mode: ReceiverSettleMode = ReceiverSettleMode.FIRST,
        target: AnyTarget | None = None,
        expiry_policy: TerminusExpiryPolicy = TerminusExpiryPolicy.SESSION_END,
        expiry_timeout: int = 0,
        max_message_size: int | None = termini.MAX_MESSAGE_SIZE,
        capabilities: Sequence[str] = (),
        properties: Mapping[str, Any] | None = None,
        timeout: Timeout = DEFAULT,
    ) -> Receiver:
        """A receiver from a node, attached; use it in a ``with`` block, which closes it.

        Args:
            address: of the node; or a whole source; None: the peer makes a node, whose address is then known.
            credit: how many messages may be under way, waiting here or not settled, all together; 0: each
                ``receive`` asks for one.
            auto_accept: accept what has no outcome when the loop asks for the next one, or when ``receive``
                returns it.
            mode: ``move`` takes messages from the node, ``copy`` leaves them there (browsing); None: as the
                node does.
            selector: a filter as JMS has it, e.g. ``colour = 'red'`` (apache.org:selector-filter:string).
            filter: other filters by their names.
            check_filters: detach where the peer leaves a filter out, for its messages are not filtered then;
                False: take them, and see ``filters`` of the receiver for those in place.
            stream: hand messages over while they come in: they are read piece by piece.
            known_annotations: all keys of annotations that the application understands: a message with
                another key, that does not begin with ``x-opt-``, ends the link with
                ``amqp:not-implemented``. None: whatever is not known is ignored.
            name: of the link; None: one that nobody has.
            snd_settle_mode: settled asks the sender for at-most-once.
            rcv_settle_mode: second settles only after the sender, for exactly-once.
            target: what the peer is told about where messages go.
            expiry_policy: when the peer may forget its end of the link.
            expiry_timeout: seconds that it keeps it after that. If it keeps it at all, a lost link is
                resumed: what the application has got by then can still be given its outcome.
            max_message_size: octets of the largest message that is taken; None: no limit.
            capabilities: extensions that are wished for.
            properties: what else to tell about the link.
            timeout: seconds for attaching.

        Raises:
            LinkDetached: the peer refuses the link: ``condition`` says why.
            OperationTimedOut: the peer does not answer.
            ConnectionClosed: the connection is over.
            LocalError: the credit is negative, or the mode is not known, or options do not go together.
        """
        twin = self._thread.run(
            lambda: self._twin.receiver(
                address,
                credit=credit,
                auto_accept=auto_accept,
                mode=mode,
                selector=selector,
                filter=filter,
                check_filters=check_filters,
                stream=stream,
                known_annotations=known_annotations,
                name=name,
                snd_settle_mode=snd_settle_mode,
                rcv_settle_mode=rcv_settle_mode,
                target=target,
                expiry_policy=expiry_policy,
                expiry_timeout=expiry_timeout,
                max_message_size=max_message_size,
                capabilities=capabilities,
                properties=properties,
                timeout=timeout,
            ),
            undo=lambda receiver: receiver.close(),
        )
        return Receiver(self._thread, twin, self)

    def requester(
        self, address: str | AnyTarget | None, *, reply_to: str | None = None, timeout: Timeout = DEFAULT
    ) -> Requester:
        """Something that sends requests to a node and gets their answers.

        Args:
            address: of the node that answers; None: each request says by ``to`` where it goes.
            reply_to: a node for the answers; None: the peer makes one.
            timeout: seconds for attaching.

        Raises:
            LinkDetached: the peer refuses a link; some make no nodes: name one then.
            OperationTimedOut: the peer does not answer.
            ConnectionClosed: the connection is over.
        """
        twin = self._thread.run(
            lambda: self._twin.requester(address, reply_to=reply_to, timeout=timeout),
            undo=lambda requester: requester.close(),
        )
        return Requester(self._thread, twin)

    def transaction(self, *, timeout: Timeout = DEFAULT) -> Transaction:
        """A transaction, for the time of a ``with`` block; see :class:`.transactions.Transaction`.

        Args:
            timeout: seconds for each step.
        """
        return Transaction(self._thread, self._twin.transaction(timeout=timeout))

    # --- what applications see --------------------------------------------------------------------------

    @property
    def url(self) -> Url:
        """Where the connection goes; while there is none, where it will be tried first."""
        return self._thread.call(lambda: self._twin.url)

    @property
    def is_open(self) -> bool:
        """Whether it is of use: not closed, and not given up. It may be lost just now."""
        return self._twin.is_open

    @property
    def is_connected(self) -> bool:
        """Whether there is a transport just now, and both ends are open."""
        return self._thread.call(lambda: self._twin.is_connected)

    @property
    def error(self) -> AmqpforgeError | None:
        """Why it is over; None while it is not, or if it was closed from here."""
        return self._twin.error

    @property
    def remote(self) -> Open | None:
        """The peer's open: its container-id, capabilities and properties; None while not connected."""
        return self._thread.call(lambda: self._twin.remote)

    @property
    def mechanism(self) -> str | None:
        """The SASL mechanism in use; None without one."""
        return self._thread.call(lambda: self._twin.mechanism)

    @property
    def offered_mechanisms(self) -> tuple[str, ...]:
        """The SASL mechanisms that the peer offers; none without SASL, or while not connected."""
        return self._thread.call(lambda: self._twin.offered_mechanisms)

    @property
    def tls_version(self) -> str | None:
        """The version of TLS in use, such as ``TLSv1.3``; None without TLS, or while not connected."""
        return self._thread.call(lambda: self._twin.tls_version)

    @property
    def counters(self) -> ConnectionCounters:
        """What went over the connection so far."""
        return self._thread.call(lambda: self._twin.counters)

    def round_trip(self, *, timeout: Timeout = DEFAULT) -> float:
        """How long the peer takes to answer, in seconds: a session is begun and ended for it.

        Raises:
            OperationTimedOut: it does not answer.
            ConnectionClosed: the connection is over.
        """
        return self._thread.run(lambda: self._twin.round_trip(timeout=timeout))

    def wait_closed(self) -> None:
        """Wait until the connection is over.

        Raises:
            AmqpforgeError: it was not closed from here, but given up: why.
        """
        self._thread.run(self._twin.wait_closed)

    def close(self, *, timeout: Timeout = DEFAULT) -> None:
        """Close the connection and all that is on it; nothing happens if it is over already, or in a forked
        process.

        Messages that came in and that nobody has taken are released. Whatever the peer answers, or does not
        answer, this ends within ``timeout`` seconds.
        """
        thread, twin = self._thread, self._twin
        thread.run_last(lambda: thread.let_go(twin, twin.close(timeout=timeout)))
