"""Reading an app's tables from any process on the host: by key, range, window and time."""
