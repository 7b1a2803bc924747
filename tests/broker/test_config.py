"""The file that sets up a broker: the example, what is refused with its place, options that override it."""

from __future__ import annotations

import re
import ssl
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from amqpforge.broker.access import Operation, PasswordFile, Permissions, make_credentials
from amqpforge.broker.config import (
    BindingConfig,
    BrokerConfig,
    ListenerConfig,
    LogLevel,
    Start,
    TlsFiles,
    VirtualHostConfig,
    read_config,
)
from amqpforge.broker.limits import BrokerLimits
from amqpforge.broker.settings import ExchangeSettings, Overflow, QueueSettings
from amqpforge.broker.toml_tables import TomlError
from amqpforge.errors import LocalError

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "broker.toml"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "broker.toml"


def read(file: Path, text: str) -> BrokerConfig:
    file.write_text(text, encoding="utf-8")
    return read_config(file)


# ---- the example ----


def test_the_example_says_what_it_looks_like() -> None:
    config = read_config(EXAMPLE)
    config.check()
    folder = EXAMPLE.parent
    assert config.store == f"sqlite:{folder / 'data' / 'broker.db'}"
    assert config.users == folder / "users.toml"
    assert config.mechanisms == ("EXTERNAL", "SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
    plain, secure = config.listeners
    assert plain == ListenerConfig()
    assert secure.tls == TlsFiles(
        certificate=folder / "tls" / "broker.pem",
        key=folder / "tls" / "broker.key",
        client_ca=folder / "tls" / "clients.pem",
    )
    assert (secure.host, secure.port) == ("0.0.0.0", 5671)
    assert set(config.virtual_hosts) == {"/", "test"}
    vhost = config.virtual_hosts["/"]
    assert vhost.exchanges == {
        "events": ExchangeSettings(type="topic", durable=True),
        "archive": ExchangeSettings(type="headers", durable=True),
    }
    assert vhost.queues["orders"].overflow is Overflow.DEAD_LETTER
    assert vhost.queues["orders"].dead_letter_exchange == ""
    assert vhost.queues["dead"] == QueueSettings(durable=True)
    assert vhost.bindings == (
        BindingConfig(exchange="events", queue="orders", key="order.#"),
        BindingConfig(exchange="events", to_exchange="archive", key="#"),
        BindingConfig(
            exchange="archive", queue="dead", arguments={"x-match": "all", "region": "north", "attempts": 3}
        ),
    )
    assert vhost.permissions["shop"] == Permissions.of(write="events|orders", read="orders")
    assert config.access().may("alice", "/", Operation.CONFIGURE, "orders")
    assert not config.access().may("alice", "test", Operation.READ, "orders")


def test_the_limits_and_times_of_the_example_are_the_usual_ones() -> None:
    config = read_config(EXAMPLE)
    assert config.limits == BrokerLimits()
    assert config.grace == BrokerConfig().grace


def keys_of(text: str) -> set[str]:
    return set(re.findall(r"^#? ?([a-z_]+) =", text, re.MULTILINE))


@pytest.mark.parametrize(
    "kind",
    [BrokerLimits, QueueSettings, ExchangeSettings, TlsFiles, ListenerConfig, BindingConfig, BrokerConfig],
)
def test_the_example_names_everything_that_can_be_said(kind: type) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    tables = set(re.findall(r"[\w]+", " ".join(re.findall(r"^\[.*\]$", text, re.MULTILINE))))
    # An exclusive queue belongs to a connection, so a file cannot declare one.
    names = {field.name for field in fields(kind)} - {"exclusive"}
    assert names <= keys_of(text) | tables


def test_an_empty_file_is_a_broker_for_this_machine(file: Path) -> None:
    config = read(file, "")
    assert config == BrokerConfig()
    config.check()
    assert config.listeners == (ListenerConfig(host="127.0.0.1", port=5672),)
    assert config.store is None
    assert config.virtual_hosts == {"/": VirtualHostConfig()}
    assert config.authenticator().mechanisms == ("ANONYMOUS", "PLAIN")
    assert config.access().is_open


# ---- what is refused ----

QUEUE = '[virtual_hosts."/".queues.q]\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("lisener = 1", "lisener: is not known here; known are allow_anonymous, "),
        ("log_level = 'loud'", "log_level: is 'loud'; possible is 'debug', 'info', 'warning', 'error'"),
        ("store = 'postgres:x'", "store: a store is memory, or sqlite: and the name of a file, not 'post"),
        ("store = 'sqlite:'", "store: the file of the store is empty or holds a NUL"),
        ("store = 'sqlite:~nobody-here/b.db'", "store: the file of the store names the home of a"),
        ("users = ''", "users: is empty or holds a NUL character, and should name a file"),
        ('users = "a\\u0000"', "users: is empty or holds a NUL character, and should name a file"),
        ("users = '~nobody-here/u'", "users: names the home of a user who is not known: '~nobody-here/u'"),
        ("users = 1", "users: is a whole number, not a string"),
        ("mechanisms = 'PLAIN'", "mechanisms: is a string, not an array"),
        ("mechanisms = ['PLAIN', 2]", "mechanisms[1]: is a whole number, not a string"),
        ("allow_anonymous = 1", "allow_anonymous: is a whole number, not true or false"),
        ("listeners = [5]", "listeners[0]: is a whole number, not a table: write it as [[listeners]]"),
        ("[listeners]", "listeners: is a table, not an array"),
        ("[[listeners]]\n[[listeners]]\nport = 65536", "listeners[1].port: is 65536; possible is 0 to 65535"),
        ("[[listeners]]\nport = true", "listeners[0].port: is true or false, not a whole number"),
        ("[[listeners]]\nport = 1.5", "listeners[0].port: is a number, not a whole number"),
        ("[[listeners]]\nport = 1979-05-27", "listeners[0].port: is a date or a time, not a whole number"),
        ("[[listeners]]\nhost = ''", "listeners[0].host: is empty; for all interfaces write"),
        ("[[listeners]]\nhots = 'a'", "listeners[0].hots: is not known here; known are host, port, tls"),
        ("[[listeners]]\ntls = {}", "listeners[0].tls.certificate: is missing"),
        ("[[listeners]]\ntls = {certificate = 'c', client_required = true}",
         "listeners[0].tls.client_required: needs client_ca"),
        ("[[listeners]]\ntls = {certificate = 'c', start = 'later'}",
         "tls.start: is 'later'; possible is 'at-once', 'offered', 'required'"),
        ("[limits]\nqueues = 0", "limits.queues: is 0; possible is 1 to"),
        ("[limits]\nframe_size = 511", "limits: the limit frame_size is 512 to 4294967295"),
        ("[limits]\nhandshake_timeout = 0", "limits.handshake_timeout: is 0; possible are seconds, above 0"),
        ("[limits]\nquues = 1", "limits.quues: is not known here; known are bindings, connections, "),
        ("[grace]\nidle = 0.0", "grace.idle: is 0; possible are seconds, above 0"),
        ("[grace]\nshutdown = -1", "grace.shutdown: is -1; possible are seconds, 0 or more"),
        ("[grace]\nshutdown = nan", "grace.shutdown: is nan; possible are seconds"),
        ("[grace]\nshutdown = inf", "grace.shutdown: is inf; possible are seconds"),
        ("[grace]\nshutdown = '1'", "grace.shutdown: is a string, not a number"),
        ("[virtual_hosts]\na = 1", "virtual_hosts.a: is a whole number, not a table"),
        ('[virtual_hosts.""]', 'virtual_hosts."": a name is 1 to 255 octets of printable characters'),
        ('[virtual_hosts."/"]\nqueue = {}', 'virtual_hosts."/".queue: is not known here; known are '),
        (f'[virtual_hosts."/".queues.{"q" * 256}]', "a name is 1 to 255 octets"),
        ('[virtual_hosts."/".queues."a\\tb"]', "a name is 1 to 255 octets of printable characters"),
        (QUEUE + "exclusive = true", 'virtual_hosts."/".queues.q.exclusive: is not known here'),
        (QUEUE + "durable = 'yes'", 'virtual_hosts."/".queues.q.durable: is a string, not true or false'),
        (QUEUE + "max_length = 0", "queues.q.max_length: is 0; possible is 1 to"),
        (QUEUE + "priority_levels = 257", "queues.q.priority_levels: is 257; possible is 1 to 256"),
        (QUEUE + "message_ttl = -0.5", "queues.q.message_ttl: is -0.5; possible are seconds, 0 or more"),
        (QUEUE + "expires = 0", "queues.q.expires: is 0; possible are seconds, above 0"),
        (QUEUE + "overflow = 'drop'", "queues.q.overflow: is 'drop'; possible is 'reject', 'drop-oldest', "),
        (QUEUE + "overflow = 'dead-letter'", "queues.q: overflow into a dead-letter exchange needs"),
        ('[virtual_hosts."/".exchanges.e]\narguments = {a = [1]}', "exchanges.e.arguments.a: is no string"),
        ('[virtual_hosts."/".exchanges.e]\nkind = "x"', "exchanges.e.kind: is not known here"),
        ('[[virtual_hosts."/".bindings]]\nqueue = "q"', 'virtual_hosts."/".bindings[0].exchange: is missing'),
        ('[[virtual_hosts."/".bindings]]\nexchange = "e"', "bindings[0]: needs either queue or to_exchange"),
        ('[[virtual_hosts."/".bindings]]\nexchange = "e"\nqueue = "q"\nto_exchange = "e"',
         "bindings[0]: needs either queue or to_exchange"),
        ('[virtual_hosts."/".permissions.a]\nread = "("',
         'virtual_hosts."/".permissions.a: the pattern of read is no regular expression'),
        ('[virtual_hosts."/".permissions.a]\nreed = ""', "permissions.a.reed: is not known here; known are"),
        ("listeners = [", "is no TOML: "),
        ("a = " + "[" * 5000, "is no TOML: "),
    ],
)  # fmt: skip
def test_what_is_refused_with_its_place(file: Path, text: str, problem: str) -> None:
    with pytest.raises(TomlError) as caught:
        read(file, text)
    assert str(caught.value).startswith(f"{file}: ")
    assert problem in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_without_users_this_machine_only(file: Path, host: str) -> None:
    read(file, f"[[listeners]]\nhost = '{host}'").check()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "broker.example"])
