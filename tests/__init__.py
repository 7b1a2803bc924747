"""The tests of amqpforge, one folder for each part of the project."""
