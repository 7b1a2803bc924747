"""What a test holds of a foreign peer: typed handles on the programs in ``peers``.

A call blocks until the peer has answered. A test whose own side runs on asyncio calls through
``asyncio.to_thread``, so that its event loop can serve the peer meanwhile.

Every scenario of a client runs on a session of its own, so that one which the other end refuses does not
spoil the next. What the other end refuses, and what goes wrong otherwise, is raised as ``PeerError`` (see
``results``); a program that breaks, as ``ChildError`` (see ``processes``).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from itertools import count as numbers
from typing import Any

from tests.interop.certificates import Certificates
from tests.interop.processes import Child
from tests.interop.results import (
    Answer,
    Idle,
    Leave,
    Links,
    Message,
    Opened,
    Outcome,
    PeerError,
    Receipt,
    Received,
    ReceiverMode,
    Replies,
    SenderMode,
    Sent,
    Streamed,
    Transaction,
)

SECONDS = 10.0
"""What a scenario may take unless the test says otherwise."""
ANSWER_MARGIN = 5.0
"""Seconds beyond the deadline of a scenario after which a silent peer counts as broken."""

ONE = Message()
ACCEPT = Answer()


def _read(line: str) -> Any:
    """The JSON on a line, or None."""
    try:
        return json.loads(line)
    except ValueError:
        return None


class Handle:
    """One request at a time, one JSON line each way."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._numbers = numbers(1)
        self._turn = threading.Lock()

    def ask(self, do: str, seconds: float = SECONDS, **arguments: object) -> Any:
        """Have the peer play the scenario ``do`` within ``seconds`` and return its result.

        Raises:
            PeerError: the scenario did not go through.
            ChildError: the program broke.
        """
        with self._turn:
            number = next(self._numbers)
            request = {"id": number, "do": do, "seconds": seconds, "with": arguments}
            self._child.say(json.dumps(request))
            line = self._child.hear(seconds + ANSWER_MARGIN)
        match _read(line):
            case {"id": answered, "result": result} if answered == number:
                return result
            case {"id": answered, "failed": failed} if answered == number:
                raise PeerError(**failed)
        raise self._child.failure(f"answered {do!r} with {line[:200]!r}")


