"""The scenarios that a Proton client plays; what they are to do is said in ``tests.interop.handles``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from tests.interop.peers.forms import PLAIN_MESSAGE
from tests.interop.peers.proton_boxes import Inbox, Many
from tests.interop.peers.proton_connection import ClientConnection
from tests.interop.peers.proton_messages import TRANSACTIONAL, attached, build
from tests.interop.peers.proton_wire import Fault, proton

SELECTOR = "apache.org:selector-filter:string"


class Client(ClientConnection):
    """One connection at a time; each scenario on a session of its own."""

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
        async with self._session(leave) as session:
            link = self._sender(session, address, mode, receiver_mode, name)
            link.target.dynamic = dynamic
            await self._attach(link)
            outbox = await self._send_all(link, message, count, mode)
            result: dict[str, object] = {"outcomes": outbox.outcomes, "attached": attached(link)}
            await self._leave(link, leave)
        return result

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
        async with self._session(leave) as session:
            link = self._receiver(session, address, mode, receiver_mode, name)
            if subscription:
                link.source.durability = proton.Terminus.DELIVERIES
                link.source.expiry_policy = proton.Terminus.EXPIRE_NEVER
            if copy:
                link.source.distribution_mode = proton.Terminus.DIST_MODE_COPY
            if selector is not None:
                link.source.filter.put_dict(
                    {proton.symbol("selector"): proton.Described(proton.symbol(SELECTOR), selector)}
                )
            inbox = self._listen(link, count, credit, answer, receiver_mode == "second")
            await self._attach(link)
            inbox.grant()
            await self._until(
                lambda: len(inbox.messages) == count, f"{count} messages from {address}", link, session
            )
            await self._until(lambda: not inbox.unsettled, "the settlement of the sender", link, session)
            result = inbox.result()
            await self._leave(link, leave)
        return result

    async def drain(self, *, address: str, credit: int) -> dict[str, object]:
        async with self._session() as session:
            link = self._receiver(session, address, "mixed", "first")
            inbox = self._listen(link, 0, 0)
            await self._attach(link)
            link.drain(credit)
            await self._until(lambda: not link.credit, f"the end of the credit on {address}", link, session)
            result = inbox.result()
            await self._detach(link)
        return result

    async def dynamic(self, *, count: int, policy: str | None, takes: int) -> dict[str, object]:
        return await self._to_dynamic(count, lambda address: (address, PLAIN_MESSAGE), policy, takes)

    async def request(self, *, address: str, count: int, message: Mapping[str, Any]) -> dict[str, object]:
        return await self._to_dynamic(
            count, lambda reply_to: (address, {**message, "properties": {"reply_to": reply_to}})
        )

    async def _to_dynamic(
        self,
        count: int,
        what: Callable[[str], tuple[str, Mapping[str, Any]]],
        policy: str | None = None,
        takes: int | None = None,
    ) -> dict[str, object]:
        """Attach to a dynamic source, send what ``what`` says of its address, and wait for as many, or for
        those that it ``takes``.
        """
        takes = count if takes is None else takes
        async with self._session() as session:
            receiver = self._receiver(session, None, "mixed", "first")
            if policy is not None:
                lifetime = proton.Described(proton.symbol(policy), [])
                receiver.source.properties.put_dict({proton.symbol("lifetime-policy"): lifetime})
            inbox = self._listen(receiver, takes, takes)
            await self._attach(receiver)
            address = receiver.remote_source.address
            inbox.grant()
            target, spec = what(address)
            sender = await self._attach(self._sender(session, target, "unsettled", "first"))
            await self._send_all(sender, spec, count, "unsettled")
            await self._until(
                lambda: len(inbox.messages) == takes, f"{takes} messages to {address}", receiver, session
            )
            await self._detach(sender, receiver)
        return {"address": address, "messages": inbox.described()}

    async def respond(self, *, address: str, count: int) -> list[dict[str, object]]:
        async with self._session() as session:
            receiver = self._receiver(session, address, "mixed", "first")
            inbox = self._listen(receiver, count, count)
            await self._attach(receiver)
            inbox.grant()
            senders: dict[str, Any] = {}
            for number in range(count):
                request = await self._nth(inbox, number, address)
                if (sender := senders.get(request.reply_to)) is None:
                    sender = self._sender(session, request.reply_to, "unsettled", "first")
                    senders[request.reply_to] = await self._attach(sender)
                await self._reply(sender, request)
            await self._detach(*senders.values(), receiver)
        return inbox.described()

    async def _nth(self, inbox: Inbox, number: int, address: str) -> Any:
        waits_for = f"request {number} from {address}"
        await self._until(lambda: len(inbox.messages) > number, waits_for, inbox.link, inbox.link.session)
        return inbox.messages[number]

    async def _reply(self, sender: Any, request: Any) -> None:
        """Answer a request with its own body, and wait for the outcome."""
        await self._until(lambda: sender.credit > 0, "credit to reply", sender, sender.session)
        reply = proton.Message()
        reply.body, reply.inferred = request.body, request.inferred
        reply.correlation_id = request.correlation_id or request.id
        self._post_message(sender, reply)
        outbox = self._outboxes[sender.name]
        await self._until(lambda: not outbox.pending, "the outcome of a reply", sender, sender.session)

    async def both(self, *, address: str, name: str) -> dict[str, object]:
        async with self._session() as session:
            sender = await self._attach(self._sender(session, address, "unsettled", "first", name))
            receiver = self._receiver(session, address, "mixed", "first", name)
            inbox = self._listen(receiver, 1, 1)
            await self._attach(receiver)
            await self._send_all(sender, PLAIN_MESSAGE, 1, "unsettled")
            inbox.grant()
            await self._nth(inbox, 0, address)
            await self._detach(sender, receiver)
        return inbox.described()[0]

    async def stream(self, *, address: str, size: int, piece: int) -> dict[str, object]:
        async with self._session() as session:
            link = await self._attach(self._sender(session, address, "unsettled", "first"))
            await self._until(lambda: link.credit > 0, "credit", link, session)
            octets = build({**PLAIN_MESSAGE, "size": size}, 0).encode()
            delivery = link.delivery(link.delivery_tag())
            self._outboxes[link.name].sent(delivery, False)
            for start in range(0, len(octets), piece):
                link.stream(octets[start : start + piece])
                await self._until(lambda: session.outgoing_bytes < piece, "a wider window", link, session)
            link.advance()
            outbox = self._outboxes[link.name]
            await self._until(lambda: not outbox.pending, "the outcome", link, session)
            await self._detach(link)
        return outbox.outcomes[0]

    async def read_stream(self, *, address: str) -> dict[str, object]:
        async with self._session(window=1 << 20) as session:
            link = self._receiver(session, address, "mixed", "first")
            inbox = self._listen(link, 1, 1)
            inbox.read_in_parts()
            await self._attach(link)
            inbox.grant()
            await self._nth(inbox, 0, address)
            await self._detach(link)
        return {"message": inbox.described()[0], "parts": inbox.parts}

    async def connections(self, *, url: str, address: str, count: int) -> dict[str, object]:
        clients = [Client() for _ in range(count)]
        self.waits_for = f"{count} connections"
        opens = (each.open_one(url, f"many-{number}") for number, each in enumerate(clients))
        opened = await asyncio.gather(*opens)
        sent = await asyncio.gather(*(each.send_one(address) for each in clients))
        await asyncio.gather(*(each.close() for each in clients))
        accepted = sum(outcome["name"] == "accepted" for outcome in sent)
        return {"opened": len(opened), "accepted": accepted, "closed": len(clients), "error": None}

    async def open_one(self, url: str, container_id: str) -> object:
        """Open one of many connections."""
        return await self.connect(
            url=url,
            mechanism="ANONYMOUS",
            user=None,
            password=None,
            tls=None,
            container_id=container_id,
            hostname=None,
            idle_time_out=None,
            max_frame_size=None,
        )

    async def send_one(self, address: str) -> dict[str, Any]:
        """Send a message, and return its outcome."""
        async with self._session() as session:
            link = await self._attach(self._sender(session, address, "unsettled", "first"))
            outbox = await self._send_all(link, PLAIN_MESSAGE, 1, "unsettled")
            await self._detach(link)
        outcome: dict[str, Any] = outbox.outcomes[0]
        return outcome

    async def cut(self) -> None:
        self._live_wire.abort()

    async def links(self, *, address: str, count: int) -> dict[str, object]:
        async with self._session() as session:
            links = [self._sender(session, address, "unsettled", "first") for _ in range(count)]
            many = Many()
            self._many = {link.name: many for link in links}
            for link in links:
                link.open()
            await self._until(lambda: many.opened + many.closed >= count, f"{count} attaches", session)
            await self._until(lambda: many.accepted + many.closed >= count, f"{count} outcomes", session)
            for link in links:
                link.close()
            await self._until(lambda: many.closed >= count, f"{count} detaches", session)
            self._many = {}
        return vars(many)

    async def idle(self, *, for_seconds: float) -> dict[str, object]:
        wire = self._live_wire
        before = wire.octets_in, wire.octets_out
        error = None
        try:
            async with asyncio.timeout(for_seconds):
                await self._until(lambda: False, "the end of the idle time")
        except TimeoutError:
            pass
        except Fault as fault:
            error = {"condition": fault.condition, "description": fault.description}
        return {
            "is_open": error is None,
            "octets_in": wire.octets_in - before[0],
            "octets_out": wire.octets_out - before[1],
            "error": error,
        }

    async def transaction(
        self, *, address: str, sends: int, accepts: int, commit: bool | None
    ) -> dict[str, object]:
        async with self._session("stay" if commit is None else "close") as session:
            control = self._sender(session, None, "unsettled", "first")
            control.target.type = proton.Terminus.COORDINATOR
            control.target.capabilities.put_object(proton.symbol("amqp:local-transactions"))
            await self._attach(control)
            declared = await self._control(control, "amqp:declare:list", [None])
            transaction = declared.pop("transaction", None)
            if transaction is None:
                raise Fault("link", None, f"the declare was answered with {declared}")
            sent = await self._send_in(session, address, sends, transaction) if sends else []
            inbox = await self._accept_in(session, address, accepts, transaction) if accepts else None
            discharge = None
            if commit is not None:
                discharge = await self._control(control, "amqp:discharge:list", [transaction, not commit])
                for delivery in inbox.deliveries if inbox else []:
                    delivery.settle()
                await self._detach(control)
        return {"sent": sent, "messages": inbox.described() if inbox else [], "discharge": discharge}

    async def _control(self, link: Any, descriptor: str, fields: list[object]) -> dict[str, Any]:
        """Send a declare or discharge and return its outcome."""
        await self._until(lambda: link.credit > 0, "credit of the coordinator", link, link.session)
        body = proton.Described(proton.symbol(descriptor), fields)
        self._post_message(link, proton.Message(body=body))
        outbox = self._outboxes[link.name]
        await self._until(lambda: not outbox.pending, f"the outcome of {descriptor}", link, link.session)
        return outbox.outcomes[-1]

    async def _send_in(self, session: Any, address: str, count: int, transaction: bytes) -> list[Any]:
        link = await self._attach(self._sender(session, address, "unsettled", "first"))
        outbox = self._outboxes[link.name]
        for number in range(count):
            await self._until(lambda: link.credit > 0, f"credit for message {number}", link, session)
            delivery = self._post(link, PLAIN_MESSAGE, number, "unsettled")
            delivery.local.data = [transaction]
            delivery.update(TRANSACTIONAL)
        await self._until(lambda: not outbox.pending, "the outcomes of the messages", link, session)
        return outbox.outcomes

    async def _accept_in(self, session: Any, address: str, count: int, transaction: bytes) -> Inbox:
        link = self._receiver(session, address, "mixed", "first")
        inbox = self._listen(link, count, count, {"name": "none"})
        await self._attach(link)
        inbox.grant()
        await self._until(lambda: len(inbox.messages) == count, f"{count} messages", link, session)
        for delivery in inbox.deliveries:
            accepted = proton.Described(proton.symbol("amqp:accepted:list"), [])
            delivery.local.data = [transaction, accepted]
            delivery.update(TRANSACTIONAL)
        return inbox
