"""How the broker speaks AMQP 1.0: a head for each connection, and the service that they share."""

from __future__ import annotations

from .head import Head
from .service import Management, Service

__all__ = ["Head", "Management", "Service"]
