"""Spark: captures beside tshark, the spool into Parquet, columns in one process, and our broker both ways."""
