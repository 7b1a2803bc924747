"""What addresses mean."""

from __future__ import annotations

import pytest

from amqpforge.broker.amqp_1_0.addresses import Address, host_of, parse_address, queue_address
from amqpforge.broker.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("orders", Address("orders", queue="orders", exchange="", key="orders", is_bare=True)),
        ("a/b%2F", Address("a/b%2F", queue="a/b%2F", exchange="", key="a/b%2F", is_bare=True)),
        ("/queues/a%2Fb%20c", Address("/queues/a%2Fb%20c", queue="a/b c")),
        ("/queues/%C3%A4", Address("/queues/%C3%A4", queue="ä")),
        ("/exchanges/amq.topic", Address("/exchanges/amq.topic", exchange="amq.topic")),
        ("/exchanges/e/eu.%23", Address("/exchanges/e/eu.%23", exchange="e", key="eu.#")),
        ("/exchanges/e/", Address("/exchanges/e/", exchange="e", key="")),
    ],
)
def test_each_form_of_an_address(text: str, meant: Address) -> None:
    assert parse_address(text) == meant


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("/queues/", "none of the known forms"),
        ("/queues/a/b", "%2F"),
        ("/exchanges/", "none of the known forms"),
        ("/exchanges//k", "none of the known forms"),
        ("/exchanges/e/k/l", "%2F"),
        ("/topics/t", "none of the known forms"),
        ("/queues/50%", "'%'"),
        ("/queues/%zz1", "'%zz1'"),
        ("/queues/%ff", "octet 0"),
        ("q" * 5000, "5000 characters"),
    ],
)
def test_what_is_wrong_with_an_address_is_told(text: str, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        parse_address(text)


@pytest.mark.parametrize("name", ["plain", "a/b", "50%", "ä ö", "a?b#c", "%2F", "\x00"])
def test_the_address_of_a_queue_leads_to_it(name: str) -> None:
    assert parse_address(queue_address(name)).queue == name


def test_the_hostname_may_name_a_virtual_host() -> None:
    assert host_of(None) is None
    assert host_of("broker.example") is None
    assert host_of("vhost:orders") == "orders"
    assert host_of("vhost:a%2Fb") == "a/b"
    with pytest.raises(InvalidArgument):
        host_of("vhost:%")


def test_the_management_node_is_known() -> None:
    assert parse_address("$management").is_management
    assert not parse_address("$management2").is_management
