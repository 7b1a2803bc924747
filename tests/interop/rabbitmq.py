"""A RabbitMQ broker with its plugin of AMQP 1.0, started for the tests alone, on loopback.

It offers PLAIN with the user and password ``guest``, ANONYMOUS (who then is ``guest``), and on the TLS port
EXTERNAL for a client certificate. Queues are set up through AMQP 0-9-1, which the same ports speak.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.interop.certificates import Certificates
from tests.interop.processes import Child, ChildError, child

SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""The broker's own script: the one in ``/usr/sbin`` switches the user and drops the environment."""
WATCH = ["setpriv", "--pdeathsig", "TERM"]
"""What starts the broker, so that it ends with these tests even if they are killed."""
HOST = "127.0.0.1"
USER = PASSWORD = "guest"
START_SECONDS = 90.0
"""Four seconds where nothing else runs, many more where everything does."""
ATTEMPTS = 3
"""A port that was free may be taken by the time the broker listens on it."""
IDLE_TIME_OUT = 3000
"""Milliseconds that the broker announces in its open; it does not insist on them."""
PORT_TAKEN = "eaddrinuse"
READY = "Server startup complete"
PLUGINS = "[rabbitmq_amqp1_0, rabbitmq_auth_mechanism_ssl]."
CONFIGURATION = """\
listeners.tcp.1 = 127.0.0.1:{port}
listeners.ssl.1 = 127.0.0.1:{tls_port}
ssl_options.cacertfile = {tls.authority}
ssl_options.certfile = {tls.server}
ssl_options.keyfile = {tls.server_key}
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = false
ssl_cert_login_from = common_name
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = ANONYMOUS
auth_mechanisms.3 = EXTERNAL
heartbeat = {heartbeat}
log.console = true
log.console.level = info
log.file = false
"""


def what_is_missing() -> str | None:
    """Why there can be no broker here, or None."""
    if not SCRIPT.is_file():
        return f"RabbitMQ is not installed: {SCRIPT} is missing (apt-get install rabbitmq-server)"
    for command in ("epmd", "openssl", WATCH[0]):
        if shutil.which(command) is None:
            return f"the command {command} is missing"
    if find_spec("pika") is None:
        return "pika is not installed (pip install pika): queues are set up with it"
    return None


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker.

    Attributes:
        url: ``amqp://127.0.0.1:port``, without credentials.
        tls_url: ``amqps://localhost:port``.
        certificates: what TLS needs; the client's certificate belongs to the user ``guest``.
    """

    url: str
    tls_url: str
    certificates: Certificates
    process: Child

    @property
    def ca_file(self) -> Path:
        """The authority that signed the broker's certificate, in PEM form."""
        return self.certificates.authority

    def declare(self, queue: str, **arguments: object) -> str:
        """Make an empty classic queue that lives as long as the broker, and return its AMQP 1.0 address.

        ``arguments`` are those of the queue, with ``_`` for ``-``: ``x_queue_type="quorum"``. A queue of that
        name is emptied; it must have the same arguments.
        """
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        with self._channel() as channel:
            channel.queue_declare(queue, durable=True, arguments=named)
            channel.queue_purge(queue)
        return f"/amq/queue/{queue}"

    def depth(self, queue: str) -> int:
        """How many messages are ready in a queue, those aside that are on their way to a consumer."""
        with self._channel() as channel:
            return int(channel.queue_declare(queue, passive=True).method.message_count)

    def publish(self, queue: str, body: bytes, **properties: object) -> None:
        """Put a message into a queue; ``properties`` are those of AMQP 0-9-1 basic content."""
        pika: Any = import_module("pika")
        with self._channel() as channel:
            channel.confirm_delivery()
            channel.basic_publish("", queue, body, pika.BasicProperties(**properties), mandatory=True)

    def get(self, queue: str) -> tuple[bytes, Any] | None:
        """Take a message out of a queue: its body and its AMQP 0-9-1 properties; None when there is none."""
        with self._channel() as channel:
            method, properties, body = channel.basic_get(queue, auto_ack=True)
        return None if method is None else (body, properties)

    @contextmanager
    def _channel(self) -> Iterator[Any]:
        pika: Any = import_module("pika")
        parts = urlsplit(self.url)
        credentials = pika.PlainCredentials(USER, PASSWORD)
        parameters = pika.ConnectionParameters(parts.hostname, parts.port, credentials=credentials)
        with closing(pika.BlockingConnection(parameters)) as connection:
            yield connection.channel()


@contextmanager
def broker(folder: Path, certificates: Certificates) -> Iterator[Broker]:
    """Run a broker in ``folder`` for the time of a ``with`` block.

    Raises:
        ChildError: it does not come up.
    """
    with ExitStack() as running:
        yield _start(running, folder, certificates)


def _start(running: ExitStack, folder: Path, certificates: Certificates) -> Broker:
    """Start a broker that ends with ``running``; with other ports if one was taken meanwhile."""
    for attempt in range(ATTEMPTS):
        with ExitStack() as attempted:
            try:
                started = attempted.enter_context(_started(folder / str(attempt), certificates))
            except ChildError as error:
                if PORT_TAKEN not in str(error):
                    raise
            else:
                running.enter_context(attempted.pop_all())
                return started
    raise ChildError(f"RabbitMQ found its ports taken {ATTEMPTS} times")


@contextmanager
def _started(folder: Path, certificates: Certificates) -> Iterator[Broker]:
    """One attempt. The port mapper is our own child: the one that Erlang starts would outlive the broker."""
    port, tls_port, node_port, mapper_port = _free_ports(4)
    environment = {"ERL_EPMD_PORT": str(mapper_port), "ERL_EPMD_ADDRESS": HOST}
    environment |= _write_configuration(folder, port, tls_port, certificates)
    environment |= {"RABBITMQ_NODENAME": f"test-{port}@localhost", "RABBITMQ_DIST_PORT": str(node_port)}
    mapper = [*WATCH, "epmd", "-port", str(mapper_port), "-address", HOST]
    with (
        child("epmd", mapper, cwd=folder),
        child("RabbitMQ", [*WATCH, str(SCRIPT)], cwd=folder, environment=environment) as process,
    ):
        process.hear_until(lambda line: READY in line, START_SECONDS)
        process.only_keep()
        yield Broker(f"amqp://{HOST}:{port}", f"amqps://localhost:{tls_port}", certificates, process)


def _write_configuration(
    folder: Path, port: int, tls_port: int, certificates: Certificates
) -> dict[str, str]:
    """Write the broker's files and return the environment that leads it to them, and to nothing else."""
    for name in ("mnesia", "log", "home"):
        (folder / name).mkdir(parents=True)
    configuration, plugins = folder / "rabbitmq.conf", folder / "enabled_plugins"
    configuration.write_text(
        CONFIGURATION.format(port=port, tls_port=tls_port, tls=certificates, heartbeat=IDLE_TIME_OUT // 1000)
    )
    plugins.write_text(PLUGINS)
    return {
        "HOME": str(folder / "home"),
        "RABBITMQ_CONFIG_FILE": str(configuration),
        "RABBITMQ_CONF_ENV_FILE": os.devnull,
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on right now."""
    with ExitStack() as held:
        sockets = [held.enter_context(closing(socket.create_server((HOST, 0)))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]
