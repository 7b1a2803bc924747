"""Exchanges, bindings and routing: which queues a message goes to. Nothing here stores, reads or writes."""

from __future__ import annotations

from .binding import Binding, Destination, DestinationKind
from .chain import Chain, Step
from .exchange import Exchange, settings_from_data, settings_to_data
from .matcher import Matcher
from .registry import ExchangeFactory, exchange_types, register_exchange_type
from .wiring import Named, Removed, Wiring

__all__ = [
    "Binding",
    "Chain",
    "Destination",
    "DestinationKind",
    "Exchange",
    "ExchangeFactory",
    "Matcher",
    "Named",
    "Removed",
    "Step",
    "Wiring",
    "exchange_types",
    "register_exchange_type",
    "settings_from_data",
    "settings_to_data",
]
