"""The source: spool, receiver, streams and batches."""
