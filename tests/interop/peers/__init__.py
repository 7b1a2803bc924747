"""Programs that put foreign AMQP stacks under the orders of a test; each runs as a process of its own."""
