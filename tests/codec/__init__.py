"""Tests of the generated AMQP 1.0 codec."""
