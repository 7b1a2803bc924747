"""Speed of the generated AMQP 1.0 package beside two other AMQP stacks: ``python -m benchmarks``."""
