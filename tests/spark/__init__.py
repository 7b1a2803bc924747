"""What runs on Spark."""
