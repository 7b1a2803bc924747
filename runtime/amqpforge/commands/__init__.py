"""The subcommands of `amqpforge`, a module each; `amqpforge.cli` has their table."""

from __future__ import annotations
