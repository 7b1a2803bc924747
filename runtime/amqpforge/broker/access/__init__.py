"""Who a client is, and what it may do."""

from __future__ import annotations

from .credentials import ANONYMOUS, KINDS, ScryptKey, StoredUser, make_credentials
from .passwords import PasswordFile
from .permissions import EVERYTHING, Access, Operation, Permissions, written
from .realms import Realm, Realms, Tickets
from .users import MECHANISMS, Users, UsersAuthenticator

__all__ = [
    "ANONYMOUS",
    "EVERYTHING",
    "KINDS",
    "MECHANISMS",
    "Access",
    "Operation",
    "PasswordFile",
    "Permissions",
    "Realm",
    "Realms",
    "ScryptKey",
    "StoredUser",
    "Tickets",
    "Users",
    "UsersAuthenticator",
    "make_credentials",
    "written",
]
