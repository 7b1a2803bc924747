"""Conversations with other people's AMQP software: Apache Qpid Proton, rhea, RabbitMQ."""
