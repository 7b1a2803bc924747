"""The broker: virtual hosts, queues, exchanges and bindings, whatever dialect its clients speak.

What programs that embed one need is here; each name is imported when it is used first.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .access import PasswordFile, Permissions, make_credentials
    from .broker import Broker
    from .config import (
        BindingConfig,
        BrokerConfig,
        Grace,
        ListenerConfig,
        LogLevel,
        Start,
        TlsFiles,
        VirtualHostConfig,
        read_config,
    )
    from .errors import BrokerError, StoreError
    from .exchanges import Binding, Chain, Destination, Step
    from .limits import BrokerLimits
    from .settings import ExchangeSettings, Overflow, QueueSettings

__all__ = [
    "Binding",
    "BindingConfig",
    "Broker",
    "BrokerConfig",
    "BrokerError",
    "BrokerLimits",
    "Chain",
    "Destination",
    "ExchangeSettings",
    "Grace",
    "ListenerConfig",
    "LogLevel",
    "Overflow",
    "PasswordFile",
    "Permissions",
    "QueueSettings",
    "Start",
    "Step",
    "StoreError",
    "TlsFiles",
    "VirtualHostConfig",
    "make_credentials",
    "read_config",
]

_HOMES = {
    "Binding": "exchanges",
    "Broker": "broker",
    "BrokerError": "errors",
    "BrokerLimits": "limits",
    "Chain": "exchanges",
    "Destination": "exchanges",
    "ExchangeSettings": "settings",
    "Overflow": "settings",
    "PasswordFile": "access",
    "Permissions": "access",
    "QueueSettings": "settings",
    "Step": "exchanges",
    "StoreError": "errors",
    "make_credentials": "access",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f".{_HOMES.get(name, 'config')}", __name__)
    value = globals()[name] = getattr(home, name)
    return value
