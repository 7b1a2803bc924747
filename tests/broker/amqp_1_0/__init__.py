"""The part of the broker that speaks AMQP 1.0."""