class ForeignClient(Handle):
    """A client made of somebody else's stack."""

    def connect(
        self,
        url: str,
        *,
        mechanism: str | None = "ANONYMOUS",
        user: str | None = None,
        password: str | None = None,
        certificates: Certificates | None = None,
        shows_certificate: bool = False,
        container_id: str = "foreign-client",
        hostname: str | None = None,
        idle_time_out: int | None = None,
        max_frame_size: int | None = None,
        seconds: float = SECONDS,
    ) -> Opened:
        """Open a connection, the only one of this client, to ``amqp://host:port``, ``amqps:``, ``amqp+ws:``.

        Without a ``mechanism`` there is no SASL layer. ``certificates`` are what TLS needs: the authority to
        trust and, if the client ``shows_certificate``, its own. ``idle_time_out``, in milliseconds, is what
        the client itself bears.
        """
        tls = None
        if certificates is not None:
            tls = certificates.for_client(shows_certificate)
        opened = self.ask(
            "connect",
            seconds,
            url=url,
            mechanism=mechanism,
            user=user,
            password=password,
            tls=tls,
            container_id=container_id,
            hostname=hostname,
            idle_time_out=idle_time_out,
            max_frame_size=max_frame_size,
        )
        return Opened(**opened)

    def close(self, seconds: float = SECONDS) -> None:
        """Close the connection in order; an error in the other end's close is raised."""
        self.ask("close", seconds)

    def send(
        self,
        address: str | None,
        count: int = 1,
        message: Message = ONE,
        *,
        mode: SenderMode = "unsettled",
        receiver_mode: ReceiverMode = "first",
        name: str | None = None,
        dynamic: bool = False,
        leave: Leave = "close",
        seconds: float = SECONDS,
    ) -> Sent:
        """Send ``count`` messages as credit comes, and wait until all are settled at both ends.

        In mode ``mixed`` every second message is sent settled. Without an address the link has a null target
        address, and the messages say where they go ``to``; or, if it is ``dynamic``, the other end makes a
        node. The link is called ``name``, or as no other one; ``leave`` says what becomes of it.
        """
        sent = self.ask(
            "send",
            seconds,
            address=address,
            count=count,
            message=message.to_json(),
            mode=mode,
            receiver_mode=receiver_mode,
            name=name,
            dynamic=dynamic,
            leave=leave,
        )
        return Sent.from_json(sent)

    def receive(
        self,
        address: str,
        count: int = 1,
        *,
        credit: int = 10,
        answer: Answer = ACCEPT,
        mode: SenderMode = "mixed",
        receiver_mode: ReceiverMode = "first",
        copy: bool = False,
        selector: str | None = None,
        name: str | None = None,
        subscription: bool = False,
        leave: Leave = "close",
        seconds: float = SECONDS,
    ) -> Receipt:
        """Receive ``count`` messages, with never more than ``credit``, answer each, and wait for settlement.

        In receiver mode ``second`` that is: until the sender has settled, and then this end does. The source
        of a ``subscription`` is durable and never expires. The link is called ``name``, or as no other one;
        ``leave`` says what becomes of it.
        """
        receipt = self.ask(
            "receive",
            seconds,
            address=address,
            count=count,
            credit=credit,
            answer=answer.to_json(),
            mode=mode,
            receiver_mode=receiver_mode,
            copy=copy,
            selector=selector,
            name=name,
            subscription=subscription,
            leave=leave,
        )
        return Receipt.from_json(receipt)

    def drain(self, address: str, credit: int, seconds: float = SECONDS) -> Receipt:
        """Give ``credit`` with drain set, accept what comes, and wait until the credit is used or gone."""
        return Receipt.from_json(self.ask("drain", seconds, address=address, credit=credit))

    def dynamic(
        self, count: int = 1, *, policy: str | None = None, takes: int | None = None, seconds: float = SECONDS
    ) -> Replies:
        """Attach to a dynamic source, send ``count`` messages to the address it got, and receive them.

        ``policy`` is the symbol of the lifetime policy that is asked for; ``takes``: how many messages are
        received, the others are left.
        """
        takes = count if takes is None else takes
        return Replies.from_json(self.ask("dynamic", seconds, count=count, policy=policy, takes=takes))

    def request(
        self, address: str, count: int = 1, message: Message = ONE, *, seconds: float = SECONDS
    ) -> Replies:
        """Send ``count`` requests with a dynamic source for the replies, and wait for as many."""
        replies = self.ask("request", seconds, address=address, count=count, message=message.to_json())
        return Replies.from_json(replies)

    def respond(self, address: str, count: int = 1, seconds: float = SECONDS) -> list[Received]:
        """Receive ``count`` requests and answer each with its body, by a sender to its ``reply_to``."""
        requests = self.ask("respond", seconds, address=address, count=count)
        return [Received.from_json(each) for each in requests]

    def links(self, address: str, count: int, seconds: float = SECONDS) -> Links:
        """Attach ``count`` senders at once, send one message over each, and close them all."""
        return Links.from_json(self.ask("links", seconds, address=address, count=count))

    def idle(self, for_seconds: float) -> Idle:
        """Do nothing, until the time is over or the connection is lost."""
        return Idle.from_json(self.ask("idle", for_seconds + SECONDS, for_seconds=for_seconds))

    def both(self, address: str, name: str, seconds: float = SECONDS) -> Received:
        """Attach a sender and a receiver of one name, and have a message go out and come back over them."""
        return Received.from_json(self.ask("both", seconds, address=address, name=name))

    def stream(self, address: str, size: int, piece: int, seconds: float = SECONDS) -> Outcome:
        """Send a message with one data section of ``size`` octets, ``piece`` octets at a time: those of
        :func:`tests.interop.payload.octets` for the number 0.
        """
        return Outcome.from_json(self.ask("stream", seconds, address=address, size=size, piece=piece))

    def read_stream(self, address: str, seconds: float = SECONDS) -> Streamed:
        """Receive a message as it comes in, a part after the other, through a narrow session window."""
        return Streamed.from_json(self.ask("read_stream", seconds, address=address))

    def connections(self, url: str, address: str, count: int, seconds: float = SECONDS) -> Links:
        """Open ``count`` connections besides this one, send a message over each, and close them all."""
        links = self.ask("connections", seconds, url=url, address=address, count=count)
        return Links.from_json(links)

    def cut(self) -> None:
        """Let go of the socket without a word."""
        self.ask("cut")

    def transaction(
        self,
        address: str,
        *,
        sends: int = 0,
        accepts: int = 0,
        commit: bool | None = True,
        seconds: float = SECONDS,
    ) -> Transaction:
        """Declare a transaction; send and accept so many messages in it; commit it or roll it back. With
        neither, None, it is left as it is, with its links.
        """
        result = self.ask(
            "transaction", seconds, address=address, sends=sends, accepts=accepts, commit=commit
        )
        return Transaction.from_json(result)


