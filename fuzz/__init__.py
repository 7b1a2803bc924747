"""Fuzzing of the AMQP 1.0 decoder: ``python -m fuzz -max_total_time=60`` (needs the extra ``fuzz``)."""
