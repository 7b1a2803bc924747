"""A container for the tests of applications: it listens on the loopback interface, on the engine of this
package, and can be told to misbehave.

It is no broker: its queues are in memory and go with it.
"""

from __future__ import annotations

from .gate import Gate
from .queue import Queue
from .rule import Rule
from .script import Script
from .scripted import ScriptedNode
from .seen import SeenFrame
from .served import NodeConnection
from .stored import StoredMessage
from .threaded import ThreadedNode
from .users import Anybody

__all__ = [
    "Anybody",
    "Gate",
    "NodeConnection",
    "Queue",
    "Rule",
    "Script",
    "ScriptedNode",
    "SeenFrame",
    "StoredMessage",
    "ThreadedNode",
]
