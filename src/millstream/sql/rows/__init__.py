"""Row formats: bytes of a topic to columns and back."""
