"""Who may connect to a test node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from amqpforge.sasl import Authenticator, UserStore

__all__ = ["Anybody", "authenticator_of"]

_ITERATIONS: Final = 4096  # of SCRAM: the least that clients take


class Anybody(Authenticator):
    """Takes every client, also with any name and password."""

    mechanisms: Sequence[str] = ("ANONYMOUS", "PLAIN")

    def check_password(self, username: str, password: str) -> str | None:
        return username

    def may_act_as(self, identity: str, authorization_id: str) -> bool:
        return True


def authenticator_of(users: Mapping[str, str] | None, mechanisms: Sequence[str] | None) -> Authenticator:
    """What decides for these users, None for everybody; with the mechanisms given, or with usual ones."""
    if users is None:
        anybody = Anybody()
        anybody.mechanisms = mechanisms or Anybody.mechanisms
        return anybody
    return UserStore(users, mechanisms=mechanisms or ("SCRAM-SHA-256", "PLAIN"), iterations=_ITERATIONS)
