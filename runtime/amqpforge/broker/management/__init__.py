"""Managing a virtual host: what can be asked for and what is answered, whatever carries the question."""

from __future__ import annotations

from .connections import ADMINISTRATION, ManagedConnection
from .manager import Manager
from .rates import WINDOWS, Sampler
from .requests import Reply, Request, status_of

__all__ = [
    "ADMINISTRATION",
    "WINDOWS",
    "ManagedConnection",
    "Manager",
    "Reply",
    "Request",
    "Sampler",
    "status_of",
]
