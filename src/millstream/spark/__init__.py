"""Batches as Spark jobs: the only place that knows Spark."""
