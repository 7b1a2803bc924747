"""Managing the broker."""
