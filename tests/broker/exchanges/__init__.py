"""Exchanges, bindings and routing."""
