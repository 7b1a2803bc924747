"""What a connection is asked to be, and how it comes back when it is lost."""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from amqpforge.engine.settings import ConnectionSettings, SessionSettings
from amqpforge.errors import LocalError
from amqpforge.sasl import Credentials
from amqpforge.url import Url, parse_url
from amqpforge_protocol.amqp_1_0 import MIN_MAX_FRAME_SIZE, Symbol

from .redirects import RedirectedUrl

__all__ = ["Options", "Reconnect", "parse_urls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconnect:
    """How often, and after what pauses, a lost connection is made again.

    The pause ahead of attempt ``n``, from 0, is a random part of ``first_delay * factor ** n``, at least half
    of it, so that many clients of one broker do not come back all at once.

    Attributes:
        first_delay: seconds, more than 0.
        factor: by which pauses grow, at least 1.
        max_delay: the longest pause, in seconds.
        attempts: give up after so many rounds through all URLs without success; None: never.
        give_up_after: give up after so many seconds without a connection; None: never.
        redirects: how many redirects are followed one after another, by the first attempt to connect too; 0:
            none. Credentials are shown wherever the peer sends us: follow those whom you trust, over TLS.
        random: gives numbers from 0 to 1; for tests.
    """

    first_delay: float = 0.1
    factor: float = 2.0
    max_delay: float = 30.0
    attempts: int | None = None
    give_up_after: float | None = None
    redirects: int = 0
    random: Callable[[], float] = field(default=random.random, repr=False)

    def __post_init__(self) -> None:
        """Raises LocalError if a number is out of its range."""
        if self.first_delay <= 0 or self.factor < 1 or self.max_delay < self.first_delay:
            raise LocalError("a reconnect has 0 < first_delay <= max_delay, and a factor of at least 1")
        if self.redirects < 0:
            raise LocalError(f"redirects is how many are followed, 0 or more, not {self.redirects}")

    def _delays(self) -> Iterator[float]:
        """The pauses, in seconds, one ahead of each attempt."""
        whole, attempt = self.first_delay, 0
        while self.attempts is None or attempt < self.attempts:
            yield whole * (0.5 + 0.5 * self.random())
            whole = min(whole * self.factor, self.max_delay)
            attempt += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All about a connection but where it goes: the arguments of ``connect``, checked and completed."""

    credentials: Credentials | None = None
    allow_insecure_plain: bool = False
    ssl: ssl.SSLContext | None = None
    container_id: str = ""
    hostname: str | None = None
    idle_time_out: float | None = 120.0
    timeout: float | None = 30.0
    max_frame_size: int = 65_536
    channel_max: int = 1023
    handle_max: int = 65_535
    max_sasl_frame_size: int = MIN_MAX_FRAME_SIZE
    properties: Mapping[str, Any] = field(default_factory=dict)
    offered_capabilities: Sequence[str] = ()
    desired_capabilities: Sequence[str] = ()
    reconnect: Reconnect | None = None
    record: Path | None = None

    def __post_init__(self) -> None:
        """Raises LocalError if a number is out of its range."""
        for name, seconds in (("timeout", self.timeout), ("idle_time_out", self.idle_time_out)):
            if seconds is not None and seconds <= 0:
                raise LocalError(f"{name} is a number of seconds above 0, or None, not {seconds}")
        if not self.container_id:
            object.__setattr__(self, "container_id", f"amqpforge-{uuid4()}")

    @property
    def redirects(self) -> int:
        """How many redirects are followed one after another."""
        return self.reconnect.redirects if self.reconnect is not None else 0

    def hostname_for(self, url: Url) -> str:
        """What open and SASL name as the host."""
        if isinstance(url, RedirectedUrl):
            return url.hostname
        return self.hostname or url.hostname

    def credentials_for(self, url: Url) -> Credentials:
        """What to show to the server of a URL: what was given, else what stands in the URL.

        Raises:
            LocalError: there is a user without anything that proves it.
        """
        found = self.credentials or Credentials(
            username=url.username,
            password=url.password,
            allow_insecure_plain=self.allow_insecure_plain,
        )
        has_proof = found.password is not None or found.token is not None or found.external
        if found.username is not None and not has_proof and found.mechanisms is None:
            raise LocalError(
                f"the user {found.username!r} has no password: give one, or credentials with a token or "
                "external=True, or leave the user out, which means ANONYMOUS"
            )
        return found

    def settings(self, url: Url) -> ConnectionSettings:
        """The settings of the engine, for a connection to a URL."""
        return ConnectionSettings(
            hostname=self.hostname_for(url),
            max_frame_size=self.max_frame_size,
            channel_max=self.channel_max,
            idle_time_out=self.idle_time_out,
            close_time_out=self.timeout or 30.0,
            properties=self.properties,
            offered_capabilities=tuple(map(Symbol, self.offered_capabilities)),
            desired_capabilities=tuple(map(Symbol, self.desired_capabilities)),
            session=SessionSettings(handle_max=self.handle_max),
        )


def parse_urls(urls: str | Url | Sequence[str | Url]) -> list[Url]:
    """The URLs of one server, or of several of which any will do.

    Raises:
        UrlError: one is malformed.
        LocalError: there is none.
    """
    given = [urls] if isinstance(urls, str | Url) else list(urls)
    if not given:
        raise LocalError("there is no URL to connect to")
    return [url if isinstance(url, Url) else parse_url(url) for url in given]
