"""How the test node answers attaches: nodes, dynamic ones, modes, filters, and links that come back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amqpforge.engine.container import Container
from amqpforge.engine.receiver import Receiver
from amqpforge.engine.sender import Sender
from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge.errors import LocalError
from amqpforge.message import Message
from amqpforge.testing import ScriptedNode
from amqpforge_protocol.amqp_1_0 import (
    Accepted,
    AmqpError,
    Attach,
    DeleteOnClose,
    DeleteOnNoMessages,
    Described,
    Detach,
    Handle,
    LinkError,
    LinkState,
    Modified,
    Rejected,
    Released,
    Role,
    Seconds,
    SequenceNo,
    Source,
    StdDistMode,
    Symbol,
    Target,
    TerminusExpiryPolicy,
)

from .peer import Peer, advance, asynchronous, bodies, message_of

NEVER = TerminusExpiryPolicy.NEVER
SUBJECT = Symbol("example:subject:string")
COLOUR = Symbol("example:colour:string")


def by_subject(message: Message, value: Any) -> bool:
    return bool(message.subject == value)


def by_colour(message: Message, value: Any) -> bool:
    return bool(message.annotations.get("x-opt-colour") == value)


FILTERS = {SUBJECT: by_subject, COLOUR: by_colour}


def filtered(**filters: Any) -> Source:
    """A source of the queue q with filters; the names do not matter."""
    return Source(address="q", filter={Symbol(name): value for name, value in filters.items()})


# ---- dynamic nodes ----


@asynchronous
@pytest.mark.spec("M-TERM-004", "M-TERM-005")
async def test_a_dynamic_source_has_an_address_with_both_names_in_it() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        receiver = await peer.receiver(name="replies", source=Source(dynamic=True), credit=1)
        source = receiver.source
        assert isinstance(source, Source)
        assert source.dynamic
        assert isinstance(source.address, str)
        assert "replies" in source.address
        assert "client" in source.address
        sender = await peer.sender(source.address)
        await peer.send(sender, "answer")
        assert bodies(await peer.receive(receiver)) == ["answer"]


@asynchronous
@pytest.mark.spec("M-TERM-016", "M-TERM-017", "M-TERM-018")
async def test_a_dynamic_target_has_an_address_with_both_names_in_it() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        sender = await peer.sender(name="uploads", target=Target(dynamic=True))
        source, target = sender.remote.source, sender.target  # type: ignore[union-attr]
        assert isinstance(target, Target)
        assert isinstance(source, Source)
        assert source.address is None
        assert isinstance(target.address, str)
        assert "uploads" in target.address
        assert "client" in target.address
        other = await peer.sender(target.address, name="other")
        await peer.send(other, "over another link")
        assert [message.body for message in node.messages(target.address)] == ["over another link"]


@asynchronous
@pytest.mark.spec("M-TERM-015", "M-TERM-003")
async def test_an_address_beside_dynamic_is_refused() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        for number, is_sender in enumerate((True, False)):
            attach = Attach(
                name="both",
                handle=Handle(number),
                role=Role.SENDER if is_sender else Role.RECEIVER,
                source=Source() if is_sender else Source(dynamic=True, address="mine"),
                target=Target(dynamic=True, address="mine") if is_sender else Target(),
                initial_delivery_count=SequenceNo(0) if is_sender else None,
            )
            sent = len(node.sent(Detach))
            peer.write(attach)
            await node.wait_for(lambda: len(node.sent(Detach)) > sent)  # noqa: B023
            error = node.sent(Detach)[-1].error
            assert error is not None
            assert error.condition == AmqpError.INVALID_FIELD
            assert "mine" not in node.queues


@asynchronous
@pytest.mark.spec("M-TERM-007")
async def test_the_properties_of_a_dynamic_node_are_told_as_they_are() -> None:
    wishes: dict[str, Any] = {Symbol("lifetime-policy"): DeleteOnNoMessages(), Symbol("colour"): "red"}
    async with ScriptedNode() as node, Peer(node) as peer:
        source = Source(dynamic=True, dynamic_node_properties=wishes)
        receiver = await peer.receiver(source=source)
        told = receiver.source.dynamic_node_properties or {}  # type: ignore[union-attr]
        assert told[Symbol("lifetime-policy")] == DeleteOnClose()
        assert list(told[Symbol("supported-dist-modes")]) == ["move", "copy"]
        assert Symbol("colour") not in told


@asynchronous
@pytest.mark.spec("M-LIFETIME-003")
async def test_a_dynamic_node_goes_with_the_link_that_made_it() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        receiver = await peer.receiver(source=Source(dynamic=True))
        address = receiver.source.address  # type: ignore[union-attr]
        other = await peer.sender(address)
        other.close()
        peer.pump()
        await node.wait_for(lambda: len(node.received(Detach)) == 1)
        assert address in node.queues
        receiver.close()
        peer.pump()
        await node.wait_for(lambda: address not in node.queues)


@asynchronous
async def test_properties_without_dynamic_are_refused() -> None:
    source = Source(address="q", dynamic_node_properties={Symbol("lifetime-policy"): DeleteOnClose()})
    async with ScriptedNode() as node, Peer(node) as peer:
        receiver = await peer.receiver(source=source)
        await peer.until(lambda: receiver.error)
        assert receiver.error is not None
        assert receiver.error.condition == AmqpError.INVALID_FIELD


# ---- addresses ----


@asynchronous
@pytest.mark.spec("M-TERM-002")
async def test_minimal_termini_are_taken() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        sender = await peer.sender(source=Source())
        receiver = await peer.receiver(target=Target(), credit=1)
        await peer.send(sender, "through")
        assert bodies(await peer.receive(receiver)) == ["through"]


@asynchronous
@pytest.mark.spec("T-LINK-015", "T-LINK-016")
async def test_an_unknown_address_is_refused_with_a_null_terminus_and_a_closing_detach() -> None:
    async with ScriptedNode(queues=["known"], makes_queues=False) as node, Peer(node) as peer:
        await peer.sender("known", name="good")
        sender = await peer.sender("unknown")
        await peer.until(lambda: sender.error)
        assert sender.error is not None
        assert sender.error.condition == AmqpError.NOT_FOUND
        answer, detach = [seen.performative for seen in node.frames if seen.is_sent][-2:]
        assert isinstance(answer, Attach)
        assert answer.target is None
        assert isinstance(detach, Detach)
        assert detach.closed
        receiver = await peer.receiver("unknown")
        await peer.until(lambda: receiver.error)
        assert node.sent(Attach)[-1].source is None


@asynchronous
async def test_without_an_address_each_message_names_its_queue() -> None:
    async with ScriptedNode(queues=["a", "b"], makes_queues=False) as node, Peer(node) as peer:
        assert Symbol("ANONYMOUS-RELAY") in (peer.engine.remote.offered_capabilities or ())  # type: ignore[union-attr]
        sender = await peer.sender(None)
        messages = [Message("to a", to="a"), Message("to b", to="b"), Message("to c", to="c"), Message("?")]
        first, second, *others = await peer.send(sender, *messages)
        assert (first, second) == (Accepted(), Accepted())
        for outcome in others:
            assert isinstance(outcome, Rejected)
            assert outcome.error is not None
            assert outcome.error.condition == AmqpError.NOT_FOUND
        assert [message.body for message in node.messages("a")] == ["to a"]
        assert [message.body for message in node.messages("b")] == ["to b"]


@asynchronous
async def test_request_and_reply() -> None:
    async with ScriptedNode() as node, Peer(node) as client, Peer(node, container=Container("s")) as server:
        requests = await server.receiver("service", credit=1)
        answers = await server.sender(None)
        replies = await client.receiver(source=Source(dynamic=True), credit=1, name="replies")
        asking = await client.sender("service")
        reply_to = replies.source.address  # type: ignore[union-attr]
        await client.send(asking, Message("2 + 2", reply_to=reply_to, message_id="m-1"))
        (request,) = await server.receive(requests)
        asked = message_of(request)
        answer = Message("4", to=asked.reply_to, correlation_id=asked.message_id)
        await server.send(answers, answer)
        (reply,) = await client.receive(replies)
        assert message_of(reply).correlation_id == "m-1"
        assert message_of(reply).body == "4"


# ---- distribution modes ----


@asynchronous
@pytest.mark.spec("M-TERM-008", "M-TERM-009")
async def test_the_distribution_mode_in_use_is_told() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        for asked, told in ((None, "move"), (StdDistMode.MOVE, "move"), (StdDistMode.COPY, "copy")):
            source = Source(address="q", distribution_mode=asked)
            receiver = await peer.receiver(name=f"in {asked}", source=source)
            assert receiver.source.distribution_mode == told  # type: ignore[union-attr]


@asynchronous
@pytest.mark.spec("M-NODE-013", "M-NODE-014", "M-NODE-016", "M-NODE-015")
async def test_copies_leave_the_queue_alone_and_are_not_repeated() -> None:
    copying = Source(address="q", distribution_mode=StdDistMode.COPY, expiry_policy=NEVER)
    outcomes: list[Any] = [Accepted(), Rejected(), Modified(undeliverable_here=True), Accepted()]
    async with ScriptedNode() as node, Peer(node) as peer:
        for number in range(4):
            node.put("q", number)
        receiver = await peer.receiver(source=copying, credit=10)
        for delivery, outcome in zip(await peer.receive(receiver, 4), outcomes, strict=True):
            delivery.settle(outcome)
        await peer.echo(receiver)
        assert [stored.is_acquired for stored in node.queue("q")] == [False] * 4
        assert not peer.inbox["in"]
        await peer.drop()
        again = await Peer(node, container=peer.container).open()
        again.session.attach(receiver)
        again.pump()
        await again.until(lambda: receiver.state is LinkState.ATTACHED)
        receiver.flow(10)
        await again.echo(receiver)
        node.put("q", "new")
        assert bodies(await again.receive(receiver)) == ["new"]
        mover = await again.receiver(name="mover", credit=1)
        (moved,) = await again.receive(mover)
        await again.settle(moved, Accepted())
        browser = await again.receiver(name="second", source=copying, credit=10)
        assert bodies(await again.receive(browser, 4)) == [1, 2, 3, "new"]
        await again.drop()


@asynchronous
@pytest.mark.spec("M-NODE-004", "M-NODE-012", "M-NODE-001")
async def test_a_copy_sees_what_another_link_holds_and_each_queue_counts_for_itself() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        for address in ("q", "other"):
            node.put(address, "m")
        receiver = await peer.receiver(credit=1)
        (held,) = await peer.receive(receiver)
        assert [stored.is_acquired for stored in node.queue("q")] == [True]
        copying = Source(address="q", distribution_mode=StdDistMode.COPY)
        browser = await peer.receiver(name="browser", source=copying, credit=1)
        assert bodies(await peer.receive(browser)) == ["m"]
        await peer.settle(held, Accepted())
        assert not node.queue("q").stored()
        assert [stored.outcome for stored in node.queue("q").retired] == [Accepted()]
        assert [stored.is_acquired for stored in node.queue("other")] == [False]


@asynchronous
async def test_a_released_copy_comes_again() -> None:
    copying = Source(address="q", distribution_mode=StdDistMode.COPY)
    async with ScriptedNode() as node, Peer(node) as peer:
        node.put("q", "m")
        receiver = await peer.receiver(source=copying, credit=3)
        for outcome in (Released(), Modified()):
            (delivery,) = await peer.receive(receiver)
            await peer.settle(delivery, outcome)
        assert bodies(await peer.receive(receiver)) == ["m"]
        assert len(node.queue("q")) == 1


@asynchronous
@pytest.mark.spec("M-NODE-003", "M-NODE-002", "M-NODE-010", "M-NODE-009")
async def test_a_message_is_acquired_by_one_link_at_a_time() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        first = await peer.receiver(name="first", credit=5)
        second = await peer.receiver(name="second", credit=5)
        states: list[bool] = []
        rule = node.script.before(object).do(
            lambda seen: states.append(node.queue("q").stored()[0].is_acquired)
        )
        node.put("q", "m")
        await peer.until(lambda: peer.inbox.get("first") or peer.inbox.get("second"))
        rule.cancel()
        assert states == [True]
        await peer.echo(first)
        await peer.echo(second)
        (taken,) = [*peer.inbox.pop("first", []), *peer.inbox.pop("second", [])]
        other = second if taken.link is first else first
        taken.link.flow(0)
        await peer.settle(taken, Released())
        (again,) = await peer.receive(other)
        await peer.settle(again, Accepted())
        assert node.queue("q").retired[0].message.body == "m"
        assert not peer.inbox.get("first")


# ---- outcomes and filters ----


@asynchronous
@pytest.mark.spec("T-LINK-020")
async def test_the_outcomes_are_told_as_they_are() -> None:
    everything = [one.SYMBOL for one in (Accepted, Rejected, Released, Modified)]
    cases: list[tuple[Source, list[str] | None]] = [
        (Source(address="q"), everything),
        (Source(address="q", outcomes=[Symbol("amqp:released:list")]), ["amqp:released:list"]),
        (Source(address="q", default_outcome=Released()), None),
        (Source(address="q", outcomes=["x:mine:list", "amqp:accepted:list"]), ["amqp:accepted:list"]),
    ]
    async with ScriptedNode() as node, Peer(node) as peer:
        for number, (asked, told) in enumerate(cases):
            receiver = await peer.receiver(name=str(number), source=asked)
            answer = receiver.source
            assert isinstance(answer, Source)
            assert (None if answer.outcomes is None else list(answer.outcomes)) == told
            assert answer.default_outcome == asked.default_outcome


@asynchronous
@pytest.mark.spec("T-LINK-001", "M-FILTER-001", "M-ANNOT-007")
async def test_only_messages_that_pass_the_filter_go_out() -> None:
    async with ScriptedNode(filters=FILTERS) as node, Peer(node) as peer:
        for subject, colour in (("a", "red"), ("b", "red"), ("a", "blue"), ("b", "blue")):
            node.put("q", Message(subject + colour, subject=subject, annotations={"x-opt-colour": colour}))
        receiver = await peer.receiver(source=filtered(f=Described(SUBJECT, "a")), credit=10)
        assert bodies(await peer.receive(receiver, 2)) == ["ared", "ablue"]
        await peer.echo(receiver)
        assert not peer.inbox["in"]
        other = await peer.receiver(name="other", source=filtered(f=Described(COLOUR, "red")), credit=10)
        assert bodies(await peer.receive(other)) == ["bred"]
        assert [stored.is_acquired for stored in node.queue("q")] == [True, True, True, False]


@asynchronous
@pytest.mark.spec("M-FILTER-003", "M-FILTER-008", "M-FILTER-006", "M-FILTER-007")
async def test_the_filters_in_place_are_told_and_all_have_to_agree() -> None:
    async with ScriptedNode(filters=FILTERS) as node, Peer(node) as peer:
        for subject, colour in (("a", "red"), ("b", "red"), ("a", "blue"), ("b", "blue")):
            node.put("q", Message(subject + colour, subject=subject, annotations={"x-opt-colour": colour}))
        asked = filtered(
            one=Described(SUBJECT, "a"),
            two=Described(COLOUR, "blue"),
            three=Described(Symbol("example:unknown"), 1),
            four=None,
        )
        receiver = await peer.receiver(source=asked, credit=10)
        source = receiver.source
        assert isinstance(source, Source)
        assert source.filter == {"one": Described(SUBJECT, "a"), "two": Described(COLOUR, "blue")}
        assert set(source.capabilities or ()) == set(FILTERS)
        assert bodies(await peer.receive(receiver)) == ["ablue"]
        await peer.echo(receiver)
        assert not peer.inbox["in"]
        everything = await peer.receiver(name="all", source=filtered(), credit=10)
        assert bodies(await peer.receive(everything, 3)) == ["ared", "bred", "bblue"]


@asynchronous
@pytest.mark.spec("M-FILTER-002")
async def test_a_filter_sees_the_annotations_as_they_are_at_the_node() -> None:
    async with ScriptedNode(filters=FILTERS) as node, Peer(node) as peer:
        node.put("q", Message("m", annotations={"x-opt-colour": "red"}))
        blue = await peer.receiver(name="blue", source=filtered(f=Described(COLOUR, "blue")), credit=5)
        await peer.echo(blue)
        await peer.echo(blue)
        assert not peer.inbox.get("blue")
        red = await peer.receiver(name="red", source=filtered(f=Described(COLOUR, "red")), credit=5)
        (delivery,) = await peer.receive(red)
        repaint = Modified(message_annotations={Symbol("x-opt-colour"): "blue"})
        await peer.settle(delivery, repaint)
        assert bodies(await peer.receive(blue)) == ["m"]
        assert not peer.inbox["red"]


# ---- what goes over a node ----


@asynchronous
@pytest.mark.spec("M-ANNOT-001", "M-ANNOT-006", "M-PROPS-002", "M-PROPS-006")
async def test_a_node_forwards_all_but_the_delivery_annotations() -> None:
    message = Message(
        "m",
        to="somewhere else",
        message_id="m-1",
        creation_time=None,
        annotations={"x-opt-unknown": [1, 2]},
        delivery_annotations={"x-opt-hop": 1},
        application_properties={"a": 1},
    )
    async with ScriptedNode() as node, Peer(node) as peer:
        sender, receiver = await peer.sender(), await peer.receiver(credit=1)
        await peer.send(sender, message)
        (delivery,) = await peer.receive(receiver)
        came = message_of(delivery)
        assert not came.delivery_annotations
        assert dict(came.annotations) == {"x-opt-unknown": [1, 2]}
        assert came.sections.bare == Message.from_octets(message.encode()).sections.bare


# ---- resuming and recovering ----


@asynchronous
@pytest.mark.spec("T-LINK-024", "T-LINK-026")
async def test_a_link_is_recovered_by_its_name_alone() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        sender = await peer.sender(target=Target(address="orders", expiry_policy=NEVER))
        sender.detach()
        peer.pump()
        await peer.until(lambda: sender.state is LinkState.DETACHED)
        await peer.drop()
        again = await Peer(node, container=peer.container).open()
        answers = len(node.sent(Attach))
        again.write(
            Attach(
                name="out",
                handle=Handle(0),
                role=Role.SENDER,
                source=Source(),
                initial_delivery_count=SequenceNo(0),
            )
        )
        await node.wait_for(lambda: len(node.sent(Attach)) > answers)
        target = node.sent(Attach)[-1].target
        assert isinstance(target, Target)
        assert target.address == "orders"
        await again.drop()


@asynchronous
@pytest.mark.spec("T-LINK-025")
async def test_a_link_that_is_not_known_cannot_be_recovered() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        peer.write(Attach(name="lost", handle=Handle(0), role=Role.RECEIVER, target=Target()))
        await node.wait_for(lambda: node.sent(Detach))
        assert node.sent(Attach)[0].source is None
        assert node.sent(Detach)[0].closed


@asynchronous
@pytest.mark.spec("T-LINK-005", "T-LINK-006")
async def test_a_link_is_stolen_by_a_second_connection_with_what_is_unsettled() -> None:
    async with ScriptedNode() as node, Peer(node) as first:
        for number in range(3):
            node.put("q", number)
        receiver = await first.receiver(credit=2)
        held = await first.receive(receiver, 2)
        second = await Peer(node).open()
        unsettled: dict[bytes, Any] = {delivery.tag: None for delivery in held}
        second.write(
            Attach(
                name="in",
                handle=Handle(0),
                role=Role.RECEIVER,
                source=Source(address="q"),
                target=Target(),
                unsettled=unsettled,
            )
        )
        await first.until(lambda: receiver.error)
        assert receiver.error is not None
        assert receiver.error.condition == LinkError.STOLEN
        await node.wait_for(lambda: len(node.sent(Attach)) == 2)
        assert set(node.sent(Attach)[-1].unsettled or ()) == set(unsettled)
        assert [stored.is_acquired for stored in node.queue("q")] == [True, True, False]
        await second.drop()
        await node.wait_for(lambda: not any(stored.is_acquired for stored in node.queue("q")))


@asynchronous
@pytest.mark.spec("M-EXPIRY-006", "M-EXPIRY-007", "M-EXPIRY-008", "M-EXPIRY-009")
async def test_a_terminus_goes_when_its_expiry_policy_says() -> None:
    policies = ["link-detach", "session-end", "connection-close", "never"]
    async with ScriptedNode() as node, Peer(node) as peer:
        for policy in policies:
            node.put(policy, "m")
            source = Source(address=policy, expiry_policy=TerminusExpiryPolicy(Symbol(policy)))
            receiver = await peer.receiver(name=policy, source=source, credit=1)
            await peer.receive(receiver)

        def held() -> list[str]:
            return [policy for policy in policies if node.queue(policy).stored()[0].is_acquired]

        assert held() == policies
        for link in list(peer.session.links.values()):
            link.detach()
        peer.pump()
        await node.wait_for(lambda: len(node.sent(Detach)) == 4)
        assert held() == policies[1:]
        peer.session.end()
        peer.pump()
        await node.wait_for(lambda: held() == policies[2:])
        await peer.close()
        await node.wait_for(lambda: held() == policies[3:])
        advance(1e6)
        await asyncio.sleep(0)
        assert held() == policies[3:]


@asynchronous
@pytest.mark.spec("M-EXPIRY-002")
async def test_the_policies_count_for_targets_too() -> None:
    policies = ["link-detach", "session-end", "connection-close", "never"]
    async with ScriptedNode() as node, Peer(node) as peer:
        for policy in policies:
            target = Target(address="q", expiry_policy=TerminusExpiryPolicy(Symbol(policy)))
            await peer.sender(name=policy, target=target)

        def kept() -> list[str]:
            return [name for _, name, _ in node.container.links]

        assert kept() == policies
        for link in list(peer.session.links.values()):
            link.detach()
        peer.pump()
        await node.wait_for(lambda: kept() == policies[1:])
        peer.session.end()
        peer.pump()
        await node.wait_for(lambda: kept() == policies[2:])
        await peer.close()
        await node.wait_for(lambda: kept() == policies[3:])


@asynchronous
@pytest.mark.spec("M-EXPIRY-001", "M-NODE-006")
async def test_by_default_a_terminus_goes_with_its_session() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        node.put("q", "m")
        await peer.receive(await peer.receiver(credit=1))
        assert len(node.container.links) == 1
        peer.session.end()
        peer.pump()
        await node.wait_for(lambda: not node.container.links)
        assert not node.queue("q").stored()[0].is_acquired


@asynchronous
@pytest.mark.spec("M-EXPIRY-003", "M-EXPIRY-004", "M-EXPIRY-005")
async def test_an_expiring_terminus_is_kept_for_its_timeout_and_attaching_stops_the_clock() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        node.put("q", "m")
        policy = TerminusExpiryPolicy.LINK_DETACH
        receiver = await peer.receiver(
            source=Source(address="q", expiry_policy=policy, timeout=Seconds(5)), credit=1
        )
        await peer.receive(receiver)
        for seconds in (3, 4):  # more than five together
            receiver.detach()
            peer.pump()
            await peer.until(lambda: receiver.state is LinkState.DETACHED)
            advance(seconds)
            await asyncio.sleep(0)
            await peer.attach(receiver)
        advance(6)
        await peer.echo(receiver)
        assert node.queue("q").stored()[0].is_acquired
        receiver.detach()
        peer.pump()
        await peer.until(lambda: receiver.state is LinkState.DETACHED)
        advance(4)
        await asyncio.sleep(0)
        assert node.queue("q").stored()[0].is_acquired
        advance(2)
        await node.wait_for(lambda: not node.queue("q").stored()[0].is_acquired)
        assert not node.container.links


@asynchronous
async def test_the_same_name_may_go_both_ways() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        sender, receiver = await peer.sender(name="n"), await peer.receiver(name="n", credit=1)
        await peer.send(sender, "m")
        assert bodies(await peer.receive(receiver)) == ["m"]
        assert len(node.connections[0].links) == 2


@asynchronous
async def test_a_drain_takes_what_is_there_first() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        for number in range(3):
            node.put("q", number)
        receiver = await peer.receiver()
        receiver.flow(10, drain=True)
        peer.pump()
        await peer.until(lambda: receiver.link_credit == 0)
        assert bodies(await peer.receive(receiver, 3)) == [0, 1, 2]


@asynchronous
async def test_messages_are_shared_out_among_links() -> None:
    async with ScriptedNode() as node, Peer(node) as peer:
        receivers = [await peer.receiver(name=str(number), credit=10) for number in range(3)]
        await peer.echo(receivers[-1])
        for number in range(9):
            node.put("q", number)
        for receiver in receivers:
            assert len(await peer.receive(receiver, 3)) == 3


@asynchronous
async def test_an_attach_that_the_clients_limits_leave_no_answer_to_ends_its_session() -> None:
    small = ConnectionSettings(max_frame_size=512, session=SessionSettings(handle_max=0))
    async with ScriptedNode() as node:
        peer = await Peer(node, settings=small).open()
        await peer.sender()
        peer.session.attach(Sender("second", source=Source(), target=Target(address="q")))
        peer.pump()
        await peer.until(lambda: peer.session.error)
        assert peer.session.error is not None
        assert peer.session.error.condition == AmqpError.RESOURCE_LIMIT_EXCEEDED
        await peer.drop()
        peer = await Peer(node, settings=small).open()
        source = Source(address="q" * 420)  # What the node adds makes the answer too long.
        peer.session.attach(Receiver("long", source=source, target=Target()))
        peer.pump()
        await peer.until(lambda: peer.session.error)
        assert not node.container.links
        await peer.drop()
    async with ScriptedNode(makes_queues=False) as node:
        peer = await Peer(node, settings=small).open()
        sender = await peer.sender("q" * 300)
        await peer.until(lambda: sender.error)
        assert sender.error is not None
        assert sender.error.condition == AmqpError.NOT_FOUND
        await peer.drop()


def test_arguments_that_contradict_each_other() -> None:
    with pytest.raises(LocalError, match="tls needs ssl"):
        ScriptedNode(tls="offered")
