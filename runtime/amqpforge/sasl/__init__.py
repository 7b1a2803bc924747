"""SASL mechanisms (RFC 4422), both sides, without I/O.

How their octets are carried is a matter of the protocol that uses them.
"""

from __future__ import annotations

from .authenticator import Anybody, Authenticator, UserStore
from .choice import MECHANISMS, READABLE, Credentials, choose, offer, serve
from .oauth import OAuthClient, OAuthServer
from .saslprep import saslprep
from .scram import ScramClient, ScramKeys
from .scram_server import ScramServer
from .simple import AnonymousClient, AnonymousServer, ExternalClient, ExternalServer, PlainClient, PlainServer
from .steps import Authenticated, ClientMechanism, Computed, ServerMechanism, ServerReply, SystemFailure, Work

__all__ = [
    "MECHANISMS",
    "READABLE",
    "AnonymousClient",
    "AnonymousServer",
    "Anybody",
    "Authenticated",
    "Authenticator",
    "ClientMechanism",
    "Computed",
    "Credentials",
    "ExternalClient",
    "ExternalServer",
    "OAuthClient",
    "OAuthServer",
    "PlainClient",
    "PlainServer",
    "ScramClient",
    "ScramKeys",
    "ScramServer",
    "ServerMechanism",
    "ServerReply",
    "SystemFailure",
    "UserStore",
    "Work",
    "choose",
    "offer",
    "saslprep",
    "serve",
]
