"""Run batches as Spark jobs, and read and write topics with Spark; only this package imports pyspark."""
