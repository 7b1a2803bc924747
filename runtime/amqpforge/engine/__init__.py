"""The AMQP 1.0 engine: endpoints of connections, sessions and links, without I/O, clock or threads."""
