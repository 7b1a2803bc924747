"""``python -m amqpforge_generator``: the same command as ``amqpforge-generate``."""

from __future__ import annotations

import sys

from amqpforge_generator.cli import main

if __name__ == "__main__":
    sys.exit(main())
