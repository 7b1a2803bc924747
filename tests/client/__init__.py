"""Tests of what applications use: messages, URLs, connections."""