def test_without_users_nobody_from_outside(file: Path, host: str) -> None:
    text = f"[[listeners]]\n[[listeners]]\nhost = '{host}'"
    with pytest.raises(LocalError, match=f"without users everybody who reaches {host} may do everything"):
        read(file, text).check()
    read(file, f"allow_anonymous = true\n{text}").check()
    read(file, f"users = 'u.toml'\n{text}").check()


def test_anonymous_clients_beside_users_need_permissions(file: Path) -> None:
    text = "users = 'u.toml'\nallow_anonymous = true\n"
    with pytest.raises(LocalError, match="give permissions to each user, and to 'anonymous'"):
        read(file, text).check()
    read(file, text + '[virtual_hosts."/".permissions.anonymous]\nread = "news"').check()


def test_users_may_come_from_the_program(file: Path) -> None:
    read(file, "mechanisms = ['PLAIN']\n[[listeners]]\nhost = '0.0.0.0'").check(has_users=True)
    with pytest.raises(LocalError, match="give permissions to each user"):
        read(file, "allow_anonymous = true").check(has_users=True)


def test_mechanisms_without_users(file: Path) -> None:
    with pytest.raises(LocalError, match="no file of users is named"):
        read(file, "mechanisms = ['PLAIN']").check()


# ---- what it makes ----


