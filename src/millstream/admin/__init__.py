"""Administration of an app: upgrade, savepoints, rescaling, reset, dead letter replay."""
