"""URLs: what they name, what is assumed, and that a password shows up nowhere."""

from __future__ import annotations

import copy
import traceback
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqpforge.errors import AmqpforgeError
from amqpforge.url import Url, UrlError, parse_url

SECRET = "s3cret"


def test_a_full_url() -> None:
    url = parse_url("amqps://alice:p%40ss@broker.example:5999/sales%2Feu")
    assert url == Url(
        scheme="amqps",
        host="broker.example",
        port=5999,
        username="alice",
        password="p@ss",
        virtual_host="sales/eu",
    )
    assert (url.tls, url.websocket, url.resource) == (True, False, None)


def test_scheme_and_host_are_enough() -> None:
    assert parse_url("amqp://localhost") == Url("amqp", "localhost", 5672)
    assert parse_url("AMQP://localhost") == Url("amqp", "localhost", 5672)


@pytest.mark.spec("T-HDR-023")
def test_a_port_that_is_left_out_is_that_of_the_scheme() -> None:
    assert parse_url("amqp://h").port == 5672
    assert parse_url("amqps://h").port == 5671
    assert parse_url("amqp+ws://h").port == 80
    assert parse_url("amqp+wss://h").port == 443
    assert parse_url("amqps://h:/v").port == 5671
    assert parse_url("amqps://h:5672").port == 5672


@pytest.mark.parametrize(
    ("scheme", "tls", "websocket"),
    [
        ("amqp", False, False),
        ("amqps", True, False),
        ("amqp+ws", False, True),
        ("amqp+wss", True, True),
    ],
)
def test_what_a_scheme_means(scheme: str, tls: bool, websocket: bool) -> None:
    url = parse_url(f"{scheme}://h")
    assert (url.scheme, url.tls, url.websocket) == (scheme, tls, websocket)


@pytest.mark.parametrize(
    ("path", "virtual_host"),
    [
        ("", None),
        ("/", None),
        ("/sales", "sales"),
        ("/%2F", "/"),
        ("/%2f", "/"),
        ("/vhost:sales", "vhost:sales"),
        ("/vhost:%2F", "vhost:/"),
        ("/caf%C3%A9", "café"),
        ("/a+b", "a+b"),
        ("/100%25", "100%"),
    ],
)
def test_the_path_is_the_virtual_host(path: str, virtual_host: str | None) -> None:
    assert parse_url(f"amqp://h{path}").virtual_host == virtual_host


def test_the_hostname_of_open_is_the_virtual_host_as_given_else_the_host() -> None:
    assert parse_url("amqp://broker:1234").hostname == "broker"
    assert parse_url("amqp://broker/").hostname == "broker"
    assert parse_url("amqp://broker/sales").hostname == "sales"
    assert parse_url("amqp://broker/vhost:sales").hostname == "vhost:sales"


def test_path_and_query_of_a_websocket_are_its_request() -> None:
    assert parse_url("amqp+ws://h").resource == "/"
    url = parse_url("amqp+wss://u@h:8443/$servicebus/websocket?tenant=7%20x")
    assert (url.resource, url.virtual_host, url.port) == ("/$servicebus/websocket?tenant=7%20x", None, 8443)
    assert parse_url("amqp+ws://h?x=1").resource == "/?x=1"


@pytest.mark.parametrize(
    ("place", "host", "port"),
    [
        ("[::1]", "::1", 5672),
        ("[::1]:99", "::1", 99),
        ("[2001:db8::7]:", "2001:db8::7", 5672),
        ("[fe80::1%25eth0]:5", "fe80::1%eth0", 5),
        ("192.0.2.1:65535", "192.0.2.1", 65535),
        ("my_host-1.example.", "my_host-1.example.", 5672),
        ("bücher.example:1", "bücher.example", 1),
    ],
)
def test_hosts(place: str, host: str, port: int) -> None:
    url = parse_url(f"amqp://{place}/v")
    assert (url.host, url.port, url.virtual_host) == (host, port, "v")


@pytest.mark.parametrize(
    ("user", "username", "password"),
    [
        ("", None, None),
        ("alice@", "alice", None),
        ("alice:@", "alice", ""),
        ("alice:a:b@", "alice", "a:b"),
        ("alice:p@ss@", "alice", "p@ss"),
        ("al%3Aice:%2F%3F%23%40%25+@", "al:ice", "/?#@%+"),
        ("%C3%A9:%E2%82%AC@", "é", "€"),
    ],
)
def test_user_and_password(user: str, username: str | None, password: str | None) -> None:
    url = parse_url(f"amqp://{user}h:1")
    assert (url.username, url.password, url.host) == (username, password, "h")