def test_users_are_read_from_the_file_beside_it(file: Path) -> None:
    users = PasswordFile(file.parent / "users.toml")
    users.add(make_credentials("alice", "pencil", kinds=["SCRAM-SHA-256"], iterations=4096))
    config = read(file, "users = 'users.toml'\nallow_anonymous = true")
    authenticator = config.authenticator()
    assert authenticator.check_password("alice", "pencil") == "alice"
    assert authenticator.mechanisms == ("EXTERNAL", "SCRAM-SHA-256", "PLAIN", "ANONYMOUS")
    assert read(file, "users = 'users.toml'\nmechanisms = ['PLAIN']").authenticator().mechanisms == ("PLAIN",)
    with pytest.raises(TomlError, match=r"none\.toml: cannot be read"):
        read(file, "users = 'none.toml'").authenticator()


def test_permissions_anywhere_close_everything_else(file: Path) -> None:
    access = read(file, '[virtual_hosts.test.permissions.anonymous]\nread = ".*"').access()
    assert not access.may_enter("anonymous", "/")
    assert access.may("anonymous", "test", Operation.READ, "q")
    assert not access.may("anonymous", "test", Operation.WRITE, "q")


def test_numbers_may_be_whole_where_they_need_not_be(file: Path) -> None:
    config = read(file, "[grace]\nidle = 30\n[limits]\nhandshake_timeout = 2.5")
    assert config.grace.idle == 30.0
    assert config.limits.handshake_timeout == 2.5


