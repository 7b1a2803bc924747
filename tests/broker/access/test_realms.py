"""Access by realm: tickets that are asked for, shown, and good for as long as nothing changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amqpforge.broker.access import (
    EVERYTHING,
    Access,
    Operation,
    Permissions,
    Realm,
    Realms,
    Tickets,
    written,
)
from amqpforge.broker.errors import AccessRefused

CONFIGURE, WRITE, READ = Operation.CONFIGURE, Operation.WRITE, Operation.READ


def make_realms(access: Access | None = None) -> Realms:
    realms = Realms(access or Access())
    realms.put("/", Realm.of("a", r"a\..*", {"alice": list(Operation), "bob": [READ]}))
    realms.put("/", Realm.of("b", r"b\..*", {"bob": [READ, WRITE]}))
    return realms


def make_tickets(realms: Realms | None = None, user: str = "alice") -> Tickets:
    return Tickets(realms or make_realms(), user, "/")


@pytest.mark.spec("A-ACCESS-001", "A-ACCESS-005")
def test_access_is_granted_by_realm() -> None:
    tickets = make_tickets()
    ticket = tickets.request("a", [READ, WRITE])
    tickets.check(ticket, READ, "a.queue")
    tickets.check(ticket, WRITE, "a.other")
    with pytest.raises(AccessRefused, match=rf"'b\.queue' is not in the realm 'a' of ticket {ticket}"):
        tickets.check(ticket, READ, "b.queue")
    with pytest.raises(AccessRefused, match="'alice' may not read in the realm 'b'"):
        tickets.request("b", [READ])


@pytest.mark.spec("A-ACCESS-002")
def test_the_ticket_is_what_counts() -> None:
    tickets = make_tickets()
    ticket = tickets.request("a", [CONFIGURE, READ])
    tickets.check(ticket, CONFIGURE, "a.queue")
    tickets.check(ticket, READ, "a.queue")
    for invented in (0, ticket + 1, -1, 65_536):
        with pytest.raises(
            AccessRefused, match=f"{invented} is no access ticket of this channel: request one"
        ):
            tickets.check(invented, READ, "a.queue")
    with pytest.raises(AccessRefused, match=f"ticket {ticket} was not requested to write"):
        tickets.check(ticket, WRITE, "a.queue")


@pytest.mark.spec("A-ACCESS-003")
def test_a_ticket_ends_with_its_channel() -> None:
    realms = make_realms()
    first = make_tickets(realms)
    old = first.request("a", [READ])
    first.close()
    second = make_tickets(realms)
    new = second.request("a", [READ])
    second.check(new, READ, "a.queue")
    for tickets in (first, second):
        with pytest.raises(AccessRefused, match=f"{old} is no access ticket of this channel"):
            tickets.check(old, READ, "a.queue")


@pytest.mark.spec("A-ACCESS-004")
def test_a_ticket_ends_when_the_rules_change() -> None:
    realms = make_realms()
    tickets = make_tickets(realms)
    ticket = tickets.request("a", [READ])
    tickets.check(ticket, READ, "a.queue")
    realms.put("/", Realm.of("a", r"a\..*", {}))
    with pytest.raises(
        AccessRefused, match=f"rules have changed since ticket {ticket} was granted: request another"
    ):
        tickets.check(ticket, READ, "a.queue")
    with pytest.raises(AccessRefused, match=f"{ticket} is no access ticket"):
        tickets.check(ticket, READ, "a.queue")
    with pytest.raises(AccessRefused, match="may not read in the realm 'a'"):
        tickets.request("a", [READ])


def test_every_change_of_the_rules_counts() -> None:
    access = Access({("alice", "/"): EVERYTHING})
    realms = make_realms(access)
    tickets = make_tickets(realms)
    changes: list[Callable[[], None]] = [
        lambda: realms.remove("/", "b"),
        lambda: access.grant("carol", "/", EVERYTHING),
        lambda: access.revoke("carol", "/"),
        lambda: realms.put("other", Realm.of("a", "", {})),
    ]
    for change in changes:
        ticket = tickets.request("a", [READ])
        tickets.check(ticket, READ, "a.queue")
        change()
        with pytest.raises(AccessRefused, match="rules have changed"):
            tickets.check(ticket, READ, "a.queue")
    ticket = tickets.request("a", [READ])
    realms.remove("/", "b")
    tickets.check(ticket, READ, "a.queue")


def test_a_realm_that_does_not_exist_is_refused_in_the_same_words() -> None:
    words: list[str] = []
    for realm in ("b", "z"):
        with pytest.raises(AccessRefused) as caught:
            make_tickets().request(realm, [READ, WRITE])
        words.append(str(caught.value).replace(f"'{realm}'", "REALM"))
    assert words[0] == words[1] == "the user 'alice' may not read, write in the realm REALM"


def test_all_rights_or_no_ticket() -> None:
    tickets = make_tickets(user="bob")
    tickets.check(tickets.request("a", [READ]), READ, "a.queue")
    with pytest.raises(AccessRefused, match="may not read, write in the realm 'a'"):
        tickets.request("a", [READ, WRITE])
    with pytest.raises(AccessRefused, match="'carol' may not enter in the realm 'a'"):
        make_tickets(user="carol").request("a", [])


def test_a_second_ticket_for_a_realm_takes_the_place_of_the_first() -> None:
    tickets = make_tickets(user="bob")
    first, other = tickets.request("a", [READ]), tickets.request("b", [READ])
    second = tickets.request("a", [READ])
    tickets.check(second, READ, "a.queue")
    tickets.check(other, READ, "b.queue")
    with pytest.raises(AccessRefused, match=f"{first} is no access ticket"):
        tickets.check(first, READ, "a.queue")


def test_however_often_it_is_asked_for_a_ticket_travels_as_a_short() -> None:
    realms = make_realms()
    tickets = make_tickets(realms, "bob")
    kept = tickets.request("b", [READ])
    numbers = [tickets.request("a", [READ]) for _ in range(65_535)]
    assert min(numbers) >= 1
    assert max(numbers) == 65_535
    assert kept not in numbers
    tickets.check(kept, READ, "b.queue")
    tickets.check(numbers[-1], READ, "a.queue")


def test_a_ticket_gives_nothing_that_permissions_refuse() -> None:
    access = Access({("alice", "/"): Permissions.of(read=r"a\.open")})
    tickets = make_tickets(make_realms(access))
    ticket = tickets.request("a", [READ])
    tickets.check(ticket, READ, "a.open")
    with pytest.raises(AccessRefused, match=r"'alice' may not read 'a\.secret'"):
        tickets.check(ticket, READ, "a.secret")


@pytest.mark.spec("A-ACCESS-006")
def test_the_default_exchange_is_no_way_round_the_rights_to_a_queue() -> None:
    tickets = make_tickets(user="bob")
    readable, writable = tickets.request("a", [READ]), tickets.request("b", [READ, WRITE])
    tickets.check(writable, WRITE, written("", "b.queue"))
    with pytest.raises(AccessRefused, match="was not requested to write"):
        tickets.check(readable, WRITE, written("", "a.queue"))
    with pytest.raises(AccessRefused, match=r"'a\.queue' is not in the realm 'b'"):
        tickets.check(writable, WRITE, written("", "a.queue"))


def test_names_that_are_too_long_are_in_no_realm() -> None:
    realm = Realm.of("all", "(a+)+", {})
    assert realm.has("a" * 255)
    assert not realm.has("a" * 10_000 + "b")


def test_a_realm_needs_a_pattern() -> None:
    with pytest.raises(ValueError, match="the pattern of the realm 'a' is no regular expression"):
        Realm.of("a", "(", {})


def test_a_realm_is_of_one_virtual_host() -> None:
    realms = make_realms()
    assert realms.get("other", "a") is None
    with pytest.raises(AccessRefused):
        Tickets(realms, "alice", "other").request("a", [READ])
