"""Metrics of all apps of a data directory."""