def test_absolute_names_and_homes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    config = read(file, "store = 'sqlite:/var/b.db'\nusers = '~/users.toml'")
    assert config.store == "sqlite:/var/b.db"
    assert config.users == Path("/home/someone/users.toml")
    assert read(file, "store = 'memory'").store == "memory"


# ---- options of the command line ----


def test_options_override_the_file(file: Path) -> None:
    config = read(
        file, "store = 'memory'\nlog_level = 'error'\n[[listeners]]\nport = 1\n[[listeners]]\nport = 2"
    )
    assert config.overridden() == config
    changed = config.overridden(
        port=0,
        store="sqlite:x.db",
        users=Path("u.toml"),
        log_level=LogLevel.DEBUG,
        tls_certificate=Path("c.pem"),
    )
    assert changed.listeners == (ListenerConfig(port=0, tls=TlsFiles(certificate=Path("c.pem"))),)
    assert (changed.store, changed.users, changed.log_level) == (
        "sqlite:x.db",
        Path("u.toml"),
        LogLevel.DEBUG,
    )
    assert [one.port for one in config.overridden(log_level=LogLevel.INFO).listeners] == [1, 2]
    assert config.overridden(host="::1").listeners == (ListenerConfig(host="::1", port=1),)


def test_a_certificate_of_the_command_line_is_for_all_listeners(file: Path) -> None:
    config = read(
        file, "[[listeners]]\n[[listeners]]\ntls = {certificate = 'c', key = 'k', start = 'required'}"
    )
    first, second = config.overridden(tls_certificate=Path("new"), tls_key=Path("key")).listeners
    assert first.tls == TlsFiles(certificate=Path("new"), key=Path("key"))
    assert second.tls == TlsFiles(certificate=Path("new"), key=Path("key"), start=Start.REQUIRED)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tls_key": Path("k")}, "a TLS key needs its certificate"),
        ({"store": "disk"}, "a store is memory, or sqlite:"),
        ({"port": 65_536}, "a port is 0 to 65535, not 65536"),
    ],
)
def test_options_that_are_not_possible(options: dict[str, object], problem: str) -> None:
    with pytest.raises(LocalError, match=problem):
        BrokerConfig().overridden(**options)  # type: ignore[arg-type]


# ---- TLS ----


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate ``c.pem``, its key ``k.pem``, and the key encrypted, ``e.pem``."""
    folder = tmp_path_factory.mktemp("tls")
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made = ["-subj", "/CN=localhost", "-keyout", "k.pem", "-out", "c.pem"]
    subprocess.run([*make, *made], cwd=folder, check=True, capture_output=True)
    encrypt = ["openssl", "ec", "-aes256", "-passout", "pass:x", "-in", "k.pem", "-out", "e.pem"]
    subprocess.run(encrypt, cwd=folder, check=True, capture_output=True)
    return folder


def test_a_context_is_made_of_the_files(pem: Path) -> None:
    certificate, key = pem / "c.pem", pem / "k.pem"
    context = TlsFiles(certificate=certificate, key=key).context()
    assert context.verify_mode is ssl.CERT_NONE
    asking = TlsFiles(certificate=certificate, key=key, client_ca=certificate)
    assert asking.context().verify_mode is ssl.CERT_OPTIONAL
    assert len(asking.context().get_ca_certs()) == 1
    strict = TlsFiles(certificate=certificate, key=key, client_ca=certificate, client_required=True)
    assert strict.context().verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (
            ("none.pem", "k.pem", None),
            r"certificate .*none\.pem with the key .*k\.pem cannot be used: No such file",
        ),
        (("c.pem", None, None), r"certificate .*c\.pem cannot be used: "),
        (("c.pem", "e.pem", None), r"certificate .*c\.pem with the key .*e\.pem cannot be used: "),
        (("c.pem", "k.pem", "none.pem"), r"authorities in .*none\.pem cannot be used: No such file"),
        (("c.pem", "k.pem", "k.pem"), r"authorities in .*k\.pem cannot be used: "),
    ],
)
def test_files_of_tls_that_cannot_be_used(pem: Path, names: tuple[str | None, ...], problem: str) -> None:
    certificate, key, client_ca = (None if name is None else pem / name for name in names)
    files = TlsFiles(certificate=certificate or pem, key=key, client_ca=client_ca)
    with pytest.raises(LocalError, match=problem):
        files.context()
