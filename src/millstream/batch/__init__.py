"""Plan batches, run them and mark them as done. Nothing in here imports Spark."""
