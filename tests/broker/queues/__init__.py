"""The queues of the broker."""
