"""A connection to a container, or to one of several, as applications hold it: it outlives its transports."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from amqpforge.engine.container import Container
from amqpforge.engine.headers import HeaderRefused
from amqpforge.engine.receiver import Receiver as ReceiverEnd
from amqpforge.engine.sender import Sender as SenderEnd
from amqpforge.engine.settings import SessionSettings
from amqpforge.errors import AmqpforgeError, ConnectionClosed, LocalError, OperationTimedOut
from amqpforge.url import Url
from amqpforge_protocol.amqp_1_0 import (
    AnySource,
    AnyTarget,
    Coordinator,
    Open,
    ProtocolId,
    ReceiverSettleMode,
    SenderSettleMode,
    Target,
    TerminusExpiryPolicy,
    TxnCapability,
)

from . import termini
from .counters import ConnectionCounters
from .options import Options, Reconnect
from .receiver import Receiver
from .reconnecting import come_back, is_final
from .redirects import redirected
from .requests import Requester
from .sender import Sender
from .sessions import Sessions
from .transactions import Controller, Transaction
from .waiting import DEFAULT, Opening, Timeout, fresh, time_limit, wait_for
from .wire import Wire

if TYPE_CHECKING:
    from .link import Link
    from .transport import Driver

__all__ = ["Connection"]

_LAST_WORDS: Final = 1.0
"""Seconds that the transport has to go once both ends have closed."""

_STEADY: Final = 10.0
"""A connection that lived for so many seconds is worth a short pause."""

_log = logging.getLogger("amqpforge.connection")


class Connection:
    """A connection, made by :func:`amqpforge.client.connect`, and made again when it is lost.

    It belongs to the event loop that it was made in. Many tasks may use it.

    Attributes:
        loop: the event loop.
        options: what was asked for.
    """

    def __init__(self, urls: Sequence[Url], options: Options) -> None:
        self.loop = asyncio.get_running_loop()
        self.options = options
        self.urls = list(urls)
        self._container = Container(options.container_id)
        self._sessions = Sessions(self, SessionSettings(handle_max=options.handle_max))
        self._wire: Wire | None = None
        self._parting: Driver | None = None  # What carried the connection that was lost last.
        self._watchers: dict[Any, None] = {}
        self._returning: asyncio.Task[None] | None = None
        self._controller: asyncio.Task[Controller] | None = None
        self._error: AmqpforgeError | None = None
        self._over: asyncio.Future[None] = self.loop.create_future()
        self._is_closing = False
        self._reconnects = 0
        self._delays: Iterator[float] | None = None
        self._up_at = 0.0
        self._past = [0, 0, 0, 0]

    def __repr__(self) -> str:
        state = "closed" if self._over.done() else "open" if self.is_connected else "not connected"
        return f"<Connection {self.options.container_id!r} to {self.url}, {state}>"

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
        chosen = name or termini.link_name(address)

        def make() -> SenderEnd:
            return SenderEnd(
                chosen,
                source=source or termini.SOURCE,
                target=target,
                snd_settle_mode=snd_settle_mode,
                rcv_settle_mode=rcv_settle_mode,
                desired_capabilities=termini.symbols(capabilities),
                properties=termini.fields(properties),
            )

        async def attach() -> Sender:
            sender = Sender(self, make)
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
            filter: other filters by their names; see ``filters`` of the receiver for those in place.
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
        chosen = name or termini.link_name(address)
        window = termini.window(credit)

        def make() -> ReceiverEnd:
            return ReceiverEnd(
                chosen,
                source=source,
                target=target or Target(),
                snd_settle_mode=snd_settle_mode,
                rcv_settle_mode=rcv_settle_mode,
                max_message_size=max_message_size,
                desired_capabilities=termini.symbols(capabilities),
                properties=termini.fields(properties),
                streams=stream,
            )

        async def attach() -> Receiver:
            receiver = Receiver(
                self,
                make,
                window=window,
                auto_accept=auto_accept,
                known_annotations=known_annotations,
            )
            if stream:
                receiver.session_settings = termini.stream_session(self.options)
            await self._attach(receiver, timeout)
            termini.check_filters(receiver, source)
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
    def url(self) -> Url:
        """Where the connection goes; while there is none, where it will be tried first."""
        return self._wire.url if self._wire is not None else self.urls[0]

    @property
    def is_open(self) -> bool:
        """Whether it is of use: not closed, and not given up. It may be lost just now."""
        return not self._is_closing and not self._over.done()

    @property
    def is_connected(self) -> bool:
        """Whether there is a transport just now, and both ends are open."""
        return self._wire is not None and not self._wire.ended.done()

    @property
    def error(self) -> AmqpforgeError | None:
        """Why it is over; None while it is not, or if it was closed from here."""
        return self._error

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
        start = self.loop.time()
        try:
            await wait_for(session.begun, self.limit(timeout), "beginning a session")
            return self.loop.time() - start
        finally:
            self._sessions.drop(session)

    async def wait_closed(self) -> None:
        """Wait until the connection is over.

        Raises:
            AmqpforgeError: it was not closed from here, but given up: why.
        """
        await asyncio.shield(self._over)
        if self._error is not None:
            raise fresh(self._error)

    async def close(self, *, timeout: Timeout = DEFAULT) -> None:
        """Close the connection and all that is on it; nothing happens if it is over already.

        Messages that came in and that nobody has taken are released. Whatever the peer answers, or does not
        answer, this ends within ``timeout`` seconds.
        """
        if self._is_closing or self._over.done():
            await asyncio.shield(self._over)
            await self._part(timeout)
            return
        self._is_closing = True
        if self._returning is not None:
            self._returning.cancel()
        wire = self._wire
        for link in self._sessions.links:
            link.closing()
        try:
            if wire is not None and not wire.ended.done():
                wire.engine.close()
                wire.wake()
                async with time_limit(self.limit(timeout), f"closing the connection to {wire.url}"):
                    await wire.ended
            await self._part(timeout)
        except OperationTimedOut as error:
            _log.warning("%s: the peer does not answer", error)
        finally:
            if wire is not None:
                wire.abort()
            self._finish(None)

    async def _part(self, timeout: Timeout) -> None:
        """See the last transport off: what is written goes out, if the peer takes it in time."""
        limit = self.limit(timeout)
        lost = self._parting.lost if self._parting is not None else None
        leaving = [one for one in (lost, self._returning) if one is not None]
        try:
            if leaving:
                await asyncio.wait(leaving, timeout=_LAST_WORDS if limit is None else min(_LAST_WORDS, limit))
        finally:
            if self._parting is not None:
                self._parting.abort()

    # --- for links and sessions -------------------------------------------------------------------------

    @property
    def recovers(self) -> bool:
        """Whether what is lost is made again."""
        return self.options.reconnect is not None and not self._is_closing

    def limit(self, timeout: Timeout) -> float | None:
        """A time-out in seconds; None: no limit."""
        return timeout if timeout is None or isinstance(timeout, int | float) else self.options.timeout

    def wake(self) -> None:
        """There may be something to send."""
        wire = self._wire
        if wire is not None and wire.driver is not None:
            wire.driver.wake()

    def tell_gathered(self) -> None:
        """Write what was decided about deliveries, ahead of whatever is written next."""
        for session in self._sessions.by_engine:
            session.tell_gathered()

    def watch(self, watcher: Any) -> None:
        """Have ``look`` of a sender, or of a stream, called when output has gone out."""
        self._watchers[watcher] = None

    async def controller(self, timeout: Timeout) -> Controller:
        """The link to the coordinator of the peer.

        Raises:
            AmqpforgeError: there is none.
        """
        task = self._controller
        if task is not None and task.done() and (task.exception() or not task.result().is_open):
            task = None
        if task is None:
            self._controller = task = self.loop.create_task(self._attach_controller(timeout))
            # It may be that nobody waits for it any more: its error is seen all the same.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _attach_controller(self, timeout: Timeout) -> Controller:
        def make() -> SenderEnd:
            wanted = [TxnCapability.LOCAL_TRANSACTIONS]
            name = termini.link_name("transactions")
            return SenderEnd(name, source=termini.SOURCE, target=Coordinator(capabilities=wanted))

        controller = Controller(self, make)
        await self._attach(controller, timeout)
        return controller

    async def _attach(self, link: Link[Any], timeout: Timeout) -> None:
        self._check()
        self._sessions.place(link)
        await link.opened(self.limit(timeout))

    def _check(self) -> None:
        if self._error is not None:
            raise fresh(self._error)
        if not self.is_open:
            raise LocalError(f"{self!r} is closed")

    # --- coming and going -------------------------------------------------------------------------------

    async def establish(self, url: Url) -> None:
        """Make a transport to a URL, or where the peer there sends us, open the connection on it, and bring
        back what was there.

        Raises:
            AmqpforgeError: why there is no connection.
        """
        for _ in range(self.options.redirects):
            try:
                await self._establish_there(url)
            except ConnectionClosed as error:
                onward = redirected(url, error)
                if onward is None:
                    raise
                _log.info("%s sends us on to %s, the host %s", url, onward, onward.hostname)
                url = onward
            else:
                return
        await self._establish_there(url)

    async def _establish_there(self, url: Url) -> None:
        credentials = self.options.credentials_for(url)
        wire = Wire(url, self.options, self._container, self._sessions)
        try:
            await wire.open(credentials, is_known=self._up_at > 0)
        except HeaderRefused as refusal:
            is_anonymous = credentials.username is None and self.options.credentials is None
            received = refusal.received
            if not is_anonymous or received is None or received.protocol_id != ProtocolId.AMQP:
                raise
            # There is nothing to prove, and the peer says how it wants to be spoken to: without SASL.
            wire = Wire(url, self.options, self._container, self._sessions)
            await wire.open(None, is_known=self._up_at > 0)
        self._adopt(wire)

    def _adopt(self, wire: Wire) -> None:
        self._wire = wire
        self._up_at = self.loop.time()
        wire.closed = self._on_lost
        if wire.driver is not None:
            wire.driver.flushed = self._on_flushed
        self._sessions.up(wire.engine)
        wire.wake()

    def _on_flushed(self) -> None:
        watchers = self._watchers
        if watchers:
            for watcher in list(watchers):
                watcher.look()
                if not watcher.is_watching:
                    watchers.pop(watcher, None)

    def _on_lost(self, error: AmqpforgeError | None) -> None:
        """The transport is over, or about to be."""
        reason = error or ConnectionClosed("the connection was closed")
        self._past = [past + now for past, now in zip(self._past, self._present(), strict=True)]
        wire, self._wire = self._wire, None
        if wire is not None:
            self._parting = wire.driver
        if self._is_closing or self._over.done():
            return
        _log.info("%s is lost: %s", wire.url if wire is not None else self, reason)
        policy = self.options.reconnect
        if policy is None or is_final(reason):
            self._finish(reason)
            return
        onward = None
        if policy.redirects and wire is not None and isinstance(reason, ConnectionClosed):
            onward = redirected(wire.url, reason)
        self._sessions.down(reason)
        self._returning = self.loop.create_task(come_back(self, policy, reason, onward))

    def delays(self, policy: Reconnect) -> Iterator[float]:
        """The pauses ahead of the next attempts; they go on growing if the connection did not last."""
        if self._delays is None or self.loop.time() - self._up_at > _STEADY:
            self._delays = policy.delays()
        return self._delays

    def returned(self) -> None:
        """There is a connection again."""
        self._reconnects += 1
        self._returning = None

    def give_up(self, error: AmqpforgeError) -> None:
        """There will be no connection any more."""
        self._returning = None
        self._finish(error)

    def _finish(self, error: AmqpforgeError | None) -> None:
        if self._over.done():
            return
        self._error = error
        self._over.set_result(None)
        self._sessions.fail(error or ConnectionClosed("the connection was closed from here"))
        self._watchers.clear()

    async def _finish_work(self) -> None:
        """The block ends as it should: see that what was posted gets its outcome."""
        for link in self._sessions.links:
            await link.finish_work()

    def _present(self) -> list[int]:
        wire = self._wire
        if wire is None:
            return [0, 0, 0, 0]
        engine = wire.engine
        octets_received = wire.driver.octets_received if wire.driver is not None else 0
        return [engine.frames_received, engine.output.frames, octets_received, engine.output.octets]
