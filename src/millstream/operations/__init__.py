"""The operation of apps: what a data directory shows, alert rules over it, and who is notified."""
