"""Tests of message selectors."""
