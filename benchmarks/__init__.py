"""Speed of the generated packages beside other AMQP stacks: ``python -m benchmarks``."""
