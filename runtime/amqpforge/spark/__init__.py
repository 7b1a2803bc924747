"""AMQP on Spark: messages as a source and a sink, captured traffic as a table.

Spark finds the data sources by the modules ``pyspark_amqp`` and ``pyspark_amqp_capture``; nothing here is
imported by the rest of the package. ``docs/spark.md`` is the guide.
"""
