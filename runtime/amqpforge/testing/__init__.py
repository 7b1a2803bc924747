"""Servers for the tests of applications, which listen on the loopback interface and misbehave on demand: a
container that needs no setting up, and the broker.
"""

from __future__ import annotations

from amqpforge.sasl import Anybody

from .brokerconnection import BrokerConnection
from .brokerqueue import BrokerQueue
from .gate import Gate
from .nodeconnection import NodeConnection
from .queue import Queue
from .rule import Rule
from .script import Script
from .scripted import ScriptedBroker, ScriptedNode
from .seen import SeenFrame
from .stored import StoredMessage
from .threaded import ThreadedBroker, ThreadedNode

__all__ = [
    "Anybody",
    "BrokerConnection",
    "BrokerQueue",
    "Gate",
    "NodeConnection",
    "Queue",
    "Rule",
    "Script",
    "ScriptedBroker",
    "ScriptedNode",
    "SeenFrame",
    "StoredMessage",
    "ThreadedBroker",
    "ThreadedNode",
]
