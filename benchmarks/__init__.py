"""Speed of the generated AMQP 1.0 package, beside two other AMQP stacks for Python: ``python -m benchmarks``."""
