"""What two opens agree on: the host, the languages, the extensions (section 2.7.1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from amqpforge_protocol.amqp_1_0 import IetfLanguageTag, Milliseconds, Open, Symbol

from .settings import ConnectionSettings

__all__ = ["EN_US", "Agreement", "our_open"]

EN_US: Final = IetfLanguageTag("en-US")
"""The language that everybody has."""


def our_open(settings: ConnectionSettings, container_id: str, idle_time_out: int | None) -> Open:
    """The open that tells the settings; the idle-time-out is in milliseconds."""
    locales = [IetfLanguageTag(locale) for locale in settings.locales]
    return Open(
        container_id=container_id,
        hostname=settings.hostname,
        max_frame_size=settings.max_frame_size,
        channel_max=settings.channel_max,
        idle_time_out=None if idle_time_out is None else Milliseconds(idle_time_out),
        outgoing_locales=[EN_US, *locales] if locales else None,
        incoming_locales=[*locales, EN_US] if locales else None,
        offered_capabilities=list(settings.offered_capabilities) or None,
        desired_capabilities=[*settings.desired_capabilities, *settings.required_capabilities] or None,
        properties=dict(settings.properties) or None,
    )


class Agreement:
    """The settings of one end beside the open of the other."""

    __slots__ = ("_is_server", "_remote", "_settings")

    def __init__(self, settings: ConnectionSettings, remote: Open | None, *, is_server: bool) -> None:
        self._settings = settings
        self._remote = remote
        self._is_server = is_server

    @property
    def hostname(self) -> str | None:
        """The host that the client asked for; if it named none, the one of the server's settings."""
        asked = self._remote.hostname if self._remote is not None and self._is_server else None
        return asked or self._settings.hostname

    @property
    def locale(self) -> str:
        """The language of the texts that we send: the first that the peer wants and we have, else en-US."""
        wanted = self._remote.incoming_locales if self._remote is not None else None
        return _first_of(wanted, (*self._settings.locales, EN_US))

    @property
    def remote_locale(self) -> str:
        """The language of the texts that the peer sends."""
        offered = self._remote.outgoing_locales if self._remote is not None else None
        return _first_of((*self._settings.locales, EN_US), offered)

    @property
    def capabilities(self) -> frozenset[Symbol]:
        """The extensions in use: desired at one end and offered at the other."""
        if self._remote is None:
            return frozenset()
        ours = {*self._settings.desired_capabilities, *self._settings.required_capabilities}
        used = ours.intersection(self._remote.offered_capabilities or ())
        theirs = self._remote.desired_capabilities or ()
        return frozenset(used.union(set(self._settings.offered_capabilities).intersection(theirs)))

    @property
    def missing_capabilities(self) -> list[Symbol]:
        """The extensions that we require and the peer does not offer."""
        if self._remote is None:
            return []
        required = set(self._settings.required_capabilities)
        return sorted(required.difference(self._remote.offered_capabilities or ()))


def _first_of(wanted: Iterable[str] | None, there: Iterable[str] | None) -> str:
    """The first of the languages wanted that is there; case does not count in language tags."""
    present = {str(locale).lower() for locale in there or ()}
    return next((locale for locale in wanted or () if str(locale).lower() in present), EN_US)
