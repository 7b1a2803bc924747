"""The scenarios that our own client plays; what they are to do is said in ``tests.interop.handles``."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from amqpforge import (
    AmqpforgeError,
    Connection,
    ConnectionClosed,
    ConnectionLost,
    Credentials,
    LinkDetached,
    LocalError,
    Message,
    OperationTimedOut,
    Receiver,
    Sender,
    SessionEnded,
    connect,
)
from amqpforge.client.transactions import Transaction
from amqpforge_protocol.amqp_1_0 import (
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
    Described,
    Source,
    StdDistMode,
    Symbol,
    TerminusDurability,
    TerminusExpiryPolicy,
)
from tests.interop.payload import octets
from tests.interop.peers.forms import PLAIN_MESSAGE, plain
from tests.interop.peers.ours_messages import (
    attached,
    build,
    describe,
    give,
    modes,
    outcome_of,
)
from tests.interop.peers.playing import Fault

SELECTOR = Symbol("apache.org:selector-filter:string")
POLICIES: Mapping[str, Any] = {
    policy.SYMBOL: policy
    for policy in (DeleteOnClose, DeleteOnNoLinks, DeleteOnNoMessages, DeleteOnNoLinksOrMessages)
}

P = ParamSpec("P")
T = TypeVar("T")


def fault_of(error: AmqpforgeError) -> Fault:
    """An error of our client, as foreign clients tell of theirs."""
    match error:
        case LinkDetached(error=told) if told is not None:
            return Fault("link", str(told.condition), told.description)
        case SessionEnded(error=told) if told is not None:
            return Fault("session", str(told.condition), told.description)
        case ConnectionLost() | ConnectionClosed(error=None):
            return Fault("transport", None, str(error))
        case ConnectionClosed(error=told) if told is not None:
            return Fault("connection", str(told.condition), told.description)
        case OperationTimedOut():
            return Fault("deadline", None, str(error))
        case LocalError():
            return Fault("unsupported", None, str(error))
    return Fault("transport", None, str(error))


def telling(scenario: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """A scenario whose errors are those of a peer."""

    @wraps(scenario)
    async def play(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await scenario(*args, **kwargs)
        except AmqpforgeError as error:
            raise fault_of(error) from error

    return play


class Client:
    """One connection at a time."""

    def __init__(self) -> None:
        self.waits_for = "our client"
        self._connection: Connection | None = None
        self._kept: list[Any] = []

    # --- the connection -----------------------------------------------------------------------------------

    @telling
    async def connect(
        self,
        *,
        url: str,
        mechanism: str | None,
        user: str | None,
        password: str | None,
        tls: Mapping[str, str] | None,
        container_id: str,
        hostname: str | None,
        idle_time_out: int | None,
        max_frame_size: int | None,
    ) -> dict[str, object]:
        if mechanism is None:
            raise Fault("unsupported", None, "our client asks for SASL first, and the peer has it")
        options: dict[str, Any] = {"container_id": container_id, "reconnect": None}
        if mechanism == "EXTERNAL":
            options["credentials"] = Credentials(external=True)
        elif user is not None:
            options["credentials"] = Credentials(username=user, password=password, mechanisms=(mechanism,))
        if tls is not None:
            options["ssl"] = _context(tls)
        if hostname is not None:
            options["hostname"] = hostname
        if idle_time_out is not None:
            options["idle_time_out"] = idle_time_out / 1000
        if max_frame_size is not None:
            options["max_frame_size"] = max_frame_size
        self._kept.clear()
        self._connection = await connect(url, **options)
        return _opened(self._connection)

    @telling
    async def close(self) -> None:
        connection = self._live
        await connection.close()
        await connection.wait_closed()
        self._kept.clear()

    async def cut(self) -> None:
        wire = self._live._wire
        if wire is not None and wire.driver is not None:
            wire.driver.abort()

    @property
    def _live(self) -> Connection:
        if self._connection is None:
            raise Fault("transport", None, "the client is not connected")
        return self._connection

    # --- messages -----------------------------------------------------------------------------------------

    @telling
    async def send(
        self,
        *,
        address: str | None,
        count: int,
        message: Mapping[str, Any],
        mode: str,
        receiver_mode: str,
        name: str | None,
        dynamic: bool,
        leave: str,
    ) -> dict[str, object]:
        link = await self._live.sender(address, name=name, dynamic=dynamic, **modes(mode, receiver_mode))
        outcomes = await self._send_all(link, message, count, mode)
        result: dict[str, object] = {"outcomes": outcomes, "attached": attached(link)}
        await self._leave(link, leave)
        return result

    async def _send_all(
        self, link: Sender, spec: Mapping[str, Any], count: int, mode: str
    ) -> list[dict[str, object]]:
        settled = [mode == "settled" or (mode == "mixed" and number % 2 == 1) for number in range(count)]
        posted = [
            link.post(build(spec, number), settled=is_settled) for number, is_settled in enumerate(settled)
        ]
        outcomes = await asyncio.gather(*posted)
        return [outcome_of(outcome, True) for outcome in outcomes]

    @telling
    async def receive(
        self,
        *,
        address: str,
        count: int,
        credit: int,
        answer: Mapping[str, Any],
        mode: str,
        receiver_mode: str,
        copy: bool,
        selector: str | None,
        name: str | None,
        subscription: bool,
        leave: str,
    ) -> dict[str, object]:
        source = Source(
            address=address,
            durable=TerminusDurability.UNSETTLED_STATE if subscription else TerminusDurability.NONE,
            expiry_policy=TerminusExpiryPolicy.NEVER if subscription else TerminusExpiryPolicy.SESSION_END,
            distribution_mode=StdDistMode.COPY if copy else None,
            filter=None if selector is None else {Symbol("selector"): Described(SELECTOR, selector)},
        )
        link = await self._live.receiver(
            source,
            credit=min(credit, count),
            auto_accept=False,
            name=name,
            **modes(mode, receiver_mode),
        )
        messages = [await self._take(link, answer) for _ in range(count)]
        unsettled = sum(not message["settled"] for message in messages)
        while answer["name"] != "none" and link.counters.unsettled > link.counters.waiting:
            await self._live.round_trip()
        result: dict[str, object] = {
            "messages": messages,
            "attached": attached(link),
            "resettled": unsettled if receiver_mode == "second" else 0,
            "credit": link.counters.credit,
        }
        await self._leave(link, leave)
        return result

    async def _take(self, link: Receiver, answer: Mapping[str, Any]) -> dict[str, object]:
        """Receive a message and answer it."""
        delivery = await link.receive(timeout=None)
        message = describe(delivery.message, delivery.settled)
        if not delivery.settled:
            give(delivery, answer)
        self._kept.append(delivery)
        return message

    async def _leave(self, link: Sender | Receiver, leave: str) -> None:
        if leave == "detach":
            raise Fault("unsupported", None, "our client detaches a link only together with its connection")
        if leave == "close":
            await link.close()
        else:
            self._kept.append(link)

    @telling
    async def drain(self, *, address: str, credit: int) -> dict[str, object]:
        link = await self._live.receiver(address, credit=credit)
        count = await link.drain()
        deliveries = [await link.receive() for _ in range(count)]
        result: dict[str, object] = {
            "messages": [describe(each.message, False) for each in deliveries],
            "attached": attached(link),
            "resettled": 0,
            "credit": link.counters.credit,
        }
        await link.close()
        return result

    @telling
    async def dynamic(self, *, count: int, policy: str | None, takes: int) -> dict[str, object]:
        properties: dict[str, Any] | None = None
        if policy is not None:
            properties = {Symbol("lifetime-policy"): POLICIES[policy]()}
        source = Source(address=None, dynamic=True, dynamic_node_properties=properties)
        async with self._live.receiver(source, credit=takes) as receiver:
            async with self._live.sender(receiver.address) as sender:
                await self._send_all(sender, PLAIN_MESSAGE, count, "unsettled")
            messages = [(await receiver.receive()).message for _ in range(takes)]
            address = receiver.address
        return {"address": address, "messages": [describe(message, False) for message in messages]}

    @telling
    async def request(self, *, address: str, count: int, message: Mapping[str, Any]) -> dict[str, object]:
        async with self._live.requester(address) as requester:
            requests = [build(message, number) for number in range(count)]
            replies = await asyncio.gather(*map(requester.request, requests))
        return {"address": "", "messages": [describe(reply, False) for reply in replies]}

    @telling
    async def respond(self, *, address: str, count: int) -> list[dict[str, object]]:
        requests: list[Message] = []
        async with self._live.receiver(address) as receiver:
            for _ in range(count):
                request = (await receiver.receive()).message
                requests.append(request)
                identifier = request.correlation_id or request.message_id
                async with self._live.sender(request.reply_to) as sender:
                    await sender.send(Message(request.body, correlation_id=identifier))
        return [describe(each, False) for each in requests]

    @telling
    async def both(self, *, address: str, name: str) -> dict[str, object]:
        async with (
            self._live.sender(address, name=name) as sender,
            self._live.receiver(address, name=name, credit=1) as receiver,
        ):
            await sender.send(build(PLAIN_MESSAGE, 0))
            return describe((await receiver.receive()).message, False)

    @telling
    async def stream(self, *, address: str, size: int, piece: int) -> dict[str, object]:
        content = octets(0, size)
        async with self._live.sender(address) as sender:
            head = build({**PLAIN_MESSAGE, "text": ""}, 0)
            async with sender.stream(head, size=size) as stream:
                for start in range(0, size, piece):
                    await stream.write(content[start : start + piece])
        return outcome_of(stream.outcome, True)

    @telling
    async def read_stream(self, *, address: str) -> dict[str, object]:
        async with self._live.receiver(address, credit=1, stream=True) as receiver:
            delivery: Any = await receiver.receive()
            head = await delivery.head()
            pieces = [piece async for piece in delivery.data()]
            delivery.accept()
        whole = Message(b"".join(pieces), message_id=head.message_id)
        return {"message": describe(whole, False), "parts": len(pieces)}

    # --- many ---------------------------------------------------------------------------------------------

    @telling
    async def links(self, *, address: str, count: int) -> dict[str, object]:
        senders = await asyncio.gather(*(self._live.sender(address) for _ in range(count)))
        sent = await asyncio.gather(*(each.send(build(PLAIN_MESSAGE, 0), check=False) for each in senders))
        await asyncio.gather(*(each.close() for each in senders))
        accepted = sum(outcome_of(outcome, True)["name"] == "accepted" for outcome in sent)
        return {"opened": len(senders), "accepted": accepted, "closed": len(senders), "error": None}

    @telling
    async def connections(self, *, url: str, address: str, count: int) -> dict[str, object]:
        opened = await asyncio.gather(
            *(connect(url, container_id=f"many-{number}", reconnect=None) for number in range(count))
        )
        senders = await asyncio.gather(*(each.sender(address) for each in opened))
        sent = await asyncio.gather(*(each.send(build(PLAIN_MESSAGE, 0), check=False) for each in senders))
        await asyncio.gather(*(each.close() for each in opened))
        accepted = sum(outcome_of(outcome, True)["name"] == "accepted" for outcome in sent)
        return {"opened": len(opened), "accepted": accepted, "closed": len(opened), "error": None}

    @telling
    async def idle(self, *, for_seconds: float) -> dict[str, object]:
        before = self._live.counters
        error = None
        try:
            async with asyncio.timeout(for_seconds):
                await self._live.wait_closed()
        except TimeoutError:
            pass
        except AmqpforgeError as lost:
            fault = fault_of(lost)
            error = {"condition": fault.condition, "description": fault.description}
        after = self._live.counters
        return {
            "is_open": error is None,
            "octets_in": after.octets_received - before.octets_received,
            "octets_out": after.octets_sent - before.octets_sent,
            "error": error,
        }

    @telling
    async def transaction(
        self, *, address: str, sends: int, accepts: int, commit: bool | None
    ) -> dict[str, object]:
        connection = self._live
        work = await connection.transaction().__aenter__()
        sender = await connection.sender(address)
        receiver = await connection.receiver(address, credit=accepts, auto_accept=False)
        messages = (build(PLAIN_MESSAGE, number) for number in range(sends))
        sent = [await sender.send(message, transaction=work, check=False) for message in messages]
        deliveries = [await receiver.receive() for _ in range(accepts)]
        for delivery in deliveries:
            delivery.accept(transaction=work)
        discharge = await self._discharge(work, commit)
        if commit is None:
            await connection.round_trip()
            self._kept += [work, sender, receiver]
        else:
            await sender.close()
            await receiver.close()
        return {
            "sent": [outcome_of(outcome, True) for outcome in sent],
            "messages": [describe(delivery.message, False) for delivery in deliveries],
            "discharge": discharge,
        }

    async def _discharge(self, work: Transaction, commit: bool | None) -> dict[str, object] | None:
        if commit is None:
            return None
        await (work.commit() if commit else work.rollback())
        return {"name": "accepted", "settled": True}


def _context(files: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files["authority"])
    if "certificate" in files:
        context.load_cert_chain(files["certificate"], files["key"])
    return context


def _opened(connection: Connection) -> dict[str, object]:
    """What the other end's open said."""
    remote = connection.remote
    if remote is None:
        raise Fault("transport", None, "the connection was lost")
    return {
        "container_id": remote.container_id,
        "hostname": remote.hostname,
        "max_frame_size": remote.max_frame_size,
        "channel_max": remote.channel_max,
        "idle_time_out": remote.idle_time_out,
        "offered_capabilities": [str(each) for each in remote.offered_capabilities or ()],
        "desired_capabilities": [str(each) for each in remote.desired_capabilities or ()],
        "properties": plain(dict(remote.properties or {})),
        "mechanism": connection.mechanism,
        "user": None,
    }
