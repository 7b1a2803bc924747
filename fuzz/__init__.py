"""Fuzzing of all decoders: ``python -m fuzz -max_total_time=60`` (needs the extra ``fuzz``)."""
