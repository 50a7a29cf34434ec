"""The pages, rendered here from the same answers that the API gives."""
