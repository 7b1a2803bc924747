"""Performatives whose fields tests fill with plain numbers, where the package has types of their own."""

from __future__ import annotations

from typing import Any, Final

from amqpforge_protocol import amqp_1_0

Open: Final[Any] = amqp_1_0.Open
Begin: Final[Any] = amqp_1_0.Begin
Attach: Final[Any] = amqp_1_0.Attach
Flow: Final[Any] = amqp_1_0.Flow
Transfer: Final[Any] = amqp_1_0.Transfer
Disposition: Final[Any] = amqp_1_0.Disposition
Detach: Final[Any] = amqp_1_0.Detach
End: Final[Any] = amqp_1_0.End
Close: Final[Any] = amqp_1_0.Close
Error: Final[Any] = amqp_1_0.Error
