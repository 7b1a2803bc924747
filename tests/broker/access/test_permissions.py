"""What patterns allow, and what is refused with which words."""

from __future__ import annotations

import pytest

from amqpforge.broker.access import EVERYTHING, Access, Operation, Permissions, written
from amqpforge.broker.errors import AccessRefused, Reason
from amqpforge.errors import LocalError

CONFIGURE, WRITE, READ = Operation.CONFIGURE, Operation.WRITE, Operation.READ


def access(**patterns: str) -> Access:
    return Access({("alice", "/"): Permissions.of(**patterns)})


@pytest.mark.parametrize("operation", list(Operation))
def test_each_operation_has_its_own_pattern(operation: Operation) -> None:
    decides = access(**{operation.value: "orders"})
    assert [one for one in Operation if decides.may("alice", "/", one, "orders")] == [operation]


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("orders", "orders", True),
        ("orders", "orders2", False),
        ("orders", "my orders", False),
        ("a|b", "a", True),
        ("a|b", "ab", False),
        ("^orders$", "orders", True),
        (r"orders\..*", "orders.new", True),
        (r"orders\..*", "orders", False),
        (".*", "", True),
        (".*", "two\nlines", True),
        ("", "", False),
        ("", "orders", False),
        (r"amq\.default", "", True),
        (".*", "ö" * 127, True),
        (".*", "x" * 255, True),
        (".*", "x" * 256, False),
        (".*", "ö" * 128, False),
        (".*", "\ud800" * 100, False),
        (".*", "\ud800", True),
    ],
)
def test_a_pattern_fits_the_whole_of_a_short_name(pattern: str, name: str, fits: bool) -> None:
    assert access(read=pattern).may("alice", "/", READ, name) is fits


def test_the_length_is_looked_at_before_the_pattern() -> None:
    """A pattern that tries 2^n ways on such a name would not come back."""
    with pytest.raises(AccessRefused, match=r"the name 'a{80}'\.\.\. has more than 255 octets in UTF-8"):
        access(read="(a+)+").check("alice", "/", READ, "a" * 10_000 + "b")


def test_permissions_are_of_a_user_in_a_virtual_host() -> None:
    decides = Access({("alice", "/"): EVERYTHING, ("bob", "test"): EVERYTHING})
    assert decides.may("alice", "/", READ, "q")
    assert not decides.may("alice", "test", READ, "q")
    assert not decides.may("bob", "/", READ, "q")
    assert [decides.may_enter(*pair) for pair in (("alice", "/"), ("alice", "test"))] == [True, False]
    decides.check_enter("alice", "/")
    with pytest.raises(AccessRefused, match="'bob' has no permissions in the virtual host '/'"):
        decides.check_enter("bob", "/")


def test_who_may_enter_may_not_do_anything_yet() -> None:
    assert access().may_enter("alice", "/")
    assert not any(access().may("alice", "/", operation, "q") for operation in Operation)


def test_a_refusal_says_who_what_and_where() -> None:
    with pytest.raises(AccessRefused) as caught:
        access(read="orders").check("alice", "/", WRITE, "orders")
    assert caught.value.reason is Reason.ACCESS_REFUSED
    assert str(caught.value) == (
        "the user 'alice' may not write 'orders' in the virtual host '/': the permission 'write' there "
        "does not cover the name"
    )
    access(read="orders").check("alice", "/", READ, "orders")
    with pytest.raises(AccessRefused, match="'bob' has no permissions in the virtual host '/'"):
        access(read="orders").check("bob", "/", READ, "orders")
    with pytest.raises(AccessRefused, match=r"may not read 'amq\.default'"):
        access(read="orders").check("alice", "/", READ, "")


def test_without_permissions_every_user_may_do_everything() -> None:
    everybody = Access()
    assert everybody.is_open
    assert everybody.may_enter("anonymous", "/")
    assert all(everybody.may("anonymous", "any", operation, "q") for operation in Operation)
    assert not everybody.may("anonymous", "/", READ, "q" * 256)
    assert everybody.grants() == {}
    with pytest.raises(LocalError, match="start it with permissions in its configuration"):
        everybody.grant("a", "/", EVERYTHING)
    with pytest.raises(LocalError, match="start it with permissions in its configuration"):
        everybody.revoke("a", "/")


def test_an_empty_table_lets_nobody_do_anything() -> None:
    assert not Access({}).is_open
    assert not Access({}).may_enter("alice", "/")


def test_permissions_can_be_granted_and_revoked() -> None:
    decides = Access({})
    decides.grant("alice", "/", Permissions.of(read="a"))
    decides.grant("alice", "/", Permissions.of(read="b"))
    assert [decides.may("alice", "/", READ, name) for name in "ab"] == [False, True]
    assert decides.grants() == {("alice", "/"): Permissions.of(read="b")}
    decides.revoke("alice", "/")
    assert not decides.may_enter("alice", "/")
    assert decides.revision == 3
    decides.revoke("alice", "/")
    assert decides.revision == 3


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "a{99999999999999999999}"])
def test_a_pattern_that_is_none(pattern: str) -> None:
    with pytest.raises(ValueError, match="the pattern of write is no regular expression"):
        Permissions.of(write=pattern)


def test_who_publishes_to_the_default_exchange_writes_to_the_queue() -> None:
    assert written("", "orders") == "orders"
    assert written("events", "orders") == "events"
    decides = access(write="orders|amq.default")
    assert decides.may("alice", "/", WRITE, written("", "orders"))
    assert not decides.may("alice", "/", WRITE, written("", "bills"))
