"""Counts that are held to their limits, and the brake on logins that fail."""

from __future__ import annotations

from dataclasses import fields

import pytest

from amqpforge.broker.errors import LimitExceeded, Reason
from amqpforge.broker.limits import BrokerLimits, LoginBrake, Quota, Usage
from amqpforge.errors import LocalError


@pytest.mark.parametrize("name", [field.name for field in fields(BrokerLimits)])
def test_every_limit_has_a_range(name: str) -> None:
    most = {"frame_size": 2**32 - 1, "credit_per_link": 2**32 - 1, "handshake_timeout": 86_400}.get(
        name, 2**53
    )
    for value in (0, -1, most + 1):
        with pytest.raises(LocalError, match=f"the limit {name} is .*, not {value}"):
            BrokerLimits(**{name: value})
    assert getattr(BrokerLimits(**{name: most}), name) == most


def test_a_message_can_be_too_large() -> None:
    limits = BrokerLimits(message_size=10)
    limits.check_message_size(10)
    with pytest.raises(LimitExceeded, match="has 11 octets, and the limit message_size is 10") as caught:
        limits.check_message_size(11)
    assert caught.value.reason is Reason.LIMIT_EXCEEDED


# ---- counts ----


def test_a_quota_is_taken_and_given_back() -> None:
    quota = Quota("queues", 3)
    quota.take(2)
    quota.take()
    with pytest.raises(LimitExceeded, match="the limit queues is 3, and 3 are in use"):
        quota.take()
    assert quota.used == 3
    quota.give_back(2)
    with pytest.raises(LimitExceeded, match="and 1 are in use"):
        quota.take(3)
    quota.take(2)
    assert repr(quota) == "<Quota queues: 3 of 3>"


def test_nothing_is_given_back_twice() -> None:
    quota = Quota("queues", 3)
    quota.take()
    with pytest.raises(ValueError, match="queues: 2 cannot be given back, 1 are in use"):
        quota.give_back(2)
    assert quota.used == 1


def test_connections_of_a_user() -> None:
    usage = Usage(BrokerLimits(connections_per_user=2))
    usage.take_user("alice")
    usage.take_user("alice")
    with pytest.raises(LimitExceeded, match="the limit connections_per_user is 2, and 2 are in use"):
        usage.take_user("alice")
    usage.take_user("bob")
    assert [usage.connections_of(user) for user in ("alice", "bob", "carol")] == [2, 1, 0]
    usage.give_back_user("alice")
    usage.take_user("alice")
    for user in ("alice", "alice", "bob"):
        usage.give_back_user(user)
    assert [usage.connections_of(user) for user in ("alice", "bob")] == [0, 0]


@pytest.mark.parametrize("name", ["connections", "queues", "exchanges", "bindings"])
def test_what_all_share_is_counted_once(name: str) -> None:
    quota = getattr(Usage(BrokerLimits(**{name: 5})), name)
    quota.take(5)
    with pytest.raises(LimitExceeded, match=f"the limit {name} is 5"):
        quota.take()


@pytest.mark.parametrize(
    ("memory", "message_size", "unfinished"), [(400, 10, 100), (400, 150, 150), (400, 1000, 800)]
)
def test_one_message_may_be_half_there_whatever_the_memory_is(
    memory: int, message_size: int, unfinished: int
) -> None:
    limits = BrokerLimits(memory=memory, message_size=message_size)
    assert limits.unfinished_per_connection == unfinished


# ---- the brake ----


def delays(brake: LoginBrake, count: int, address: str = "192.0.2.1", now: float = 0.0) -> list[float]:
    found: list[float] = []
    for _ in range(count):
        brake.failed(address, now)
        found.append(brake.delay(address, now))
    return found


def test_each_failure_from_the_third_on_delays_longer() -> None:
    brake = LoginBrake(failures=3, delay=0.5, longest=3.0)
    assert brake.delay("192.0.2.1", 0.0) == 0
    assert delays(brake, 8) == [0, 0, 0.5, 1, 2, 3, 3, 3]


def test_others_do_not_suffer() -> None:
    brake = LoginBrake()
    assert delays(brake, 100)[-1] == 5.0
    assert brake.delay("192.0.2.2", 0.0) == 0


def test_only_failures_within_the_window_count() -> None:
    brake = LoginBrake(failures=2, window=10.0, delay=1.0)
    brake.failed("a", 0.0)
    brake.failed("a", 9.0)
    assert brake.delay("a", 9.9) == 1.0
    assert brake.delay("a", 10.0) == 0
    brake.failed("a", 18.0)
    assert brake.delay("a", 18.9) == 1.0
    assert brake.delay("a", 28.0) == 0
    assert len(brake) == 0


def test_the_table_is_bounded() -> None:
    brake = LoginBrake(failures=1, addresses=3)
    for address in "abacd":
        brake.failed(address, 0.0)
    assert len(brake) == 3
    assert [address for address in "abcd" if brake.delay(address, 0.0)] == ["a", "c", "d"]


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("fe80::1%eth0", "fe80::1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("", "a socket of the file system", False),
    ],
)
def test_what_counts_as_one_address(first: str, second: str, is_one: bool) -> None:
    brake = LoginBrake(failures=1)
    brake.failed(first, 0.0)
    assert (brake.delay(second, 0.0) > 0) is is_one


@pytest.mark.parametrize(
    "numbers",
    [{"failures": 0}, {"addresses": 0}, {"delay": 0.0}, {"delay": 9.0, "longest": 1.0}, {"window": 0.0}],
)
def test_a_brake_that_cannot_be(numbers: dict[str, int]) -> None:
    with pytest.raises(LocalError, match="a login brake has"):
        LoginBrake(**numbers)
