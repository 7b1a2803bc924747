"""Encoded rows on their way to a broker: accepted, refused, resent, in a transaction or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from amqpforge.message import Message
from amqpforge.spark.sink import sending
from amqpforge.spark.sink.errors import WriteFailed
from amqpforge.spark.sink.options import SinkOptions
from amqpforge.spark.sink.sending import Row
from amqpforge.spark.sink.task import write_partition
from amqpforge.testing import ScriptedBroker, ThreadedBroker
from amqpforge_protocol.amqp_1_0 import (
    AmqpError,
    Attach,
    Coordinator,
    Disposition,
    Error,
    Modified,
    Rejected,
    Role,
    Symbol,
    Transfer,
)

NOBODY = "amqp://127.0.0.1:1"


def rows(count: int, *addresses: str, id: str | None = None) -> list[Row]:
    """Rows with their numbers as bodies, for the addresses in turn."""
    return [
        Row(
            number,
            (addresses or ("q",))[number % max(len(addresses), 1)],
            Message(number, message_id=None if id is None else f"{id}{number}").encode(),
        )
        for number in range(count)
    ]


def write(broker: ThreadedBroker, sent: Iterable[Row], **options: Any) -> tuple[int, int, int]:
    given = {"url": broker.url, "timeout": "10", "startTimeout": "10"} | {
        name: str(value) for name, value in options.items()
    }
    return write_partition(SinkOptions.for_batch(given), 3, sent)


def bodies(broker: ThreadedBroker, queue: str = "q") -> list[Any]:
    return [message.body for message in broker.messages(queue)]


def test_rows_arrive_in_order_and_are_counted(broker: ThreadedBroker) -> None:
    sent = rows(250)
    assert write(broker, sent, window=7) == (250, sum(len(row.octets) for row in sent), 0)
    assert bodies(broker) == list(range(250))


def test_an_empty_partition_needs_no_peer() -> None:
    assert write_partition(SinkOptions.for_batch({"url": NOBODY}), 0, iter(())) == (0, 0, 0)


def test_each_row_goes_to_its_address(broker: ThreadedBroker) -> None:
    assert write(broker, rows(9, "q", "dead"))[0] == 9
    assert bodies(broker) == [0, 2, 4, 6, 8]
    assert bodies(broker, "dead") == [1, 3, 5, 7]


def test_more_addresses_than_links_are_written_over_few_links(broker: ThreadedBroker) -> None:
    names = [f"q{number}" for number in range(120)]
    for name in names:
        broker.declare_queue(name)
    assert write(broker, rows(240, *names))[0] == 240
    assert [len(broker.queue(name)) for name in names] == [2] * 120


def test_no_more_than_the_window_is_under_way(broker: ThreadedBroker) -> None:
    taken = 0
    gate = broker.script.before(Disposition, role=Role.RECEIVER).hold()

    def counted() -> Iterator[Row]:
        nonlocal taken
        for row in rows(30):
            taken += 1
            yield row

    with pytest.raises(WriteFailed, match=r"partition 3, row 0: no outcome for it and the next 4 rows"):
        write(broker, counted(), window=5, timeout=0.3, startTimeout=0.1)
    assert taken == 5
    gate.open()


def test_large_messages_are_not_all_held_at_once(
    broker: ThreadedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "_MOST_OCTETS", 1000)
    gate = broker.script.before(Disposition, role=Role.RECEIVER).hold()
    taken = 0

    def sent() -> Iterator[Row]:
        nonlocal taken
        for number, size in enumerate([300] * 5 + [5000] + [300] * 5):
            taken += 1
            yield Row(number, "q", Message(b"x" * size).encode())

    with pytest.raises(WriteFailed, match="row 0: no outcome for it and the next 2 rows"):
        write(broker, sent(), timeout=0.3, startTimeout=0.1)
    assert taken == 4
    gate.open()
    broker.script.clear()
    assert write(broker, sent())[0] == 11
    assert [len(body) for body in bodies(broker)][-11:] == [300] * 5 + [5000] + [300] * 5


# --- what is not accepted ---


def test_a_rejected_row_is_named_with_the_condition_of_the_peer(broker: ThreadedBroker) -> None:
    broker.script.on(Transfer, skip=4, times=1).refuse(AmqpError.RESOURCE_LIMIT_EXCEEDED, "too much of it")
    with pytest.raises(WriteFailed) as caught:
        write(broker, rows(10))
    assert (caught.value.partition, caught.value.row) == (3, 4)
    assert "rejected (amqp:resource-limit-exceeded: too much of it) by 'q'" in str(caught.value)


def test_a_released_row_fails(broker: ThreadedBroker) -> None:
    broker.declare_exchange("e", "direct")
    with pytest.raises(WriteFailed, match="partition 3, row 0: it was released by '/exchanges/e/nobody'"):
        write(broker, rows(1, "/exchanges/e/nobody"))


def test_a_modified_row_fails(broker: ThreadedBroker) -> None:
    def modify(seen: Any) -> Disposition:
        told = seen.performative
        told.state = Modified(delivery_failed=True, undeliverable_here=True)
        return told  # type: ignore[no-any-return]

    broker.script.before(Disposition, role=Role.RECEIVER, times=1).replace(modify)
    with pytest.raises(
        WriteFailed, match="row 0: it was modified, delivery failed, undeliverable here by 'q'"
    ):
        write(broker, rows(1))


def test_refused_rows_go_to_the_dead_letter_address_and_say_why(broker: ThreadedBroker) -> None:
    broker.script.on(Transfer, skip=4, times=2).refuse(AmqpError.NOT_ALLOWED, "not these")
    written, _, dead_lettered = write(broker, rows(10, id="m"), deadLetterAddress="dead")
    assert (written, dead_lettered) == (8, 2)
    assert bodies(broker) == [0, 1, 2, 3, 6, 7, 8, 9]
    letters = broker.messages("dead")
    assert [letter.body for letter in letters] == [4, 5]
    assert letters[0].message_id == "m4"
    assert dict(letters[0].annotations) == {
        "x-opt-spark-address": "q",
        "x-opt-spark-outcome": "rejected (amqp:not-allowed: not these)",
        "x-opt-spark-condition": "amqp:not-allowed",
    }


def test_a_row_that_nobody_takes_fails(broker: ThreadedBroker) -> None:
    broker.script.on(Transfer).refuse(AmqpError.NOT_ALLOWED)
    with pytest.raises(WriteFailed, match=r"row 0: it was rejected .* by 'q', and rejected .* 'dead'"):
        write(broker, rows(3), deadLetterAddress="dead")


def test_a_dead_letter_address_that_is_not_there_is_found_before_anything_is_sent(
    broker: ThreadedBroker,
) -> None:
    broker.script.on(
        Attach, when=lambda seen: getattr(seen.performative.target, "address", None) == "gone"
    ).refuse("amqp:not-found")
    with pytest.raises(WriteFailed, match=r"partition 3: there is no link to 'gone': .*amqp:not-found"):
        write(broker, rows(3), deadLetterAddress="gone")
    assert bodies(broker) == []


def test_an_address_that_is_refused_names_the_row(broker: ThreadedBroker) -> None:
    broker.script.on(Attach, skip=1).refuse("amqp:unauthorized-access")
    with pytest.raises(WriteFailed, match=r"row 1: there is no link to 'dead': .*amqp:unauthorized-access"):
        write(broker, rows(2, "q", "dead"))


def test_a_row_that_is_larger_than_the_peer_takes_is_not_sent(broker: ThreadedBroker) -> None:
    def narrow(seen: Any) -> Attach:
        seen.performative.max_message_size = 100
        return seen.performative  # type: ignore[no-any-return]

    broker.script.before(Attach).replace(narrow)
    large = Row(1, "q", Message(b"x" * 200).encode())
    with pytest.raises(
        WriteFailed, match=r"row 1: its message has 20\d octets, more than the 100 that 'q' takes"
    ):
        write(broker, [*rows(1), large])


# --- connections ---


def test_a_lost_connection_comes_back_and_what_was_unsettled_goes_again_with_its_id(
    broker: ThreadedBroker,
) -> None:
    broker.script.before(Disposition, role=Role.RECEIVER, skip=2, times=1).cut()
    assert write(broker, rows(300, "once", id="m"), window=40)[0] == 300
    assert broker.accepted == 2
    assert bodies(broker, "once") == list(range(300))
    assert broker.queue("once").counters.duplicates > 0


def test_without_duplicate_detection_the_same_gives_duplicates(broker: ThreadedBroker) -> None:
    broker.script.before(Disposition, role=Role.RECEIVER, skip=2, times=1).cut()
    assert write(broker, rows(300, id="m"), window=40)[0] == 300
    assert len(bodies(broker)) > 300
    assert set(bodies(broker)) == set(range(300))


def test_a_broker_that_restarts_is_waited_for(broker: ThreadedBroker) -> None:
    def sent() -> Iterator[Row]:
        for row in rows(100, id="m"):
            if row.number == 50:
                broker.restart()
                broker.declare_queue("q")
            yield row

    assert write(broker, sent(), window=10)[0] == 100
    assert bodies(broker)[-1] == 99


def test_a_peer_that_stays_away_is_given_up() -> None:
    options = SinkOptions.for_batch({"url": NOBODY, "startTimeout": "0.3"})
    with pytest.raises(WriteFailed, match=r"partition 0: there is no connection: .*127.0.0.1:1"):
        write_partition(options, 0, rows(1))


def test_a_wrong_password_is_not_tried_again() -> None:
    with ScriptedBroker.threaded(passwords={"me": "right"}) as broker:
        with pytest.raises(WriteFailed, match="there is no connection") as caught:
            write(broker, rows(1), user="me", password="wrong", allowInsecurePlain="true")
        assert broker.accepted == 1
        assert "wrong" not in str(caught.value)


# --- transactions ---


def test_a_partition_is_one_transaction(broker: ThreadedBroker) -> None:
    seen: list[int] = []

    def sent() -> Iterator[Row]:
        for row in rows(100):
            seen.append(len(broker.queue("q")))
            yield row

    assert write(broker, sent(), transactional="true", window=10)[0] == 100
    assert set(seen) == {0}
    assert bodies(broker) == list(range(100))


def test_nothing_of_a_transaction_stays_if_a_row_is_rejected(broker: ThreadedBroker) -> None:
    broker.declare_queue("small", max_length=50)
    with pytest.raises(WriteFailed):
        write(broker, rows(100, "small"), transactional="true")
    assert bodies(broker, "small") == []


def test_nothing_of_a_transaction_stays_if_the_rows_end_with_an_error(broker: ThreadedBroker) -> None:
    def sent() -> Iterator[Row]:
        yield from rows(30)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write(broker, sent(), transactional="true", window=10)
    assert bodies(broker) == []


def test_a_transaction_that_is_lost_with_its_connection_is_not_carried_on(broker: ThreadedBroker) -> None:
    broker.script.before(Disposition, role=Role.RECEIVER, skip=2, times=1).cut()
    with pytest.raises(WriteFailed):
        write(broker, rows(100), transactional="true", window=10)
    assert broker.accepted == 1
    assert bodies(broker) == []


def test_a_peer_without_transactions_is_named(broker: ThreadedBroker) -> None:
    is_coordinator = lambda seen: isinstance(seen.performative.target, Coordinator)  # noqa: E731
    broker.script.on(Attach, when=is_coordinator).refuse("amqp:not-implemented", "no transactions here")
    with pytest.raises(
        WriteFailed, match=r"transactional=true needs a peer that has transactions.*no transactions here"
    ):
        write(broker, rows(1), transactional="true")
    assert bodies(broker) == []


def test_dead_letters_belong_to_the_transaction(broker: ThreadedBroker) -> None:
    broker.script.on(Transfer, skip=5, times=1).refuse(AmqpError.NOT_ALLOWED)
    seen: list[int] = []

    def sent() -> Iterator[Row]:
        for row in rows(50):
            seen.append(len(broker.queue("dead")))
            yield row

    assert write(broker, sent(), transactional="true", deadLetterAddress="dead", window=5)[::2] == (49, 1)
    assert set(seen) == {0}
    assert bodies(broker, "dead") == [4]  # The first transfer was the declare.
    assert sorted([*bodies(broker), 4]) == list(range(50))


def test_a_commit_that_is_refused_is_an_error(broker: ThreadedBroker) -> None:
    def refuse(seen: Any) -> Disposition:
        told = seen.performative
        told.state = Rejected(error=Error(condition=Symbol("amqp:transaction:rollback"), description="no"))
        return told  # type: ignore[no-any-return]

    # The first disposition answers the declare, the second one the row, the third one the discharge.
    broker.script.before(Disposition, role=Role.RECEIVER, skip=2, times=1).replace(refuse)
    with pytest.raises(WriteFailed, match=r"partition 3: its transaction is not committed: .*rollback"):
        write(broker, rows(1), transactional="true")