REFUSED: list[tuple[Any, str, str]] = [
    (b"amqp://h", "text", "give a str"),
    ("amqp://h /v", "text", "blank"),
    ("amqp://h\n", "text", "blank"),
    ("amqp://h/\x00", "text", "control"),
    ("", "scheme", "begins with amqp://, amqps://"),
    ("localhost:5672", "scheme", "missing or not known"),
    (f"u:{SECRET}@h", "scheme", "missing or not known"),
    (f"http://u:{SECRET}@h", "scheme", "missing or not known"),
    (f"{SECRET}://h", "scheme", "missing or not known"),
    ("amqp://", "host", "missing"),
    ("amqp:///v", "host", "missing"),
    (f"amqp://u:{SECRET}@:5672", "host", "missing"),
    ("amqp://a%20b", "host", "no name of a host"),
    ("amqp://a\\b", "host", "no name of a host"),
    (f"amqp://u:{SECRET}@a:b:c", "host", "in brackets"),
    ("amqp://::1", "host", "in brackets"),
    ("amqp://[::1", "host", "close"),
    ("amqp://[::1]x", "host", "close"),
    ("amqp://[h]", "host", "not an IPv6 address"),
    ("amqp://[127.0.0.1]", "host", "not an IPv6 address"),
    ("amqp://[fe80::1%25]", "host", "not an IPv6 address"),
    ("amqp://[fe80::1%25a%5D]", "host", "not an IPv6 address"),
    ("amqp://[fe80::1%eth0]", "host", "%25"),
    ("amqp://h:0", "port", "1 to 65535"),
    ("amqp://h:65536", "port", "1 to 65535"),
    ("amqp://h:-1", "port", "1 to 65535"),
    ("amqp://h:٣", "port", "1 to 65535"),
    ("amqp://h:" + "9" * 5000, "port", "1 to 65535"),
    (f"amqp://u:{SECRET}", "port", "1 to 65535"),
    (f"amqp://u:{SECRET}/x@h", "path", "%2F"),
    ("amqp://u:1234/x@h", "path", "%2F"),
    (f"amqp://u:1?{SECRET}@h", "path", "%3F"),
    (f"amqp://u:1#{SECRET}@h", "path", "%23"),
    (f"amqp://:{SECRET}@h", "user name", "empty"),
    ("amqp://@h", "user name", "empty"),
    ("amqp://u%:x@h", "user name", "%25"),
    (f"amqp://u:{SECRET}%zz@h", "password", "%25"),
    (f"amqp://u:{SECRET}%ff@h", "password", "UTF-8"),
    ("amqp://h/%e9", "path", "UTF-8"),
    ("amqp://h/a/b", "path", "%2F"),
    ("amqp://h/a/", "path", "%2F"),
    (f"amqp://h/v?password={SECRET}", "query", "arguments"),
    ("amqp://h/v?", "query", "arguments"),
    (f"amqp+ws://h/v#{SECRET}", "fragment", "means nothing"),
]


@pytest.mark.parametrize(("text", "part", "hint"), REFUSED)
def test_an_error_names_the_part_and_never_the_password(text: Any, part: str, hint: str) -> None:
    with pytest.raises(UrlError) as caught:
        parse_url(text)
    assert caught.value.part == part
    assert str(caught.value).startswith(f"the {part} of the URL ")
    assert hint in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, AmqpforgeError)
    assert SECRET not in "".join(traceback.format_exception_only(caught.value))
    chained = caught.value.__cause__ or (not caught.value.__suppress_context__ and caught.value.__context__)
    assert not chained


def test_the_password_is_in_no_text() -> None:
    url = parse_url(f"amqps://alice:{SECRET}@h/v")
    assert str(url) == "amqps://alice@h:5671/v"
    for text in (str(url), repr(url), f"{url}", f"{[url]}", f"{copy.copy(url)!r}"):
        assert SECRET not in text
    assert url.password == SECRET


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        (f"token={SECRET}", "token=..."),
        (f"a=1&sig={SECRET}&b=", "a=...&sig=...&b=..."),
        (SECRET, "..."),
        (f"{SECRET}&x={SECRET}=?", "...&x=..."),
        ("", ""),
    ],
)
def test_the_query_of_a_websocket_is_shown_without_its_values(query: str, shown: str) -> None:
    url = parse_url(f"amqp+wss://alice@h/a?{query}")
    assert str(url) == f"amqp+wss://alice@h:443/a?{shown}"
    for text in (str(url), repr(url), f"{url}", f"{[url]}", f"{copy.copy(url)!r}"):
        assert SECRET not in text
    assert url.resource == f"/a?{query}"
    assert parse_url(url.with_secrets()) == url


def test_a_url_is_a_value() -> None:
    url = parse_url("amqp://a:b@h")
    assert url == parse_url("amqp://a:b@h:5672/")
    assert url != parse_url("amqp://a:c@h")
    assert hash(url) == hash(parse_url("amqp://a:b@h:5672/"))
    with pytest.raises(AttributeError):
        url.host = "other"  # type: ignore[misc]


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
URLS = st.builds(
    Url,
    scheme=st.sampled_from(["amqp", "amqps"]),
    host=st.sampled_from(["h", "a.example", "::1", "fe80::1%eth0", "192.0.2.1"]),
    port=st.integers(1, 65535),
    username=NAMES,
    password=st.none() | st.just("") | NAMES,
    virtual_host=st.none() | NAMES,
) | st.builds(
    Url,
    scheme=st.sampled_from(["amqp+ws", "amqp+wss"]),
    host=st.just("h"),
    port=st.integers(1, 65535),
    resource=st.sampled_from(["/", "/a/b%20c", "/x?y=z", "/?"]),
)


@settings(deadline=None, derandomize=True, database=None)
@given(URLS)
def test_the_text_of_a_url_is_read_as_the_same(url: Url) -> None:
    assert parse_url(url.with_secrets()) == url
    assert parse_url(str(url)).hostname == url.hostname


@settings(deadline=None, derandomize=True, database=None)
@given(st.text(max_size=30) | st.text("amqps+w:/?#[]@%1a.", max_size=30).map("amqp://".__add__))
def test_any_text_is_a_url_or_a_url_error(text: str) -> None:
    try:
        url = parse_url(text)
    except UrlError:
        return
    assert parse_url(str(url)).hostname == url.hostname
