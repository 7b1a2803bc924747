"""A connection to a container, or to one of several, as applications hold it: it outlives its transports."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from amqpforge.engine.receiver import Receiver as ReceiverEnd
from amqpforge.engine.sender import Sender as SenderEnd
from amqpforge.engine.settings import SessionSettings
from amqpforge.errors import LinkDetached, LocalError
from amqpforge.url import Url
from amqpforge_protocol.amqp_1_0 import (
    AnySource,
    AnyTarget,
    Coordinator,
    Open,
    ReceiverSettleMode,
    SenderSettleMode,
    TerminusExpiryPolicy,
    TxnCapability,
)

from . import termini
from .counters import ConnectionCounters
from .lifeline import Lifeline
from .options import Options
from .receiver import Receiver
from .requests import Requester
from .sender import Sender
from .transactions import Controller, Transaction
from .waiting import DEFAULT, Opening, Timeout, wait_for

if TYPE_CHECKING:
    from .link import Link

__all__ = ["Connection"]


_log = logging.getLogger("amqpforge.link")


class Connection(Lifeline):
    """A connection, made by :func:`amqpforge.client.connect`, and made again when it is lost.

    It belongs to the event loop that it was made in. Many tasks may use it.
    """

    def __init__(self, urls: Sequence[Url], options: Options) -> None:
        """Use ``connect``."""
        super().__init__(urls, options)
        self._controlling: asyncio.Task[Controller] | None = None

    def __repr__(self) -> str:
        state = "closed" if self._over.done() else "open" if self.is_connected else "not connected"
        return f"<Connection {self._options.container_id!r} to {self.url}, {state}>"

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None and self.is_open:
                await self._finish_work()
        finally:
            await self.close()

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
    ) -> Opening[Sender]:
        """A sender to a node: ``await`` it, or use it with ``async with``, which closes it.

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
        target = termini.target(address, dynamic=dynamic, expiry_policy=expiry_policy, expiry=expiry_timeout)
        termini.check_dynamic(source)

        async def attach() -> Sender:
            end = SenderEnd(
                name or termini.link_name(address),
                source=source or termini.SOURCE,
                target=target,
                snd_settle_mode=snd_settle_mode,
                rcv_settle_mode=rcv_settle_mode,
                desired_capabilities=termini.symbols(capabilities),
                properties=termini.fields(properties),
            )
            sender = Sender(self, end)
            await self._attach(sender, timeout)
            return sender

        return Opening(attach)

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
    ) -> Opening[Receiver]:
        """A receiver from a node: ``await`` it, or use it with ``async with``, which closes it.

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
            LinkDetached: the peer refuses the link: ``condition`` says why; or it does not apply a filter.
            OperationTimedOut: the peer does not answer.
            ConnectionClosed: the connection is over.
            LocalError: the credit is negative, or the mode is not known, or options do not go together.
        """
        source = termini.source(
            address,
            mode=mode,
            selector=selector,
            filter=filter,
            expiry_policy=expiry_policy,
            expiry=expiry_timeout,
        )
        termini.check_dynamic(target)
        if stream and known_annotations is not None:
            raise LocalError("known_annotations are looked for in whole messages: a stream has none")
        window = termini.window(credit)

        async def attach() -> Receiver:
            end = ReceiverEnd(
                name or termini.link_name(address),
                source=source,
                target=target or termini.TARGET,
                snd_settle_mode=snd_settle_mode,
                rcv_settle_mode=rcv_settle_mode,
                max_message_size=max_message_size,
                desired_capabilities=termini.symbols(capabilities),
                properties=termini.fields(properties),
                streams=stream,
            )
            receiver = Receiver(
                self,
                end,
                window=window,
                auto_accept=auto_accept,
                known_annotations=known_annotations,
            )
            await self._attach(receiver, timeout, termini.stream_session(self._options) if stream else None)
            missing = termini.missing_filters(receiver, source)
            if missing and check_filters:
                await receiver.close(timeout=timeout)
                raise LinkDetached(
                    f"the peer does not apply the filter {missing[0]}, so {receiver!r} was closed"
                )
            for left_out in missing:
                _log.warning("%r: the peer does not apply the filter %s", receiver, left_out)
            return receiver

        return Opening(attach)

    def requester(
        self, address: str | AnyTarget | None, *, reply_to: str | None = None, timeout: Timeout = DEFAULT
    ) -> Opening[Requester]:
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

        async def attach() -> Requester:
            receiver = await self.receiver(reply_to, timeout=timeout)
            try:
                sender = await self.sender(address, timeout=timeout)
            except BaseException:
                await receiver.close()
                raise
            return Requester(sender, receiver)

        return Opening(attach)

    def transaction(self, *, timeout: Timeout = DEFAULT) -> Transaction:
        """A transaction, for the time of an ``async with`` block; see :class:`.transactions.Transaction`.

        Args:
            timeout: seconds for each step.
        """
        return Transaction(self, timeout)

    # --- what applications see --------------------------------------------------------------------------

    @property
    def remote(self) -> Open | None:
        """The peer's open: its container-id, capabilities and properties; None while not connected."""
        return self._wire.engine.remote if self._wire is not None else None

    @property
    def mechanism(self) -> str | None:
        """The SASL mechanism in use; None without one."""
        driver = self._wire.driver if self._wire is not None else None
        return driver.mechanism if driver is not None else None

    @property
    def offered_mechanisms(self) -> tuple[str, ...]:
        """The SASL mechanisms that the peer offers; none without SASL, or while not connected."""
        driver = self._wire.driver if self._wire is not None else None
        return driver.offered_mechanisms if driver is not None else ()

    @property
    def tls_version(self) -> str | None:
        """The version of TLS in use, such as ``TLSv1.3``; None without TLS, or while not connected."""
        driver = self._wire.driver if self._wire is not None else None
        return driver.tls_version if driver is not None else None

    @property
    def counters(self) -> ConnectionCounters:
        """What went over the connection so far."""
        received, sent, octets_received, octets_sent = map(sum, zip(self._past, self._present(), strict=True))
        return ConnectionCounters(
            frames_received=received,
            frames_sent=sent,
            octets_received=octets_received,
            octets_sent=octets_sent,
            reconnects=self._reconnects,
            sessions=len(self._sessions),
            links=len(self._sessions.links),
        )

    async def round_trip(self, *, timeout: Timeout = DEFAULT) -> float:
        """How long the peer takes to answer, in seconds: a session is begun and ended for it.

        Raises:
            OperationTimedOut: it does not answer.
            ConnectionClosed: the connection is over.
        """
        self._check()
        session = self._sessions.single()
        start = self._loop.time()
        try:
            await wait_for(session.begun, self._limit(timeout), "beginning a session")
            return self._loop.time() - start
        finally:
            self._sessions.drop(session)

    # --- for links --------------------------------------------------------------------------------------

    def _tell_gathered(self) -> None:
        """Write what was decided about deliveries, ahead of whatever is written next."""
        for session in self._sessions.by_engine:
            session.tell_gathered()

    async def _controller(self, timeout: Timeout) -> Controller:
        """The link to the coordinator of the peer.

        Raises:
            AmqpforgeError: there is none.
        """
        task = self._controlling
        if task is not None and task.done() and (task.exception() or not task.result().is_open):
            task = None
        if task is None:
            self._controlling = task = self._loop.create_task(self._attach_controller(timeout))
            # It may be that nobody waits for it any more: its error is seen all the same.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _attach_controller(self, timeout: Timeout) -> Controller:
        wanted = Coordinator(capabilities=[TxnCapability.LOCAL_TRANSACTIONS])
        end = SenderEnd(termini.link_name("transactions"), source=termini.SOURCE, target=wanted)
        controller = Controller(self, end)
        await self._attach(controller, timeout)
        return controller

    async def _attach(
        self, link: Link[Any], timeout: Timeout, session: SessionSettings | None = None
    ) -> None:
        """Attach a link for the first time: to a session of its own, if there are settings for one."""
        self._check()
        self._sessions.place(link, session)
        await link._wait_opened(self._limit(timeout))

    async def _finish_work(self) -> None:
        """The block ends as it should: see that what was posted gets its outcome."""
        for link in self._sessions.links:
            await link._finish_work()
