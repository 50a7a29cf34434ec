"""State of tasks: stores over one LMDB environment per task."""
