"""The work of each node: a record in, records out. Operators know stores and nothing of Spark."""
