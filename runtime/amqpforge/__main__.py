"""`python -m amqpforge`: the same as the `amqpforge` command."""

from __future__ import annotations

import sys

from amqpforge.cli import main

if __name__ == "__main__":
    sys.exit(main())
