"""Who may connect to a test node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from amqpforge.sasl import Anybody, Authenticator, UserStore

__all__ = ["authenticator_of"]

_ITERATIONS: Final = 4096  # of SCRAM: the least that clients take


def authenticator_of(users: Mapping[str, str] | None, mechanisms: Sequence[str] | None) -> Authenticator:
    """What decides for these users, None for everybody; with the mechanisms given, or with usual ones."""
    if users is None:
        anybody = Anybody()
        anybody.mechanisms = mechanisms or Anybody.mechanisms
        return anybody
    return UserStore(users, mechanisms=mechanisms or ("SCRAM-SHA-256", "PLAIN"), iterations=_ITERATIONS)
