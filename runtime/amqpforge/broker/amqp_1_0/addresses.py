"""What addresses mean: queues, exchanges, the management node, and virtual hosts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from amqpforge.broker.errors import InvalidArgument

__all__ = ["MANAGEMENT", "Address", "host_of", "parse_address", "queue_address"]

MANAGEMENT: Final = "$management"
_HOST: Final = "vhost:"
_QUEUES: Final = "/queues/"
_EXCHANGES: Final = "/exchanges/"
_FORMS: Final = "/queues/NAME, /exchanges/NAME, /exchanges/NAME/KEY, or the bare name of a queue"
_LONGEST: Final = 2048
_BAD_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_LITERAL: Final = "-._~:@!$&'()*+,;="


@dataclass(frozen=True, slots=True)
class Address:
    """A node of a virtual host.

    Attributes:
        text: the address as it was given.
        queue: the name of the queue; None if it is no queue.
        exchange: the name of the exchange; None if it is none.
        key: the routing key; None: each message brings its own.
        is_bare: a name alone, of a queue or else a routing key of the default exchange.
    """

    text: str
    queue: str | None = None
    exchange: str | None = None
    key: str | None = None
    is_bare: bool = False

    @property
    def is_management(self) -> bool:
        """Whether it is the node that manages the virtual host."""
        return self.text == MANAGEMENT


def parse_address(text: str) -> Address:
    """Read an address.

    Names and keys are percent-encoded in ``/queues/`` and ``/exchanges/``, and nowhere else.

    Raises:
        InvalidArgument: it has none of the forms of an address; the text says where it goes wrong.
    """
    if len(text) > _LONGEST:
        raise InvalidArgument(f"an address of {len(text)} characters; it has {_LONGEST} at most")
    if text == MANAGEMENT:
        return Address(text)
    if not text:
        raise InvalidArgument(f"an empty address; give {_FORMS}")
    if not text.startswith("/"):
        return Address(text, queue=text, exchange="", key=text, is_bare=True)
    if text.startswith(_QUEUES):
        name, *more = text.removeprefix(_QUEUES).split("/")
        if not more and name:
            return Address(text, queue=_decoded(text, name))
    elif text.startswith(_EXCHANGES):
        name, *more = text.removeprefix(_EXCHANGES).split("/")
        if name and len(more) <= 1:
            key = _decoded(text, more[0]) if more else None
            return Address(text, exchange=_decoded(text, name), key=key)
    raise InvalidArgument(
        f"the address {text!r:.200} has none of the known forms; give {_FORMS}, with / in names as %2F"
    )


def queue_address(name: str) -> str:
    """The address of a queue."""
    return _QUEUES + quote(name, safe=_LITERAL)


def host_of(hostname: str | None) -> str | None:
    """The virtual host that the hostname of an open names, as ``vhost:NAME``; None: it names none."""
    if hostname is None or not hostname.startswith(_HOST):
        return None
    name = hostname.removeprefix(_HOST)
    return _decoded(hostname, name)


def _decoded(whole: str, part: str) -> str:
    bad = _BAD_PERCENT.search(part)
    if bad is not None:
        raise InvalidArgument(
            f"in {whole!r:.200} no two hexadecimal digits follow the % of {part[bad.start() :]!r:.20}; write "
            "it as %25"
        )
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError as error:
        raise InvalidArgument(
            f"in {whole!r:.200} octet {error.start} of {part!r:.80} is no UTF-8 once it is decoded"
        ) from error
