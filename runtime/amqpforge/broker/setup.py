"""What the configuration of a virtual host names, made when the broker starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .exchanges import Binding, Destination

if TYPE_CHECKING:
    from .config import VirtualHostConfig
    from .host import VirtualHost

__all__ = ["set_up"]


def set_up(host: VirtualHost, config: VirtualHostConfig) -> None:
    """Have all that a configuration names; what is there already is left.

    Raises:
        BrokerError: something is there already in another way, or a binding names what is not there.
    """
    for name, exchange in config.exchanges.items():
        host.declare_exchange(name, exchange)
    for name, queue in config.queues.items():
        host.declare_queue(name, queue)
    for binding in config.bindings:
        if binding.queue is not None:
            destination = Destination.queue(binding.queue)
        else:
            destination = Destination.exchange(binding.to_exchange or "")
        host.bind(Binding(binding.exchange, destination, binding.key, binding.arguments))