class ForeignServer(Handle):
    """A listening container made of somebody else's stack, with a queue in memory for each address."""

    def listen(
        self,
        *,
        scheme: str = "amqp",
        certificates: Certificates | None = None,
        asks_certificate: bool = False,
        users: Mapping[str, str] | None = None,
        idle_time_out: int | None = None,
        max_frame_size: int | None = None,
    ) -> str:
        """Listen on a free loopback port and return the URL.

        The scheme is ``amqp``, ``amqps`` (which takes ``certificates``) or ``amqp+ws``. ``users`` with their
        passwords bring PLAIN, and then ANONYMOUS is not offered; a server that ``asks_certificate`` offers
        EXTERNAL.
        """
        tls = None
        if certificates is not None:
            tls = certificates.for_server()
        listening = self.ask(
            "listen",
            scheme=scheme,
            tls=tls,
            asks_certificate=asks_certificate,
            users=users,
            idle_time_out=idle_time_out,
            max_frame_size=max_frame_size,
        )
        host = "localhost" if scheme == "amqps" else "127.0.0.1"
        return f"{scheme}://{host}:{listening['port']}"

    def clients(self) -> list[Opened]:
        """What each connection that is open now said in its open."""
        return [Opened(**each) for each in self.ask("clients")]

    def put(self, address: str, count: int = 1, message: Message = ONE) -> None:
        """Put messages into the queue at an address."""
        self.ask("put", address=address, count=count, message=message.to_json())

    def depth(self, address: str) -> int:
        """How many messages the queue holds, those aside that are on their way to a receiver."""
        return int(self.ask("depth", address=address))

    def take(self, address: str, count: int = 1, seconds: float = SECONDS) -> list[Received]:
        """Wait until the queue holds ``count`` messages and take them out."""
        messages = self.ask("take", seconds, address=address, count=count)
        return [Received.from_json(each) for each in messages]

    def answer(self, address: str, answer: Answer) -> None:
        """Answer what is sent to an address so from now on; only accepted messages go into the queue."""
        self.ask("answer", address=address, answer=answer.to_json())

    def refuse(self, address: str, condition: str, description: str) -> None:
        """Refuse links to and from an address with an error from now on."""
        self.ask("refuse", address=address, condition=condition, description=description)

    def echo(self, address: str) -> None:
        """Send each message that comes to an address back to where its ``reply_to`` says."""
        self.ask("echo", address=address)

    def told(self, address: str, count: int, seconds: float = SECONDS) -> list[Outcome]:
        """Wait until the receivers at an address have told ``count`` outcomes, and return all of them."""
        outcomes = self.ask("told", seconds, address=address, count=count)
        return [Outcome.from_json(each) for each in outcomes]

    def settle(self, address: str, seconds: float = SECONDS) -> None:
        """Wait until no delivery to or from an address is unsettled at this end."""
        self.ask("settle", seconds, address=address)

    def detach(self, address: str, condition: str, description: str, seconds: float = SECONDS) -> None:
        """Close the links to and from an address with an error, and wait until the clients closed theirs."""
        self.ask("detach", seconds, address=address, condition=condition, description=description)

    def end(self, address: str, condition: str, description: str, seconds: float = SECONDS) -> None:
        """End the sessions of the links to and from an address with an error; wait until they are gone."""
        self.ask("end", seconds, address=address, condition=condition, description=description)

    def disconnect(self, condition: str, description: str, seconds: float = SECONDS) -> None:
        """Close every connection with an error, and wait until all are gone."""
        self.ask("disconnect", seconds, condition=condition, description=description)
