"""Batches: plan, run, done. No Spark in here."""
