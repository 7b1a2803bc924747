"""amqpforge: an AMQP engine forged from the protocol's own definitions.

Importing this package loads nothing else: the parts that need the generated protocol package, or anything
heavier, are imported when they are used.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
