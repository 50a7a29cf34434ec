"""Alerts: conditions per key, events with a stable format, and notifications that are grouped as in Alertmanager."""
