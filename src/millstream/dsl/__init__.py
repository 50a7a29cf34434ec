"""What users write: thin handles, one type for each grammatical state, whose verbs build plan nodes."""
