"""A task: one stage on one partition, run for one batch."""
