"""Makes ``format("amqp_capture")`` known to Spark, which looks for modules named ``pyspark_*``."""

from __future__ import annotations

from amqpforge.spark.capture.source import CaptureDataSource as DefaultSource

__all__ = ["DefaultSource"]
