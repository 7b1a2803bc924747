"""Acquiring messages as part of a transaction, which the flow of a receiver asks for (section 4.4.3)."""

from __future__ import annotations

from typing import Final

from amqpforge.engine.flow import SenderFlow
from amqpforge_protocol.amqp_1_0 import Flow, Symbol

__all__ = ["TransactionalFlow"]

_TXN_ID: Final = Symbol("txn-id")


class TransactionalFlow(SenderFlow):
    """The flow state of a sender that also knows which transaction its receiver acquires in.

    Attributes:
        txn_id: the id of the transaction; None: messages are acquired outside of any.
    """

    __slots__ = ("txn_id",)

    def __init__(self, before: SenderFlow) -> None:
        """``before``: what it replaces; a receiver may have given credit there ahead of our attach, and in a
        transaction.
        """
        super().__init__(before.initial_delivery_count)
        self.delivery_count = before.delivery_count
        self.link_credit = before.link_credit
        self.drain = before.drain
        self.txn_id: object = (before.properties or {}).get(_TXN_ID)

    def restart(self) -> None:
        """Count deliveries from 0 again, which the attach that is about to be sent tells. There are clients
        that count so whatever an attach tells, and would run out of credit as often as they come back.
        """
        self.initial_delivery_count = self.delivery_count = 0

    def told(self, flow: Flow) -> None:
        super().told(flow)
        if flow.properties and _TXN_ID in flow.properties:
            self.txn_id = flow.properties[_TXN_ID]
