"""The Spark session of these tests."""

from __future__ import annotations

from tests.spark.capture.sessions import spark

__all__ = ["spark"]
